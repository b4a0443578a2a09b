//! A recorded run as data: instructions in order, the tensors they use and the lines they come from.

pub use crate::engine_kind::EngineKind;
pub use crate::instruction::{CollectiveInfo, ComputeForm, DmaShape, Instruction, InstructionCost};
pub use crate::region::TensorRegion;
use tilewright_base::invariant::Exact;

/// A tensor that the program used, for capacity and findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the tensor.
    pub storage: u32,
    /// Where it lives.
    pub memory: crate::MemorySpace,
    /// Bytes of a partition that one of its tiles takes; of the whole in HBM.
    pub partition_bytes: u64,
    /// Tiles.
    pub tiles: u32,
    /// Name that the kernel gave.
    pub name: String,
    /// Line, in the program's table.
    pub source: u32,
    /// Where the kernel wants each tile: start partition and byte; empty if it leaves that to the compiler.
    pub places: Vec<(u32, u64)>,
    /// Partitions of a tile.
    pub partitions: u32,
    /// Instructions executed before it was made.
    pub made_at: usize,
}

/// A recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeuronProgram {
    /// Instructions in order of execution.
    pub instructions: Vec<Instruction>,
    /// Tensors in order of allocation.
    pub allocations: Vec<Allocation>,
    /// Lines, as `file:line`.
    pub sources: Vec<String>,
    /// Cores that run the programs of the launch side by side; programs of other launches follow each other
    /// on one.
    pub cores: u32,
    /// The kernel asks for its own order of instructions.
    pub in_order: bool,
    /// The compiler of the first dialect may change it.
    pub compiled: bool,
}

impl NeuronProgram {
    /// The core that an instruction runs on.
    pub fn core(&self, instruction: &Instruction) -> u32 {
        if self.cores > 1 { instruction.program % self.cores } else { 0 }
    }

    /// Bytes read from and written to HBM.
    pub fn hbm_bytes(&self) -> (u64, u64) {
        self.instructions.iter().fold((0_u64, 0_u64), |(read, written), instruction| {
            (read.exact_add(instruction.hbm_read_bytes), written.exact_add(instruction.hbm_written_bytes))
        })
    }

    /// The text of a line.
    pub fn source(&self, index: u32) -> &str {
        self.sources.get(index as usize).map_or("?", String::as_str)
    }
}
