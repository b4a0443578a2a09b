//! Sums and tokens between processing elements (paper section VI: weights stay, tensors are synchronised after a layer).
//!
//! Every combination leaves partial sums. Each processing element sends to each other the sums of the tokens that the other has, and
//! adds what it received: a reduce-scatter. What it normalises it sends to all: an all-gather. Tokens are dealt out by their place in a
//! row; a program of single tokens leaves all of them to everyone, so that no gather is needed.

use tilewright_num::Dtype;
use tilewright_tcp::kernels::pass::signed;
use tilewright_tcp::program::Count;
use tilewright_tcp::program::exec::Memory;
use tilewright_tcp::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp::program::vector::{ReduceOp, Word};

use super::build::Build;
use super::image::{
    bytes, chain, commit, dm, fetch_words, flits, main, n, packet_of, reduce as fold, through, transfer, turn,
};

/// A loop over processing elements at the target.
fn to_pes(build: &Build<'_>, source: u64) -> TransferLoop {
    let slices = signed(build.machine.pe.slices);
    TransferLoop { size: n(build.pes()), source: signed(source), target: SLICE_STRIDE * slices }
}

/// A loop over slices, on both sides.
fn by_slice(slices: u64) -> TransferLoop {
    TransferLoop { size: n(slices), source: SLICE_STRIDE, target: SLICE_STRIDE }
}

/// Where an exchange puts sums, and the bytes of a row's block and of a sender's slot.
fn places(build: &Build<'_>) -> (u64, u64, u64) {
    let own = if build.deals_tokens() { build.own } else { build.groups };
    let block = bytes(build.exchanged(), own * build.plan.features.share);
    let slot = (build.most_rows() * block).next_multiple_of(64);
    // Without gathers in between, the last sums may still be read when the next arrive.
    let place = build.at.received[usize::from(!build.deals_tokens() && build.exchanges % 2 == 1)];
    (place, block, slot)
}

/// Sends partial sums of some rows to whoever has their tokens.
pub(super) fn send(build: &mut Build<'_>, (rows, first): (Count, u64)) {
    let (place, block, slot) = places(build);
    let row = bytes(build.exchanged(), build.groups * build.plan.features.share);
    let packet = packet_of(build.machine, block);
    let loops = vec![
        to_pes(build, if build.deals_tokens() { block } else { 0 }),
        by_slice(build.plan.features.slices),
        turn(rows, row, block),
        turn(n(block / packet), packet, packet),
    ];
    let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let target = dm(0, 0, place + build.pe * slot + first * block);
    let source = build.dm(0, build.at.y + first * row);
    build.emit.dma(transfer("sums", source, target, loops, packet));
}

/// Waits for the sums of all and adds them up; gives the place of the sum.
pub(super) fn receive(build: &mut Build<'_>) -> u64 {
    let (dtype, share, pes) = (build.exchanged(), build.plan.features.share, build.pes());
    let own = if build.deals_tokens() { build.own } else { build.groups };
    let (place, _, slot) = places(build);
    build.exchanges += 1;
    build.emit.barrier(pes);

    let elements = slot * 8 / u64::from(dtype.storage_bits());
    let words = flits(own * share);
    let from = [(build.rows, own * share), (n(words), 8), (n(pes), elements), (n(8), 1)];
    let steps = [(build.rows, false), (n(words), false), (n(pes), true), (n(2), false)];
    let sum = chain(Word::F32, vec![fold(ReduceOp::Add, false, &steps, Vec::new())]);
    let flit = bytes(Dtype::F32, 8);
    let to = [(build.rows, bytes(Dtype::F32, own * share)), (n(words), flit)];
    let mut to = commit(Memory::Dm, build.at.sum, &to, flit);
    to.slices = vec![(0, build.plan.features.slices)];
    build.emit.exec(main("sum", through(fetch_words(dtype, place, &from), sum, None, to)));
    build.at.sum
}

/// Sends own normalised tokens to all.
pub(super) fn gather(build: &mut Build<'_>) {
    let (dtype, share, pes) = (build.dtype(), build.plan.features.share, build.pes());
    let block = bytes(dtype, build.own * share);
    let row = bytes(dtype, build.groups * share);
    let packet = packet_of(build.machine, block);
    let loops = vec![
        to_pes(build, 0),
        // Slices without columns have zeros, which contractions read.
        by_slice(build.machine.pe.slices),
        turn(build.rows, block, row),
        turn(n(block / packet), packet, packet),
    ];
    let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let target = dm(0, 0, build.at.normal + build.pe * block);
    build.emit.dma(transfer("tokens", build.dm(0, build.at.normal_own), target, loops, packet));
    build.emit.barrier(pes);
}
