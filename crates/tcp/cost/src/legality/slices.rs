//! Rule 2: a shape or tactic uses no more slices than the fused PEs have, and each digit over slices takes a
//! power of two of them (rings are cut in halves). Also: what is split over PEs must fit the chip.

use tilewright_base::{Diagnostic, Span};
use tilewright_notation::problem::{Digit, Problem};
use tilewright_notation::radix::superscript;

use super::verdict::Verdict;
use crate::groups::PeGroups;
use crate::placed_tactic::product;
use crate::setup::Setup;

pub(super) fn check(setup: &Setup<'_>, problem: &Problem, verdict: &mut Verdict) {
    for shape in problem.shapes.iter().flatten() {
        check_digits(setup, problem, &shape.inter, shape.operand.name(), verdict);
    }
    if let Some(tactic) = &problem.tactic {
        check_digits(setup, problem, &tactic.parallel, "the tactic", verdict);
    }
    check_pe_groups(setup, problem, verdict);
}

fn check_digits(setup: &Setup<'_>, problem: &Problem, inter: &[Digit], who: &str, verdict: &mut Verdict) {
    for digit in inter.iter().filter(|digit| !digit.slots.is_power_of_two()) {
        verdict.diagnostics.push(not_a_power(setup, problem, digit, who));
    }
    let (used, allowed) = (product(inter.iter()), setup.slices());
    if let (true, Some(first), Some(last)) = (used > allowed, inter.first(), inter.last()) {
        verdict.diagnostics.push(too_many(setup, who, used, first.span.to(last.span)));
    }
}

fn not_a_power(setup: &Setup<'_>, problem: &Problem, digit: &Digit, who: &str) -> Diagnostic {
    let name = digit
        .axis
        .map_or("_".to_string(), |axis| format!("{}^{}", problem.axis(axis).name, superscript(digit.stride)));
    Diagnostic::error("tcp/slices", format!("{who} spreads a digit over {} slices", digit.slots))
        .at(digit.span, format!("{} is not a power of two", digit.slots))
        .allowed("powers of two: rings of slices are cut in halves")
        .instead(if digit.slots.next_power_of_two() <= setup.slices() {
            format!("{name}[{}#{}]", digit.live, digit.slots.next_power_of_two())
        } else {
            format!("at most {} slices, the rest of the axis behind the `|`", setup.slices())
        })
}

fn too_many(setup: &Setup<'_>, who: &str, used: u64, span: Span) -> Diagnostic {
    let allowed = setup.slices();
    let more = setup.machine.chip.fused_pes.iter().find(|pes| setup.machine.fused_slices(**pes) >= used);
    let instead = match more {
        Some(pes) => {
            let fused = setup.machine.fused_slices(*pes);
            format!("--pes {pes}, which fuses {fused} slices, or digits of at most {allowed} slices")
        }
        None => {
            format!("move a digit of at least {} behind the `|`", used.div_ceil(allowed).next_power_of_two())
        }
    };
    Diagnostic::error("tcp/slices", format!("{who} uses {used} slices"))
        .at(span, format!("{used} slices"))
        .allowed(format!("{allowed} slices: {} of each of {} PE", setup.machine.pe.slices, setup.fused_pes))
        .instead(instead)
}

fn check_pe_groups(setup: &Setup<'_>, problem: &Problem, verdict: &mut Verdict) {
    let dealt = PeGroups::new(problem);
    verdict.diagnostics.extend(dealt.check(problem));
    let groups = dealt.count(problem);
    let have = setup.machine.pes() / setup.fused_pes;
    if groups > have {
        let axis = problem.axes.iter().rev().find(|axis| axis.pes > 1);
        let span = axis.map_or(problem.span, |axis| axis.span);
        verdict.diagnostics.push(
            Diagnostic::error("tcp/pes", format!("the einsum is split over {groups} PE groups"))
                .at(span, "")
                .allowed(format!(
                    "{have}: {} PEs of the chip, {} fused at a time",
                    setup.machine.pes(),
                    setup.fused_pes
                ))
                .instead("smaller subscripts, or fewer fused PEs (--pes)"),
        );
    }
}
