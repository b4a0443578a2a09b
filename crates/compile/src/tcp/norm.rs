//! Root mean square norm of a residual that is dealt out by features (paper section VI: norms between slices).
//!
//! Squares are summed within slices and between them; the root follows in a pass of two words a token; a last pass multiplies by the gain
//! and divides by the root.

use tilewright_num::Dtype;
use tilewright_tcp::kernels::chain::{fma, op};
use tilewright_tcp::program::exec::{Body, Exec, Memory, Short};
use tilewright_tcp::program::vector::{Gives, OpKind, ReduceOp, Source, Word};

use super::build::Build;
use super::image::{
    bytes, chain, commit, copy, fetch, fetch_words, flits, halves, main, n, reduce, sub, through, vrf, with,
};

/// A norm of the residual.
pub(super) fn rms(build: &mut Build<'_>, epsilon: f32) {
    let (machine, at, features) = (build.machine, build.at.clone(), build.plan.features);
    let share = features.share;
    let slices = machine.pe.slices;
    let [outer, inner] = build.by_own(share);
    let own = inner;
    let words = [outer, inner, (n(share), 1)];
    let pairs = build.by_own(bytes(Dtype::F32, 2));

    let square = with(OpKind::Mul0, Source::Stash).keep();
    let loops = [(build.rows, false), (own.0, false), (n(halves(share)), true)];
    let sum = reduce(ReduceOp::Add, true, &loops, Vec::new());
    let squares = chain(Word::F32, vec![square, sum]).then_between(ReduceOp::Add, slices, Gives::Broadcast);
    let to = commit(Memory::Dm, at.squares, &pairs, bytes(Dtype::F32, 2));
    build.emit.exec(main("squares", through(fetch_words(Dtype::F32, at.x, &words), squares, None, to)));

    let [far, near] = build.by_own(2);
    let two = [far, near, (n(2), 1)];
    let root = chain(Word::F32, vec![fma(inverse(features.width), epsilon), op(OpKind::Sqrt)]);
    let from = fetch_words(Dtype::F32, at.squares, &two);
    let from = tilewright_tcp::program::exec::Fetch { packet: 2, ..from };
    let to = commit(Memory::Dm, at.roots, &pairs, bytes(Dtype::F32, 2));
    build.emit.exec(main("root", through(from, root, None, to)));

    let gain = at.gains + bytes(Dtype::F32, share) * build.norms;
    build.norms += 1;
    let short = Short { from: gain, bytes: bytes(Dtype::F32, share), memory: Memory::Vrf, base: 0 };
    build.emit.exec(Exec {
        body: Body::Short(short),
        ..sub(machine, "load_gain", copy(fetch(Dtype::F32, 0, &[], 2), commit(Memory::Vrf, 0, &[], 8)))
    });
    let roots = bytes(Dtype::F32, share);
    let to = commit(Memory::Vrf, roots, &pairs, bytes(Dtype::F32, 2));
    build.emit.exec(sub(machine, "load_roots", copy(fetch(Dtype::F32, at.roots, &two, 2), to)));

    let by_column = vrf(0, &[(build.rows, 0), (own.0, 0), (n(share), 1)]);
    let by_token = vrf(roots, &[far, near, (n(share), 0)]);
    let scaled = chain(Word::F32, vec![with(OpKind::Mul0, by_column), with(OpKind::Div, by_token)]);
    let dtype = build.dtype();
    let [outer, inner] = build.by_own(bytes(dtype, share));
    let to = commit(
        Memory::Dm,
        if build.deals_tokens() { at.normal_own } else { at.normal },
        &[outer, inner, (n(flits(share)), bytes(dtype, 8))],
        bytes(dtype, 8),
    );
    build.emit.exec(main("scale", through(fetch_words(Dtype::F32, at.x, &words), scaled, Some(dtype), to)));
    if build.deals_tokens() {
        super::exchange::gather(build);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor; its rounding is far below that of the result")]
fn inverse(width: u64) -> f32 {
    1.0 / width as f32
}
