//! Rules 6 and 8: the address loops of each operand fit a sequencer, and the fetch does not hold a bank too long.

use tilewright_base::Diagnostic;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_notation::algebra::refine::Clash;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::{Operand, Place};

use smallvec::SmallVec;

use super::{Sequence, Verdict, map_of};
use crate::banks::longest_hold;
use crate::placed::Placed;
use crate::sequencer::{Unfit, entries, read_bytes};
use crate::setup::Setup;

pub(super) fn check(setup: &Setup<'_>, problem: &Problem, placed: &Placed, verdict: &mut Verdict) {
    for operand in Operand::ALL {
        let (Some(shape), Some(map)) = (problem.shape(operand), map_of(problem, operand)) else { continue };
        match walk(problem, placed, operand, &map) {
            Err(clash) => verdict.diagnostics.push(incompatible(problem, shape, placed, clash)),
            Ok(merged) => {
                let entries = entries(setup.machine, &merged).unwrap_or_else(|unfit| {
                    verdict.diagnostics.push(unfit_loops(setup, shape, &merged, unfit));
                    0
                });
                if operand == problem.streamed() {
                    check_banks(setup, shape, placed, &merged, verdict);
                }
                verdict.sequences.push(Sequence { operand, pattern: merged, entries });
            }
        }
    }
}

/// The merged loops that an operand's sequencer runs: the stream leaves out the repeats that the feed unit serves, the
/// register files leave out lanes, which read side by side, and what the packet broadcasts, the output leaves out what is
/// summed and takes the better of the two drain orders.
fn walk(
    problem: &Problem,
    placed: &Placed,
    operand: Operand,
    map: &RadixMap,
) -> Result<AccessPattern, Clash> {
    if operand == problem.streamed() {
        let fetched = placed.time.len() - placed.repeat_terms;
        let order = placed.time[..fetched].iter().chain(&placed.packet);
        return AccessPattern::of_loops_merged(problem, operand, map, order);
    }
    if operand != Operand::Out {
        let has = |digit: &&Digit| digit.axis.is_some_and(|axis| problem.has(operand, axis));
        let order = placed.time.iter().chain(placed.packet.iter().filter(has));
        return AccessPattern::of_loops_merged(problem, operand, map, order);
    }
    let survives = |digit: &&Digit| digit.axis.is_some_and(|axis| !problem.contracted(axis));
    let drained = |first: &[Digit], second: &[Digit]| {
        let order = placed.time.iter().chain(first).chain(second).filter(survives);
        AccessPattern::of_loops_merged(problem, operand, map, order)
    };
    let interleaved = drained(&placed.packet, &placed.lanes)?;
    if placed.columns == 1 || placed.lanes.is_empty() {
        return Ok(interleaved);
    }
    let sequential = drained(&placed.lanes, &placed.packet)?;
    Ok(if sequential.loops.len() < interleaved.loops.len() { sequential } else { interleaved })
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
        .instead(format!(
            "sizes of `{name}` in the tactic that divide those of the shape, or the other way round"
        ));
    match loop_span {
        Some(span) => complaint.also(span, "looped so"),
        None => complaint,
    }
}

fn unfit_loops(setup: &Setup<'_>, shape: &Shape, merged: &AccessPattern, unfit: Unfit) -> Diagnostic {
    let who = shape.operand.name();
    let sequencer = &setup.machine.sequencer;
    match unfit {
        Unfit::Entries(entries) => Diagnostic::error(
            "tcp/sequencer",
            format!("the loops over {who} need {entries} sequencer entries"),
        )
        .at(shape.span, format!("{merged} (size:stride, merged)"))
        .allowed(format!("{} entries", sequencer.entries))
        .instead("order the intra-slice digits as the tactic runs them, so that neighbours merge"),
        Unfit::Size(size) => {
            Diagnostic::error("tcp/sequencer", format!("a loop over {who} has {size} steps"))
                .at(shape.span, format!("{merged} (size:stride, merged)"))
                .allowed(format!("{} steps of a sequencer entry", sequencer.entry_size_max))
                .instead(
                    "a size that is a product of smaller ones, with padding if need be, or several commands",
                )
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
        Diagnostic::error(
            "tcp/bank",
            format!("the fetch of {} holds one bank for {held} accesses", shape.operand.name()),
        )
        .at(shape.span, format!("{merged} (size:stride) in reads of {width} B"))
        .allowed(format!(
            "fewer than {limit} in a row: DMA needs all banks at once and times out behind them"
        ))
        .instead("rows padded with # so that neighbours lie in other banks, or the loops in another order"),
    );
}

/// The pattern as accesses of `width` bytes, strides in bytes.
fn accesses(merged: &AccessPattern, width: u64, bits: u64) -> SmallVec<[AccessLoop; 8]> {
    let mut loops = SmallVec::new();
    for (index, access) in merged.loops.iter().enumerate() {
        let innermost = index + 1 == merged.loops.len();
        if innermost && access.stride == 1 {
            loops.push(AccessLoop::new((access.size * bits).div_ceil(8 * width), width));
        } else {
            loops.push(AccessLoop::new(access.size, access.stride.saturating_mul(bits) / 8));
        }
    }
    loops
}
