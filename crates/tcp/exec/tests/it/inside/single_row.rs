//! One row against many: the order of sums, what wraps, and what is left to others.

use tilewright_num::{Dtype, RuleSet, add_f32, mul_f32};
use tilewright_tcp_exec::inside::SingleRow;
use tilewright_tcp_exec::values::SimdPath;

struct Bytes(u64);

impl Bytes {
    fn next(&mut self) -> u8 {
        tilewright_base::random::next(&mut self.0).to_be_bytes()[0]
    }

    /// bf16 between 2^-31 and 2 in magnitude, some of them zeros.
    fn floats(&mut self, count: usize) -> Vec<u8> {
        let mut value = |_| {
            let (low, high) = (self.next(), self.next());
            if high == 7 { [0, low & 0x80] } else { [low, high & 0x8F | 0x30] }
        };
        (0..count).flat_map(&mut value).collect()
    }

    fn ints(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| if self.next() < 20 { 0x80 } else { self.next() }).collect()
    }
}

fn value(bytes: &[u8]) -> f32 {
    f32::from_bits(u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 24)
}

/// The tree of some neighbours, by halves.
fn tree(a: &[u8], b: &[u8]) -> f32 {
    if a.len() == 2 {
        return mul_f32(&RuleSet::TCP, value(a), value(b));
    }
    let middle = a.len() / 2;
    add_f32(&RuleSet::TCP, tree(&a[..middle], &b[..middle]), tree(&a[middle..], &b[middle..]))
}

fn paths() -> impl Iterator<Item = SimdPath> {
    SimdPath::ALL.into_iter().filter(|path| path.is_available())
}

#[test]
fn floats_are_summed_in_the_order_of_the_tree() {
    let mut bytes = Bytes(1);
    for (neighbours, k) in [(8, 8), (16, 16), (8, 16), (32, 32), (32, 96), (8, 64), (16, 160)] {
        for rows in [1, 2, 7, 16, 33, 100] {
            let (a, b) = (bytes.floats(k), bytes.floats(rows * k));
            let sum = |row: &[u8]| {
                let steps = a.chunks(2 * neighbours).zip(row.chunks(2 * neighbours));
                let sum = steps.fold(0.0, |sum, (a, b)| add_f32(&RuleSet::TCP, sum, tree(a, b)));
                sum.to_bits()
            };
            let expected: Vec<u32> = b.chunks(2 * k).map(sum).collect();
            for path in paths() {
                let mut found = vec![1; rows];
                let single = SingleRow::new(path, Dtype::Bf16, neighbours, &a).expect("plain rows");
                assert!(single.sums(Dtype::Bf16, &b, &mut found));
                assert_eq!(found, expected, "{path:?}, tree {neighbours}, {rows} rows of {k}");
            }
        }
    }
}

#[test]
fn integers_wrap() {
    let mut bytes = Bytes(2);
    for k in [8, 16, 32, 64, 192, 4096] {
        for rows in [1, 3, 16, 40] {
            let (a, b) = (bytes.ints(k), bytes.ints(rows * k));
            let product = |(a, b): (&u8, &u8)| i32::from(a.cast_signed()) * i32::from(b.cast_signed());
            let sum = |row: &[u8]| a.iter().zip(row).map(product).fold(0, i32::wrapping_add);
            let expected: Vec<u32> = b.chunks(k).map(|row| sum(row).cast_unsigned()).collect();
            for path in paths() {
                let mut found = vec![1; rows];
                let single = SingleRow::new(path, Dtype::I8, 64, &a).expect("whole parts");
                assert!(single.sums(Dtype::I8, &b, &mut found));
                assert_eq!(found, expected, "{path:?}, {rows} rows of {k}");
            }
        }
    }
}

const LEAST_NORMAL: [u8; 2] = [0x80, 0x00];

#[test]
fn what_may_be_subnormal_or_infinite_is_left_to_others() {
    let one = [0x80, 0x3F].repeat(8);
    for odd in [[1, 0], [0x80, 0x7F], [0xC0, 0x7F], LEAST_NORMAL] {
        let mut row = one.clone();
        row[4..6].copy_from_slice(&odd);
        for path in paths() {
            let single = SingleRow::new(path, Dtype::Bf16, 8, &one).expect("plain rows");
            assert!(!single.sums(Dtype::Bf16, &row, &mut [0]));
            let least = SingleRow::new(path, Dtype::Bf16, 8, &row);
            assert!(least.is_none_or(|least| !least.sums(Dtype::Bf16, &row, &mut [0])));
            let zeros = SingleRow::new(path, Dtype::Bf16, 8, &[0; 16]).expect("plain rows");
            assert_eq!(zeros.sums(Dtype::Bf16, &row, &mut [0]), odd == LEAST_NORMAL);
        }
    }
}
