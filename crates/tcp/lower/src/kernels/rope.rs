//! Rotary position embedding, halves rotated against each other: `(a cos - b sin, a sin + b cos)` for halves
//! `a` and `b` of a row.
//!
//! Angles are positions times frequencies; three short passes make `sin`, `cos` and `-sin` of them, in this
//! order for each token, which go to the vector register file. Then one pass does all heads: interleaved
//! fetch brings `a` and `b` for each half of the result, the walk of the register file starts at `cos`, steps
//! forward to the second group and backward to the second half.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::exec::{Context, Exec, Fetch, Interleave, Stream, Switch};
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::vector::{Op, OpKind, OperandSource, Word};
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::builder::{KernelBuilder, TensorSpec, bytes};
use super::chain::{chain, float, op, vrf, with};
use super::pass::{ElementTarget, commit, exec, fetch_words, load_vrf, pass, signed};
use super::{KernelError, multiple};

/// The largest wavelength is this times 2 pi.
pub const BASE: f64 = 10_000.0;

/// Parts of the table for each token: sine, cosine, minus sine.
const PARTS: u64 = 3;

/// The frequency of each pair of a row, as f32.
#[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
#[expect(clippy::cast_possible_truncation, reason = "to f32, as the table is")]
pub fn frequency(pair: u64, half: u64) -> f32 {
    BASE.powf(-(pair as f64) / half as f64) as f32
}

struct RopeLayer {
    heads: u64,
    /// Tokens of a slice.
    tokens: u64,
    /// Half a row.
    half: u64,
}

/// Rotates the rows of `x`, bf16 `heads x tokens x depth`, tokens over the slices; row `t` by the angles of
/// position `t`.
///
/// # Errors
/// Sizes that the slices cannot share, or tables that the register file cannot hold.
pub fn rope(machine: &Tcp, heads: u64, tokens: u64, depth: u64) -> Result<Program, KernelError> {
    let slices = machine.pe.slices;
    multiple("tokens", tokens, slices.capped_mul(2), "an even number a slice")?;
    multiple("depth", depth, 2 * FLIT_WORDS, "a multiple of 16")?;
    multiple("heads", heads, 1, "at least 1")?;
    let layer = RopeLayer { heads, tokens: tokens / slices, half: depth / 2 };
    let (mine, half) = (layer.tokens, layer.half);
    let table_words = mine.capped_mul(PARTS).capped_mul(half);
    let positions_at = 0;
    if bytes(Dtype::F32, table_words) > machine.vrf.capacity_bytes {
        let allowed = "so few that sines and cosines of a slice's tokens fit the vector register file";
        return Err(KernelError::Size { what: "tokens", found: tokens, allowed });
    }
    let mut builder = KernelBuilder::new(machine);
    let shape = format!("T^{{{mine}}}[{slices}] | H^1[{heads}] T^1[{mine}] D^1[{depth}]");
    let axes = [("H", heads), ("T", tokens), ("D", depth)];
    let mut named = TensorSpec { name: "x", dtype: Dtype::Bf16, axes: &axes, shape: &shape };
    let x = builder.input(&named, TensorData::Random(1))?;
    named.name = "y";
    let to = ElementTarget { dtype: Dtype::Bf16, base: builder.output(&named)? };
    let shape = format!("T^{{{mine}}}[{slices}] | T^1[{mine}]");
    let named = TensorSpec { name: "positions", dtype: Dtype::F32, axes: &[("T", tokens)], shape: &shape };
    let positions = builder.input(&named, TensorData::Patterns(position_patterns(tokens)))?;
    let shape = format!("_[{slices}] | F^1[{half}]");
    let named = TensorSpec { name: "frequencies", dtype: Dtype::F32, axes: &[("F", half)], shape: &shape };
    let patterns = (0..half).map(|pair| frequency(pair, half).to_bits()).collect();
    let frequencies = builder.input(&named, TensorData::Patterns(patterns))?;
    let table = builder.room(bytes(Dtype::F32, table_words))?;

    let id = builder.start(load_vrf("load_positions", positions, mine, positions_at))?;
    builder.wait(id);
    let angle = with(OpKind::Mul0, vrf(positions_at, &[(mine, 1), (half, 0)]));
    let minus = with(OpKind::Mul1, float(-1.0));
    let part = |name: &str, index: u64, ops: Vec<Op>| layer.table_part(name, frequencies, table, index, ops);
    builder.start(part("sines", 0, vec![angle.clone(), op(OpKind::Sin)]))?;
    builder.start(part("cosines", 1, vec![angle.clone(), op(OpKind::Cos)]))?;
    let id = builder.start(part("minus_sines", 2, vec![angle, op(OpKind::Sin), minus]))?;
    builder.wait(id);
    let id = builder.start(load_vrf("load_table", table, table_words, 0))?;
    builder.wait(id);
    builder.start(layer.rotation(x, to))?;
    Ok(builder.finish())
}

fn position_patterns(tokens: u64) -> Vec<u32> {
    #[expect(clippy::cast_precision_loss, reason = "positions are far below 2^24")]
    (0..tokens).map(|token| (token as f32).to_bits()).collect()
}

impl RopeLayer {
    /// A function of all angles of a slice, into its part of every token's table.
    fn table_part(&self, name: &str, frequencies: u64, table: u64, index: u64, ops: Vec<Op>) -> Exec {
        let flit_bytes = bytes(Dtype::F32, FLIT_WORDS);
        let fetch = fetch_words(Dtype::F32, frequencies, &[(self.tokens, 0), (self.half, 1)]);
        let part_bytes = bytes(Dtype::F32, self.half);
        let mut commit = commit(table + index * part_bytes, 1, flit_bytes);
        commit.loops = super::chain::rows(&[
            (self.tokens, signed(PARTS * part_bytes)),
            (self.half / FLIT_WORDS, signed(flit_bytes)),
        ]);
        let stream = Stream {
            fetch,
            switch: Switch::default(),
            contract: None,
            vector: Some(chain(Word::F32, ops)),
            cast: None,
            transpose: None,
            commit,
        };
        exec(name, Context::Main, stream)
    }

    fn rotation(&self, x: u64, to: ElementTarget) -> Exec {
        let (half, flits) = (signed(self.half), self.half / FLIT_WORDS);
        let rows = self.heads.capped_mul(self.tokens);
        // Every row for both halves of the result, a flit of each half of the row alternating.
        let loops = [(rows, 2 * half), (2, 0), (flits, signed(FLIT_WORDS)), (2, 0), (FLIT_WORDS, 1)];
        let at_loop = loops.iter().take(3).filter(|(size, _)| *size != 1).count();
        let base = x + bytes(Dtype::Bf16, self.half);
        let fetch =
            Fetch { interleave: Some(Interleave { at_loop, base }), ..fetch_words(Dtype::Bf16, x, &loops) };
        let parts = signed(PARTS) * half;
        let walk = [
            (self.heads, 0),
            (self.tokens, parts),
            (2, -half),
            (flits, signed(FLIT_WORDS)),
            (2, half),
            (FLIT_WORDS, 1),
        ];
        let ops = vec![
            with(OpKind::Mul0, vrf(bytes(Dtype::F32, self.half), &walk)),
            with(OpKind::FAdd, OperandSource::Pair),
        ];
        let written = rows.capped_mul(2).capped_mul(flits);
        pass("rotate", fetch, chain(Word::F32, ops).paired(), written, to)
    }
}
