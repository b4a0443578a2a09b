//! When the instructions of a candidate run: engines and queues in the order of the program, each instruction
//! as soon as its operands, its engine and the room for its result are there. The rules of queues, transfers
//! and hops are those of the engine's scheduler; what is left out is the scheduler's search for instructions
//! that are ready, as these programs keep their order.
//!
//! The outermost loop is followed until two of its iterations in a row take equally long; the rest then takes
//! as long as these.

use std::collections::VecDeque;

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::chip::hbm_ps;
use tilewright_neuron_isa::{Chip, EngineKind};
use tilewright_neuron_sim::schedule::dma::{DmaCopy, DmaEngines, DmaQueue, queue_of, start_latency_ps};
use tilewright_neuron_sim::schedule::{ClockRamp, hop_ps};

use super::cost_table::{BlockLoad, CostTable, kind};
use super::count::LINES;
use super::instruction_cost::{DrainStep, InstructionCost, index};
use super::memory_use::ROWS_OUT;
use super::point::{DrainEngine, MatmulAxis, TilingPlan};
use super::space::MOST_BUFFERS;

/// Iterations of the outermost loop that are followed at its end: loads are at most so many blocks ahead.
const LAST: u64 = MOST_BUFFERS as u64;

/// Times after each iteration of the outermost loop.
type IterationMarks = [u64; 6];

/// Picoseconds from the first load to the last result in HBM. `slots` is how many tiles of sums PSUM holds,
/// `hbm_bytes` what goes to and from HBM.
pub fn picoseconds(chip: &Chip, plan: &TilingPlan, table: &CostTable<'_>, slots: u64, hbm_bytes: u64) -> u64 {
    let mut clock = EngineClocks::new(chip, plan, table, slots);
    let count = clock.steps.outer_count();
    let mut marks: [IterationMarks; 3] = [IterationMarks::default(); 3];
    let (mut at, mut offset_ps) = (0, 0_u64);
    while at < count {
        clock.iteration(at);
        marks = [marks[1], marks[2], clock.marks()];
        let left = count - 1 - at;
        if at >= 3
            && left > LAST
            && let Some(period_ps) = period(&marks)
        {
            offset_ps = offset_ps.exact_add(period_ps.exact_mul(left - LAST));
            clock.skip(left - LAST);
            at = count - LAST;
        } else {
            at += 1;
        }
    }
    clock.end_ps.exact_add(offset_ps).max(hbm_ps(chip, hbm_bytes))
}

/// The steps of a program: batch positions and blocks, the last loop running fastest.
#[derive(Clone, Copy, Debug)]
struct BlockSteps {
    sizes: [u64; 4],
    order: [MatmulAxis; 3],
    at: [u64; 4],
    over: bool,
}

impl BlockSteps {
    fn new(plan: &TilingPlan) -> BlockSteps {
        let order = plan.order();
        let [first, second, third] = order.map(|side| plan.cut(side).blocks());
        BlockSteps { sizes: [plan.batch, first, second, third], order, at: [0; 4], over: false }
    }

    /// The outermost loop that has more than one iteration.
    fn outer(&self) -> usize {
        self.sizes.iter().position(|size| *size > 1).unwrap_or(3)
    }

    fn outer_count(&self) -> u64 {
        self.sizes[self.outer()]
    }

    /// Batch position and block numbers by side.
    fn step(&self) -> Option<(u64, [u64; 3])> {
        let [batch, numbers @ ..] = self.at;
        let mut block = [0; 3];
        for (side, number) in self.order.into_iter().zip(numbers) {
            block[side as usize] = number;
        }
        (!self.over).then_some((batch, block))
    }

    fn advance(&mut self) {
        for (at, size) in self.at.iter_mut().zip(self.sizes).rev() {
            *at += 1;
            if *at < size {
                return;
            }
            *at = 0;
        }
        self.over = true;
    }

    /// Leaves out iterations of the outermost loop.
    fn skip(&mut self, iterations: u64) {
        let outer = self.outer();
        self.at[outer] = self.at[outer].exact_add(iterations);
        self.over |= self.at[outer] >= self.sizes[outer];
    }
}

/// How long an iteration takes, if the last two took equally long for everybody.
fn period(marks: &[IterationMarks; 3]) -> Option<u64> {
    let period = marks[2][0].checked_sub(marks[1][0])?;
    let steady = marks[0].iter().zip(&marks[1]).zip(&marks[2]).all(|((first, second), third)| {
        let (before, now) = (second.saturating_sub(*first), third.saturating_sub(*second));
        before == now && (now == period || *third == 0)
    });
    steady.then_some(period)
}

/// A block of an input in SBUF.
#[derive(Clone, Debug, Default)]
struct BlockBuffer {
    /// When each tile along the sum is there.
    arrivals_ps: Vec<u64>,
    /// When all are.
    latest_ps: u64,
    /// The tensor engine has read it for the last time.
    read_ps: u64,
    /// Time of the matmul of one tile, in that last run.
    tile_ps: u64,
    /// When that run had read each tile, if it waited between them.
    reads_ps: Vec<u64>,
}

/// Blocks of one input, used in turn.
#[derive(Clone, Debug)]
struct BlockRing {
    buffers: Vec<BlockBuffer>,
    /// Block that is in use, block that was loaded last: counted from the first.
    used: Option<u64>,
    loaded: Option<u64>,
    /// Which blocks these are: batch position, own block, block of the sum.
    used_key: Option<[u64; 3]>,
    loaded_key: Option<[u64; 3]>,
}

impl BlockRing {
    fn new(buffers: u64) -> BlockRing {
        BlockRing {
            buffers: vec![BlockBuffer::default(); index(buffers).max(1)],
            used: None,
            loaded: None,
            used_key: None,
            loaded_key: None,
        }
    }

    /// The buffer of a block.
    fn place(&self, block: Option<u64>) -> usize {
        index(block.unwrap_or(0)) % self.buffers.len()
    }

    /// Whether the buffer of the next block has been read for the last time; `over` if the block in use has
    /// been, too.
    fn has_room(&self, over: bool) -> bool {
        let Some(loaded) = self.loaded else { return true };
        let room = self.buffers.len() as u64;
        loaded + 1 < room || self.used.is_some_and(|used| loaded + 1 < used + room + u64::from(over))
    }
}

struct EngineClocks<'a> {
    chip: &'a Chip,
    plan: &'a TilingPlan,
    table: &'a CostTable<'a>,
    transfers: DmaEngines,
    /// The step that is computed next, and the one whose blocks are loaded next.
    steps: BlockSteps,
    loads: BlockSteps,
    /// Steps whose blocks are loaded or lined up, and copies of the last of them that have not started.
    ahead: u64,
    pending: VecDeque<(usize, &'a InstructionCost, u64, u64)>,
    start_latency_ps: u64,
    hop_ps: u64,
    arrival_hop_ps: u64,
    load_free_ps: [u64; 2],
    load_flights: [DmaQueue; 2],
    store_free_ps: u64,
    store_flight: DmaQueue,
    tensor_free_ps: u64,
    ramp: ClockRamp,
    drain_free_ps: [u64; 2],
    rings: [BlockRing; 2],
    /// When each tile of PSUM is free again.
    slots_ps: Vec<u64>,
    next_slot: usize,
    /// The slot of each open tile of results.
    open_slots: Vec<usize>,
    /// When sums that wait in SBUF can be read.
    waiting_ps: Vec<u64>,
    rows_ps: Vec<u64>,
    next_row: usize,
    drained: u64,
    end_ps: u64,
    /// When the run that is under way had read each tile.
    reads_ps: Vec<u64>,
}

impl<'a> EngineClocks<'a> {
    fn new(chip: &'a Chip, plan: &'a TilingPlan, table: &'a CostTable<'a>, slots: u64) -> EngineClocks<'a> {
        let open = if plan.cut(MatmulAxis::Summed).blocks() > 1 { index(plan.open_tiles()) } else { 0 };
        EngineClocks {
            chip,
            plan,
            table,
            transfers: DmaEngines::new(chip, 1),
            steps: BlockSteps::new(plan),
            loads: BlockSteps::new(plan),
            ahead: 0,
            pending: VecDeque::new(),
            start_latency_ps: start_latency_ps(chip),
            hop_ps: hop_ps(chip, EngineKind::Tensor, EngineKind::Vector),
            arrival_hop_ps: hop_ps(chip, EngineKind::Dma, EngineKind::Tensor),
            load_free_ps: [0; 2],
            load_flights: Default::default(),
            store_free_ps: 0,
            store_flight: DmaQueue::default(),
            tensor_free_ps: 0,
            ramp: ClockRamp::default(),
            drain_free_ps: [0; 2],
            rings: [MatmulAxis::Held, MatmulAxis::Moving].map(|side| BlockRing::new(plan.buffers(side))),
            slots_ps: vec![0; index(slots).max(1)],
            next_slot: 0,
            open_slots: vec![0; open],
            waiting_ps: vec![0; if plan.adds() { open } else { 0 }],
            rows_ps: vec![0; index(ROWS_OUT)],
            next_row: 0,
            drained: 0,
            end_ps: 0,
            reads_ps: Vec::new(),
        }
    }

    fn marks(&self) -> IterationMarks {
        let [first, second] = self.load_free_ps;
        let [vector, scalar] = self.drain_free_ps;
        [self.tensor_free_ps, first, second, vector, scalar, self.store_free_ps]
    }

    /// All steps of one iteration of the outermost loop.
    fn iteration(&mut self, at: u64) {
        let outer = self.steps.outer();
        while self.steps.at[outer] == at
            && let Some((batch, block)) = self.steps.step()
        {
            self.step(batch, block);
            self.steps.advance();
        }
    }

    fn skip(&mut self, iterations: u64) {
        self.steps.skip(iterations);
        self.loads.skip(iterations);
    }

    /// Loads what a step needs, and multiplies.
    fn step(&mut self, batch: u64, block: [u64; 3]) {
        if self.ahead == 0 {
            self.load_next();
        }
        if self.ahead == 1 {
            while let Some((at, facts, brought, tiles)) = self.pending.pop_front() {
                self.copy(at, facts, brought, tiles);
            }
        }
        self.ahead = self.ahead.exact_sub(1);
        for (at, own) in block[..2].iter().enumerate() {
            let (ring, key) = (&mut self.rings[at], Some([batch, *own, block[2]]));
            if ring.used_key != key {
                ring.used_key = key;
                ring.used = Some(ring.used.map_or(0, |used| used + 1));
            }
        }
        let [held, moving, summed] = self.plan.cuts;
        let [h, m, s] = block;
        let first = s == 0;
        let last = s + 1 == summed.blocks();
        let ends = last || self.plan.adds();
        let open = self.open_block(block);
        let (rows, columns) = (held.block_tiles(h), moving.block_tiles(m));
        for row in 0..rows {
            let short_row = usize::from(held.is_short(h, row));
            let mut row_done_ps = 0;
            for column in 0..columns {
                let short_column = usize::from(moving.is_short(m, column));
                let tile = index(
                    (open * held.block.min(held.tiles()) + row) * moving.block.min(moving.tiles()) + column,
                );
                let slot = self.slot(tile, first || self.plan.adds());
                let begins_ps = if first || self.plan.adds() { self.slots_ps[slot] } else { 0 };
                let done_ps = self.run(block, (short_row, short_column), begins_ps);
                if ends {
                    let facts = &self.table.tiles.leave[short_row][short_column];
                    row_done_ps = row_done_ps.max(self.leave(facts, (first, last), (tile, slot), done_ps));
                }
            }
            if last {
                let facts = self.table.stores[short_row][kind(&moving, m)];
                self.store(&facts, row_done_ps, row + 1 == rows);
            }
        }
    }

    /// The number of a block of results among those that are open at once.
    fn open_block(&self, block: [u64; 3]) -> u64 {
        if self.plan.cut(MatmulAxis::Summed).blocks() == 1 {
            return 0;
        }
        let order = self.plan.order();
        let inside = order.iter().rev().take_while(|side| **side != MatmulAxis::Summed).count();
        order[3 - inside..]
            .iter()
            .fold(0, |number, side| number * self.plan.cut(*side).blocks() + block[*side as usize])
    }

    fn slot(&mut self, tile: usize, new: bool) -> usize {
        if new {
            let slot = self.next_slot;
            self.next_slot = (slot + 1) % self.slots_ps.len();
            if let Some(open) = self.open_slots.get_mut(tile) {
                *open = slot;
            }
            return slot;
        }
        self.open_slots[tile]
    }

    /// Starts copies that come before a store: HBM serves transfers in the order in which they start.
    fn load_until(&mut self, before_ps: u64, step_is_over: bool) {
        let mut next = self.steps;
        next.advance();
        loop {
            while let Some(&(at, facts, brought, tiles)) = self.pending.front() {
                if self.copy_start_ps(at, brought, tiles) > before_ps {
                    return;
                }
                self.pending.pop_front();
                self.copy(at, facts, brought, tiles);
            }
            let Some((batch, block)) = self.loads.step() else { return };
            for (at, own) in block[..2].iter().enumerate() {
                let ring = &self.rings[at];
                let goes_on = next.step().is_some_and(|(b, n)| ring.used_key == Some([b, n[at], n[2]]));
                let missing = ring.loaded_key != Some([batch, *own, block[2]]);
                if missing && !ring.has_room(step_is_over && !goes_on) {
                    return;
                }
            }
            self.load_next();
        }
    }

    /// Makes room for the blocks of the next step that are not there, and lines up their copies, those of
    /// both inputs in turn.
    fn load_next(&mut self) {
        let Some((batch, block)) = self.loads.step() else { return };
        self.loads.advance();
        self.ahead += 1;
        let [h, m, s] = block;
        let summed = self.plan.cut(MatmulAxis::Summed);
        let table = self.table;
        let mut missing: [Option<&'a BlockLoad>; 2] = [None; 2];
        for (at, (side, own)) in [(MatmulAxis::Held, h), (MatmulAxis::Moving, m)].into_iter().enumerate() {
            let ring = &mut self.rings[at];
            let key = Some([batch, own, s]);
            if ring.loaded_key == key {
                continue;
            }
            ring.loaded_key = key;
            ring.loaded = Some(ring.loaded.map_or(0, |loaded| loaded + 1));
            missing[at] = Some(&table.loads[at][kind(self.plan.cut(side), own)][kind(summed, s)]);
            let place = ring.place(ring.loaded);
            let buffer = &mut ring.buffers[place];
            buffer.arrivals_ps.clear();
            buffer.latest_ps = 0;
        }
        let mut copies = missing.map(|block| block.into_iter().flat_map(BlockLoad::each));
        let tiles = summed.block_tiles(s);
        loop {
            let next = [copies[0].next(), copies[1].next()];
            for (at, copy) in next.iter().enumerate() {
                self.pending.extend(copy.map(|(facts, brought)| (at, facts, brought, tiles)));
            }
            if next.iter().all(Option::is_none) {
                break;
            }
        }
    }

    /// When the queue can start a copy to the buffer that is loaded, the next of its tiles.
    fn copy_start_ps(&self, at: usize, brought: u64, tiles: u64) -> u64 {
        let ring = &self.rings[at];
        let buffer = &ring.buffers[ring.place(ring.loaded)];
        // Tiles that come later are read later by the last run over what the buffer held.
        let upto = buffer.arrivals_ps.len() + index(brought);
        let behind = tiles.saturating_sub(upto as u64);
        let dense_ps = buffer.read_ps.saturating_sub(behind.exact_mul(buffer.tile_ps));
        let free_ps = match buffer.reads_ps.last() {
            None => dense_ps,
            Some(last) => buffer.reads_ps.get(upto.saturating_sub(1)).copied().unwrap_or(*last),
        };
        let free_ps = if buffer.read_ps == 0 { 0 } else { free_ps.exact_add(self.hop_ps) };
        self.load_free_ps[queue_of(self.chip, LINES[at]).min(1)].max(free_ps)
    }

    fn copy(&mut self, at: usize, facts: &InstructionCost, brought: u64, tiles: u64) {
        let queue = queue_of(self.chip, LINES[at]).min(1);
        let start_ps = self.copy_start_ps(at, brought, tiles);
        let copy = DmaCopy {
            node: 0,
            core: 0,
            shape: facts.dma,
            hbm_read_bytes: facts.hbm_read_bytes,
            hbm_written_bytes: 0,
        };
        let moved = self.transfers.place(&copy, start_ps.exact_add(self.start_latency_ps));
        self.load_free_ps[queue] =
            self.load_flights[queue].next_start_ps(self.chip, start_ps, facts.dma.data_ps, moved.end_ps);
        let there_ps = moved.end_ps.exact_add(self.arrival_hop_ps);
        let ring = &mut self.rings[at];
        let place = ring.place(ring.loaded);
        let buffer = &mut ring.buffers[place];
        buffer.arrivals_ps.extend(std::iter::repeat_n(there_ps, index(brought)));
        buffer.latest_ps = buffer.latest_ps.max(there_ps);
    }

    /// The matmuls of one tile of results over a block of the sum; when their result can be read.
    fn run(&mut self, block: [u64; 3], (row, column): (usize, usize), begins_ps: u64) -> u64 {
        let summed = self.plan.cut(MatmulAxis::Summed);
        let tiles = summed.block_tiles(block[MatmulAxis::Summed as usize]);
        let short = summed.is_short(block[MatmulAxis::Summed as usize], tiles.saturating_sub(1));
        let facts = &self.table.tiles.matmul[row][column];
        let (whole, part) = (facts[0][0].busy_ps, facts[1][0].busy_ps);
        let [held, moving] = [0, 1].map(|at| self.rings[at].place(self.rings[at].used));
        let there_ps = self.rings[0].buffers[held].latest_ps.max(self.rings[1].buffers[moving].latest_ps);
        let mut at_ps = self.tensor_free_ps.max(begins_ps);
        if at_ps >= there_ps && self.ramp.is_full(self.chip, at_ps) {
            self.reads_ps.clear();
            let all = if short { whole * (tiles - 1) + part } else { whole * tiles };
            at_ps = at_ps.exact_add(self.ramp.ramped_ps(self.chip, at_ps, all));
        } else {
            self.reads_ps.clear();
            for tile in 0..tiles {
                let arrival =
                    |at: usize, buffer: usize| self.rings[at].buffers[buffer].arrivals_ps[index(tile)];
                let there_ps = arrival(0, held).max(arrival(1, moving));
                let busy = if short && tile + 1 == tiles { part } else { whole };
                let start_ps = at_ps.max(there_ps);
                at_ps = start_ps.exact_add(self.ramp.ramped_ps(self.chip, start_ps, busy));
                self.reads_ps.push(at_ps);
            }
        }
        self.tensor_free_ps = at_ps;
        for (ring, buffer) in self.rings.iter_mut().zip([held, moving]) {
            ring.buffers[buffer].read_ps = at_ps;
            ring.buffers[buffer].tile_ps = whole;
            ring.buffers[buffer].reads_ps.clone_from(&self.reads_ps);
        }
        at_ps.exact_add(facts[0][0].latency_ps)
    }

    /// Takes a tile of sums out of PSUM; when what it gives can be read.
    fn leave(
        &mut self,
        facts: &[[InstructionCost; 2]; 4],
        (first, last): (bool, bool),
        (tile, slot): (usize, usize),
        done_ps: u64,
    ) -> u64 {
        let how = match (self.plan.adds(), first, last) {
            (false, _, _) => DrainStep::Whole,
            (true, true, _) => DrainStep::First,
            (true, false, false) => DrainStep::Add,
            (true, false, true) => DrainStep::Last,
        };
        let engine = match self.plan.choice.drain {
            _ if self.plan.adds() => 0,
            DrainEngine::Vector => 0,
            DrainEngine::Scalar => 1,
            DrainEngine::Both => index(self.drained % 2),
        };
        self.drained += 1;
        let one = &facts[how as usize][engine];
        let mut start_ps = self.drain_free_ps[engine].max(done_ps.exact_add(self.hop_ps));
        if matches!(how, DrainStep::Whole | DrainStep::Last) {
            start_ps = start_ps.max(self.rows_ps[self.next_row]);
        }
        if matches!(how, DrainStep::Add | DrainStep::Last) {
            start_ps = start_ps.max(self.waiting_ps.get(tile).copied().unwrap_or(0));
        }
        if self.chip.neuron.access.vector_scalar_exclusive {
            start_ps = start_ps.max(self.drain_free_ps[1 - engine]);
        }
        let end_ps = start_ps.exact_add(one.busy_ps);
        self.drain_free_ps[engine] = end_ps;
        self.slots_ps[slot] = end_ps.exact_add(self.hop_ps);
        let ready_ps = end_ps.exact_add(one.latency_ps);
        if let Some(waiting) = self.waiting_ps.get_mut(tile) {
            *waiting = ready_ps;
        }
        ready_ps
    }

    /// A row of results goes to HBM.
    fn store(&mut self, facts: &InstructionCost, ready_ps: u64, step_is_over: bool) {
        let start_ps = self.store_free_ps.max(ready_ps.exact_add(self.hop_ps));
        self.load_until(start_ps, step_is_over);
        let copy = DmaCopy {
            node: 0,
            core: 0,
            shape: facts.dma,
            hbm_read_bytes: 0,
            hbm_written_bytes: facts.hbm_written_bytes,
        };
        let moved = self.transfers.place(&copy, start_ps.exact_add(self.start_latency_ps));
        self.store_free_ps =
            self.store_flight.next_start_ps(self.chip, start_ps, facts.dma.data_ps, moved.end_ps);
        self.rows_ps[self.next_row] = moved.end_ps.exact_add(self.arrival_hop_ps);
        self.next_row = (self.next_row + 1) % self.rows_ps.len();
        self.end_ps = self.end_ps.max(moved.end_ps);
    }
}
