//! Sums and tokens between processing elements of a chip (paper section VI: weights stay, tensors are
//! synchronised after a layer).
//!
//! Every combination leaves partial sums. Each processing element sends to each other the sums of the tokens
//! that the other has, and adds what it received: a reduce-scatter. What it normalises it sends to all: an
//! all-gather. Tokens are dealt out by their place in a row; a program of single tokens leaves all of them to
//! everyone, so that no gather is needed.
//!
//! Sums go fill by fill, those of the last fill part by part, and parts are added, normalised and gathered
//! one after the other: while one part is on its way the tensor unit works on another.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Commit, Contract, Drain, Memory, Stream};
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp_isa::program::vector::{OpKind, ReduceOp, Word};
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::{Build, Part};
use super::image::{
    bytes, chain, commit, contraction, copy, fetch, fetch_words, main, n, nest, packet_of, reduce as fold,
    steps, sub, through, transfer, turn, vrf, with,
};
use super::norm::PAIR;
use super::plan::Fill;

/// Partial sums on their way.
pub struct Sent {
    /// Index of the combination.
    pub kernel: usize,
    /// Columns that were sent one after the other.
    pub fills: Vec<Fill>,
    /// The transfer of the last of them, by part of the rows.
    pub parts: Vec<u8>,
}

/// A loop over processing elements at the target.
fn to_pes(build: &Build<'_>, source: u64) -> TransferLoop {
    let slices = signed(build.machine.pe.slices);
    TransferLoop { size: n(build.pes()), source: signed(source), target: SLICE_STRIDE * slices }
}

/// A loop over slices, on both sides.
pub(super) fn by_slice(slices: u64) -> TransferLoop {
    TransferLoop { size: n(slices), source: SLICE_STRIDE, target: SLICE_STRIDE }
}

/// A loop over the rows of a part.
pub(super) fn by_row(part: Part, source: u64, target: u64) -> TransferLoop {
    turn(part.rows, source * part.step, target * part.step)
}

/// Bytes of partial sums before those of a fill.
pub(super) fn before_fill(build: &Build<'_>, fill: &Fill) -> u64 {
    bytes(build.exchanged(), build.most_rows() * build.groups() * fill.first * 8)
}

/// Where an exchange puts sums of a fill, and the bytes of a row's block and of a sender's slot.
fn places(build: &Build<'_>, fill: &Fill) -> (u64, u64, u64) {
    let (own, dtype) = (build.own_of_row(), build.exchanged());
    let block = bytes(dtype, own * fill.groups * 8);
    let slot = bytes(dtype, build.most_rows() * own * build.plan.features.share).next_multiple_of(64);
    // Without gathers in between, the last sums may still be read when the next arrive.
    let place = build.at.received[usize::from(!build.deals_tokens() && build.queue.exchanges % 2 == 1)];
    (place + bytes(dtype, build.most_rows() * own * fill.first * 8), block, slot)
}

/// Sends partial sums of the rows at hand to whoever has their tokens; gives the transfer.
pub(super) fn send(build: &mut Build<'_>, fill: &Fill) -> u8 {
    let (place, block, slot) = places(build, fill);
    let row = bytes(build.exchanged(), build.groups() * fill.groups * 8);
    let packet = packet_of(build.machine, block);
    let loops = vec![
        to_pes(build, if build.deals_tokens() { block } else { 0 }),
        by_slice(build.plan.features.slices),
        by_row(build.part, row, block),
        turn(n(block / packet), packet, packet),
    ];
    let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let target = build.chip_dm(0, place + build.home.pe * slot + build.part.first * block);
    let source = build.dm(0, build.at.y + before_fill(build, fill) + build.part.first * row);
    build.emit.dma(transfer("sums", source, target, loops, packet))
}

/// Whether sums are added to the residual as they are made: the vector register file holds the residual of a
/// part's tokens behind what its norm keeps there.
pub(super) fn adds(build: &Build<'_>, sent: &Sent) -> bool {
    let rows = build
        .registers
        .parts
        .iter()
        .map(|part| Part::rows_of(part.first, build.most_rows(), part.step))
        .max();
    let held = bytes(Dtype::F32, rows.unwrap_or(0) * build.own_of_row() * build.plan.features.share);
    build.deals_tokens()
        && build.chips() == 1
        && build.plan.constants.combined_bias(sent.kernel).is_none()
        && held_at(build) + held <= build.machine.vrf.capacity_bytes
}

fn held_at(build: &Build<'_>) -> u64 {
    bytes(Dtype::F32, 2 * build.plan.features.share) + build.most_rows() * build.own_of_row() * PAIR
}

/// The residual of the tokens at hand to the vector register file.
pub(super) fn load_residual(build: &mut Build<'_>) {
    let share = build.plan.features.share;
    let [outer, inner] = build.by_own(share);
    let from = build.at.x + build.before_own(bytes(Dtype::F32, share));
    let from = fetch(Dtype::F32, from, &[outer, inner, (n(share), 1)], 2);
    let row = build.own_of_row() * share;
    let to = [(build.part.rows, bytes(Dtype::F32, row)), (n(row / 2), 8)];
    let to = commit(Memory::Vrf, held_at(build), &to, 8);
    build.emit.exec(sub(build.machine, "load_residual", copy(from, to)));
}

/// The same for the part behind one, if there is one.
pub(super) fn load_next_residual(build: &mut Build<'_>, part: usize) {
    let Some(next) = build.registers.parts.get(part + 1).copied() else { return };
    build.emit.begin_if_above(build.registers.rows, next.first);
    build.with_part(next, load_residual);
    build.emit.end_if();
}

/// Waits for the sums of a part from all, and adds up those of the last fill, and with the first part those
/// of all others.
pub(super) fn receive(build: &mut Build<'_>, sent: &Sent, part: usize) {
    if let Some(transfer) = sent.parts.get(part) {
        build.meet_chip(*transfer);
    }
    if adds(build, sent) {
        if part == 0 {
            load_ones(build);
        }
        sent.fills.iter().for_each(|fill| short_sum(build, fill, true));
        build.queue.exchanges += u64::from(part + 1 == build.registers.parts.len());
        return;
    }
    let Some((last, others)) = sent.fills.split_last() else { return };
    if part == 0 {
        let all = Part { rows: build.registers.rows, first: 0, step: 1 };
        build.with_part(all, |build| {
            if build.deals_tokens() {
                load_ones(build);
            }
            others.iter().for_each(|fill| sum(build, fill));
        });
    }
    sum(build, last);
    if part + 1 == build.registers.parts.len() {
        build.queue.exchanges += 1;
    }
}

/// Ones to the first lane.
fn load_ones(build: &mut Build<'_>) {
    let (dtype, flit) = (build.exchanged(), build.machine.network.flit_bytes);
    let elements = flit * 8 / u64::from(dtype.storage_bits());
    let from = fetch(dtype, build.at.sum_ones, &[(n(elements), 1)], elements);
    let to = commit(Memory::Trf { lanes: 1 }, 0, &[], flit);
    build.emit.exec(main("load_ones", copy(from, to)));
}

/// The sum over all senders of short floats: packets meet a one, without a tree, and are summed in the
/// accumulators. They are left as they are, or added to the residual.
fn short_sum(build: &mut Build<'_>, fill: &Fill, adds: bool) {
    let (machine, dtype, own) = (build.machine, build.exchanged(), build.own_of_row());
    let (place, block, slot) = places(build, fill);
    let (part, pes) = (build.part, n(build.pes()));
    let bits = u64::from(dtype.storage_bits());
    let columns = fill.groups * 8;
    let flit = machine.network.flit_bytes * 8 / bits;
    // Two flits of columns at once, if that many there are.
    let each = if (own * columns).is_multiple_of(2 * flit) { 2 * flit } else { flit.min(8) };
    let packets = n(own * columns / each);
    let from = [part.by_row(own * columns), (packets, each), (pes, slot * 8 / bits), (n(each), 1)];
    let from = fetch(dtype, place + part.first * block, &from, each);
    let walk = [(part.rows, 0), (packets, 0), (pes, 0), (n(each), 0)];
    let contract = Contract {
        flits: each.div_ceil(flit),
        loops: nest(&walk),
        steps: steps(&[(part.rows, false), (packets, false), (pes, true)]),
        ..contraction(dtype, 1, Drain::Sequential)
    };
    let mut stream = Stream { contract: Some(contract), ..copy(from, summed(build, fill, adds)) };
    if adds {
        let share = build.plan.features.share;
        let walk = [(part.rows, own * share), (n(own), share), (n(columns), 1)];
        let held = vrf(held_at(build) + bytes(Dtype::F32, fill.first * 8), &walk);
        stream.vector = Some(chain(Word::F32, vec![with(OpKind::FAdd, held)]));
    }
    build.emit.exec(main("sum", stream));
}

/// The sum over all senders.
fn sum(build: &mut Build<'_>, fill: &Fill) {
    if build.deals_tokens() {
        return short_sum(build, fill, false);
    }
    let (dtype, own) = (build.exchanged(), build.own_of_row());
    let (place, block, slot) = places(build, fill);
    let (part, pes) = (build.part, build.pes());
    let (columns, senders) = (fill.groups * 8, slot * 8 / u64::from(dtype.storage_bits()));
    let (place, groups) = (place + part.first * block, n(fill.groups));
    let from = [part.by_row(own * columns), (n(own), columns), (groups, 8), (n(pes), senders), (n(8), 1)];
    let steps = [(part.rows, false), (n(own), false), (groups, false), (n(pes), true), (n(2), false)];
    let sum = chain(Word::F32, vec![fold(ReduceOp::Add, false, &steps, Vec::new())]);
    let to = summed(build, fill, false);
    build.emit.exec(main("sum", through(fetch_words(dtype, place, &from), sum, None, to)));
}

/// Sums of a fill's columns to their place.
fn summed(build: &Build<'_>, fill: &Fill, adds: bool) -> Commit {
    let (place, dtype) = if adds { (build.at.x, Dtype::F32) } else { super::peers::summed(build) };
    let (row, word) = (bytes(dtype, build.plan.features.share), bytes(dtype, 8));
    let [outer, inner] = build.by_own(row);
    let place = place + bytes(dtype, fill.first * 8) + build.before_own(row);
    let mut to = commit(Memory::Dm, place, &[outer, inner, (n(fill.groups), word)], word);
    to.slices = vec![(0, build.plan.features.slices)];
    to.to_bf16 = dtype == Dtype::Bf16;
    to
}

/// Sends own normalised tokens of the rows at hand to all.
pub(super) fn gather(build: &mut Build<'_>) {
    let (dtype, share) = (build.dtype(), build.plan.features.share);
    let block = bytes(dtype, build.own() * share);
    let row = bytes(dtype, build.groups() * share);
    let packet = packet_of(build.machine, block);
    let loops = vec![
        to_pes(build, 0),
        // Slices without columns have zeros, which contractions read.
        by_slice(build.machine.pe.slices),
        by_row(build.part, block, row),
        turn(n(block / packet), packet, packet),
    ];
    let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let first = build.part.first;
    let target = build.chip_dm(0, build.at.normal + build.home.pe * block + first * row);
    let source = build.dm(0, build.at.normal_own + first * block);
    let transfer = build.emit.dma(transfer("tokens", source, target, loops, packet));
    build.queue.gathered.push(transfer);
}

/// Waits for a part of the tokens from all, if they were sent.
pub(super) fn gathered(build: &mut Build<'_>, part: usize) {
    if let Some(transfer) = build.queue.gathered.get(part).copied() {
        build.meet_chip(transfer);
    }
    if part + 1 == build.registers.parts.len() {
        build.queue.gathered.clear();
    }
}

/// Waits for the tokens of all parts, if they were sent.
pub(super) fn all_gathered(build: &mut Build<'_>) {
    build.each_part(gathered, |_| {});
}
