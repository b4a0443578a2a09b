//! Whole commands in bulk and element by element: random images leave the same memories, or fail the same
//! way.

use proptest::prelude::*;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_exec::{MemoryState, exec, exec_literally};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{
    Commit, ExecBody, Fetch, Indirect, Interleave, Limit, Lookup, Loop, Memory, SliceDigit, Stream, Switch,
    Transpose,
};
use tilewright_tcp_isa::program::vector::{
    GuardedSource, InterSliceReduce, Op, OpKind, OperandChoice, OperandSource, ReduceOp, ReduceOutput,
    Vector, Word,
};
use tilewright_tcp_isa::switch::{Ring, Topology};

use crate::run::contract::{contraction, step};
use crate::run::images::{Dice, PE, at, bits, fetch, image, read, row, tcp};

const SLICES: u64 = 16;
/// Bytes of data memory that fetches read, and where commits write.
const DATA: u64 = 0x4000;
const OUT: u64 = 0x8000;
const OUT_BYTES: u64 = 0x8000;

/// A machine whose memories are small enough to be copied for every case.
fn small() -> Tcp {
    let mut machine = tcp().clone();
    machine.pe.slices = SLICES;
    machine.dm.capacity_bytes = OUT + OUT_BYTES;
    machine
}

/// Loops over so many elements, mostly neighbours.
fn loops(dice: &mut Dice, mut elements: u64, apart: i64) -> Vec<Loop> {
    let mut rows = Vec::new();
    let mut reach = apart;
    while elements > 1 {
        let divisors: Vec<u64> =
            (2..=elements.min(64)).filter(|size| elements.is_multiple_of(*size)).collect();
        let size = if dice.roll(4) == 0 { elements } else { *divisors.first().unwrap_or(&elements) };
        let size = if divisors.is_empty() { size } else { size.max(dice.pick(&divisors)) };
        let size = if elements.is_multiple_of(size) { size } else { elements };
        rows.insert(0, row(size, if dice.roll(5) == 0 { reach + 3 * apart } else { reach }));
        reach = reach.saturating_mul(size as i64);
        elements /= size;
        if dice.roll(6) == 0 {
            rows.insert(0, row(1, dice.pick(&[0, 7, -5])));
        }
    }
    if rows.is_empty() { vec![row(1, 1)] } else { rows }
}

/// A fetch of some packets, and the type that leaves.
fn draw_fetch(dice: &mut Dice, dtype: Dtype, packet: u64, packets: u64) -> Fetch {
    let mut image = fetch(dtype, packet, loops(dice, packet * packets, 1));
    image.base = dice.pick(&[0, 0, 64, 4, DATA - 64]);
    if dice.roll(6) == 0 {
        let size = image.loops[0].size;
        image.loops[0] = Loop { size, stride: dice.pick(&[-1, 0, 5]) };
    }
    match dice.roll(8) {
        0 => {
            image.loops.insert(0, row(2, 0));
            image.packet = packet;
            image.interleave = Some(Interleave { at_loop: 0, base: 512 });
        }
        1 => {
            let at_loop = dice.roll(image.loops.len() as u64) as usize;
            image.indirect = Some(Indirect { at_loop, table: 128 });
        }
        _ => {}
    }
    if dice.roll(4) == 0 {
        let weights = image.loops.iter().map(|row| row.stride.unsigned_abs().min(1 << 12)).collect();
        let digit = SliceDigit { stride: dice.pick(&[1, 4, 0]), size: 8, weight: dice.roll(9) };
        let extent = Count::Fixed(dice.roll(packet * packets + 8));
        image.limits.push(Limit { extent, slices: vec![digit], weights });
    }
    image
}

fn draw_adapter(dice: &mut Dice, image: &mut Fetch) {
    match (image.dtype, dice.roll(3)) {
        (Dtype::I8, 0) => image.cast = Some(dice.pick(&[Dtype::I32, Dtype::F32, Dtype::Bf16])),
        (Dtype::I8, 1) => image.zero_point = Some(dice.roll(256) as i64 - 128),
        (Dtype::Bf16, 0) => image.cast = Some(dice.pick(&[Dtype::F32, Dtype::I8, Dtype::F8E4M3Fn])),
        (Dtype::F32, 0) => image.cast = Some(dice.pick(&[Dtype::Bf16, Dtype::I8, Dtype::F32])),
        (Dtype::I32, 0) => image.cast = Some(dice.pick(&[Dtype::I8, Dtype::I16, Dtype::F32, Dtype::I4])),
        (Dtype::F8E4M3Fn, 0) => {
            let entries = dice.pick(&[256, 256, 255]);
            let patterns = (0..entries).map(|_| dice.next() as u32 & 0xFFFF).collect();
            image.lookup = Some(Lookup { dtype: Dtype::Bf16, patterns });
        }
        (Dtype::I4, 0) => image.cast = Some(dice.pick(&[Dtype::I32, Dtype::I8])),
        _ => {}
    }
}

fn draw_switch(dice: &mut Dice) -> Switch {
    let ring = dice.pick(&[
        Ring { slice1: 1, slice0: 4 },
        Ring { slice1: 4, slice0: 2 },
        Ring { slice1: 2, slice0: 8 },
    ]);
    let topology = dice.pick(&[
        Topology::Forwarding,
        Topology::Forwarding,
        Topology::Forwarding,
        Topology::Broadcast01(ring, 1),
        Topology::Broadcast01(ring, 2),
        Topology::Broadcast1(ring),
        Topology::Transpose(ring),
        Topology::InterTranspose(ring, 1),
        Topology::TransposedBroadcast1(ring),
        Topology::Custom(4),
    ]);
    let sources = match topology {
        Topology::Custom(_) => vec![vec![0, 2], vec![3, 1], vec![1, 2], vec![0, 3]],
        _ => Vec::new(),
    };
    Switch { topology, sources }
}

/// Packets that a slice receives for each that it sends.
fn kept(switch: &Switch) -> u64 {
    match switch.topology {
        Topology::Broadcast01(ring, _) => ring.slice1 * ring.slice0,
        Topology::Broadcast1(ring) => ring.slice1,
        Topology::TransposedBroadcast1(ring) => ring.slice0,
        Topology::Custom(_) => 2,
        _ => 1,
    }
}

fn op(kind: OpKind, source: Option<OperandSource>) -> Op {
    let guarded = |source| OperandChoice { sources: vec![GuardedSource { mask: 0, value: 0, source }] };
    Op { kind, operands: source.map(guarded).into_iter().collect(), reversed: false, stash: false }
}

fn draw_vector(dice: &mut Dice, input: Word, elements: u64) -> Vector {
    let vrf = OperandSource::Vrf { base: 32, loops: loops(dice, elements, 1) };
    let ops = match (input, dice.roll(3)) {
        (Word::I32, 0) => vec![op(OpKind::Add, Some(vrf)), op(OpKind::ToFloat { int_width: 31 }, None)],
        (Word::I32, _) => vec![op(OpKind::Mul, Some(OperandSource::Immediate(3)))],
        (Word::F32, 0) => {
            vec![op(OpKind::Mul0, Some(vrf)), op(OpKind::FAdd, Some(OperandSource::Immediate(0x3F80_0000)))]
        }
        (Word::F32, _) => vec![op(OpKind::Mul0, Some(vrf)), op(OpKind::ToFixed { int_width: 31 }, None)],
    };
    let none = Vec::new();
    let between = (dice.roll(2) == 0).then(|| InterSliceReduce {
        op: match input {
            Word::I32 => dice.pick(&[ReduceOp::AddWrap, ReduceOp::AddWrap, ReduceOp::Add, ReduceOp::Max]),
            Word::F32 => dice.pick(&[ReduceOp::Add, ReduceOp::Min, ReduceOp::Mul]),
        },
        slices: dice.pick(&[SLICES, 4, 2, 3]),
        gives: dice.pick(&[
            ReduceOutput::First,
            ReduceOutput::Broadcast,
            ReduceOutput::Broadcast,
            ReduceOutput::Scatter { inner: 1 },
        ]),
    });
    Vector { input, trim: false, pair: false, tags: none, ops, between, between_first: dice.roll(2) == 0 }
}

fn draw_commit(dice: &mut Dice, flits: u64, full: u64) -> Commit {
    let memory = dice.pick(&[Memory::Dm, Memory::Dm, Memory::Trf { lanes: 8 }, Memory::Vrf]);
    let bytes = dice.pick(&[8, 16, 24, 32, full, full, full]);
    let base = if memory == Memory::Dm { dice.pick(&[OUT, OUT, OUT + 64, 256]) } else { 0 };
    let slices = if dice.roll(4) == 0 { vec![(1, 5), (9, 14)] } else { Vec::new() };
    let loops = loops(dice, flits, bytes as i64);
    Commit { memory, base, loops, bytes, width: 32, to_bf16: false, relu: false, slices }
}

/// An image whose units mostly fit one another.
fn draw(dice: &mut Dice) -> Stream {
    let contracted = dice.roll(3) == 0;
    let switch = draw_switch(dice);
    let dtype = if contracted {
        dice.pick(&[Dtype::I8, Dtype::I8, Dtype::Bf16, Dtype::I4])
    } else {
        dice.pick(&[Dtype::I8, Dtype::Bf16, Dtype::F32, Dtype::I32, Dtype::F8E4M3Fn, Dtype::I4])
    };
    let packet = dice.pick(&[32, 32, 64, 16, 8]) * 8 / bits(dtype);
    let sent = dice.pick(&[4, 8, 8, 12]);
    let mut fetch = draw_fetch(dice, dtype, packet, sent);
    if !contracted {
        draw_adapter(dice, &mut fetch);
    }
    let sent = if fetch.interleave.is_some() { 2 * sent } else { sent };
    let leaves = fetch.leaves();
    let packet_flits = (packet * bits(leaves) / 8).div_ceil(32);
    let mut flits = sent * kept(&switch) * packet_flits;
    let mut contract = None;
    let mut word = match leaves {
        Dtype::I32 => Some(Word::I32),
        Dtype::F32 => Some(Word::F32),
        _ => None,
    };
    if contracted && flits.is_multiple_of(8) {
        let width = 512 / bits(dtype);
        let packets = flits / 2;
        let (rows, depth) = dice.pick(&[(packets, 1), (1, packets), (packets / 4, 4), (4, packets / 4)]);
        let tree = dice.pick(&[width, width, 32, 1]);
        let inner = if dice.roll(4) == 0 { row(8, 0) } else { row(width, 1) };
        let (active, tree) = if inner.size == Count::Fixed(8) { (8, 1) } else { (width, tree) };
        let trf = dice.pick(&[0, 0, 1, 64]);
        let rows_at = row(rows, trf);
        let mut image = contraction(
            dtype,
            vec![rows_at, row(depth, width as i64), row(2, 512), inner],
            vec![step(rows, false), step(depth, true), step(2, false)],
        );
        (image.flits, image.repeats, image.tree) = (2, Count::Fixed(2), tree);
        flits = rows * 2 * (active / tree).clamp(1, 8);
        word = Some(if dtype == Dtype::Bf16 { Word::F32 } else { Word::I32 });
        contract = Some(image);
    }
    let vector = word.filter(|_| dice.roll(2) == 0).map(|word| draw_vector(dice, word, flits * 8));
    let word = vector.as_ref().map_or(word, |vector| match vector.ops.last().unwrap().kind {
        OpKind::ToFloat { .. } | OpKind::FAdd => Some(Word::F32),
        _ => Some(Word::I32),
    });
    let cast = word.filter(|_| dice.roll(2) == 0).map(|word| match word {
        Word::I32 => dice.pick(&[Dtype::I8, Dtype::I16, Dtype::I4, Dtype::I32]),
        Word::F32 => dice.pick(&[Dtype::Bf16, Dtype::F8E4M3Fn, Dtype::F8E5M2]),
    });
    let transpose = (cast == Some(Dtype::Bf16) && dice.roll(3) == 0).then_some(Transpose {
        rows: 4,
        columns: 8,
        kept: 8,
    });
    let flits = if transpose.is_some() { flits / 4 * 8 } else { flits };
    // Eight elements of so many bits are as many bytes.
    let full = cast.map_or(32, bits);
    let mut commit = draw_commit(dice, flits, full);
    if cast.is_none() && word == Some(Word::F32) && dice.roll(2) == 0 {
        (commit.to_bf16, commit.relu) = (true, dice.roll(2) == 0);
    }
    Stream { fetch, switch, contract, vector, cast, transpose, commit }
}

/// Memories of all slices; neighbours have the same data as long as their number divided by `alike` is the
/// same, and the same register files for a while longer.
fn filled(machine: &Tcp, seed: u64, alike: u64) -> MemoryState {
    let mut state = MemoryState::new(machine, 1);
    for slice in 0..SLICES {
        let dice = &mut Dice(seed + slice / alike);
        let mut data = if slice % 5 > 2 { vec![0; DATA as usize] } else { dice.bytes(DATA as usize) };
        // Rows of an indirect fetch: small numbers.
        data[128..640].chunks_mut(4).for_each(|entry| entry[1..].fill(0));
        state.write_slice(at(slice, Memory::Dm, 0), &data).unwrap();
        state.write_slice(at(slice, Memory::Trf { lanes: 8 }, 0), &dice.bytes(65536)).unwrap();
        let dice = &mut Dice(seed + slice / (2 * alike - 1));
        state.write_slice(at(slice, Memory::Vrf, 0), &dice.bytes(8192)).unwrap();
    }
    state
}

fn memories(state: &MemoryState) -> Vec<u8> {
    let parts = [(Memory::Dm, OUT + OUT_BYTES), (Memory::Trf { lanes: 8 }, 65536), (Memory::Vrf, 8192)];
    let all = (0..SLICES).flat_map(|slice| parts.map(|(memory, bytes)| read(state, slice, memory, 0, bytes)));
    all.flatten().collect()
}

#[test]
fn bulk_and_literal_leave_the_same() {
    both_leave_the_same(1);
}

#[test]
fn one_slice_computes_for_those_that_are_alike() {
    both_leave_the_same(5);
}

fn both_leave_the_same(alike: u64) {
    let seeds = any::<u64>();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(96));
    let machine = small();
    let state = filled(&machine, 7, alike);
    let fitting = std::cell::Cell::new(0_u32);
    let ran = runner.run(&seeds, |seed| {
        let dice = &mut Dice(seed);
        let own = |stream: &Stream| {
            let plain = stream.switch.topology == Topology::Forwarding && stream.contract.is_none();
            plain && stream.vector.is_some() && stream.commit.slices.is_empty()
        };
        let stream = std::iter::repeat_with(|| draw(dice)).find(|stream| alike == 1 || own(stream)).unwrap();
        let command = image(ExecBody::Stream(Box::new(stream)));
        let (mut quick, mut slow) = (state.clone(), state.clone());
        let done = exec(&machine, &mut quick, PE, &command);
        let stepped = exec_literally(&machine, &mut slow, PE, &command);
        prop_assert_eq!(&done, &stepped, "{:?}", command);
        fitting.set(fitting.get() + u32::from(done.is_ok()));
        prop_assert!(memories(&quick) == memories(&slow), "{:?}", command);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(fitting.get() >= 48, "only {} images fit", fitting.get());
}
