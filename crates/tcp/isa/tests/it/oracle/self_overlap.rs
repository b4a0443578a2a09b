//! Commands that overwrite what they read later, against every pair of their steps.

use proptest::prelude::*;
use tilewright_num::Dtype;
use tilewright_tcp_isa::footprint::self_overlap::{of_exec_image, of_transfer_image};
use tilewright_tcp_isa::footprint::{of_exec, of_transfer};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Context, Memory};

use super::build::{commit, exec, fetch, hbm, stream, transfer, transfer_loop};
use super::tcp;

/// First bytes of the steps of nested loops, outermost first.
fn starts(base: i64, loops: &[(u64, i64)]) -> Vec<i64> {
    loops.iter().fold(vec![base], |starts, (size, stride)| {
        let step = |start: i64| (0..*size).map(move |at| start + at.cast_signed() * stride);
        starts.into_iter().flat_map(step).collect()
    })
}

/// Whether a step writes bytes that a later one reads.
fn overwrites(reads: &[i64], writes: &[i64], bytes: i64) -> bool {
    writes.iter().enumerate().any(|(at, write)| {
        reads.iter().skip(at + 1).any(|read| *read < write + bytes && *write < read + bytes)
    })
}

const BASE: u64 = 4096;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn transfers(
        loops in proptest::collection::vec((1_u64..5, -40_i64..40, -40_i64..40), 0..3),
        apart in -120_i64..120,
        packet in 1_u64..24,
    ) {
        let mut image = transfer("t", hbm(BASE), hbm(BASE.wrapping_add_signed(apart)), packet);
        image.loops = loops.iter().map(|(size, from, to)| transfer_loop(*size, *from, *to)).collect();
        let side = |base: i64, of: fn(&(u64, i64, i64)) -> (u64, i64)| {
            starts(base, &loops.iter().map(of).collect::<Vec<_>>())
        };
        let base = BASE.cast_signed();
        let (reads, writes) = (side(base, |row| (row.0, row.1)), side(base + apart, |row| (row.0, row.2)));
        let found = of_transfer_image(tcp(), &image, &of_transfer(tcp(), &image, &[]));
        prop_assert_eq!(found.is_some(), overwrites(&reads, &writes, packet.cast_signed()), "{:?}", found);
        prop_assert!(found.is_none_or(|found| found.certain));
    }

    /// Commands that only move packets of 32 bytes from data memory to data memory.
    #[test]
    fn copies(
        from in proptest::collection::vec((1_u64..5, -3_i64..3), 2),
        to in proptest::collection::vec(-3_i64..3, 2),
        apart in -8_i64..8,
    ) {
        let reads: Vec<(u64, i64)> = from.iter().map(|(size, stride)| (*size, stride * 32)).collect();
        let writes: Vec<(u64, i64)> = from.iter().zip(&to).map(|((size, _), stride)| (*size, stride * 32))
            .collect();
        let elements = [&reads[..], &[(32, 1)]].concat();
        let target = BASE.wrapping_add_signed(apart * 16);
        let image = exec("c", Context::Main,
            stream(fetch(Dtype::I8, BASE, &elements, 32), commit(Memory::Dm, target, &writes, 32)));
        let footprint = of_exec(tcp(), &image, PeId { chip: 0, pe: 0 }, &[]);
        let found = of_exec_image(&image, &footprint);
        let (reads, writes) = (starts(BASE.cast_signed(), &reads), starts(target.cast_signed(), &writes));
        prop_assert_eq!(found.is_some(), overwrites(&reads, &writes, 32), "{:?}", found);
    }
}
