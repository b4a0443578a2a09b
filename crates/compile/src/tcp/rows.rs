//! Rows as integers: the greatest magnitude of each row, and rows in units of 1/127 of it (eight-bit
//! activations, one scale a token).

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Fetch, Memory, Stream};
use tilewright_tcp_isa::program::vector::{Op, OpKind, ReduceOp, Word};
use tilewright_tcp_lower::kernels::chain::{float, int, to_i8};

use super::build::Build;
use super::combine::multicast;
use super::image::{
    bytes, chain, commit, copy, fetch, fetch_words, flits, halves, main, n, reduce, sub, through, vrf, with,
};

/// Largest integer of eight bits.
pub(super) const UNIT: f32 = 127.0;

/// What clears the sign of a float.
const MAGNITUDE: i32 = i32::MAX;

/// The magnitude of floats.
pub(super) fn magnitude() -> Op {
    with(OpKind::And, int(MAGNITUDE))
}

/// Elements of a row that say how great it is: so many spans, from one to the next, and of each the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// Spans.
    pub(super) count: u64,
    /// Elements from one to the next.
    pub(super) stride: u64,
    /// Elements of each that count.
    pub(super) width: u64,
}

/// Quantises rows of so many floats at a place; they go to another as i8, their greatest magnitudes to
/// [`Places::peaks`].
///
/// [`Places::peaks`]: super::build::Places::peaks
pub(super) fn quantise(build: &mut Build<'_>, from: (Dtype, u64), to: u64, (row, spans): (u64, Spans)) {
    let (held, from) = from;
    let (rows, peaks) = (build.registers.rows, build.at.peaks);
    let words = [(rows, row), (n(row), 1)];
    let to = commit(Memory::Dm, to, &[(rows, row), (n(flits(row)), 8)], 8);
    let pair = bytes(Dtype::F32, 2);
    let steps = [(rows, false), (n(spans.count), true), (n(halves(spans.width)), true)];
    let most = reduce(ReduceOp::Max, true, &steps, Vec::new());
    let peak = commit(Memory::Dm, peaks, &[(rows, pair)], pair);
    let chained = chain(Word::F32, vec![magnitude(), most]);
    let counted = [(rows, row), (n(spans.count), spans.stride), (n(spans.width), 1)];
    build.emit.exec(main("rows_peaks", through(fetch_words(held, from, &counted), chained, None, peak)));
    let file = commit(Memory::Vrf, 0, &[(rows, pair)], pair);
    let loaded = copy(fetch(Dtype::F32, peaks, &[(rows, 2), (n(2), 1)], 2), file);
    build.emit.exec(sub(build.machine, "load_peaks", loaded));
    let by_row = vrf(0, &[(rows, 2), (n(row), 0)]);
    let mut ops = vec![with(OpKind::Mul0, float(UNIT)), with(OpKind::Div, by_row)];
    ops.extend(to_i8());
    let stream = through(fetch_words(held, from, &words), chain(Word::F32, ops), Some(Dtype::I8), to);
    build.emit.exec(main("rows_quantise", stream));
}

/// Magnitudes of all tokens to the vector register files of all slices, two words each.
pub(super) fn spread_peaks(build: &mut Build<'_>, base: u64) {
    let pair = bytes(Dtype::F32, 2);
    let from: Fetch = fetch(Dtype::F32, build.at.peaks, &[(build.registers.rows, 2), (n(2), 1)], 2);
    let [outer, inner] = build.by_token(pair);
    let to = commit(Memory::Vrf, base, &[outer, inner], pair);
    let switch = multicast(build, build.band_slices(), 1);
    let stream = Stream { switch, ..copy(from, to) };
    build.emit.exec(sub(build.machine, "spread_peaks", stream));
}
