//! Rules 6 and 8: the address loops of each operand fit a sequencer, and the fetch does not hold a bank too
//! long.

use tilewright_base::Diagnostic;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};
use tilewright_notation::algebra::refine::DigitClash;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::{Operand, Place};

use smallvec::SmallVec;
use tilewright_tcp_isa::sequencer::{SequencerError, entries, read_bytes};

use super::verdict::{AddressLoops, Verdict};
use crate::banks::longest_hold;
use crate::placed_tactic::PlacedTactic;
use crate::setup::Setup;
use tilewright_tcp_isa::capped::Capped;

pub(super) fn check(setup: &Setup<'_>, problem: &Problem, placed: &PlacedTactic, verdict: &mut Verdict) {
    for operand in Operand::ALL {
        let (Some(shape), Some(map)) = (problem.shape(operand), map_of(problem, operand)) else { continue };
        if operand == Operand::Out && !map_covers(problem, &map) {
            continue;
        }
        match walk(problem, placed, operand, &map) {
            Err(clash) => verdict.diagnostics.push(incompatible(problem, shape, placed, clash)),
            Ok(merged) => {
                let entries = entries(setup.machine, &merged).unwrap_or_else(|unfit| {
                    verdict.diagnostics.push(unfit_loops(setup, shape, &merged, unfit));
                    0
                });
                if operand == problem.streamed() {
                    check_packet(problem, shape, placed, &map, verdict);
                    check_fetch(setup, shape, placed, &merged, verdict);
                } else if operand == Operand::Out {
                    check_commit(setup, problem, shape, placed, &merged, verdict);
                } else {
                    check_register_rows(setup, shape, placed, &merged, verdict);
                }
                verdict.sequences.push(AddressLoops { operand, pattern: merged, entries });
            }
        }
    }
}

/// The merged loops that an operand's sequencer runs: the stream leaves out the repeats that the feed unit
/// serves, the register files leave out lanes, which read side by side, and what the packet broadcasts, the
/// output leaves out what is summed and takes the better of the two drain orders.
fn walk(
    problem: &Problem,
    placed: &PlacedTactic,
    operand: Operand,
    map: &RadixMap,
) -> Result<AccessPattern, DigitClash> {
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

fn incompatible(problem: &Problem, shape: &Shape, placed: &PlacedTactic, clash: DigitClash) -> Diagnostic {
    let axis = problem.read_axes(shape.operand).get(usize::from(clash.axis)).copied();
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

fn unfit_loops(
    setup: &Setup<'_>,
    shape: &Shape,
    merged: &AccessPattern,
    unfit: SequencerError,
) -> Diagnostic {
    let who = shape.operand.name();
    let sequencer = &setup.machine.sequencer;
    match unfit {
        SequencerError::Entries(entries) => Diagnostic::error(
            "tcp/sequencer",
            format!("the loops over {who} need {entries} sequencer entries"),
        )
        .at(shape.span, format!("{merged} (size:stride, merged)"))
        .allowed(format!("{} entries", sequencer.entries))
        .instead("order the intra-slice digits as the tactic runs them, so that neighbours merge"),
        SequencerError::Size(size) => {
            Diagnostic::error("tcp/sequencer", format!("a loop over {who} has {size} steps"))
                .at(shape.span, format!("{merged} (size:stride, merged)"))
                .allowed(format!("{} steps of a sequencer entry", sequencer.entry_size_max))
                .instead(
                    "a size that is a product of smaller ones, with padding if need be, or several commands",
                )
        }
    }
}

/// Whether the output's shape holds all that a PE computes; after an exchange between PEs it does not.
fn map_covers(problem: &Problem, map: &RadixMap) -> bool {
    problem.tensor(Operand::Out).iter().zip(&map.from).all(|(id, extent)| problem.axis(*id).extent <= *extent)
}

/// A packet is read from one slice, its innermost elements side by side (vISA book, fetch engine).
fn check_packet(
    problem: &Problem,
    shape: &Shape,
    placed: &PlacedTactic,
    map: &RadixMap,
    verdict: &mut Verdict,
) {
    let Ok(packet) = AccessPattern::of_loops_merged(problem, shape.operand, map, placed.packet.iter()) else {
        return;
    };
    let elements = placed.packet.iter().fold(1_u64, |all, digit| all.capped_mul(digit.live));
    let why = if packet.steps() < elements {
        "a part of the packet lies on other slices"
    } else if packet.loops.last().is_some_and(|inner| inner.stride != 1) {
        "its elements do not lie side by side"
    } else {
        return;
    };
    let Some(digit) = placed.packet.iter().rev().find(|digit| digit.live > 1) else { return };
    let name = digit.axis.map_or("?".to_string(), |axis| problem.axis(axis).name.to_string());
    verdict.diagnostics.push(
        Diagnostic::error("tcp/packet", format!("the packet of {} cannot be fetched", shape.operand.name()))
            .at(shape.span, why)
            .also(digit.span, "fills the packet")
            .allowed("packets of one slice, contiguous in its memory")
            .instead(format!(
                "`{name}` as the last digit of the shape, or another digit innermost in the tactic"
            )),
    );
}

fn check_fetch(
    setup: &Setup<'_>,
    shape: &Shape,
    placed: &PlacedTactic,
    merged: &AccessPattern,
    verdict: &mut Verdict,
) {
    let bits = setup.element_bits();
    let width = read_bytes(setup.machine, merged, placed.packet_elements(), bits);
    verdict.read_bytes = Some(width);
    check_banks(setup, shape, merged, (width, bits), "fetch", verdict);
}

/// Write strides are whole granules, and results that leave every cycle must not hold a bank.
fn check_commit(
    setup: &Setup<'_>,
    problem: &Problem,
    shape: &Shape,
    placed: &PlacedTactic,
    merged: &AccessPattern,
    verdict: &mut Verdict,
) {
    if shape.place.is_some_and(|place| place != Place::Dm) {
        return;
    }
    let (bits, granule) = (setup.output_bits(), setup.machine.dm.write_granule_bytes);
    let stride_bytes = |access: &&AccessLoop| access.stride.capped_mul(bits) / 8;
    if let Some(odd) = merged.loops.iter().find(|l| l.stride > 1 && !stride_bytes(l).is_multiple_of(granule))
    {
        verdict.diagnostics.push(
            Diagnostic::error("tcp/output", format!("results are written {} B apart", stride_bytes(&odd)))
                .at(shape.span, format!("{merged} (size:stride) of {bits} bit elements"))
                .allowed(format!("multiples of {granule} B"))
                .instead("rows padded with # to an even number of elements"),
        );
    }
    let adds_in_time =
        placed.time.iter().any(|d| d.live > 1 && d.axis.is_some_and(|axis| problem.contracted(axis)));
    if !adds_in_time {
        let run = merged.loops.last().filter(|inner| inner.stride == 1).map_or(1, |inner| inner.size);
        let run_bytes = run.capped_mul(bits) / 8;
        let widths = setup.machine.commit.main_widths_bytes.iter().copied();
        let width = widths.filter(|width| run_bytes.is_multiple_of(*width)).max().unwrap_or(granule);
        check_banks(setup, shape, merged, (width, bits), "commit", verdict);
    }
}

/// A read of both banks of a register file is aligned to its own size (vISA book, tensor register file).
fn check_register_rows(
    setup: &Setup<'_>,
    shape: &Shape,
    placed: &PlacedTactic,
    merged: &AccessPattern,
    verdict: &mut Verdict,
) {
    let wide_bytes = setup.machine.trf.banks * setup.machine.trf.row_payload_bytes;
    let bits = setup.element_bits();
    let held = !matches!(shape.place, Some(Place::Dm));
    let wide = held && placed.tree_elements.capped_mul(bits) / 8 >= wide_bytes;
    let crooked =
        |access: &&AccessLoop| access.stride > 1 && !(access.stride * bits / 8).is_multiple_of(wide_bytes);
    if let (true, Some(odd)) = (wide, merged.loops.iter().find(crooked)) {
        verdict.diagnostics.push(
            Diagnostic::error(
                "tcp/registers",
                format!("register rows lie {} B apart", odd.stride * bits / 8),
            )
            .at(shape.span, format!("{merged} (size:stride), read {wide_bytes} B at a time"))
            .allowed(format!("multiples of {wide_bytes} B for a full packet"))
            .instead(format!("rows padded with # to a multiple of {} elements", wide_bytes * 8 / bits)),
        );
    }
}

fn check_banks(
    setup: &Setup<'_>,
    shape: &Shape,
    merged: &AccessPattern,
    (width, bits): (u64, u64),
    unit: &str,
    verdict: &mut Verdict,
) {
    let loops = accesses(merged, width, bits);
    let (held, limit) = (longest_hold(setup.machine, &loops, width), setup.machine.starvation_accesses());
    if held < limit {
        return;
    }
    let what = format!("the {unit} of {} holds one bank for {held} accesses", shape.operand.name());
    verdict.diagnostics.push(
        Diagnostic::error("tcp/bank", what)
            .at(shape.span, format!("{merged} (size:stride) in accesses of {width} B"))
            .allowed(format!(
                "fewer than {limit} in a row: DMA needs all banks at once and times out behind them"
            ))
            .instead(
                "rows padded with # so that neighbours lie in other banks, or the loops in another order",
            ),
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
            loops.push(AccessLoop::new(access.size, access.stride.capped_mul(bits) / 8));
        }
    }
    loops
}

/// The map of an operand's shape. Shapes whose size was refused have none.
fn map_of(problem: &Problem, operand: Operand) -> Option<RadixMap> {
    problem.shape(operand).and_then(|shape| RadixMap::of_shape(problem, shape).ok())
}
