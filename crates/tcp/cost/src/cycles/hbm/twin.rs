//! The walk by laps and narrow times beside its plain twin, unit by unit with wide times: the same counts.

use proptest::prelude::*;
use tilewright_base::Sources;
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::algebra::access::AccessLoop;

use super::window::RequestWindow;
use super::{Direction, HbmAccess, HbmChannels};

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

/// Channels without laps, and times of 128 bits.
fn plain(machine: &Tcp) -> HbmChannels {
    let mut channels = HbmChannels::new(machine);
    channels.map.lap_units = 0;
    let (count, groups, banks) = (channels.channels.len(), channels.group_units.len(), channels.banks.len());
    channels.window = RequestWindow::wide(machine, count, groups, banks);
    channels
}

fn stride() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(vec![0, 256, 8192, 65_536, 1 << 20, (1 << 21) + 256, 1 << 34]),
        (0..1_u64 << 23).prop_map(|at| at * 8),
        (1..1_u64 << 10).prop_map(|at| (at * 256).wrapping_neg()),
    ]
}

fn nest() -> impl Strategy<Value = (u64, u64, Vec<(u64, u64)>, u64)> {
    let packet_bytes = prop_oneof![
        prop::sample::select(vec![8_u64, 256, 8192, 16_384, 2_162_688, 4_194_304, 9_000_000, 1 << 27]),
        1..300_000_u64,
    ];
    let aligned_to = prop::sample::select(vec![1_u64, 256, 1024, 8192, 1 << 21]);
    (any::<u64>(), aligned_to, prop::collection::vec((1..9_u64, stride()), 0..4), packet_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn laps_and_narrow_times_count_what_single_units_and_wide_times_count(
        nests in prop::collection::vec((any::<bool>(), nest()), 1..3),
        clock_hz in prop::sample::select(vec![1_000_000_000_u64, 999_999_937, 1_410_065_407]),
        timing_clock_hz in prop::sample::select(vec![1_500_000_000_u64, 1_499_999_957]),
        in_flight in 1..100_u64,
    ) {
        let mut machine = tcp();
        machine.chip.clock_hz = clock_hz;
        machine.hbm.timing_clock_hz = timing_clock_hz;
        machine.tdma.in_flight_requests = in_flight;
        let (mut fast, mut slow) = (HbmChannels::new(&machine), plain(&machine));
        for (writes, (base_bytes, aligned_to, loops, packet_bytes)) in nests {
            let loops: Vec<AccessLoop> = loops.iter().map(|&(size, by)| AccessLoop::new(size, by)).collect();
            let direction = if writes { Direction::Write } else { Direction::Read };
            let base_bytes = (base_bytes >> 28) / aligned_to * aligned_to;
            let access = HbmAccess { direction, base_bytes, loops_bytes: &loops, packet_bytes };
            prop_assert_eq!(fast.add(&machine, &access), slow.add(&machine, &access));
            prop_assert_eq!(&fast.channels, &slow.channels);
            prop_assert_eq!(&fast.banks, &slow.banks);
            prop_assert_eq!(&fast.group_units, &slow.group_units);
            prop_assert_eq!(fast.window.elapsed(), slow.window.elapsed());
            prop_assert_eq!((fast.steps_left, fast.covered_bytes), (slow.steps_left, slow.covered_bytes));
            prop_assert_eq!((fast.sent_cycles, fast.exact), (slow.sent_cycles, slow.exact));
        }
        prop_assert_eq!(fast.cycles_q32(&machine), slow.cycles_q32(&machine));
    }
}

#[test]
fn the_times_of_the_machine_are_narrow() {
    assert!(HbmChannels::new(&tcp()).window.is_narrow());
}
