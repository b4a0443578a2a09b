//! One vector of all tokens: their sum by column, scaled to length 1 (sentence encoders; the mean has the
//! same direction).
//!
//! Places without a token take no part. Each processing element sums its own tokens and sends the sums to all
//! others.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Fetch, Memory};
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, ReduceLimit, ReduceOp, ReduceOutput, Word};
use tilewright_tcp_lower::kernels::chain::{float, op};
use tilewright_tcp_lower::kernels::pass::signed;

use super::attend_rows::load_words;
use super::build::{Build, Mode};
use super::image::{
    bytes, chain, commit, fetch_words, flits, from_slices, halves, hbm, main, n, packet_of, reduce, through,
    transfer, turn, vrf, with,
};

/// Words that are summed at once: as many as the reducer keeps open.
const OPEN: u64 = 32;

/// Bytes of a word and its padding.
const PAIR: u64 = 8;

/// The residual as one vector, to HBM.
pub(super) fn pool(build: &mut Build<'_>) {
    super::exchange::all_gathered(build);
    let mut from = build.at.sum;
    sum_tokens(build, from);
    if build.deals_tokens() {
        from = sum_parts(build, from);
    }
    divide(build, from, build.at.sum);
    if (build.home.chip, build.home.pe) == (0, 0) {
        let (features, row) = (build.plan.features, bytes(Dtype::F32, build.plan.features.share));
        let packet = packet_of(build.machine, row);
        let loops = vec![from_slices(features.slices, row), turn(n(row / packet), packet, packet)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        let (source, target) = (build.dm(0, build.at.sum), hbm(0, build.plan.logits));
        build.emit.dma(transfer("vector", source, target, loops, packet));
    }
}

/// Parts of a slice's columns: first, and how many.
fn pieces(build: &Build<'_>) -> Vec<(u64, u64)> {
    let share = build.plan.features.share;
    (0..share.div_ceil(OPEN)).map(|at| (at * OPEN, OPEN.min(share - at * OPEN))).collect()
}

/// Sums over own tokens.
fn sum_tokens(build: &mut Build<'_>, to: u64) {
    let share = build.plan.features.share;
    let [(rows, row), (own, token)] = build.by_own(share);
    let extent = usize::try_from(build.home.pe).ok().and_then(|pe| build.registers.counted.get(pe)).copied();
    for (first, width) in pieces(build) {
        // A program of one token has nothing to leave out.
        let limit = extent.filter(|_| build.mode == Mode::Prefill).map(|extent| {
            let weights = [(rows, build.groups()), (own, 1), (n(halves(width)), 0)];
            let turning = weights.into_iter().filter(|(size, _)| *size != n(1));
            let weights = turning.map(|(_, weight)| weight).collect();
            ReduceLimit { extent, slices: Vec::new(), weights, element: 0 }
        });
        let steps = [(rows, true), (own, true), (n(halves(width)), false)];
        let sum = chain(Word::F32, vec![reduce(ReduceOp::Add, false, &steps, limit.into_iter().collect())]);
        let loops = [(rows, row), (own, token), (n(width), 1)];
        let from = fetch_words(Dtype::F32, build.at.x + bytes(Dtype::F32, first), &loops);
        store(build, "token_sum", from, sum, to + bytes(Dtype::F32, first), width);
    }
}

/// Words to a place, a flit after the other.
fn store(
    build: &mut Build<'_>,
    name: &str,
    from: Fetch,
    vector: tilewright_tcp_isa::program::vector::Vector,
    to: u64,
    width: u64,
) {
    let flit = bytes(Dtype::F32, 8);
    let to = commit(Memory::Dm, to, &[(n(flits(width)), flit)], flit);
    build.emit.exec(main(name, through(from, vector, None, to)));
}

/// Sums of all processing elements, added up by each; gives their place.
fn sum_parts(build: &mut Build<'_>, from: u64) -> u64 {
    let (share, pes) = (build.plan.features.share, build.pes());
    let row = bytes(Dtype::F32, share);
    let slot = row.next_multiple_of(64);
    let place = build.at.received[0];
    let packet = packet_of(build.machine, row);
    let slices = build.machine.pe.slices;
    let to_pes = TransferLoop { size: n(pes), source: 0, target: SLICE_STRIDE * signed(slices) };
    let by_slice = TransferLoop { size: n(slices), source: SLICE_STRIDE, target: SLICE_STRIDE };
    let loops = vec![to_pes, by_slice, turn(n(row / packet), packet, packet)];
    let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let target = build.chip_dm(0, place + build.home.pe * slot);
    let sent = build.emit.dma(transfer("token_sums", build.dm(0, from), target, loops, packet));
    build.meet_chip(sent);
    for (first, width) in pieces(build) {
        let steps = [(n(pes), true), (n(halves(width)), false)];
        let sum = chain(Word::F32, vec![reduce(ReduceOp::Add, false, &steps, Vec::new())]);
        let at = bytes(Dtype::F32, first);
        let words = fetch_words(Dtype::F32, place + at, &[(n(pes), slot / 4), (n(width), 1)]);
        store(build, "part_sum", words, sum, from + at, width);
    }
    from
}

/// Over its length; a vector of zeros stays.
fn divide(build: &mut Build<'_>, from: u64, to: u64) {
    let (share, slices) = (build.plan.features.share, build.machine.pe.slices);
    let all = fetch_words(Dtype::F32, from, &[(n(share), 1)]);
    let within = reduce(ReduceOp::Add, true, &[(n(halves(share)), true)], Vec::new());
    let squares = chain(Word::F32, vec![with(OpKind::Mul0, OperandSource::Stash).keep(), within]);
    let squares = squares.then_between(ReduceOp::Add, slices, ReduceOutput::Broadcast);
    let pair = commit(Memory::Dm, build.at.squares, &[], PAIR);
    build.emit.exec(main("length_square", through(all.clone(), squares, None, pair)));
    let word = Fetch { packet: 2, ..fetch_words(Dtype::F32, build.at.squares, &[(n(2), 1)]) };
    let root = chain(Word::F32, vec![op(OpKind::Sqrt), with(OpKind::ClipMax, float(f32::MIN_POSITIVE))]);
    let pair = commit(Memory::Dm, build.at.roots, &[], PAIR);
    build.emit.exec(main("length", through(word, root, None, pair)));
    load_words(build, "load_length", build.at.roots, PAIR, 0);
    let unit = chain(Word::F32, vec![with(OpKind::Div, vrf(0, &[(n(share), 0)]))]);
    store(build, "unit", all, unit, to, share);
}
