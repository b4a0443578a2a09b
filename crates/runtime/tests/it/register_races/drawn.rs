//! Small random programs that use the register files from both contexts.
//!
//! Every image reads data memory at a place of its own and commits to a place of its own, so that nothing but
//! the register files can make two of them race.

use tilewright_base::random::below;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::control::{Command, ControlExpr, ControlOperand, Step, StepKind};
use tilewright_tcp_isa::program::exec::{Context, Exec, ExecBody, Fill, Memory};
use tilewright_tcp_isa::program::vector::OperandSource;

use super::PES;
use super::build::{addition, commit, contraction, copy, load, push, queue, rows, run, short, span, step};

/// Bytes of data memory that an image reads, and bytes that it may write.
const OWN_BYTES: u64 = 256;
/// Bytes of the toy's tensor register file.
const TRF_BYTES: u64 = 8192;

pub(super) fn program(seed: u64) -> Program {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x51;
    let draw = &mut state;
    let execs: Vec<Exec> = (0..6).map(|at| image(draw, at)).collect();
    let alone = below(draw, 2) == 0;
    let queues = (0..PES).map(|pe| {
        let most = if alone { 6 * u64::from(pe == 0) } else { 3 };
        queue(pe, steps(draw, &execs, pe, most, !alone))
    });
    Program { machine: "toy-tcp".into(), chips: 1, queues: queues.collect(), execs, ..Program::default() }
}

fn image(draw: &mut u64, at: u64) -> Exec {
    let (from, to) = (OWN_BYTES * at, 2048 + OWN_BYTES * at);
    let name = format!("image{at}");
    let mut exec = match below(draw, 9) {
        0 | 1 => trf_load(draw, &name, from),
        2 => short(&name, from, 8 << below(draw, 5), trf(draw), 1024 * below(draw, 4) + 32 * below(draw, 8)),
        3 => short(&name, from, 8 << below(draw, 5), Memory::Vrf, 8 * below(draw, 8)),
        4 => fill(draw, &name, at),
        5 | 6 => multiply(draw, &name, from, to),
        7 => add(draw, &name, from, to),
        _ => vrf_copy(draw, &name, from),
    };
    exec.pes = if below(draw, 4) == 0 { PES } else { 1 };
    mask(draw, &mut exec);
    exec
}

fn trf(draw: &mut u64) -> Memory {
    Memory::Trf { lanes: 1 << below(draw, 4) }
}

/// Rows for some lanes, a run of flits each.
fn trf_load(draw: &mut u64, name: &str, from: u64) -> Exec {
    let (lanes, flits) = (1 << below(draw, 4), 1 + below(draw, 4));
    let lane_bytes = TRF_BYTES / lanes;
    let filled = 1 + below(draw, lanes.min(2));
    let base = 32 * below(draw, 8);
    let mut exec = copy(name, Context::Sub, from, base, filled * flits);
    if let ExecBody::Stream(stream) = &mut exec.body {
        let stride = i64::try_from(lane_bytes).unwrap();
        stream.commit = commit(Memory::Trf { lanes }, base, &[(filled, stride), (flits, 32)], 32);
        stream.commit.width = 8;
    }
    exec
}

fn fill(draw: &mut u64, name: &str, at: u64) -> Exec {
    let memory = if below(draw, 2) == 0 { trf(draw) } else { Memory::Vrf };
    let count = 1 + below(draw, 4);
    let mut commit = commit(memory, 32 * below(draw, 4), &[(count, 32)], 32);
    commit.width = 8;
    let body = ExecBody::Fill(Fill { word: 0x0123_4567_89ab_cdef_u64.wrapping_mul(2 * at + 3), commit });
    Exec { name: name.into(), context: Context::Sub, pes: 1, body, span: span(3) }
}

/// A contraction that walks some rows of each lane.
fn multiply(draw: &mut u64, name: &str, from: u64, to: u64) -> Exec {
    let mut exec = contraction(name);
    if let ExecBody::Stream(stream) = &mut exec.body {
        stream.fetch.base = from;
        stream.commit.base = to;
        let contract = stream.contract.as_mut().unwrap();
        contract.base = 64 * below(draw, 4);
        if below(draw, 2) == 0 {
            let stride = 64 * (1 + i64::try_from(below(draw, 4)).unwrap());
            contract.loops = rows(&[(4, 0), (2, stride), (64, 1)]);
        }
    }
    exec
}

fn add(draw: &mut u64, name: &str, from: u64, to: u64) -> Exec {
    let mut exec = addition(name);
    if let ExecBody::Stream(stream) = &mut exec.body {
        stream.fetch.base = from;
        stream.commit.base = to;
        let operand = &mut stream.vector.as_mut().unwrap().ops[0].operands[0].sources[0].source;
        let step = i64::try_from(8 * below(draw, 3)).unwrap();
        *operand = OperandSource::Vrf { base: 4 * below(draw, 16), loops: rows(&[(4, step), (8, 1)]) };
    }
    exec
}

/// A copy of flits into the vector register file, from either context.
fn vrf_copy(draw: &mut u64, name: &str, from: u64) -> Exec {
    let context = if below(draw, 2) == 0 { Context::Main } else { Context::Sub };
    let flits = 1 + below(draw, 4);
    let mut exec = copy(name, context, from, 32 * below(draw, 4), flits);
    if let ExecBody::Stream(stream) = &mut exec.body {
        stream.commit.memory = Memory::Vrf;
        stream.fetch.dtype = Dtype::I8;
    }
    exec
}

/// Some commands commit on a part of their slices alone.
fn mask(draw: &mut u64, exec: &mut Exec) {
    let slices = 8 * exec.pes;
    let commit = match &mut exec.body {
        ExecBody::Stream(stream) => &mut stream.commit,
        ExecBody::Fill(fill) => &mut fill.commit,
        ExecBody::Short(_) => return,
    };
    if below(draw, 3) == 0 {
        let first = below(draw, slices);
        commit.slices = vec![(first, first + 1 + below(draw, slices - first))];
    }
}

/// Commands of one queue, with waits, syncs and messages among them.
fn steps(draw: &mut u64, execs: &[Exec], pe: u64, most: u64, peers: bool) -> Vec<Step> {
    let (mut steps, mut open) = (Vec::new(), Vec::new());
    for id in 0..most {
        let id = u8::try_from(id).unwrap();
        let at = usize::try_from(below(draw, execs.len() as u64)).unwrap();
        // A fused command is of the first PE of its group.
        if execs[at].pes > 1 && pe != 0 {
            continue;
        }
        steps.extend([load(u32::try_from(at).unwrap()), run(execs[at].context, id)]);
        open.push(id);
        match below(draw, if peers { 10 } else { 6 }) {
            0 | 1 => {
                let waited = open.remove(usize::try_from(below(draw, open.len() as u64)).unwrap());
                steps.push(push(Command::WaitE(waited)));
            }
            2 => {
                let waited = open.remove(usize::try_from(below(draw, open.len() as u64)).unwrap());
                steps.push(step(StepKind::Await { transfer: false, id: waited }));
            }
            3 if below(draw, 3) == 0 => {
                steps.push(step(StepKind::Sync));
                open.clear();
            }
            6 | 7 => {
                let value = ControlExpr::Operand(ControlOperand::Number(1));
                steps.push(step(StepKind::Post { chip: 0, pe: 1 - pe, value }));
            }
            8 => steps.push(step(StepKind::Receive { chip: 0, pe: 1 - pe, register: None })),
            _ => {}
        }
    }
    steps
}
