//! Two contexts on one slice: ports of the register file, banks of data memory.

use proptest::prelude::*;
use tilewright_tcp_cost::cycles::CommandStages;
use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::contention::{
    BankWalk, ContractionReads, bank_slowdown, contended_cycles, exposed_load_cycles,
};
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_micro::sample::{self, SampleChoices};
use tilewright_tcp_micro::{AccessWalk, MicroCommand, MicroOutcome, RegisterReads, run};

use crate::{choices, tcp};

/// Cycles that a rule may be off, for what fills and drains.
const SLACK: u64 = 64;

fn outcome(main: Option<&MicroCommand>, sub: Option<&MicroCommand>) -> MicroOutcome {
    run(tcp(), main, sub).unwrap_or_else(|error| panic!("{error}: {main:?} {sub:?}"))
}

/// One group of so many steps, each of its own packet, fetched at `read_bytes` a cycle: one sum leaves.
fn contraction(
    steps: u64,
    packet_bytes: u64,
    read_bytes: u64,
    repeats: u64,
    reads: RegisterReads,
) -> MicroCommand {
    let context = Context::Main;
    let packets = steps.div_ceil(repeats);
    let shape = ContractionStage {
        packet_elements: 64,
        packet_bytes,
        repeats,
        groups: 1,
        group_steps: packets * repeats,
        group_output_steps: 1,
        lanes: 8,
        columns: 1,
        drain: Drain::Interleaved,
    };
    let command = CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes, cast: false }),
        collect: Some(CollectStage { packets, packet_bytes }),
        contraction: Some(shape),
        commit: Some(CommitStage { context, flits: 1, valid_bytes: 32, write_bytes: 32 }),
        ..CommandStages::default()
    };
    MicroCommand { reads, ..MicroCommand::new(command) }
}

fn sub_load(flits: u64, walk: AccessWalk) -> MicroCommand {
    let (context, packet_bytes) = (Context::Sub, 32);
    let command = CommandStages {
        fetch: Some(FetchStage { context, packets: flits, packet_bytes, read_bytes: 8, cast: false }),
        collect: Some(CollectStage { packets: flits, packet_bytes }),
        load: Some(LoadStage { context, slice_bytes: flits * packet_bytes }),
        ..CommandStages::default()
    };
    MicroCommand { fetch: walk, ..MicroCommand::new(command) }
}

/// A main context whose accesses never meet those of the load: what is left is the register file.
fn port_case(steps: u64, flits: u64, reads: RegisterReads) -> (u64, u64, u64) {
    let packet_bytes = if reads.wide { 64 } else { 32 };
    let mut main = contraction(steps, packet_bytes, 8, 16, reads);
    // Same rate, 8 banks apart.
    main.fetch = AccessWalk { base_bytes: 64, stride_bytes: 8 };
    let load = sub_load(flits, AccessWalk { base_bytes: 0, stride_bytes: 8 });
    let alone = outcome(Some(&main), None);
    let both = outcome(Some(&main), Some(&load));
    assert_eq!(both.main_cycles, alone.main_cycles, "the main context never waits");
    let reads = ContractionReads { wide: reads.wide, missed_steps: both.missed_steps };
    let stores = LoadStage { context: Context::Sub, slice_bytes: flits * 32 };
    let exposed = exposed_load_cycles(tcp(), &reads, &stores, alone.main_cycles);
    (alone.main_cycles + exposed, both.cycles(), both.missed_steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn wide_reads_leave_stores_the_cycles_in_which_they_hit(
        steps in 16..3000_u64, flits in 1..600_u64, held_steps in prop::sample::select(vec![1, 2, 3, 8, 64]),
        units in 1..32_u64,
    ) {
        let reads = RegisterReads { wide: true, held_steps, units, stride_units: 1 };
        let (closed, simulated, _) = port_case(steps, flits, reads);
        prop_assert!(simulated.abs_diff(closed) <= SLACK, "{closed} {simulated} {reads:?}");
    }

    /// A store waits for a narrow read of its own bank only. The rule counts half of the reads that miss.
    /// Four stores to a row pass seven reads that all miss; where fewer miss, stores and reads may fall
    /// together each time (every fifth read) or never (every fourth).
    #[test]
    fn narrow_reads_make_stores_wait_for_about_half_of_them(
        steps in 16..3000_u64, flits in 1..600_u64,
            held_steps in prop::sample::select(vec![1, 2, 3, 4, 5, 8, 64]),
        units in 1..32_u64,
    ) {
        let reads = RegisterReads { wide: false, held_steps, units, stride_units: 1 };
        let (closed, simulated, missed) = port_case(steps, flits, reads);
        let every_read_misses = missed == steps.next_multiple_of(16) && units.is_multiple_of(2);
        let off = if every_read_misses { missed.div_ceil(14) } else { missed.div_ceil(2) };
        prop_assert!(simulated.abs_diff(closed) <= off + SLACK, "{closed} {simulated} {reads:?}");
    }

    #[test]
    fn a_walk_of_the_sub_context_waits_as_often_as_the_rule_says(
        steps in 64..2000_u64, flits in 1..500_u64, width in prop::sample::select(vec![8, 16, 32]),
        bases in [0..16_u64, 0..16_u64], strides in [0..20_u64, 0..20_u64],
    ) {
        let reads = RegisterReads { wide: false, held_steps: 1, units: 1, stride_units: 1 };
        let mut main = contraction(steps, 32, width, 1, reads);
        main.fetch = AccessWalk { base_bytes: 8 * bases[0], stride_bytes: 8 * strides[0] };
        let walk = AccessWalk { base_bytes: 8 * bases[1], stride_bytes: 8 * strides[1] };
        let both = outcome(Some(&main), Some(&sub_load(flits, walk)));
        let bank_walk = |walk: AccessWalk, width_bytes| {
            BankWalk { base_bytes: walk.base_bytes, stride_bytes: walk.stride_bytes, width_bytes }
        };
        let slowdown = bank_slowdown(tcp(), &bank_walk(main.fetch, width), &bank_walk(walk, 8));
        let busy = steps * 32 / width;
        let closed = contended_cycles(&slowdown, busy, flits * 4);
        prop_assert!(both.sub_cycles.abs_diff(closed) <= SLACK, "{slowdown:?} {closed} {both:?}");
        prop_assert!(closed >= flits * 4 && closed <= busy + flits * 4);
    }

    /// Best case the longer of the two, worst case their sum.
    #[test]
    fn any_two_commands_take_between_the_longer_and_the_sum(list in choices(), other in choices()) {
        let mut main = sample::one_slice(tcp(), &mut SampleChoices::new(&list));
        prop_assume!(main.command.fetch.is_some_and(|fetch| fetch.context == Context::Main));
        main.banks_apart = false;
        let sub = sample::load(tcp(), &mut SampleChoices::new(&other), Context::Sub);
        let (alone, load) = (outcome(Some(&main), None), outcome(None, Some(&sub)));
        let both = outcome(Some(&main), Some(&sub));
        prop_assert!(main.command.load.is_some() || both.main_cycles == alone.main_cycles);
        prop_assert!(both.cycles() >= alone.main_cycles.max(load.sub_cycles), "{alone:?} {load:?} {both:?}");
        prop_assert!(both.cycles() <= alone.main_cycles + load.sub_cycles, "{alone:?} {load:?} {both:?}");
    }
}

#[test]
fn wide_reads_that_always_miss_make_a_load_serial_and_narrow_reads_hide_it() {
    let (steps, flits) = (2048, 128);
    let wide = RegisterReads { wide: true, held_steps: 1, units: 64, stride_units: 1 };
    let (_, serial, missed) = port_case(steps, flits, wide);
    assert_eq!(missed, steps);
    assert!(serial >= steps + flits * 4 - SLACK, "{serial}");
    let (_, hidden, missed) = port_case(steps, flits, RegisterReads { wide: false, ..wide });
    assert_eq!(missed, steps);
    assert!(hidden <= steps + SLACK, "{hidden}");
}
