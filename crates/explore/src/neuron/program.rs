//! A candidate as a program of the NeuronCore: every instruction made by the engine, which computes at once
//! and records. The engine's scheduler then says when each runs, and a plain loop what the results should be.

use std::sync::Arc;

use tilewright_base::invariant::OrBroken;
use tilewright_neuron_exec::engine::{dma, tensor, vector};
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::tensor::MatmulOptions;
use tilewright_neuron_isa::pattern::PatternDims;
use tilewright_neuron_isa::{
    EngineKind, Instruction, MemorySpace, NeuronProgram, PatternDim, Refusal, TensorDecl, TensorView,
};
use tilewright_neuron_sim::findings::findings;
use tilewright_neuron_sim::schedule::schedule;
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::{Dtype, encode_slice};

use super::count::LINES;
use super::instruction_cost::{allocation, index, signed};
use super::memory_use::{MemoryUse, ROWS_OUT};
use super::point::{BlockCopies, DrainEngine, MatmulAxis, TilingPlan};
use super::task::NeuronTask;

/// What became of a candidate that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    /// Time from the first start to the last result.
    pub picoseconds: u64,
    /// Findings of the engine; slow transfers aside, which are what the estimate is about.
    pub findings: usize,
    /// Instructions.
    pub instructions: usize,
    /// Results that were computed again, that there are, and that differ; none if only the time was asked
    /// for.
    pub values: Option<[u64; 3]>,
}

/// Runs a candidate. With `values`, on small whole numbers whose sums are exact, and compares at most so many
/// products.
///
/// # Errors
/// What the engine refuses.
pub fn run(task: &NeuronTask<'_>, plan: &TilingPlan, values: Option<u64>) -> Result<ProgramRun, Refusal> {
    let mut builder = ProgramBuilder::new(task, plan, values.is_some())?;
    builder.all()?;
    let values = values.map(|most| builder.compare(most));
    let program = builder.program;
    Ok(ProgramRun {
        picoseconds: schedule(task.chip, &program).total_ps,
        findings: findings(task.chip, &program)
            .iter()
            .filter(|finding| finding.code != "neuron/slow-dma")
            .count(),
        instructions: program.instructions.len(),
        values,
    })
}

/// The program of a candidate, without values.
///
/// # Errors
/// What the engine refuses.
pub fn program(task: &NeuronTask<'_>, plan: &TilingPlan) -> Result<NeuronProgram, Refusal> {
    let mut builder = ProgramBuilder::new(task, plan, false)?;
    builder.all()?;
    Ok(builder.program)
}

/// An element of an input: a small whole number, different from place to place.
fn element(input: u64, place: u64) -> i32 {
    let mixed = place.wrapping_add(input << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    i32::try_from((mixed >> 33) % 5).or_broken("a number below 5") - 2
}

struct ProgramBuilder<'a> {
    task: &'a NeuronTask<'a>,
    plan: &'a TilingPlan,
    program: NeuronProgram,
    /// Stationary and moving operand, and the output.
    far: [Tile; 3],
    rings: [(Vec<Tile>, usize, Option<[u64; 3]>); 2],
    rows: Vec<Tile>,
    next_row: usize,
    slots: Vec<Tile>,
    next_slot: usize,
    open_slots: Vec<usize>,
    waiting: Vec<Tile>,
    drained: u64,
}

impl<'a> ProgramBuilder<'a> {
    fn new(
        task: &'a NeuronTask<'a>,
        plan: &'a TilingPlan,
        values: bool,
    ) -> Result<ProgramBuilder<'a>, Refusal> {
        let [held, moving, summed] = plan.cuts;
        let room = MemoryUse::of(task, plan);
        let mut program = NeuronProgram { cores: 1, in_order: true, ..NeuronProgram::default() };
        program.sources = ["stationary", "moving", "out", "matmul", "drain"].map(str::to_string).to_vec();
        let mut maker = TensorMaker { program: &mut program, values };
        let rows = task.batch * summed.extent;
        let (inputs, out) = (task.dtype, task.out_dtype());
        let stationary = if plan.frame.stationary == Operand::In0 { 0 } else { 1 };
        let far = [
            maker.input(task, stationary, &[rows, held.extent])?,
            maker.input(task, 1 - stationary, &[rows, moving.extent])?,
            maker.tensor(MemorySpace::Hbm, out, &[task.batch * held.extent, moving.extent])?,
        ];
        let deep = summed.block.min(summed.tiles());
        let mut ring = |side: MatmulAxis| -> Result<Vec<Tile>, Refusal> {
            let shape = [summed.size(false), deep * plan.cut(side).widest_block()];
            (0..plan.buffers(side)).map(|_| maker.tensor(MemorySpace::Sbuf, inputs, &shape)).collect()
        };
        let rings = [(ring(MatmulAxis::Held)?, 0, None), (ring(MatmulAxis::Moving)?, 0, None)];
        let row = moving.widest_block();
        let out_rows: Result<Vec<Tile>, Refusal> =
            (0..ROWS_OUT).map(|_| maker.tensor(MemorySpace::Sbuf, out, &[held.size(false), row])).collect();
        let slots: Result<Vec<Tile>, Refusal> = (0..room.slots.max(1))
            .map(|_| maker.tensor(MemorySpace::Psum, Dtype::F32, &[held.size(false), moving.size(false)]))
            .collect();
        let open = if summed.blocks() > 1 { plan.open_tiles() } else { 0 };
        let lines = if plan.adds() { plan.open_blocks() * held.block.min(held.tiles()) } else { 0 };
        let waiting: Result<Vec<Tile>, Refusal> = (0..lines)
            .map(|_| maker.tensor(MemorySpace::Sbuf, Dtype::F32, &[held.size(false), row]))
            .collect();
        Ok(ProgramBuilder {
            task,
            plan,
            far,
            rings,
            rows: out_rows?,
            next_row: 0,
            slots: slots?,
            next_slot: 0,
            open_slots: vec![0; index(open)],
            waiting: waiting?,
            drained: 0,
            program,
        })
    }

    fn all(&mut self) -> Result<(), Refusal> {
        let order = self.plan.order();
        let [first, second, third] = order.map(|side| self.plan.cut(side).blocks());
        for batch in 0..self.plan.batch {
            for a in 0..first {
                for b in 0..second {
                    for c in 0..third {
                        let mut block = [0; 3];
                        for (side, number) in order.into_iter().zip([a, b, c]) {
                            block[side as usize] = number;
                        }
                        self.step(batch, block)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, mut instruction: Instruction, source: u32) {
        instruction.source = source;
        self.program.instructions.push(instruction);
    }

    fn step(&mut self, batch: u64, block: [u64; 3]) -> Result<(), Refusal> {
        self.load(batch, block)?;
        let [held, moving, summed] = self.plan.cuts;
        let [h, m, s] = block;
        let ends = s + 1 == summed.blocks() || self.plan.adds();
        let begins = s == 0 || self.plan.adds();
        let open = self.open_block(block);
        for row in 0..held.block_tiles(h) {
            let line = open * held.block.min(held.tiles()) + row;
            for column in 0..moving.block_tiles(m) {
                let tile = index(line * moving.block.min(moving.tiles()) + column);
                let slot = self.slot(tile, begins);
                let sums = part(
                    &self.slots[slot],
                    [(0, held.tile_extent(h, row)), (0, moving.tile_extent(m, column))],
                );
                self.multiply(block, (row, column), &sums, begins)?;
                if ends {
                    self.leave(
                        (s, column),
                        (line, held.tile_extent(h, row)),
                        &sums,
                        moving.tile_extent(m, column),
                    )?;
                }
            }
            if s + 1 == summed.blocks() {
                let rows = held.tile_extent(h, row);
                let start = batch * held.extent + held.block_start(h) + row * held.tile;
                let columns = moving.block_extent(m);
                let near = part(&self.rows[self.next_row], [(0, rows), (0, columns)]);
                let far = part(&self.far[2], [(start, rows), (moving.block_start(m), columns)]);
                let done = dma::dma_copy(self.task.chip, &far, &near, None)?;
                self.push(done, LINES[2]);
                self.next_row = (self.next_row + 1) % self.rows.len();
            }
        }
        Ok(())
    }

    fn open_block(&self, block: [u64; 3]) -> u64 {
        let order = self.plan.order();
        if self.plan.cut(MatmulAxis::Summed).blocks() == 1 {
            return 0;
        }
        let at = order.iter().position(|side| *side == MatmulAxis::Summed).unwrap_or(2);
        order[at + 1..]
            .iter()
            .fold(0, |all, side| all * self.plan.cut(*side).blocks() + block[*side as usize])
    }

    fn slot(&mut self, tile: usize, new: bool) -> usize {
        if !new {
            return self.open_slots[tile];
        }
        let slot = self.next_slot;
        self.next_slot = (slot + 1) % self.slots.len();
        if let Some(open) = self.open_slots.get_mut(tile) {
            *open = slot;
        }
        slot
    }

    /// Copies of both inputs, in turn.
    fn load(&mut self, batch: u64, block: [u64; 3]) -> Result<(), Refusal> {
        let summed = self.plan.cuts[2];
        let [h, m, s] = block;
        let tiles = summed.block_tiles(s);
        let whole = tiles - u64::from(summed.is_short(s, tiles - 1));
        let mut copies: Vec<(u64, u64)> = match self.plan.choice.copies {
            BlockCopies::Block => Vec::from([(0, whole)]),
            BlockCopies::Tile => (0..whole).map(|tile| (tile, 1)).collect(),
        };
        copies.retain(|(_, count)| *count > 0);
        copies.extend((whole < tiles).then_some((whole, 1)));
        let mut missing = [false; 2];
        for (at, own) in [h, m].into_iter().enumerate() {
            let (ring, next, key) = &mut self.rings[at];
            missing[at] = *key != Some([batch, own, s]);
            if missing[at] {
                *key = Some([batch, own, s]);
                *next = (*next + 1) % ring.len();
            }
        }
        for (first, count) in copies {
            for (at, own) in [h, m].into_iter().enumerate() {
                if missing[at] {
                    self.copy(at, own, [batch, s, first, count])?;
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, at: usize, own: u64, [batch, s, first, count]: [u64; 4]) -> Result<(), Refusal> {
        let (free, summed) = (self.plan.cuts[at], self.plan.cuts[2]);
        let columns = free.block_extent(own);
        let partitions = summed.tile_extent(s, first);
        let row = batch * summed.extent + summed.block_start(s) + first * summed.tile;
        let far = &self.far[at];
        let source = loops(
            far,
            row * free.extent + free.block_start(own),
            [(partitions, free.extent), (count, summed.tile * free.extent), (columns, 1)],
        );
        let (ring, next, _) = &self.rings[at];
        let near = &ring[*next];
        // A tile has the same place in every block, so that narrow blocks do not touch what their neighbours
        // read.
        let wide = free.widest_block();
        let target = loops(near, first * wide, [(partitions, pitch(near)), (count, wide), (columns, 1)]);
        let done = dma::dma_copy(self.task.chip, &target, &source, None)?;
        self.push(done, LINES[at]);
        Ok(())
    }

    fn multiply(
        &mut self,
        block: [u64; 3],
        (row, column): (u64, u64),
        sums: &Tile,
        begins: bool,
    ) -> Result<(), Refusal> {
        let [held, moving, summed] = self.plan.cuts;
        let [h, m, s] = block;
        for tile in 0..summed.block_tiles(s) {
            let partitions = summed.tile_extent(s, tile);
            let operand = |at: usize, cut: &super::blocked_axis::BlockedAxis, own: u64, number: u64| {
                let (ring, next, _) = &self.rings[at];
                let start = tile * cut.widest_block() + number * cut.tile;
                let near = &ring[*next];
                loops(near, start, [(partitions, pitch(near)), (1, 0), (cut.tile_extent(own, number), 1)])
            };
            let (stationary, stream) = (operand(0, &held, h, row), operand(1, &moving, m, column));
            let options = MatmulOptions { accumulate: tile > 0 || !begins, ..MatmulOptions::default() };
            let done = tensor::nc_matmul(self.task.chip, sums, &stationary, &stream, options)?;
            self.push(done, 3);
        }
        Ok(())
    }

    fn leave(
        &mut self,
        (s, column): (u64, u64),
        (line, rows): (u64, u64),
        sums: &Tile,
        columns: u64,
    ) -> Result<(), Refusal> {
        let [_, moving, summed] = self.plan.cuts;
        let chip = self.task.chip;
        let place = [(0, rows), (column * moving.tile, columns)];
        let out = part(&self.rows[self.next_row], place);
        let done = if self.plan.adds() {
            let Some(line) = self.waiting.get(index(line)) else { return Ok(()) };
            let waiting = part(line, place);
            if s == 0 {
                vector::tensor_copy(chip, &waiting, sums, Some(EngineKind::Vector))?
            } else {
                let to = if s + 1 == summed.blocks() { &out } else { &waiting };
                vector::tensor_tensor(chip, to, &waiting, sums, AluOp::Add, None)?
            }
        } else {
            let engine = match self.plan.choice.drain {
                DrainEngine::Scalar => EngineKind::Scalar,
                DrainEngine::Both if self.drained % 2 == 1 => EngineKind::Scalar,
                _ => EngineKind::Vector,
            };
            vector::tensor_copy(chip, &out, sums, Some(engine))?
        };
        self.drained += 1;
        self.push(done, 4);
        Ok(())
    }

    /// Computes results again from the definition, evenly spread: compared, there are, different.
    fn compare(&self, most_products: u64) -> [u64; 3] {
        let [held, moving, summed] = self.plan.cuts;
        let rules = &self.task.chip.rules;
        let found = self.far[2].read(rules).values;
        let results = found.len() as u64;
        let compared = results.min((most_products / summed.extent.max(1)).max(1));
        let (first, second) = if self.plan.frame.stationary == Operand::In0 { (0, 1) } else { (1, 0) };
        let mut different = 0;
        for number in 0..compared {
            let part = results / compared.max(1);
            let at = number * part + number.wrapping_mul(7919) % part.max(1);
            let (column, row) = (at % moving.extent, at / moving.extent % held.extent);
            let batch = at / moving.extent / held.extent;
            let sum: i64 = (0..summed.extent)
                .map(|k| {
                    let place = batch * summed.extent + k;
                    let a = element(first, place * held.extent + row);
                    let b = element(second, place * moving.extent + column);
                    i64::from(a * b)
                })
                .sum();
            different += u64::from(Some(rounded(self.task, sum)) != found.get(index(at)).copied());
        }
        [compared, results, different]
    }
}

/// A whole number as the output's type has it.
fn rounded(task: &NeuronTask<'_>, sum: i64) -> f32 {
    let dtype = task.out_dtype();
    let mut bytes = vec![0; dtype.size_bytes(1)];
    #[expect(clippy::cast_precision_loss, reason = "sums of small numbers are below 2^24")]
    let _ = encode_slice(&task.chip.rules, dtype, &[sum as f32], &mut bytes);
    tilewright_num::decode(&task.chip.rules, dtype, tilewright_num::load(dtype, &bytes, 0))
}

/// Makes tensors and tells the program of them.
struct TensorMaker<'a> {
    program: &'a mut NeuronProgram,
    values: bool,
}

impl TensorMaker<'_> {
    fn tensor(&mut self, memory: MemorySpace, dtype: Dtype, shape: &[u64]) -> Result<Tile, Refusal> {
        let request = self.request(memory, dtype, shape);
        let storage =
            if self.values { Storage::poisoned(request) } else { Storage::without_values(request) }?;
        Ok(self.made(storage))
    }

    /// An input with its elements.
    fn input(&mut self, task: &NeuronTask<'_>, number: u64, shape: &[u64]) -> Result<Tile, Refusal> {
        if !self.values {
            return self.tensor(MemorySpace::Hbm, task.dtype, shape);
        }
        let count = shape.iter().product();
        #[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
        let elements: Vec<f32> = (0..count).map(|place| element(number, place) as f32).collect();
        let mut bytes = vec![0; task.dtype.size_bytes(elements.len())];
        let _ = encode_slice(&task.chip.rules, task.dtype, &elements, &mut bytes);
        let storage = Storage::filled(self.request(MemorySpace::Hbm, task.dtype, shape), bytes)?;
        Ok(self.made(storage))
    }

    fn request(&self, memory: MemorySpace, dtype: Dtype, shape: &[u64]) -> TensorDecl {
        let id = u32::try_from(self.program.allocations.len()).or_broken("numbers of allocations");
        let shape = shape.iter().map(|size| index(*size)).collect();
        TensorDecl { id, memory, dtype, shape, blocks: 0, name: String::new(), source: 0 }
    }

    fn made(&mut self, storage: Storage) -> Tile {
        self.program.allocations.push(allocation(&storage));
        let view = TensorView::whole(&storage.shape, storage.dtype, 0);
        Tile { storage: Arc::new(storage), view }
    }
}

/// Elements of a row of a tensor of two dimensions.
fn pitch(tile: &Tile) -> u64 {
    tile.storage.shape.get(1).map_or(1, |size| *size as u64)
}

/// Rows and columns of a tensor, each from a start and so many.
fn part(tile: &Tile, [(row, rows), (column, columns)]: [(u64, u64); 2]) -> Tile {
    let pitch = pitch(tile);
    loops(tile, row * pitch + column, [(rows, pitch), (1, 0), (columns, 1)])
}

/// Loops over a tensor, (size, stride) each; the middle one is left out where it has one iteration.
fn loops(tile: &Tile, offset: u64, loops: [(u64, u64); 3]) -> Tile {
    let dims: PatternDims = loops
        .into_iter()
        .enumerate()
        .filter(|(at, (size, _))| *at != 1 || *size > 1)
        .map(|(_, (size, stride))| PatternDim { size: index(size), stride: signed(stride) })
        .collect();
    let view = TensorView { offset: index(offset), dims, ..tile.view.clone() };
    Tile { storage: tile.storage.clone(), view }
}
