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
pub struct BlockRow(pub(super) [f32; COLUMNS]);

impl BlockRow {
    /// Nothing.
    pub(super) const ZERO: BlockRow = BlockRow([0.0; COLUMNS]);
}

/// A block of results.
pub(super) type ResultBlock = [BlockRow; ROWS];

/// What is multiplied.
#[derive(Clone, Copy)]
pub(super) struct BlockOperands<'a> {
    /// Rows of the block, step by step.
    pub(super) a: &'a [[f32; ROWS]],
    /// Rows that are looked at later: the sums of others may be left as they are.
    pub(super) used: usize,
    /// Columns of the block, step by step.
    pub(super) panel: &'a [BlockRow],
    /// What is multiplied soon: a host that can fetches it meanwhile.
    pub(super) next: &'a [BlockRow],
}

/// Adds to a block: `sums[r][c] += a[k][r] * panel[k][c]`, k from first to last.
pub(super) type AddBlock = fn(operands: BlockOperands<'_>, sums: &mut ResultBlock);

/// The fastest way of this host.
pub(super) fn fastest() -> AddBlock {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has the instructions.
            return |operands, sums| unsafe {
                match operands.used {
                    0..=4 => add_block_avx512::<4>(operands, sums),
                    5..=8 => add_block_avx512::<8>(operands, sums),
                    _ => add_block_avx512::<ROWS>(operands, sums),
                }
            };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the host has the instructions.
            return |operands, sums| unsafe { add_block_avx2(operands, sums) };
        }
    }
    add_block_plain
}

/// What every host has.
fn add_block_plain(BlockOperands { a, panel, .. }: BlockOperands<'_>, sums: &mut ResultBlock) {
    for (a, b) in a.iter().zip(panel) {
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.0.iter_mut().zip(&b.0) {
                *sum = a.mul_add(b, *sum);
            }
        }
    }
}

/// Adds to the first rows only.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_block_avx512<const USED: usize>(operands: BlockOperands<'_>, sums: &mut ResultBlock) {
    const LANES: usize = 16;
    let BlockOperands { a, panel, next, .. } = operands;
    let steps = a.len().min(panel.len());
    // Fetches are spread over the steps: many at once would wait for each other.
    let (between, mut fetched) = (steps / next.len().max(1), 0);
    let mut low = [_mm512_setzero_ps(); USED];
    let mut high = [_mm512_setzero_ps(); USED];
    for index in 0..USED {
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
        for index in 0..USED {
            let a = _mm512_set1_ps(a[index]);
            low[index] = _mm512_fmadd_ps(a, left, low[index]);
            high[index] = _mm512_fmadd_ps(a, right, high[index]);
        }
    }
    for index in 0..USED {
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
fn add_block_avx2(BlockOperands { a, panel, .. }: BlockOperands<'_>, sums: &mut ResultBlock) {
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
        let panel: Vec<BlockRow> =
            (0..50).map(|k| BlockRow(std::array::from_fn(|c| ((k * 37 + c) as f32).cos()))).collect();
        let begin = [BlockRow([0.5; COLUMNS]); ROWS];
        for used in [1, 4, 5, 8, 9, ROWS] {
            let operands = BlockOperands { a: &a, used, panel: &panel, next: &panel[..7] };
            let mut expected = begin;
            add_block_plain(operands, &mut expected);
            let mut found = begin;
            fastest()(operands, &mut found);
            assert_eq!(found[..used], expected[..used]);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                let mut found = begin;
                // SAFETY: the host has the instructions.
                unsafe { add_block_avx2(operands, &mut found) };
                assert_eq!(found, expected);
            }
        }
    }
}
