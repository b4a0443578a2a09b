//! Where a model begins and ends: rows of the embedding by token, and logits of the last token.

use tilewright_num::Dtype;
use tilewright_tcp::program::exec::{Fetch, Memory};

use super::build::Build;
use super::image::{bytes, commit, copy, dm, fetch, flits, hbm, indexed, main, n, to_slices, transfer, turn};
use super::project::{load, logits};
use crate::CompileError;

/// The residual from the embedding: gathered by token, then widened.
pub(super) fn embed(build: &mut Build<'_>) {
    let (plan, at, features) = (build.plan, build.at.clone(), build.plan.features);
    let piece = bytes(Dtype::Bf16, features.share);
    let loops = vec![turn(build.tokens, plan.embedding_row, piece), to_slices(features.slices, piece)];
    let rows = transfer("embed", hbm(0, plan.embedding), dm(0, 0, at.y), loops, piece);
    build.emit.dma(indexed(rows, hbm(0, plan.token_table), false));
    let share = features.share;
    let [outer, inner] = build.by_token(share);
    let from = fetch(Dtype::Bf16, at.y, &[outer, inner, (n(share), 1)], 8);
    let from = Fetch { cast: Some(Dtype::F32), ..from };
    let [outer, inner] = build.by_token(bytes(Dtype::F32, share));
    let word = bytes(Dtype::F32, 8);
    let to = commit(Memory::Dm, at.x, &[outer, inner, (n(flits(share)), word)], word);
    let mut stream = copy(from, to);
    stream.commit.slices = vec![(0, features.slices)];
    build.emit.exec(main("widen", stream));
}

/// Logits, fill by fill, to HBM.
pub(super) fn head(build: &mut Build<'_>, kernel: usize) -> Result<(), CompileError> {
    let packed = build.packed(kernel)?;
    let vocabulary = bytes(Dtype::F32, build.kernels.vocabulary.next_multiple_of(8));
    for (turn_index, fill) in packed.fills.iter().enumerate() {
        load(build, packed, fill);
        let place = build.at.logits[turn_index % 2];
        build.emit.exec(logits(build, packed, fill, place));
        let first = bytes(Dtype::F32, fill.first * 8);
        let all = bytes(Dtype::F32, fill.groups * 8).min(vocabulary.saturating_sub(first));
        if all == 0 {
            continue;
        }
        let packet = super::image::packet_of(build.machine, all);
        let loops = vec![turn(n(all / packet), packet, packet)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        let to = hbm(0, build.plan.logits + first);
        build.emit.dma(transfer("logits", dm(0, 0, place), to, loops, packet));
    }
    Ok(())
}
