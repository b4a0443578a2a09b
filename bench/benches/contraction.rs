//! Speed of the contraction kernels on one core, path by path, beside the host's own f32 matrix product.
//!
//! `cargo bench -p tilewright-bench --bench contraction`, with `-- bf16` for the rows whose name begins so.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]
#![expect(unsafe_code, reason = "matrixmultiply takes pointers")]

use std::hint::black_box;

use tilewright_bench::{Bench, measure};
use tilewright_num::Dtype;
use tilewright_tcp_exec::values::{
    AccumulatorRows, ContractionShape, OperandRows, SimdPath, StationaryOperand, TreeReduce,
};

const ROWS_A: usize = 512;
const ROWS_B: usize = 512;
const K: usize = 4096;
const MACS: u64 = (ROWS_A * ROWS_B * K) as u64;

/// Which rows are timed: a name, the type, the tree, what it does, the goal of the fastest path in MAC/s.
const CASES: [(&str, Dtype, usize, TreeReduce, f64); 11] = [
    ("i8", Dtype::I8, 64, TreeReduce::Add, 40e9),
    ("i4", Dtype::I4, 128, TreeReduce::Add, 40e9),
    ("i9", Dtype::I9, 64, TreeReduce::Add, 20e9),
    ("bf16, tree of 32", Dtype::Bf16, 32, TreeReduce::Add, 8e9),
    ("bf16, tree of 8", Dtype::Bf16, 8, TreeReduce::Add, 8e9),
    ("bf16, no tree", Dtype::Bf16, 1, TreeReduce::Add, 8e9),
    ("bf16, tree of 32, flushing", Dtype::Bf16, 32, TreeReduce::Add, 8e9),
    ("f8e4m3fn, tree of 64", Dtype::F8E4M3Fn, 64, TreeReduce::Add, 8e9),
    ("f8e5m2, tree of 64", Dtype::F8E5M2, 64, TreeReduce::Add, 8e9),
    ("i8, max", Dtype::I8, 64, TreeReduce::Max, 4e9),
    ("bf16, max", Dtype::Bf16, 32, TreeReduce::Max, 2e9),
];

fn main() {
    let limit = sgemm();
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, dtype, tree_elements, reduce, goal_per_s) in CASES {
        if !name.starts_with(&wanted) {
            continue;
        }
        for path in SimdPath::ALL.into_iter().filter(|path| path.is_available()) {
            let goal_per_s = goal_per_s * share_of_goal(path);
            let shape = ContractionShape { rows_a: ROWS_A, rows_b: ROWS_B, k: K, tree_elements, reduce };
            let bench = Bench { name: &format!("{name}, {path:?}, MAC"), goal_per_s, items: MACS };
            let rate = contraction(&bench, path, &shape, dtype, name.ends_with("flushing"));
            println!("{:>52} {:>10.2} of sgemm", "", rate / limit);
        }
    }
}

/// The goal is for what `contract` takes on this host; the other paths are timed beside it and held to none.
fn share_of_goal(path: SimdPath) -> f64 {
    if path == SimdPath::best() { 1.0 } else { 0.0 }
}

/// Packing included, as `contract` does it.
fn contraction(bench: &Bench<'_>, path: SimdPath, shape: &ContractionShape, dtype: Dtype, wide: bool) -> f64 {
    let [a, b] = [(ROWS_A, 1), (ROWS_B, 2)].map(|(rows, seed)| operand(dtype, rows * K, seed, wide));
    let mut ints = vec![0_i32; ROWS_A * ROWS_B];
    let mut floats = vec![0.0_f32; ROWS_A * ROWS_B];
    measure(bench, || {
        let rows_b = OperandRows { dtype, bytes: black_box(&b) };
        let packed = StationaryOperand::pack(path, shape, dtype, rows_b).expect("sizes fit");
        let out = if dtype.is_float() {
            AccumulatorRows::F32(&mut floats)
        } else {
            AccumulatorRows::I32(&mut ints)
        };
        packed.contract_rows(ROWS_A, black_box(&a), out).expect("sizes fit");
    })
}

/// Bytes of a fixed sequence. Floats are ordinary, or spread so far that sums have to be flushed, though few
/// products are subnormal.
fn operand(dtype: Dtype, elements: usize, seed: u64, wide: bool) -> Vec<u8> {
    let mut bytes = vec![0; dtype.size_bytes(elements)];
    let mut state = seed;
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = tilewright_base::random::next(&mut state).to_be_bytes()[0];
        match dtype {
            Dtype::Bf16 if index % 2 == 1 => *byte = (*byte & 0x81) | if wide { 0x22 } else { 0x3E },
            Dtype::F8E4M3Fn | Dtype::F8E5M2 => *byte &= 0xBF,
            Dtype::I9 if index % 2 == 1 => *byte = if *byte & 1 == 1 { 0xFF } else { 0 },
            _ => {}
        }
    }
    bytes
}

/// The host's limit for f32: the same shape, in any order of summation.
fn sgemm() -> f64 {
    let a = vec![1.25_f32; ROWS_A * K];
    let b = vec![0.75_f32; ROWS_B * K];
    let mut out = vec![0.0_f32; ROWS_A * ROWS_B];
    let bench = Bench { name: "f32 matrixmultiply sgemm, MAC", goal_per_s: 0.0, items: MACS };
    let (stride, columns) = (K.cast_signed(), ROWS_B.cast_signed());
    measure(&bench, || {
        let (a, b) = (black_box(a.as_ptr()), black_box(b.as_ptr()));
        // SAFETY: the slices hold 512 rows of 4096, and 512 rows of 512; the strides are theirs.
        unsafe {
            let out = out.as_mut_ptr();
            matrixmultiply::sgemm(ROWS_A, K, ROWS_B, 1.0, a, stride, 1, b, 1, stride, 0.0, out, columns, 1);
        }
    })
}
