//! Topologies: packets are sent to where the formulas of the book put them, one by one.

use std::collections::BTreeMap;

use tilewright_num::Dtype;
use tilewright_tcp_exec::{ExecStage, MemoryState};
use tilewright_tcp_isa::program::exec::{Memory, Switch};
use tilewright_tcp_isa::switch::{Ring, Topology};

use crate::run::images::{OUT, at, copy, fetch, read, row, run, tcp};

const SLICES: u64 = 64;

/// Packet `time` of a slice: 8 bytes that say so.
fn packet(slice: u64, time: u64) -> [u8; 8] {
    (slice << 32 | time).to_le_bytes()
}

/// What each slice receives, in order, after the exchange.
fn exchange(switch: Switch, packets: u64, received: u64) -> Vec<Vec<(u64, u64)>> {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    for slice in 0..SLICES {
        let content: Vec<u8> = (0..packets).flat_map(|time| packet(slice, time)).collect();
        state.write_slice(at(slice, Memory::Dm, 0), &content).unwrap();
    }
    let mut stream = copy(fetch(Dtype::I8, 8, vec![row(packets * 8, 1)]), received);
    stream.switch = switch;
    stream.commit.bytes = 8;
    stream.commit.loops = vec![row(received, 8)];
    run(machine, &mut state, stream).unwrap();
    let decode = |bytes: &[u8]| {
        let tag = u64::from_le_bytes(bytes.try_into().unwrap());
        (tag >> 32, tag & 0xFFFF_FFFF)
    };
    let out = |slice| read(&state, slice, Memory::Dm, OUT, received * 8).chunks(8).map(decode).collect();
    (0..SLICES).map(out).collect()
}

/// Where a packet arrives: slices and time there.
type Arrivals<'a> = &'a dyn Fn([u64; 3], u64) -> Vec<(u64, u64)>;

/// Sends every packet of `[s2, s1, s0 | time]` and compares.
fn compare(topology: Topology, ring: Ring, packets: u64, received: u64, arrivals: Arrivals<'_>) {
    let found = exchange(Switch { topology, sources: Vec::new() }, packets, received);
    let mut expected: Vec<BTreeMap<u64, (u64, u64)>> = vec![BTreeMap::new(); SLICES as usize];
    for slice in 0..SLICES {
        let s0 = slice % ring.slice0;
        let s1 = slice / ring.slice0 % ring.slice1;
        let s2 = slice / ring.slice0 / ring.slice1;
        for time in 0..packets {
            for (to, at) in arrivals([s2, s1, s0], time) {
                assert!(expected[to as usize].insert(at, (slice, time)).is_none(), "{topology:?} collides");
            }
        }
    }
    for (slice, expected) in expected.into_iter().enumerate() {
        assert!(expected.keys().copied().eq(0..received), "{topology:?} leaves gaps on slice {slice}");
        let expected: Vec<(u64, u64)> = expected.into_values().collect();
        assert_eq!(found[slice], expected, "{topology:?}, slice {slice}");
    }
}

const RINGS: [(u64, u64); 6] = [(4, 2), (2, 4), (1, 8), (8, 1), (16, 4), (1, 1)];

#[test]
fn forwarding_keeps_packets() {
    let ring = Ring { slice1: 1, slice0: 1 };
    compare(Topology::Forwarding, ring, 5, 5, &|[s2, _, _], time| vec![(s2, time)]);
}

#[test]
fn broadcast01_gives_a_ring_everything() {
    for (slice1, slice0) in RINGS {
        for time0 in [1, 2, 3] {
            let (ring, packets) = (Ring { slice1, slice0 }, 6);
            let size = slice1 * slice0;
            // [s2, s1, s0 | t1, t0] -> [s2, X, Y | t1, s1, t0, s0]
            let arrivals = |[s2, s1, s0]: [u64; 3], time: u64| {
                let (t1, t0) = (time / time0, time % time0);
                let at = ((t1 * slice1 + s1) * time0 + t0) * slice0 + s0;
                (0..size).map(|xy| (s2 * size + xy, at)).collect()
            };
            compare(Topology::Broadcast01(ring, time0), ring, packets, packets * size, &arrivals);
        }
    }
}

#[test]
fn broadcast1_gives_columns_of_a_ring_everything() {
    for (slice1, slice0) in RINGS {
        let ring = Ring { slice1, slice0 };
        // [s2, s1, s0 | t0] -> [s2, X, s0 | t0, s1]
        let arrivals = |[s2, s1, s0]: [u64; 3], time: u64| {
            (0..slice1).map(|x| ((s2 * slice1 + x) * slice0 + s0, time * slice1 + s1)).collect()
        };
        compare(Topology::Broadcast1(ring), ring, 3, 3 * slice1, &arrivals);
    }
}

#[test]
fn transpose_exchanges_slice_digits() {
    for (slice1, slice0) in RINGS {
        let ring = Ring { slice1, slice0 };
        // [s2, s1, s0 | t] -> [s2, s0, s1 | t]
        let arrivals = |[s2, s1, s0]: [u64; 3], time: u64| vec![((s2 * slice0 + s0) * slice1 + s1, time)];
        compare(Topology::Transpose(ring), ring, 4, 4, &arrivals);
    }
}

#[test]
fn inter_transpose_exchanges_slices_with_time() {
    for (slice1, slice0) in RINGS {
        for time0 in [1, 3] {
            let ring = Ring { slice1, slice0 };
            let packets = 2 * slice1 * time0;
            // [s2, s1, s0 | t2, t1, t0] -> [s2, t1, s0 | t2, t0, s1]
            let arrivals = |[s2, s1, s0]: [u64; 3], time: u64| {
                let (t2, t1, t0) = (time / time0 / slice1, time / time0 % slice1, time % time0);
                vec![((s2 * slice1 + t1) * slice0 + s0, (t2 * time0 + t0) * slice1 + s1)]
            };
            compare(Topology::InterTranspose(ring, time0), ring, packets, packets, &arrivals);
        }
    }
}

#[test]
fn transposed_broadcast1_turns_and_gives() {
    for (slice1, slice0) in RINGS {
        let ring = Ring { slice1, slice0 };
        // [s2, s1, s0 | t0] -> [s2, Y, s1 | t0, s0]
        let arrivals = |[s2, s1, s0]: [u64; 3], time: u64| {
            (0..slice0).map(|y| ((s2 * slice0 + y) * slice1 + s1, time * slice0 + s0)).collect()
        };
        compare(Topology::TransposedBroadcast1(ring), ring, 3, 3 * slice0, &arrivals);
    }
}

#[test]
fn a_custom_ring_keeps_what_its_bitmap_says() {
    let sources: Vec<Vec<u16>> = vec![vec![1, 3], vec![2, 0], vec![3, 2], vec![0, 1]];
    let found = exchange(Switch { topology: Topology::Custom(4), sources: sources.clone() }, 2, 4);
    for slice in 0..SLICES {
        let mut kept = sources[(slice % 4) as usize].clone();
        kept.sort_unstable();
        let first = slice / 4 * 4;
        let expected: Vec<(u64, u64)> =
            (0..2).flat_map(|time| kept.iter().map(move |s| (first + u64::from(*s), time))).collect();
        assert_eq!(found[slice as usize], expected);
    }
}

#[test]
fn impossible_exchanges_are_refused() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    for (topology, sources) in [
        (Topology::Broadcast1(Ring { slice1: 3, slice0: 1 }), vec![]),
        (Topology::Broadcast1(Ring { slice1: 128, slice0: 1 }), vec![]),
        (Topology::InterTranspose(Ring { slice1: 4, slice0: 1 }, 1), vec![]),
        (Topology::Custom(4), vec![vec![0]]),
        (Topology::Custom(2), vec![vec![0], vec![2]]),
    ] {
        let mut stream = copy(fetch(Dtype::I8, 32, vec![row(96, 1)]), 3);
        stream.switch = Switch { topology, sources };
        assert_eq!(run(machine, &mut state, stream).unwrap_err().stage, ExecStage::Switch, "{topology:?}");
    }
}
