//! What groups read from HBM: hulls of shares to the slices, and how the vector engine takes them from there
//! (vISA book, fetch engine and vector register file).

use std::collections::BTreeMap;

use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::exec::{Commit, Context, Fetch, Memory, Stream, Switch};
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;
use tilewright_tcp_isa::program::vector::Word;
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::vector::{FLIT_WORDS, output};
use tilewright_tcp_lower::kernels::chain::{chain, rows, vrf};
use tilewright_tcp_lower::kernels::pass::{ElementTarget, exec, fetch_words, load_vrf, pass};

use super::commands_group::{GroupPlan, Places, offset};
use super::cut::{ShareBox, block_bytes, boxes};
use super::emit::hbm;
use super::kernel::{Packing, Work};
use super::moves::Bytes;
use super::passes::{Pass, Registers, operands_of_units};
use super::plan::{Planner, WORD_BYTES};
use super::refusal::Lowered;
use super::view::signed;

/// Slices of a ring below which copies take less than the ring.
const LEAST_RING_LOG2: u32 = 2;

/// A first share and its slice, then size, stride and distance in slices of each loop over shares.
pub(super) type Walk = (u64, u64, Vec<(u64, i64, u64)>);

impl GroupPlan {
    /// Whether an input is fetched by strides from what was brought.
    pub(super) fn is_walked(&self, read: (usize, usize)) -> bool {
        self.operand(read).is_some_and(|(_, operand, hull)| {
            !hull.is_stream() || operand.element_bytes != WORD_BYTES || operand.streams > 1
        })
    }
}

impl Planner<'_> {
    /// Inputs that are spread over a share come from the vector register file.
    pub(super) fn registers(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        range: (u64, u64),
        places: &mut Places,
        wide: bool,
    ) -> Lowered<Registers> {
        let Work::Chain { inputs, lines, streams } = &self.kernels.kernels[number].work else {
            return Ok(Registers::new());
        };
        let mut small: BTreeMap<usize, (u64, Vec<(u64, i64)>)> = BTreeMap::new();
        for (stream, view) in inputs.iter().enumerate().filter(|_| wide) {
            match (self.slot(plan, view.value, places), plan.operand((number, stream))) {
                (Some((_, false)), _) => {
                    let columns = plan.row();
                    small.insert(
                        stream,
                        (places.narrow_words, vec![(places.words / columns, 1), (columns, 0)]),
                    );
                }
                (None, Some((_, operand, hull))) => {
                    let turns = hull.walk.iter().any(|(size, stride)| *size > 1 && *stride == 0);
                    let alone = operand.streams == 1 && plan.cut.shares() > 1;
                    let common = alone && self.is_common(plan, (number, stream)).is_some();
                    if (turns || common) && operand.element_bytes == WORD_BYTES {
                        small.insert(stream, (hull.elements, hull.walk.clone()));
                    }
                }
                _ => {}
            }
        }
        let candidates: Vec<usize> = small.keys().copied().collect();
        let fit = operands_of_units(&candidates, lines, streams);
        let (mut all, mut next) = (Registers::new(), 0);
        for (stream, (words, walk)) in small.into_iter().filter(|(stream, _)| fit.contains(stream)) {
            let bytes = block_bytes(words * WORD_BYTES);
            if next + bytes > self.machine().vrf.capacity_bytes {
                continue;
            }
            if let Some(ring) = self.is_common(plan, (number, stream)) {
                let to = places.hulls;
                places.hulls += bytes;
                self.bring_once(plan, (number, stream), ring, to)?;
                let width = self.machine().commit.sub_width_bytes;
                self.emitter.exec(spread_load(width, to, (ring, words / ring), next));
                all.insert(stream, vrf(next, &walk));
                next += bytes;
                continue;
            }
            let (from, lead) = match self.slot(plan, inputs[stream].value, places) {
                Some((slot, _)) => (slot, 0),
                None => {
                    let to = places.hulls;
                    places.hulls += bytes;
                    self.bring(plan, (number, stream), range, to)?;
                    (to, plan.operand((number, stream)).or_broken("what was brought is known").2.lead)
                }
            };
            self.emitter.exec(load_vrf("load", from, words, next));
            all.insert(stream, vrf(next + lead * WORD_BYTES, &walk));
            next += bytes;
        }
        Ok(all)
    }

    /// Slices that each bring a part of what all shares read, if there are enough of them: a ring passes the
    /// parts on, where transfers would bring a copy to every slice.
    fn is_common(&self, plan: &GroupPlan, read: (usize, usize)) -> Option<u64> {
        let (_, operand, hull) = plan.operand(read)?;
        let outer = plan.cut.outer(operand);
        let same = outer.iter().zip(&plan.cut.digits).all(|(stride, digit)| *stride == 0 || *digit == 1);
        if !same || hull.lead > 0 || hull.levels.len() > 1 || self.slot_of(plan, read) {
            return None;
        }
        let slices = self.machine().pe.slices;
        let mut rings = (LEAST_RING_LOG2..=slices.max(1).ilog2()).rev().map(|log2| 1_u64 << log2);
        rings.find(|ring| slices.is_multiple_of(*ring) && hull.elements.is_multiple_of(ring * FLIT_WORDS))
    }

    /// Whether an input is made in the group.
    fn slot_of(&self, plan: &GroupPlan, (number, stream): (usize, usize)) -> bool {
        let Work::Chain { inputs, .. } = &self.kernels.kernels[number].work else { return false };
        plan.slots.contains_key(&inputs[stream].value)
    }

    /// What all shares read, a part of it to each slice of a ring.
    fn bring_once(&mut self, plan: &GroupPlan, read: (usize, usize), ring: u64, to: u64) -> Lowered<()> {
        let Some((value, operand, hull)) = plan.operand(read) else { return Err("an input".to_string()) };
        let bytes = hull.elements / ring * WORD_BYTES;
        let rings = self.machine().pe.slices / ring;
        let source = hbm(self.places[*value]).step(operand.first * signed(WORD_BYTES));
        let loops = vec![(rings, 0, signed(ring) * SLICE_STRIDE), (ring, signed(bytes), SLICE_STRIDE)];
        let (source, target) = (source.ok_or("a place")?, self.emitter.dm(to));
        self.emitter.bytes("bring", &Bytes { source, target, loops, inside: bytes });
        Ok(())
    }

    /// A value with one element a row, as one with all.
    pub(super) fn spread(&mut self, plan: &GroupPlan, from: u64, to: u64, words: u64) {
        let columns = plan.row();
        let walk = [(words / columns, 1), (columns, 0)];
        self.emitter.exec(walked(fetch_words(Dtype::I32, from, &walk), Word::I32, words, to));
    }

    /// An input from HBM as a stream of words; gives where it lies, which is another place than asked for if
    /// it is a stream as it was brought.
    pub(super) fn stream(
        &mut self,
        plan: &GroupPlan,
        read: (usize, usize),
        range: (u64, u64),
        to: u64,
        places: &mut Places,
    ) -> Lowered<u64> {
        let Some((value, operand, hull)) = plan.operand(read) else { return Err("an input".to_string()) };
        if hull.is_stream() && operand.element_bytes == WORD_BYTES && operand.streams == 1 {
            self.bring(plan, read, range, to)?;
            return Ok(to);
        }
        let (fetch, words) = (self.walk(plan, read, range, places)?, places.words);
        let lies = hull.stream_elements() == Some(words) && operand.element_bytes == WORD_BYTES;
        if lies && fetch.base.is_multiple_of(FLIT_WORDS * WORD_BYTES) {
            return Ok(fetch.base);
        }
        let word = self.value(*value).packing.word();
        self.emitter.exec(walked(fetch, word, words, to));
        Ok(to)
    }

    /// How an input is fetched from where its hull lies; the hull is brought if it is not there.
    pub(super) fn walk(
        &mut self,
        plan: &GroupPlan,
        read: (usize, usize),
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<Fetch> {
        let Some((value, operand, hull)) = plan.operand(read) else { return Err("an input".to_string()) };
        let (number, begins) = plan.reads[&read];
        let from = match places.brought.get(&number) {
            Some(from) => *from,
            None => {
                let from = places.hulls;
                places.hulls += block_bytes(hull.elements * operand.element_bytes);
                self.bring(plan, read, range, from)?;
                places.brought.insert(number, from);
                from
            }
        };
        let dtype = self.value(*value).packing.cast().unwrap_or(Dtype::I32);
        let skipped = hull.lead + u64::try_from(begins).map_err(|_| "steps back")?;
        Ok(fetch_words(dtype, from + skipped * operand.element_bytes, &hull.walk))
    }

    /// The hulls of shares to the slices; slices behind the last share get those of the first again.
    pub(super) fn bring(
        &mut self,
        plan: &GroupPlan,
        read: (usize, usize),
        (first, end): (u64, u64),
        to: u64,
    ) -> Lowered<()> {
        let Some((value, operand, hull)) = plan.operand(read) else {
            return Err("an input".to_string());
        };
        let mut all: Vec<Walk> = Vec::new();
        let outer = plan.cut.outer(operand);
        for ShareBox { first: share, loops } in boxes(&plan.cut.digits, first, end) {
            let loops = loops.iter().map(|(size, digit, step)| (*size, outer[*digit], *step)).collect();
            all.push((share, share - first, loops));
        }
        let slices = self.machine().pe.slices;
        if end - first < slices {
            all.push((first, end - first, vec![(slices - (end - first), 0, 1)]));
        }
        let scale = |elements: i64| elements * signed(operand.element_bytes);
        let place = self.places[*value];
        for (share, slice, loops) in all {
            let skipped = offset(&plan.cut.digits, &outer, share) + operand.first - signed(hull.lead);
            let mut rows: Vec<(u64, i64, i64)> = loops
                .into_iter()
                .map(|(size, stride, slices)| (size, scale(stride), signed(slices) * SLICE_STRIDE))
                .collect();
            let levels = &hull.levels[..hull.levels.len() - 1];
            rows.extend(levels.iter().map(|(size, from, to)| (*size, scale(*from), scale(signed(*to)))));
            let inside = hull.run() * operand.element_bytes;
            let source = hbm(place).step(scale(skipped));
            let target = self.emitter.dm(to).step(signed(slice) * SLICE_STRIDE);
            let (Some(source), Some(target)) = (source, target) else { return Err("a place".to_string()) };
            self.emitter.bytes("bring", &Bytes { source, target, loops: rows, inside });
        }
        Ok(())
    }
}

/// Parts of a vector that the slices of a ring have, to the register file of each of them.
fn spread_load(sub_width_bytes: u64, from: u64, (ring, words): (u64, u64), to: u64) -> Exec {
    let flit = FLIT_WORDS * WORD_BYTES;
    let commit = Commit {
        memory: Memory::Vrf,
        base: to,
        loops: rows(&[(words / FLIT_WORDS, signed(flit)), (ring, signed(words * WORD_BYTES))]),
        bytes: flit,
        width: sub_width_bytes,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    };
    let switch =
        Switch { topology: Topology::Broadcast1(Ring { slice1: ring, slice0: 1 }), sources: Vec::new() };
    let stream = Stream {
        fetch: fetch_words(Dtype::I32, from, &[(words, 1)]),
        switch,
        contract: None,
        vector: None,
        cast: None,
        transpose: None,
        commit,
    };
    exec("load", Context::Sub, stream)
}

/// Whether an input enters one pass alone, by itself: as a float, or as an integer if it is of bytes.
pub(super) fn is_entered(stream: usize, made: &[Pass], kept: &[usize], packing: Packing) -> bool {
    let word = if packing == Packing::Byte { Word::I32 } else { Word::F32 };
    let mut uses = made.iter().filter(|pass| pass.stream == stream || pass.pair == Some(stream));
    let one = uses.next().is_some_and(|pass| pass.pair.is_none() && pass.vector.input == word);
    one && uses.next().is_none() && !kept.contains(&stream)
}

/// A pass over elements of data memory by strides.
pub(super) fn walked_pass(fetch: Fetch, taken: &Pass, words: u64, to: u64) -> Exec {
    let dtype = if fetch.dtype == Dtype::I32 { Dtype::F32 } else { fetch.dtype };
    let leaves = match output(&taken.vector) {
        Word::F32 => Dtype::F32,
        Word::I32 => Dtype::I32,
    };
    let target = ElementTarget { dtype: leaves, base: to };
    pass("chain", Fetch { dtype, ..fetch }, taken.vector.clone(), words / FLIT_WORDS, target)
}

/// Elements of data memory as a stream of words.
fn walked(fetch: Fetch, word: Word, words: u64, to: u64) -> Exec {
    let target = match word {
        Word::F32 => Dtype::F32,
        Word::I32 => Dtype::I32,
    };
    let vector = chain(word, Vec::new());
    pass("walk", fetch, vector, words / FLIT_WORDS, ElementTarget { dtype: target, base: to })
}
