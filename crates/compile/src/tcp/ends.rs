//! Where a model begins and ends: rows of the embedding by token, and logits of the last token.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Fetch, Memory};
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, Word};

use super::build::{Build, Mode};
use super::fills::{PIECES, load_ahead};
use super::image::{
    bytes, chain, commit, copy, fetch, fetch_pairs, flits, from_slices, hbm, indexed, main, n, through,
    to_slices, transfer, turn, with,
};
use super::project::{batch_logits, logits};
use crate::CompileError;

/// The residual from the embedding: gathered by token, then widened; rows by position are added on the way.
pub(super) fn embed(build: &mut Build<'_>) {
    let (plan, at) = (build.plan, build.at.clone());
    let share = plan.features.share;
    gather(build, "embed", plan.embedding, plan.token_table, at.y);
    let [outer, inner] = build.by_own(bytes(Dtype::F32, share));
    let word = bytes(Dtype::F32, 8);
    let to = commit(Memory::Dm, at.x, &[outer, inner, (n(flits(share)), word)], word);
    let [outer, inner] = build.by_own(share);
    let mut stream = if let Some(table) = plan.place_table {
        let second = at.y + bytes(Dtype::Bf16, build.most_rows() * build.own() * share).next_multiple_of(64);
        gather(build, "places", plan.places, table, second);
        let loops = [outer, inner, (n(flits(share)), 8), (n(2), 0), (n(8), 1)];
        let sum = chain(Word::F32, vec![with(OpKind::FAdd, OperandSource::Pair)]).paired();
        through(fetch_pairs(Dtype::Bf16, at.y, second, &loops), sum, None, to)
    } else {
        let from = fetch(Dtype::Bf16, at.y, &[outer, inner, (n(share), 1)], 8);
        copy(Fetch { cast: Some(Dtype::F32), ..from }, to)
    };
    stream.commit.slices = build.with_columns();
    // The first weights come while the residual is made and normalised.
    build.prefetch(PIECES);
    build.emit.exec(main("widen", stream));
}

/// Rows of bf16 by a table of offsets, one for each own token, those of a band behind those of the one before
/// it.
fn gather(build: &mut Build<'_>, name: &str, from: u64, table: u64, to: u64) {
    let (plan, features) = (build.plan, build.plan.features);
    let piece = bytes(Dtype::Bf16, features.share);
    let loops =
        vec![turn(build.registers.own_tokens, plan.embedding_row, piece), to_slices(features.slices, piece)];
    let dealt = build.deals_tokens() || build.bands() > 1;
    let entries = bytes(Dtype::U32, if dealt { build.most_rows() * build.own() } else { 0 });
    for band in 0..build.bands() {
        let target = build.dm(band * build.band_slices(), to);
        let rows = transfer(name, build.hbm(from), target, loops.clone(), piece);
        let table = build.hbm(table + (build.home.pe + band) * entries);
        build.emit.dma(indexed(rows, table, false));
    }
}

/// Logits, fill by fill, to HBM.
pub(super) fn head(build: &mut Build<'_>, kernel: usize) -> Result<(), CompileError> {
    let packed = build.packed(kernel)?;
    let part = bytes(Dtype::F32, build.plan.logit_words / build.plan.options.all_pes());
    super::exchange::all_gathered(build);
    build.emit.begin_if_above(build.registers.logits, 0);
    for (turn_index, fill) in packed.fills.iter().enumerate() {
        load_ahead(build, packed, fill);
        let place = build.at.logits[turn_index % 2];
        if build.mode == Mode::Batch {
            batch_logits(build, packed, turn_index, place);
        } else {
            logits(build, packed, turn_index, place);
        }
        let first = bytes(Dtype::F32, fill.first * 8);
        let all = bytes(Dtype::F32, fill.groups * 8).min(part.saturating_sub(first));
        if all == 0 {
            continue;
        }
        let packet = super::image::packet_of(build.machine, all);
        let (sequences, slices) = (build.sequences(), build.machine.pe.slices);
        let whole = bytes(Dtype::F32, build.plan.logit_words);
        // The first chip collects them.
        let pe = build.home.chip * build.pes() + build.home.pe;
        let to = build.plan.logits + pe * part + first;
        for row in 0..sequences.div_ceil(slices) {
            let of_row = (sequences - row * slices).min(slices);
            let loops = vec![from_slices(of_row, whole), turn(n(all / packet), packet, packet)];
            let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
            let from = build.dm(0, place + row * bytes(Dtype::F32, fill.groups * 8));
            build.emit.dma(transfer("logits", from, hbm(0, to + row * slices * whole), loops, packet));
        }
    }
    build.emit.end_if();
    Ok(())
}
