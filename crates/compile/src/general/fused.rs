//! PEs that run executions together: which engine moves what, and the messages that keep them in order (paper
//! section III: up to four PEs are fused; vISA book, clusters).
//!
//! The first PE of a group has the executions. Each PE moves what lies in its own slices, and tells the first
//! when it has come; the first tells the others when an execution is done.

use std::sync::Arc;

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{ByteSet, MemoryAccess, MemoryKind};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::transfer::{MemoryInstance, SLICE_STRIDE, Transfer};

use super::emit::{Emitter, Op};
use super::view::signed;

/// Others learn that commands are done.
pub(super) struct Tell {
    /// Who learns it.
    pub(super) to: Vec<usize>,
    /// The commands, by number among those of the PE.
    pub(super) after: Vec<usize>,
    /// All executions and transfers so far are done too.
    pub(super) execs: bool,
}

/// Others say that they are done.
pub(super) struct Hear {
    /// Who says it.
    pub(super) from: Vec<usize>,
    /// Bytes of the slices that others have touched until then.
    pub(super) region: (u64, u64),
}

impl Hear {
    /// What others touch of the PE until they are done.
    pub(super) fn accesses(&self, machine: &Tcp, pe: u64) -> Vec<MemoryAccess> {
        let slices = (pe * machine.pe.slices, (pe + 1) * machine.pe.slices);
        let bytes = Arc::new(ByteSet::range(self.region.0, self.region.1));
        vec![MemoryAccess { memory: MemoryKind::Dm, chip: 0, slices, write: true, lanes: 0, bytes }]
    }
}

/// PEs by number.
pub(super) fn ids(pes: &[usize]) -> Vec<PeId> {
    pes.iter().map(|pe| PeId { chip: 0, pe: *pe as u64 }).collect()
}

/// Ids of the commands of a PE that were issued.
pub(super) struct Issued {
    transfers: Vec<Option<u8>>,
    /// When each was issued, among all transfers.
    places: Vec<usize>,
    execs: Vec<Option<u8>>,
    /// The last execution of each context.
    last: [Option<u8>; 2],
    /// Transfers so far.
    count: usize,
}

impl Issued {
    pub(super) fn new(commands: usize) -> Issued {
        Issued {
            transfers: vec![None; commands],
            places: vec![0; commands],
            execs: vec![None; commands],
            last: [None; 2],
            count: 0,
        }
    }

    pub(super) fn transfer(&mut self, at: usize, id: u8) {
        self.transfers[at] = Some(id);
        self.count += 1;
        self.places[at] = self.count;
    }

    /// Of some transfers the one that was issued last: an engine takes them in order.
    pub(super) fn last_of(&self, all: &[usize]) -> Option<u8> {
        let last = all.iter().max_by_key(|at| self.places[**at])?;
        self.transfers[*last]
    }

    pub(super) fn exec(&mut self, at: usize, context: Context, id: u8) {
        self.execs[at] = Some(id);
        self.last[usize::from(context == Context::Sub)] = Some(id);
    }

    /// Ids of the transfers and of the executions that a message waits for; `last` is the last transfer that
    /// others may need.
    pub(super) fn before(&self, tell: &Tell, last: Option<u8>) -> (Vec<u8>, Vec<u8>) {
        let named = |all: &[Option<u8>]| tell.after.iter().filter_map(|at| all[*at]).collect::<Vec<u8>>();
        let (mut transfers, mut execs) = (named(&self.transfers), named(&self.execs));
        if tell.execs {
            transfers.extend(last);
            execs.extend(self.last.iter().flatten());
        }
        // A context and the engine take commands in order, so that the last waits for all.
        transfers.dedup();
        execs.dedup();
        (transfers, execs)
    }
}

impl Emitter<'_> {
    /// The first PE of the group tells the others that commands of its own are done, which have touched some
    /// bytes of their slices.
    pub(super) fn tell_group(&mut self, first: usize, after: Vec<usize>, region: (u64, u64)) {
        let others = self.others(first);
        if others.is_empty() {
            return;
        }
        for pe in &others {
            self.ops[*pe].push(Op::Hear(Hear { from: vec![first], region }));
        }
        self.note_message(first, &others);
        self.ops[first].push(Op::Tell(Tell { to: others, after, execs: false }));
    }

    /// The others of a group tell its first PE that what they moved last is there: `after` has the commands
    /// of each PE, by number from the first on.
    pub(super) fn tell_first(&mut self, first: usize, after: &[Vec<usize>], execs: bool, region: (u64, u64)) {
        let others = self.others(first);
        if others.is_empty() {
            return;
        }
        for pe in &others {
            let after = after[*pe - first].clone();
            self.note_message(*pe, &[first]);
            self.ops[*pe].push(Op::Tell(Tell { to: vec![first], after, execs }));
        }
        self.ops[first].push(Op::Hear(Hear { from: others, region }));
    }

    fn others(&self, first: usize) -> Vec<usize> {
        (first + 1..first + to_index(self.fused)).collect()
    }

    /// First byte of data memory for so many bytes of each slice of a group.
    pub(super) fn next_region_of(&mut self, first: usize, bytes: u64) -> u64 {
        self.pe = first;
        let base = self.next_region(bytes);
        let next = self.next_dm[first];
        self.next_dm[first..first + to_index(self.fused)].fill(next);
        base
    }
}

/// The same transfer as one for each PE whose slices it touches; `None` if its loops do not go from slice to
/// slice.
pub(super) fn by_pe(machine: &Tcp, transfer: Transfer, to_dm: bool) -> Option<Vec<(usize, Transfer)>> {
    let place = if to_dm { transfer.target } else { transfer.source }.locate()?;
    let MemoryInstance::Dm { slice } = place.medium else { return None };
    let slices = signed(machine.pe.slices);
    let mut steps = Vec::new();
    for row in &transfer.loops {
        let stride = if to_dm { row.target } else { row.source };
        let whole = stride % SLICE_STRIDE == 0;
        if !whole && stride.abs() * signed(row.size.fixed()) >= SLICE_STRIDE || stride < 0 {
            return None;
        }
        steps.push(if whole { stride / SLICE_STRIDE } else { 0 });
    }
    let reach: i64 =
        steps.iter().zip(&transfer.loops).map(|(step, row)| step * (signed(row.size.fixed()) - 1)).sum();
    let inside = signed(slice) % slices;
    if inside + reach < slices {
        return Some(vec![(to_index(slice / machine.pe.slices), transfer)]);
    }
    let moved = |at: &usize| steps[*at] > 0 && transfer.loops[*at].size.fixed() > 1;
    let widest = (0..steps.len()).filter(moved).max_by_key(|at| steps[*at])?;
    let (step, size) = (steps[widest], signed(transfer.loops[widest].size.fixed()));
    let others = reach - step * (size - 1);
    let fit = ((slices - 1 - inside - others).max(0) / step + 1).min(size - 1).max(1);
    let part = |first: i64, count: i64| {
        let mut part = transfer.clone();
        part.source = part.source.step(part.loops[widest].source * first)?;
        part.target = part.target.step(part.loops[widest].target * first)?;
        part.loops[widest].size = Count::Fixed(u64::try_from(count).ok()?);
        part.loops.retain(|row| row.size.fixed() > 1);
        Some(part)
    };
    let mut all = by_pe(machine, part(0, fit)?, to_dm)?;
    all.extend(by_pe(machine, part(fit, size - fit)?, to_dm)?);
    Some(all)
}
