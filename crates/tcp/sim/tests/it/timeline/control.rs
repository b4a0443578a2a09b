//! Control cores: loops, conditions, device values, messages, full queues, endless programs.

use std::ops::ControlFlow;

use tilewright_num::Dtype;
use tilewright_record::KeepAll;
use tilewright_tcp_isa::program::control::{
    Command, Condition, ControlExpr, ControlOp, ControlOperand, StepKind,
};
use tilewright_tcp_isa::program::event::{PeId, RunEvent};
use tilewright_tcp_isa::program::exec::{Context, Loop};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::vector::Relation;
use tilewright_tcp_isa::program::{Count, ExecId, Program, RegisterId};
use tilewright_tcp_sim::{Observer, RunEnd, SimError, SimOptions, WaitReason, simulate};

use crate::timeline::build::{
    ENDS, PUSH, START, copy, dm, dma, loops, program, push, queue, register, run, run_exec, spans, step,
    stream_of, try_run, weights,
};
use crate::timeline::tcp;

const R: RegisterId = RegisterId(0);

fn number(value: i64) -> ControlExpr {
    ControlExpr::Operand(ControlOperand::Number(value))
}

fn with_register(program: Program, most: i64) -> Program {
    Program { registers: vec![register("r", 0, most)], ..program }
}

#[test]
fn sizes_are_those_at_the_push() {
    let mut sized = copy(1);
    let stream = stream_of(&mut sized);
    stream.fetch.loops = vec![Loop { size: Count::Register(R), stride: 32 }, loops(&[(32, 1)])[0]];
    stream.commit.loops = vec![Loop { size: Count::Register(R), stride: 32 }];
    let body = run_exec(0, Context::Main, 0).to_vec();
    let steps = vec![step(StepKind::For { register: R, from: number(1), to: number(4), body })];
    let run = run(&tcp(), &with_register(program(vec![sized], vec![], vec![queue(0, 0, steps)]), 10));
    let lengths: Vec<u64> = spans(&run, "chip0/pe0/main").iter().map(|(start, end)| end - start).collect();
    assert_eq!(lengths, [265, 266, 267]);
}

#[test]
fn loops_and_conditions_run_what_they_say() {
    let twice = ControlExpr::Binary(ControlOperand::Register(R), ControlOp::Add, ControlOperand::Number(2));
    let below = Condition {
        left: ControlOperand::Register(R),
        relation: Relation::Lt,
        right: ControlOperand::Number(7),
    };
    let odd = Condition {
        left: ControlOperand::Register(R),
        relation: Relation::Eq,
        right: ControlOperand::Number(4),
    };
    let body = vec![
        step(StepKind::Set(R, twice)),
        step(StepKind::If {
            condition: odd,
            then: run_exec(0, Context::Main, 0).to_vec(),
            otherwise: vec![dma(0, 0)],
        }),
    ];
    let steps = vec![step(StepKind::While { condition: below, body })];
    let all = with_register(program(vec![copy(1)], vec![weights(0, 64)], vec![queue(0, 0, steps)]), 10);
    let outcome = run(&tcp(), &all);
    assert_eq!((outcome.execs, outcome.transfers), (1, 3));
}

#[test]
fn a_register_stays_in_its_range() {
    let steps = vec![step(StepKind::Set(R, number(11)))];
    let error = try_run(&tcp(), &with_register(program(vec![], vec![], vec![queue(0, 0, steps)]), 10));
    assert!(matches!(error, Err(SimError::Register { value: 11, most: 10, .. })));
}

#[test]
fn a_full_queue_holds_the_core_and_loses_what_does_not_look() {
    let mut steps = vec![dma(0, 0), push(Command::WaitD(0))];
    steps.extend((0..100).map(|_| push(Command::Load(ExecId(0)))));
    let mut all = program(vec![copy(1)], vec![weights(0, 1 << 14)], vec![queue(0, 0, steps)]);
    let outcome = run(&tcp(), &all);
    assert_eq!((outcome.commands, outcome.lost_commands), (102, 0));
    // 64 entries wait behind the transfer; the rest is pushed after it.
    let end = 2020 + START + (1 << 14);
    assert_eq!(outcome.cycles, end + (102 - 65) * PUSH + 600);
    for step in &mut all.queues[0].steps[2..] {
        step.kind = StepKind::PushUnchecked(Command::Load(ExecId(0)));
    }
    let outcome = run(&tcp(), &all);
    assert_eq!((outcome.commands, outcome.lost_commands), (65, 37));
    assert_eq!(outcome.overflows.len(), 37);
    assert_eq!(outcome.overflows[0].at_cycles, 2000 + 66 * PUSH);
}

#[test]
fn sync_waits_for_all_commands() {
    let mut steps = run_exec(0, Context::Main, 0).to_vec();
    steps.push(step(StepKind::Sync));
    steps.push(dma(0, 0));
    let outcome = run(&tcp(), &program(vec![copy(100)], vec![weights(0, 64)], vec![queue(0, 0, steps)]));
    assert_eq!(spans(&outcome, "chip0/pe0/dma")[0].0, 2404 + PUSH);
}

fn post(pe: u64, value: i64) -> StepKind {
    StepKind::Post { chip: 0, pe, value: number(value) }
}

fn receive(pe: u64) -> StepKind {
    StepKind::Receive { chip: 0, pe, register: Some(R) }
}

#[test]
fn messages_take_a_doorbell_and_arrive_in_order() {
    let first = vec![step(post(1, 3)), step(post(1, 4))];
    let second = vec![step(receive(0)), step(receive(0)), dma(0, 0)];
    let queues = vec![queue(0, 0, first), queue(0, 1, second)];
    let all = with_register(program(vec![], vec![weights(1, 64)], queues), 10);
    let outcome = run(&tcp(), &all);
    // Posts end at 2020 and 2040; the second message arrives 300 later.
    assert_eq!(spans(&outcome, "chip0/pe1/dma")[0].0, 2340 + PUSH);
}

#[test]
fn a_core_awaits_one_command_while_the_queue_goes_on() {
    let wait = StepKind::Await { transfer: true, id: 0 };
    let first = vec![dma(0, 0), dma(1, 1), step(wait), step(post(1, 3))];
    let second = vec![step(receive(0)), dma(0, 0)];
    let queues = vec![queue(0, 0, first), queue(0, 1, second)];
    let transfers = vec![weights(1, 64), weights(1, 4096)];
    let outcome = run(&tcp(), &with_register(program(vec![], transfers, queues), 10));
    let sent = spans(&outcome, "chip0/pe0/dma");
    let started = spans(&outcome, "chip0/pe1/dma")[0].0;
    // The first transfer ends, the core has looked; then a post, a doorbell and a push.
    assert_eq!(started, sent[0].1 + 2 * PUSH + 300);
    assert!(started < sent[1].1, "the second transfer still runs: {sent:?}");
}

#[test]
fn cores_that_wait_for_each_other_are_a_deadlock_with_its_cycle() {
    let queues = vec![
        queue(0, 0, vec![step(receive(1))]),
        queue(0, 1, vec![step(receive(2))]),
        queue(0, 2, vec![step(receive(1))]),
    ];
    let all = with_register(program(vec![], vec![], queues), 10);
    let outcome = try_run(&tcp(), &all).expect("it runs");
    let RunEnd::Deadlock(waits) = outcome.ended else { panic!("{:?}", outcome.ended) };
    let chain: Vec<(u64, WaitReason)> = waits.iter().map(|waiting| (waiting.pe.pe, waiting.on)).collect();
    let on = |pe| WaitReason::Message(PeId { chip: 0, pe });
    assert_eq!(chain, [(0, on(1)), (1, on(2)), (2, on(1))]);
}

#[test]
fn a_message_that_nobody_sends_is_a_deadlock_too() {
    let queues = vec![queue(0, 0, vec![step(receive(5))])];
    let outcome = try_run(&tcp(), &with_register(program(vec![], vec![], queues), 10)).expect("it runs");
    assert!(matches!(outcome.ended, RunEnd::Deadlock(waits) if waits.len() == 1));
}

#[test]
fn an_endless_program_is_stopped() {
    let always = Condition {
        left: ControlOperand::Number(0),
        relation: Relation::Eq,
        right: ControlOperand::Number(0),
    };
    for body in [vec![], vec![step(StepKind::Set(R, number(1)))], vec![dma(0, 0)]] {
        let steps = vec![step(StepKind::While { condition: always, body })];
        let all = with_register(program(vec![], vec![weights(0, 64)], vec![queue(0, 0, steps)]), 10);
        assert!(matches!(try_run(&tcp(), &all), Err(SimError::Steps { .. })));
    }
}

#[test]
fn what_the_program_lacks_is_refused() {
    let refused = |steps| try_run(&tcp(), &program(vec![copy(1)], vec![], vec![queue(0, 0, steps)]));
    assert!(matches!(refused(vec![dma(0, 0)]), Err(SimError::Unknown { what: "transfer", .. })));
    assert!(matches!(refused(run_exec(4, Context::Main, 0).to_vec()), Err(SimError::Unknown { .. })));
    let start = push(Command::Exec { context: Context::Main, id: 0 });
    assert!(matches!(refused(vec![start]), Err(SimError::NothingLoaded { .. })));
    assert!(matches!(refused(vec![step(post(8, 0))]), Err(SimError::NoSuchPe { .. })));
    let group = |pes, pe| {
        let fused = tilewright_tcp_isa::program::Exec { pes, ..copy(1) };
        let queues = vec![queue(0, pe, run_exec(0, Context::Main, 0).to_vec())];
        try_run(&tcp(), &program(vec![fused], vec![], queues))
    };
    assert!(matches!(group(3, 0), Err(SimError::Group { .. })));
    assert!(matches!(group(2, 1), Err(SimError::Group { .. })));
    assert!(group(4, 4).is_ok());
    let twice = program(vec![], vec![], vec![queue(0, 0, vec![]), queue(0, 0, vec![])]);
    assert!(matches!(try_run(&tcp(), &twice), Err(SimError::TwoQueues { .. })));
    let many = Program { chips: u64::MAX, ..Program::default() };
    assert!(matches!(try_run(&tcp(), &many), Err(SimError::Chips { .. })));
}

/// Counts what it is told, and answers reads.
#[derive(Default)]
struct Counting {
    seen: Vec<&'static str>,
    stops_at: Option<usize>,
}

impl Observer for Counting {
    fn observe(&mut self, event: &RunEvent<'_>) -> ControlFlow<()> {
        self.seen.push(match event {
            RunEvent::Issue { .. } => "issue",
            RunEvent::Start { .. } => "start",
            RunEvent::Done { .. } => "done",
            RunEvent::Waited { .. } => "waited",
            RunEvent::Synced { .. } => "synced",
            RunEvent::Awaited { .. } => "awaited",
            RunEvent::Posted { .. } => "posted",
            RunEvent::Received { .. } => "received",
            RunEvent::Read { .. } => "read",
        });
        if self.stops_at == Some(self.seen.len()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn read(&mut self, address: Address, _dtype: Dtype) -> Option<i64> {
        (address == dm(0, 0, 64)).then_some(5)
    }
}

fn reading() -> Program {
    let mut steps = vec![dma(0, 0), push(Command::WaitD(0))];
    steps.extend(run_exec(0, Context::Main, 0));
    steps.push(step(StepKind::Read { register: R, address: dm(0, 0, 64), dtype: Dtype::I32 }));
    let body = vec![dma(0, 1)];
    steps.push(step(StepKind::For {
        register: RegisterId(1),
        from: number(0),
        to: ControlExpr::Operand(ControlOperand::Register(R)),
        body,
    }));
    let mut all = program(vec![copy(1)], vec![weights(0, 64)], vec![queue(0, 0, steps)]);
    all.registers = vec![register("n", 0, 100), register("i", 0, 100)];
    all
}

#[test]
fn judges_hear_everything_in_order_and_answer_reads() {
    let mut observer = Counting::default();
    let outcome = simulate(&tcp(), &reading(), &SimOptions::default(), KeepAll::default(), &mut observer)
        .expect("it runs");
    assert_eq!(outcome.transfers, 6);
    let start = ["issue", "start", "done", "waited", "issue", "start", "done", "synced", "read"];
    assert_eq!(observer.seen[..9], start);
    assert_eq!(observer.seen.iter().filter(|seen| **seen == "done").count(), 7);
}

#[test]
fn a_judge_may_stop_the_run_and_reads_need_one() {
    let mut observer = Counting { stops_at: Some(3), ..Counting::default() };
    let outcome = simulate(&tcp(), &reading(), &SimOptions::default(), KeepAll::default(), &mut observer)
        .expect("it runs");
    assert_eq!((outcome.ended, observer.seen.len()), (RunEnd::Stopped, 3));
    assert!(matches!(try_run(&tcp(), &reading()), Err(SimError::NoValue { .. })));
}

#[test]
fn the_launch_alone_takes_its_time() {
    assert_eq!(run(&tcp(), &program(vec![], vec![], vec![queue(0, 0, vec![])])).cycles, ENDS);
}
