//! The event loop: an instruction becomes ready when what it waits for is over, and starts when its engine is
//! free and no earlier instruction of the engine's window is ready
//! (docs/hardware-rules.md#order-and-synchronisation and #what-is-assumed).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_neuron_isa::chip::{bytes_ps, ns_ps};
use tilewright_neuron_isa::function::ActivationFunction;
use tilewright_neuron_isa::program::{DmaShape, EngineKind, Instruction, InstructionCost};
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram};

use super::collective_streams::{CollectiveStreams, NEVER_PS};
use super::dependences::{DependenceEdges, DependenceKind};
use super::dma::{DmaCopy, DmaEngines, DmaQueue, transfer_start_latency_ps};
use super::spill::{ScheduleNode, ScheduleNodes};
use super::systolic_array::SystolicArray;
use super::tiles::{NONE, TileTable};
use super::{InstructionWork, StallReason, TimeSpan};

/// Places all nodes in time.
pub(super) fn run(
    chip: &Chip,
    program: &NeuronProgram,
    tiles: &TileTable,
    nodes: &ScheduleNodes,
    edges: &DependenceEdges,
    override_cost: &dyn Fn(&Instruction, InstructionWork) -> InstructionWork,
) -> Vec<TimeSpan> {
    let mut event_loop = EventLoop::new(chip, program, tiles, nodes, edges, override_cost);
    event_loop.start(edges);
    while event_loop.step() {}
    event_loop.spans
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScheduleEvent {
    /// A unit can start its next instruction.
    Free(u32),
    /// A node has all that it waits for.
    Ready(u32),
}

/// An engine of a core, or a queue of transfers.
#[derive(Default)]
struct IssueUnit {
    core: usize,
    free_ps: u64,
    /// Its nodes in the order of the program.
    list: Vec<u32>,
    /// The first of them that has not started.
    oldest: usize,
    /// Ready ones, by their place in the list.
    waiting: BinaryHeap<Reverse<u32>>,
    last: Option<u32>,
    dma_queue: DmaQueue,
    /// Collectives under way, if it is the unit of them.
    streams: Option<CollectiveStreams>,
}

/// What is known of a node that runs.
#[derive(Clone, Copy)]
struct NodeState {
    unit: u32,
    /// Place in the unit's list.
    place: u32,
    /// Edges that are still open.
    open: u32,
    ready_ps: u64,
    cause: StallReason,
    started: bool,
}

pub(super) struct EventLoop<'a> {
    chip: &'a Chip,
    program: &'a NeuronProgram,
    tiles: &'a TileTable,
    nodes: &'a ScheduleNodes,
    override_cost: &'a dyn Fn(&Instruction, InstructionWork) -> InstructionWork,
    starts: Vec<u32>,
    later: Vec<(u32, DependenceKind)>,
    units: Vec<IssueUnit>,
    tasks: Vec<NodeState>,
    spans: Vec<TimeSpan>,
    events: BinaryHeap<Reverse<(u64, ScheduleEvent)>>,
    transfers: DmaEngines,
    tables: Vec<Option<ActivationFunction>>,
    arrays: Vec<SystolicArray>,
    /// Until when an engine may not reach SBUF, or PSUM, beside its partner.
    window: usize,
    barriers: CoreBarriers,
    /// Collectives that came to where they meet others; `None` if it is known when they start.
    pub(super) arrivals: Option<Vec<(u32, u64)>>,
}

/// Cores that meet: nothing after a meeting starts before all that is before it is over.
#[derive(Default)]
struct CoreBarriers {
    /// Nodes that are not over, for each meeting.
    pending: Vec<u32>,
    /// Nodes that wait for their meeting.
    deferred: Vec<Vec<u32>>,
    open: usize,
    /// Until when all that is before a meeting is over.
    time_ps: u64,
    /// The node that is over last of them.
    last: u32,
    /// When each meeting was, and the node that it waited for.
    times_ps: Vec<(u64, u32)>,
}

const ENGINES: usize = 5;

impl<'a> EventLoop<'a> {
    pub(super) fn new(
        chip: &'a Chip,
        program: &'a NeuronProgram,
        tiles: &'a TileTable,
        nodes: &'a ScheduleNodes,
        edges: &DependenceEdges,
        override_cost: &'a dyn Fn(&Instruction, InstructionWork) -> InstructionWork,
    ) -> EventLoop<'a> {
        let cores = program.cores.max(1) as usize;
        let queues = to_index(chip.neuron.dma.copy_queues);
        let per_core = ENGINES + 2 * queues + 3;
        let units = (0..cores * per_core)
            .map(|at| {
                let streams = (at % per_core == per_core - 1).then(|| CollectiveStreams::new(chip));
                IssueUnit { core: at / per_core, streams, ..IssueUnit::default() }
            })
            .collect();
        let (starts, later) = edges.reversed();
        let task = NodeState {
            unit: NONE,
            place: 0,
            open: 0,
            ready_ps: 0,
            cause: StallReason::Start,
            started: false,
        };
        let mut event_loop = EventLoop {
            chip,
            program,
            tiles,
            nodes,
            override_cost,
            starts,
            later,
            units,
            tasks: vec![task; nodes.count()],
            spans: vec![TimeSpan::default(); nodes.count()],
            events: BinaryHeap::with_capacity(1024),
            transfers: DmaEngines::new(chip, cores),
            tables: vec![None; cores],
            arrays: vec![SystolicArray::default(); cores],
            window: to_index(super::window(chip, program)),
            barriers: CoreBarriers::default(),
            arrivals: None,
        };
        event_loop.assign_units(per_core, queues);
        event_loop
    }

    /// Gives every node its unit.
    fn assign_units(&mut self, per_core: usize, queues: usize) {
        let has_barriers = self.program.cores > 1;
        for &node in &self.nodes.order {
            let unit = match self.nodes.node(node) {
                ScheduleNode::Instruction(at) => {
                    let instruction = &self.program.instructions[at as usize];
                    let core = self.program.core(instruction) as usize;
                    if has_barriers {
                        self.barriers.count(instruction.barrier as usize);
                    }
                    let unit = if instruction.collective.is_some() {
                        per_core - 1
                    } else {
                        unit_of(instruction, queues)
                    };
                    core * per_core + unit
                }
                ScheduleNode::Save(tile) => self.core_of(tile) * per_core + ENGINES + 2 * queues,
                ScheduleNode::Reload(tile) => self.core_of(tile) * per_core + ENGINES + 2 * queues + 1,
                ScheduleNode::Drop(_) => continue,
            };
            let (Some(task), Some(unit_state)) =
                (self.tasks.get_mut(node as usize), self.units.get_mut(unit))
            else {
                continue;
            };
            task.unit = u32::try_from(unit).or_broken("more units than are numbered");
            task.place = u32::try_from(unit_state.list.len()).or_broken("more nodes than are numbered");
            unit_state.list.push(node);
        }
        // Cores that meet before they do anything wait for nobody.
        self.barriers.advance();
    }

    fn core_of(&self, tile: u32) -> usize {
        let first = self.tiles.facts[tile as usize].life.0;
        self.program.core(&self.program.instructions[first as usize]) as usize
    }

    /// When something happens next.
    pub(super) fn next_ps(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((time_ps, _))| *time_ps)
    }

    /// Lets the next thing happen; false if there is nothing left.
    pub(super) fn step(&mut self) -> bool {
        let Some(Reverse((time_ps, event))) = self.events.pop() else { return false };
        match event {
            ScheduleEvent::Ready(node) => self.ready(node, time_ps),
            ScheduleEvent::Free(unit) => self.issue(unit as usize, time_ps),
        }
        true
    }

    pub(super) fn start(&mut self, edges: &DependenceEdges) {
        for node in (0_u32..).take(self.tasks.len()) {
            let open = u32::try_from(edges.edges_into(node).len()).or_broken("more edges than are numbered");
            self.tasks[node as usize].open = open;
            if open == 0 {
                self.events.push(Reverse((0, ScheduleEvent::Ready(node))));
            }
        }
    }

    /// A node has what it waits for; it may still have to wait for a meeting.
    fn ready(&mut self, node: u32, time_ps: u64) {
        let task = self.tasks[node as usize];
        let Some(unit) = self.units.get_mut(task.unit as usize) else { return };
        if self.program.cores > 1
            && let Some(barrier) =
                self.program.instructions.get(node as usize).map(|one| one.barrier as usize)
        {
            if self.barriers.defer(barrier, node) {
                return;
            }
            let (after_ps, last) = self.barriers.times_ps[barrier];
            if after_ps > time_ps {
                let task = &mut self.tasks[node as usize];
                (task.ready_ps, task.cause) = (after_ps, StallReason::Barrier(last));
                self.events.push(Reverse((after_ps, ScheduleEvent::Ready(node))));
                return;
            }
        }
        unit.waiting.push(Reverse(task.place));
        self.issue(task.unit as usize, time_ps);
    }

    /// Starts what the unit can start now.
    fn issue(&mut self, at: usize, now_ps: u64) {
        loop {
            let unit = &mut self.units[at];
            if unit.free_ps > now_ps {
                return;
            }
            let Some(&Reverse(place)) = unit.waiting.peek() else { return };
            // Ranks could wait for each other if collectives changed places.
            let window = if unit.streams.is_some() { 1 } else { self.window };
            if place as usize >= unit.oldest.exact_add(window) {
                return;
            }
            unit.waiting.pop();
            let node = unit.list[place as usize];
            let (behind, before_ps) = (unit.last, unit.free_ps);
            let task = self.tasks[node as usize];
            let cause = match behind {
                Some(behind) if before_ps >= task.ready_ps && before_ps > 0 => StallReason::Engine(behind),
                _ => task.cause,
            };
            if self.arrives_at_rendezvous(at, node, now_ps) {
                continue;
            }
            let span = self.place(at, node, now_ps, cause);
            self.started(at, node);
            self.finish(at, node, span);
        }
    }

    /// Notes when a node runs, and who can go on then.
    fn finish(&mut self, at: usize, node: u32, span: TimeSpan) {
        self.spans[node as usize] = span;
        self.wake(node, span);
        let free_ps = self.units[at].free_ps;
        if free_ps < NEVER_PS {
            self.events.push(Reverse((
                free_ps,
                ScheduleEvent::Free(u32::try_from(at).or_broken("more units than are numbered")),
            )));
        }
    }

    /// True if the node is a collective that has to wait for other ranks, of which nothing is known yet.
    fn arrives_at_rendezvous(&mut self, at: usize, node: u32, now_ps: u64) -> bool {
        let collective = self.program.instructions.get(node as usize).and_then(|one| one.collective.as_ref());
        let has_peers = collective.is_some_and(|collective| collective.members.len() > 1);
        let Some(arrivals) = self.arrivals.as_mut().filter(|_| has_peers) else { return false };
        arrivals.push((node, now_ps));
        if let Some(unit) = self.units.get_mut(at) {
            unit.free_ps = unit.streams.as_mut().map_or(now_ps, |streams| streams.wait(now_ps));
        }
        self.started(at, node);
        true
    }

    /// All ranks came: the collective that this machine waits in runs from `start_ps` on.
    pub(super) fn begin_collective(&mut self, node: u32, start_ps: u64, cost: InstructionCost) {
        let end_ps = start_ps.exact_add(cost.busy_ps);
        let done_ps = end_ps.exact_add(cost.latency_ps);
        let at = self.tasks[node as usize].unit as usize;
        if let Some(unit) = self.units.get_mut(at) {
            unit.free_ps = unit.streams.as_mut().map_or(end_ps, |streams| streams.go_on(start_ps, done_ps));
        }
        self.finish(at, node, TimeSpan { start_ps, end_ps, done_ps, reason: StallReason::Ranks });
    }

    fn started(&mut self, at: usize, node: u32) {
        self.tasks[node as usize].started = true;
        let unit = &mut self.units[at];
        unit.last = Some(node);
        while let Some(&next) = unit.list.get(unit.oldest)
            && self.tasks[next as usize].started
        {
            unit.oldest += 1;
        }
    }

    fn place(&mut self, at: usize, node: u32, now_ps: u64, cause: StallReason) -> TimeSpan {
        match self.nodes.node(node) {
            ScheduleNode::Instruction(number) => {
                let program = self.program;
                let Some(instruction) = program.instructions.get(number as usize) else {
                    return TimeSpan::default();
                };
                let work = (self.override_cost)(
                    instruction,
                    InstructionWork { cost: instruction.cost, dma: instruction.dma },
                );
                // Collectives take the time of their links, not of the queues.
                if let (EngineKind::Dma, Some(shape)) = (instruction.engine, work.dma) {
                    let copy = DmaCopy {
                        node,
                        core: self.units[at].core,
                        shape,
                        hbm_read_bytes: instruction.hbm_read_bytes,
                        hbm_written_bytes: instruction.hbm_written_bytes,
                    };
                    self.transfer(at, &copy, now_ps, cause)
                } else {
                    self.compute(at, instruction, work, now_ps, cause)
                }
            }
            ScheduleNode::Save(tile) => {
                let copy = self.spill(at, node, tile, true);
                self.transfer(at, &copy, now_ps, cause)
            }
            ScheduleNode::Reload(tile) => {
                let copy = self.spill(at, node, tile, false);
                self.transfer(at, &copy, now_ps, cause)
            }
            ScheduleNode::Drop(_) => TimeSpan::default(),
        }
    }

    fn spill(&self, at: usize, node: u32, tile: u32, saves: bool) -> DmaCopy {
        let dma = &self.chip.neuron.dma;
        let facts = &self.tiles.facts[tile as usize];
        let bytes = facts.bytes.exact_mul(facts.partitions);
        let partitions = facts.partitions;
        let engines =
            partitions.div_ceil(dma.partitions_per_engine.max(1)).clamp(1, dma.engines_per_core.max(1));
        let shape = DmaShape {
            engines: u32::try_from(engines).or_broken("more DMA engines than machines have"),
            data_ps: bytes_ps(bytes.div_ceil(engines), dma.achieved_bytes_per_s),
            bytes,
            descriptors: partitions,
            software: false,
        };
        let (read, written) = if saves { (0, bytes) } else { (bytes, 0) };
        DmaCopy { node, core: self.units[at].core, shape, hbm_read_bytes: read, hbm_written_bytes: written }
    }

    fn transfer(&mut self, at: usize, copy: &DmaCopy, now_ps: u64, cause: StallReason) -> TimeSpan {
        let from_ps = now_ps.exact_add(transfer_start_latency_ps(self.chip, &copy.shape));
        let moved = self.transfers.place(copy, from_ps);
        let reason = moved.behind.map_or(cause, StallReason::Transfer);
        let reason =
            if let StallReason::Engine(behind) = reason { StallReason::Transfer(behind) } else { reason };
        let unit = &mut self.units[at];
        unit.free_ps = unit.dma_queue.next_start_ps(self.chip, now_ps, copy.shape.data_ps, moved.end_ps);
        TimeSpan { start_ps: moved.start_ps, end_ps: moved.end_ps, done_ps: moved.end_ps, reason }
    }

    fn compute(
        &mut self,
        at: usize,
        instruction: &Instruction,
        work: InstructionWork,
        now_ps: u64,
        cause: StallReason,
    ) -> TimeSpan {
        let core = self.units[at].core;
        let (mut start_ps, mut reason) = (now_ps, cause);
        if let Some(collective) =
            instruction.collective.as_ref().filter(|collective| collective.start_ps > now_ps)
        {
            (start_ps, reason) = (collective.start_ps, StallReason::Ranks);
        }
        for partner in self.partners(at, instruction) {
            let unit = &self.units[partner];
            let Some(last) = unit.last.filter(|_| unit.free_ps > start_ps) else { continue };
            if self.excludes(instruction, last) {
                start_ps = unit.free_ps;
                reason = StallReason::Engine(last);
            }
        }
        if instruction.engine == EngineKind::Scalar
            && instruction.table.is_some()
            && self.tables.get(core).is_some_and(|table| *table != instruction.table)
        {
            self.tables[core] = instruction.table;
            // ACT_TABLE_LOAD stands before the activation in the engine's stream and needs no operand: it
            // runs while those are waited for.
            let loaded_ps = self.units[at].free_ps.exact_add(ns_ps(self.chip.neuron.scalar.table_load_ns));
            start_ps = start_ps.max(loaded_ps);
        }
        let mut end_ps = start_ps.exact_add(work.cost.busy_ps);
        self.units[at].free_ps = end_ps;
        if instruction.engine == EngineKind::Tensor
            && let Some(array) = self.arrays.get_mut(core)
        {
            let placed = array.place(self.chip, instruction.cells, start_ps, work.cost.busy_ps);
            (start_ps, end_ps, self.units[at].free_ps) = (placed.start_ps, placed.end_ps, placed.next_ps);
        }
        let done_ps = end_ps.exact_add(work.cost.latency_ps);
        let unit = &mut self.units[at];
        if let Some(streams) = &mut unit.streams {
            unit.free_ps = streams.begin(now_ps, done_ps);
        }
        TimeSpan { start_ps, end_ps, done_ps, reason }
    }

    /// Units that may keep an instruction from memory.
    fn partners(&self, at: usize, instruction: &Instruction) -> impl Iterator<Item = usize> + use<> {
        let base = at - unit_of(instruction, 1).min(at);
        let access = &self.chip.neuron.access;
        let pair = |on: bool, a: EngineKind, b: EngineKind| match instruction.engine {
            engine if on && engine == a => Some(base + engine_unit(b)),
            engine if on && engine == b => Some(base + engine_unit(a)),
            _ => None,
        };
        let port = access.vector_gpsimd_exclusive || self.chip.neuron.vector.fast_rate > 1;
        let gpsimd = pair(port, EngineKind::Vector, EngineKind::Gpsimd);
        let scalar = pair(access.vector_scalar_exclusive, EngineKind::Vector, EngineKind::Scalar);
        [gpsimd, scalar].into_iter().flatten()
    }

    /// Whether two instructions of engines that exclude each other need the same memory: Vector and GpSimd
    /// share SBUF always, or where Vector has fast modes only in those, Vector and Scalar exclude each other
    /// from PSUM.
    fn excludes(&self, instruction: &Instruction, other: u32) -> bool {
        let Some(other) = self.program.instructions.get(other as usize) else { return false };
        if [instruction.engine, other.engine].contains(&EngineKind::Gpsimd) {
            let borrows = |one: &Instruction| one.engine == EngineKind::Vector && one.borrows_port;
            return self.chip.neuron.access.vector_gpsimd_exclusive || borrows(instruction) || borrows(other);
        }
        self.in_psum(instruction) && self.in_psum(other)
    }

    fn in_psum(&self, instruction: &Instruction) -> bool {
        instruction.reads.iter().chain(&instruction.writes).any(|region| {
            let allocation = self.program.allocations.get(region.storage as usize);
            allocation.is_some_and(|allocation| allocation.memory == MemorySpace::Psum)
        })
    }

    /// Tells later nodes when they may go on.
    fn wake(&mut self, node: u32, span: TimeSpan) {
        let (start, end) = (self.starts[node as usize] as usize, self.starts[node as usize + 1] as usize);
        let engine = self.engine_of(node);
        for at in start..end {
            let (later, wait) = self.later[at];
            let to = self.engine_of(later);
            let time_ps = match wait {
                DependenceKind::Done => span.done_ps.exact_add(super::hop_ps(self.chip, engine, to)),
                DependenceKind::Read | DependenceKind::Space => {
                    span.end_ps.exact_add(super::hop_ps(self.chip, engine, to))
                }
                DependenceKind::Order => span.start_ps,
            };
            let task = &mut self.tasks[later as usize];
            if time_ps >= task.ready_ps {
                task.ready_ps = time_ps;
                task.cause = if wait == DependenceKind::Space {
                    StallReason::Space(node)
                } else {
                    StallReason::Data(node)
                };
            }
            task.open = task.open.exact_sub(1);
            if task.open == 0 {
                let ready_ps = task.ready_ps;
                self.events.push(Reverse((ready_ps, ScheduleEvent::Ready(later))));
            }
        }
        if self.program.cores > 1
            && let Some(barrier) =
                self.program.instructions.get(node as usize).map(|one| one.barrier as usize)
        {
            let hop_ps = ns_ps(self.chip.neuron.sync.dma_round_trip_ns);
            for deferred in self.barriers.node_done(barrier, node, span.done_ps.exact_add(hop_ps)) {
                self.events.push(Reverse((span.start_ps, ScheduleEvent::Ready(deferred))));
            }
        }
    }

    fn engine_of(&self, node: u32) -> EngineKind {
        self.program.instructions.get(node as usize).map_or(EngineKind::Dma, |one| one.engine)
    }
}

impl CoreBarriers {
    fn count(&mut self, barrier: usize) {
        if self.pending.len() <= barrier {
            self.pending.resize(barrier + 1, 0);
            self.deferred.resize_with(barrier + 1, Vec::new);
            self.times_ps.resize(barrier + 1, (0, 0));
        }
        self.pending[barrier] += 1;
    }

    /// Keeps a node back until its meeting.
    fn defer(&mut self, barrier: usize, node: u32) -> bool {
        if barrier <= self.open {
            return false;
        }
        if let Some(deferred) = self.deferred.get_mut(barrier) {
            deferred.push(node);
        }
        true
    }

    /// A node is over, and the other core knows; those that may go on now.
    fn node_done(&mut self, barrier: usize, node: u32, known_ps: u64) -> Vec<u32> {
        self.pending[barrier] = self.pending[barrier].exact_sub(1);
        if known_ps > self.time_ps {
            (self.time_ps, self.last) = (known_ps, node);
        }
        self.advance()
    }

    /// Opens the meetings before which nothing is left to do; those that may go on now.
    fn advance(&mut self) -> Vec<u32> {
        let mut free = Vec::new();
        while self.pending.get(self.open).is_some_and(|&pending| pending == 0)
            && self.open + 1 < self.pending.len()
        {
            self.open += 1;
            self.times_ps[self.open] = (self.time_ps, self.last);
            free.append(&mut self.deferred[self.open]);
        }
        free
    }
}

/// Place of an engine among the units of a core.
fn engine_unit(engine: EngineKind) -> usize {
    match engine {
        EngineKind::Tensor => 0,
        EngineKind::Vector => 1,
        EngineKind::Scalar => 2,
        EngineKind::Gpsimd => 3,
        EngineKind::Sync | EngineKind::Dma => 4,
    }
}

/// The unit of an instruction within its core: its engine, or a queue of its direction and line.
fn unit_of(instruction: &Instruction, queues: usize) -> usize {
    if instruction.engine != EngineKind::Dma {
        return engine_unit(instruction.engine);
    }
    let direction = if instruction.hbm_written_bytes > 0 { queues } else { 0 };
    ENGINES + direction + instruction.source as usize % queues.max(1)
}
