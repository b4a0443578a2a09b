//! Speed and memory of the timeline: commands and simulated cycles a second on one core, alone with totals
//! only, with findings, and with a trace that is streamed away.
//!
//! `cargo bench -p tilewright-bench --bench timeline`

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::hint::black_box;
use std::ops::ControlFlow;

use tilewright_base::{Sources, Span};
use tilewright_bench::{Bench, measure};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_num::Dtype;
use tilewright_record::{KeepLast, Sink, perfetto};
use tilewright_tcp_isa::program::control::{Command, ControlExpr, ControlOperand, Queue, Step, StepKind};
use tilewright_tcp_isa::program::event::RunEvent;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, Exec, ExecBody, Fetch, Loop, Memory, ShortLoad, StepLoop,
    Stream, Switch,
};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::{Count, ExecId, Program, Register, RegisterId, TransferId};
use tilewright_tcp_sim::{Detail, NoObserver, Observer, SimOptions, SimOutcome, simulate};

fn main() {
    let machine = tcp();
    let before = peak_kib();
    let large = program(1, &[(22, 2048, 4096)]);
    black_box(run(&machine, &large));
    let limit = 64 << 10;
    println!("{:<52} {}   limit {limit:>10} KiB", "2048x4096x11008, peak memory", memory(peak_kib()));
    println!("{:>52} {} before it", "", memory(before));
    let rows = [
        ("1 M commands from a loop, 1 PE", program(1, &[(142_858, 16, 128)]), [1e6, 0.0]),
        ("1 M commands from a loop, 8 PEs", program(8, &[(17_858, 16, 128)]), [1e6, 0.0]),
        ("2048x4096x11008 in INT8, 1 PE", large, [0.0, 20e6]),
        ("contractions of a LLaMA-2 7B block, 8 PEs", program(8, &BLOCK), [0.0, 20e6]),
    ];
    for (name, program, goals) in &rows {
        let outcome = run(&machine, program);
        rates(name, &outcome, *goals, || {
            black_box(run(&machine, black_box(program)));
        });
        println!("{:>52} {} commands, {} cycles", "", outcome.commands, outcome.cycles);
    }
    for (name, program, _) in &rows[..2] {
        let outcome = run(&machine, program);
        rates(&format!("{name}, findings"), &outcome, [0.0; 2], || {
            let mut judge = Findings(tilewright_tcp_sim::findings::FindingsChecker::new(&machine, program));
            black_box(observed(&machine, black_box(program), Detail::Totals, KeepLast::new(0), &mut judge));
            black_box(judge.0.finish());
        });
        rates(&format!("{name}, trace"), &outcome, [0.0; 2], || {
            let sink = perfetto::Stream::new(std::io::sink());
            black_box(observed(&machine, black_box(program), Detail::Everything, sink, &mut NoObserver));
        });
    }
    println!("{:<52} {}", "peak memory of all of these", memory(peak_kib()));
}

/// Memory in words.
fn memory(kib: Option<u64>) -> String {
    kib.map_or("not known".to_string(), |kib| format!("{kib:>12} KiB"))
}

/// A prefill of 2,048 tokens on one of eight PEs, 512 columns a turn: QKV, scores, values, output, gate and
/// up, down; turns, rows, length.
const BLOCK: [(i64, u64, u64); 6] =
    [(3, 2048, 4096), (16, 2048, 128), (1, 2048, 2048), (1, 2048, 4096), (6, 2048, 4096), (8, 2048, 1408)];

fn rates(name: &str, outcome: &SimOutcome, goals: [f64; 2], mut body: impl FnMut()) {
    let commands =
        Bench { name: &format!("{name}, commands"), goal_per_s: goals[0], items: outcome.commands };
    let rate = measure(&commands, &mut body);
    let before = cpu_ns();
    body();
    let busy_ns = before.zip(cpu_ns()).and_then(|(before, after)| after.checked_sub(before));
    let rate_of = |busy_ns: u64| (u128::from(outcome.commands) * 1_000_000_000).checked_div(busy_ns.into());
    if let Some(rate) = busy_ns.and_then(rate_of) {
        println!("{name:<44} {rate:>12} commands a second of processor time");
    }
    #[expect(clippy::cast_precision_loss, reason = "counts that a benchmark reaches")]
    let cycles = rate * outcome.cycles as f64 / outcome.commands.max(1) as f64;
    let verdict = match goals[1] {
        0.0 => "no goal".to_string(),
        goal if cycles >= goal => format!("goal {goal:e} /s   reached"),
        goal => format!("goal {goal:e} /s   MISSED"),
    };
    println!("{name:<44} cycles: {cycles:>10.3e} /s   {verdict}");
}

/// Nanoseconds that the host gave this thread, where it says so: a loaded host is not taken for a slow
/// program.
#[expect(clippy::disallowed_methods, reason = "a benchmark asks its host")]
fn cpu_ns() -> Option<u64> {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    spent.split_whitespace().next().and_then(|first| first.parse().ok())
}

/// The most memory that this process ever had, where the host says so.
#[expect(clippy::disallowed_methods, reason = "a benchmark asks its host")]
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
}

/// Judges races and the like while the timeline runs.
struct Findings<'m>(tilewright_tcp_sim::findings::FindingsChecker<'m>);

impl Observer for Findings<'_> {
    fn observe(&mut self, event: &RunEvent<'_>) -> ControlFlow<()> {
        self.0.observe(event);
        ControlFlow::Continue(())
    }

    fn read(&mut self, _address: Address, _dtype: Dtype) -> Option<i64> {
        None
    }
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("tcp comes with the project"));
    load(&mut sources, id, &|_| None).expect("tcp loads").machine.tcp().expect("a tcp").clone()
}

fn run(machine: &Tcp, program: &Program) -> SimOutcome {
    observed(machine, program, Detail::Totals, KeepLast::new(0), &mut NoObserver)
}

fn observed<S: Sink>(
    machine: &Tcp,
    program: &Program,
    detail: Detail,
    sink: S,
    judge: &mut dyn Observer,
) -> SimOutcome {
    let options = SimOptions { detail, check: false, ..SimOptions::default() };
    simulate(machine, program, &options, sink, judge).expect("it runs")
}

/// Every PE, for each contraction: weights arrive, go to the other half of the register files, and meet a
/// stream, seven commands a turn.
fn program(pes: u64, contractions: &[(i64, u64, u64)]) -> Program {
    let mut program = Program { machine: "tcp".into(), chips: 1, ..Program::default() };
    let mut steps = Vec::new();
    for (number, &(turns, rows, length)) in (0..).zip(contractions) {
        program.transfers.push(weights(8 * length));
        program.execs.extend([contraction(rows, length), weights_load(8 * length)]);
        let run =
            |exec, context, id| [push(Command::Load(ExecId(exec))), push(Command::Exec { context, id })];
        let mut body = vec![push(Command::Dma { transfer: TransferId(number), id: 0 })];
        body.extend(run(2 * number + 1, Context::Sub, 1));
        body.extend(run(2 * number, Context::Main, 0));
        body.push(push(Command::WaitD(0)));
        body.push(push(Command::WaitE(1)));
        let [from, to] = [0, turns].map(|value| ControlExpr::Operand(ControlOperand::Number(value)));
        steps.push(step(StepKind::For { register: RegisterId(0), from, to, body }));
    }
    let most = contractions.iter().map(|(turns, ..)| *turns).max().unwrap_or(0);
    program.registers =
        vec![Register { name: "i".into(), initial: 0, least: 0, most, span: Span::default() }];
    let queues = (0..pes).map(|pe| Queue { chip: 0, pe, steps: steps.clone(), span: Span::default() });
    program.queues = queues.collect();
    program
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
    let source = Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset: 0 });
    let target =
        Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice: 0 }, offset: 0x6_0000 });
    Transfer { name: "weights".into(), source, target, loops, packet, index: None, span: Span::default() }
}

/// They go to the upper half, while the lower is in use.
fn weights_load(slice_bytes: u64) -> Exec {
    let bytes = slice_bytes.min(4096);
    let short = ShortLoad { from: 0x6_0000, bytes, memory: Memory::Trf { lanes: 8 }, base: 4096 };
    Exec {
        name: "load".into(),
        context: Context::Sub,
        pes: 1,
        body: ExecBody::Short(short),
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
        body: ExecBody::Stream(Box::new(stream)),
        span: Span::default(),
    }
}
