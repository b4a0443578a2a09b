//! The innermost loops: a block of results in registers, as wide as the host's vectors allow.

#![expect(unsafe_code, reason = "vector instructions are entered only after the host was asked for them")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Rows of a block of results: with its columns they fill the registers of hosts with vectors of 512 bits.
pub(super) const ROWS: usize = 12;
/// Columns of a block of results.
pub(super) const COLUMNS: usize = 32;

/// A row of a block, on a boundary of vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub struct Line(pub(super) [f32; COLUMNS]);

impl Line {
    /// Nothing.
    pub(super) const ZERO: Line = Line([0.0; COLUMNS]);
}

/// A block of results.
pub(super) type Block = [Line; ROWS];

/// Adds to a block: `sums[r][c] += a[k][r] * panel[k][c]`, k from first to last. `next` is what is multiplied soon: a host
/// that can fetches it meanwhile.
pub(super) type AddBlock = fn(a: &[[f32; ROWS]], panel: &[Line], next: &[Line], sums: &mut Block);

/// The fastest way of this host.
pub(super) fn fastest() -> AddBlock {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has the instructions.
            return |a, panel, next, sums| unsafe { add_block_avx512(a, panel, next, sums) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has the instructions.
            return |a, panel, _, sums| unsafe { add_block_avx2(a, panel, sums) };
        }
    }
    |a, panel, _, sums| add_block_plain(a, panel, sums)
}

/// What every host has.
fn add_block_plain(a: &[[f32; ROWS]], panel: &[Line], sums: &mut Block) {
    for (a, b) in a.iter().zip(panel) {
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.0.iter_mut().zip(&b.0) {
                *sum = a.mul_add(b, *sum);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_block_avx512(a: &[[f32; ROWS]], panel: &[Line], next: &[Line], sums: &mut Block) {
    const LANES: usize = 16;
    let steps = a.len().min(panel.len());
    // Fetches are spread over the steps: many at once would wait for each other.
    let (between, mut fetched) = (steps / next.len().max(1), 0);
    let mut low = [_mm512_setzero_ps(); ROWS];
    let mut high = [_mm512_setzero_ps(); ROWS];
    for index in 0..ROWS {
        let sums = sums[index].0.as_ptr();
        // SAFETY: a line has two vectors, on a boundary of them.
        (low[index], high[index]) = unsafe { (_mm512_load_ps(sums), _mm512_load_ps(sums.add(LANES))) };
    }
    // Counted by hand: an iterator over both would be a call between the instructions.
    for step in 0..steps {
        let (a, b) = (&a[step], panel[step].0.as_ptr());
        if step == fetched * between && fetched < next.len() {
            let line = next[fetched].0.as_ptr();
            // SAFETY: a fetch reads nothing, and both halves are within the line.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(line.cast());
                _mm_prefetch::<_MM_HINT_T0>(line.add(LANES).cast());
            }
            fetched += 1;
        }
        // SAFETY: a line has two vectors, on a boundary of them.
        let (left, right) = unsafe { (_mm512_load_ps(b), _mm512_load_ps(b.add(LANES))) };
        for index in 0..ROWS {
            let a = _mm512_set1_ps(a[index]);
            low[index] = _mm512_fmadd_ps(a, left, low[index]);
            high[index] = _mm512_fmadd_ps(a, right, high[index]);
        }
    }
    for index in 0..ROWS {
        let sums = sums[index].0.as_mut_ptr();
        // SAFETY: a line has two vectors, on a boundary of them.
        unsafe {
            _mm512_store_ps(sums, low[index]);
            _mm512_store_ps(sums.add(LANES), high[index]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_block_avx2(a: &[[f32; ROWS]], panel: &[Line], sums: &mut Block) {
    const LANES: usize = 8;
    for first in (0..COLUMNS).step_by(LANES) {
        let mut totals = [_mm256_setzero_ps(); ROWS];
        for index in 0..ROWS {
            // SAFETY: `first` and eight more are within a line.
            totals[index] = unsafe { _mm256_load_ps(sums[index].0.as_ptr().add(first)) };
        }
        for step in 0..a.len().min(panel.len()) {
            let a = &a[step];
            // SAFETY: `first` and eight more are within a line.
            let b = unsafe { _mm256_load_ps(panel[step].0.as_ptr().add(first)) };
            for index in 0..ROWS {
                totals[index] = _mm256_fmadd_ps(_mm256_set1_ps(a[index]), b, totals[index]);
            }
        }
        for index in 0..ROWS {
            // SAFETY: `first` and eight more are within a line.
            unsafe { _mm256_store_ps(sums[index].0.as_mut_ptr().add(first), totals[index]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_gives_the_same_bits() {
        let a: Vec<[f32; ROWS]> =
            (0..50).map(|k| std::array::from_fn(|r| ((k * 11 + r) as f32).sin())).collect();
        let panel: Vec<Line> =
            (0..50).map(|k| Line(std::array::from_fn(|c| ((k * 37 + c) as f32).cos()))).collect();
        let begin = [Line([0.5; COLUMNS]); ROWS];
        let mut expected = begin;
        add_block_plain(&a, &panel, &mut expected);
        let mut found = begin;
        fastest()(&a, &panel, &panel[..7], &mut found);
        assert_eq!(found, expected);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let mut found = begin;
            // SAFETY: the host has the instructions.
            unsafe { add_block_avx2(&a, &panel, &mut found) };
            assert_eq!(found, expected);
        }
    }
}
