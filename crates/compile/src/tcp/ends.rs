//! Where a model begins and ends: rows of the embedding by token, and logits of the last token.

use tilewright_num::Dtype;
use tilewright_tcp::program::exec::{Fetch, Memory};

use super::build::{Build, Mode};
use super::image::{
    bytes, commit, copy, fetch, flits, from_slices, hbm, indexed, main, n, to_slices, transfer, turn,
};
use super::project::{batch_logits, load_ahead, logits};
use crate::CompileError;

/// The residual from the embedding: gathered by token, then widened.
pub(super) fn embed(build: &mut Build<'_>) {
    let (plan, at, features) = (build.plan, build.at.clone(), build.plan.features);
    let piece = bytes(Dtype::Bf16, features.share);
    let loops = vec![turn(build.own_tokens, plan.embedding_row, piece), to_slices(features.slices, piece)];
    let rows = transfer("embed", hbm(0, plan.embedding), build.dm(0, at.y), loops, piece);
    let entries = if build.deals_tokens() { build.most_rows() * build.own } else { 0 };
    let table = plan.token_table + build.pe * bytes(Dtype::U32, entries);
    build.emit.dma(indexed(rows, hbm(0, table), false));
    let share = features.share;
    let [outer, inner] = build.by_own(share);
    let from = fetch(Dtype::Bf16, at.y, &[outer, inner, (n(share), 1)], 8);
    let from = Fetch { cast: Some(Dtype::F32), ..from };
    let [outer, inner] = build.by_own(bytes(Dtype::F32, share));
    let word = bytes(Dtype::F32, 8);
    let to = commit(Memory::Dm, at.x, &[outer, inner, (n(flits(share)), word)], word);
    let mut stream = copy(from, to);
    stream.commit.slices = vec![(0, features.slices)];
    build.emit.exec(main("widen", stream));
}

/// Logits, fill by fill, to HBM.
pub(super) fn head(build: &mut Build<'_>, kernel: usize) -> Result<(), CompileError> {
    let packed = build.packed(kernel)?;
    let part = bytes(Dtype::F32, build.plan.logit_words / build.pes());
    build.each_part(
        |build, part| {
            super::exchange::gathered(build, part);
            Ok::<_, CompileError>(())
        },
        |_| {},
    )?;
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
        let sequences = if build.mode == Mode::Batch { build.plan.options.batch } else { 1 };
        let whole = bytes(Dtype::F32, build.plan.logit_words);
        let loops = vec![from_slices(sequences, whole), turn(n(all / packet), packet, packet)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        let to = hbm(0, build.plan.logits + build.pe * part + first);
        build.emit.dma(transfer("logits", build.dm(0, place), to, loops, packet));
    }
    Ok(())
}
