//! Contraction engine: feed buffer, products and tree, accumulators, drain bus (paper section IV-C; feed
//! unit, accumulators and drain orders from the vISA book).
//!
//! A group of sums drains after its last step has left the tree ("accumulation of N steps delays the output
//! by N").

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::Drain;

use crate::fifo::Fifo;
use crate::register_file::{RegisterFile, RegisterReads};

/// Where sums wait while the next group accumulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accumulators {
    /// Every group drains from a copy: one group drains while the next accumulates, however many cells a
    /// group has.
    #[default]
    Copied,
    /// One set of cells, given out slot by slot in turn: a slot takes the sums of a later group when it has
    /// drained.
    Shared,
}

/// A contraction engine at work.
#[derive(Clone, Debug)]
pub(crate) struct ContractionEngine {
    shape: ContractionStage,
    reads: RegisterReads,
    accumulators: Accumulators,
    /// Steps in a row that add to one slot.
    inner_steps: u64,
    packet_flits: u64,
    buffer_flits: u64,
    slot_cycles: u64,
    /// Slots of the cells that are shared.
    slots: u64,
    buffered_flits: u64,
    held: u64,
    issued: u64,
    tree: Fifo,
    accumulated: u64,
    drained_flits: u64,
}

impl ContractionEngine {
    pub(crate) fn new(
        machine: &Tcp,
        shape: &ContractionStage,
        reads: RegisterReads,
        inner: u64,
        how: Accumulators,
    ) -> ContractionEngine {
        let (lanes, columns) = (shape.lanes.max(1), shape.columns.max(1));
        let ce = &machine.ce;
        let (slot_cycles, slots) = match shape.drain {
            Drain::Interleaved => (columns, machine.accumulators() / (ce.lanes * columns)),
            Drain::Sequential => {
                (lanes * columns.div_ceil(ce.drain_elements_per_cycle), ce.outputs_per_lane / lanes)
            }
        };
        let mut levels = 0;
        while 1_u64.checked_shl(levels).is_some_and(|width| width < shape.packet_elements) {
            levels += 1;
        }
        let flit_bytes = machine.network.flit_bytes;
        ContractionEngine {
            shape: *shape,
            reads,
            accumulators: how,
            inner_steps: inner.max(1),
            packet_flits: shape.packet_bytes.div_ceil(flit_bytes),
            buffer_flits: ce.flit_buffer_bytes / flit_bytes,
            slot_cycles,
            slots,
            buffered_flits: 0,
            held: 0,
            issued: 0,
            tree: Fifo::new(u64::from(levels) + 1, u64::from(levels)),
            accumulated: 0,
            drained_flits: 0,
        }
    }

    /// Flits that one group drains.
    pub(crate) fn group_flits(&self) -> u64 {
        self.shape.group_output_steps * self.slot_cycles
    }

    /// One cycle, from the drain back to the feed.
    pub(crate) fn step(&mut self, now: u64, input: &mut Fifo, output: &mut Fifo, file: &mut RegisterFile) {
        self.drain(now, output);
        if self.tree.is_ready(now) && self.has_cells() {
            self.tree.pop();
            self.accumulated += 1;
        }
        self.multiply(now, file);
        if self.buffered_flits < self.buffer_flits && input.is_ready(now) {
            input.pop();
            self.buffered_flits += 1;
        }
    }

    fn steps(&self) -> u64 {
        self.shape.groups * self.shape.group_steps
    }

    fn drain(&mut self, now: u64, output: &mut Fifo) {
        let complete = (self.accumulated / self.shape.group_steps.max(1)) * self.group_flits();
        if self.drained_flits < complete && output.has_room() {
            output.push(now);
            self.drained_flits += 1;
        }
    }

    /// Whether the next step out of the tree has cells to add to.
    fn has_cells(&self) -> bool {
        let group_steps = self.shape.group_steps.max(1);
        let (group, step) = (self.accumulated / group_steps, self.accumulated % group_steps);
        match self.accumulators {
            Accumulators::Copied => group <= self.drained_flits / self.group_flits().max(1) + 1,
            Accumulators::Shared => {
                let group_slots = self.shape.group_output_steps;
                let slot = step / self.inner_steps;
                let drained = self.drained_flits / self.slot_cycles;
                slot >= group_slots || group * group_slots + slot < drained + self.slots
            }
        }
    }

    fn multiply(&mut self, now: u64, file: &mut RegisterFile) {
        if self.issued == self.steps() || self.buffered_flits < self.packet_flits || !self.tree.has_room() {
            return;
        }
        file.read(&self.reads, self.issued);
        self.tree.push(now);
        self.issued += 1;
        self.held += 1;
        if self.held >= self.shape.repeats {
            self.held = 0;
            self.buffered_flits -= self.packet_flits;
        }
    }
}
