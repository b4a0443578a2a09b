//! Programs of graphs with a fault in them before the compiler's own checker: whatever changes values, ends a
//! run or leaves them to chance must be refused before it runs. The oracle is the simulator.

use tilewright_base::SourceId;
use tilewright_compile::check::{check_plan, plan_fault};
use tilewright_compile::general::interface::{constants, interface};
use tilewright_compile::general::{Options, Planned, plan};
use tilewright_graph::{TensorStore, primitives};
use tilewright_machine::Tcp;
use tilewright_record::KeepLast;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_tcp_isa::program::control::StepKind;
use tilewright_tcp_isa::program::exec::ExecBody;
use tilewright_tcp_isa::program::{Command, Program};
use tilewright_tcp_sim::RunEnd;
use tilewright_testkit::draws;

use super::{Ending, ending, tcp};

/// Products, a softmax between them, chains, a padded convolution: PEs alone and fused.
const GRAPHS: [(&str, u64, Option<u64>); 4] = [
    (
        "graph 1
name mlp
input x: f32[64, 32]
input w1: f32[48, 32]
input w2: f32[32, 48]
const b: f32[4] = [0.5, 0.25, 1.5, 2.0]
let h: f32[64, 48] = einsum(x, w1) spec=\"nk,mk->nm\"
let r: f32[64, 48] = relu(h)
let y: f32[64, 32] = einsum(r, w2) spec=\"nk,mk->nm\"
let s: f32[64, 32] = softmax(y) axis=1
let q: f32[64, 8, 4] = reshape(s)
let t: f32[64, 8, 4] = add(q, b)
output y = y
output t = t
",
        2,
        None,
    ),
    (
        "graph 1
name fused
input x: f32[128, 128]
input w: f32[256, 128]
let h: f32[128, 256] = einsum(x, w) spec=\"nk,mk->nm\"
let r: f32[128, 256] = relu(h)
let s: f32[128, 256] = softmax(r) axis=1
output s = s
",
        4,
        Some(4),
    ),
    (
        "graph 1
name attention
input q: f32[64, 2, 32]
input k: f32[64, 2, 32]
input v: f32[64, 2, 32]
let p: f32[2, 64, 64] = einsum(q, k) spec=\"mhk,nhk->hmn\"
let s: f32[2, 64, 64] = softmax(p) axis=2
let o: f32[64, 2, 32] = einsum(s, v) spec=\"hmn,nhk->mhk\"
output o = o
",
        2,
        None,
    ),
    (
        "graph 1
name conv
input x: f32[2, 8, 12, 12]
input w: f32[16, 8, 3, 3]
let y: f32[2, 16, 12, 12] = conv(x, w) strides=[1, 1] pads=[1, 1, 1, 1]
let z: f32[2, 16, 12, 12] = relu(y)
output z = z
",
        4,
        None,
    ),
];

fn planned(machine: &Tcp, (text, pes, fused): (&str, u64, Option<u64>)) -> Planned {
    let graph = tilewright_graph::text::read(text, SourceId(0)).unwrap();
    let options = Options { pes, fused, ..Options::default() };
    plan(machine, &primitives(&graph).unwrap(), &TensorStore::default(), &options).unwrap()
}

/// Results of a run without a check before it.
fn run(machine: &Tcp, planned: &Planned) -> Ending<Vec<Vec<u32>>> {
    ending(|| {
        let outside = interface(machine, planned, 8).unwrap();
        let mut graph = ExecutableGraph::new(machine, outside, planned.program.clone())
            .map_err(|error| error.to_string())?;
        for (base, bytes) in constants(planned) {
            graph.write_constant(base, &bytes).map_err(|error| error.to_string())?;
        }
        let numbers = |count: u64| (0..count).map(|at| ((at * at * 7 % 1009) as f32 - 500.0) / 64.0);
        let words = |count: u64| numbers(count).map(f32::to_bits).collect();
        let inputs: Vec<Vec<u32>> = graph.interface().inputs.iter().map(|port| words(port.count())).collect();
        let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
        let reading = graph.run(&inputs, &wanted, KeepLast::new(0)).map_err(|error| error.to_string())?;
        let wrong = reading.findings.iter().find(|finding| finding.code != "tcp/cycles-low");
        match (wrong, reading.outcome.ended) {
            (Some(finding), _) => Err(finding.code.to_string()),
            (None, RunEnd::Finished) => graph.results().map_err(|error| error.to_string()),
            (None, ended) => Err(format!("{ended:?}")),
        }
    })
}

fn is_refused(machine: &Tcp, planned: &Planned) -> bool {
    plan_fault(machine, planned).is_some() || check_plan(machine, planned).errors().next().is_some()
}

/// A change of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// A wait, a message or its receipt is gone.
    DropOrder,
    /// A command is gone.
    DropCommand,
    /// A command and the next one of its queue change places.
    Swap,
    /// A transfer reads from elsewhere.
    MoveSource,
    /// A transfer writes elsewhere.
    MoveTarget,
    /// A command reads from elsewhere.
    MoveFetch,
    /// A command writes elsewhere.
    MoveCommit,
}

const MUTATIONS: [Mutation; 7] = [
    Mutation::DropOrder,
    Mutation::DropCommand,
    Mutation::Swap,
    Mutation::MoveSource,
    Mutation::MoveTarget,
    Mutation::MoveFetch,
    Mutation::MoveCommit,
];

fn is_order(kind: &StepKind) -> bool {
    matches!(
        kind,
        StepKind::Push(Command::WaitD(_) | Command::WaitE(_))
            | StepKind::Sync
            | StepKind::Await { .. }
            | StepKind::Post { .. }
            | StepKind::Receive { .. }
    )
}

/// First step and number of steps of each command of a queue.
fn commands(program: &Program, queue: usize) -> Vec<(usize, usize)> {
    let steps = program.queues[queue].steps.iter().enumerate();
    let command = |(at, kind): (usize, &StepKind)| match kind {
        StepKind::Push(Command::Load(_)) => Some((at, 2)),
        StepKind::Push(Command::Dma { .. }) => Some((at, 1)),
        _ => None,
    };
    steps.filter_map(|(at, step)| command((at, &step.kind))).collect()
}

fn mutated(program: &mut Program, mutation: Mutation, draw: usize) -> Option<()> {
    let queue = draw % program.queues.len();
    let draw = draw / program.queues.len();
    let by = 64 * (1 + draw as u64 % 5);
    match mutation {
        Mutation::DropOrder => {
            let steps = &mut program.queues[queue].steps;
            let all: Vec<usize> = (0..steps.len()).filter(|at| is_order(&steps[*at].kind)).collect();
            steps.remove(*all.get(draw % all.len().max(1))?);
        }
        Mutation::DropCommand => {
            let all = commands(program, queue);
            let (at, steps) = *all.get(draw % all.len().max(1))?;
            program.queues[queue].steps.drain(at..at + steps);
        }
        Mutation::Swap => {
            let all = commands(program, queue);
            let first = draw % all.len().checked_sub(1).filter(|pairs| *pairs > 0)?;
            let ((a, own), (b, its)) = (all[first], all[first + 1]);
            let steps = &mut program.queues[queue].steps;
            let later: Vec<_> = steps.drain(b..b + its).collect();
            let between: Vec<_> = steps.drain(a + own..b).collect();
            let at = a;
            steps.splice(at..at, later.into_iter().chain(between));
        }
        Mutation::MoveSource | Mutation::MoveTarget => {
            let count = program.transfers.len();
            let transfer = program.transfers.get_mut(draw % count.max(1))?;
            let side =
                if mutation == Mutation::MoveSource { &mut transfer.source } else { &mut transfer.target };
            side.0 = if draw.is_multiple_of(2) { side.0 + by } else { side.0.checked_sub(by)? };
        }
        Mutation::MoveFetch | Mutation::MoveCommit => {
            let count = program.execs.len();
            let exec = program.execs.get_mut(draw % count.max(1))?;
            let ExecBody::Stream(stream) = &mut exec.body else { return None };
            let fetch = mutation == Mutation::MoveFetch;
            let base = if fetch { &mut stream.fetch.base } else { &mut stream.commit.base };
            *base = if draw.is_multiple_of(2) { *base + by } else { base.checked_sub(by)? };
        }
    }
    Some(())
}

/// What became of changes of one kind.
#[derive(Clone, Debug, Default)]
struct Survey {
    harmless: usize,
    /// Of these, refused all the same.
    strict: usize,
    refused: usize,
    missed: Vec<String>,
}

#[test]
fn faults_that_matter_are_refused_before_a_run() {
    let machine = tcp();
    let plans = GRAPHS.map(|case| {
        let whole = planned(&machine, case);
        assert!(!is_refused(&machine, &whole), "{}", whole.kernels.name);
        let right = run(&machine, &whole);
        assert!(matches!(right, Ending::Gave(_)), "{right:?}");
        (whole, right)
    });
    for (at, mutation) in MUTATIONS.into_iter().enumerate() {
        let mut survey = Survey::default();
        for (whole, right) in &plans {
            for draw in 0..draws(24, 400) {
                let mut faulty = whole.clone();
                if mutated(&mut faulty.program, mutation, draw * 7919 + at).is_none() {
                    continue;
                }
                let refused = is_refused(&machine, &faulty);
                let ended = run(&machine, &faulty);
                match (ended == *right, refused) {
                    (true, strict) => {
                        survey.harmless += 1;
                        survey.strict += usize::from(strict);
                    }
                    (false, true) => survey.refused += 1,
                    (false, false) => {
                        let how = match ended {
                            Ending::Gave(_) => "other values".to_string(),
                            Ending::Refused(why) | Ending::Broken(why) => why,
                        };
                        survey.missed.push(format!("{} draw {draw}: {how}", whole.kernels.name));
                    }
                }
            }
        }
        let Survey { harmless, strict, refused, missed } = survey;
        let all = refused + missed.len();
        // Which part of a value a command means nothing but the value itself says: a shift within it is seen
        // where bytes are then missing, written twice or not its own.
        let least = match mutation {
            Mutation::DropOrder | Mutation::DropCommand | Mutation::Swap => 100,
            // The host writes inputs inside of their padding, which is part of the value, and windows are
            // read from the input itself.
            Mutation::MoveSource => 70,
            Mutation::MoveTarget | Mutation::MoveFetch => 85,
            // What is missing then may lie where a tile before was cleared.
            Mutation::MoveCommit => 88,
        };
        let found =
            format!("{mutation:?}: {refused} of {all} refused, {harmless} harmless ({strict} refused)");
        assert!(refused > 30 && 100 * refused >= least * all, "{found}, missed: {missed:#?}");
    }
}
