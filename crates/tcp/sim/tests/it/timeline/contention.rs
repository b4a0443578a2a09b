//! Two commands side by side, as the timeline has them and as a simulation by the cycle does
//! (`crates/tcp/micro`).
//!
//! The reference starts both at their first access; here the second starts two pushes after the first.

use proptest::prelude::*;
use tilewright_tcp_cost::cycles;
use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::image::exec_command;
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_isa::program::exec::{Context, StepLoop};
use tilewright_tcp_isa::program::{Count, Exec};
use tilewright_tcp_micro::{AccessWalk, MicroCommand, RegisterReads};

use crate::timeline::build::{
    PUSH, contraction, copy, loops, program, queue, run, run_exec, short, spans, stream_of,
};
use crate::timeline::tcp;

const OVERHEAD: u64 = 264;
/// What fills and drains, and the later start.
const SLACK: u64 = 64 + 2 * PUSH;

/// `rows` streamed packets, each held for `held` register file packets in turn; all of them are summed.
fn product(rows: u64, held: u64, wide: bool) -> Exec {
    let packet = if wide { 64 } else { 32 };
    let mut exec = contraction(1);
    let stream = stream_of(&mut exec);
    stream.fetch.loops = loops(&[(rows * packet, 1)]);
    stream.fetch.packet = packet;
    stream.commit.loops = loops(&[(held, 32)]);
    let contract = stream.contract.as_mut().expect("a contraction");
    contract.flits = packet / 32;
    contract.repeats = Count::Fixed(held);
    contract.tree = packet;
    let stride = i64::try_from(packet).expect("small");
    contract.loops = loops(&[(rows, 0), (held, stride), (packet, 1)]);
    let step = |size, summed| StepLoop { size: Count::Fixed(size), summed };
    contract.steps = vec![step(rows, true), step(held, false)];
    exec
}

/// The load as the reference takes it: fetched in accesses of 8 B, stored as they arrive.
fn load_work(bytes: u64) -> MicroCommand {
    let (context, packet_bytes) = (Context::Sub, 32);
    let packets = bytes / packet_bytes;
    let command = cycles::CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes: 8, cast: false }),
        collect: Some(CollectStage { packets, packet_bytes }),
        load: Some(LoadStage { context, slice_bytes: bytes }),
        ..cycles::CommandStages::default()
    };
    MicroCommand { fetch: AccessWalk { base_bytes: 0, stride_bytes: 8 }, ..MicroCommand::new(command) }
}

/// Cycles from the first access of the sub command to its end, and those of the main command: here and by the
/// reference.
fn both(main: Exec, main_work: &MicroCommand, bytes: u64) -> [(u64, u64); 2] {
    let steps = [run_exec(0, Context::Main, 0), run_exec(1, Context::Sub, 1)].concat();
    // The upper half of the first lane.
    let all = program(vec![main, short(bytes, 4096)], vec![], vec![queue(0, 0, steps)]);
    let outcome = run(&tcp(), &all);
    let lasted = |path: &str| {
        let (start, end) = spans(&outcome, path)[0];
        end - start - OVERHEAD
    };
    let reference =
        tilewright_tcp_micro::run(&tcp(), Some(main_work), Some(&load_work(bytes))).expect("it ends");
    [(lasted("chip0/pe0/sub"), lasted("chip0/pe0/main")), (reference.sub_cycles, reference.main_cycles)]
}

fn product_and_load(rows: u64, held: u64, wide: bool, bytes: u64) -> [(u64, u64); 2] {
    let main = product(rows, held, wide);
    let reads = RegisterReads { wide, held_steps: 1, units: held, stride_units: 1 };
    let work = MicroCommand { reads, ..MicroCommand::new(exec_command(&tcp(), &main)) };
    both(main, &work, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each stands for what the closed rule allows: a fourteenth of narrow reads, and half of them where some
    /// hit.
    #[test]
    fn a_load_under_a_contraction_takes_what_the_judge_counts(
        rows in 8..96_u64, held in 1..33_u64, wide: bool, flits in 1..128_u64,
    ) {
        let [(sub, main), (reference, reference_main)] = product_and_load(rows, held, wide, 32 * flits);
        let steps = rows * held;
        let off = if wide { 0 } else if held > 8 && held % 2 == 0 { steps / 14 } else { steps / 2 };
        // Conflicts of banks count as spread evenly over the contraction.
        let banks = main.min(4 * flits) / 16;
        prop_assert!(main.abs_diff(reference_main) <= SLACK, "{main} {reference_main}");
        prop_assert!(sub.abs_diff(reference) <= off + banks + SLACK, "{sub} {reference} of {main}, {flits}");
    }

    /// A main copy with accesses of 8 B at any stride, and a load that passes every bank.
    #[test]
    fn a_load_beside_a_copy_waits_for_banks(
        accesses in 64..2000_u64, base in 0..16_u64, stride in 0..20_u64, flits in 1..128_u64,
    ) {
        let mut main = copy(1);
        let stream = stream_of(&mut main);
        let apart = i64::try_from(8 * stride).expect("small");
        (stream.fetch.base, stream.fetch.loops) = (8 * base, loops(&[(accesses, apart), (8, 1)]));
        stream.fetch.packet = 8;
        (stream.commit.loops, stream.commit.bytes, stream.commit.width) = (loops(&[(accesses, 8)]), 8, 8);
        let work = MicroCommand {
            fetch: AccessWalk { base_bytes: 8 * base, stride_bytes: 8 * stride },
            commit: AccessWalk { base_bytes: 0x4_0000, stride_bytes: 8 },
            ..MicroCommand::new(exec_command(&tcp(), &main))
        };
        let bytes = 32 * flits;
        let [(sub, main), (reference, reference_main)] = both(main, &work, bytes);
        prop_assert!(main.abs_diff(reference_main) <= SLACK, "{main} {reference_main}");
        prop_assert!(sub >= bytes / 8 && sub <= main + bytes / 8, "{sub} {main}");
        let off = main.min(bytes / 8) / 8;
        prop_assert!(sub.abs_diff(reference) <= off + SLACK, "{sub} {reference} of {main}");
    }
}

#[test]
fn wide_reads_that_miss_make_a_load_serial_and_narrow_reads_hide_it() {
    let bytes = 2048;
    let [(sub, main), (reference, _)] = product_and_load(64, 32, true, bytes);
    assert!(sub + SLACK >= main + bytes / 8, "{sub} {reference} {main}");
    let [(sub, main), (reference, _)] = product_and_load(64, 32, false, bytes);
    assert!(sub < main, "{sub} {reference} {main}");
    // Four packets stay in the cache: the port is free.
    let [(sub, _), (reference, _)] = product_and_load(256, 4, true, bytes);
    assert!(sub.abs_diff(reference) <= SLACK + bytes / 128, "{sub} {reference}");
}

#[test]
fn a_load_that_stands_still_goes_on_when_the_contraction_ends() {
    // Twice the same contraction: the load gets almost nothing until both are over.
    let main = product(64, 32, true);
    let mut steps = [run_exec(0, Context::Main, 0), run_exec(1, Context::Sub, 1)].concat();
    steps.extend(run_exec(0, Context::Main, 2));
    let all = program(vec![main, short(4096, 4096)], vec![], vec![queue(0, 0, steps)]);
    let outcome = run(&tcp(), &all);
    let ends = spans(&outcome, "chip0/pe0/main");
    let (_, end) = spans(&outcome, "chip0/pe0/sub")[0];
    assert!(end > ends[1].1, "{end} {ends:?}");
    assert!(end < ends[1].1 + 512, "{end} {ends:?}");
}
