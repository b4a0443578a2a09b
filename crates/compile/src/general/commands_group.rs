//! Groups of kernels that run share by share: hulls of what they read come from HBM, values between them stay
//! in data memory or the vector register file, and what others read goes back (paper section V-C: read,
//! compute, vector chain, write).

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::Fetch;
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::{ElementTarget, fetch_words, pass};

use super::commands_chain::Rooms;
use super::commands_hulls::{is_entered, walked_pass};
use super::commands_reduce::reduction;
use super::cut::{
    self, Cut, Hull, Operand, Room, ShareBox, WholeRows, block_bytes, boxes, coalesced, shared,
};
use super::depthwise::{Share, Taps, sums};
use super::emit::{Block, hbm};
use super::group::{Group, LEAST_ROWS, axes};
use super::kernel::{Kernels, Packing, Work};
use super::moves::Bytes;
use super::passes::{Pass, passes, passes_with};
use super::plan::{Planner, WORD_BYTES};
use super::refusal::Lowered;
use super::view::{View, signed, strides};

/// A view of a value that a group brings.
type Read = (usize, View);

/// A group with its cut: what it brings, and where everything lies in a slice.
pub(super) struct GroupPlan {
    pub(super) kernels: Vec<usize>,
    /// Elements of a row, if there are reductions.
    pub(super) columns: Option<u64>,
    pub(super) cut: Cut,
    /// What is brought: a value, how it is read, and its hull.
    pub(super) operands: Vec<(usize, Operand, Hull)>,
    /// Number of what is brought for each input of each kernel, and elements to where the input begins in it.
    pub(super) reads: BTreeMap<(usize, usize), (usize, i64)>,
    /// Slot of each value that stays, among those of its size.
    pub(super) slots: BTreeMap<usize, u64>,
    /// Slots of whole shares, and of rows.
    pub(super) wide_slots: u64,
    /// Bytes of an element of a whole share.
    pub(super) slot_bytes: u64,
    pub(super) narrow_slots: u64,
    /// Words of all temporary streams of a kernel at once.
    pub(super) temporary: u64,
    /// Depthwise sums that the contraction engine adds, by the number of their kernel.
    pub(super) sums: BTreeMap<usize, (Taps, Share)>,
}

impl GroupPlan {
    /// What is brought for an input of a kernel.
    pub(super) fn operand(&self, read: (usize, usize)) -> Option<&(usize, Operand, Hull)> {
        self.operands.get(self.reads.get(&read)?.0)
    }

    /// Elements of a row; only values with one element a row ask.
    pub(super) fn row(&self) -> u64 {
        self.columns.or_broken("values with one element a row are in groups with rows")
    }
}

/// What becomes of values with one element a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowResults {
    /// Some are written for others: two of them are a granule.
    Given,
    /// They stay in the group.
    Stay,
}

/// The plan of a group, or of one chain; `None` if no cut can be brought or data memory is too small.
pub(super) fn plan_group(
    machine: &tilewright_machine::tcp::Tcp,
    all: &Kernels,
    group: &Group,
    room: (u64, u64),
    has_rows: Option<RowResults>,
) -> Option<GroupPlan> {
    let kernels: Vec<usize> = group.kernels.clone().collect();
    let found = if has_rows.is_none() { sums(all, &kernels) } else { BTreeMap::new() };
    let by_engine = (!found.is_empty()).then(|| plan_with(machine, all, group, room, (has_rows, found)));
    by_engine.flatten().or_else(|| plan_with(machine, all, group, room, (has_rows, BTreeMap::new())))
}

/// The same with depthwise sums that the contraction engine is to add.
fn plan_with(
    machine: &tilewright_machine::tcp::Tcp,
    all: &Kernels,
    group: &Group,
    (pes, dm_bytes): (u64, u64),
    (has_rows, found): (Option<RowResults>, BTreeMap<usize, Taps>),
) -> Option<GroupPlan> {
    let single = has_rows == Some(RowResults::Stay);
    let has_rows = has_rows.is_some();
    let kernels: Vec<usize> = group.kernels.clone().collect();
    let made: BTreeSet<usize> =
        kernels.iter().flat_map(|at| all.kernels[*at].results.iter().copied()).collect();
    let dims = if has_rows { axes(all, group)? } else { first_dims(all, group)? };
    let reads = brought_in(all, &kernels, &made, &dims)?;
    let mut views: Vec<View> = reads.iter().map(|(_, (_, view))| view.clone()).collect();
    let bytes: Vec<u64> = views.iter().map(|view| all.values[view.value].element_bytes()).collect();
    if has_rows {
        // Rows are not joined with what is in them.
        views.push(View { value: 0, first: 0, axes: per_row(&dims, group.columns) });
    }
    let (sizes, mut operands) = coalesced(&views, &[bytes, vec![WORD_BYTES]].concat());
    operands.truncate(reads.len());
    for (operand, ((number, _), _)) in operands.iter_mut().zip(&reads) {
        operand.contracted = found.contains_key(number);
    }
    let (slots, wide_slots, narrow_slots) = slots(all, &kernels, group, has_rows);
    let narrows = !has_rows && kernels.iter().all(|at| is_narrowing(all, *at));
    let slot_bytes = if narrows { result_bytes(all, &kernels) } else { WORD_BYTES };
    let by_vectors = || kernels.iter().filter(|at| !found.contains_key(at));
    let temporary = by_vectors().map(|at| temporary(machine, all, *at)).max().filter(|_| !narrows);
    let temporary = temporary.unwrap_or_default();
    let commands: u64 = by_vectors().map(|at| commands(machine, all, *at)).sum();
    let room = Room {
        pes,
        stream_bytes: wide_slots * slot_bytes + (temporary + narrow_slots.div_ceil(8)) * WORD_BYTES,
        passes: commands,
        result_bytes: result_bytes(all, &kernels),
        dm_bytes,
        rows: has_rows.then_some(WholeRows { columns: group.columns, multiple: LEAST_ROWS, single }),
        taps: found.values().map(|taps| taps.windows.len() as u64).sum(),
    };
    let known: Vec<(usize, Operand)> = reads.iter().map(|(_, (value, _))| *value).zip(operands).collect();
    let (common, places) = shared(&sizes, &known);
    let alone: Vec<Operand> = common.iter().map(|(_, operand)| operand.clone()).collect();
    let cut = cut::cut(machine, &sizes, &alone, room)?;
    let mut brought = Vec::new();
    for (value, operand) in common {
        let hull = cut.hull(machine, &operand)?;
        brought.push((value, operand, hull));
    }
    let begins = |(number, taken): &(usize, Vec<i64>)| {
        let steps = taken.iter().zip(&brought[*number].2.steps);
        (*number, steps.map(|(count, stride)| count * stride).sum::<i64>())
    };
    let reads: BTreeMap<(usize, usize), (usize, i64)> =
        reads.iter().map(|(read, _)| *read).zip(places.iter().map(begins)).collect();
    let columns = has_rows.then_some(group.columns);
    let sums = shares(machine, &brought, &reads, found)?;
    Some(GroupPlan {
        kernels,
        columns,
        cut,
        operands: brought,
        reads,
        slots,
        wide_slots,
        slot_bytes,
        narrow_slots,
        temporary,
        sums,
    })
}

/// What kernels read of other values, by kernel and stream, over the axes of their elements.
fn brought_in(
    all: &Kernels,
    kernels: &[usize],
    made: &BTreeSet<usize>,
    dims: &[u64],
) -> Option<Vec<((usize, usize), Read)>> {
    let mut reads: Vec<((usize, usize), Read)> = Vec::new();
    for number in kernels {
        match &all.kernels[*number].work {
            Work::Chain { inputs, .. } => {
                for (stream, view) in
                    inputs.iter().enumerate().filter(|(_, view)| !made.contains(&view.value))
                {
                    reads.push(((*number, stream), (view.value, view.reshaped(dims)?)));
                }
            }
            Work::Reduce { from, .. } if !made.contains(from) => {
                reads.push(((*number, 0), (*from, View::whole(*from, dims))));
            }
            _ => {}
        }
    }
    Some(reads)
}

/// Shares of depthwise sums, where their streams begin in what a slice has.
fn shares(
    machine: &tilewright_machine::tcp::Tcp,
    brought: &[(usize, Operand, Hull)],
    reads: &BTreeMap<(usize, usize), (usize, i64)>,
    found: BTreeMap<usize, Taps>,
) -> Option<BTreeMap<usize, (Taps, Share)>> {
    let share = |(number, taps): (usize, Taps)| {
        let begins = |streams: &[usize]| -> Vec<i64> {
            streams.iter().map(|stream| reads[&(number, *stream)].1).collect()
        };
        let walk = &brought[reads[&(number, *taps.windows.first()?)].0].2.walk;
        let share = Share::new(machine, walk, [&begins(&taps.windows), &begins(&taps.weights)])?;
        Some((number, (taps, share)))
    };
    found.into_iter().map(share).collect()
}

/// Bytes of an element of the narrowest value that is made.
fn result_bytes(all: &Kernels, kernels: &[usize]) -> u64 {
    let made = kernels.iter().flat_map(|at| all.kernels[*at].results.iter());
    made.map(|value| all.values[*value].element_bytes()).min().unwrap_or(WORD_BYTES)
}

fn first_dims(all: &Kernels, group: &Group) -> Option<Vec<u64>> {
    let Work::Chain { inputs, .. } = &all.kernels[group.kernels.start].work else { return None };
    Some(inputs.first()?.dims())
}

/// One element for each row.
fn per_row(dims: &[u64], columns: u64) -> Vec<(u64, i64)> {
    let (mut behind, mut axes) = (1, Vec::new());
    for size in dims.iter().rev() {
        let stride = if behind < columns { 0 } else { signed(behind / columns) };
        axes.push((*size, stride));
        behind *= size;
    }
    axes.reverse();
    axes
}

/// Slots of values by their last reader, and how many there are of each size.
fn slots(
    all: &Kernels,
    kernels: &[usize],
    group: &Group,
    has_rows: bool,
) -> (BTreeMap<usize, u64>, u64, u64) {
    let wide = |value: usize| !has_rows || all.values[value].count() == group.rows * group.columns;
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for number in kernels {
        let kernel = &all.kernels[*number];
        last.extend(
            kernel.reads().into_iter().chain(kernel.results.iter().copied()).map(|value| (value, *number)),
        );
    }
    let mut ended: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (value, number) in last {
        ended.entry(number).or_default().push(value);
    }
    let mut of: BTreeMap<usize, u64> = BTreeMap::new();
    let mut free: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    let mut most = [0_u64; 2];
    for number in kernels {
        for value in &all.kernels[*number].results {
            let kind = usize::from(!wide(*value));
            let slot = free[kind].pop().unwrap_or_else(|| {
                most[kind] += 1;
                most[kind] - 1
            });
            of.insert(*value, slot);
        }
        for value in ended.remove(number).unwrap_or_default() {
            if let Some(slot) = of.get(&value) {
                free[usize::from(!wide(value))].push(*slot);
            }
        }
    }
    (of, most[0], most[1])
}

/// Whether a kernel only reads by strides and narrows, which is one command without temporary streams.
fn is_narrowing(all: &Kernels, number: usize) -> bool {
    let kernel = &all.kernels[number];
    let Work::Chain { inputs, lines, streams } = &kernel.work else { return false };
    inputs.len() == 1
        && lines.is_empty()
        && streams[..] == [0]
        && all.values[kernel.results[0]].packing.is_narrow()
}

fn temporary(machine: &tilewright_machine::tcp::Tcp, all: &Kernels, number: usize) -> u64 {
    let Work::Chain { inputs, lines, streams } = &all.kernels[number].work else { return 1 };
    let made = passes(machine, inputs.len(), lines, streams).unwrap_or_default();
    Rooms::new(inputs.len(), streams, &made).most
}

fn commands(machine: &tilewright_machine::tcp::Tcp, all: &Kernels, number: usize) -> u64 {
    let Work::Chain { inputs, lines, streams } = &all.kernels[number].work else { return 1 };
    let made = passes(machine, inputs.len(), lines, streams).map_or(0, |made| made.len());
    (made + streams.len()) as u64
}

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
    /// The register files of the PE have what all shares read alike, from a share before.
    pub(super) holds_vectors: bool,
}

impl Planner<'_> {
    pub(super) fn group(&mut self, plan: &GroupPlan) -> Lowered<()> {
        let (slices, pes) = (self.machine().pe.slices, self.emitter.pes());
        let shares = plan.cut.shares();
        let step = usize::try_from(slices).map_err(|_| "too many slices")?;
        for (turn, first) in (0..shares).step_by(step).enumerate() {
            self.emitter.turn_to(turn as u64 % pes);
            let again = turn as u64 >= pes && (plan.kernels.len() == 1 || !plan.sums.is_empty());
            self.group_share(plan, (first, (first + slices).min(shares)), again)?;
        }
        let last: BTreeSet<usize> =
            plan.slots.keys().copied().filter(|value| !self.is_given(plan, *value)).collect();
        for value in last {
            self.laid.insert(value, None);
        }
        Ok(())
    }

    /// Whether somebody outside of a group reads a value.
    fn is_given(&self, plan: &GroupPlan, value: usize) -> bool {
        let outside = |reader: &usize| plan.kernels.binary_search(reader).is_err();
        self.keep || self.readers[value].iter().any(outside)
    }

    fn group_share(
        &mut self,
        plan: &GroupPlan,
        (first, end): (u64, u64),
        holds_vectors: bool,
    ) -> Lowered<()> {
        let words = plan.cut.share();
        let rows = plan.columns.map_or(0, |columns| words / columns);
        let narrow_words = rows.next_multiple_of(FLIT_WORDS);
        let slots = plan.wide_slots * words * plan.slot_bytes;
        let wide = slots + plan.temporary * words * WORD_BYTES;
        let narrow = plan.narrow_slots * narrow_words * WORD_BYTES;
        let block =
            |(_, operand, hull): &(usize, Operand, Hull)| block_bytes(hull.elements * operand.element_bytes);
        let hulls: u64 = plan.operands.iter().map(block).sum();
        let base = self.emitter.next_region(wide + narrow + hulls);
        let temporary = base + slots;
        let mut places = Places {
            base,
            words,
            narrow_words,
            temporary,
            narrow: base + wide,
            hulls: base + wide + narrow,
            brought: BTreeMap::new(),
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
        self.bring(plan, read, range, places.temporary)?;
        Ok(places.temporary)
    }

    /// Where a value of the group lies.
    pub(super) fn slot(&self, plan: &GroupPlan, value: usize, places: &Places) -> Option<(u64, bool)> {
        let slot = plan.slots.get(&value)?;
        let wide =
            plan.columns.is_none_or(|_| self.value(value).count() == plan.cut.share() * plan.cut.shares());
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
        let elements = if wide { places.words } else { places.words / plan.row() };
        let element_bytes = self.value(value).element_bytes();
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
        self.emitter.keep("keep", &block);
    }

    /// Writes shares that do not follow each other.
    fn give_blocks(&mut self, plan: &GroupPlan, value: usize, (first, end): (u64, u64), dm: u64) {
        let element_bytes = self.value(value).element_bytes();
        let dims: Vec<u64> = plan.cut.digits.iter().zip(&plan.cut.inner).map(|(a, b)| a * b).collect();
        let out = Operand {
            first: 0,
            strides: strides(&dims),
            element_bytes,
            steps: Vec::new(),
            streams: 1,
            contracted: false,
        };
        let outer = plan.cut.outer(&out);
        let scale = |elements: i64| elements * signed(element_bytes);
        for ShareBox { first: share, loops } in boxes(&plan.cut.digits, first, end) {
            let slices = |(size, digit, step): &(u64, usize, u64)| {
                (*size, signed(*step) * SLICE_STRIDE, scale(outer[*digit]))
            };
            let mut rows: Vec<(u64, i64, i64)> = loops.iter().map(slices).collect();
            let mut own = strides(&plan.cut.inner).into_iter();
            let inner = plan.cut.inner.iter().zip(&out.strides);
            rows.extend(inner.map(|(size, to)| {
                (*size, scale(own.next().or_broken("a stride for each axis")), scale(*to))
            }));
            let source = self.emitter.dm(dm).step(signed(share - first) * SLICE_STRIDE);
            let target = hbm(self.places[value]).step(scale(offset(&plan.cut.digits, &outer, share)));
            if let (Some(source), Some(target)) = (source, target) {
                self.emitter.bytes("keep", &Bytes { source, target, loops: rows, inside: element_bytes });
            }
        }
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
        if let Some((taps, share)) = plan.sums.get(&number) {
            return self.depthwise(plan, (number, taps, share), range, places);
        }
        let wide = kernel
            .results
            .first()
            .and_then(|value| self.slot(plan, *value, places))
            .is_none_or(|slot| slot.1);
        let words = if wide { places.words } else { places.narrow_words };
        if lines.is_empty() && streams[..] == [0] && self.narrowed(plan, number, range, places)? {
            return Ok(());
        }
        let registers = self.registers(plan, number, range, places, wide)?;
        let machine = self.emitter.machine;
        let made = passes_with(machine, inputs.len(), lines, streams, &registers);
        let made = made.ok_or("a step that no unit does")?;
        let rooms = Rooms::new(inputs.len(), streams, &made);
        let mut at: Vec<u64> = rooms
            .of
            .iter()
            .map(|room| places.temporary + room.unwrap_or(0) * places.words * WORD_BYTES)
            .collect();
        let mut walks: BTreeMap<usize, Fetch> = BTreeMap::new();
        for (stream, view) in inputs.iter().enumerate() {
            if registers.contains_key(&stream) || rooms.of[stream].is_none() {
                continue;
            }
            match self.slot(plan, view.value, places) {
                Some((slot, own)) if own == wide => at[stream] = slot,
                Some((slot, _)) => self.spread(plan, slot, at[stream], words),
                None if plan.is_walked((number, stream))
                    && is_entered(stream, &made, streams, self.value(view.value).packing) =>
                {
                    walks.insert(stream, self.walk(plan, (number, stream), range, places)?);
                }
                None => at[stream] = self.stream(plan, (number, stream), range, at[stream], places)?,
            }
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
            match walks.get(&pass.stream) {
                Some(fetch) => self.emitter.exec(walked_pass(fetch.clone(), pass, words, at[pass.result])),
                None => {
                    let pair = pass.pair.map(|pair| at[pair]);
                    self.pass(pass, at[pass.stream], pair, words, (at[pass.result], None));
                }
            }
        }
        for (stream, value) in streams.iter().zip(&kernel.results) {
            let Some((slot, _)) = self.slot(plan, *value, places) else { continue };
            let packing = self.value(*value).packing;
            if packing.is_narrow() || at[*stream] != slot {
                let plain =
                    Pass { stream: 0, pair: None, vector: chain(packing.word(), Vec::new()), result: 0 };
                self.pass(&plain, at[*stream], None, words, (slot, packing.cast()));
            }
        }
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
        let fetch = fetch_words(dtype, from + hull.lead * operand.element_bytes, &hull.walk);
        let target = ElementTarget { dtype: packing.cast().unwrap_or(words), base: slot };
        let vector = chain(packing.word(), Vec::new());
        self.emitter.exec(pass("walk", fetch, vector, places.words / FLIT_WORDS, target));
        Ok(true)
    }
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
