//! What groups read from HBM: hulls of shares to the slices, and how the vector engine takes them from there
//! (vISA book, fetch engine and vector register file).

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::exec::{Commit, Context, Fetch, Memory, Stream, Switch};
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;
use tilewright_tcp_isa::program::vector::Word;
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::vector::{FLIT_WORDS, output};
use tilewright_tcp_lower::kernels::chain::{chain, rows, vrf};
use tilewright_tcp_lower::kernels::pass::{ElementTarget, exec, fetch_words, load_vrf, pass};

use super::commands_group::{Places, offset};
use super::cut::{ShareBox, block_bytes, boxes};
use super::depthwise::{Share, Taps};
use super::emit::hbm;
use super::group_plan::GroupPlan;
use super::hull::Hull;
use super::kernel::{Packing, Work};
use super::moves::Bytes;
use super::operands::Operand;
use super::passes::{Pass, Registers, operands_of_units};
use super::plan::{Planner, WORD_BYTES};
use super::refusal::Lowered;
use super::view::signed;

/// Cycles of the sub context that one of a DMA engine is worth: the engine has more to do, and zeros are
/// written before what comes.
const ENGINE_WORTH: u64 = 4;
/// Slices of a ring below which copies take less than the ring.
const LEAST_RING_LOG2: u32 = 2;

/// Inputs that are spread over a share, by number: words, and how the share walks over them.
type SmallInputs = BTreeMap<usize, (u64, Vec<(u64, i64)>)>;

/// Words of a value that all shares read alike.
struct Vector {
    value: usize,
    /// First element.
    first: i64,
    words: u64,
}

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
        let mut small = SmallInputs::new();
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
                    let ring = self.ring_of(hull.elements).is_some();
                    let common = alone && ring && self.is_common(plan, (number, stream));
                    if (turns || common) && operand.element_bytes == WORD_BYTES {
                        small.insert(stream, (hull.elements, hull.walk.clone()));
                    }
                }
                _ => {}
            }
        }
        let candidates: Vec<usize> = small.keys().copied().collect();
        let fit = operands_of_units(&candidates, lines, streams);
        small.retain(|stream, _| fit.contains(stream));
        let (mut all, mut next) = (Registers::new(), 0);
        let capacity = self.machine().vrf.capacity_bytes;
        for Vector { value, first, words } in self.vectors(plan, number, &small) {
            let bytes = block_bytes(words * WORD_BYTES);
            let Some(ring) = self.ring_of(words).filter(|_| next + bytes <= capacity) else { continue };
            // Register files keep what all shares of a PE read alike.
            if !places.holds_vectors {
                let to = places.hulls;
                self.bring_once((value, first), words, ring, to)?;
                let width = self.machine().commit.sub_width_bytes;
                let ring = Ring { slice1: ring, slice0: 1 };
                self.emitter.exec(spread_load(width, to, (ring, words / ring.slice1), next));
            }
            places.hulls += bytes;
            let common = |(_, operand, _): &&(usize, Operand, Hull)| operand.first;
            for (stream, (_, walk)) in &small {
                let read = (number, *stream);
                let own = plan.operand(read).filter(|one| one.0 == value && self.is_common(plan, read));
                let Some(at) = own.as_ref().map(common) else { continue };
                let at = u64::try_from(at - first).map_err(|_| "a vector before the first")?;
                all.insert(*stream, vrf(next + at * WORD_BYTES, walk));
            }
            next += bytes;
        }
        small.retain(|stream, _| !all.contains_key(stream));
        for (stream, (words, walk)) in small {
            let bytes = block_bytes(words * WORD_BYTES);
            if next + bytes > capacity {
                continue;
            }
            let (from, lead) = match self.slot(plan, inputs[stream].value, places) {
                Some((slot, _)) => (slot, 0),
                None => {
                    let to = places.hulls;
                    places.hulls += bytes;
                    self.bring(plan, (number, stream), range, to)?;
                    (to, plan.operand((number, stream)).or_broken("what was brought is known").2.begins)
                }
            };
            self.emitter.exec(load_vrf("load", from, words, next));
            all.insert(stream, vrf(next + lead * WORD_BYTES, &walk));
            next += bytes;
        }
        Ok(all)
    }

    /// What all shares read alike, by value: inputs that lie one behind the other in it are one vector.
    fn vectors(&self, plan: &GroupPlan, number: usize, small: &SmallInputs) -> Vec<Vector> {
        let mut by_value: BTreeMap<usize, Vec<(i64, u64)>> = BTreeMap::new();
        for (stream, (words, _)) in small {
            let read = (number, *stream);
            if let Some((value, operand, _)) = plan.operand(read).filter(|_| self.is_common(plan, read)) {
                by_value.entry(*value).or_default().push((operand.first, *words));
            }
        }
        let whole = |(value, mut runs): (usize, Vec<(i64, u64)>)| {
            runs.sort_unstable();
            runs.dedup();
            let behind = runs.windows(2).all(|pair| pair[0].0 + signed(pair[0].1) == pair[1].0);
            let first = runs.first()?.0;
            let words = runs.iter().map(|run| run.1).sum();
            behind.then_some(Vector { value, first, words })
        };
        by_value.into_iter().filter_map(whole).collect()
    }

    /// Slices of a ring that each bring a part of so many words, if there are enough of them.
    fn ring_of(&self, words: u64) -> Option<u64> {
        let slices = self.machine().pe.slices;
        let mut rings = (LEAST_RING_LOG2..=slices.max(1).ilog2()).rev().map(|log2| 1_u64 << log2);
        rings.find(|ring| slices.is_multiple_of(*ring) && words.is_multiple_of(ring * FLIT_WORDS))
    }

    /// Whether all shares read the same contiguous words: a ring passes parts of them on, where transfers
    /// would bring a copy to every slice.
    fn is_common(&self, plan: &GroupPlan, read: (usize, usize)) -> bool {
        let Some((_, _, hull)) = plan.operand(read) else { return false };
        self.is_alike(plan, read)
            && !plan.is_pitched()
            && (hull.lead, hull.behind) == (0, 0)
            && hull.levels.len() <= 1
            && !self.slot_of(plan, read)
    }

    /// Whether an input is made in the group.
    fn slot_of(&self, plan: &GroupPlan, (number, stream): (usize, usize)) -> bool {
        let Work::Chain { inputs, .. } = &self.kernels.kernels[number].work else { return false };
        plan.slots.contains_key(&inputs[stream].value)
    }

    /// What all shares read, a part of it to each slice of a ring.
    fn bring_once(&mut self, (value, first): (usize, i64), words: u64, ring: u64, to: u64) -> Lowered<()> {
        let bytes = words / ring * WORD_BYTES;
        let rings = self.machine().pe.slices / ring;
        let source = hbm(self.places[value]).step(first * signed(WORD_BYTES));
        let loops = vec![(rings, 0, signed(ring) * SLICE_STRIDE), (ring, signed(bytes), SLICE_STRIDE)];
        let (source, target) = (source.ok_or("a place")?, self.emitter.dm(to));
        let pes = self.emitter.pes();
        self.emitter.bytes_alike("bring", &Bytes { source, target, loops, inside: bytes }, pes);
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
        let Some((value, _, hull)) = plan.operand(read) else { return Err("an input".to_string()) };
        let dtype = self.value(*value).packing.cast().unwrap_or(Dtype::I32);
        Ok(fetch_words(dtype, self.brought(plan, read, range, places)?, &hull.walk))
    }

    /// Where the first element of an input lies in its hull, which is brought if it is not there.
    pub(super) fn brought(
        &mut self,
        plan: &GroupPlan,
        read: (usize, usize),
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<u64> {
        let Some((_, operand, hull)) = plan.operand(read) else { return Err("an input".to_string()) };
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
        let skipped = hull.begins + u64::try_from(begins).map_err(|_| "steps back")?;
        Ok(from + skipped * operand.element_bytes)
    }

    /// A depthwise sum: weights to the register files, unless they have them from a share before, then the
    /// sums of the slices' shares.
    pub(super) fn depthwise(
        &mut self,
        plan: &GroupPlan,
        (number, taps, share): (usize, &Taps, &Share),
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<()> {
        let machine = self.emitter.machine;
        let to = self.kernels.kernels[number].results[0];
        let (to, _) = self.slot(plan, to, places).ok_or("a sum without a place")?;
        let weights = (number, taps.weights[0]);
        if !(places.holds_vectors && self.is_alike(plan, weights)) {
            let from = self.brought(plan, weights, range, places)?;
            self.emitter.exec(share.load(machine, from));
        }
        let from = self.brought(plan, (number, taps.windows[0]), range, places)?;
        self.emitter.exec(share.contract(machine, from, to));
        Ok(())
    }

    /// Whether all shares read the same elements.
    fn is_alike(&self, plan: &GroupPlan, read: (usize, usize)) -> bool {
        let Some((_, operand, _)) = plan.operand(read) else { return false };
        let outer = plan.cut.outer(operand);
        outer.iter().zip(&plan.cut.digits).all(|(stride, digit)| *stride == 0 || *digit == 1)
    }

    /// The hulls of shares to the slices; slices behind the last share get those of the first, or zeros.
    pub(super) fn bring(
        &mut self,
        plan: &GroupPlan,
        read: (usize, usize),
        (first, end): (u64, u64),
        to: u64,
    ) -> Lowered<()> {
        let (number, _) = plan.reads.get(&read).ok_or("an input")?;
        let (all, cleared_bytes) = self.hull_transfers(plan, *number, (first, end), to)?;
        let slices = self.machine().pe.slices;
        if cleared_bytes > 0 {
            self.emitter.clear_slices("clear", to, cleared_bytes, &[(end - first, slices)]);
        }
        let sharing = plan.cut.shares().div_ceil(end - first).min(self.emitter.pes());
        for bytes in all {
            self.emitter.bytes_alike("bring", &bytes, sharing);
        }
        Ok(())
    }

    /// Transfers of hulls of shares to a place of the slices, and bytes that are cleared there in slices
    /// behind the last share, if these do not get the hull of the first.
    pub(super) fn hull_transfers(
        &self,
        plan: &GroupPlan,
        number: usize,
        (first, end): (u64, u64),
        to: u64,
    ) -> Lowered<(Vec<Bytes>, u64)> {
        let (value, operand, hull) = plan.operands.get(number).ok_or("an input")?;
        let mut all: Vec<Walk> = Vec::new();
        let outer = plan.cut.outer(operand);
        for ShareBox { first: share, loops } in boxes(&plan.cut.digits, first, end) {
            let loops = loops.iter().map(|(size, digit, step)| (*size, outer[*digit], *step)).collect();
            all.push((share, share - first, loops));
        }
        let idle = self.machine().pe.slices.exact_sub(end - first);
        let clears = idle > 0 && self.clears(hull, operand, idle);
        if idle > 0 && !clears {
            all.push((first, end - first, vec![(idle, 0, 1)]));
        }
        let cleared_bytes = if clears { block_bytes(hull.elements * operand.element_bytes) } else { 0 };
        let scale = |elements: i64| elements * signed(operand.element_bytes);
        let place = self.places[*value];
        let bytes = |(share, slice, loops): Walk| {
            let skipped = offset(&plan.cut.digits, &outer, share) + hull.first(operand);
            let mut rows: Vec<(u64, i64, i64)> = loops
                .into_iter()
                .map(|(size, stride, slices)| (size, scale(stride), signed(slices) * SLICE_STRIDE))
                .collect();
            let levels = &hull.levels[..hull.levels.len() - 1];
            rows.extend(levels.iter().map(|(size, from, to)| (*size, scale(*from), scale(signed(*to)))));
            let inside = hull.run() * operand.element_bytes;
            let source = hbm(place).step(scale(skipped)).ok_or("a place")?;
            let target = self.emitter.dm(to).step(signed(slice) * SLICE_STRIDE).ok_or("a place")?;
            Ok(Bytes { source, target, loops: rows, inside })
        };
        let all: Lowered<Vec<Bytes>> = all.into_iter().map(bytes).collect();
        Ok((all?, cleared_bytes))
    }

    /// Whether zeros for so many slices without a share take less than copies of what another one has.
    fn clears(&self, hull: &Hull, operand: &Operand, idle: u64) -> bool {
        let machine = self.machine();
        let rows: u64 = hull.levels[..hull.levels.len() - 1].iter().map(|level| level.0).product();
        let run_bytes = hull.run() * operand.element_bytes;
        let brought = rows * run_bytes.div_ceil(machine.tdma.request_bytes) * idle;
        let bytes = block_bytes(hull.elements * operand.element_bytes);
        let cleared = bytes / machine.commit.sub_width_bytes;
        let engine = machine.tdma.startup_cycles + brought;
        machine.command.overhead_cycles + cleared < engine * ENGINE_WORTH
    }
}

/// Parts of a vector, so many words each, that slices of a ring have, to the register file of each of them.
pub(super) fn spread_load(sub_width_bytes: u64, from: u64, (ring, words): (Ring, u64), to: u64) -> Exec {
    let flit = FLIT_WORDS * WORD_BYTES;
    let commit = Commit {
        memory: Memory::Vrf,
        base: to,
        loops: rows(&[(words / FLIT_WORDS, signed(flit)), (ring.slice1, signed(words * WORD_BYTES))]),
        bytes: flit,
        width: sub_width_bytes,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    };
    let switch = Switch { topology: Topology::Broadcast1(ring), sources: Vec::new() };
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
