//! Products of the tensor engine: sums in FP32 in the order of the contraction, each step one fused multiply-add.
//!
//! With operands of 16 bits or fewer a product is exact in FP32, so fused or not makes no difference; with FP32
//! operands the fused step is our definition. Vector instructions and threads only change the speed: threads share
//! out columns, and every sum is taken in the same order by one of them. What was packed is kept with the tensor until
//! somebody writes to it.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use std::sync::Arc;

use rayon::prelude::*;
use tilewright_num::{Dtype, RuleSet, decode_slice, encode_slice};

/// Rows and columns of a block of results.
const ROWS: usize = 8;
const COLUMNS: usize = 32;
/// Multiplications below which a second thread costs more than it gives.
const LEAST_SHARED: usize = 1 << 20;

/// A block of results.
type Block = [[f32; COLUMNS]; ROWS];

/// Adds to a block: `sums[r][c] += a[k][r] * panel[k][c]`, k from first to last.
type AddBlock = fn(a: &[[f32; ROWS]], panel: &[[f32; COLUMNS]], sums: &mut Block);

/// Rows of elements, all of one length, `pitch` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Where they lie.
    pub bytes: &'a [u8],
    /// Their type.
    pub dtype: Dtype,
    /// First element of the first row.
    pub offset: usize,
    /// Elements from row to row.
    pub pitch: usize,
    /// Elements of a row.
    pub length: usize,
}

impl Rows<'_> {
    /// Decodes `out.len()` elements of a row, from `column` on; what lies outside stays as it is.
    fn decode(&self, rules: &RuleSet, row: usize, column: usize, out: &mut [f32]) {
        let size = self.dtype.size_bytes(1);
        let first = (self.offset + row * self.pitch + column) * size;
        if let Some(bytes) = self.bytes.get(first..first + out.len() * size) {
            widen(rules, self.dtype, bytes, out);
        }
    }
}

/// [`decode_slice`] without a look at NaN, which every result is looked at for.
fn widen(rules: &RuleSet, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::Bf16 if keeps_subnormals(rules) => {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*word)) << 16);
            }
        }
        Dtype::F32 if keeps_subnormals(rules) => {
            for (value, word) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*word);
            }
        }
        _ => decode_slice(rules, dtype, bytes, out),
    }
}

/// [`encode_slice`], short where nothing is to be done.
fn narrow(rules: &RuleSet, dtype: Dtype, values: &[f32], bytes: &mut [u8]) {
    let nan = values.iter().fold(false, |nan, value| nan | value.is_nan());
    if dtype == Dtype::F32 && !nan && keeps_subnormals(rules) {
        for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *word = value.to_le_bytes();
        }
        return;
    }
    // Only i5 and i9 can refuse a value, and no tile has them.
    let _ = encode_slice(rules, dtype, values, bytes);
}

/// True if the least subnormal stays what it is.
fn keeps_subnormals(rules: &RuleSet) -> bool {
    rules.settle_f32(1) == 1
}

/// Rows of results, one after the other.
#[derive(Debug)]
pub struct Results<'a> {
    /// Where they lie.
    pub bytes: &'a mut [u8],
    /// Their type.
    pub dtype: Dtype,
    /// Sums begin with what is there.
    pub accumulate: bool,
}

/// A stationary operand in the order in which blocks of results read it.
#[derive(Debug)]
pub struct PackedRows {
    /// Steps of the contraction.
    k: usize,
    /// Rows of results.
    m: usize,
    blocks: Vec<[f32; ROWS]>,
}

impl PackedRows {
    /// `a` has `m` elements in a row, a row for each step.
    pub fn new(a: &[f32], m: usize) -> PackedRows {
        let k = a.len().checked_div(m).unwrap_or(0);
        let blocks = if k * m == a.len() && k > 0 { pack_rows(a, m) } else { Vec::new() };
        PackedRows { k, m, blocks }
    }
}

/// A moving operand in the order in which blocks of results read it.
#[derive(Debug)]
pub struct PackedColumns {
    k: usize,
    n: usize,
    panels: Vec<[f32; COLUMNS]>,
}

impl PackedColumns {
    /// `k` rows.
    pub fn new(rules: &RuleSet, k: usize, b: Rows<'_>) -> PackedColumns {
        PackedColumns { k, n: b.length, panels: pack_columns(rules, k, b) }
    }
}

/// An operand that was packed before.
#[derive(Clone, Debug)]
pub enum Pack {
    /// As the stationary one.
    Rows(Arc<PackedRows>),
    /// As the moving one.
    Columns(Arc<PackedColumns>),
}

/// `out[m][n] (+)= a[k][m] * b[k][n]`: `a` has `m` elements in a row. Sizes that do not fit are left undone.
pub fn multiply(rules: &RuleSet, a: &[f32], m: usize, b: Rows<'_>, out: Results<'_>) {
    let rows = PackedRows::new(a, m);
    let columns = PackedColumns::new(rules, rows.k, b);
    multiply_packed(rules, &[Factors { rows: Arc::new(rows), columns: Arc::new(columns) }], out);
}

/// The operands of one product, packed.
#[derive(Clone, Debug)]
pub struct Factors {
    /// The stationary one.
    pub rows: Arc<PackedRows>,
    /// The moving one.
    pub columns: Arc<PackedColumns>,
}

/// The same for the sum of several products, one after the other. Those whose sizes do not fit are left out.
pub fn multiply_packed(rules: &RuleSet, factors: &[Factors], out: Results<'_>) {
    let Results { bytes, dtype, accumulate } = out;
    let Some(first) = factors.first() else { return };
    let (m, n, size) = (first.rows.m, first.columns.n, dtype.size_bytes(1));
    let fits = |one: &&Factors| {
        let (rows, columns) = (&one.rows, &one.columns);
        rows.m == m && columns.n == n && rows.k == columns.k && !rows.blocks.is_empty()
    };
    let factors: Vec<&Factors> = factors.iter().filter(fits).collect();
    let steps: usize = factors.iter().map(|one| one.rows.k).sum();
    if steps == 0 || n == 0 || bytes.len() != m * n * size {
        return;
    }
    let shares = if steps * m * n < LEAST_SHARED { 1 } else { rayon::current_num_threads().clamp(1, 64) };
    let columns = n.div_ceil(shares).next_multiple_of(COLUMNS);
    let mut parts: Vec<Vec<&mut [u8]>> = (0..n.div_ceil(columns)).map(|_| Vec::with_capacity(m)).collect();
    for row in bytes.chunks_exact_mut(n * size) {
        for (part, columns) in parts.iter_mut().zip(row.chunks_mut(columns * size)) {
            part.push(columns);
        }
    }
    let work = |(index, rows): (usize, Vec<&mut [u8]>)| {
        let first = index * columns;
        add_blocks(rules, &factors, rows, (dtype, accumulate), (first, columns.min(n - first)));
    };
    if parts.len() == 1 {
        parts.into_iter().enumerate().for_each(work);
    } else {
        parts.into_par_iter().enumerate().for_each(work);
    }
}

/// Rows of results in blocks, each with the steps of the contraction one after the other; missing rows are zero.
fn pack_rows(a: &[f32], m: usize) -> Vec<[f32; ROWS]> {
    let k = a.len() / m;
    let mut blocks = vec![[0.0; ROWS]; m.div_ceil(ROWS) * k];
    for (step, row) in a.chunks_exact(m).enumerate() {
        let (whole, rest) = row.as_chunks();
        for (block, values) in whole.iter().enumerate() {
            blocks[block * k + step] = *values;
        }
        if !rest.is_empty() {
            blocks[whole.len() * k + step][..rest.len()].copy_from_slice(rest);
        }
    }
    blocks
}

/// Columns in panels, each with the steps of the contraction one after the other; missing columns are zero.
fn pack_columns(rules: &RuleSet, k: usize, b: Rows<'_>) -> Vec<[f32; COLUMNS]> {
    let columns = b.length;
    let count = columns.div_ceil(COLUMNS);
    let mut panels = vec![[0.0; COLUMNS]; count * k];
    let mut row = vec![[0.0; COLUMNS]; count];
    for step in 0..k {
        b.decode(rules, step, 0, &mut row.as_flattened_mut()[..columns]);
        for (panel, values) in row.iter().enumerate() {
            panels[panel * k + step] = *values;
        }
    }
    panels
}

/// All blocks of the rows, for some of the columns: panel by panel, so that a panel of results and one of the moving
/// operand stay close while the stationary operand passes by.
fn add_blocks(
    rules: &RuleSet,
    factors: &[&Factors],
    mut rows: Vec<&mut [u8]>,
    (dtype, accumulate): (Dtype, bool),
    (first, columns): (usize, usize),
) {
    let add_block = fastest();
    let (count, blocks) = (columns.div_ceil(COLUMNS), rows.len().div_ceil(ROWS));
    let mut sums: Vec<Block> = vec![[[0.0; COLUMNS]; ROWS]; count * blocks];
    let mut line = vec![[0.0; COLUMNS]; count];
    if accumulate {
        for (at, row) in rows.iter().enumerate() {
            widen(rules, dtype, row, &mut line.as_flattened_mut()[..columns]);
            for (panel, piece) in line.iter().enumerate() {
                sums[panel * blocks + at / ROWS][at % ROWS] = *piece;
            }
        }
    }
    for (panel, sums) in sums.chunks_exact_mut(blocks).enumerate() {
        for one in factors {
            let k = one.rows.k;
            let at = (first / COLUMNS + panel) * k;
            let Some(panel) = one.columns.panels.get(at..at + k) else { continue };
            for (block, sums) in one.rows.blocks.chunks_exact(k).zip(sums.iter_mut()) {
                add_block(block, panel, sums);
            }
        }
    }
    for (at, row) in rows.iter_mut().enumerate() {
        for (panel, piece) in line.iter_mut().enumerate() {
            *piece = sums[panel * blocks + at / ROWS][at % ROWS];
        }
        narrow(rules, dtype, &line.as_flattened()[..columns], row);
    }
}

/// The fastest way of this host.
fn fastest() -> AddBlock {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has the instructions.
            return |a, panel, sums| unsafe { add_block_avx512(a, panel, sums) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has the instructions.
            return |a, panel, sums| unsafe { add_block_avx2(a, panel, sums) };
        }
    }
    add_block_plain
}

/// What every host has.
fn add_block_plain(a: &[[f32; ROWS]], panel: &[[f32; COLUMNS]], sums: &mut Block) {
    for (a, b) in a.iter().zip(panel) {
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = a.mul_add(b, *sum);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_block_avx512(a: &[[f32; ROWS]], panel: &[[f32; COLUMNS]], sums: &mut Block) {
    const LANES: usize = 16;
    let mut low = [_mm512_setzero_ps(); ROWS];
    let mut high = [_mm512_setzero_ps(); ROWS];
    for (index, sums) in sums.iter().enumerate() {
        // SAFETY: a row of a block has two vectors.
        (low[index], high[index]) =
            unsafe { (_mm512_loadu_ps(sums.as_ptr()), _mm512_loadu_ps(sums.as_ptr().add(LANES))) };
    }
    for (a, b) in a.iter().zip(panel) {
        // SAFETY: a row of the panel has two vectors.
        let (left, right) = unsafe { (_mm512_loadu_ps(b.as_ptr()), _mm512_loadu_ps(b.as_ptr().add(LANES))) };
        for index in 0..ROWS {
            let a = _mm512_set1_ps(a[index]);
            low[index] = _mm512_fmadd_ps(a, left, low[index]);
            high[index] = _mm512_fmadd_ps(a, right, high[index]);
        }
    }
    for (index, sums) in sums.iter_mut().enumerate() {
        // SAFETY: a row of a block has two vectors.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), low[index]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(LANES), high[index]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_block_avx2(a: &[[f32; ROWS]], panel: &[[f32; COLUMNS]], sums: &mut Block) {
    const LANES: usize = 8;
    for first in (0..COLUMNS).step_by(LANES) {
        let mut totals = [_mm256_setzero_ps(); ROWS];
        for (total, sums) in totals.iter_mut().zip(sums.iter()) {
            // SAFETY: `first` and eight more are within a row.
            *total = unsafe { _mm256_loadu_ps(sums.as_ptr().add(first)) };
        }
        for (a, b) in a.iter().zip(panel) {
            // SAFETY: `first` and eight more are within a row.
            let b = unsafe { _mm256_loadu_ps(b.as_ptr().add(first)) };
            for (total, &a) in totals.iter_mut().zip(a) {
                *total = _mm256_fmadd_ps(_mm256_set1_ps(a), b, *total);
            }
        }
        for (total, sums) in totals.iter().zip(sums.iter_mut()) {
            // SAFETY: `first` and eight more are within a row.
            unsafe { _mm256_storeu_ps(sums.as_mut_ptr().add(first), *total) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(shape: (usize, usize, usize), threads: usize, accumulate: bool) -> (Vec<u32>, Vec<u32>) {
        let (k, m, n) = shape;
        let value = |seed: usize| ((seed * 7919 + 13) % 1009) as f32 / 331.0 - 1.5;
        let a: Vec<f32> = (0..k * m).map(value).collect();
        let b: Vec<f32> = (0..k * (n + 3)).map(|seed| value(seed + 5)).collect();
        let mut expected: Vec<f32> = (0..m * n).map(|seed| value(seed + 9)).collect();
        let mut out: Vec<u8> = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
        if !accumulate {
            expected.fill(0.0);
        }
        for step in 0..k {
            for row in 0..m {
                for column in 0..n {
                    let sum = &mut expected[row * n + column];
                    *sum = a[step * m + row].mul_add(b[step * (n + 3) + 2 + column], *sum);
                }
            }
        }
        let bytes: Vec<u8> = b.iter().flat_map(|value| value.to_le_bytes()).collect();
        let rows = Rows { bytes: &bytes, dtype: Dtype::F32, offset: 2, pitch: n + 3, length: n };
        let results = Results { bytes: &mut out, dtype: Dtype::F32, accumulate };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| multiply(&RuleSet::NEURON, &a, m, rows, results));
        let found = out.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        (found, expected.iter().map(|value| value.to_bits()).collect())
    }

    #[test]
    fn every_shape_and_number_of_threads_gives_the_bits_of_a_plain_loop() {
        for shape in [(1, 1, 1), (5, 9, 33), (128, 128, 512), (17, 8, 32), (64, 100, 270), (128, 128, 100)] {
            for threads in [1, 2, 3, 5] {
                let (found, expected) = product(shape, threads, threads % 2 == 0);
                assert_eq!(found, expected, "{shape:?} on {threads}");
            }
        }
    }

    #[test]
    fn every_path_gives_the_same_bits() {
        let a: Vec<[f32; ROWS]> =
            (0..50).map(|k| std::array::from_fn(|r| ((k * 11 + r) as f32).sin())).collect();
        let panel: Vec<[f32; COLUMNS]> =
            (0..50).map(|k| std::array::from_fn(|c| ((k * 37 + c) as f32).cos())).collect();
        let mut expected = [[0.5; COLUMNS]; ROWS];
        add_block_plain(&a, &panel, &mut expected);
        let mut found = [[0.5; COLUMNS]; ROWS];
        fastest()(&a, &panel, &mut found);
        assert_eq!(found, expected);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let mut found = [[0.5; COLUMNS]; ROWS];
            // SAFETY: the host has the instructions.
            unsafe { add_block_avx2(&a, &panel, &mut found) };
            assert_eq!(found, expected);
        }
    }
}
