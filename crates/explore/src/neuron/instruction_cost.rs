//! What single instructions take, asked of the engine itself: each is made on tiles without values, and its
//! cost, transfer and energy are read from what the engine recorded. No rule of the hardware is repeated
//! here.

use std::sync::Arc;

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_neuron_exec::engine::{dma, tensor, vector};
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::cost::tensor::MatmulOptions;
use tilewright_neuron_isa::pattern::PatternDims;
use tilewright_neuron_isa::program::{Allocation, DmaShape};
use tilewright_neuron_isa::{
    Chip, EngineKind, Instruction, MemorySpace, NeuronProgram, PatternDim, Refusal, TensorDecl, TensorView,
};
use tilewright_neuron_sim::analysis::energy::energy;
use tilewright_neuron_sim::schedule::Timeline;
use tilewright_num::Dtype;

use super::task::NeuronTask;

/// Components of energy, in the engine's order; the last is what the core takes whatever it does.
pub const PARTS: usize = 9;
/// The component of a core that does nothing.
pub const IDLE: usize = PARTS - 1;

/// What an instruction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InstructionCost {
    /// Time until the engine can start its next instruction.
    pub busy_ps: u64,
    /// Time from then until the result can be read.
    pub latency_ps: u64,
    /// How a transfer spreads.
    pub dma: DmaShape,
    /// Bytes read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM.
    pub hbm_written_bytes: u64,
    /// Energy by component.
    pub fj: [f64; PARTS],
}

/// Names of the components of energy.
pub fn part_names(chip: &Chip) -> Vec<&'static str> {
    energy(chip, &NeuronProgram::default(), &Timeline::default()).iter().map(|part| part.name).collect()
}

/// Energy of a core that does nothing for a picosecond.
pub fn idle_fj_per_ps(chip: &Chip) -> f64 {
    const PS: u64 = 1_000_000_000_000;
    let second = Timeline { total_ps: PS, ..Timeline::default() };
    let parts = energy(chip, &NeuronProgram::default(), &second);
    parts.iter().map(|part| part.joules * 1e15).sum::<f64>() / PS as f64
}

/// How results leave PSUM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStep {
    /// The whole sum, as the output's type.
    Whole,
    /// The first part of a sum, to wait in SBUF.
    First,
    /// A later part, added to what waits.
    Add,
    /// The last part, added, as the output's type.
    Last,
}

impl DrainStep {
    /// All of them.
    pub const ALL: [DrainStep; 4] = [DrainStep::Whole, DrainStep::First, DrainStep::Add, DrainStep::Last];
}

/// A matmul of tiles of so many columns, partitions deep.
///
/// # Errors
/// What the engine refuses.
pub fn matmul(
    task: &NeuronTask<'_>,
    [held, moving, summed]: [u64; 3],
    accumulate: bool,
) -> Result<InstructionCost, Refusal> {
    let stationary = tile(0, MemorySpace::Sbuf, task.dtype, &[summed, held])?;
    let stream = tile(1, MemorySpace::Sbuf, task.dtype, &[summed, moving])?;
    let sums = tile(2, MemorySpace::Psum, Dtype::F32, &[held, moving])?;
    let options = MatmulOptions { accumulate, ..MatmulOptions::default() };
    let done = tensor::nc_matmul(task.chip, &sums, &stationary, &stream, options)?;
    Ok(facts(task.chip, done, &[&stationary, &stream, &sums]))
}

/// A tile of sums that leaves PSUM.
///
/// # Errors
/// What the engine refuses.
pub fn leave(
    task: &NeuronTask<'_>,
    how: DrainStep,
    [rows, columns]: [u64; 2],
    engine: EngineKind,
) -> Result<InstructionCost, Refusal> {
    let sums = tile(0, MemorySpace::Psum, Dtype::F32, &[rows, columns])?;
    let waiting = tile(1, MemorySpace::Sbuf, Dtype::F32, &[rows, columns])?;
    let out = tile(2, MemorySpace::Sbuf, task.out_dtype(), &[rows, columns])?;
    let done = match how {
        DrainStep::Whole => vector::tensor_copy(task.chip, &out, &sums, Some(engine)),
        DrainStep::First => vector::tensor_copy(task.chip, &waiting, &sums, Some(engine)),
        DrainStep::Add => vector::tensor_tensor(task.chip, &waiting, &waiting, &sums, AluOp::Add, None),
        DrainStep::Last => vector::tensor_tensor(task.chip, &out, &waiting, &sums, AluOp::Add, None),
    }?;
    Ok(facts(task.chip, done, &[&sums, &waiting, &out]))
}

/// A load of `tiles` tiles along the sum, each of `partitions` rows of `columns` elements, from a tensor
/// whose rows are `row` long, to tiles that lie `wide` elements apart.
///
/// # Errors
/// What the engine refuses.
pub fn load(
    task: &NeuronTask<'_>,
    [partitions, tiles, columns]: [u64; 3],
    row: u64,
    wide: u64,
) -> Result<InstructionCost, Refusal> {
    let far = tile(0, MemorySpace::Hbm, task.dtype, &[partitions * tiles, row])?;
    let near = tile(1, MemorySpace::Sbuf, task.dtype, &[partitions, tiles * wide])?;
    let source =
        Tile { view: strided(&far.view, [partitions, tiles, columns], [row, partitions * row, 1]), ..far };
    let target =
        Tile { view: strided(&near.view, [partitions, tiles, columns], [tiles * wide, wide, 1]), ..near };
    let done = dma::dma_copy(task.chip, &target, &source, None)?;
    Ok(facts(task.chip, done, &[&source, &target]))
}

/// A store of `partitions` rows of `columns` elements to a tensor whose rows are `row` long.
///
/// # Errors
/// What the engine refuses.
pub fn store(
    task: &NeuronTask<'_>,
    [partitions, columns]: [u64; 2],
    row: u64,
) -> Result<InstructionCost, Refusal> {
    let far = tile(0, MemorySpace::Hbm, task.out_dtype(), &[partitions, row])?;
    let near = tile(1, MemorySpace::Sbuf, task.out_dtype(), &[partitions, columns])?;
    let target = Tile { view: strided(&far.view, [partitions, 1, columns], [row, row, 1]), ..far };
    let done = dma::dma_copy(task.chip, &target, &near, None)?;
    Ok(facts(task.chip, done, &[&target, &near]))
}

/// Three loops over a tensor from its start.
fn strided(whole: &TensorView, sizes: [u64; 3], strides: [u64; 3]) -> TensorView {
    let dims: PatternDims = sizes
        .into_iter()
        .zip(strides)
        .enumerate()
        // Loops of one iteration are left out, except the first: it is the partition.
        .filter(|(at, (size, _))| *at != 1 || *size > 1)
        .map(|(_, (size, stride))| PatternDim { size: index(size), stride: signed(stride) })
        .collect();
    TensorView { dims, ..whole.clone() }
}

pub(super) fn index(value: u64) -> usize {
    to_index(value)
}

pub(super) fn signed(value: u64) -> isize {
    isize::try_from(value).unwrap_or(isize::MAX)
}

fn tile(id: u32, memory: MemorySpace, dtype: Dtype, shape: &[u64]) -> Result<Tile, Refusal> {
    let shape: Vec<usize> = shape.iter().map(|size| index(*size)).collect();
    let view = TensorView::whole(&shape, dtype, 0);
    let request = TensorDecl { id, memory, dtype, shape, blocks: 0, name: String::new(), source: 0 };
    Ok(Tile { storage: Arc::new(Storage::without_values(request)?), view })
}

fn facts(chip: &Chip, done: Instruction, tiles: &[&Tile]) -> InstructionCost {
    let (cost, dma) = (done.cost, done.dma.unwrap_or_default());
    let (hbm_read_bytes, hbm_written_bytes) = (done.hbm_read_bytes, done.hbm_written_bytes);
    let allocations = tiles.iter().map(|tile| allocation(&tile.storage)).collect();
    let program = NeuronProgram { instructions: vec![done], allocations, ..NeuronProgram::default() };
    let mut fj = [0.0; PARTS];
    for (to, part) in fj.iter_mut().zip(energy(chip, &program, &Timeline::default())) {
        *to = part.joules * 1e15;
    }
    InstructionCost {
        busy_ps: cost.busy_ps,
        latency_ps: cost.latency_ps,
        dma,
        hbm_read_bytes,
        hbm_written_bytes,
        fj,
    }
}

/// What a program says of a tensor.
pub(super) fn allocation(storage: &Storage) -> Allocation {
    Allocation {
        storage: storage.id,
        memory: storage.memory,
        partition_bytes: storage.partition_bytes(),
        tiles: 1,
        name: storage.name.clone(),
        source: storage.source,
        places: Vec::new(),
        partitions: u32::try_from(storage.partitions()).or_broken("partitions of a tile"),
        made_at: 0,
    }
}
