//! Programs in a few words.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepAll;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, Exec, ExecBody, Fetch, Loop, Memory, ShortLoad, StepLoop,
    Stream, Switch,
};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::vector::{Op, OpKind, Vector, Word};
use tilewright_tcp_isa::program::{Count, ExecId, Program, Register, TransferId};
use tilewright_tcp_isa::switch::Topology;
use tilewright_tcp_sim::{NoObserver, RunEnd, SimError, SimOptions, SimOutcome, simulate};

/// Cycles from the end of the launch to the first entry in a queue.
pub(crate) const PUSH: u64 = 20;
/// Start of a transfer.
pub(crate) const START: u64 = 441;
/// Launch and finish.
pub(crate) const ENDS: u64 = 2600;

pub(crate) fn loops(rows: &[(u64, i64)]) -> Vec<Loop> {
    rows.iter().map(|&(size, stride)| Loop { size: Count::Fixed(size), stride }).collect()
}

fn named(name: &str, context: Context, body: ExecBody) -> Exec {
    Exec { name: name.into(), context, pes: 1, body, span: Span::default() }
}

/// Copies flits of 32 B from one place of data memory to another: 264 cycles, and one for each flit.
pub(crate) fn copy(flits: u64) -> Exec {
    let fetch = Fetch {
        dtype: Dtype::I8,
        base: 0,
        interleave: None,
        loops: loops(&[(flits * 32, 1)]),
        packet: 32,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    };
    let commit = Commit {
        memory: Memory::Dm,
        base: 0x4_0000,
        loops: loops(&[(flits, 32)]),
        bytes: 32,
        width: 32,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    };
    let stream = Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: None,
        cast: None,
        transpose: None,
        commit,
    };
    named("copy", Context::Main, ExecBody::Stream(Box::new(stream)))
}

pub(crate) fn stream_of(exec: &mut Exec) -> &mut Stream {
    match &mut exec.body {
        ExecBody::Stream(stream) => stream,
        _ => panic!("not a stream"),
    }
}

/// The same with one integer unit of the vector engine: 264, flits, depth 18, and 1.
pub(crate) fn vector(context: Context, flits: u64) -> Exec {
    let mut exec = Exec { context, name: "vector".into(), ..copy(flits) };
    let stream = stream_of(&mut exec);
    stream.fetch.dtype = Dtype::I32;
    stream.fetch.loops = loops(&[(flits * 8, 1)]);
    stream.fetch.packet = 8;
    let op = Op { kind: OpKind::Add, operands: Vec::new(), reversed: false, stash: false };
    let (ops, tags) = (vec![op], Vec::new());
    let (between, input) = (None, Word::I32);
    stream.vector =
        Some(Vector { input, trim: false, pair: false, tags, ops, between, between_first: false });
    exec
}

/// A custom topology in rings of four, in which each slice keeps its own packets.
pub(crate) fn custom(flits: u64) -> Exec {
    let mut exec = copy(flits);
    stream_of(&mut exec).switch =
        Switch { topology: Topology::Custom(4), sources: (0..4).map(|slice| vec![slice]).collect() };
    exec
}

/// Reads 8 B of one bank again and again.
pub(crate) fn starving(accesses: u64) -> Exec {
    let mut exec = copy(1);
    let stream = stream_of(&mut exec);
    stream.fetch.loops = loops(&[(accesses, 128), (8, 1)]);
    stream.fetch.packet = 8;
    stream.commit.loops = loops(&[(accesses, 32)]);
    exec
}

/// A load of the register file from a byte on: 264, and an eighth of the bytes.
pub(crate) fn short(bytes: u64, base: u64) -> Exec {
    let short = ShortLoad { from: 0, bytes, memory: Memory::Trf { lanes: 8 }, base };
    named("load", Context::Sub, ExecBody::Short(short))
}

/// A matrix product: `rows` streamed rows against 16 stationary rows, 128 elements each.
pub(crate) fn contraction(rows: u64) -> Exec {
    let mut exec = Exec { name: "contraction".into(), ..copy(1) };
    let stream = stream_of(&mut exec);
    stream.fetch.loops = loops(&[(rows * 128, 1)]);
    stream.fetch.packet = 128;
    stream.commit.loops = loops(&[(rows * 2, 32)]);
    let step = |size, summed| StepLoop { size: Count::Fixed(size), summed };
    stream.contract = Some(Contract {
        op: ContractOp::Add,
        flits: 2,
        transpose: None,
        shift: None,
        repeats: Count::Fixed(2),
        lanes: 8,
        dtype: Dtype::I8,
        base: 0,
        loops: loops(&[(rows, 0), (2, 64), (2, 128), (64, 1)]),
        tree: 64,
        steps: vec![step(rows, false), step(2, true), step(2, false)],
        drain: Drain::Interleaved,
    });
    exec
}

pub(crate) fn hbm(chip: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium: MemoryInstance::Hbm, offset })
}

pub(crate) fn dm(chip: u64, slice: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium: MemoryInstance::Dm { slice }, offset })
}

/// Off-chip memory to both networks of a PE, in requests of 256 B, one a cycle.
pub(crate) fn weights(pe: u64, requests: u64) -> Transfer {
    let loops = vec![
        TransferLoop { size: Count::Fixed(requests / 64), source: 64 * 256, target: 256 },
        TransferLoop { size: Count::Fixed(64), source: 256, target: SLICE_STRIDE },
    ];
    let (source, target) = (hbm(0, pe * requests * 256), dm(0, pe * 64, 0));
    Transfer {
        name: "weights".into(),
        source,
        target,
        loops,
        packet: 256,
        index: None,
        span: Span::default(),
    }
}

pub(crate) fn step(kind: StepKind) -> Step {
    Step { kind, span: Span::default() }
}

pub(crate) fn push(command: Command) -> Step {
    step(StepKind::Push(command))
}

/// Loads and starts an image.
pub(crate) fn run_exec(exec: u32, context: Context, id: u8) -> [Step; 2] {
    [push(Command::Load(ExecId(exec))), push(Command::Exec { context, id })]
}

pub(crate) fn dma(transfer: u32, id: u8) -> Step {
    push(Command::Dma { transfer: TransferId(transfer), id })
}

pub(crate) fn queue(chip: u64, pe: u64, steps: Vec<Step>) -> Queue {
    Queue { chip, pe, steps, span: Span::default() }
}

/// A program with one chip.
pub(crate) fn program(execs: Vec<Exec>, transfers: Vec<Transfer>, queues: Vec<Queue>) -> Program {
    Program { machine: "tcp".into(), chips: 1, execs, transfers, queues, ..Program::default() }
}

pub(crate) fn register(name: &str, initial: i64, most: i64) -> Register {
    Register { name: name.into(), initial, least: 0, most, span: Span::default() }
}

pub(crate) fn try_run(machine: &Tcp, program: &Program) -> Result<SimOutcome, SimError> {
    let options = SimOptions { max_steps: 100_000, check: true, ..SimOptions::default() };
    simulate(machine, program, &options, KeepAll::default(), &mut NoObserver)
}

/// Runs to the end, with every check.
pub(crate) fn run(machine: &Tcp, program: &Program) -> SimOutcome {
    let outcome = try_run(machine, program).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.ended, RunEnd::Finished);
    assert_eq!(outcome.violations, []);
    outcome
}

/// Start and end of every interval of a track.
pub(crate) fn spans(outcome: &SimOutcome, path: &str) -> Vec<(u64, u64)> {
    let record = &outcome.record;
    let events = record.events.iter().filter_map(|event| match event {
        tilewright_record::Event::Interval(interval) => Some(interval),
        tilewright_record::Event::Sample(_) => None,
    });
    let here = events.filter(|interval| record.layout.path(interval.track) == path);
    here.map(|interval| (interval.start_cycles, interval.end_cycles)).collect()
}
