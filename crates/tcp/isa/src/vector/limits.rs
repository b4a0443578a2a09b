//! Rules of a chain that need the machine's figures: immediates, comparisons, slots, limits, sequencers,
//! register file (vISA book, vector engine and sequencer).

use std::ops::Range;

use tilewright_machine::tcp::Tcp;

use super::fault::VectorFault;
use super::shape::{reach, sources};
use super::steps::{fixed, steps};
use crate::program::Count;
use crate::program::exec::Loop;
use crate::program::vector::{Op, OpKind, OperandSource, Reduce, Vector};

/// Everything about a chain that exceeds a machine.
pub fn limits(machine: &Tcp, vector: &Vector) -> Vec<VectorFault> {
    let mut faults = Vec::new();
    // Each comparison sets a bit of the tag; in pair mode one of them is the group.
    let most = machine.ve.tag_comparisons.min(machine.ve.tag_bits).saturating_sub(u64::from(vector.pair));
    if count(vector.tags.iter()) > most {
        faults.push(VectorFault::Comparisons { found: vector.tags.len(), most });
    }
    for (at, op) in vector.ops.iter().enumerate() {
        operands(machine, at, op, &mut faults);
        if let OpKind::Reduce(inner) = &op.kind {
            reduce(machine, at, inner, &mut faults);
        }
    }
    faults
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.fold(0, |count, _| count + 1)
}

fn operands(machine: &Tcp, at: usize, op: &Op, faults: &mut Vec<VectorFault>) {
    let immediates = count(sources(op).filter(|source| matches!(source, OperandSource::Immediate(_))));
    if immediates > machine.ve.immediates {
        faults.push(VectorFault::Immediates { at, found: immediates, most: machine.ve.immediates });
    }
    for source in sources(op) {
        if let OperandSource::Vrf { base, loops } = source {
            sequencer(machine, at, loops.iter().map(|row| row.size), faults);
            register_file(machine, at, *base, loops, faults);
        }
    }
}

fn sequencer(
    machine: &Tcp,
    at: usize,
    sizes: impl Iterator<Item = Count> + Clone,
    faults: &mut Vec<VectorFault>,
) {
    let (loops, most) = (count(sizes.clone()), machine.sequencer.entries);
    if loops > most {
        faults.push(VectorFault::SequencerLoops { at, found: loops, most });
    }
    let longest = sizes.filter_map(fixed).max();
    if let Some(longest) = longest.filter(|size| *size > machine.sequencer.entry_size_max) {
        faults.push(VectorFault::SequencerSize {
            at,
            found: longest,
            most: machine.sequencer.entry_size_max,
        });
    }
}

fn register_file(machine: &Tcp, at: usize, base: u64, loops: &[Loop], faults: &mut Vec<VectorFault>) {
    if loops.iter().any(|row| fixed(row.size).is_none()) {
        return;
    }
    let capacity = machine.vrf.capacity_bytes;
    let (first, last) = ends(base, loops).unwrap_or((i64::MIN, i64::MAX));
    let outside = |byte: i64| u64::try_from(byte).map_or(true, |byte| byte >= capacity);
    if let Some(byte) = [first, last].into_iter().find(|byte| outside(*byte)) {
        faults.push(VectorFault::VrfRange { at, byte, capacity });
    }
}

/// The first and the last byte that a walk over the register file reads.
fn ends(base: u64, loops: &[Loop]) -> Option<(i64, i64)> {
    let (low, high) = reach(loops)?;
    let base = i64::try_from(base).ok()?;
    Some((base.checked_add(low.checked_mul(4)?)?, base.checked_add(high.checked_mul(4)?)?.checked_add(3)?))
}

/// The part of the register file from the first byte that a chain reads to the last; all of it where loops
/// are not numbers.
pub fn reads(vector: &Vector) -> Range<usize> {
    let part = |base: u64, loops: &[Loop]| {
        let known = loops.iter().all(|row| fixed(row.size).is_some());
        let (first, last) = ends(base, loops).filter(|_| known)?;
        Some(usize::try_from(first).ok()?..usize::try_from(last).ok()?.checked_add(1)?)
    };
    let mut all: Option<Range<usize>> = None;
    for source in vector.ops.iter().flat_map(sources) {
        let OperandSource::Vrf { base, loops } = source else { continue };
        let own = part(*base, loops).unwrap_or(0..usize::MAX);
        all = Some(all.map_or(own.clone(), |all| all.start.min(own.start)..all.end.max(own.end)));
    }
    all.unwrap_or(0..0)
}

fn reduce(machine: &Tcp, at: usize, reduce: &Reduce, faults: &mut Vec<VectorFault>) {
    let slots = steps(reduce).map_or(0, |steps| steps.slots);
    if slots > machine.ve.reduce_slots {
        faults.push(VectorFault::Slots { at, found: slots, most: machine.ve.reduce_slots });
    }
    let clippers = count(reduce.limits.iter().filter(|limit| limit.element != 0));
    if clippers > machine.ve.packet_clippers {
        faults.push(VectorFault::PacketClippers { at, found: clippers, most: machine.ve.packet_clippers });
    }
    let filters = count(reduce.limits.iter()) - clippers;
    if filters > machine.ve.time_filters {
        faults.push(VectorFault::TimeFilters { at, found: filters, most: machine.ve.time_filters });
    }
    sequencer(machine, at, reduce.steps.iter().map(|step| step.size), faults);
}
