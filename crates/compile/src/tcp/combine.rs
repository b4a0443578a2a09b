//! Combinations, rows to features: every slice holds the weights of its own columns, rows pass all slices (by
//! multicast if they are dealt out), and the sums are added to the residual (paper section VI, weight
//! stationary).

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Exec, Memory, Stream, Switch};
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, Word};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_lower::kernels::chain::{float, op};

use super::attend_rows::load_words;
use super::build::{Build, Mode};
use super::fills::load;
use super::image::{bytes, chain, commit, copy, fetch, fetch_pairs, flits, main, n, through, vrf, with};
use super::plan::{Fill, Packed};
use super::project::with_fill;
use super::rows::Spans;
use crate::CompileError;
use crate::kernel::{Heads, Kernel, ValueId};

/// The residual plus rows times a weight.
pub(super) fn combine(build: &mut Build<'_>, kernel: usize, input: ValueId) -> Result<(), CompileError> {
    let packed = build.packed(kernel)?;
    let (from, floats) = source(build, input);
    // With a scale that was found beforehand rows come as integers.
    let by_token = packed.dtype == Dtype::I8 && build.kernels.peak_into(kernel).is_none();
    if by_token {
        let spans = spans(build, input, packed.row);
        super::rows::quantise(build, floats, from, (packed.row, spans));
    }
    let last = packed.fills.len().saturating_sub(1);
    for (index, fill) in packed.fills.iter().enumerate() {
        load(build, packed, fill);
        if index == 0 && !packed.held.is_float() {
            load_units(build, kernel, by_token);
        }
        if build.pes() == 1 {
            build.prefetch(usize::MAX);
            build.emit.exec(combined(build, packed, fill, from));
            continue;
        }
        // After the last fill the DMA engine is for sums; weights follow tokens.
        if index < last {
            build.prefetch(usize::MAX);
        }
        let mut parts = Vec::new();
        build.each_part(
            |build, _| {
                build.emit.exec(combined(build, packed, fill, from));
                parts.push(super::exchange::send(build, fill));
            },
            |_| {},
        );
        if index == last {
            build.queue.sent = Some(super::exchange::Sent { kernel, fills: packed.fills.clone(), parts });
        }
    }
    if build.pes() == 1 && build.chips() == 1 {
        add(build, build.at.y, kernel);
    } else if build.pes() == 1 {
        build.queue.sent = Some(super::exchange::Sent { kernel, fills: Vec::new(), parts: Vec::new() });
    }
    Ok(())
}

/// What units of columns and of rows are worth to the vector register files, beside the weights.
fn load_units(build: &mut Build<'_>, kernel: usize, by_token: bool) {
    let scales = bytes(Dtype::F32, build.plan.features.share);
    let place = build.constant(build.plan.constants.combined(kernel));
    load_words(build, "load_scales", place, scales, 0);
    if by_token {
        super::rows::spread_peaks(build, scales);
    }
}

/// The contraction of the rows at hand with a fill.
fn combined(build: &Build<'_>, packed: &Packed, fill: &Fill, from: u64) -> Exec {
    let (dtype, share) = (packed.dtype, build.plan.features.share);
    let (packets, groups) = (packed.packets, n(build.groups()));
    let part = build.part;
    let rows = part.rows;
    let contract = with_fill(build, packed, fill, &[rows, groups]);
    let sums = build.exchanged();
    let word = bytes(sums, 8);
    // Sums that are exchanged lie fill by fill, so that one can go while the next is made.
    let (place, columns, before) = match build.pes() {
        1 if build.chips() > 1 => (super::peers::summed(build).0, share, bytes(sums, fill.first * 8)),
        1 => (build.at.y, share, bytes(sums, fill.first * 8)),
        _ => (build.at.y, fill.groups * 8, super::exchange::before_fill(build, fill)),
    };
    let [outer, inner] = build.by_token(bytes(sums, columns));
    let to = place + before + build.before_token(bytes(sums, columns));
    let mut to = commit(Memory::Dm, to, &[outer, inner, (n(fill.groups), word)], word);
    to.slices = build.with_columns();
    to.to_bf16 = sums == Dtype::Bf16;
    let from = from + bytes(dtype, part.first * packed.row);
    let fetched = fetch(dtype, from, &[part.by_row(packed.row), (n(packed.row), 1)], packets.elements);
    let switch = multicast(build, build.band_slices(), packets.count);
    let mut stream = Stream { switch, contract: Some(contract), ..copy(fetched, to) };
    let columns = n(fill.groups * 8);
    let own = vrf(bytes(Dtype::F32, fill.first * 8), &[(rows, 0), (groups, 0), (columns, 1)]);
    let scaled = with(OpKind::Mul0, own);
    if dtype == Dtype::I8 {
        let [outer, inner] = build.by_token(2);
        let peaks = bytes(Dtype::F32, share) + build.before_token(bytes(Dtype::F32, 2));
        let by_token = || vrf(peaks, &[outer, inner, (columns, 0)]);
        let ops = vec![
            op(OpKind::ToFloat { int_width: 31 }),
            scaled,
            with(OpKind::Mul1, build.kernels.peak_into(packed.kernel).map_or_else(by_token, float)),
        ];
        stream.vector = Some(chain(Word::I32, ops));
    } else if !packed.held.is_float() {
        stream.vector = Some(chain(Word::F32, vec![scaled]));
    }
    main("combine", stream)
}

/// Rows to all slices of rings of so many, in the order of tokens.
pub(super) fn multicast(build: &Build<'_>, slices: u64, packets: u64) -> Switch {
    let ring = Ring { slice1: slices, slice0: 1 };
    let topology = match build.mode {
        Mode::Prefill | Mode::Batch => Topology::Broadcast01(ring, packets),
        Mode::Decode => Topology::Forwarding,
    };
    Switch { topology, sources: Vec::new() }
}

/// Rows as they are contracted, and as floats.
fn source(build: &Build<'_>, input: ValueId) -> (u64, (Dtype, u64)) {
    if build.kernels.attended(input) {
        (build.at.attended, (build.between(), build.at.attended_floats))
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

/// The residual sum of the rows at hand, in place, plus a bias.
pub(super) fn add(build: &mut Build<'_>, y: u64, kernel: usize) {
    let share = build.plan.features.share;
    let before = build.before_own(bytes(Dtype::F32, share));
    let (x, y) = (build.at.x + before, y + before);
    let [outer, inner] = build.by_own(share);
    let mut ops = vec![with(OpKind::FAdd, OperandSource::Pair)];
    if let Some(bias) = build.plan.constants.combined_bias(kernel) {
        load_words(build, "load_bias", build.constant(bias), bytes(Dtype::F32, share), 0);
        ops.push(with(OpKind::ClipAdd, vrf(0, &[(outer.0, 0), (inner.0, 0), (n(share), 1)])));
    }
    let loops = [outer, inner, (n(flits(share)), 8), (n(2), 0), (n(8), 1)];
    let sum = chain(Word::F32, ops).paired();
    let [outer, inner] = build.by_own(bytes(Dtype::F32, share));
    let word = bytes(Dtype::F32, 8);
    let to = commit(Memory::Dm, x, &[outer, inner, (n(flits(share)), word)], word);
    let mut stream = through(fetch_pairs(Dtype::F32, x, y, &loops), sum, None, to);
    stream.commit.slices = build.with_columns();
    build.emit.exec(main("residual", stream));
}
