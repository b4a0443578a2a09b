//! What products on the systolic array take, and on which of its cells they run
//! (NKI instruction pages, nc_matmul; docs/hardware-rules.md#tensor-engine).

use tilewright_base::invariant::Exact;
use tilewright_num::Dtype;

use crate::chip::cycles_ps;
use crate::pattern::as_u64;
use crate::program::InstructionCost;
use crate::{Chip, TensorAccess};

/// What a matmul does besides multiplying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatmulOptions {
    /// Adds to what PSUM holds rather than overwriting it.
    pub accumulate: bool,
    /// A transpose: values pass unchanged where the generation has the mode.
    pub is_transpose: bool,
    /// The stationary tile holds only zeros and ones.
    pub stationary_onezero: bool,
    /// The moving tile holds only zeros and ones.
    pub moving_onezero: bool,
    /// Two rows of FP8 in one pass: operands have a second dimension of size 2.
    pub double_row: bool,
    /// The part of the array that it runs on; all of it if none is named.
    pub part: Option<ArrayPart>,
}

/// A part of the systolic array: rows take the contraction, columns the stationary columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPart {
    /// First row and column.
    pub position: (u64, u64),
    /// Rows and columns.
    pub size: (u64, u64),
}

/// Cells in a row and in a column of the array: the smallest parts that it can be split into.
pub const SIDE: u64 = 4;

/// Cells as bits, row by row.
pub type Cells = u16;

/// The cells that a part covers; none if it is all of the array.
pub fn cells_of(chip: &Chip, part: Option<ArrayPart>) -> Cells {
    let Some(part) = part else { return 0 };
    let sides = (chip.neuron.sbuf.partitions / SIDE, chip.neuron.tensor.stationary_free_max / SIDE);
    let covered = |start: u64, size: u64, side: u64| {
        let side = side.max(1);
        (start / side).min(SIDE)..start.saturating_add(size).div_ceil(side).min(SIDE)
    };
    let mut cells = 0;
    for row in covered(part.position.0, part.size.0, sides.0) {
        for column in covered(part.position.1, part.size.1, sides.1) {
            cells |= 1 << (row * SIDE + column);
        }
    }
    if cells == Cells::MAX { 0 } else { cells }
}

/// Cost in a stream of matmuls: the moving rows, at least the turnaround, each of them so many cycles.
pub fn stream(chip: &Chip, m: u64, n: u64, row_cycles: u64) -> InstructionCost {
    let tensor = &chip.neuron.tensor;
    let rows = n.max(m.min(tensor.turnaround_cycles));
    InstructionCost {
        busy_ps: cycles_ps(rows.exact_mul(row_cycles), tensor.clock_hz),
        latency_ps: cycles_ps(tensor.pipeline_cycles, tensor.clock_hz),
    }
}

/// MATMUL instructions that profiles show for one product: FP32 operands pass in two halves
/// (docs/hardware-rules.md#tensor-engine).
pub fn passes(dtype: Dtype) -> u8 {
    if dtype == Dtype::F32 { 2 } else { 1 }
}

/// Cost of a product in a stream of such products: FP32 takes several times as long.
pub fn product(
    chip: &Chip,
    stationary: &impl TensorAccess,
    moving: &impl TensorAccess,
    options: MatmulOptions,
) -> InstructionCost {
    let tensor = &chip.neuron.tensor;
    let per_pass = if options.double_row { 2 } else { 1 };
    let (m, n) = (
        as_u64(stationary.view().free_elements()) / per_pass,
        as_u64(moving.view().free_elements()) / per_pass,
    );
    let fp32 = moving.view().dtype == Dtype::F32;
    let factor = match (fp32, options.is_transpose) {
        (true, true) => tensor.fp32_transpose_row_cycles,
        (true, false) => tensor.fp32_row_cycles,
        (false, _) => 1,
    };
    let halved = fp32 && (options.stationary_onezero || options.moving_onezero) && factor > 2;
    stream(chip, m, n, if halved { factor / 2 } else { factor })
}
