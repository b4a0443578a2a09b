//! Sums between chips (paper section III-D: other chips lie in the same address space, over PCIe).
//!
//! Weights are dealt out over the processing elements of all chips, tokens over those of each: every chip has
//! the whole residual. What a processing element summed up for its chip it sends to those in its place on the
//! other chips, and all add the sums in the order of chips, so that residuals stay the same bit for bit. Only
//! these sums, and logits, leave a chip.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_isa::program::vector::{ReduceOp, Word};

use super::build::Build;
use super::exchange::{by_row, by_slice};
use super::image::{
    bytes, chain, commit, dm, fetch_words, flits, main, n, packet_of, reduce as fold, through, transfer, turn,
};

/// Bytes of a row's own tokens.
fn block(build: &Build<'_>) -> u64 {
    bytes(build.exchanged(), build.own_of_row() * build.plan.features.share)
}

/// Bytes of a chip's sums.
pub(super) fn slot(build: &Build<'_>) -> u64 {
    (build.most_rows() * block(build)).next_multiple_of(64)
}

/// Where the sums of a chip go. A chip that is ahead sends its next ones while these are still read, and then
/// waits for everyone's: two places are enough.
fn place(build: &Build<'_>, chip: u64) -> u64 {
    let turns = usize::from(build.queue.peer_exchanges % 2 == 1);
    build.at.peers[turns] + chip * slot(build)
}

/// Where this processing element leaves what it summed up for its chip, and as what.
pub(super) fn summed(build: &Build<'_>) -> (u64, Dtype) {
    match build.chips() {
        1 => (build.at.sum, Dtype::F32),
        _ => (place(build, build.home.chip), build.exchanged()),
    }
}

fn others(build: &Build<'_>) -> Vec<PeId> {
    let chips = build.chips();
    (1..chips).map(|ahead| PeId { chip: (build.home.chip + ahead) % chips, pe: build.home.pe }).collect()
}

/// Sends the sums of the rows at hand to the other chips; gives the transfers.
pub(super) fn send(build: &mut Build<'_>) -> Vec<u8> {
    let block = block(build);
    let packet = packet_of(build.machine, block);
    let loops = [
        by_slice(build.plan.features.slices),
        by_row(build.part, block, block),
        turn(n(block / packet), packet, packet),
    ];
    let loops: Vec<_> = loops.into_iter().filter(|row| row.size != n(1)).collect();
    let at = place(build, build.home.chip) + build.part.first * block;
    let others = others(build);
    let send = |PeId { chip, pe }: PeId| {
        let target = dm(chip, pe * build.machine.pe.slices, at);
        build.emit.dma(transfer("chip_sums", build.dm(0, at), target, loops.clone(), packet))
    };
    others.into_iter().map(send).collect()
}

/// Waits for the sums of the rows at hand from all chips, and adds them up.
pub(super) fn receive(build: &mut Build<'_>, sent: &[u8]) {
    let others = others(build);
    build.emit.meet(sent, &others);
    let (dtype, share, own) = (build.exchanged(), build.plan.features.share, build.own_of_row());
    let (part, chips, eights) = (build.part, n(build.chips()), n(flits(share)));
    let senders = slot(build) * 8 / u64::from(dtype.storage_bits());
    let from = place(build, 0) + part.first * block(build);
    let loops = [part.by_row(own * share), (n(own), share), (eights, 8), (chips, senders), (n(8), 1)];
    let steps = [(part.rows, false), (n(own), false), (eights, false), (chips, true), (n(2), false)];
    let sum = chain(Word::F32, vec![fold(ReduceOp::Add, false, &steps, Vec::new())]);
    let (row, word) = (bytes(Dtype::F32, share), bytes(Dtype::F32, 8));
    let [outer, inner] = build.by_own(row);
    let to = build.at.sum + build.before_own(row);
    let mut to = commit(Memory::Dm, to, &[outer, inner, (eights, word)], word);
    to.slices = vec![(0, build.plan.features.slices)];
    build.emit.exec(main("chip_sum", through(fetch_words(dtype, from, &loops), sum, None, to)));
}
