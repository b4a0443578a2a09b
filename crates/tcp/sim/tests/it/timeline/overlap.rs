//! What runs side by side and what does not (vISA book, contexts).

use tilewright_record::{Event, Interval};
use tilewright_tcp_isa::program::control::{Command, Step};
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::{Exec, Transfer};
use tilewright_tcp_sim::SimOutcome;

use crate::timeline::build::{
    ENDS, PUSH, START, contraction, copy, custom, dma, program, push, queue, run, run_exec, short, spans,
    starving, vector, weights,
};
use crate::timeline::tcp;

fn one(execs: Vec<Exec>, transfers: Vec<Transfer>, steps: Vec<Step>) -> SimOutcome {
    run(&tcp(), &program(execs, transfers, vec![queue(0, 0, steps)]))
}

#[test]
fn a_command_alone_takes_launch_push_itself_and_finish() {
    let outcome = one(vec![copy(100)], vec![], run_exec(0, Context::Main, 0).to_vec());
    assert_eq!(spans(&outcome, "chip0/pe0/main"), [(2000 + 2 * PUSH, 2040 + 364)]);
    assert_eq!(outcome.cycles, ENDS + 2 * PUSH + 364);
    assert_eq!((outcome.execs, outcome.commands, outcome.steps), (1, 2, 2));
}

#[test]
fn commands_of_one_context_follow_each_other() {
    let steps = [run_exec(0, Context::Main, 0), run_exec(0, Context::Main, 1)].concat();
    let outcome = one(vec![copy(100)], vec![], steps);
    assert_eq!(spans(&outcome, "chip0/pe0/main"), [(2040, 2404), (2404, 2768)]);
}

#[test]
fn dma_runs_under_an_execution_until_a_wait_holds_the_queue() {
    let mut steps = vec![dma(0, 0)];
    steps.extend(run_exec(0, Context::Main, 0));
    steps.push(push(Command::WaitD(0)));
    steps.extend(run_exec(0, Context::Main, 1));
    let outcome = one(vec![copy(100)], vec![weights(0, 1024)], steps);
    assert_eq!(spans(&outcome, "chip0/pe0/dma"), [(2020, 2020 + START + 1024)]);
    assert_eq!(spans(&outcome, "chip0/pe0/main"), [(2060, 2424), (3485, 3849)]);
}

#[test]
fn a_wait_is_a_flow_from_what_ended_to_what_started() {
    let mut steps = vec![dma(0, 0), push(Command::WaitD(0))];
    steps.extend(run_exec(0, Context::Main, 0));
    let outcome = one(vec![contraction(256)], vec![weights(0, 64)], steps);
    let intervals: Vec<&Interval> = outcome
        .record
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Interval(interval) => Some(interval),
            Event::Sample(_) => None,
        })
        .collect();
    let named = |name: &str| *intervals.iter().find(|interval| &*interval.name == name).expect("recorded");
    let (sent, waited) = (named("weights"), named("contraction"));
    assert_eq!(sent.signals.as_slice(), waited.waits.as_slice());
    assert_eq!((sent.binding, waited.binding), (Some("read engine"), Some("fetch")));
    let count = |name: &str| waited.counts.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
    assert_eq!(count("macs"), Some(1024 * 512 * 64));
    assert_eq!(
        (count("contraction"), count("drain"), count("flits")),
        (Some(1024), Some(512), Some(1024 * 64))
    );
    let mut trace = Vec::new();
    tilewright_record::perfetto::write(&outcome.record, &mut trace).expect("it can be written");
    assert!(!trace.is_empty());
}

#[test]
fn a_satisfied_wait_takes_one_look() {
    let mut steps = run_exec(0, Context::Main, 0).to_vec();
    // Nothing was issued under this id.
    steps.push(push(Command::WaitE(9)));
    steps.push(dma(0, 0));
    let outcome = one(vec![copy(100)], vec![weights(0, 64)], steps);
    // Pushed at 2060 and looked at until 2070; the transfer is pushed at 2080.
    assert_eq!(spans(&outcome, "chip0/pe0/dma"), [(2080, 2080 + START + 64)]);
}

#[test]
fn sub_loads_under_main_if_the_half_is_free() {
    let run = |base| {
        let steps = [run_exec(0, Context::Main, 0), run_exec(1, Context::Sub, 1)].concat();
        one(vec![contraction(256), short(1600, base)], vec![], steps)
    };
    let beside = run(4096);
    let main = spans(&beside, "chip0/pe0/main");
    // Banks slow it down: the contraction fetches in every cycle.
    let (start, end) = spans(&beside, "chip0/pe0/sub")[0];
    assert_eq!(start, 2080);
    assert!(end > 2080 + 464 && end < main[0].1, "{end} {main:?}");
    let clashing = run(0);
    assert_eq!(spans(&clashing, "chip0/pe0/sub"), [(main[0].1, main[0].1 + 464)]);
}

#[test]
fn two_contexts_do_not_share_the_vector_engine() {
    let main_and_sub = |main: Exec| {
        let steps = [run_exec(0, Context::Main, 0), run_exec(1, Context::Sub, 1)].concat();
        spans(&one(vec![main, vector(Context::Sub, 8)], vec![], steps), "chip0/pe0/sub")[0].0
    };
    assert_eq!(main_and_sub(copy(1000)), 2080);
    assert_eq!(main_and_sub(vector(Context::Main, 1000)), 2040 + 264 + 1000 + 15);
}

#[test]
fn a_bitmap_is_written_while_sub_and_dma_stand_still() {
    // DMA is under way first: the bitmap waits for it.
    let mut steps = vec![dma(0, 0)];
    steps.extend(run_exec(0, Context::Main, 0));
    let outcome = one(vec![custom(64)], vec![weights(0, 1024)], steps);
    assert_eq!(spans(&outcome, "chip0/pe0/main")[0].0, 2020 + START + 1024);
    // The bitmap is under way first: sub and DMA wait until it is written.
    let mut steps = run_exec(0, Context::Main, 0).to_vec();
    steps.extend(run_exec(1, Context::Sub, 1));
    steps.push(dma(0, 0));
    let outcome = one(vec![custom(64), short(64, 0)], vec![weights(0, 64)], steps);
    assert_eq!(spans(&outcome, "chip0/pe0/sub")[0].0, 2040 + 256);
    assert_eq!(spans(&outcome, "chip0/pe0/dma")[0].0, 2040 + 256);
}

#[test]
fn a_command_that_holds_a_bank_keeps_dma_still_to_its_end() {
    let run = |accesses| {
        let mut steps = run_exec(0, Context::Main, 0).to_vec();
        steps.push(dma(0, 0));
        let outcome = one(vec![starving(accesses)], vec![weights(0, 64)], steps);
        (spans(&outcome, "chip0/pe0/main")[0].1, spans(&outcome, "chip0/pe0/dma")[0].0)
    };
    // The commit unit passes every bank, and holds none for more than two accesses.
    let (end, start) = run(62);
    assert_eq!(end, start);
    assert_eq!(run(61).1, 2060);
}

#[test]
fn fused_commands_take_the_contexts_of_all_their_pes() {
    let fused = Exec { pes: 2, ..copy(100) };
    let first = run_exec(0, Context::Main, 0).to_vec();
    let second = run_exec(1, Context::Main, 0).to_vec();
    let queues = vec![queue(0, 0, first), queue(0, 1, second)];
    let outcome = run(&tcp(), &program(vec![fused, copy(50)], vec![], queues));
    assert_eq!(spans(&outcome, "chip0/pe0/main"), [(2040, 2404)]);
    assert_eq!(spans(&outcome, "chip0/pe1/main"), [(2040, 2404), (2404, 2404 + 314)]);
}

#[test]
fn transfers_of_one_engine_follow_each_other_in_order() {
    let steps = vec![dma(0, 0), dma(0, 1)];
    let outcome = one(vec![], vec![weights(0, 64)], steps);
    assert_eq!(spans(&outcome, "chip0/pe0/dma"), [(2020, 2525), (2525, 3030)]);
}

#[test]
fn an_id_names_one_command_at_a_time() {
    // The second transfer waits in the queue for its id, and the execution behind it too.
    let mut steps = vec![dma(0, 7), dma(0, 7)];
    steps.extend(run_exec(0, Context::Main, 0));
    let outcome = one(vec![copy(1)], vec![weights(0, 64)], steps);
    assert_eq!(spans(&outcome, "chip0/pe0/main")[0].0, 2525);
}
