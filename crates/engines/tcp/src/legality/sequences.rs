//! Rules 6 and 8: the address loops of each operand fit a sequencer, and the fetch does not hold a bank too long.

use tilewright_base::Diagnostic;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_notation::algebra::refine::Clash;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::{MAX_TERMS, Operand, Place};

use arrayvec::ArrayVec;

use super::{Verdict, map_of};
use crate::banks::longest_hold;
use crate::placed::Placed;
use crate::sequencer::{Unfit, fits, read_bytes};
use crate::setup::Setup;

/// Time, lanes and packet of a tactic in a row.
type Order = ArrayVec<Digit, { 4 * MAX_TERMS }>;

pub(super) fn check(setup: &Setup<'_>, problem: &Problem, placed: &Placed, verdict: &mut Verdict) {
    for operand in Operand::ALL {
        let (Some(shape), Some(map)) = (problem.shape(operand), map_of(problem, operand)) else { continue };
        let order = walk(problem, placed, operand);
        match AccessPattern::of_loops(problem, operand, &map, &order) {
            Err(clash) => verdict.diagnostics.push(incompatible(problem, shape, placed, clash)),
            Ok(pattern) => {
                let merged = pattern.merged();
                if let Err(unfit) = fits(setup.machine, &merged) {
                    verdict.diagnostics.push(unfit_loops(setup, shape, &merged, unfit));
                }
                if operand == problem.streamed() {
                    check_banks(setup, shape, placed, &merged, verdict);
                }
                verdict.sequences.push((operand, merged));
            }
        }
    }
}

/// The loops that an operand's sequencer runs: the stream leaves out the repeats that the feed unit serves, the
/// register files leave out lanes, which read side by side, the output leaves out what is summed.
fn walk(problem: &Problem, placed: &Placed, operand: Operand) -> Order {
    let fetched = placed.time.len() - placed.repeat_terms;
    if operand == problem.streamed() {
        placed.time[..fetched].iter().chain(&placed.packet).copied().collect()
    } else if operand == Operand::Out {
        let survives = |digit: &&Digit| digit.axis.is_some_and(|axis| !problem.contracted(axis));
        placed.time.iter().chain(&placed.packet).chain(&placed.lanes).filter(survives).copied().collect()
    } else {
        placed.time.iter().chain(&placed.packet).copied().collect()
    }
}

fn incompatible(problem: &Problem, shape: &Shape, placed: &Placed, clash: Clash) -> Diagnostic {
    let axis = problem.tensor(shape.operand).get(usize::from(clash.axis)).copied();
    let name = axis.map_or("?".to_string(), |axis| problem.axis(axis).name.to_string());
    let digits = placed.time.iter().chain(&placed.packet).chain(&placed.lanes);
    let loop_span = digits.filter(|digit| digit.axis == axis).map(|digit| digit.span).next();
    let stored = shape.inter.iter().chain(&shape.intra).find(|digit| digit.axis == axis);
    let what = format!(
        "{} and the tactic cut axis `{name}` incompatibly: {} against {}",
        shape.operand.name(),
        clash.right,
        clash.left
    );
    let complaint = Diagnostic::error("tcp/refinement", what)
        .at(stored.map_or(shape.span, |digit| digit.span), "stored so")
        .allowed("digits of which one divides the other, so that a loop can follow the memory")
        .instead(format!("sizes of `{name}` in the tactic that divide those of the shape, or the other way round"));
    match loop_span {
        Some(span) => complaint.also(span, "looped so"),
        None => complaint,
    }
}

fn unfit_loops(setup: &Setup<'_>, shape: &Shape, merged: &AccessPattern, unfit: Unfit) -> Diagnostic {
    let who = shape.operand.name();
    let sequencer = &setup.machine.sequencer;
    match unfit {
        Unfit::Entries(entries) => {
            Diagnostic::error("tcp/sequencer", format!("the loops over {who} need {entries} sequencer entries"))
                .at(shape.span, format!("{merged} (size:stride, merged)"))
                .allowed(format!("{} entries", sequencer.entries))
                .instead("order the intra-slice digits as the tactic runs them, so that neighbours merge")
        }
        Unfit::Size(size) => {
            Diagnostic::error("tcp/sequencer", format!("a loop over {who} has {size} steps"))
                .at(shape.span, format!("{merged} (size:stride, merged)"))
                .allowed(format!("{} steps of a sequencer entry", sequencer.entry_size_max))
                .instead("padding between two digits, so that they stay two entries, or several commands")
        }
    }
}

fn check_banks(
    setup: &Setup<'_>,
    shape: &Shape,
    placed: &Placed,
    merged: &AccessPattern,
    verdict: &mut Verdict,
) {
    if shape.place.is_some_and(|place| place != Place::Dm) {
        return;
    }
    let bits = setup.element_bits();
    let width = read_bytes(setup.machine, merged, placed.packet_elements(), bits);
    verdict.read_bytes = Some(width);
    let loops = accesses(merged, width, bits);
    let (held, limit) = (longest_hold(setup.machine, &loops, width), setup.machine.starvation_accesses());
    if held < limit {
        return;
    }
    verdict.diagnostics.push(
        Diagnostic::error("tcp/bank", format!("the fetch of {} holds one bank for {held} accesses", shape.operand.name()))
            .at(shape.span, format!("{merged} (size:stride) in reads of {width} B"))
            .allowed(format!("fewer than {limit} in a row: DMA needs all banks at once and times out behind them"))
            .instead("rows padded with # so that neighbours lie in other banks, or the loops in another order"),
    );
}

/// The pattern as accesses of `width` bytes, strides in bytes.
fn accesses(merged: &AccessPattern, width: u64, bits: u64) -> ArrayVec<AccessLoop, { 2 * MAX_TERMS + 1 }> {
    let mut loops = ArrayVec::new();
    for (index, access) in merged.loops.iter().enumerate() {
        let innermost = index + 1 == merged.loops.len();
        if innermost && access.stride == 1 {
            loops.push(AccessLoop { size: (access.size * bits).div_ceil(8 * width), stride: width });
        } else {
            loops.push(AccessLoop { size: access.size, stride: access.stride.saturating_mul(bits) / 8 });
        }
    }
    loops
}
