//! Rows of integers that are too few to be packed: every path gives the sums of plain loops.

use tilewright_tcp_exec::inside::dot_i8;
use tilewright_tcp_exec::values::SimdPath;

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
