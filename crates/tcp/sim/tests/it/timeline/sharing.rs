//! Off-chip memory and links between PEs and chips that use them at once.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::transfer::TransferLoop;
use tilewright_tcp_isa::program::{Count, Program, Transfer};
use tilewright_tcp_sim::{SimOutcome, checks};

use crate::timeline::build::{
    ENDS, PUSH, START, contraction, copy, dm, dma, hbm, program, queue, run, run_exec, spans, weights,
};
use crate::timeline::tcp;

/// So many PEs that each load as many bytes at the same time.
fn loads(pes: u64, requests: u64) -> Program {
    let transfers = (0..pes).map(|pe| weights(pe, requests)).collect();
    let queue_of = |pe: u64| queue(0, pe, vec![dma(u32::try_from(pe).expect("few"), 0)]);
    program(vec![], transfers, (0..pes).map(queue_of).collect())
}

fn moved_cycles(outcome: &SimOutcome) -> u64 {
    outcome.cycles - ENDS - PUSH - START
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
            // Changes of rank take a part in a thousand.
            moved_cycles(&outcome).abs_diff(expected) <= expected / 1000,
            "{pes}: {} {expected}",
            moved_cycles(&outcome)
        );
        let ends: Vec<u64> = (0..pes).map(|pe| spans(&outcome, &format!("chip0/pe{pe}/dma"))[0].1).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    }
}

/// The book's eight engines that never toggle the stack bit, each a PE's own: the channels they use are the
/// same.
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
            .map(|&(size, source, target)| TransferLoop { size: Count::Fixed(size), source, target })
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
    let moved = |outcome: SimOutcome| outcome.cycles - ENDS - PUSH - START - 1000;
    let (one, two) = (moved(run(&tcp(), &one)), moved(run(&tcp(), &two)));
    // 16 KiB at 50 GB/s.
    assert_eq!((one, two), (328, 656));
}

#[test]
fn pes_that_share_nothing_take_the_time_of_one() {
    let machine = tcp();
    // Within the data memory of each PE, so that nothing is shared.
    let inside = |pe: u64| Transfer {
        source: dm(0, pe * 64, 0),
        target: dm(0, pe * 64, 0x4_0000),
        loops: weights(0, 64).loops.iter().map(|row| TransferLoop { source: row.target, ..*row }).collect(),
        ..weights(0, 64)
    };
    let block_of = |transfer: u32| {
        let mut steps = vec![dma(transfer, 0)];
        steps.extend(run_exec(0, Context::Main, 0));
        steps.push(dma(transfer, 1));
        steps.extend(run_exec(0, Context::Main, 1));
        steps
    };
    let on = |pes: u32| {
        let queues = (0..pes).map(|pe| queue(0, u64::from(pe), block_of(pe))).collect();
        let transfers = (0..u64::from(pes)).map(inside).collect();
        run(&machine, &program(vec![contraction(256)], transfers, queues)).cycles
    };
    for pes in [2, 4, 8] {
        assert_eq!(on(pes), on(1), "{pes}");
    }
    // Four PEs that load different weights do not fill off-chip memory.
    let load = |pes: u32| {
        let queues = (0..pes).map(|pe| queue(0, u64::from(pe), block_of(pe))).collect();
        let transfers = (0..u64::from(pes)).map(|pe| weights(pe, 64)).collect();
        run(&machine, &program(vec![contraction(256)], transfers, queues)).cycles
    };
    assert_eq!(load(4), load(1));
}

/// Off-chip memory to the 32 slices of one network, two cycles a request.
fn one_network(slice: u64, from: u64, requests: u64) -> Transfer {
    let mut load = weights(0, requests);
    load.source = hbm(0, from * requests * 256);
    load.target = dm(0, slice, 0);
    load.loops[0] = TransferLoop { size: Count::Fixed(requests / 32), source: 32 * 256, target: 256 };
    load.loops[1].size = Count::Fixed(32);
    load
}

fn all_at_once(machine: &Tcp, transfers: Vec<Transfer>) -> SimOutcome {
    let queues = (0..transfers.len())
        .map(|pe| queue(0, pe as u64, vec![dma(u32::try_from(pe).expect("few"), 0)]))
        .collect();
    run(machine, &program(vec![], transfers, queues))
}

#[test]
fn engines_share_the_network_that_they_write_into() {
    let machine = tcp();
    let requests = 4096;
    let moved = |pes: u64, slice_of: &dyn Fn(u64) -> u64| {
        moved_cycles(&all_at_once(
            &machine,
            (0..pes).map(|pe| one_network(slice_of(pe), pe, requests)).collect(),
        ))
    };
    let alone = moved(1, &|_| 0);
    assert_eq!(alone, requests * 2, "128 B a cycle");
    assert_eq!(moved(2, &|_| 0), alone * 2);
    assert_eq!(moved(4, &|_| 0), alone * 4);
    assert_eq!(moved(4, &|pe| pe * 32), alone, "a network each");
}

#[test]
fn the_port_of_a_pe_is_shared_by_its_networks() {
    let mut machine = tcp();
    let moved = |machine: &Tcp, transfers: Vec<Transfer>| moved_cycles(&all_at_once(machine, transfers));
    let both = || vec![one_network(0, 0, 4096), one_network(32, 1, 4096)];
    assert_eq!(moved(&machine, both()), 8192);
    machine.noc.pe_bytes_per_cycle = 128;
    assert_eq!(moved(&machine, both()), 2 * 8192);
    assert_eq!(moved(&machine, vec![weights(0, 4096)]), 8192, "alone too");
    // What stays in a PE does not pass its port.
    let inside =
        Transfer { source: dm(0, 0, 0x4_0000), target: dm(0, 0, 0), loops: vec![], ..weights(0, 64) };
    assert_eq!(moved(&machine, vec![inside]), 4);
}

/// Section 3.4 of the reference: 0.75 TB/s of reads, 0.1875 each; 192 and 182.4 B a cycle at 1.536 TB/s and
/// at 0.95 of it.
#[test]
fn four_engines_within_off_chip_memory_share_its_rate_between_reads_and_writes() {
    let mut machine = tcp();
    let requests = 1 << 16;
    let copy = |at: u64| Transfer {
        source: hbm(0, at * requests * 256),
        target: hbm(0, (at + 4) * requests * 256),
        loops: vec![TransferLoop { size: Count::Fixed(requests), source: 256, target: 256 }],
        ..weights(0, 64)
    };
    for (efficiency, expected) in [(1.0, 192.0), (0.95, 182.4)] {
        machine.hbm.efficiency = efficiency;
        let outcome = all_at_once(&machine, (0..4).map(copy).collect());
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let rate = (requests * 256) as f64 / moved_cycles(&outcome) as f64;
        assert!((rate - expected).abs() < 0.01 * expected, "{rate} of {expected}");
    }
    let alone = moved_cycles(&all_at_once(&machine, vec![copy(0)]));
    assert_eq!(alone, requests + 64, "one engine reads and writes a request a cycle");
}

/// A transfer into some PE's slices beside a copy on PE 0 that uses banks in every cycle.
fn beside_copy(flits: u64, pe: u64) -> (u64, (u64, u64)) {
    let mut steps = run_exec(0, Context::Main, 0).to_vec();
    steps.push(dma(0, 0));
    let transfer = Transfer { source: hbm(0, 0), ..weights(pe, 2048) };
    let outcome = run(&tcp(), &program(vec![copy(flits)], vec![transfer], vec![queue(0, 0, steps)]));
    let (from, to) = spans(&outcome, "chip0/pe0/dma")[0];
    (to - from - START, spans(&outcome, "chip0/pe0/main")[0])
}

#[test]
fn dma_gets_what_commands_leave_of_the_banks() {
    // Fetch and commit take 32 B in every cycle each: together half of all banks, so the transfer goes at
    // half speed.
    assert_eq!(beside_copy(8000, 0).0, 2048 * 2);
    assert_eq!(beside_copy(8000, 1).0, 2048, "other slices");
    // It goes on at full speed when the command is done.
    let (moved, (start, end)) = beside_copy(1000, 0);
    let beside = end - (start + 20 + START);
    assert_eq!(moved, 2048 + beside.div_ceil(2));
}

#[test]
fn dma_is_not_slowed_by_banks_that_it_does_not_wait_for() {
    // One channel of off-chip memory gives less than half of what a network takes.
    let mut slow = one_network(0, 0, 1024);
    slow.loops = vec![TransferLoop { size: Count::Fixed(1024), source: 0, target: 256 }];
    let moved = |flits: u64| {
        let mut steps = run_exec(0, Context::Main, 0).to_vec();
        steps.push(dma(0, 0));
        let program = program(vec![copy(flits)], vec![slow.clone()], vec![queue(0, 0, steps)]);
        let (from, to) = spans(&run(&tcp(), &program), "chip0/pe0/dma")[0];
        to - from
    };
    assert_eq!(moved(1), moved(8000));
}
