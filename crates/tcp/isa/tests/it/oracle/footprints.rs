//! Footprints against a plain enumeration of every address.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tilewright_num::Dtype;
use tilewright_tcp_isa::footprint::{Footprint, MemoryAccess, MemoryKind, of_exec, of_transfer, tensor};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Context, Interleave, Limit, Memory, SliceDigit};
use tilewright_tcp_isa::program::tensor::{TensorPlace, TensorRole};
use tilewright_tcp_isa::program::transfer::Address;

use crate::oracle::build::*;
use crate::oracle::enumerated::{Byte, enumerate_exec, enumerate_transfer};
use crate::oracle::tcp;

fn expanded(accesses: &[MemoryAccess]) -> BTreeSet<Byte> {
    let mut bytes = BTreeSet::new();
    for access in accesses {
        assert!(access.bytes.is_exact());
        for slice in access.slices.0..access.slices.1 {
            for (start, end) in access.bytes.runs() {
                bytes.extend((*start..*end).map(|at| (access.memory, access.chip, slice, at, access.write)));
            }
        }
    }
    bytes
}

fn fits(footprint: &Footprint, wanted: &BTreeSet<Byte>) {
    assert_eq!(&expanded(&footprint.accesses), wanted);
}

fn strided() -> impl Strategy<Value = (u64, i64)> {
    (1_u64..5, prop_oneof![Just(1_i64), Just(0), -20_i64..40, Just(8), Just(64)])
}

fn dtype() -> impl Strategy<Value = Dtype> {
    prop_oneof![Just(Dtype::I4), Just(Dtype::I8), Just(Dtype::Bf16), Just(Dtype::F32)]
}

fn limit(loops: usize) -> impl Strategy<Value = Limit> {
    let digit = (0_u32..6, 1_u64..9, 0_u64..5);
    (0_u64..20, proptest::collection::vec(0_u64..5, loops), proptest::collection::vec(digit, 0..2)).prop_map(
        |(extent, weights, digits)| Limit {
            extent: Count::Fixed(extent),
            weights,
            slices: digits
                .into_iter()
                .map(|(stride, size, weight)| SliceDigit { stride: 1 << stride, size, weight })
                .collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_stream_touches_what_its_loops_name(
        dtype in dtype(),
        base in prop_oneof![0_u64..300, 524_000_u64..524_288],
        loops in proptest::collection::vec(strided(), 1..4),
        limits in proptest::collection::vec(limit(3), 0..3),
        pair in proptest::option::of((0_usize..3, 0_u64..400)),
        writes in proptest::collection::vec((1_u64..5, -8_i64..9), 0..4),
        masked in any::<bool>(),
        to in 0_usize..3,
    ) {
        let mut loops = loops;
        let mut fetch = fetch(dtype, base, &[], 1);
        if let Some((at, second)) = pair && at < loops.len() {
            loops[at].0 = 2;
            fetch.interleave = Some(Interleave { at_loop: at, base: second });
        }
        fetch.loops = rows(&loops);
        fetch.limits = limits;
        fetch.limits.iter_mut().for_each(|limit| limit.weights.truncate(loops.len()));
        let memory = [Memory::Dm, Memory::Trf { lanes: 8 }, Memory::Vrf][to];
        let writes: Vec<(u64, i64)> = writes.into_iter().map(|(size, stride)| (size, stride * 8)).collect();
        let mut commit = commit(memory, 512, &writes, 16);
        commit.slices = if masked { vec![(3, 7), (60, 64)] } else { Vec::new() };
        let exec = exec("x", Context::Main, stream(fetch, commit));
        let pe = PeId { chip: 1, pe: 2 };
        fits(&of_exec(tcp(), &exec, pe, &[]), &enumerate_exec(&exec, pe));
    }

    #[test]
    fn a_transfer_touches_what_its_loops_name(
        from in prop_oneof![(0_u64..2000).prop_map(hbm), (0_u64..4, 524_000_u64..524_288)
            .prop_map(|(s, o)| dm(s, o)), (0_u64..9, 0_u64..99).prop_map(|(p, o)| spm(p, o))],
        to in prop_oneof![(509_u64..512, 0_u64..99).prop_map(|(s, o)| dm(s, o)),
            (48_u64 << 30).saturating_sub(60).prop_map_hbm()],
        loops in proptest::collection::vec((1_u64..5, hop(), hop()), 0..4),
        packet in 1_u64..40,
    ) {
        let mut transfer = transfer("t", from, to, packet);
        transfer.loops = loops.into_iter().map(|(size, a, b)| transfer_loop(size, a, b)).collect();
        fits(&of_transfer(tcp(), &transfer, &[]), &enumerate_transfer(&transfer));
    }
}

/// Strides within a memory, over slices, and both.
fn hop() -> impl Strategy<Value = i64> {
    (-2_i64..3, -30_i64..60).prop_flat_map(|(slices, bytes)| {
        prop_oneof![Just(slices << 22), Just(bytes), Just((slices << 22) + bytes)]
    })
}

trait NearTheEnd {
    fn prop_map_hbm(self) -> BoxedStrategy<Address>;
}

impl NearTheEnd for u64 {
    fn prop_map_hbm(self) -> BoxedStrategy<Address> {
        (self..self + 120).prop_map(hbm).boxed()
    }
}

#[test]
fn wide_nests_stay_exact_and_small() {
    // 4,096 rows of 32 B, 64 B apart, on 256 slices: one set for all slices.
    let mut transfer = transfer("t", hbm(0), dm(0, 0), 32);
    transfer.loops = vec![transfer_loop(256, 1 << 17, 1 << 22), transfer_loop(4096, 32, 64)];
    let footprint = of_transfer(tcp(), &transfer, &[]);
    assert_eq!(footprint.accesses.len(), 2);
    assert_eq!(footprint.accesses[0].bytes.runs(), [(0, 256 << 17)]);
    assert_eq!(footprint.accesses[1].slices, (0, 256));
    assert_eq!(footprint.accesses[1].bytes.runs().len(), 4096);
    assert_eq!(footprint.outside, []);
}

#[test]
fn a_run_may_start_before_its_memory() {
    let mut transfer = transfer("t", spm(0, 0), dm(510, 0), 1);
    transfer.loops = vec![transfer_loop(2, -1, 0)];
    let footprint = of_transfer(tcp(), &transfer, &[]);
    let read = footprint
        .accesses
        .iter()
        .find(|access| access.memory == MemoryKind::Spm)
        .expect("its first byte is there");
    assert_eq!(read.bytes.runs(), [(0, 1)]);
    assert_eq!(footprint.outside.len(), 1);
}

#[test]
fn too_many_runs_become_a_range() {
    let mut transfer = transfer("t", hbm(0), dm(0, 0), 8);
    transfer.loops = vec![transfer_loop(65_536, 16 << 16, 0), transfer_loop(65_536, 16, 0)];
    let footprint = of_transfer(tcp(), &transfer, &[]);
    assert!(!footprint.accesses[0].bytes.is_exact());
    assert_eq!(footprint.accesses[0].bytes.runs().len(), 1);
}

#[test]
fn a_lane_reads_its_own_part() {
    let exec = contraction("c");
    let footprint = of_exec(tcp(), &exec, PeId { chip: 0, pe: 0 }, &[]);
    let trf =
        footprint.accesses.iter().find(|access| access.memory == MemoryKind::Trf).expect("it reads the trf");
    let lanes: Vec<(u64, u64)> = (0..8).map(|lane| (lane * 8192, lane * 8192 + 128)).collect();
    assert_eq!(trf.bytes.runs(), lanes);
}

#[test]
fn a_gather_stays_in_the_tensor_it_starts_in() {
    let mut program = program_of(copy("g", Context::Main, 1024, 4096, 4));
    stream_of(&mut program).fetch.indirect =
        Some(tilewright_tcp_isa::program::exec::Indirect { at_loop: 0, table: 0 });
    let pe = PeId { chip: 0, pe: 0 };
    let reads = |objects: &[MemoryAccess]| {
        let footprint = of_exec(tcp(), &program.execs[0], pe, objects);
        footprint
            .accesses
            .iter()
            .filter(|access| !access.write)
            .map(|access| access.bytes.runs().to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(reads(&[]), [vec![(0, 16)], vec![(0, 524_288)]]);
    let held = tensor("x", TensorRole::Input, TensorPlace::Dm { chip: 0, slice: 0, base: 1000 }, 512);
    let objects: Vec<MemoryAccess> = tensor::whole(tcp(), &held).into_iter().collect();
    assert_eq!(reads(&objects), [vec![(0, 16)], vec![(1000, 1512)]]);
}
