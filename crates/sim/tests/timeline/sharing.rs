//! Off-chip memory and links between PEs and chips that use them at once.

use tilewright_sim::{Outcome, checks};
use tilewright_tcp::cost::Context;
use tilewright_tcp::program::control::Step;
use tilewright_tcp::program::{Program, Transfer};

use crate::build::{ENDS, PUSH, contraction, dm, dma, hbm, program, queue, run, run_exec, spans, weights};
use crate::tcp;

/// So many PEs that each load as many bytes at the same time.
fn loads(pes: u64, requests: u64) -> Program {
    let transfers = (0..pes).map(|pe| weights(pe, requests)).collect();
    let queue_of = |pe: u64| queue(0, pe, vec![dma(u32::try_from(pe).expect("few"), 0)]);
    program(vec![], transfers, (0..pes).map(queue_of).collect())
}

fn moved_cycles(outcome: &Outcome) -> u64 {
    outcome.cycles - ENDS - PUSH - 447
}

#[test]
fn one_to_eight_pes_share_off_chip_memory_fairly() {
    let machine = tcp();
    let requests = 1 << 16;
    for pes in 1..=8 {
        let outcome = run(&machine, &loads(pes, requests));
        let bytes_per_cycle = 1536.0 * machine.hbm.efficiency;
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let wanted = (pes * requests * 256) as f64 / bytes_per_cycle;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive count of cycles"
        )]
        let shared = wanted.ceil() as u64;
        let expected = shared.max(requests);
        assert!(
            moved_cycles(&outcome).abs_diff(expected) <= 2,
            "{pes}: {} {expected}",
            moved_cycles(&outcome)
        );
        let ends: Vec<u64> = (0..pes).map(|pe| spans(&outcome, &format!("chip0/pe{pe}/dma"))[0].1).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }
}

/// The book's eight engines that never toggle the stack bit, each a PE's own: the channels they use are the same.
#[test]
fn eight_engines_on_half_of_the_channels_take_1866() {
    let mut machine = tcp();
    machine.tdma.startup_cycles = 500;
    machine.hbm.efficiency = 1.0;
    let transfers = (0..8_u64).map(|engine| {
        let mut load = weights(0, 64);
        load.source = hbm(0, (engine / 4) << 20 | (engine % 4) << 18);
        load.target = dm(0, engine * 64, 0);
        let sizes = [(2, 131_072, 65_536), (32, 4096, 2048), (8, 512, 256)];
        load.loops = sizes
            .iter()
            .map(|&(size, source, target)| tilewright_tcp::program::transfer::TransferLoop {
                size: tilewright_tcp::program::Count::Fixed(size),
                source,
                target,
            })
            .collect();
        load
    });
    let queues = (0..8).map(|pe| queue(0, u64::from(pe), vec![dma(pe, 0)])).collect();
    let outcome = run(&machine, &program(vec![], transfers.collect(), queues));
    assert_eq!(outcome.cycles - ENDS - PUSH, 1866);
}

#[test]
fn a_transfer_that_ends_leaves_its_share_to_the_others() {
    let mut both = loads(8, 1 << 14);
    both.transfers[0] = weights(0, 1 << 12);
    let outcome = run(&tcp(), &both);
    let end = |pe: u64| spans(&outcome, &format!("chip0/pe{pe}/dma"))[0].1;
    let all_long = run(&tcp(), &loads(8, 1 << 14)).cycles - ENDS + 2000;
    assert!(end(0) < end(1) && end(1) < all_long, "{} {} {all_long}", end(0), end(1));
}

#[test]
fn more_bandwidth_is_never_slower() {
    let program = loads(8, 1 << 12);
    let mut machine = tcp();
    let mut before = run(&machine, &program);
    for efficiency in [0.96, 0.97, 0.98, 0.99, 1.0] {
        machine.hbm.efficiency = efficiency;
        let after = run(&machine, &program);
        assert_eq!(checks::never_slower(&before, &after), None);
        before = after;
    }
    machine.hbm.channel_clock_hz *= 2;
    assert_eq!(checks::never_slower(&before, &run(&machine, &program)), None);
}

#[test]
fn two_transfers_over_one_link_take_twice_as_long() {
    let far =
        |from: u64| Transfer { source: dm(0, from * 64, 0), target: dm(1, from * 64, 0), ..weights(0, 64) };
    let queue_of = |pe: u32| queue(0, u64::from(pe), vec![dma(pe, 0)]);
    let one = Program { chips: 2, ..program(vec![], vec![far(0)], vec![queue_of(0)]) };
    let two = Program { chips: 2, ..program(vec![], vec![far(0), far(1)], vec![queue_of(0), queue_of(1)]) };
    let moved = |outcome: Outcome| outcome.cycles - ENDS - PUSH - 447 - 1000;
    let (one, two) = (moved(run(&tcp(), &one)), moved(run(&tcp(), &two)));
    // 16 KiB at 50 GB/s.
    assert_eq!((one, two), (328, 656));
}

/// Compute and loads that do not fill the memory.
fn block() -> Vec<Step> {
    let mut steps = vec![dma(0, 0)];
    steps.extend(run_exec(0, Context::Main, 0));
    steps.push(dma(0, 1));
    steps.extend(run_exec(0, Context::Main, 1));
    steps
}

#[test]
fn pes_that_share_nothing_take_the_time_of_one() {
    let machine = tcp();
    let alone = program(vec![contraction(256)], vec![weights(0, 64)], vec![queue(0, 0, block())]);
    let cycles = run(&machine, &alone).cycles;
    for pes in [2, 4, 8] {
        let queues = (0..pes).map(|pe| queue(0, pe, block())).collect();
        let mut all = program(vec![contraction(256)], vec![weights(0, 64)], queues);
        // Within data memory, so that nothing is shared.
        all.transfers[0].source = dm(0, 0, 0);
        all.transfers[0].target = dm(0, 256, 0);
        let mut one = alone.clone();
        one.transfers = all.transfers.clone();
        assert_eq!(run(&machine, &all).cycles, run(&machine, &one).cycles, "{pes}");
        let queues = (0..pes.min(4)).map(|pe| queue(0, pe, block())).collect();
        let few = program(vec![contraction(256)], vec![weights(0, 64)], queues);
        assert_eq!(run(&machine, &few).cycles, cycles, "{pes}");
    }
}
