//! Combinations, rows to features: every slice holds the weights of its own columns, rows pass all slices (by multicast if they are
//! dealt out), and the sums are added to the residual (paper section VI, weight stationary).

use tilewright_num::Dtype;
use tilewright_tcp::cost::switch::{Ring, Topology};
use tilewright_tcp::kernels::chain::op;
use tilewright_tcp::program::Count;
use tilewright_tcp::program::exec::{Exec, Memory, Stream, Switch};
use tilewright_tcp::program::vector::{OpKind, Source, Word};

use super::attend_rows::load_words;
use super::build::{Build, Mode};
use super::image::{bytes, chain, commit, copy, fetch, fetch_pairs, flits, main, n, through, vrf, with};
use super::plan::{Fill, Packed};
use super::project::{load, with_fill};
use super::rows::Spans;
use crate::CompileError;
use crate::kernel::{Heads, Kernel, ValueId};

/// The residual plus rows times a weight.
pub(super) fn combine(build: &mut Build<'_>, kernel: usize, input: ValueId) -> Result<(), CompileError> {
    let packed = build.packed(kernel)?;
    let (from, floats) = source(build, input);
    let (dtype, share) = (build.dtype(), build.plan.features.share);
    let scales = bytes(Dtype::F32, share);
    if dtype == Dtype::I8 {
        let spans = spans(build, input, packed.row);
        super::rows::quantise(build, floats, from, packed.row, spans);
        let place = build.at.constants + build.plan.constants.combined(kernel);
        load_words(build, "load_scales", place, scales, 0);
        super::rows::spread_peaks(build, scales);
    }
    let last = packed.fills.len().saturating_sub(1);
    for (index, fill) in packed.fills.iter().enumerate() {
        load(build, packed, fill);
        if index < last || build.pes() == 1 {
            let all = (build.rows, 0);
            build.emit.exec(combined(build, packed, fill, from, all));
            continue;
        }
        for part in build.parts.clone() {
            // A first part there is always.
            if part.1 > 0 {
                build.emit.begin_if_above(build.rows, part.1);
            }
            build.emit.exec(combined(build, packed, fill, from, part));
            super::exchange::send(build, part);
            if part.1 > 0 {
                build.emit.end_if();
            }
        }
    }
    let sum = if build.pes() > 1 { super::exchange::receive(build) } else { build.at.y };
    add(build, sum, kernel);
    Ok(())
}

/// The contraction of some rows with a fill.
fn combined(build: &Build<'_>, packed: &Packed, fill: &Fill, from: u64, (rows, first): (Count, u64)) -> Exec {
    let (dtype, share) = (build.dtype(), build.plan.features.share);
    let (packets, groups) = (packed.packets, n(build.groups));
    let contract = with_fill(build, packed, fill, &[rows, groups]);
    let sums = build.exchanged();
    let word = bytes(sums, 8);
    let by_row = |stride: u64| [(rows, stride * build.groups), (groups, stride)];
    let [outer, inner] = by_row(bytes(sums, share));
    let to = build.at.y + bytes(sums, first * build.groups * share + fill.first * 8);
    let mut to = commit(Memory::Dm, to, &[outer, inner, (n(fill.groups), word)], word);
    to.slices = vec![(0, packed.slices)];
    to.to_bf16 = sums == Dtype::Bf16;
    let from = from + bytes(dtype, first * packed.row);
    let fetched = fetch(dtype, from, &[(rows, packed.row), (n(packed.row), 1)], packets.elements);
    let switch = multicast(build, packets.count);
    let mut stream = Stream { switch, contract: Some(contract), ..copy(fetched, to) };
    if dtype == Dtype::I8 {
        let columns = n(fill.groups * 8);
        let [outer, inner] = by_row(2);
        let own = vrf(bytes(Dtype::F32, fill.first * 8), &[(rows, 0), (groups, 0), (columns, 1)]);
        let peaks = bytes(Dtype::F32, share + 2 * first * build.groups);
        let ops = vec![
            op(OpKind::ToFloat { int_width: 31 }),
            with(OpKind::Mul0, own),
            with(OpKind::Mul1, vrf(peaks, &[outer, inner, (columns, 0)])),
        ];
        stream.vector = Some(chain(Word::I32, ops));
    }
    main("combine", stream)
}

/// Rows to all slices, in the order of tokens.
pub(super) fn multicast(build: &Build<'_>, packets: u64) -> Switch {
    let ring = Ring { slice1: build.machine.pe.slices, slice0: 1 };
    let topology = match build.mode {
        Mode::Prefill | Mode::Batch => Topology::Broadcast01(ring, packets),
        Mode::Decode => Topology::Forwarding,
    };
    Switch { topology, sources: Vec::new() }
}

/// Rows as they are contracted, and as floats.
fn source(build: &Build<'_>, input: ValueId) -> (u64, (Dtype, u64)) {
    let attends = build
        .kernels
        .kernels
        .iter()
        .any(|kernel| matches!(kernel, Kernel::Attend { out, .. } if *out == input));
    if attends {
        (build.at.attended, (Dtype::F32, build.at.attended_floats))
    } else {
        (build.at.active, (build.between(), build.at.active_floats))
    }
}

/// Elements of rows that weights take: places without a head hold anything.
fn spans(build: &Build<'_>, input: ValueId, row: u64) -> Spans {
    let heads = build.kernels.kernels.iter().find_map(|kernel| match kernel {
        Kernel::Attend { heads, out, .. } if *out == input => Some(*heads),
        _ => None,
    });
    match heads {
        None => Spans { count: 1, stride: row, width: row },
        // Heads side by side are one span.
        Some(heads) if heads.group == heads.slots => {
            Spans { count: 1, stride: row, width: heads.query_width() }
        }
        Some(Heads { kv, group, slots, depth }) => {
            Spans { count: kv, stride: slots * depth, width: group * depth }
        }
    }
}

/// The residual sum, in place, plus a bias.
fn add(build: &mut Build<'_>, y: u64, kernel: usize) {
    let share = build.plan.features.share;
    let x = build.at.x;
    let [outer, inner] = build.by_own(share);
    let mut ops = vec![with(OpKind::FAdd, Source::Pair)];
    if let Some(bias) = build.plan.constants.combined_bias(kernel) {
        load_words(build, "load_bias", build.at.constants + bias, bytes(Dtype::F32, share), 0);
        ops.push(with(OpKind::ClipAdd, vrf(0, &[(outer.0, 0), (inner.0, 0), (n(share), 1)])));
    }
    let loops = [outer, inner, (n(flits(share)), 8), (n(2), 0), (n(8), 1)];
    let sum = chain(Word::F32, ops).paired();
    let [outer, inner] = build.by_own(bytes(Dtype::F32, share));
    let word = bytes(Dtype::F32, 8);
    let to = commit(Memory::Dm, x, &[outer, inner, (n(flits(share)), word)], word);
    let mut stream = through(fetch_pairs(Dtype::F32, x, y, &loops), sum, None, to);
    stream.commit.slices = vec![(0, build.plan.features.slices)];
    build.emit.exec(main("residual", stream));
}
