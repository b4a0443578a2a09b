//! Executed instructions as data: engine, cost, source line and the memory they touch.

use smallvec::SmallVec;

use crate::engine_kind::EngineKind;
use crate::function::ActivationFunction;
use crate::operand::TensorAccess;
use crate::pattern::as_u64;
use crate::region::TensorRegion;

/// What an instruction computes, as far as changes depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComputeForm {
    /// Anything.
    #[default]
    Other,
    /// A function of each element.
    Map,
    /// The sum of all free elements.
    Sum,
    /// One over each element.
    Reciprocal,
    /// The product of two tiles.
    Product,
    /// A copy that changes no type.
    Copy,
    /// A tile times a constant.
    Scaled,
    /// The sum or difference of two tiles.
    Linear,
}

/// How long an instruction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstructionCost {
    /// Time until the engine can start its next instruction.
    pub busy_ps: u64,
    /// Time from then until the result can be read.
    pub latency_ps: u64,
}

/// How a transfer spreads over DMA engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaShape {
    /// Engines that move a part.
    pub engines: u32,
    /// Time of the data phase on each of them.
    pub data_ps: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Contiguous runs.
    pub descriptors: u64,
    /// GpSimd makes the descriptors, and triggers the transfer itself.
    pub software: bool,
}

/// A rank's part of a collective: with whom it meets, and on which links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveInfo {
    /// The ranks that meet, itself among them, rising.
    pub members: Vec<u32>,
    /// Links that it uses, and how long it keeps each of them.
    pub links: Vec<(u32, u64)>,
    /// How often this core has met these ranks before.
    pub number: u32,
    /// When the last of them comes and the links are free; 0 as long as that is not known.
    pub start_ps: u64,
}

/// An executed instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Name in `nki.isa`.
    pub opcode: &'static str,
    /// Engine that executes it.
    pub engine: EngineKind,
    /// How long it takes.
    pub cost: InstructionCost,
    /// What it reads.
    pub reads: SmallVec<[TensorRegion; 3]>,
    /// What it writes.
    pub writes: SmallVec<[TensorRegion; 1]>,
    /// Those of its reads that say where operands lie, by the sequencer and not by lanes.
    pub offsets: Option<Box<[TensorRegion]>>,
    /// Bytes read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM.
    pub hbm_written_bytes: u64,
    /// Multiplications with addition on the tensor engine.
    pub macs: u64,
    /// Bits of an operand of the tensor engine; 0 on other engines.
    pub operand_bits: u32,
    /// Its operands are block-scaled (MXFP8, MXFP4).
    pub block_scaled: bool,
    /// MATMUL instructions that a product of the tensor engine is.
    pub passes: u8,
    /// A product of the tensor engine that takes all passes of its type: no transpose, nothing of zeros and
    /// ones.
    pub full_rows: bool,
    /// Cells of the systolic array that it runs on, as bits; 0 for all of them.
    pub cells: u16,
    /// How a transfer spreads.
    pub dma: Option<DmaShape>,
    /// Function tables that the Scalar engine needs.
    pub table: Option<ActivationFunction>,
    /// True if bytes were read that nobody wrote.
    pub uninitialised: bool,
    /// True if a value lies where the table of its function does not reach.
    pub outside_table: bool,
    /// It wrote other values than another program that nothing orders with it had written there.
    pub other_values: bool,
    /// What it computes, for the compiler.
    pub form: ComputeForm,
    /// What it computes besides its operands, as a number; 0 if that is not known.
    pub digest: u64,
    /// What it takes on the Scalar engine, if it may as well run there.
    pub on_scalar: Option<InstructionCost>,
    /// What it takes on the GpSimd engine, if it may as well run there.
    pub on_gpsimd: Option<InstructionCost>,
    /// A Vector instruction in a fast mode, for which it borrows GpSimd's port of SBUF.
    pub borrows_port: bool,
    /// Another instruction does its work.
    pub merged: bool,
    /// With whom it meets, if it is a collective.
    pub collective: Option<Box<CollectiveInfo>>,
    /// Line, in the program's table.
    pub source: u32,
    /// Program of the launch grid, or core.
    pub program: u32,
    /// How often the cores have met before it.
    pub barrier: u32,
}

impl Instruction {
    /// An instruction that writes and reads these tiles.
    pub fn new<T: TensorAccess>(
        opcode: &'static str,
        engine: EngineKind,
        cost: InstructionCost,
        writes: &[&T],
        reads: &[&T],
    ) -> Instruction {
        let indices = writes.iter().chain(reads).filter_map(|tile| Some(tile.view().index.as_ref()?.region));
        // Those of a transfer are read where its descriptors are made.
        let picked = writes.iter().chain(reads).filter(|_| engine != EngineKind::Dma);
        let picked = picked.filter_map(|tile| tile.view().picked_by.as_deref()).flatten().copied();
        let offsets: Vec<TensorRegion> = picked.collect();
        let sources = reads.iter().filter_map(|tile| TensorRegion::of(*tile));
        Instruction {
            reads: sources.chain(indices).chain(offsets.iter().copied()).collect(),
            writes: writes.iter().filter_map(|tile| TensorRegion::of(*tile)).collect(),
            offsets: (!offsets.is_empty()).then(|| offsets.into()),
            ..Instruction::untouched(opcode, engine, cost)
        }
    }

    /// An instruction that touches no memory.
    pub fn untouched(opcode: &'static str, engine: EngineKind, cost: InstructionCost) -> Instruction {
        Instruction {
            opcode,
            engine,
            cost,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            offsets: None,
            hbm_read_bytes: 0,
            hbm_written_bytes: 0,
            macs: 0,
            operand_bits: 0,
            block_scaled: false,
            passes: 1,
            full_rows: false,
            cells: 0,
            dma: None,
            table: None,
            uninitialised: false,
            outside_table: false,
            other_values: false,
            form: ComputeForm::Other,
            digest: 0,
            on_scalar: None,
            on_gpsimd: None,
            borrows_port: false,
            merged: false,
            collective: None,
            source: 0,
            program: 0,
            barrier: 0,
        }
    }

    /// The same, with what it computes: the form, and a digest of operators and of how operands lie.
    #[must_use]
    pub fn computing(
        mut self,
        form: ComputeForm,
        tiles: &[&impl TensorAccess],
        words: &[u64],
    ) -> Instruction {
        self.form = form;
        self.digest = digest(self.opcode, tiles, words);
        self
    }

    /// The instruction, marked if reading its operands met bytes that nobody wrote.
    #[must_use]
    pub fn reading(mut self, uninitialised: bool) -> Instruction {
        self.uninitialised |= uninitialised;
        self
    }
}

/// A number for what an instruction computes: a hash of its name, its operands' patterns and its other
/// operands, word by word; 0 for patterns that are no loops.
fn digest(opcode: &str, tiles: &[&impl TensorAccess], words: &[u64]) -> u64 {
    // Odd, half of its bits set: a word changes all that lie above its own bits, the shift brings them down
    // again.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    if tiles.iter().any(|tile| tile.view().gather.is_some()) {
        return 0;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| {
        hash = (hash ^ word).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    };
    for name in opcode.as_bytes().chunks(8) {
        add(name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    words.iter().copied().for_each(&mut add);
    for tile in tiles {
        add(tile.view().dtype as u64);
        for dim in &tile.view().dims {
            add(as_u64(dim.size));
            add(dim.stride.cast_unsigned() as u64);
        }
    }
    hash | 1
}
