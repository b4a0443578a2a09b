//! Dot products of a few rows with one row, all of i8: for contractions whose rows are too few to be worth
//! packing. Sums wrap, so that every order gives the same.

use super::dot_row::row_sum;
#[cfg(target_arch = "x86_64")]
use super::dot_x86;
use super::simd_path::SimdPath;

/// Adds to each sum the products of a row of `a` with `b`; rows of `a` follow each other and are as long as
/// `b`.
pub(crate) fn dot_i8(path: SimdPath, a: &[u8], b: &[u8], sums: &mut [i32]) {
    if b.is_empty() {
        return;
    }
    match path {
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 if dot_x86::avx512(a, b, sums) => {}
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 | SimdPath::Avx2 if dot_x86::avx2(a, b, sums) => {}
        _ => portable(a, b, sums),
    }
}

fn portable(a: &[u8], b: &[u8], sums: &mut [i32]) {
    for (row, sum) in a.chunks_exact(b.len()).zip(sums) {
        *sum = sum.wrapping_add(row_sum(row, b));
    }
}

#[cfg(test)]
mod tests {
    use super::{SimdPath, dot_i8};

    #[test]
    fn every_path_gives_the_sums_of_plain_loops() {
        let mut seed = 1_u64;
        let mut bytes = |count: usize| -> Vec<u8> {
            let next = |_| {
                let word = tilewright_base::random::next(&mut seed);
                if word >> 60 == 0 { 0x80 } else { word.to_be_bytes()[0] }
            };
            (0..count).map(next).collect()
        };
        for k in [1, 3, 63, 64, 65, 200, 1024] {
            for rows in [1, 2, 3, 4, 5, 9] {
                let (a, b) = (bytes(rows * k), bytes(k));
                let signed = |byte: &u8| i64::from(byte.cast_signed());
                let expected: Vec<i64> = a
                    .chunks(k)
                    .map(|row| row.iter().zip(&b).map(|(a, b)| signed(a) * signed(b)).sum::<i64>() + 5)
                    .collect();
                for path in SimdPath::ALL.into_iter().filter(|path| path.is_available()) {
                    let mut sums = vec![5; rows];
                    dot_i8(path, &a, &b, &mut sums);
                    let sums: Vec<i64> = sums.into_iter().map(i64::from).collect();
                    assert_eq!(sums, expected, "{path:?}, {rows} rows of {k}");
                }
            }
        }
    }
}
