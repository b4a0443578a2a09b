//! Instructions by engine. Each function checks, computes, and says what was done and how long it takes.

pub mod collective;
pub mod dge;
pub mod dma;
pub mod gpsimd;
pub mod mx;
pub mod random;
pub mod register;
pub mod scalar;
pub mod tensor;
pub mod transpose;
pub mod vector;

use tilewright_neuron_isa::TensorAccess;
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_num::RuleSet;

use crate::Tile;

/// A constant, or a value for each partition.
#[derive(Clone, Debug)]
pub enum ScalarOperand {
    /// The same for all partitions: rounded to FP32 by arithmetic, taken as a word of 32 bits by bit
    /// operators.
    Constant(f64),
    /// A tile of one element for each partition.
    PerPartition(Tile),
}

impl ScalarOperand {
    /// One value for each partition, and whether bytes were read that nobody wrote.
    ///
    /// # Errors
    /// If a tile has another shape than one element for each partition.
    #[expect(clippy::cast_possible_truncation, reason = "constants of arithmetic are FP32")]
    pub fn values(&self, rules: &RuleSet, partitions: usize) -> Result<(Vec<f32>, bool), Refusal> {
        match self {
            ScalarOperand::Constant(value) => Ok((vec![*value as f32; partitions], false)),
            ScalarOperand::PerPartition(tile) => {
                let fits =
                    tile.view.free_elements() == 1 && [1, partitions].contains(&tile.view.partitions());
                rule(fits, || {
                    Refusal::new(
                        "neuron/shape",
                        format!(
                            "a scalar operand of shape {:?} beside {partitions} partitions",
                            tile.view.shape()
                        ),
                        format!("a constant, or a tile of shape [{partitions}, 1]"),
                        "give one element for each partition, or use tensor_tensor",
                    )
                })?;
                tile.check_bounds()?;
                let read = tile.read(rules);
                let mut values = read.values;
                if values.len() < partitions {
                    let only = values.first().copied().unwrap_or_default();
                    values.resize(partitions, only);
                }
                Ok((values, read.uninitialised))
            }
        }
    }

    /// The tile, if it is one.
    pub fn tile(&self) -> Option<&Tile> {
        match self {
            ScalarOperand::Constant(_) => None,
            ScalarOperand::PerPartition(tile) => Some(tile),
        }
    }
}

/// One of the two operators of a `tensor_scalar`-like instruction.
#[derive(Clone, Debug)]
pub struct AluStep {
    /// Operator.
    pub op: AluOp,
    /// Its other operand.
    pub operand: ScalarOperand,
    /// True if the operand comes first.
    pub reverse: bool,
}
