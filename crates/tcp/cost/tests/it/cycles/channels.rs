//! Which channels a loop nest touches: hand-made cases, and a plain walk of every request as the reference of
//! the shortcuts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessLoop;
use tilewright_tcp_cost::cycles::hbm::{
    ChannelLoad, Direction, HbmAccess, HbmChannels, TooManyLoops, WALKED_UNITS,
};

use crate::cycles::properties::direction;
use crate::cycles::tcp;

fn count(machine: &Tcp, access: &HbmAccess) -> HbmChannels {
    let mut channels = HbmChannels::new(machine);
    channels.add(machine, access).expect("few loops");
    channels
}

fn accesses(channels: &HbmChannels) -> Vec<u64> {
    channels.channels().iter().map(|channel| channel.accesses).collect()
}

/// The stack and channel of an address, bit by bit as the book has it.
fn channel_by_hand(at: u64) -> usize {
    let bit = |position: u64| at >> position & 1;
    let channel = (0..4).fold(0, |channel, i| {
        channel | (bit(9 + i) ^ bit(13 + i) ^ bit(17 + i) ^ bit(21 + i) ^ bit(25 + i)) << i
    });
    usize::try_from(bit(8) | channel << 1).expect("a small number")
}

/// Accesses, partial writes, row switches and changes of rank of every channel.
fn walk(access: &HbmAccess) -> Vec<(u64, u64, u64, u64)> {
    let mut starts = vec![access.base_bytes];
    for l in access.loops_bytes {
        starts = starts.iter().flat_map(|a| (0..l.size).map(move |i| a.wrapping_add(i * l.stride))).collect();
    }
    let (mut channels, mut rows) = (vec![(0, 0, 0, 0); 32], BTreeMap::new());
    let mut ranks = [None; 32];
    for start in starts {
        for request in (0..access.packet_bytes).step_by(256) {
            let (from, bytes) = (start + request, 256.min(access.packet_bytes - request));
            for unit in from / 256..=(from + bytes - 1) / 256 {
                let at = unit * 256;
                let partial = access.direction == Direction::Write && (from > at || from + bytes < at + 256);
                let bank = (at >> 13 & 1, at >> 17 & 15, at >> 34 & 1);
                let (row, rank) = ((at >> 21 & 0x1fff, at >> 35 & 1), (at >> 20 & 1, at >> 34 & 1));
                let to = channel_by_hand(at);
                let switches = rows.insert((to, bank), row).is_some_and(|last| last != row);
                let changes = ranks[to].replace(rank).is_some_and(|last| last != rank);
                channels[to].0 += 1;
                channels[to].1 += u64::from(partial);
                channels[to].2 += u64::from(!partial && switches);
                channels[to].3 += u64::from(changes);
            }
        }
    }
    channels
}

fn stride() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![
        0,
        2,
        64,
        256,
        512,
        1600,
        4096,
        8192,
        100_000,
        1 << 20,
        (1 << 21) + 256,
        1 << 29,
    ])
}

proptest! {
    #[test]
    fn shortcuts_count_what_a_walk_counts(
        direction in direction(),
        base_bytes in 0..1_u64 << 22,
        aligned_to in prop::sample::select(vec![1_u64, 256, 8192]),
        nest in prop::collection::vec((1..12_u64, stride()), 0..3),
        packet_bytes in prop::sample::select(vec![1_u64, 2, 200, 256, 1600, 4096, 8192, 65_536, 200_000]),
    ) {
        let nest: Vec<AccessLoop> = nest.into_iter().map(|(size, stride)| AccessLoop::new(size, stride))
            .collect();
        let base_bytes = base_bytes / aligned_to * aligned_to;
        let access = HbmAccess { direction, base_bytes, loops_bytes: &nest, packet_bytes };
        let counted = count(&tcp(), &access);
        let of = |c: &ChannelLoad| (c.accesses, c.partial_writes, c.row_switches, c.rank_changes);
        let ours: Vec<_> = counted.channels().iter().map(of).collect();
        prop_assert!(counted.exact());
        prop_assert_eq!(ours, walk(&access));
    }

    /// Walked to the end: one more iteration of any loop. Inside of others it may come between two rows of a
    /// bank, whose switch it then hides.
    #[test]
    fn more_iterations_of_any_loop_never_take_less(
        direction in direction(),
        base_bytes in (0..1_u64 << 12).prop_map(|at| at * 64),
        nest in prop::collection::vec((1..9_u64, stride()), 1..4),
        longer in 0..3_usize,
        packet_bytes in prop::sample::select(vec![16_u64, 256, 1600, 4096]),
    ) {
        let machine = tcp();
        let cycles = |more: u64| {
            let at = longer % nest.len();
            let loops: Vec<AccessLoop> = nest.iter().enumerate().map(|(i, &(size, stride))| {
                AccessLoop::new(size + if i == at { more } else { 0 }, stride)
            }).collect();
            let access = HbmAccess { direction, base_bytes, loops_bytes: &loops, packet_bytes };
            let counted = count(&machine, &access);
            let held = counted.channels().iter().map(|channel| channel.back_to_back).max().unwrap_or(0);
            (counted.busiest_cycles(&machine), held * machine.hbm.row_switch_ns)
        };
        let ((less, switches), (more, _)) = (cycles(0), cycles(1));
        let hidden = if longer % nest.len() == 0 { 0 } else { switches };
        prop_assert!(less <= more + hidden, "{less} {more}, {hidden} at most hidden");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Over the border from what is walked to what is scaled.
    #[test]
    fn more_iterations_of_the_outermost_loop_never_take_less_past_what_is_walked(
        direction in direction(),
        outer in stride(),
        inner in (1..600_u64, stride()),
        packet_bytes in prop::sample::select(vec![16_u64, 256, 1600]),
        around in prop::collection::vec(1..5 * WALKED_UNITS, 1..4),
    ) {
        let machine = tcp();
        let mut sizes: Vec<u64> = around.iter().map(|units| units / inner.0).collect();
        sizes.extend([WALKED_UNITS / inner.0, WALKED_UNITS / inner.0 + 1]);
        sizes.sort_unstable();
        let cycles = sizes.iter().map(|size| {
            let loops = [AccessLoop::new(*size, outer), AccessLoop::new(inner.0, inner.1)];
            count(&machine, &HbmAccess { direction, base_bytes: 0, loops_bytes: &loops, packet_bytes })
                .busiest_cycles(&machine)
        });
        let cycles: Vec<u64> = cycles.collect();
        prop_assert!(cycles.is_sorted(), "{sizes:?} {cycles:?}");
    }
}

#[test]
fn blocks_of_a_long_run_count_what_a_walk_counts() {
    let machine = tcp();
    for (base_bytes, packet_bytes) in
        [(0, 13 << 20), (3 << 20, 11 << 20), (0x1_0107, 9 << 20), ((1 << 34) - (5 << 20), 9 << 20)]
    {
        for direction in [Direction::Read, Direction::Write] {
            let access = HbmAccess { direction, base_bytes, loops_bytes: &[], packet_bytes };
            let of = |c: &ChannelLoad| (c.accesses, c.partial_writes, c.row_switches, c.rank_changes);
            let ours: Vec<_> = count(&machine, &access).channels().iter().map(of).collect();
            assert_eq!(ours, walk(&access), "{base_bytes:#x}");
        }
    }
}

/// Re-reading one unit was taken as spread evenly once it was long.
#[test]
fn a_unit_read_again_and_again_takes_as_long_each_time() {
    let machine = tcp();
    let cycles = |outer: u64| {
        let loops = [AccessLoop::new(outer, 0), AccessLoop::new(1 << 16, 0)];
        let read =
            HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
        count(&machine, &read).busiest_cycles(&machine)
    };
    // Four columns of one bank group, 4 cycles of 1.5 GHz apart; the first unit takes half of that.
    let apart = |units: u64| (32 * units - 16).div_ceil(3);
    assert_eq!((cycles(4), cycles(5)), (apart(4 << 16), apart(5 << 16)));
}

/// 512 B to 32 slices, as in the vISA book's MNIST schedule: sixteen requests on each of two channels.
#[test]
fn a_unit_is_read_whole_however_little_is_asked_for() {
    let machine = tcp();
    let cycles = |packet_bytes: u64| {
        let loops = [AccessLoop::new(32, packet_bytes)];
        let read = HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes };
        count(&machine, &read).busiest_cycles(&machine)
    };
    assert_eq!((cycles(16), cycles(256)), ((16 * 32_u64 - 16).div_ceil(3), 6));
}

/// The same rows in two orders: one after the other in a bank, and in turn with another bank group.
#[test]
fn rows_of_one_bank_in_a_row_hold_their_channel() {
    let machine = tcp();
    // Bits 21 and 25 together are another row, bits 9 and 13 another bank group, of the same channel.
    let (rows, groups) = (AccessLoop::new(2, (1 << 21) + (1 << 25)), AccessLoop::new(2, 0x2200));
    let load = |inner: AccessLoop, outer: AccessLoop| {
        let loops = [AccessLoop::new(50, 0), outer, inner];
        let read =
            HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
        let counted = count(&machine, &read);
        let channel = counted.channels()[0];
        (channel.accesses, channel.row_switches, channel.back_to_back, counted.busiest_cycles(&machine))
    };
    let (accesses, switches, held, cycles) = load(rows, groups);
    assert_eq!((accesses, switches, held), (200, 198, 100));
    assert_eq!(cycles, 100 * 45 + (100 * 16_u64).div_ceil(3), "each pair switches once behind the other");
    let (accesses, switches, held, cycles) = load(groups, rows);
    assert_eq!((accesses, switches, held), (200, 198, 0));
    assert_eq!(cycles, 99 * 45 + 6, "two banks switch side by side");
}

/// Bursts to one channel fill the window of an engine, although all channels have as much to do.
#[test]
fn an_engine_waits_while_its_window_is_full() {
    let machine = tcp();
    let sent = |loops: &[AccessLoop]| {
        let read =
            HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: loops, packet_bytes: 256 };
        let counted = count(&machine, &read);
        (counted.sent_cycles(), counted.busiest_cycles(&machine))
    };
    let (units, times) = (AccessLoop::new(32, 256), AccessLoop::new(64, 0));
    assert_eq!(sent(&[times, units]), (2048, 678), "in turn: one a cycle");
    let (cycles, busiest) = sent(&[units, times]);
    assert_eq!(busiest, 678);
    assert!((32 * 340..32 * 400).contains(&cycles), "two channels at a time: {cycles}");
}

#[test]
fn columns_of_one_bank_group_take_twice_as_long_as_those_of_two() {
    let machine = tcp();
    // Bits 9 and 13 together keep the channel; bit 13 alone is the group.
    let cycles = |stride: u64| {
        let loops = [AccessLoop::new(2, stride), AccessLoop::new(64, 0)];
        let read =
            HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
        count(&machine, &read).busiest_cycles(&machine)
    };
    assert_eq!((cycles(0), cycles(0x2200)), (1360, 683));
}

#[test]
fn a_contiguous_stream_uses_every_channel_alike_and_waits_for_no_row() {
    let machine = tcp();
    let loops = [AccessLoop::new(1 << 14, 4096), AccessLoop::new(16, 256)];
    let access =
        HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
    let stream = count(&machine, &access);
    assert_eq!(accesses(&stream), vec![1 << 13; 32]);
    // 64 MiB: every bank opens 32 rows while 31 others work, and the rank changes with every MiB.
    assert!(
        stream.exact() && stream.channels().iter().all(|c| (c.row_switches, c.rank_changes) == (32 * 31, 63))
    );
    assert_eq!(stream.busiest_cycles(&machine), (8192 * 16 + 63 * 2_u64).div_ceil(3));
}

#[test]
fn rows_of_one_bank_wait_for_each_other() {
    let machine = tcp();
    // Above bit 28 no address bit is hashed into the channel.
    let loops = [AccessLoop::new(4, 1 << 29)];
    let access =
        HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
    let rows = count(&machine, &access);
    assert_eq!((rows.channels()[0].accesses, rows.channels()[0].row_switches), (4, 3));
    assert_eq!(rows.busiest_cycles(&machine), 3 * 45 + 6);
}

#[test]
fn unaligned_reads_cost_two_accesses_and_unaligned_writes_two_partial_ones() {
    let machine = tcp();
    let read = HbmAccess { direction: Direction::Read, base_bytes: 8, loops_bytes: &[], packet_bytes: 256 };
    assert_eq!(count(&machine, &read).accesses(), 2);
    let write = count(&machine, &HbmAccess { direction: Direction::Write, ..read });
    assert_eq!(write.channels().iter().map(|channel| channel.partial_writes).sum::<u64>(), 2);
    assert_eq!(write.busiest_cycles(&machine), 196);
}

/// A partial write takes its own time, in which the row of its bank opens: the switch is not added to it.
#[test]
fn a_partial_write_in_another_row_is_counted_once() {
    let machine = tcp();
    let loops = [AccessLoop::new(4, 1 << 29)];
    let access =
        HbmAccess { direction: Direction::Write, base_bytes: 0, loops_bytes: &loops, packet_bytes: 32 };
    let rows = count(&machine, &access);
    let channel = rows.channels()[0];
    assert_eq!((channel.accesses, channel.partial_writes, channel.row_switches), (4, 4, 0));
    assert_eq!(rows.busiest_cycles(&machine), 4 * machine.hbm.partial_write_cycles);
}

#[test]
fn more_requests_than_are_walked_are_estimated_and_said_to_be() {
    let machine = tcp();
    let loops = [AccessLoop::new(1 << 40, 512)];
    let access =
        HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
    let channels = count(&machine, &access);
    assert!(!channels.exact());
    assert_eq!(channels.accesses(), 1 << 40);
}

#[test]
fn more_loops_than_the_engine_has_are_refused() {
    let machine = tcp();
    let loops = [AccessLoop::new(1, 1); 9];
    let access =
        HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &loops, packet_bytes: 256 };
    let refused = HbmChannels::new(&machine).add(&machine, &access);
    assert_eq!(refused, Err(TooManyLoops { loops: 9, most: 8 }));
}

#[test]
fn requests_smaller_or_larger_than_an_access_unit_touch_what_they_cover() {
    let access =
        HbmAccess { direction: Direction::Write, base_bytes: 0, loops_bytes: &[], packet_bytes: 1024 };
    for (request_bytes, touched, partial) in [(128, 8, 8), (256, 4, 0), (512, 4, 0)] {
        let mut machine = tcp();
        machine.tdma.request_bytes = request_bytes;
        let channels = count(&machine, &access);
        let partial_writes = channels.channels().iter().map(|channel| channel.partial_writes).sum::<u64>();
        assert_eq!((channels.accesses(), partial_writes), (touched, partial), "{request_bytes}");
    }
}

#[test]
fn a_hash_that_spoils_blocks_is_walked_unit_by_unit() {
    let mut machine = tcp();
    machine.hbm.channel_hash_offsets = vec![0, 1];
    let access =
        HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &[], packet_bytes: 1 << 20 };
    let channels = count(&machine, &access);
    assert!(channels.exact());
    assert_eq!(channels.accesses(), 4096);
    assert_eq!(accesses(&channels), vec![128; 32]);
}

type Change = (&'static str, fn(&mut Tcp));

/// Each figure of a channel's time decides some nest: with twice as much, or half, it takes another time.
#[test]
fn every_figure_of_a_channel_counts() {
    let nests: [(&[(u64, u64)], u64); 5] = [
        (&[(64, 0)], 256),
        (&[(64, 1 << 29)], 256),
        (&[(64, 0), (2, 1 << 20 | 1 << 13 | 1 << 12 | 1 << 9)], 256),
        (&[(64, 8192)], 8192),
        (&[(64, 256)], 128),
    ];
    let times = |machine: &Tcp| {
        nests.map(|(nest, packet_bytes)| {
            let loops: Vec<_> = nest.iter().map(|&(size, stride)| AccessLoop::new(size, stride)).collect();
            let access =
                HbmAccess { direction: Direction::Write, base_bytes: 0, loops_bytes: &loops, packet_bytes };
            count(machine, &access).busiest_cycles(machine)
        })
    };
    let changes: [Change; 9] = [
        ("same_group_cycles", |m| m.hbm.same_group_cycles *= 2),
        ("other_group_cycles", |m| m.hbm.other_group_cycles *= 4),
        ("other_rank_cycles", |m| m.hbm.other_rank_cycles *= 8),
        ("ranks", |m| m.hbm.ranks = 1),
        ("queue_entries", |m| m.hbm.queue_entries = 1),
        ("timing_clock_hz", |m| m.hbm.timing_clock_hz /= 2),
        ("row_switch_ns", |m| m.hbm.row_switch_ns *= 2),
        ("partial_write_cycles", |m| m.hbm.partial_write_cycles *= 2),
        ("channel_clock_hz", |m| m.hbm.channel_clock_hz /= 4),
    ];
    for (name, change) in changes {
        let mut machine = tcp();
        change(&mut machine);
        assert_ne!(times(&machine), times(&tcp()), "{name}");
    }
}
