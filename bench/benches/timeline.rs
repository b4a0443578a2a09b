//! Speed of the timeline alone, with totals only: commands and simulated cycles a second on one core.
//!
//! `cargo bench -p tilewright-bench --bench timeline`

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::hint::black_box;

use tilewright_base::{Sources, Span};
use tilewright_bench::{Bench, measure};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_sim::{Detail, NoJudge, Options, Outcome, simulate};
use tilewright_tcp::cost::Context;
use tilewright_tcp::cost::contraction::Drain;
use tilewright_tcp::program::control::{Command, Queue, Step, StepKind, Term, Value};
use tilewright_tcp::program::exec::{
    Body, Commit, Contract, ContractOp, Exec, Fetch, Loop, Memory, Short, StepLoop, Stream, Switch,
};
use tilewright_tcp::program::transfer::{Address, Located, Medium, SLICE_STRIDE, Transfer, TransferLoop};
use tilewright_tcp::program::{Count, ExecId, Program, Register, RegisterId, TransferId};

fn main() {
    let machine = tcp();
    // A row is a name, PEs, turns of the loop on each, rows of the streamed operand, its length, and goals in commands and in
    // simulated cycles a second.
    for (name, pes, turns, rows, length, goals) in [
        ("1 M commands from a loop, 1 PE", 1, 142_858, 16, 128, [1e6, 0.0]),
        ("1 M commands from a loop, 8 PEs", 8, 17_858, 16, 128, [1e6, 0.0]),
        ("2048x4096x11008 in INT8, 1 PE", 1, 22, 2048, 4096, [0.0, 20e6]),
    ] {
        let program = program(pes, turns, rows, length);
        let outcome = run(&machine, &program);
        let commands =
            Bench { name: &format!("{name}, commands"), goal_per_s: goals[0], items: outcome.commands };
        measure(&commands, || {
            black_box(run(&machine, black_box(&program)));
        });
        let cycles =
            Bench { name: &format!("{name}, simulated cycles"), goal_per_s: goals[1], items: outcome.cycles };
        measure(&cycles, || {
            black_box(run(&machine, black_box(&program)));
        });
        println!("{:>52} {} commands, {} cycles", "", outcome.commands, outcome.cycles);
    }
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("tcp comes with the project"));
    load(&mut sources, id, &|_| None).expect("tcp loads").machine.tcp().expect("a tcp").clone()
}

fn run(machine: &Tcp, program: &Program) -> Outcome {
    let options = Options { detail: Detail::Totals, check: false, ..Options::default() };
    simulate(machine, program, &options, KeepLast::new(0), &mut NoJudge).expect("it runs")
}

/// Every PE: weights arrive, go to the other half of the register files, and meet a stream, seven commands a turn.
fn program(pes: u64, turns: i64, rows: u64, length: u64) -> Program {
    let main =
        |exec| [push(Command::Load(ExecId(exec))), push(Command::Exec { context: Context::Main, id: 0 })];
    let sub =
        |exec| [push(Command::Load(ExecId(exec))), push(Command::Exec { context: Context::Sub, id: 1 })];
    let mut body = vec![push(Command::Dma { transfer: TransferId(0), id: 0 })];
    body.extend(sub(1));
    body.extend(main(0));
    body.push(push(Command::WaitD(0)));
    body.push(push(Command::WaitE(1)));
    let [from, to] = [0, turns].map(|value| Value::Just(Term::Number(value)));
    let steps = vec![step(StepKind::For { register: RegisterId(0), from, to, body })];
    let queues = (0..pes).map(|pe| Queue { chip: 0, pe, steps: steps.clone(), span: Span::default() });
    Program {
        machine: "tcp".into(),
        chips: 1,
        registers: vec![Register {
            name: "i".into(),
            initial: 0,
            least: 0,
            most: turns,
            span: Span::default(),
        }],
        transfers: vec![weights(8 * length)],
        execs: vec![contraction(rows, length), weights_load(8 * length)],
        queues: queues.collect(),
        ..Program::default()
    }
}

fn step(kind: StepKind) -> Step {
    Step { kind, span: Span::default() }
}

fn push(command: Command) -> Step {
    step(StepKind::Push(command))
}

/// So many bytes for each slice of a PE.
fn weights(slice_bytes: u64) -> Transfer {
    let stride = i64::try_from(slice_bytes).expect("small");
    let packet = slice_bytes.min(4096);
    let rows = slice_bytes / packet;
    let loops = vec![
        TransferLoop { size: Count::Fixed(rows), source: 4096, target: 4096 },
        TransferLoop { size: Count::Fixed(64), source: stride, target: SLICE_STRIDE },
    ];
    let source = Address::new(Located { chip: 0, medium: Medium::Hbm, offset: 0 });
    let target = Address::new(Located { chip: 0, medium: Medium::Dm { slice: 0 }, offset: 0x6_0000 });
    Transfer { name: "weights".into(), source, target, loops, packet, index: None, span: Span::default() }
}

/// They go to the upper half, while the lower is in use.
fn weights_load(slice_bytes: u64) -> Exec {
    let bytes = slice_bytes.min(4096);
    let short = Short { from: 0x6_0000, bytes, memory: Memory::Trf { lanes: 8 }, base: 4096 };
    Exec {
        name: "load".into(),
        context: Context::Sub,
        pes: 1,
        body: Body::Short(short),
        span: Span::default(),
    }
}

/// Rows of a length against eight rows in the register files, one a lane.
fn contraction(rows: u64, length: u64) -> Exec {
    let row = |size, stride| Loop { size: Count::Fixed(size), stride };
    let step = |size, summed| StepLoop { size: Count::Fixed(size), summed };
    let fetch = Fetch {
        dtype: Dtype::I8,
        base: 0,
        interleave: None,
        loops: vec![row(rows, 0), row(length, 1)],
        packet: 64,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    };
    let contract = Contract {
        op: ContractOp::Add,
        flits: 2,
        transpose: None,
        shift: None,
        repeats: Count::Fixed(1),
        lanes: 8,
        dtype: Dtype::I8,
        base: 0,
        loops: vec![row(rows, 0), row(length, 1)],
        tree: 64,
        steps: vec![step(rows, false), step(length / 64, true)],
        drain: Drain::Interleaved,
    };
    let commit = Commit {
        memory: Memory::Dm,
        base: 0x4_0000,
        loops: vec![row(rows, 32)],
        bytes: 32,
        width: 32,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    };
    let (switch, vector, cast, transpose) = (Switch::default(), None, None, None);
    let stream = Stream { fetch, switch, contract: Some(contract), vector, cast, transpose, commit };
    Exec {
        name: "contraction".into(),
        context: Context::Main,
        pes: 1,
        body: Body::Stream(Box::new(stream)),
        span: Span::default(),
    }
}
