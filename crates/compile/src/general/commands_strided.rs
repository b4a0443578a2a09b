//! Chains that read values by strides: hulls of shares come from HBM, the fetch sequencer walks over them, results go back side
//! by side.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;
use tilewright_tcp_isa::program::vector::{Vector, Word};
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::{ElementTarget, fetch_words, pass};

use super::commands_chain::Rooms;
use super::cut::{Cut, Hull, Operand, Room, ShareBox, block_bytes, boxes, coalesced, cut};
use super::emit::{Block, hbm};
use super::moves::Bytes;
use super::passes::Pass;
use super::plan::{Planner, WORD_BYTES};
use super::refusal::Lowered;
use super::view::{View, signed};

/// A chain with its cut and the rooms of its streams.
struct Strided<'s> {
    inputs: &'s [View],
    streams: &'s [usize],
    results: &'s [usize],
    passes: &'s [Pass],
    rooms: Rooms,
    operands: Vec<Operand>,
    hulls: Vec<Hull>,
    cut: Cut,
}

impl Planner<'_> {
    pub(super) fn strided_chain(
        &mut self,
        inputs: &[View],
        streams: &[usize],
        results: &[usize],
        passes: &[Pass],
    ) -> Lowered<()> {
        let machine = self.emitter.machine;
        let bytes: Vec<u64> = inputs.iter().map(|view| self.value(view.value).element_bytes()).collect();
        let (dims, operands) = coalesced(inputs, &bytes);
        let rooms = Rooms::new(inputs.len(), streams, passes);
        let room = room(self.emitter.pes(), &rooms, streams, passes);
        let cut = cut(machine, &dims, &operands, room).ok_or("strides that no transfer walks")?;
        let hulls = operands.iter().map(|operand| cut.hull(machine, operand)).collect::<Option<Vec<_>>>();
        let hulls = hulls.ok_or("strides that no transfer walks")?;
        let one = Strided { inputs, streams, results, passes, rooms, operands, hulls, cut };
        let (slices, pes) = (machine.pe.slices, self.emitter.pes());
        let shares = one.cut.shares();
        for (turn, first) in (0..shares).step_by(usize::try_from(slices).map_err(|_| "slices")?).enumerate() {
            self.emitter.turn_to(turn as u64 % pes);
            self.share(&one, first, (first + slices).min(shares));
        }
        Ok(())
    }

    /// A share of every slice.
    fn share(&mut self, one: &Strided<'_>, first: u64, end: u64) {
        let words = one.cut.share();
        let halves = one.results.iter().filter(|value| self.value(**value).half).count() as u64;
        let hull_bytes = Cut::hull_bytes(&one.hulls, &one.operands);
        let taken = (one.rooms.most + halves) * words * WORD_BYTES + hull_bytes;
        let base = self.emitter.next_half(taken);
        let at = |stream: usize| base + one.rooms.of[stream].unwrap_or(0) * words * WORD_BYTES;
        let mut block = base + (one.rooms.most + halves) * words * WORD_BYTES;
        for (stream, (hull, operand)) in one.hulls.iter().zip(&one.operands).enumerate() {
            if one.rooms.of[stream].is_none() {
                continue;
            }
            let straight = hull.is_stream() && operand.element_bytes == WORD_BYTES;
            let to = if straight { at(stream) } else { block };
            self.bring(one, stream, (first, end), to);
            if !straight {
                self.emitter.exec(walk(hull, operand, to, words, at(stream)));
                block += block_bytes(hull.elements * operand.element_bytes);
            }
        }
        for pass in one.passes {
            self.pass(pass, at(pass.stream), pass.pair.map(at), words, (at(pass.result), None));
        }
        let mut spare = base + one.rooms.most * words * WORD_BYTES;
        for (stream, value) in one.streams.iter().zip(one.results) {
            let mut from = at(*stream);
            let bytes = self.value(*value).element_bytes();
            if self.value(*value).half {
                let plain = Pass { stream: 0, pair: None, vector: unchanged(), result: 0 };
                self.pass(&plain, from, None, words, (spare, Some(Dtype::Bf16)));
                from = spare;
                spare += words * WORD_BYTES;
            }
            let block = Block {
                hbm: self.places[*value] + first * words * bytes,
                dm: from,
                first_slice: 0,
                slices: end - first,
                pitch_bytes: words * bytes,
                rows: 1,
                row_bytes: words * bytes,
                hbm_row_bytes: 0,
                dm_row_bytes: 0,
            };
            self.emitter.slices("keep", false, &block);
        }
    }

    /// The hulls of shares to the slices; slices behind the last share get those of the first again.
    fn bring(&mut self, one: &Strided<'_>, stream: usize, (first, end): (u64, u64), to: u64) {
        let mut all: Vec<(u64, u64, Vec<(u64, i64, u64)>)> = Vec::new();
        let outer = one.cut.outer(&one.operands[stream]);
        for ShareBox { first: share, loops } in boxes(&one.cut.digits, first, end) {
            let loops = loops.iter().map(|(size, digit, step)| (*size, outer[*digit], *step)).collect();
            all.push((share, share - first, loops));
        }
        let slices = self.machine().pe.slices;
        if end - first < slices {
            all.push((first, end - first, vec![(slices - (end - first), 0, 1)]));
        }
        let (hull, operand) = (&one.hulls[stream], &one.operands[stream]);
        let scale = |elements: i64| elements * signed(operand.element_bytes);
        let place = self.places[one.inputs[stream].value];
        for (share, slice, loops) in all {
            let skipped = offset(&one.cut.digits, &outer, share) + operand.first - signed(hull.lead);
            let mut rows: Vec<(u64, i64, i64)> = loops
                .into_iter()
                .map(|(size, stride, slices)| (size, scale(stride), signed(slices) * SLICE_STRIDE))
                .collect();
            let levels = &hull.levels[..hull.levels.len() - 1];
            rows.extend(levels.iter().map(|(size, from, to)| (*size, scale(*from), scale(signed(*to)))));
            let inside = hull.levels.last().map_or(0, |level| level.0) * operand.element_bytes;
            let source = hbm(place).step(scale(skipped));
            let target = self.emitter.dm(to).step(signed(slice) * SLICE_STRIDE);
            if let (Some(source), Some(target)) = (source, target) {
                self.emitter.bytes("bring", &Bytes { source, target, loops: rows, inside });
            }
        }
    }
}

/// What a chain needs of a cut.
pub(super) fn room(pes: u64, rooms: &Rooms, streams: &[usize], passes: &[Pass]) -> Room {
    let most = rooms.most + streams.len() as u64;
    Room { pes, streams: most, passes: (passes.len() + streams.len()) as u64 }
}

/// Elements before a share.
fn offset(digits: &[u64], strides: &[i64], share: u64) -> i64 {
    let (mut left, mut all) = (share, 0);
    for (size, stride) in digits.iter().zip(strides).rev() {
        all += signed(left % size) * stride;
        left /= size;
    }
    all
}

fn unchanged() -> Vector {
    chain(Word::F32, Vec::new())
}

/// The share of an operand as a stream of words, from its hull.
fn walk(hull: &Hull, operand: &Operand, from: u64, words: u64, to: u64) -> tilewright_tcp_isa::program::Exec {
    let dtype = if operand.element_bytes == WORD_BYTES { Dtype::I32 } else { Dtype::Bf16 };
    let first = from + hull.lead * operand.element_bytes;
    let fetch = fetch_words(dtype, first, &hull.walk);
    let (vector, target) = match dtype {
        Dtype::I32 => (chain(Word::I32, Vec::new()), Dtype::I32),
        _ => (unchanged(), Dtype::F32),
    };
    pass("walk", fetch, vector, words / FLIT_WORDS, ElementTarget { dtype: target, base: to })
}
