//! Projections, features to rows: the contracted axis is dealt out over the slices, each slice sums its part,
//! the reducer between slices adds the parts and deals out tokens (paper section II-B, E3), or gives all of
//! them to every slice.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Contract, Drain, Memory, Stream, Switch};
use tilewright_tcp_isa::program::vector::{OpKind, ReduceOp, ReduceOutput, Vector, Word};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_lower::kernels::chain::{float, op};

use super::build::{Build, Mode, Part};
use super::fills::load;
use super::image::{bytes, chain, commit, contraction, copy, fetch, main, n, nest, steps, sub, vrf, with};
use super::norm::PAIR;
use super::plan::{Fill, Packed};
use crate::CompileError;
use crate::kernel::WeightMatrix;

/// Rows of a projection.
pub(super) fn project(
    build: &mut Build<'_>,
    kernel: usize,
    parts: &[WeightMatrix],
) -> Result<(), CompileError> {
    let packed = build.packed(kernel)?;
    let width = build.plan.parts(build.machine, parts).width;
    for (index, fill) in packed.fills.iter().enumerate() {
        load(build, packed, fill);
        let held = load_columns(build, kernel, index);
        // What is asked for ahead waits for the slot of these weights, and so does all that is issued behind
        // it.
        if index > 0 {
            load_worths(build, held);
            build.prefetch(usize::MAX);
            project_fill(build, packed, fill, (held, width));
            continue;
        }
        build.prefetch(usize::MAX);
        // Each part as soon as its tokens are there.
        build.each_part(
            |build, part| {
                super::exchange::gathered(build, part);
                load_worths(build, held);
                project_fill(build, packed, fill, (held, width));
            },
            |_| {},
        );
    }
    Ok(())
}

/// The rows at hand with a fill.
fn project_fill(build: &mut Build<'_>, packed: &Packed, fill: &Fill, (held, width): (Held, u64)) {
    let gives = match build.mode {
        Mode::Prefill | Mode::Batch => ReduceOutput::Scatter { inner: fill.groups },
        Mode::Decode => ReduceOutput::Broadcast,
    };
    let ends = ends(build, fill, held, gives);
    let between = build.between();
    let (word, row) = (bytes(between, 8), bytes(between, width));
    let to = build.at.rows + bytes(between, fill.first * 8) + build.part.first * row;
    let mut to = commit(Memory::Dm, to, &[build.part.by_row(row), (n(fill.groups), word)], word);
    to.to_bf16 = between == Dtype::Bf16;
    let stream = contract(build, packed, fill, ends);
    build.emit.exec(main("project", Stream { commit: to, ..stream }));
}

/// Where a register file has what belongs to rows and columns of a fill.
#[derive(Clone, Copy)]
struct Held {
    /// What units of rows are worth.
    rows_at: u64,
    /// What is added to columns, if anything is.
    bias_at: Option<u64>,
    /// What 127 units of all rows are worth, if it was found beforehand.
    peak: Option<f32>,
}

/// Parts of sums added between slices; integers become what they are worth.
fn ends(build: &Build<'_>, fill: &Fill, held: Held, gives: ReduceOutput) -> Vector {
    let slices = build.band_slices();
    let (columns, part) = (n(fill.groups * 8), build.part);
    let bias = held.bias_at.map(|at| with(OpKind::FAdd, vrf(at, &[(part.rows, 0), (columns, 1)])));
    let scales = with(OpKind::Mul0, vrf(0, &[(part.rows, 0), (columns, 1)]));
    if build.dtype() != Dtype::I8 {
        let ops = build.plan.options.scaled().then_some(scales).into_iter().chain(bias).collect();
        return chain(Word::F32, ops).after_between(ReduceOp::Add, slices, gives);
    }
    let by_row = || vrf(held.rows_at + PAIR * part.first, &[part.by_row(2), (columns, 0)]);
    let worths = held.peak.map_or_else(by_row, float);
    let mut ops = vec![op(OpKind::ToFloat { int_width: 31 }), scales, with(OpKind::Mul1, worths)];
    ops.extend(bias);
    chain(Word::I32, ops).after_between(ReduceOp::AddWrap, slices, gives)
}

/// Logits of all sequences, a fill of them, each in the slice of its row.
pub(super) fn batch_logits(build: &mut Build<'_>, packed: &Packed, index: usize, to: u64) {
    let Some(fill) = packed.fills.get(index) else { return };
    let held = load_columns(build, packed.kernel, index);
    load_worths(build, held);
    let ends = ends(build, fill, held, ReduceOutput::Scatter { inner: fill.groups });
    let stream = contract(build, packed, fill, ends);
    let word = bytes(Dtype::F32, 8);
    let mut to =
        commit(Memory::Dm, to, &[(build.registers.rows, fill.groups * word), (n(fill.groups), word)], word);
    to.slices = vec![(0, build.plan.options.batch.min(build.machine.pe.slices))];
    build.emit.exec(main("logits", Stream { commit: to, ..stream }));
}

/// What belongs to columns of a fill, from all slices to all: what units are worth, and what is added.
fn load_columns(build: &mut Build<'_>, kernel: usize, fill: usize) -> Held {
    let mut next = 0;
    if build.plan.options.scaled() {
        let scales = build.plan.constants.projected(kernel, fill);
        next = spread(build, "load_scales", scales, next);
    }
    let bias = build.plan.constants.projected_bias(kernel, fill);
    let bias_at = bias.map(|_| next);
    if let Some(bias) = bias {
        next = spread(build, "load_bias", bias, next);
    }
    Held { rows_at: next, bias_at, peak: build.kernels.peak_into(kernel) }
}

/// What units of the rows at hand are worth, if they are integers, to the vector register file.
fn load_worths(build: &mut Build<'_>, held: Held) {
    if build.dtype() != Dtype::I8 || held.peak.is_some() {
        return;
    }
    let (part, worths) = (build.part, build.at.row_worths);
    let worths = if build.mode == Mode::Decode { build.at.worths } else { worths + PAIR * part.first };
    let from = fetch(Dtype::F32, worths, &[part.by_row(2), (n(2), 1)], 2);
    let to = commit(Memory::Vrf, held.rows_at + PAIR * part.first, &[part.by_row(PAIR)], PAIR);
    build.emit.exec(sub(build.machine, "load_worths", copy(from, to)));
}

/// Words of every slice, one slice after the other, to all register files; gives the first byte behind them.
fn spread(build: &mut Build<'_>, name: &str, (place, words): (u64, u64), base: u64) -> u64 {
    let slices = build.machine.pe.slices;
    let from = fetch(Dtype::F32, build.constant(place), &[(n(words), 1)], 2);
    let to = commit(Memory::Vrf, base, &[(n(slices * words / 2), 8)], 8);
    let ring = Ring { slice1: slices, slice0: 1 };
    let switch = Switch { topology: Topology::Broadcast01(ring, words / 2), sources: Vec::new() };
    build.emit.exec(sub(build.machine, name, Stream { switch, ..copy(from, to) }));
    base + bytes(Dtype::F32, slices * words)
}

/// How packets of tokens meet a fill: each is held for all groups of columns, packets of a token are summed.
pub(super) fn with_fill(build: &Build<'_>, packed: &Packed, fill: &Fill, tokens: &[Count]) -> Contract {
    let (packets, groups) = (packed.packets, n(fill.groups));
    let mut walk: Vec<(Count, u64)> = tokens.iter().map(|count| (*count, 0)).collect();
    walk.extend([(n(packets.count), packets.elements), (groups, packed.row), (n(packets.elements), 1)]);
    let mut order: Vec<(Count, bool)> = tokens.iter().map(|count| (*count, false)).collect();
    order.extend([(n(packets.count), true), (groups, false)]);
    Contract {
        flits: packets.flits,
        repeats: groups,
        loops: nest(&walk),
        tree: packets.elements.next_power_of_two(),
        steps: steps(&order),
        ..contraction(packed.dtype, build.machine.ce.lanes, Drain::Interleaved)
    }
}

/// The contraction of all tokens with a fill; the commit is the caller's.
fn contract(build: &Build<'_>, packed: &Packed, fill: &Fill, ends: Vector) -> Stream {
    let dtype = packed.dtype;
    let share = packed.row;
    let packets = packed.packets;
    let [outer, inner] = build.by_token(share);
    let normal = build.at.normal + build.before_token(bytes(dtype, share));
    let from = fetch(dtype, normal, &[outer, inner, (n(share), 1)], packets.elements);
    let contract = with_fill(build, packed, fill, &[build.part.rows, n(build.groups())]);
    Stream {
        fetch: from,
        switch: Switch::default(),
        contract: Some(contract),
        vector: Some(ends),
        cast: None,
        transpose: None,
        commit: commit(Memory::Dm, 0, &[], 8),
    }
}

/// Logits of the token at place 0, a fill of them, in the first slice.
pub(super) fn logits(build: &mut Build<'_>, packed: &Packed, index: usize, to: u64) {
    let Some(fill) = packed.fills.get(index) else { return };
    let held = load_columns(build, packed.kernel, index);
    let newest = Part { rows: n(1), first: 0, step: 1 };
    let ends = build.with_part(newest, |build| {
        load_worths(build, held);
        ends(build, fill, held, ReduceOutput::First)
    });
    let mut stream = contract(build, packed, fill, ends);
    let (dtype, packets) = (packed.dtype, packed.packets);
    stream.fetch = fetch(dtype, build.at.normal, &[(n(packed.row), 1)], packets.elements);
    stream.contract = Some(with_fill(build, packed, fill, &[]));
    let word = bytes(Dtype::F32, 8);
    let mut to = commit(Memory::Dm, to, &[(n(fill.groups), word)], word);
    to.slices = vec![(0, 1)];
    build.emit.exec(main("logits", Stream { commit: to, ..stream }));
}
