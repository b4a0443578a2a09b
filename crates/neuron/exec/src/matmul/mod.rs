//! Products of the tensor engine: sums in FP32 in the order of the contraction, each step one fused
//! multiply-add.
//!
//! With operands of 16 bits or fewer a product is exact in FP32, so fused or not makes no difference; with
//! FP32 operands the fused step is our definition. Vector instructions and threads only change the speed:
//! threads share out columns, and every sum is taken in the same order, by one of them at a time. Operands
//! are packed by those threads too, and what was packed is kept with the tensor until somebody writes to it.

mod accumulation;
mod block;
mod pack;

use std::sync::Arc;

use tilewright_num::{Dtype, RuleSet, decode_slice, encode_slice};

pub use accumulation::{AccumulationChain, multiply_packed};
pub use pack::{CachedPack, OperandRows, PackedColumns, PackedRows};

/// [`decode_slice`] without a look at NaN, which every result is looked at for.
fn upcast(rules: &RuleSet, dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
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
fn downcast(rules: &RuleSet, dtype: Dtype, values: &[f32], bytes: &mut [u8]) {
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
pub struct ResultRows<'a> {
    /// Where they lie.
    pub bytes: &'a mut [u8],
    /// Their type.
    pub dtype: Dtype,
    /// Sums begin with what is there.
    pub accumulate: bool,
}

/// The operands of one product.
#[derive(Clone, Debug)]
pub struct MatmulOperands {
    /// The stationary one.
    pub rows: Arc<PackedRows>,
    /// The moving one.
    pub columns: Arc<PackedColumns>,
}

impl MatmulOperands {
    /// Packs both, if nobody did yet.
    fn pack(&self) {
        self.rows.groups();
        self.columns.groups();
    }
}

/// `out[m][n] (+)= a[k][m] * b[k][n]`. Sizes that do not fit are left undone.
pub fn multiply(rules: &RuleSet, a: OperandRows, b: OperandRows, out: ResultRows<'_>) {
    let (rows, columns) = (PackedRows::new(rules, a), PackedColumns::new(rules, b));
    multiply_packed(rules, &[MatmulOperands { rows: Arc::new(rows), columns: Arc::new(columns) }], out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer_pool::SharedBytes;

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
        let bytes = |values: &[f32]| -> SharedBytes {
            values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
        };
        let (dtype, steps) = (Dtype::F32, k);
        let rows = OperandRows { bytes: bytes(&a), dtype, offset: 0, pitch: m, length: m, steps };
        let columns = OperandRows { bytes: bytes(&b), dtype, offset: 2, pitch: n + 3, length: n, steps };
        let results = ResultRows { bytes: &mut out, dtype: Dtype::F32, accumulate };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| multiply(&RuleSet::NEURON, rows, columns, results));
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
}
