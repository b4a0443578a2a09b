//! Products of the tensor engine: sums in FP32 in the order of the contraction, each step one fused multiply-add.
//!
//! With operands of 16 bits or fewer a product is exact in FP32, so fused or not makes no difference; with FP32
//! operands the fused step is our definition. Vector instructions only change the speed.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

/// Rows and columns of results held in registers.
const ROWS: usize = 8;
const COLUMNS: usize = 32;

/// Adds `a` transposed times `b` to `c`: `c[m][n] += a[k][m] * b[k][n]`, k from first to last.
/// `a` has `k * m`, `b` has `k * n` and `c` has `m * n` elements; anything else is left undone.
pub fn add_product(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize) {
    let k = a.len().checked_div(m).unwrap_or(0);
    if k == 0 || a.len() != k * m || b.len() != k * n || c.len() != m * n {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has the instructions.
            return unsafe { blocks_avx512(a, b, c, m, n) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has the instructions.
            return unsafe { blocks_avx2(a, b, c, m, n) };
        }
    }
    blocks(a, b, c, m, n);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn blocks_avx512(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize) {
    blocks(a, b, c, m, n);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn blocks_avx2(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize) {
    blocks(a, b, c, m, n);
}

#[inline(always)]
fn blocks(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize) {
    let (whole_m, whole_n) = (m - m % ROWS, n - n % COLUMNS);
    let mut panel = vec![0.0; b.len() / n * COLUMNS];
    for column in (0..whole_n).step_by(COLUMNS) {
        for (packed, row) in panel.as_chunks_mut::<COLUMNS>().0.iter_mut().zip(b.chunks_exact(n)) {
            packed.copy_from_slice(&row[column..column + COLUMNS]);
        }
        for row in (0..whole_m).step_by(ROWS) {
            block(a, &panel, c, Place { m, n, row, column });
        }
    }
    for row in 0..m {
        let from = if row < whole_m { whole_n } else { 0 };
        for column in from..n {
            let mut sum = c[row * n + column];
            for (a, b) in a.chunks_exact(m).zip(b.chunks_exact(n)) {
                sum = a[row].mul_add(b[column], sum);
            }
            c[row * n + column] = sum;
        }
    }
}

/// Where a block of results lies.
#[derive(Clone, Copy)]
struct Place {
    m: usize,
    n: usize,
    row: usize,
    column: usize,
}

#[inline(always)]
fn block(a: &[f32], panel: &[f32], c: &mut [f32], place: Place) {
    let Place { m, n, row, column } = place;
    let mut sums = [[0.0_f32; COLUMNS]; ROWS];
    for (index, sums) in sums.iter_mut().enumerate() {
        let at = (row + index) * n + column;
        sums.copy_from_slice(&c[at..at + COLUMNS]);
    }
    for (a, b) in a.chunks_exact(m).zip(panel.as_chunks::<COLUMNS>().0) {
        let Some(a) = a[row..].first_chunk::<ROWS>() else { return };
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = a.mul_add(b, *sum);
            }
        }
    }
    for (index, sums) in sums.iter().enumerate() {
        let at = (row + index) * n + column;
        c[at..at + COLUMNS].copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_gives_the_same_bits_as_a_plain_loop() {
        let value = |seed: usize| ((seed * 7919 + 13) % 1009) as f32 / 331.0 - 1.5;
        for (k, m, n) in [(1, 1, 1), (5, 9, 33), (128, 128, 512), (17, 8, 32), (64, 100, 70)] {
            let a: Vec<f32> = (0..k * m).map(value).collect();
            let b: Vec<f32> = (0..k * n).map(|seed| value(seed + 5)).collect();
            let start: Vec<f32> = (0..m * n).map(|seed| value(seed + 9)).collect();
            let mut expected = start.clone();
            for step in 0..k {
                for row in 0..m {
                    for column in 0..n {
                        let sum = &mut expected[row * n + column];
                        *sum = a[step * m + row].mul_add(b[step * n + column], *sum);
                    }
                }
            }
            let mut found = start;
            add_product(&a, &b, &mut found, m, n);
            assert!(found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{k} {m} {n}");
        }
    }
}
