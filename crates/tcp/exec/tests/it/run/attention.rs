//! The paper's Fig. 10 as register images: HQD, HKD -> HQK with H = 4, L = 256, D = 128 on 64 slices, 16 to a
//! head.
//!
//! K goes to the register files by a command of the sub context, queries are multicast within the 16 slices
//! of a head.

use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{MapDigit, OFFSET, SLICE};
use tilewright_num::{Dtype, int_value};
use tilewright_tcp_exec::{MemoryState, exec};
use tilewright_tcp_isa::program::exec::{Context, Drain, ExecBody, Memory, Stream};
use tilewright_tcp_isa::program::tensor::TensorPlace;
use tilewright_tcp_isa::program::{Count, Tensor};
use tilewright_tcp_isa::switch::{Ring, Topology};

use crate::run::contract::{contraction, step};
use crate::run::images::{Dice, PE, commit, copy, fetch, image, row, tcp};
use crate::run::state::tensor;

const Q: u64 = 0;
const K: u64 = 0x1000;
const QK: u64 = 0x10000;

/// `H^1[4] X^16[16] | X^1[16] D^1[128]`.
fn operand(base: u64) -> Tensor {
    let digit = |to_axis, to_stride, from_axis, from_stride, size| MapDigit {
        to_axis,
        to_stride,
        from_axis,
        from_stride,
        size,
    };
    let map = RadixMap {
        from: [4, 256, 128].into_iter().collect(),
        to: [64, 2048].into_iter().collect(),
        digits: [
            digit(SLICE, 16, 0, 1, 4),
            digit(SLICE, 1, 1, 16, 16),
            digit(OFFSET, 128, 1, 1, 16),
            digit(OFFSET, 1, 2, 1, 128),
        ]
        .into_iter()
        .collect(),
        ..RadixMap::default()
    };
    tensor(Dtype::I8, TensorPlace::Dm { chip: 0, slice: 0, base }, map)
}

/// `H^1[4] K^16[16] | Q^1[256] K^1[16]`.
fn product() -> Tensor {
    let digit = |to_axis, to_stride, from_axis, from_stride, size| MapDigit {
        to_axis,
        to_stride,
        from_axis,
        from_stride,
        size,
    };
    let map = RadixMap {
        from: [4, 256, 256].into_iter().collect(),
        to: [64, 4096].into_iter().collect(),
        digits: [
            digit(SLICE, 16, 0, 1, 4),
            digit(SLICE, 1, 2, 16, 16),
            digit(OFFSET, 16, 1, 1, 256),
            digit(OFFSET, 1, 2, 1, 16),
        ]
        .into_iter()
        .collect(),
        ..RadixMap::default()
    };
    tensor(Dtype::I32, TensorPlace::Dm { chip: 0, slice: 0, base: QK }, map)
}

/// K^8[2] K^1[8] D^1[128]: lane is K^1[8], each holds two rows of 128.
fn load_keys() -> Stream {
    let mut stream = copy(fetch(Dtype::I8, 8, vec![row(16 * 128, 1)]), 256);
    stream.fetch.base = K;
    stream.commit = commit(Memory::Trf { lanes: 8 }, 0, 0);
    stream.commit.bytes = 8;
    stream.commit.width = 8;
    stream.commit.loops = vec![row(2, 128), row(8, 8192), row(16, 8)];
    stream
}

/// Q^1[256] K^8[2] K^1[8] D^1[128]: a query's 128 elements are two packets, each held for two steps.
fn multiply() -> Stream {
    let mut stream = copy(fetch(Dtype::I8, 128, vec![row(16, 128), row(128, 1)]), 512);
    stream.fetch.base = Q;
    stream.switch.topology = Topology::Broadcast01(Ring { slice1: 16, slice0: 1 }, 16);
    let loops = vec![row(256, 0), row(2, 64), row(2, 128), row(64, 1)];
    let mut unit = contraction(Dtype::I8, loops, vec![step(256, false), step(2, true), step(2, false)]);
    unit.flits = 2;
    unit.tree = 64;
    unit.repeats = Count::Fixed(2);
    unit.drain = Drain::Interleaved;
    stream.contract = Some(unit);
    stream.commit = commit(Memory::Dm, QK, 512);
    stream
}

fn scores(replaced: Option<u64>) -> Vec<u32> {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    if let Some(slice) = replaced {
        state.replace_slice(0, 0, slice).unwrap();
    }
    let dice = &mut Dice(40);
    for base in [Q, K] {
        let patterns: Vec<u32> = (0..4 * 256 * 128).map(|_| dice.next() as u32 & 0xFF).collect();
        state.put(&operand(base), &patterns).unwrap();
    }
    let mut load = image(ExecBody::Stream(Box::new(load_keys())));
    load.context = Context::Sub;
    exec(machine, &mut state, PE, &load).unwrap();
    exec(machine, &mut state, PE, &image(ExecBody::Stream(Box::new(multiply())))).unwrap();
    state.get(&product()).unwrap()
}

#[test]
fn scores_are_the_einsum() {
    let found = scores(None);
    let dice = &mut Dice(40);
    let mut draw = || -> Vec<i32> {
        (0..4 * 256 * 128).map(|_| int_value(Dtype::I8, dice.next() as u32 & 0xFF) as i32).collect()
    };
    let (q, k) = (draw(), draw());
    for h in 0..4 {
        for (i, j) in (0..256).flat_map(|i| (0..256).map(move |j| (i, j))) {
            let (a, b) = (&q[(h * 256 + i) * 128..][..128], &k[(h * 256 + j) * 128..][..128]);
            let expected: i32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            assert_eq!(
                found[(h * 256 + i) * 256 + j].cast_signed(),
                expected,
                "head {h}, query {i}, key {j}"
            );
        }
    }
}

#[test]
fn a_replaced_slice_changes_nothing() {
    assert!(scores(None) == scores(Some(21)));
}
