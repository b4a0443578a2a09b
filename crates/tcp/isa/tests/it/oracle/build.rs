//! Small programs: images, transfers, queues.

#![allow(dead_code, reason = "each test uses its part")]

use tilewright_base::{SourceId, Span};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{MapDigit, OFFSET};
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, Exec, ExecBody, Fetch, Loop, Memory, ShortLoad, StepLoop,
    Stream, Switch,
};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::vector::{
    GuardedSource, Op, OpKind, OperandChoice, OperandSource, Vector, Word,
};
use tilewright_tcp_isa::program::{Count, ExecId, Program, TransferId};

pub(crate) fn span(at: u32) -> Span {
    Span { source: SourceId(0), start: at, end: at + 1 }
}

pub(crate) fn rows(loops: &[(u64, i64)]) -> Vec<Loop> {
    loops.iter().map(|&(size, stride)| Loop { size: Count::Fixed(size), stride }).collect()
}

pub(crate) fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

pub(crate) fn dm(slice: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice }, offset })
}

pub(crate) fn spm(pe: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Spm { pe }, offset })
}

pub(crate) fn transfer(name: &str, source: Address, target: Address, packet: u64) -> Transfer {
    Transfer { name: name.into(), source, target, loops: Vec::new(), packet, index: None, span: span(1) }
}

pub(crate) fn transfer_loop(size: u64, source: i64, target: i64) -> TransferLoop {
    TransferLoop { size: Count::Fixed(size), source, target }
}

pub(crate) fn fetch(dtype: Dtype, base: u64, loops: &[(u64, i64)], packet: u64) -> Fetch {
    Fetch {
        dtype,
        base,
        interleave: None,
        loops: rows(loops),
        packet,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    }
}

pub(crate) fn commit(memory: Memory, base: u64, loops: &[(u64, i64)], bytes: u64) -> Commit {
    Commit {
        memory,
        base,
        loops: rows(loops),
        bytes,
        width: bytes,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    }
}

pub(crate) fn stream(fetch: Fetch, commit: Commit) -> Stream {
    Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: None,
        cast: None,
        transpose: None,
        commit,
    }
}

pub(crate) fn exec(name: &str, context: Context, stream: Stream) -> Exec {
    Exec { name: name.into(), context, pes: 1, body: ExecBody::Stream(Box::new(stream)), span: span(2) }
}

/// Copies `flits` flits of data memory.
pub(crate) fn copy(name: &str, context: Context, from: u64, to: u64, flits: u64) -> Exec {
    let width = if context == Context::Sub { 8 } else { 32 };
    let mut commit = commit(Memory::Dm, to, &[(flits, 32)], 32);
    commit.width = width;
    exec(name, context, stream(fetch(Dtype::I8, from, &[(flits, 32), (32, 1)], 32), commit))
}

pub(crate) fn short(name: &str, from: u64, bytes: u64, memory: Memory, base: u64) -> Exec {
    let body = ExecBody::Short(ShortLoad { from, bytes, memory, base });
    Exec { name: name.into(), context: Context::Sub, pes: 1, body, span: span(3) }
}

/// Four packets of 64 i8, each held for two steps on eight lanes.
pub(crate) fn contraction(name: &str) -> Exec {
    let mut stream =
        stream(fetch(Dtype::I8, 0, &[(4, 64), (64, 1)], 64), commit(Memory::Dm, 4096, &[(8, 32)], 32));
    stream.contract = Some(Contract {
        op: ContractOp::Add,
        flits: 2,
        transpose: None,
        shift: None,
        repeats: Count::Fixed(2),
        lanes: 8,
        dtype: Dtype::I8,
        base: 0,
        loops: rows(&[(4, 0), (2, 64), (64, 1)]),
        tree: 64,
        steps: vec![
            StepLoop { size: Count::Fixed(4), summed: false },
            StepLoop { size: Count::Fixed(2), summed: false },
        ],
        drain: Drain::Interleaved,
    });
    exec(name, Context::Main, stream)
}

/// Adds a word of the vector register file to every element.
pub(crate) fn addition(name: &str) -> Exec {
    let mut stream =
        stream(fetch(Dtype::I32, 0, &[(4, 8), (8, 1)], 8), commit(Memory::Dm, 4096, &[(4, 32)], 32));
    let source = OperandSource::Vrf { base: 0, loops: rows(&[(4, 8), (8, 1)]) };
    let guarded = GuardedSource { mask: 0, value: 0, source };
    stream.vector = Some(Vector {
        input: Word::I32,
        trim: false,
        pair: false,
        tags: Vec::new(),
        ops: vec![Op {
            kind: OpKind::Add,
            operands: vec![OperandChoice { sources: vec![guarded] }],
            reversed: false,
            stash: false,
        }],
        between: None,
        between_first: false,
    });
    exec(name, Context::Main, stream)
}

/// A tensor of `bytes` bytes in one row.
pub(crate) fn tensor(name: &str, role: TensorRole, place: TensorPlace, bytes: u64) -> Tensor {
    let mut map = RadixMap::default();
    map.from.push(bytes);
    map.to.extend([1, bytes]);
    map.digits.push(MapDigit { to_axis: OFFSET, to_stride: 1, from_axis: 0, from_stride: 1, size: bytes });
    Tensor {
        name: name.into(),
        dtype: Dtype::I8,
        axes: vec![("e".into(), bytes)],
        role,
        place,
        shape: format!("1 | e[{bytes}]"),
        map,
        data: if role == TensorRole::Output { TensorData::None } else { TensorData::Zeros },
        span: span(4),
    }
}

pub(crate) fn push(command: Command) -> Step {
    step(StepKind::Push(command))
}

pub(crate) fn step(kind: StepKind) -> Step {
    Step { kind, span: span(5) }
}

pub(crate) fn dma(transfer: u32, id: u8) -> Step {
    push(Command::Dma { transfer: TransferId(transfer), id })
}

pub(crate) fn load(exec: u32) -> Step {
    push(Command::Load(ExecId(exec)))
}

pub(crate) fn run(context: Context, id: u8) -> Step {
    push(Command::Exec { context, id })
}

pub(crate) fn queue(pe: u64, steps: Vec<Step>) -> Queue {
    // Every step has a place of its own.
    let number =
        |(at, step): (usize, Step)| Step { span: span(1000 + u32::try_from(at).unwrap_or(0)), ..step };
    Queue { chip: 0, pe, steps: steps.into_iter().enumerate().map(number).collect(), span: span(6) }
}

/// One image on one PE, loaded and run.
pub(crate) fn program_of(exec: Exec) -> Program {
    let context = exec.context;
    Program {
        machine: "tcp".into(),
        chips: 1,
        execs: vec![exec],
        queues: vec![queue(0, vec![load(0), run(context, 0), push(Command::WaitE(0))])],
        ..Program::default()
    }
}

/// HBM to data memory of a slice and back, a copy between, two PEs that talk.
pub(crate) fn plain() -> Program {
    Program {
        machine: "tcp".into(),
        chips: 1,
        transfers: vec![transfer("in", hbm(0), dm(0, 0), 128), transfer("out", dm(0, 4096), hbm(8192), 128)],
        execs: vec![copy("copy", Context::Main, 0, 4096, 4)],
        queues: vec![
            queue(
                0,
                vec![
                    dma(0, 0),
                    load(0),
                    push(Command::WaitD(0)),
                    run(Context::Main, 0),
                    push(Command::WaitE(0)),
                    dma(1, 0),
                    step(StepKind::Sync),
                ],
            ),
            queue(1, Vec::new()),
        ],
        ..Program::default()
    }
}

pub(crate) fn stream_of(program: &mut Program) -> &mut Stream {
    match &mut program.execs[0].body {
        ExecBody::Stream(stream) => stream,
        _ => panic!("a stream"),
    }
}

pub(crate) fn contract_of(program: &mut Program) -> &mut Contract {
    stream_of(program).contract.as_mut().expect("a contraction")
}
