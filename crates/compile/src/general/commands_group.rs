//! Groups of kernels that run share by share: hulls of what they read come from HBM, values between them stay
//! in data memory or the vector register file, and what others read goes back (paper section V-C: read,
//! compute, vector chain, write).

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Context, Fetch, Stream, Switch};
use tilewright_tcp_isa::program::transfer::{Address, SLICE_STRIDE};
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::{ElementTarget, commit, exec, fetch_words, pass};

use super::commands_chain::Rooms;
use super::commands_hulls::{is_entered, walked_pass};
use super::commands_keep::staged_bytes;
use super::commands_reduce::reduction;
use super::cut::{ShareBox, block_bytes, boxes};
use super::emit::{Block, hbm};
use super::group::GRANULE_WORDS;
use super::group_plan::{GroupPlan, comes_late, is_copy};
use super::hull::Hull;
use super::kernel::{Packing, Work};
use super::moves::Bytes;
use super::operands::Operand;
use super::passes::{Pass, Registers, passes_with};
use super::plan::{Planner, WORD_BYTES};
use super::refusal::Lowered;
use super::tap_folds::{FoldedShare, TapFold};
use super::view::{signed, strides};

/// Where things of one share lie in data memory.
pub(super) struct Places {
    pub(super) base: u64,
    pub(super) words: u64,
    /// Words of a value with one element a row.
    pub(super) narrow_words: u64,
    pub(super) temporary: u64,
    pub(super) narrow: u64,
    pub(super) hulls: u64,
    /// Where what several inputs read lies, by its number.
    pub(super) brought: BTreeMap<usize, u64>,
    /// Where rows are put one behind the other, without what fills them up.
    pub(super) dense: u64,
    /// Where short rows of other slices are put together.
    pub(super) staged: u64,
    /// The register files of the PE have what all shares read alike, from a share before.
    pub(super) holds_vectors: bool,
}

impl Planner<'_> {
    pub(super) fn group(&mut self, plan: &GroupPlan) -> Lowered<()> {
        let pes = self.emitter.pes();
        for (turn, range) in (0..).zip(self.share_ranges(plan)) {
            self.emitter.turn_to(turn % pes);
            let again = turn >= pes && (plan.kernels.len() == 1 || !plan.sums.is_empty());
            self.group_share(plan, range, again)?;
        }
        let last: BTreeSet<usize> =
            plan.slots.keys().copied().filter(|value| !self.is_given(plan, *value)).collect();
        for value in last {
            self.laid.insert(value, None);
        }
        Ok(())
    }

    /// Whether somebody outside of a group reads a value.
    pub(super) fn is_given(&self, plan: &GroupPlan, value: usize) -> bool {
        let outside = |reader: &usize| plan.kernels.binary_search(reader).is_err();
        self.keep || self.readers[value].iter().any(outside)
    }

    fn group_share(
        &mut self,
        plan: &GroupPlan,
        (first, end): (u64, u64),
        holds_vectors: bool,
    ) -> Lowered<()> {
        let words = plan.words;
        let rows = plan.columns.map_or(0, |columns| words / columns);
        let narrow_words = rows.next_multiple_of(FLIT_WORDS);
        let slots = plan.wide_slots * words * plan.slot_bytes;
        let wide = slots + plan.temporary * words * WORD_BYTES;
        let narrow = plan.narrow_slots * narrow_words * WORD_BYTES;
        let block =
            |(_, operand, hull): &(usize, Operand, Hull)| block_bytes(hull.elements * operand.element_bytes);
        let hulls: u64 = plan.operands.iter().map(block).sum();
        let given = self.longest_given(plan).unwrap_or_default();
        let dense = if plan.is_pitched() { block_bytes(given) } else { 0 };
        let staged = staged_bytes(self.machine(), given);
        let base = self.emitter.next_region(wide + narrow + hulls + dense + staged);
        let temporary = base + slots;
        let mut places = Places {
            base,
            words,
            narrow_words,
            temporary,
            narrow: base + wide,
            hulls: base + wide + narrow,
            brought: BTreeMap::new(),
            dense: base + wide + narrow + hulls,
            staged: base + wide + narrow + hulls + dense,
            holds_vectors,
        };
        for number in &plan.kernels {
            self.emitter.name_kernel(*number);
            match &self.kernels.kernels[*number].work {
                Work::Chain { .. } => self.group_chain(plan, *number, (first, end), &mut places)?,
                Work::Reduce { from, fold, columns } => {
                    let to = self.kernels.kernels[*number].results[0];
                    let source = match plan.slots.get(from) {
                        Some(slot) => base + slot * words * plan.slot_bytes,
                        None => self.row_source(plan, *number, (first, end), &mut places)?,
                    };
                    let target = places.narrow + plan.slots[&to] * narrow_words * WORD_BYTES;
                    if narrow_words != rows {
                        self.emitter.clear("clear", target, narrow_words * WORD_BYTES);
                    }
                    let float = self.value(*from).dtype.is_float();
                    self.emitter.exec(reduction(*fold, float, (rows, *columns), [source, target]));
                }
                _ => return Err("a kernel that is in no group".to_string()),
            }
            for value in &self.kernels.kernels[*number].results {
                self.give_share(plan, *value, (first, end), &places);
            }
        }
        Ok(())
    }

    /// Where the rows lie that a reduction brings; others may read them too.
    fn row_source(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<u64> {
        let read = (number, 0);
        let whole =
            plan.operand(read).is_some_and(|(_, operand, hull)| operand.streams > 1 && hull.is_stream());
        if whole {
            return Ok(self.walk(plan, read, range, places)?.base);
        }
        if plan.is_pitched() {
            return self.stream(plan, read, range, places.temporary, places);
        }
        self.bring(plan, read, range, places.temporary)?;
        Ok(places.temporary)
    }

    /// Where a value of the group lies.
    pub(super) fn slot(&self, plan: &GroupPlan, value: usize, places: &Places) -> Option<(u64, bool)> {
        let slot = plan.slots.get(&value)?;
        let wide = plan.columns.is_none_or(|_| self.value(value).count() == plan.elements);
        Some(if wide {
            (places.base + slot * places.words * plan.slot_bytes, true)
        } else {
            (places.narrow + slot * places.narrow_words * WORD_BYTES, false)
        })
    }

    /// Writes the share of a value that others read.
    fn give_share(&mut self, plan: &GroupPlan, value: usize, (first, end): (u64, u64), places: &Places) {
        let Some((dm, wide)) = self.slot(plan, value, places).filter(|_| self.is_given(plan, value)) else {
            return;
        };
        let elements = if wide { plan.cut.share() } else { places.words / plan.row() };
        let element_bytes = self.value(value).element_bytes();
        let dm = if wide && plan.is_pitched() { self.dense(plan, value, dm, places) } else { dm };
        if wide && !plan.cut.is_contiguous() {
            return self.give_blocks(plan, value, (first, end), dm);
        }
        let bytes = elements * element_bytes;
        let block = Block {
            hbm: self.places[value] + first * bytes,
            dm,
            first_slice: 0,
            slices: end - first,
            pitch_bytes: bytes,
            rows: 1,
            row_bytes: bytes,
            hbm_row_bytes: 0,
            dm_row_bytes: 0,
        };
        if wide {
            self.emitter.keep_staged("keep", &block, places.staged);
        } else {
            self.emitter.keep("keep", &block);
        }
    }

    /// Rows of a value without what fills them up: one behind the other.
    fn dense(&mut self, plan: &GroupPlan, value: usize, from: u64, places: &Places) -> u64 {
        let (pitch, share) = (plan.row(), plan.cut.share());
        let rows = plan.words / pitch;
        let walk = [(rows, signed(pitch)), (share / rows, 1)];
        let packing = self.value(value).packing;
        match packing.cast() {
            Some(dtype) => {
                let vector = chain(packing.word(), Vec::new());
                let target = ElementTarget { dtype, base: places.dense };
                let fetch = fetch_words(dtype, from, &walk);
                self.emitter.exec(pass("pack", fetch, vector, share / FLIT_WORDS, target));
            }
            None => self.words("pack", fetch_words(Dtype::I32, from, &walk), share, places.dense),
        }
        places.dense
    }

    /// So many words from where they are fetched, one behind the other: in whole flits if they make them up.
    fn words(&mut self, name: &str, fetch: Fetch, words: u64, to: u64) {
        let packet = if words.is_multiple_of(FLIT_WORDS) { FLIT_WORDS } else { GRANULE_WORDS };
        let stream = Stream {
            fetch: Fetch { packet, ..fetch },
            switch: Switch::default(),
            contract: None,
            vector: None,
            cast: None,
            transpose: None,
            commit: commit(to, words / packet, packet * WORD_BYTES),
        };
        self.emitter.exec(exec(name, Context::Main, stream));
    }

    /// Bytes of the longest share that is written one behind the other.
    fn longest_given(&self, plan: &GroupPlan) -> Option<u64> {
        let given =
            plan.slots.keys().filter(|value| self.is_given(plan, **value) && plan.cut.is_contiguous());
        let wide = given.filter(|value| self.value(**value).count() == plan.elements);
        wide.map(|value| plan.cut.share() * self.value(*value).element_bytes()).max()
    }

    /// Writes shares that do not follow each other.
    fn give_blocks(&mut self, plan: &GroupPlan, value: usize, range: (u64, u64), dm: u64) {
        let place = (self.places[value], self.value(value).element_bytes());
        for bytes in value_boxes(plan, place, range, self.emitter.dm(dm)) {
            self.emitter.bytes("keep", &bytes);
        }
    }

    /// A chain that takes one command of its own instead of passes over streams; whether it is one.
    fn chain_by_engine(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<bool> {
        let Work::Chain { lines, streams, .. } = &self.kernels.kernels[number].work else { return Ok(false) };
        if let Some((taps, share)) = plan.sums.get(&number) {
            self.depthwise(plan, (number, taps, share), range, places)?;
            return Ok(true);
        }
        if let Some(fold) = &plan.fold {
            self.folded(plan, (number, fold), range, places)?;
            return Ok(true);
        }
        if lines.is_empty() && streams[..] == [0] && self.narrowed(plan, number, range, places)? {
            return Ok(true);
        }
        let copies = plan.kernels.len() == 1 && is_copy(self.kernels, number);
        if copies {
            self.copied(plan, number, range, places)?;
        }
        Ok(copies)
    }

    /// A chain of the group: inputs from where they are, results to their slots.
    fn group_chain(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<()> {
        let kernel = &self.kernels.kernels[number];
        let Work::Chain { inputs, lines, streams } = &kernel.work else { return Ok(()) };
        if self.chain_by_engine(plan, number, range, places)? {
            return Ok(());
        }
        let wide = kernel
            .results
            .first()
            .and_then(|value| self.slot(plan, *value, places))
            .is_none_or(|slot| slot.1);
        let words = if wide { places.words } else { places.narrow_words };
        let registers = self.registers(plan, number, range, places, wide)?;
        let machine = self.emitter.machine;
        let made = passes_with(machine, inputs.len(), lines, streams, &registers);
        let made = made.ok_or("a step that no unit does")?;
        let late = |stream: usize| plan.late && comes_late(inputs, stream);
        let rooms = Rooms::with_late(inputs.len(), streams, &made, &late);
        let mut at: Vec<u64> = rooms
            .of
            .iter()
            .map(|room| places.temporary + room.unwrap_or(0) * places.words * WORD_BYTES)
            .collect();
        let mut walks: BTreeMap<usize, Fetch> = BTreeMap::new();
        let mut entered = BTreeSet::new();
        let enters = |stream: usize| !registers.contains_key(&stream) && rooms.of[stream].is_some();
        for stream in (0..inputs.len()).filter(|stream| enters(*stream)) {
            let view = &inputs[stream];
            match self.slot(plan, view.value, places) {
                Some((slot, own)) if own == wide => at[stream] = slot,
                None if plan.is_walked((number, stream))
                    && is_entered(stream, &made, streams, self.value(view.value).packing) =>
                {
                    walks.insert(stream, self.walk(plan, (number, stream), range, places)?);
                }
                slot if late(stream) && !streams.contains(&stream) => {
                    // What is walked over is there before the first pass.
                    if slot.is_none() && plan.is_walked((number, stream)) {
                        self.brought(plan, (number, stream), range, places)?;
                    }
                    continue;
                }
                _ => at[stream] = self.entered(plan, (number, stream), range, (at[stream], words), places)?,
            }
            entered.insert(stream);
        }
        for (stream, value) in streams.iter().zip(&kernel.results) {
            if let Some((slot, _)) = self.slot(plan, *value, places)
                && !self.value(*value).packing.is_narrow()
                && *stream >= inputs.len()
            {
                at[*stream] = slot;
            }
        }
        for pass in &made {
            for stream in [Some(pass.stream), pass.pair].into_iter().flatten() {
                if stream < inputs.len() && enters(stream) && entered.insert(stream) {
                    at[stream] = self.entered(plan, (number, stream), range, (at[stream], words), places)?;
                }
            }
            match walks.get(&pass.stream) {
                Some(fetch) => self.emitter.exec(walked_pass(fetch.clone(), pass, words, at[pass.result])),
                None => {
                    let pair = pass.pair.map(|pair| at[pair]);
                    self.pass(pass, at[pass.stream], pair, words, (at[pass.result], None));
                }
            }
        }
        self.results_to_slots(plan, number, (&at, words), places);
        Ok(())
    }

    /// Results of a chain from where its streams lie to their slots, unless they are there.
    fn results_to_slots(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        (at, words): (&[u64], u64),
        places: &Places,
    ) {
        let kernel = &self.kernels.kernels[number];
        let Work::Chain { streams, .. } = &kernel.work else { return };
        for (stream, value) in streams.iter().zip(&kernel.results) {
            let Some((slot, _)) = self.slot(plan, *value, places) else { continue };
            let packing = self.value(*value).packing;
            if packing.is_narrow() || at[*stream] != slot {
                let plain =
                    Pass { stream: 0, pair: None, vector: chain(packing.word(), Vec::new()), result: 0 };
                self.pass(&plain, at[*stream], None, words, (slot, packing.cast()));
            }
        }
    }

    /// An input as a stream of so many words: from another kernel of the group with one element a row, or
    /// from HBM; gives where it lies.
    fn entered(
        &mut self,
        plan: &GroupPlan,
        (number, stream): (usize, usize),
        range: (u64, u64),
        (to, words): (u64, u64),
        places: &mut Places,
    ) -> Lowered<u64> {
        let Work::Chain { inputs, .. } = &self.kernels.kernels[number].work else { return Ok(to) };
        match self.slot(plan, inputs[stream].value, places) {
            Some((slot, _)) => {
                self.spread(plan, slot, to, words);
                Ok(to)
            }
            None => self.stream(plan, (number, stream), range, to, places),
        }
    }

    /// A fold in one command, and what is done with it.
    fn folded(
        &mut self,
        plan: &GroupPlan,
        (number, share): (usize, &FoldedShare),
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<()> {
        let TapFold { lines, streams, .. } = &share.fold;
        let from = self.brought(plan, (number, 0), range, places)?;
        let made = passes_with(self.emitter.machine, 1, lines, streams, &Registers::new());
        let made = made.ok_or("a step that no unit does")?;
        let rooms = Rooms::new(1, streams, &made);
        let room = |room: &Option<u64>| places.temporary + room.unwrap_or(0) * places.words * WORD_BYTES;
        let mut at: Vec<u64> = rooms.of.iter().map(room).collect();
        let results = &self.kernels.kernels[number].results;
        for (stream, value) in streams.iter().zip(results) {
            let slot = self.slot(plan, *value, places).filter(|_| !self.value(*value).packing.is_narrow());
            at[*stream] = slot.map_or(at[*stream], |slot| slot.0);
        }
        self.emitter.exec(share.command(from, places.words, at[0]));
        for pass in &made {
            let pair = pass.pair.map(|pair| at[pair]);
            self.pass(pass, at[pass.stream], pair, places.words, (at[pass.result], None));
        }
        for (stream, value) in streams.iter().zip(results) {
            let Some((slot, _)) = self.slot(plan, *value, places) else { continue };
            let packing = self.value(*value).packing;
            if at[*stream] == slot && !packing.is_narrow() {
                continue;
            }
            let plain = Pass { stream: 0, pair: None, vector: chain(packing.word(), Vec::new()), result: 0 };
            self.pass(&plain, at[*stream], None, places.words, (slot, packing.cast()));
        }
        Ok(())
    }

    /// Words that are only read by strides: one command from where they are brought to where they leave.
    fn copied(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<()> {
        let value = self.kernels.kernels[number].results[0];
        let (slot, _) = self.slot(plan, value, places).ok_or("a copy without a place")?;
        let fetch = self.walk(plan, (number, 0), range, places)?;
        self.words("walk", fetch, places.words, slot);
        Ok(())
    }

    /// An input that is only read by strides and narrowed: one command; whether that is all that the kernel
    /// does.
    fn narrowed(
        &mut self,
        plan: &GroupPlan,
        number: usize,
        range: (u64, u64),
        places: &mut Places,
    ) -> Lowered<bool> {
        let [value] = self.kernels.kernels[number].results[..] else { return Ok(false) };
        let slot =
            self.slot(plan, value, places).filter(|slot| slot.1 && self.value(value).packing.is_narrow());
        let (Some((slot, _)), Some((from_value, operand, hull))) = (slot, plan.operand((number, 0))) else {
            return Ok(false);
        };
        let from = places.hulls;
        places.hulls += block_bytes(hull.elements * operand.element_bytes);
        self.bring(plan, (number, 0), range, from)?;
        let packing = self.value(value).packing;
        let words = if packing == Packing::Byte { Dtype::I32 } else { Dtype::F32 };
        let dtype = self.value(*from_value).packing.cast().unwrap_or(words);
        let fetch = fetch_words(dtype, from + hull.begins * operand.element_bytes, &hull.walk);
        let target = ElementTarget { dtype: packing.cast().unwrap_or(words), base: slot };
        let vector = chain(packing.word(), Vec::new());
        self.emitter.exec(pass("walk", fetch, vector, places.words / FLIT_WORDS, target));
        Ok(true)
    }
}

/// Shares that do not follow each other, from slices to their places in a value: its first byte, and bytes of
/// an element.
pub(super) fn value_boxes(
    plan: &GroupPlan,
    (place, element_bytes): (u64, u64),
    (first, end): (u64, u64),
    dm: Address,
) -> Vec<Bytes> {
    let dims: Vec<u64> = plan.cut.digits.iter().zip(&plan.cut.inner).map(|(a, b)| a * b).collect();
    let out = Operand {
        first: 0,
        strides: strides(&dims),
        element_bytes,
        steps: Vec::new(),
        streams: 1,
        contracted: false,
        room: u64::MAX,
        ahead: 0,
    };
    let outer = plan.cut.outer(&out);
    let scale = |elements: i64| elements * signed(element_bytes);
    let block = |ShareBox { first: share, loops }: ShareBox| {
        let slices = |(size, digit, step): &(u64, usize, u64)| {
            (*size, signed(*step) * SLICE_STRIDE, scale(outer[*digit]))
        };
        let mut rows: Vec<(u64, i64, i64)> = loops.iter().map(slices).collect();
        let mut own = strides(&plan.cut.inner).into_iter();
        let inner = plan.cut.inner.iter().zip(&out.strides);
        rows.extend(
            inner
                .map(|(size, to)| (*size, scale(own.next().or_broken("a stride for each axis")), scale(*to))),
        );
        let source = dm.step(signed(share - first) * SLICE_STRIDE)?;
        let target = hbm(place).step(scale(offset(&plan.cut.digits, &outer, share)))?;
        Some(Bytes { source, target, loops: rows, inside: element_bytes })
    };
    boxes(&plan.cut.digits, first, end).into_iter().filter_map(block).collect()
}

/// Elements before a share.
pub(super) fn offset(digits: &[u64], strides: &[i64], share: u64) -> i64 {
    let (mut left, mut all) = (share, 0);
    for (size, stride) in digits.iter().zip(strides).rev() {
        all += signed(left % size) * stride;
        left /= size;
    }
    all
}
