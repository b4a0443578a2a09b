//! Named data of a program: where inputs start out and where outputs are found, as lowered shapes over a
//! memory.

use tilewright_base::Span;
use tilewright_notation::algebra::RadixMap;
use tilewright_num::Dtype;

/// A tensor at rest in HBM or in the data memories of neighbouring slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Element type in memory.
    pub dtype: Dtype,
    /// Axes in order, with extents.
    pub axes: Vec<(String, u64)>,
    /// What the program's user sees in it.
    pub role: TensorRole,
    /// Memory that holds the tensor.
    pub place: TensorPlace,
    /// The lowered shape as text, in canonical spelling.
    pub shape: String,
    /// The lowered shape as a map from coordinates to (slice, element offset).
    pub map: RadixMap,
    /// What an input holds at the start.
    pub data: TensorData,
    /// Source span of the statement.
    pub span: Span,
}

/// What a tensor is to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorRole {
    /// Filled before the program starts.
    Input,
    /// Read after it ends.
    Output,
    /// Both: updated in place.
    InOut,
}

/// The memory that holds a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorPlace {
    /// A chip's HBM from a byte on; the shape has one slice.
    Hbm {
        /// Chip.
        chip: u64,
        /// First byte.
        base: u64,
    },
    /// Data memories from a slice of the chip on, each from a byte on.
    Dm {
        /// Chip.
        chip: u64,
        /// Slice of the chip that is slice 0 of the shape.
        slice: u64,
        /// First byte.
        base: u64,
    },
}

/// The elements of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorData {
    /// Nothing is written: reads of it are reads of what was never written.
    None,
    /// Zeros.
    Zeros,
    /// Drawn from a seed.
    Random(u64),
    /// Patterns of the element type in row-major order.
    Patterns(Vec<u32>),
    /// An array file, which the caller reads: its name as written.
    File(String),
}
