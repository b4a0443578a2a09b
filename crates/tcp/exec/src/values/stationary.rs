//! The operand that stays, packed once, and the loop that streams blocks of rows past it.
//!
//! A block of rows is decoded 2 KiB a row at a time and meets every panel before the next 2 KiB; partial
//! results rest in `out`, which is where the engine's accumulators have them.

use tilewright_num::Dtype;

use super::panel::Panels;
use super::shape::{AccumulatorRows, ContractError, ContractionShape, OperandRows, check_size, row_bytes};
use super::simd_path::{KernelTile, MAX_TILE_COLUMNS, MAX_TILE_ROWS, SimdPath, TileKernel};
use super::words::{BLOCK_WORDS, OperandWord, RowReader};

/// Rows decoded at a time; a multiple of the rows of every tile.
const BLOCK_ROWS: usize = 64;

/// Rows of `b`, ready to be contracted with any number of rows of `a`, by any number of threads.
///
/// ```
/// use tilewright_num::Dtype;
/// use tilewright_tcp_exec::values::{SimdPath, TreeReduce, OperandRows, ContractionShape, StationaryOperand,
/// AccumulatorRows};
///
/// let shape = ContractionShape { rows_a: 2, rows_b: 2, k: 3, tree_elements: 64, reduce: TreeReduce::Add };
/// let (a, b) = ([1, 2, 3, 4, 5, 6], OperandRows { dtype: Dtype::I8, bytes: &[1, 0, 0, 1, 1, 1] });
/// let packed = StationaryOperand::pack(SimdPath::best(), &shape, Dtype::I8, b)?;
/// let mut out = [0; 4];
/// std::thread::scope(|threads| {
///     for (a, out) in a.chunks(3).zip(out.chunks_mut(2)) {
///         threads.spawn(|| packed.contract_rows(1, a, AccumulatorRows::I32(out)));
///     }
/// });
/// assert_eq!(out, [1, 6, 4, 15]);
/// # Ok::<(), tilewright_tcp_exec::values::ContractError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StationaryOperand {
    shape: ContractionShape,
    dtype_a: Dtype,
    packed: PackedPanels,
}

#[derive(Clone, Debug)]
enum PackedPanels {
    /// No products at all.
    Nothing,
    Float(KernelPanels<f32>),
    Int(KernelPanels<i32>),
}

#[derive(Clone, Debug)]
struct KernelPanels<W: OperandWord> {
    kernel: TileKernel<W>,
    panels: Panels<W>,
}

impl StationaryOperand {
    /// Packs the rows of `b` for rows of `a` of type `dtype_a`. [`ContractionShape::rows_a`] is not used.
    ///
    /// # Errors
    /// Types or a tree that the engine lacks, bytes that do not fit the shape, a path that the host lacks.
    pub fn pack(
        path: SimdPath,
        shape: &ContractionShape,
        dtype_a: Dtype,
        b: OperandRows<'_>,
    ) -> Result<Self, ContractError> {
        shape.check(dtype_a, b.dtype)?;
        let row_bytes = row_bytes(b.dtype, shape.k)?;
        check_size("b", b.bytes.len(), shape.rows_b, row_bytes)?;
        let packed = if shape.k == 0 || shape.rows_b == 0 {
            PackedPanels::Nothing
        } else if b.dtype.is_float() {
            PackedPanels::Float(load(
                path.float_kernel(shape.reduce)?,
                shape,
                b,
                row_bytes,
                shape.tree_elements,
            )?)
        } else {
            let narrow = dtype_a != Dtype::I9 && b.dtype != Dtype::I9;
            PackedPanels::Int(load(path.int_kernel(shape.reduce, narrow)?, shape, b, row_bytes, 1)?)
        };
        Ok(Self { shape: *shape, dtype_a, packed })
    }

    /// Takes the products of some rows of `a` into as many rows of sums.
    ///
    /// # Errors
    /// Slices that do not fit the shape, sums of the wrong type.
    pub fn contract_rows(
        &self,
        rows_a: usize,
        a: &[u8],
        out: AccumulatorRows<'_>,
    ) -> Result<(), ContractError> {
        let row_bytes = row_bytes(self.dtype_a, self.shape.k)?;
        check_size("a", a.len(), rows_a, row_bytes)?;
        let (given, needed) = match &out {
            AccumulatorRows::I32(out) => (out.len(), Dtype::F32),
            AccumulatorRows::F32(out) => (out.len(), Dtype::I32),
        };
        check_size("out", given, rows_a, self.shape.rows_b)?;
        match (&self.packed, out) {
            (PackedPanels::Float(loaded), AccumulatorRows::F32(out)) => {
                self.stream(loaded, a, row_bytes, out);
            }
            (PackedPanels::Int(loaded), AccumulatorRows::I32(out)) => self.stream(loaded, a, row_bytes, out),
            (PackedPanels::Nothing, _) if (needed == Dtype::I32) == self.dtype_a.is_float() => {}
            _ => return Err(ContractError::SumsDtype { needed }),
        }
        Ok(())
    }

    fn stream<W: OperandWord>(&self, loaded: &KernelPanels<W>, a: &[u8], row_bytes: usize, out: &mut [W]) {
        let ContractionShape { rows_b, k, reduce, tree_elements, .. } = self.shape;
        let form = loaded.kernel.form_a;
        let reader = RowReader { dtype: self.dtype_a, form, k, reduce };
        let row_words = loaded.panels.row_words;
        let mut block = vec![W::default(); BLOCK_ROWS.min(a.len() / row_bytes + MAX_TILE_ROWS) * BLOCK_WORDS];
        for (rows, out) in a.chunks(BLOCK_ROWS * row_bytes).zip(out.chunks_mut(BLOCK_ROWS * rows_b)) {
            for first in (0..row_words).step_by(BLOCK_WORDS) {
                let words = BLOCK_WORDS.min(row_words - first);
                let tiles = (rows.len() / row_bytes).div_ceil(loaded.kernel.rows);
                let block = &mut block[..tiles * loaded.kernel.rows * words];
                for (index, words) in block.chunks_exact_mut(words).enumerate() {
                    match rows.chunks_exact(row_bytes).nth(index) {
                        Some(row) => reader.read(row, first, words),
                        None => words.fill(W::default()),
                    }
                }
                loaded.meet(block, first, words, tree_elements, rows_b, out);
            }
        }
    }
}

fn load<W: OperandWord>(
    kernel: TileKernel<W>,
    shape: &ContractionShape,
    b: OperandRows<'_>,
    row_bytes: usize,
    step_words: usize,
) -> Result<KernelPanels<W>, ContractError> {
    let ContractionShape { k, reduce, .. } = *shape;
    let reader = RowReader { dtype: b.dtype, form: kernel.form_b, k, reduce };
    let words = k.div_ceil(kernel.form_b.elements());
    let row_words = words.checked_next_multiple_of(step_words).ok_or(ContractError::TooLarge)?;
    Ok(KernelPanels { panels: Panels::pack(&reader, b.bytes, row_bytes, kernel.columns, row_words)?, kernel })
}

impl<W: OperandWord> KernelPanels<W> {
    /// Lets decoded rows meet `words` words of every panel.
    fn meet(
        &self,
        block: &[W],
        first: usize,
        words: usize,
        tree_elements: usize,
        rows_b: usize,
        out: &mut [W],
    ) {
        let TileKernel { rows, columns, run, .. } = self.kernel;
        let ranges: Vec<W::Range> = block.chunks_exact(rows * words).map(W::range).collect();
        let mut sums = [W::default(); MAX_TILE_ROWS * MAX_TILE_COLUMNS];
        let sums = &mut sums[..rows * columns];
        for panel in 0..self.panels.len() {
            let (range_b, b) = self.panels.block(panel, first, words);
            let columns_used = panel * columns..rows_b.min((panel + 1) * columns);
            let tiles = block.chunks_exact(rows * words).zip(&ranges).zip(out.chunks_mut(rows * rows_b));
            for ((a, &range_a), out) in tiles {
                for (sums, out) in sums.chunks_exact_mut(columns).zip(out.chunks_exact(rows_b)) {
                    sums[..columns_used.len()].copy_from_slice(&out[columns_used.clone()]);
                }
                run(&KernelTile { a, b, range_a, range_b, tree_elements }, sums);
                for (sums, out) in sums.chunks_exact(columns).zip(out.chunks_exact_mut(rows_b)) {
                    out[columns_used.clone()].copy_from_slice(&sums[..columns_used.len()]);
                }
            }
        }
    }
}
