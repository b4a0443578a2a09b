//! When each recorded instruction runs: engines in order, waits derived from the memory that instructions share,
//! DMA engines with their data phase, on-chip memory that must be free before it is written again
//! (neuron.md sections 5, 6 and 10).
//!
//! One pass in the order of execution. Every tile has a place of its own as long as there is room: a new tile waits
//! until tiles whose last use is over have left enough of it. So double buffering falls out of capacity, as it does
//! when the compiler places tiles.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::chip::{bytes_ps, ns_ps};
use crate::findings::{Lifetimes, lifetimes};
use crate::program::{EngineKind, Instruction, Program, Region};
use crate::{Chip, Memory};

/// What an instruction waited for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The engine was busy with the instruction before.
    Engine,
    /// Another instruction's result, or its last read of what is overwritten.
    Data(usize),
    /// Room in SBUF or PSUM.
    Room,
    /// HBM bandwidth or a DMA engine.
    Transfer,
}

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub start_ps: u64,
    /// The engine is free again.
    pub end_ps: u64,
    /// Its result can be read.
    pub done_ps: u64,
    /// Why not earlier.
    pub reason: Reason,
}

/// A scheduled run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// One span for each instruction.
    pub spans: Vec<Span>,
    /// From the first start to the last result.
    pub total_ps: u64,
    /// Time that each engine is busy, in the order of [`EngineKind::ALL`].
    pub busy_ps: [u64; 6],
}

/// Places every instruction of a program in time.
pub fn schedule(chip: &Chip, program: &Program) -> Timeline {
    let lives = lifetimes(program);
    let mut state = State::new(chip, program, &lives);
    let mut timeline = Timeline::default();
    for (at, instruction) in program.instructions.iter().enumerate() {
        let span = state.place(at, instruction);
        timeline.total_ps = timeline.total_ps.max(span.done_ps);
        timeline.spans.push(span);
    }
    timeline.busy_ps = busy(program, &timeline.spans);
    timeline
}

/// Time in which at least one instruction of each engine runs.
fn busy(program: &Program, spans: &[Span]) -> [u64; 6] {
    let mut busy = [0; 6];
    for (total, engine) in busy.iter_mut().zip(EngineKind::ALL) {
        let mut intervals: Vec<(u64, u64)> = program
            .instructions
            .iter()
            .zip(spans)
            .filter(|(instruction, _)| instruction.engine == engine)
            .map(|(_, span)| (span.start_ps, span.end_ps))
            .collect();
        intervals.sort_unstable();
        let mut until = 0;
        for (start, end) in intervals {
            *total += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
    }
    busy
}

/// One access of a tile that later ones may have to wait for.
#[derive(Clone, Copy)]
struct Access {
    region: Region,
    at: usize,
    done_ps: u64,
    engine: EngineKind,
}

/// Accesses of one tile of one tensor.
#[derive(Default)]
struct Accesses {
    writes: Vec<Access>,
    reads: Vec<Access>,
}

/// Live bytes of a memory and when they become free.
struct Room {
    capacity: u64,
    used: u64,
    frees: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Room {
    /// The earliest time from `from_ps` on at which `bytes` fit; what never becomes free is taken as fitting.
    fn take(&mut self, bytes: u64, from_ps: u64) -> u64 {
        let mut at_ps = from_ps;
        while self.used.saturating_add(bytes) > self.capacity {
            let Some(Reverse((free_ps, freed))) = self.frees.pop() else { break };
            self.used = self.used.saturating_sub(freed);
            at_ps = at_ps.max(free_ps);
        }
        self.used = self.used.saturating_add(bytes);
        at_ps
    }
}

/// A resource that serves requests wherever it has time, not in the order in which they are made.
#[derive(Default)]
struct Lane {
    /// Busy intervals, start to end; neighbours are joined.
    busy: BTreeMap<u64, u64>,
}

impl Lane {
    /// Takes the first free interval of that length from `from_ps` on, and gives its start.
    fn reserve(&mut self, from_ps: u64, length_ps: u64) -> u64 {
        let mut start = from_ps;
        if let Some((_, &end)) = self.busy.range(..=from_ps).next_back() {
            start = start.max(end);
        }
        for (&next, &end) in self.busy.range(start..) {
            if next.saturating_sub(start) >= length_ps {
                break;
            }
            start = start.max(end);
        }
        let (mut low, mut high) = (start, start.saturating_add(length_ps));
        if let Some((&before, &end)) = self.busy.range(..=low).next_back()
            && end >= low
        {
            low = before;
        }
        if let Some(end) = self.busy.remove(&high) {
            high = end;
        }
        self.busy.insert(low, high);
        start
    }
}

struct State<'a> {
    chip: &'a Chip,
    lives: &'a Lifetimes,
    sizes: BTreeMap<u32, (Memory, u64)>,
    accesses: BTreeMap<(u32, u32), Accesses>,
    engines: [u64; 6],
    loads: Vec<Lane>,
    stores: Vec<Lane>,
    next_dma: usize,
    table: Option<crate::function::Function>,
    sbuf: Room,
    psum: Room,
}

impl<'a> State<'a> {
    fn new(chip: &'a Chip, program: &Program, lives: &'a Lifetimes) -> State<'a> {
        let sizes = program
            .allocations
            .iter()
            .filter(|allocation| allocation.memory.on_chip())
            .map(|allocation| (allocation.storage, (allocation.memory, allocation.partition_bytes)))
            .collect();
        let lanes = || (0..chip.neuron.dma.engines_per_core.max(1)).map(|_| Lane::default()).collect();
        let room = |capacity| Room { capacity, used: 0, frees: BinaryHeap::new() };
        State {
            chip,
            lives,
            sizes,
            accesses: BTreeMap::new(),
            engines: [0; 6],
            loads: lanes(),
            stores: lanes(),
            next_dma: 0,
            table: None,
            sbuf: room(chip.sbuf_usable_bytes()),
            psum: room(chip.psum_partition_bytes()),
        }
    }

    fn place(&mut self, at: usize, instruction: &Instruction) -> Span {
        let (mut ready_ps, mut reason) = (0, Reason::Engine);
        self.wait_for_data(instruction, &mut ready_ps, &mut reason);
        let room_ps = self.take_room(at, instruction, ready_ps);
        if room_ps > ready_ps {
            (ready_ps, reason) = (room_ps, Reason::Room);
        }
        let span = match instruction.engine {
            EngineKind::Dma => self.place_transfer(instruction, ready_ps, reason),
            engine => self.place_compute(engine, instruction, ready_ps, reason),
        };
        self.remember(at, instruction, span.done_ps);
        span
    }

    /// Waits for writers of what is read, and for writers and readers of what is written.
    fn wait_for_data(&self, instruction: &Instruction, ready_ps: &mut u64, reason: &mut Reason) {
        let mut wait = |access: &Access| {
            let hop = hop_ps(self.chip, access.engine, instruction.engine);
            let ready = access.done_ps.saturating_add(hop);
            if ready > *ready_ps {
                (*ready_ps, *reason) = (ready, Reason::Data(access.at));
            }
        };
        for (regions, writing) in [(&instruction.reads[..], false), (&instruction.writes[..], true)] {
            for region in regions {
                let Some(accesses) = self.accesses.get(&(region.storage, region.tile)) else { continue };
                let earlier = accesses.writes.iter().chain(if writing { &accesses.reads[..] } else { &[] });
                earlier.filter(|access| access.region.overlaps(region)).for_each(&mut wait);
            }
        }
    }

    /// Takes room for tiles whose life begins here.
    fn take_room(&mut self, at: usize, instruction: &Instruction, from_ps: u64) -> u64 {
        let mut at_ps = from_ps;
        for region in &instruction.writes {
            let begins = self.lives.get(&(region.storage, region.tile)).is_some_and(|life| life.0 == at);
            let Some(&(memory, bytes)) = self.sizes.get(&region.storage).filter(|_| begins) else { continue };
            let room = if memory == Memory::Psum { &mut self.psum } else { &mut self.sbuf };
            at_ps = room.take(bytes, at_ps);
        }
        at_ps
    }

    fn place_compute(
        &mut self,
        engine: EngineKind,
        instruction: &Instruction,
        ready_ps: u64,
        reason: Reason,
    ) -> Span {
        let free_ps = self.engines[engine as usize];
        let (mut start_ps, reason) =
            if free_ps >= ready_ps { (free_ps, Reason::Engine) } else { (ready_ps, reason) };
        if engine == EngineKind::Scalar && instruction.table.is_some() && instruction.table != self.table {
            self.table = instruction.table;
            start_ps = start_ps.saturating_add(ns_ps(self.chip.neuron.scalar.table_load_ns));
        }
        let end_ps = start_ps.saturating_add(instruction.cost.busy_ps);
        let done_ps = end_ps.saturating_add(instruction.cost.latency_ps);
        self.engines[engine as usize] = end_ps;
        if self.chip.neuron.access.vector_gpsimd_exclusive {
            match engine {
                EngineKind::Vector => self.block(EngineKind::Gpsimd, end_ps),
                EngineKind::Gpsimd => self.block(EngineKind::Vector, end_ps),
                _ => {}
            }
        }
        Span { start_ps, end_ps, done_ps, reason }
    }

    /// An engine that may not reach memory meanwhile.
    fn block(&mut self, engine: EngineKind, until_ps: u64) {
        let free = &mut self.engines[engine as usize];
        *free = (*free).max(until_ps);
    }

    /// Each engine moves its part as soon as it can, between what other queues gave it, reads and writes of HBM beside
    /// each other: published runs that stream in and out reach twice the rate of one direction. The fixed time runs
    /// beside that of other transfers.
    fn place_transfer(&mut self, instruction: &Instruction, ready_ps: u64, reason: Reason) -> Span {
        let shape = instruction.dma.unwrap_or_default();
        let start_ps = ready_ps.saturating_add(instruction.cost.latency_ps);
        let hbm = &self.chip.neuron.hbm;
        let moved = instruction.hbm_read_bytes.max(instruction.hbm_written_bytes);
        let hbm_ps = bytes_ps(moved, rate_of(hbm.stack_bytes_per_s, hbm.efficiency));
        let length_ps = shape.data_ps.max(hbm_ps);
        let lanes = if instruction.hbm_written_bytes > 0 { &mut self.stores } else { &mut self.loads };
        let count = lanes.len();
        let used = usize::try_from(shape.engines).unwrap_or(count).clamp(1, count);
        let (mut first_ps, mut end_ps) = (u64::MAX, 0);
        for step in 0..used {
            let at_ps = lanes[(self.next_dma + step) % count].reserve(start_ps, length_ps);
            first_ps = first_ps.min(at_ps);
            end_ps = end_ps.max(at_ps.saturating_add(length_ps));
        }
        self.next_dma = (self.next_dma + used) % count;
        let reason = if first_ps > start_ps { Reason::Transfer } else { reason };
        Span { start_ps: first_ps, end_ps, done_ps: end_ps, reason }
    }

    fn remember(&mut self, at: usize, instruction: &Instruction, done_ps: u64) {
        let engine = instruction.engine;
        for region in &instruction.writes {
            let accesses = self.accesses.entry((region.storage, region.tile)).or_default();
            accesses.writes.retain(|access| !region.covers(&access.region));
            accesses.reads.retain(|access| !region.covers(&access.region));
            accesses.writes.push(Access { region: *region, at, done_ps, engine });
        }
        for region in &instruction.reads {
            if self.lives.get(&(region.storage, region.tile)).is_some_and(|life| life.1 > at) {
                let accesses = self.accesses.entry((region.storage, region.tile)).or_default();
                // A later read on the same in-order engine ends later.
                let in_order = engine != EngineKind::Dma;
                accesses
                    .reads
                    .retain(|access| access.engine != engine || !in_order || !region.covers(&access.region));
                accesses.reads.push(Access { region: *region, at, done_ps, engine });
            }
        }
        for region in instruction.reads.iter().chain(&instruction.writes) {
            let key = (region.storage, region.tile);
            if self.lives.get(&key).is_none_or(|life| life.1 != at) {
                continue;
            }
            self.accesses.remove(&key);
            if let Some((memory, bytes)) = self.sizes.get(&region.storage).copied() {
                let room = if memory == Memory::Psum { &mut self.psum } else { &mut self.sbuf };
                room.frees.push(Reverse((done_ps, bytes)));
            }
        }
    }
}

/// Time from one engine's result to another's start.
fn hop_ps(chip: &Chip, from: EngineKind, to: EngineKind) -> u64 {
    let sync = &chip.neuron.sync;
    if from == to {
        return 0;
    }
    ns_ps(if from == EngineKind::Dma { sync.dma_to_compute_ns } else { sync.semaphore_ns })
}

/// A part of a rate.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive rate times a part of one"
)]
fn rate_of(bytes_per_s: u64, part: f64) -> u64 {
    (bytes_per_s as f64 * part) as u64
}
