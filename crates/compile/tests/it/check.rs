//! The checker of schedules on compiled models: it passes what the compiler makes, and catches what is
//! changed in it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::collections::BTreeSet;
use std::ops::Range;

use support::{compiled, on_chips, options, small, tcp};
use tilewright_compile::check::{CheckFault, CheckReport, FaultKind, check};
use tilewright_compile::cluster::cluster;
use tilewright_compile::{Compiled, compile_kernels};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::control::StepKind;
use tilewright_tcp_isa::program::exec::ExecBody;
use tilewright_tcp_isa::program::{Command, ExecId, Program};
use tilewright_testkit::draws;

#[test]
fn every_compiled_model_passes() {
    let machine = tcp();
    for (layers, width, heads, kv) in [(2, 64, 8, 4), (1, 288, 6, 6)] {
        let graph = small(layers, width, heads, kv);
        for dtype in [Dtype::Bf16, Dtype::I8] {
            for (pes, chips, batch) in [(1, 1, 1), (2, 1, 1), (4, 1, 3), (4, 1, 67), (1, 2, 1), (2, 4, 3)] {
                let compiled = on_chips(&machine, &graph, dtype, (pes, chips), batch);
                for (name, checked) in compiled.check(&machine) {
                    let wrong = checked.errors().next();
                    assert!(
                        wrong.is_none(),
                        "{width} {dtype} {pes} PEs of {chips} chips, {name}: {}",
                        wrong.unwrap()
                    );
                    // The last tokens that others gather: only one PE's head needs them.
                    let vain = checked.faults.iter().filter(|fault| fault.kind == FaultKind::Unread);
                    vain.for_each(|fault| assert!(fault.message.contains("`tokens"), "{fault}"));
                    assert!(checked.commands > 0);
                }
            }
        }
    }
}

fn is_in_order(machine: &Tcp, what: &str, compiled: &Compiled) {
    for (name, checked) in compiled.check(machine) {
        let wrong = checked.errors().next();
        assert!(wrong.is_none(), "{what}, {name}: {}", wrong.unwrap());
    }
}

/// Parts of the rows are told with all rows: a part of four rows has no second where there are four in all.
#[test]
fn rows_and_their_parts_are_told_together() {
    let machine = tcp();
    let kernels = cluster(&small(2, 128, 4, 2)).unwrap();
    for dtype in [Dtype::Bf16, Dtype::I8] {
        for pes in [2, 8] {
            let options = options(dtype, (pes, 1), 1, 512);
            is_in_order(
                &machine,
                &format!("{dtype} {pes} PEs"),
                &compile_kernels(&machine, &kernels, options).unwrap(),
            );
        }
    }
}

/// A change of a program that must not pass unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mutation {
    DropWait,
    DropSync,
    DropPost,
    DropReceive,
    DropCommand,
    SwapCommands,
    MoveCommit,
    MoveFetch,
    MoveTransfer,
    WaitForAnother,
}

pub(crate) const MUTATIONS: [Mutation; 10] = [
    Mutation::DropWait,
    Mutation::DropSync,
    Mutation::DropPost,
    Mutation::DropReceive,
    Mutation::DropCommand,
    Mutation::SwapCommands,
    Mutation::MoveCommit,
    Mutation::MoveFetch,
    Mutation::MoveTransfer,
    Mutation::WaitForAnother,
];

/// Places of a queue where a kind of step is.
fn places(program: &Program, queue: usize, wanted: impl Fn(&StepKind) -> bool) -> Vec<usize> {
    let steps = program.queues[queue].steps.iter().enumerate();
    steps.filter(|(_, step)| wanted(&step.kind)).map(|(at, _)| at).collect()
}

fn is_wait(kind: &StepKind) -> bool {
    matches!(kind, StepKind::Push(Command::WaitD(_) | Command::WaitE(_)))
}

/// Steps from one `load` to behind its `exec`, or one `dma`.
fn commands(program: &Program, queue: usize) -> Vec<(usize, usize)> {
    let steps = &program.queues[queue].steps;
    let mut all = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match step.kind {
            StepKind::Push(Command::Load(_)) => all.push((at, at + 2)),
            StepKind::Push(Command::Dma { .. }) => all.push((at, at + 1)),
            _ => {}
        }
    }
    all
}

/// Changes a program in some steps of a queue; `None` if they have nothing of the kind. Steps keep their
/// number, so that kernels begin where they did.
pub(crate) fn mutated(
    program: &Program,
    mutation: Mutation,
    (queue, within): (usize, Range<usize>),
    draw: usize,
) -> Option<Program> {
    let mut changed = program.clone();
    let pick = |all: &[usize]| {
        let all: Vec<usize> = all.iter().copied().filter(|at| within.contains(at)).collect();
        (!all.is_empty()).then(|| all[draw % all.len()])
    };
    // A step that does nothing stands for one that is gone.
    let gone = StepKind::If {
        condition: tilewright_tcp_isa::program::control::Condition {
            left: tilewright_tcp_isa::program::control::ControlOperand::Number(0),
            relation: tilewright_tcp_isa::program::vector::Relation::Eq,
            right: tilewright_tcp_isa::program::control::ControlOperand::Number(0),
        },
        then: Vec::new(),
        otherwise: Vec::new(),
    };
    let all: Vec<(usize, usize)> = commands(program, queue);
    let all: Vec<(usize, usize)> = all.into_iter().filter(|(from, _)| within.contains(from)).collect();
    let steps = &mut changed.queues[queue].steps;
    match mutation {
        Mutation::DropWait => steps[pick(&places(program, queue, is_wait))?].kind = gone,
        Mutation::DropSync => {
            steps[pick(&places(program, queue, |kind| *kind == StepKind::Sync))?].kind = gone;
        }
        Mutation::DropPost => {
            steps[pick(&places(program, queue, |kind| matches!(kind, StepKind::Post { .. })))?].kind = gone;
        }
        Mutation::DropReceive => {
            let found = places(program, queue, |kind| matches!(kind, StepKind::Receive { .. }));
            steps[pick(&found)?].kind = gone;
        }
        Mutation::DropCommand => {
            let (from, to) = *all.get(draw % all.len().max(1))?;
            (from..to).for_each(|at| steps[at].kind = gone.clone());
        }
        Mutation::SwapCommands => {
            let first = draw % all.len().checked_sub(1).filter(|pairs| *pairs > 0)?;
            let ((a, b), (c, d)) = (all[first], all[first + 1]);
            let (one, between, other) = (steps[a..b].to_vec(), steps[b..c].to_vec(), steps[c..d].to_vec());
            let all: Vec<_> = other.into_iter().chain(between).chain(one).collect();
            steps.splice(a..d, all);
        }
        Mutation::MoveCommit | Mutation::MoveFetch => {
            let loads = places(program, queue, |kind| matches!(kind, StepKind::Push(Command::Load(_))));
            let at = pick(&loads)?;
            let StepKind::Push(Command::Load(image)) = &mut steps[at].kind else { return None };
            // Other steps load the same image, which stays.
            let mut exec = program.execs[image.0 as usize].clone();
            let ExecBody::Stream(stream) = &mut exec.body else { return None };
            let base = if mutation == Mutation::MoveFetch {
                &mut stream.fetch.base
            } else {
                &mut stream.commit.base
            };
            *base += 8 * (1 + draw as u64 / 7 % 9);
            *image = ExecId(u32::try_from(program.execs.len()).unwrap());
            changed.execs.push(exec);
        }
        Mutation::MoveTransfer => {
            let found = places(program, queue, |kind| matches!(kind, StepKind::Push(Command::Dma { .. })));
            let StepKind::Push(Command::Dma { transfer, .. }) = steps[pick(&found)?].kind else {
                return None;
            };
            let transfer = &mut changed.transfers[transfer.0 as usize];
            let by = 64 * (1 + draw as u64 / 7 % 9);
            if draw.is_multiple_of(2) { transfer.source.0 += by } else { transfer.target.0 += by }
        }
        Mutation::WaitForAnother => {
            let at = pick(&places(program, queue, is_wait))?;
            if let StepKind::Push(Command::WaitD(id) | Command::WaitE(id)) = &mut steps[at].kind {
                *id = id.wrapping_add(u8::try_from(1 + draw % 5).unwrap());
            }
        }
    }
    Some(changed)
}

struct MutationCheck {
    machine: Tcp,
    compiled: Compiled,
    known: BTreeSet<CheckFault>,
}

impl MutationCheck {
    fn new(dtype: Dtype, pes: u64) -> MutationCheck {
        let machine = tcp();
        let compiled = compiled(&machine, &small(2, 64, 8, 4), dtype, pes, 1);
        let known = compiled.check(&machine).into_iter().flat_map(|(_, checked)| checked.faults).collect();
        MutationCheck { machine, compiled, known }
    }

    fn check(&self, name: &str, program: &Program) -> CheckReport {
        let outline = self.compiled.outlines.iter().find(|outline| outline.name == name).unwrap();
        let intent = self.compiled.intent(self.compiled.program(name).unwrap(), outline);
        check(&self.machine, program, &intent, &self.compiled.register_facts(program))
    }

    fn kills(&self, name: &str, program: &Program) -> bool {
        self.check(name, program).faults.iter().any(|fault| !self.known.contains(fault))
    }
}

/// Of changes that leave kernels reading the right values, only those pass that change nothing: waits that
/// another wait, or the order of a unit, makes needless (transfers of one engine run in order), swaps of
/// commands that do not depend on each other, commands that write again what is there. Moved places are seen
/// when they leave the value they were meant for, not within it.
#[test]
fn changed_programs_are_caught() {
    let mut survey: Vec<(Mutation, u32, u32)> = MUTATIONS.map(|mutation| (mutation, 0, 0)).to_vec();
    for (dtype, pes) in [(Dtype::Bf16, 1), (Dtype::I8, 2)] {
        let mutations = MutationCheck::new(dtype, pes);
        for name in ["prefill", "decode"] {
            let program = mutations.compiled.program(name).unwrap();
            for (mutation, killed, all) in &mut survey {
                for draw in 0..draws(5, 16) {
                    let queue = draw % program.queues.len();
                    let changed = mutated(program, *mutation, (queue, 0..usize::MAX), draw * 7919 + 13);
                    let Some(changed) = changed else { continue };
                    *all += 1;
                    *killed += u32::from(mutations.kills(name, &changed));
                }
            }
        }
    }
    for (mutation, killed, all) in survey {
        let least = match mutation {
            Mutation::DropPost | Mutation::DropReceive => 100,
            Mutation::DropSync | Mutation::WaitForAnother => 85,
            // Below what it was before exchanges went part by part; the survivors are not classified.
            Mutation::DropCommand => 80,
            Mutation::DropWait => 75,
            Mutation::SwapCommands | Mutation::MoveCommit => 65,
            Mutation::MoveFetch | Mutation::MoveTransfer => 25,
        };
        assert!(
            (killed + draws(1, 0)) * 100 >= all * least,
            "{mutation:?}: {killed} of {all} caught, at least {least} % are meant to be"
        );
    }
}

#[test]
fn what_waits_for_nothing_is_named() {
    let mutations = MutationCheck::new(Dtype::Bf16, 1);
    let program = mutations.compiled.program("decode").unwrap();
    let mut changed = program.clone();
    changed.queues[0].steps[0].kind = StepKind::Push(Command::WaitD(200));
    let checked = mutations.check("decode", &changed);
    assert!(checked.errors().any(|fault| fault.kind == FaultKind::NeverIssued), "{:?}", checked.faults);
    changed.queues[0].steps[0].kind = StepKind::Receive { chip: 0, pe: 3, register: None };
    let checked = mutations.check("decode", &changed);
    assert!(checked.errors().any(|fault| fault.kind == FaultKind::Deadlock), "{:?}", checked.faults);
}
