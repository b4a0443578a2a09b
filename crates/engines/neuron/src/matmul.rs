//! Products of the tensor engine: sums in FP32 in the order of the contraction, each step one fused multiply-add.
//!
//! With operands of 16 bits or fewer a product is exact in FP32, so fused or not makes no difference; with FP32
//! operands the fused step is our definition. Vector instructions only change the speed.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Rows and columns of a block of results.
const ROWS: usize = 8;
const COLUMNS: usize = 32;

/// A block of results.
type Block = [[f32; COLUMNS]; ROWS];

/// Adds to a block: `sums[r][c] += a[k][row + r] * panel[k][c]`, with `m` elements in a row of `a`.
type AddBlock = fn(a: &[f32], m: usize, row: usize, panel: &[[f32; COLUMNS]], sums: &mut Block);

/// Adds `a` transposed times `b` to `c`: `c[m][n] += a[k][m] * b[k][n]`, k from first to last.
/// `a` has `k * m`, `b` has `k * n` and `c` has `m * n` elements; anything else is left undone.
pub fn add_product(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize) {
    let k = a.len().checked_div(m).unwrap_or(0);
    if k == 0 || n == 0 || a.len() != k * m || b.len() != k * n || c.len() != m * n {
        return;
    }
    let add_block = fastest();
    let mut panel = vec![[0.0; COLUMNS]; k];
    for column in (0..n).step_by(COLUMNS) {
        let columns = COLUMNS.min(n - column);
        for (packed, row) in panel.iter_mut().zip(b.chunks_exact(n)) {
            packed[..columns].copy_from_slice(&row[column..column + columns]);
        }
        for row in (0..m).step_by(ROWS) {
            let rows = ROWS.min(m - row);
            let mut sums = [[0.0; COLUMNS]; ROWS];
            for (index, sums) in sums.iter_mut().enumerate().take(rows) {
                let at = (row + index) * n + column;
                sums[..columns].copy_from_slice(&c[at..at + columns]);
            }
            if rows == ROWS {
                add_block(a, m, row, &panel, &mut sums);
            } else {
                add_rows(a, m, row, &panel, &mut sums[..rows]);
            }
            for (index, sums) in sums.iter().enumerate().take(rows) {
                let at = (row + index) * n + column;
                c[at..at + columns].copy_from_slice(&sums[..columns]);
            }
        }
    }
}

/// The fastest way of this host.
fn fastest() -> AddBlock {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has the instructions.
            return |a, m, row, panel, sums| unsafe { add_block_avx512(a, m, row, panel, sums) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has the instructions.
            return |a, m, row, panel, sums| unsafe { add_block_avx2(a, m, row, panel, sums) };
        }
    }
    |a, m, row, panel, sums| add_rows(a, m, row, panel, sums)
}

/// What every host has.
fn add_rows(a: &[f32], m: usize, row: usize, panel: &[[f32; COLUMNS]], sums: &mut [[f32; COLUMNS]]) {
    for (a, b) in a.chunks_exact(m).zip(panel) {
        for (sums, &a) in sums.iter_mut().zip(&a[row..]) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = a.mul_add(b, *sum);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_block_avx512(a: &[f32], m: usize, row: usize, panel: &[[f32; COLUMNS]], sums: &mut Block) {
    const LANES: usize = 16;
    let mut low = [_mm512_setzero_ps(); ROWS];
    let mut high = [_mm512_setzero_ps(); ROWS];
    for (index, sums) in sums.iter().enumerate() {
        // SAFETY: a row of a block has two vectors.
        (low[index], high[index]) =
            unsafe { (_mm512_loadu_ps(sums.as_ptr()), _mm512_loadu_ps(sums.as_ptr().add(LANES))) };
    }
    for (a, b) in a.chunks_exact(m).zip(panel) {
        let Some(a) = a[row..].first_chunk::<ROWS>() else { return };
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
fn add_block_avx2(a: &[f32], m: usize, row: usize, panel: &[[f32; COLUMNS]], sums: &mut Block) {
    const LANES: usize = 8;
    for first in (0..COLUMNS).step_by(LANES) {
        let mut totals = [_mm256_setzero_ps(); ROWS];
        for (total, sums) in totals.iter_mut().zip(sums.iter()) {
            // SAFETY: `first` and eight more are within a row.
            *total = unsafe { _mm256_loadu_ps(sums.as_ptr().add(first)) };
        }
        for (a, b) in a.chunks_exact(m).zip(panel) {
            let Some(a) = a[row..].first_chunk::<ROWS>() else { return };
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

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_path_gives_the_same_bits() {
        let a: Vec<f32> = (0..50 * 11).map(|seed| (seed as f32).sin()).collect();
        let panel: Vec<[f32; COLUMNS]> =
            (0..50).map(|k| std::array::from_fn(|c| ((k * 37 + c) as f32).cos())).collect();
        let mut expected = [[0.5; COLUMNS]; ROWS];
        add_rows(&a, 11, 2, &panel, &mut expected);
        let mut found = [[0.5; COLUMNS]; ROWS];
        fastest()(&a, 11, 2, &panel, &mut found);
        assert_eq!(found, expected);
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let mut found = [[0.5; COLUMNS]; ROWS];
            // SAFETY: the host has the instructions.
            unsafe { add_block_avx2(&a, 11, 2, &panel, &mut found) };
            assert_eq!(found, expected);
        }
    }
}
