//! What the contraction engine computes, bit for bit (paper section IV-C; rounding and order as
//! `tilewright_num` states them).
//!
//! `out[i][j]` takes in the products `a[i][k] * b[j][k]` over all k. Streamed rows `a` and register-file rows
//! `b` hold k contiguous elements each, in the order in which the engine meets them.
//!
//! - Integers: exact products, i32 sums that wrap; the order cannot matter.
//! - Floats: operands and products in f32, then steps of [`ContractionShape::tree_elements`] neighbours
//!   summed by the adder tree, level by level, the last step filled with +0; step after step is added to what
//!   `out` holds. Every node rounds to nearest even and flushes subnormal results; NaN leaves as 0x7FC00000.
//!   This is `tilewright_num::tree_sum` under `RuleSet::TCP`.
//! - [`TreeReduce::Max`] keeps the largest of the products and what `out` holds. NaN wins over numbers and +0
//!   over -0 (an assumption), so that the order cannot matter either; nothing is filled in.
//!
//! No product, `k` = 0, leaves `out` as it is.
//!
//! [`contract`] does it all at once. To share the work, pack `b` once as [`StationaryOperand`] and hand
//! blocks of rows to threads: no result depends on how rows are split, nor on the [`SimdPath`] taken.
//!
//! - [`stationary`]: packed rows of `b` and the loop over blocks; [`shape`]: sizes and their checks;
//! - `words`, `panel`: operands as 4-byte words, and the k-major panels that kernels read;
//! - `tile_float`, `tile_int`: the kernels, written once over a vector type; `range`: when flushing cannot
//!   matter;
//! - `dot`, `dot_row`, `single_row`: rows that are too few to be packed;
//! - `add`: sums of results of several slices;
//! - `simd_path`, `kernel_portable`, `kernel_avx2`, `kernel_avx512`: the vector types, and which the host
//!   has.

mod add;
pub(crate) mod dot;
mod dot_row;
mod kernel_portable;
mod panel;
mod range;
pub mod shape;
mod simd_path;
pub(crate) mod single_row;
pub mod stationary;
mod tile_float;
mod tile_int;
mod words;

#[cfg(target_arch = "x86_64")]
mod dot_x86;
#[cfg(target_arch = "x86_64")]
mod kernel_avx2;
#[cfg(target_arch = "x86_64")]
mod kernel_avx512;

pub(crate) use add::{add_scaled, add_words, sum_word};
pub(crate) use dot::dot_i8;
pub use shape::{AccumulatorRows, ContractError, ContractionShape, OperandRows, TreeReduce};
pub use simd_path::SimdPath;
pub(crate) use single_row::SingleRow;
pub use stationary::StationaryOperand;

/// Contracts all rows on the fastest path of this host.
///
/// # Errors
/// Sizes that do not fit one another, types that the engine does not pair, a tree it does not have.
pub fn contract(
    shape: &ContractionShape,
    a: OperandRows<'_>,
    b: OperandRows<'_>,
    out: AccumulatorRows<'_>,
) -> Result<(), ContractError> {
    StationaryOperand::pack(SimdPath::best(), shape, a.dtype, b)?.contract_rows(shape.rows_a, a.bytes, out)
}
