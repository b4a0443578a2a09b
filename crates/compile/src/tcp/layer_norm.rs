//! Norm by mean and variance of what is dealt out by features (BERT: behind every residual sum).
//!
//! The mean is subtracted in a pass of its own, and multiplied by one in real columns and zero in padding;
//! the rest is the root mean square norm of what is left, plus a bias. The result is kept in f32 if something
//! is added to it later, and rounded for contractions.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_isa::program::vector::{OpKind, ReduceOp, Vector, Word};
use tilewright_tcp_lower::kernels::chain::{float, to_i8};

use super::attend_rows::load_words;
use super::build::Build;
use super::image::{bytes, chain, commit, copy, fetch, flits, main, n, through, with};
use super::norm::{Norm, by_part, inverse};
use super::rows::{UNIT, magnitude};

/// A norm of the residual; `stays` says that it becomes the residual.
pub(super) fn layer(build: &mut Build<'_>, epsilon: f32, biased: bool, stays: bool, peak: Option<f32>) {
    by_part(build, |build, _| normalise(build, epsilon, biased, stays, peak));
}

/// The rows at hand.
fn normalise(build: &mut Build<'_>, epsilon: f32, biased: bool, stays: bool, peak: Option<f32>) {
    let centred = Norm::new(build, build.at.sum);
    centre(build, &Norm::new(build, build.at.x), build.at.sum);
    centred.roots(build, epsilon);
    let target = if stays { build.at.x } else { build.at.sum };
    scale(build, &centred, biased, target);
    if build.dtype() == Dtype::I8 {
        integers(build, &Norm::new(build, target), peak);
    } else {
        narrow(build, target);
    }
}

/// Columns of own tokens to a place, f32.
fn keep(build: &mut Build<'_>, name: &str, norm: &Norm, vector: Vector, to: u64) {
    let [outer, inner] = build.by_own(bytes(Dtype::F32, norm.share));
    let word = bytes(Dtype::F32, 8);
    let to = to + build.before_own(bytes(Dtype::F32, norm.share));
    let to = commit(Memory::Dm, to, &[outer, inner, (n(flits(norm.share)), word)], word);
    build.emit.exec(main(name, through(norm.all(), vector, None, to)));
}

/// Subtracts the mean of each token.
fn centre(build: &mut Build<'_>, norm: &Norm, to: u64) {
    let row = bytes(Dtype::F32, norm.share);
    let sums = chain(Word::F32, vec![norm.within(build, ReduceOp::Add)]);
    norm.reduce(build, "token_sums", sums, ReduceOp::Add, build.at.squares);
    let mean = chain(Word::F32, vec![with(OpKind::Mul0, float(inverse(build.plan.features.width)))]);
    norm.each(build, "means", build.at.squares, mean, build.at.roots);
    load_words(build, "load_ones", build.constant(build.plan.constants.ones()), row, 0);
    norm.load(build, "load_means", build.at.roots, norm.tokens_at());
    let real = with(OpKind::Mul0, norm.by_column(build, 0));
    let ops = vec![with(OpKind::FSub, norm.by_token()), real];
    keep(build, "centre", norm, chain(Word::F32, ops), to);
}

/// Times the gain, over the root, plus the bias.
fn scale(build: &mut Build<'_>, norm: &Norm, biased: bool, to: u64) {
    let (constants, row) = (build.plan.constants.clone(), bytes(Dtype::F32, norm.share));
    let tokens = build.most_rows() * build.own();
    // Behind the gain and what is kept of tokens.
    let bias_at = norm.tokens_at() + bytes(Dtype::F32, 2 * tokens);
    load_words(build, "load_gain", build.constant(constants.gain(build.queue.norms, false)), row, 0);
    norm.load(build, "load_roots", build.at.roots, norm.tokens_at());
    let mut ops = vec![with(OpKind::Mul0, norm.by_column(build, 0)), with(OpKind::Div, norm.by_token())];
    if biased {
        load_words(build, "load_bias", build.constant(constants.norm_bias(build.queue.norms)), row, bias_at);
        ops.push(with(OpKind::ClipAdd, norm.by_column(build, bias_at)));
    }
    keep(build, "scale", norm, chain(Word::F32, ops), to);
}

/// Where contractions read own tokens.
fn rounded(build: &Build<'_>) -> u64 {
    if build.deals_tokens() { build.at.normal_own } else { build.at.normal }
}

/// The same, rounded to bf16.
fn narrow(build: &mut Build<'_>, from: u64) {
    let share = build.plan.features.share;
    let [outer, inner] = build.by_own(share);
    let from = from + build.before_own(bytes(Dtype::F32, share));
    let from = fetch(Dtype::F32, from, &[outer, inner, (n(share), 1)], 8);
    let [outer, inner] = build.by_own(bytes(Dtype::Bf16, share));
    let piece = bytes(Dtype::Bf16, 8);
    let loops = [outer, inner, (n(flits(share)), piece)];
    let to = rounded(build) + build.before_own(bytes(Dtype::Bf16, share));
    let mut to = commit(Memory::Dm, to, &loops, piece);
    to.to_bf16 = true;
    build.emit.exec(main("narrow", copy(from, to)));
}

/// The same in units of 1/127 of each token's greatest magnitude, which is what they are worth.
fn integers(build: &mut Build<'_>, norm: &Norm, peak: Option<f32>) {
    if let Some(peak) = peak {
        let ops = [with(OpKind::Mul1, float(UNIT / peak))].into_iter().chain(to_i8()).collect();
        return norm.scaled(build, chain(Word::F32, ops));
    }
    let peaks = chain(Word::F32, vec![magnitude(), norm.within(build, ReduceOp::Max)]);
    norm.reduce(build, "peaks", peaks, ReduceOp::Max, build.at.worths);
    norm.load(build, "load_token_peaks", build.at.worths, norm.tokens_at());
    norm.spread_worths(build);
    let mut ops = vec![with(OpKind::Mul1, float(UNIT)), with(OpKind::Div, norm.by_token())];
    ops.extend(to_i8());
    norm.scaled(build, chain(Word::F32, ops));
}
