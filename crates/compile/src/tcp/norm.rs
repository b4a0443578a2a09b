//! Root mean square norm of a residual that is dealt out by features (paper section VI: norms between
//! slices).
//!
//! Squares are summed within slices and between them; the root follows in a pass of two words a token; a last
//! pass multiplies by the gain and divides by the root. For integers the greatest magnitude of each token
//! divides instead, and what a unit is worth is kept: the magnitude over the root. A magnitude that was found
//! beforehand is in the program: no pass looks for it.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Fetch, Memory};
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, ReduceOp, ReduceOutput, Vector, Word};
use tilewright_tcp_lower::kernels::chain::{float, fma, op, to_i8};
use tilewright_tcp_lower::kernels::pass::signed;

use super::attend_rows::load_words;
use super::build::{Build, Mode};
use super::image::{
    bytes, chain, commit, copy, fetch, fetch_pairs, fetch_words, flits, halves, main, n, reduce, sub,
    through, transfer, turn, vrf, with,
};
use super::rows::{UNIT, magnitude};

/// Bytes of what is kept of a token: a word, and one of padding.
pub(super) const PAIR: u64 = 8;

/// A norm of the residual.
pub(super) fn rms(build: &mut Build<'_>, epsilon: f32, peak: Option<f32>) {
    by_part(build, |build, gains_stay| {
        let has_gains = gains_stay && build.part.first > 0;
        let norm = Norm { has_gains, ..Norm::new(build, build.at.x) };
        norm.roots(build, epsilon);
        if build.dtype() == Dtype::I8 {
            match peak {
                Some(peak) => norm.known(build, peak),
                None => norm.integers(build),
            }
        } else {
            norm.floats(build);
        }
    });
}

/// A norm, part of the rows by part: sums that are on their way are added first, and everyone gets the
/// tokens. `norm` is told whether gains that were loaded for the first part are there for the others.
pub(super) fn by_part(build: &mut Build<'_>, norm: impl Fn(&mut Build<'_>, bool)) {
    let sent = build.queue.sent.take();
    let adds = sent.as_ref().is_some_and(|sent| super::exchange::adds(build, sent));
    // A bias of the sums takes the place of the gains.
    let bias = sent.as_ref().and_then(|sent| build.plan.constants.combined_bias(sent.kernel));
    let gains_stay = bias.is_none();
    let mut between_chips = Vec::new();
    if let Some(sent) = sent.as_ref().filter(|_| build.chips() > 1) {
        let first = |build: &mut Build<'_>, part: usize| {
            super::exchange::receive(build, sent, part);
            between_chips.push(super::peers::send(build));
        };
        build.each_part(first, |_| {});
    }
    build.each_part(
        |build, part| {
            if adds && part == 0 {
                super::exchange::load_residual(build);
            }
            if let Some(sent) = &sent {
                match between_chips.get(part) {
                    Some(transfers) => super::peers::receive(build, transfers),
                    None => super::exchange::receive(build, sent, part),
                }
                if adds {
                    super::exchange::load_next_residual(build, part);
                } else {
                    super::combine::add(build, build.at.sum, sent.kernel);
                }
            }
            norm(build, gains_stay);
            if build.deals_tokens() {
                super::exchange::gather(build);
            }
        },
        |build| build.prefetch(1),
    );
    // Rotations come behind the first norm.
    if build.queue.norms == 0 && build.plan.angles_row > 0 {
        super::rotate::angles(build);
    }
    build.queue.norms += 1;
    build.ask_constants(build.queue.norms);
    build.queue.peer_exchanges += u64::from(sent.is_some());
}

/// Passes over own tokens, by features.
pub(super) struct Norm {
    /// Columns of a slice.
    pub(super) share: u64,
    /// Where what is read lies.
    from: u64,
    /// Loops over words of own tokens.
    words: [(Count, u64); 3],
    /// Loops over what is kept of tokens, in words, and in bytes.
    kept: [(Count, u64); 2],
    kept_bytes: [(Count, u64); 2],
    /// Bytes before what is kept of the first.
    before: u64,
    /// The vector register file has its gains.
    has_gains: bool,
}

impl Norm {
    /// Of what lies at a place as the residual does.
    pub(super) fn new(build: &Build<'_>, from: u64) -> Norm {
        let share = build.plan.features.share;
        let [outer, inner] = build.by_own(share);
        let words = [outer, inner, (n(share), 1)];
        let (before, from) = (build.before_own(PAIR), from + build.before_own(bytes(Dtype::F32, share)));
        let (kept, kept_bytes) = (build.by_own(2), build.by_own(PAIR));
        Norm { share, from, words, kept, kept_bytes, before, has_gains: false }
    }

    /// The root of each token's mean square.
    pub(super) fn roots(&self, build: &mut Build<'_>, epsilon: f32) {
        let width = build.plan.features.width;
        let square = with(OpKind::Mul0, OperandSource::Stash).keep();
        let squares = chain(Word::F32, vec![square, self.within(build, ReduceOp::Add)]);
        self.reduce(build, "squares", squares, ReduceOp::Add, build.at.squares);
        let root = chain(Word::F32, vec![fma(inverse(width), epsilon), op(OpKind::Sqrt)]);
        self.each(build, "root", build.at.squares, root, build.at.roots);
    }

    /// All words, token after token.
    pub(super) fn all(&self) -> Fetch {
        fetch_words(Dtype::F32, self.from, &self.words)
    }

    /// A reduction of each token's columns within a slice.
    pub(super) fn within(&self, build: &Build<'_>, how: ReduceOp) -> tilewright_tcp_isa::program::vector::Op {
        let [_, (own, _), _] = self.words;
        let loops = [(build.part.rows, false), (own, false), (n(halves(self.share)), true)];
        reduce(how, true, &loops, Vec::new())
    }

    /// The residual reduced to a word a token, the same in all slices.
    pub(super) fn reduce(&self, build: &mut Build<'_>, name: &str, vector: Vector, how: ReduceOp, to: u64) {
        let vector = vector.then_between(how, build.band_slices(), ReduceOutput::Broadcast);
        let to = commit(Memory::Dm, to + self.before, &self.kept_bytes, PAIR);
        build.emit.exec(main(name, through(self.all(), vector, None, to)));
    }

    /// A pass over what is kept of tokens.
    pub(super) fn each(&self, build: &mut Build<'_>, name: &str, from: u64, vector: Vector, to: u64) {
        let [outer, inner] = self.kept;
        let from =
            Fetch { packet: 2, ..fetch_words(Dtype::F32, from + self.before, &[outer, inner, (n(2), 1)]) };
        let to = commit(Memory::Dm, to + self.before, &self.kept_bytes, PAIR);
        build.emit.exec(main(name, through(from, vector, None, to)));
    }

    /// What is kept of tokens to the vector register file.
    pub(super) fn load(&self, build: &mut Build<'_>, name: &str, from: u64, base: u64) {
        let [outer, inner] = self.kept;
        let from = fetch(Dtype::F32, from + self.before, &[outer, inner, (n(2), 1)], 2);
        let to = commit(Memory::Vrf, base + self.before, &self.kept_bytes, PAIR);
        build.emit.exec(sub(build.machine, name, copy(from, to)));
    }

    /// Gains to the vector register file: as they are, or, behind them, their magnitudes.
    fn gain(&self, build: &mut Build<'_>, magnitudes: bool) {
        if self.has_gains {
            return;
        }
        let gain = build.constant(build.plan.constants.gain(build.queue.norms, magnitudes));
        let size = bytes(Dtype::F32, self.share);
        load_words(build, "load_gain", gain, size, if magnitudes { size } else { 0 });
    }

    /// A word for each column, from the register file.
    pub(super) fn by_column(&self, build: &Build<'_>, base: u64) -> OperandSource {
        let [_, (own, _), _] = self.words;
        vrf(base, &[(build.part.rows, 0), (own, 0), (n(self.share), 1)])
    }

    /// Where the register file has what is kept of tokens: behind two words for each column.
    pub(super) fn tokens_at(&self) -> u64 {
        bytes(Dtype::F32, 2 * self.share)
    }

    /// What is kept of tokens.
    pub(super) fn by_token(&self) -> OperandSource {
        let [outer, inner] = self.kept;
        vrf(self.tokens_at() + self.before, &[outer, inner, (n(self.share), 0)])
    }

    /// The scaled residual, rounded.
    pub(super) fn scaled(&self, build: &mut Build<'_>, vector: Vector) {
        let (dtype, share) = (build.dtype(), self.share);
        let place = if build.deals_tokens() { build.at.normal_own } else { build.at.normal };
        let [outer, inner] = build.by_own(bytes(dtype, share));
        let (piece, place) = (bytes(dtype, 8), place + build.before_own(bytes(dtype, share)));
        let to = commit(Memory::Dm, place, &[outer, inner, (n(flits(share)), piece)], piece);
        build.emit.exec(main("scale", through(self.all(), vector, Some(dtype), to)));
    }

    fn floats(&self, build: &mut Build<'_>) {
        self.gain(build, false);
        self.load(build, "load_roots", build.at.roots, self.tokens_at());
        let (by_column, by_token) = (self.by_column(build, 0), self.by_token());
        let ops = vec![with(OpKind::Mul0, by_column), with(OpKind::Div, by_token)];
        self.scaled(build, chain(Word::F32, ops));
    }

    /// Integers with one scale for all tokens.
    fn known(&self, build: &mut Build<'_>, peak: f32) {
        self.gain(build, false);
        self.load(build, "load_roots", build.at.roots, self.tokens_at());
        let mut ops = vec![
            with(OpKind::Mul0, self.by_column(build, 0)),
            with(OpKind::Mul1, float(UNIT / peak)),
            with(OpKind::Div, self.by_token()),
        ];
        ops.extend(to_i8());
        self.scaled(build, chain(Word::F32, ops));
    }

    fn integers(&self, build: &mut Build<'_>) {
        self.gain(build, true);
        self.gain(build, false);
        let magnitudes = bytes(Dtype::F32, self.share);
        let scaled = with(OpKind::Mul0, self.by_column(build, magnitudes));
        let peaks = chain(Word::F32, vec![magnitude(), scaled, self.within(build, ReduceOp::Max)]);
        self.reduce(build, "peaks", peaks, ReduceOp::Max, build.at.squares);
        self.load(build, "load_token_peaks", build.at.squares, self.tokens_at());
        self.worth(build);
        let mut ops = vec![
            with(OpKind::Mul0, self.by_column(build, 0)),
            with(OpKind::Mul1, float(UNIT)),
            with(OpKind::Div, self.by_token()),
        ];
        ops.extend(to_i8());
        self.scaled(build, chain(Word::F32, ops));
    }

    /// Magnitudes over roots.
    fn worth(&self, build: &mut Build<'_>) {
        let [outer, inner] = self.kept;
        let loops = [outer, inner, (n(2), 0), (n(2), 1)];
        let from =
            fetch_pairs(Dtype::F32, build.at.squares + self.before, build.at.roots + self.before, &loops);
        let from = Fetch { packet: 2, ..from };
        let ratio = chain(Word::F32, vec![with(OpKind::Div, OperandSource::Pair)]).paired();
        let to = commit(Memory::Dm, build.at.worths + self.before, &self.kept_bytes, PAIR);
        build.emit.exec(main("worths", through(from, ratio, None, to)));
        self.spread_worths(build);
    }

    /// What units of tokens are worth, to whoever has their rows.
    pub(super) fn spread_worths(&self, build: &mut Build<'_>) {
        if build.mode == Mode::Decode {
            return;
        }
        // Slice i of a row has its token; every slice of the owner knows its worth.
        let own = build.own_of_row();
        let first = build.home.pe * own;
        let (pes, slices) = (n(build.pes()), signed(build.machine.pe.slices));
        let by_pe = TransferLoop { size: pes, source: 0, target: SLICE_STRIDE * slices };
        let pair = signed(PAIR);
        let by_place = TransferLoop { size: n(own), source: SLICE_STRIDE + pair, target: SLICE_STRIDE };
        let step = build.part.step;
        let band = SLICE_STRIDE * signed(build.band_slices());
        let by_band = TransferLoop { size: n(build.bands()), source: band, target: band };
        let loops = vec![by_pe, by_band, by_place, turn(build.part.rows, PAIR * own * step, PAIR * step)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        let target = build.chip_dm(first, build.at.row_worths + PAIR * build.part.first);
        let source = build.dm(first, build.at.worths + self.before);
        build.emit.dma(transfer("worths", source, target, loops, PAIR));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor; its rounding is far below that of the result")]
pub(super) fn inverse(width: u64) -> f32 {
    1.0 / width as f32
}
