//! Transfers: queues that start copies one after the other, DMA engines that move the data, HBM that all
//! cores share (NKI guide to DMA; docs/hardware-rules.md#dma).

use std::collections::VecDeque;

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::chip::{bytes_ps, ns_ps, rate_of};
use tilewright_neuron_isa::program::DmaShape;

/// A resource and its last user.
#[derive(Clone, Copy, Debug, Default)]
struct DmaLane {
    free_ps: u64,
    last: Option<u32>,
}

/// DMA engines of one core. Each moves data in both directions at once: published runs that stream in and out
/// reach more than the rate of one direction.
#[derive(Debug)]
struct CoreDma {
    loads: Vec<DmaLane>,
    stores: Vec<DmaLane>,
    next: usize,
}

/// One copy that is to be moved.
#[derive(Clone, Copy, Debug)]
pub struct DmaCopy {
    /// Its number, for those that wait behind it.
    pub node: u32,
    /// The core whose engines move it.
    pub core: usize,
    /// How it spreads over engines.
    pub shape: DmaShape,
    /// Bytes read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM.
    pub hbm_written_bytes: u64,
}

/// When a copy's data moves, and behind whom it waited.
#[derive(Clone, Copy, Debug)]
pub struct CopySpan {
    /// The first byte.
    pub start_ps: u64,
    /// The last one has arrived.
    pub end_ps: u64,
    /// The copy that it waited for.
    pub behind: Option<u32>,
}

/// All DMA engines and HBM.
#[derive(Debug)]
pub struct DmaEngines {
    cores: Vec<CoreDma>,
    /// One for each stack.
    hbm: Vec<DmaLane>,
    cores_per_stack: usize,
    hbm_bytes_per_s: u64,
}

impl DmaEngines {
    /// Idle engines of so many cores.
    pub fn new(chip: &Chip, cores: usize) -> DmaEngines {
        let lanes = || vec![DmaLane::default(); to_index(chip.neuron.dma.engines_per_core)];
        let hbm = &chip.neuron.hbm;
        let cores_per_stack = to_index(chip.neuron.chip.cores / hbm.stacks).max(1);
        DmaEngines {
            cores: (0..cores).map(|_| CoreDma { loads: lanes(), stores: lanes(), next: 0 }).collect(),
            hbm: vec![DmaLane::default(); cores.div_ceil(cores_per_stack)],
            cores_per_stack,
            hbm_bytes_per_s: rate_of(hbm.stack_bytes_per_s, hbm.efficiency),
        }
    }

    /// Moves the data of a copy from `from_ps` on.
    pub fn place(&mut self, copy: &DmaCopy, from_ps: u64) -> CopySpan {
        let core = &mut self.cores[copy.core];
        let lanes = if copy.hbm_written_bytes > 0 { &mut core.stores } else { &mut core.loads };
        let count = lanes.len();
        let used = (copy.shape.engines as usize).clamp(1, count);
        let (mut start_ps, mut end_ps, mut behind) = (u64::MAX, 0, None);
        for step in 0..used {
            let lane = &mut lanes[(core.next + step) % count];
            let at_ps = from_ps.max(lane.free_ps);
            if at_ps > from_ps {
                behind = behind.or(lane.last);
            }
            *lane = DmaLane { free_ps: at_ps.exact_add(copy.shape.data_ps), last: Some(copy.node) };
            start_ps = start_ps.min(at_ps);
            end_ps = end_ps.max(lane.free_ps);
        }
        core.next = (core.next + used) % count;
        let bytes = copy.hbm_read_bytes.exact_add(copy.hbm_written_bytes);
        if bytes > 0 {
            let hbm = &mut self.hbm[copy.core / self.cores_per_stack];
            let at_ps = hbm.free_ps.max(start_ps);
            let free_ps = at_ps.exact_add(bytes_ps(bytes, self.hbm_bytes_per_s));
            if free_ps > end_ps {
                behind = hbm.last.or(behind);
                end_ps = free_ps;
            }
            *hbm = DmaLane { free_ps, last: Some(copy.node) };
        }
        CopySpan { start_ps, end_ps, behind }
    }
}

/// A queue: copies start in order, a fixed time apart, a few of them in flight.
#[derive(Debug, Default)]
pub struct DmaQueue {
    ends_ps: VecDeque<u64>,
}

impl DmaQueue {
    /// When the queue can start its next copy, after one that starts at `at_ps` and ends at `end_ps`.
    pub fn next_start_ps(&mut self, chip: &Chip, at_ps: u64, data_ps: u64, end_ps: u64) -> u64 {
        let issue_interval_ps = issue_interval_ps(chip, data_ps);
        self.ends_ps.push_back(end_ps);
        let most = to_index(chip.neuron.dma.in_flight);
        let earliest = if self.ends_ps.len() >= most {
            self.ends_ps.pop_front().or_broken("a full queue without copies")
        } else {
            0
        };
        at_ps.exact_add(issue_interval_ps).max(earliest)
    }
}

/// Time from the start of a copy by its queue until its data moves.
pub fn start_latency_ps(chip: &Chip) -> u64 {
    ns_ps(chip.neuron.dma.trigger_ns.exact_add(chip.neuron.dma.copy_ns))
}

/// Time from the start of one transfer by its queue until its data moves: software that made its descriptors
/// has its own time from the trigger to the first byte.
pub fn transfer_start_latency_ps(chip: &Chip, shape: &DmaShape) -> u64 {
    let dma = &chip.neuron.dma;
    if !shape.software {
        return start_latency_ps(chip);
    }
    ns_ps(dma.software_descriptor_ns.exact_add(dma.copy_ns))
}

/// Least time between the starts of two copies of one queue, the first of which takes so long to move.
pub fn issue_interval_ps(chip: &Chip, data_ps: u64) -> u64 {
    let dma = &chip.neuron.dma;
    ns_ps(dma.fixed_ns).max(ns_ps(dma.copy_ns).exact_add(data_ps))
}

/// The queue of a load or store of that line, counted from 0 in its direction.
pub fn queue_of(chip: &Chip, source: u32) -> usize {
    let queues = to_index(chip.neuron.dma.copy_queues);
    source as usize % queues
}
