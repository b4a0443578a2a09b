//! Contraction engine: feed unit, register file walk, tree, accumulators (paper section IV-C; vISA book,
//! contraction engine).

use tilewright_base::Diagnostic;
use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;

use super::context::VerifyContext;
use super::sequencer;
use crate::capped::Capped;
use crate::contraction::{
    CONTRACTED, StepGroups, active_elements, drain_capacity, packet_elements, shift_max,
};
use crate::footprint::MemoryKind;
use crate::footprint::exec::{in_units, units};
use crate::footprint::walk::TouchedOffsets;
use crate::memory::payload_bits;
use crate::program::exec::{Contract, Loop, Stream};

pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream, contract: &Contract, written: &Contract) {
    if cx.is_sub() {
        cx.refuse(
            "tcp/contract-context",
            "a contraction in the sub context".into(),
            "the main context".into(),
            "the main context".into(),
        );
    }
    sequencer::check(cx, "the register file walk", &written.loops, None);
    let steps: Vec<Loop> =
        written.steps.iter().map(|step| Loop { size: step.size, stride: i64::from(!step.summed) }).collect();
    check_step_sizes(cx, &steps);
    check_feed(cx, stream, contract);
    check_tree(cx, contract);
    check_walk(cx, contract);
    check_shift(cx, contract);
    check_transpose(cx, contract);
}

/// Elements of a packet that meet the register file.
fn active(cx: &VerifyContext<'_>, contract: &Contract) -> u64 {
    active_elements(contract).unwrap_or_else(|| packet_elements(cx.machine, contract.dtype, contract))
}

/// Columns that a lane keeps.
pub(super) fn columns(cx: &VerifyContext<'_>, contract: &Contract) -> u64 {
    active(cx, contract).div_ceil(contract.tree.max(1)).clamp(1, cx.machine.ce.outputs_per_lane)
}

fn check_step_sizes(cx: &mut VerifyContext<'_>, steps: &[Loop]) {
    let most = cx.machine.sequencer.entry_size_max;
    if let Some(step) = steps.iter().find(|step| (cx.program.most(step.size).max(1)) > most) {
        cx.refuse(
            "tcp/sequencer-size",
            format!("a step loop has size {}", cx.program.most(step.size)),
            format!("1 to {most}"),
            "two loops whose sizes multiply to it".into(),
        );
    }
}

fn check_feed(cx: &mut VerifyContext<'_>, stream: &Stream, contract: &Contract) {
    let most = cx.machine.ce.packet_bytes / cx.machine.network.flit_bytes;
    if contract.flits == 0 || contract.flits > most {
        cx.refuse(
            "tcp/contract-flits",
            format!("packets of {} flits", contract.flits),
            format!("1 to {most}"),
            format!("{most} flits and more steps"),
        );
    }
    let lanes = cx.machine.ce.lanes;
    if !contract.lanes.is_power_of_two() || contract.lanes > lanes {
        cx.refuse(
            "tcp/contract-lanes",
            format!("{} lanes", contract.lanes),
            format!("a power of two up to {lanes}"),
            "the next power of two".into(),
        );
    }
    if contract.repeats.fixed() == 0 {
        cx.refuse(
            "tcp/contract-repeats",
            "packets are held for no step".into(),
            "at least 1".into(),
            "1".into(),
        );
    }
    let streamed = stream.fetch.leaves();
    if !multiply(streamed, contract.dtype) {
        cx.refuse(
            "tcp/contract-types",
            format!("{streamed} times {}", contract.dtype),
            "i4 or i5 with i4 or i5, i8 or i9 with i8 or i9, equal 8-bit floats or bf16".into(),
            "the vector engine for other types".into(),
        );
    }
}

fn multiply(streamed: Dtype, held: Dtype) -> bool {
    let kind = |dtype| match dtype {
        Dtype::I4 | Dtype::I5 => Some(Dtype::I4),
        Dtype::I8 | Dtype::I9 => Some(Dtype::I8),
        other => CONTRACTED.contains(&other).then_some(other),
    };
    kind(streamed).is_some() && kind(streamed) == kind(held)
}

fn check_tree(cx: &mut VerifyContext<'_>, contract: &Contract) {
    let elements = packet_elements(cx.machine, contract.dtype, contract);
    if !contract.tree.is_power_of_two() || contract.tree > elements {
        return cx.refuse(
            "tcp/contract-tree",
            format!("the tree sums {} elements", contract.tree),
            format!("a power of two up to the {elements} of a packet"),
            "the contracted axis padded to a power of two".into(),
        );
    }
    let (made, kept) = (active(cx, contract).div_ceil(contract.tree), cx.machine.ce.outputs_per_lane);
    if made > kept {
        let name = &cx.exec.name;
        let text = format!("{made} columns leave the tree, {kept} are kept");
        let warning = Diagnostic::warning("tcp/contract-columns", format!("`{name}`: {text}"));
        let warning = warning.at(cx.exec.span, text).allowed(format!("{kept} columns of a lane"));
        cx.found.push(warning.instead("one flit a packet, or a deeper tree"));
    }
    let StepGroups { open, .. } = StepGroups::of(&contract.steps);
    let most = drain_capacity(cx.machine, contract.drain, contract.lanes, columns(cx, contract));
    if open > most {
        cx.refuse(
            "tcp/contract-slots",
            format!("{open} sums are open for each column"),
            format!(
                "{most} with this drain order, {} lanes and {} columns",
                contract.lanes,
                columns(cx, contract)
            ),
            "surviving loops outside of the summed ones, or the other drain order".into(),
        );
    }
}

fn check_walk(cx: &mut VerifyContext<'_>, contract: &Contract) {
    let steps = StepGroups::of(&contract.steps).all_steps();
    let most = packet_elements(cx.machine, contract.dtype, contract);
    let made = contract.loops.iter().fold(1_u64, |all, row| all.capped_mul(row.size.fixed()));
    if !active_elements(contract).is_some_and(|active| (1..=most).contains(&active)) {
        return cx.refuse(
            "tcp/contract-walk",
            format!("{made} register file addresses for {steps} steps"),
            format!("as many for each step, at most the {most} of a packet"),
            "loops over the steps, then over a packet".into(),
        );
    }
    let (element, per_byte) = units(contract.dtype);
    let part = MemoryKind::Trf.capacity_bytes(cx.machine) / contract.lanes.max(1);
    let walked = TouchedOffsets::of_loops(&in_units(&contract.loops, element), element);
    let base = i128::from(contract.base) * i128::from(per_byte);
    if let Some((start, end)) = walked.placed(base, per_byte, part).outside {
        cx.refuse(
            "tcp/contract-bounds",
            format!("reads bytes {start}..{end} of a lane"),
            format!("0..{part}: the register file in {} lanes", contract.lanes),
            "fewer lanes, which have more each, or two commands".into(),
        );
    }
    check_aligned(cx, contract, element, per_byte);
}

/// A step reads one run of each lane's rows, elements of it perhaps several times; a read of both banks at
/// once starts at a whole packet.
fn check_aligned(cx: &mut VerifyContext<'_>, contract: &Contract, element: u64, per_byte: u64) {
    let packet = cx.machine.ce.packet_bytes;
    let elements = active(cx, contract);
    let (outer, run) = split_packet(&contract.loops, elements);
    let Some(run) = run else {
        cx.refuse(
            "tcp/contract-gather",
            format!("a step reads {elements} elements that are no run of the register file"),
            format!("a run of at most {packet} B a lane and cycle, its elements repeated if need be"),
            "innermost loops of strides 0, 1 and on without a gap; order the register file by its load"
                .into(),
        );
        return;
    };
    let wide = contract.flits.capped_mul(cx.machine.network.flit_bytes) == packet && run == elements;
    if !wide {
        return;
    }
    let unit = packet.capped_mul(per_byte);
    let bytes = |row: &&Loop| row.stride.unsigned_abs().capped_mul(element).is_multiple_of(unit);
    let strides = outer.iter().filter(|row| row.size.fixed() > 1).all(|row| bytes(&row));
    if !strides || !contract.base.is_multiple_of(packet) {
        cx.refuse(
            "tcp/contract-align",
            format!("reads of {packet} B from base {} at strides that are not whole reads", contract.base),
            format!("base and strides that are multiples of {packet} B"),
            "padding in the register file, or packets of one flit".into(),
        );
    }
}

/// The loops around a packet, and the elements of the run that it is read from; `None` if there are gaps in
/// it.
fn split_packet(loops: &[Loop], elements: u64) -> (&[Loop], Option<u64>) {
    let (mut inside, mut at) = (1_u64, loops.len());
    let mut run = Some(1_u64);
    while inside < elements && at > 0 {
        at -= 1;
        let Some(row) = loops.get(at) else { break };
        let size = row.size.fixed();
        run = match run {
            Some(run) if size == 1 || row.stride == 0 => Some(run),
            Some(run) if row.stride.unsigned_abs() == run => Some(run.capped_mul(size)),
            _ => None,
        };
        inside = inside.capped_mul(size);
    }
    (&loops[..at], run)
}

fn check_shift(cx: &mut VerifyContext<'_>, contract: &Contract) {
    let Some(shift) = contract.shift else { return };
    let ce = &cx.machine.ce;
    let most = shift_max(cx.machine, contract.dtype);
    let half = i64::try_from(most / 2).or_broken("windows of a few elements");
    let flits = ce.flit_buffer_bytes / cx.machine.network.flit_bytes;
    let first = (-half..=half + 1).contains(&shift.initial);
    if !first || shift.stride > most || shift.shifts == 0 || shift.pop == 0 || shift.pop > flits {
        cx.refuse(
            "tcp/contract-shift",
            format!(
                "windows from {} on, {} apart, {} before {} new flits",
                shift.initial, shift.stride, shift.shifts, shift.pop
            ),
            format!("from {} to {}, at most {most} apart, 1 to {flits} new flits", -half, half + 1),
            "a copy that lays windows out one by one".into(),
        );
    }
}

fn check_transpose(cx: &mut VerifyContext<'_>, contract: &Contract) {
    let Some(tile) = contract.transpose else { return };
    let allowed: &[(u64, u64)] = match payload_bits(contract.dtype) {
        4 => &[(4, 16)],
        8 => &[(2, 16), (4, 8)],
        _ => &[(2, 8)],
    };
    if !allowed.contains(&(tile.rows, tile.columns)) {
        let names: Vec<String> =
            allowed.iter().map(|(rows, columns)| format!("{rows} x {columns}")).collect();
        cx.refuse(
            "tcp/contract-transpose",
            format!("an in-flit transpose of {} x {} {}", tile.rows, tile.columns, contract.dtype),
            names.join(", "),
            "the transpose engine in a command before".into(),
        );
    }
}
