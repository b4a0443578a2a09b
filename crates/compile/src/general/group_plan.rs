//! How a group of kernels, or one chain that reads by strides, is cut: what its shares bring, and where
//! everything lies in a slice.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::commands_chain::Rooms;
use super::cut::{self, Cut, Room, WholeRows};
use super::depthwise::{Share, Taps, sums};
use super::group::{GRANULE_WORDS, Group, LEAST_ROWS, axes};
use super::hull::Hull;
use super::kernel::{Kernels, Work};
use super::operands::{Operand, coalesced, shared, slack};
use super::passes::passes;
use super::plan::WORD_BYTES;
use super::tap_folds::{FoldedShare, TapFold, tap_fold};
use super::view::{View, signed};

/// Inputs of a chain that can come late from which on that is tried, and what it must be worth: one part of
/// so many.
const LEAST_LATE: usize = 4;
const LATE_PARTS: u64 = 8;

/// A view of a value that a group brings.
type Read = (usize, View);

/// A group with its cut: what it brings, and where everything lies in a slice.
pub(super) struct GroupPlan {
    pub(super) kernels: Vec<usize>,
    /// Words of a row in data memory, whole flits, if there are reductions.
    pub(super) columns: Option<u64>,
    /// Words of a share in data memory.
    pub(super) words: u64,
    pub(super) cut: Cut,
    /// What it takes by counting.
    pub(super) cycles: u64,
    /// Elements of a value with all places of all rows.
    pub(super) elements: u64,
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
    /// The fold that its only kernel begins with.
    pub(super) fold: Option<FoldedShare>,
    /// Inputs that can come late do.
    pub(super) late: bool,
    /// Elements of values from their first on that shares touch, the short last ones taken as whole.
    pub(super) reach: BTreeMap<usize, u64>,
    /// Elements before the first of values that shares touch, which masks leave nothing of.
    pub(super) ahead: BTreeMap<usize, u64>,
}

impl GroupPlan {
    /// What is brought for an input of a kernel.
    pub(super) fn operand(&self, read: (usize, usize)) -> Option<&(usize, Operand, Hull)> {
        self.operands.get(self.reads.get(&read)?.0)
    }

    /// Whether rows are filled up in data memory.
    pub(super) fn is_pitched(&self) -> bool {
        self.words != self.cut.share()
    }

    /// Words of a row in data memory; only values with one element a row ask.
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
    machine: &Tcp,
    all: &Kernels,
    group: &Group,
    room: (u64, u64),
    has_rows: Option<RowResults>,
) -> Option<GroupPlan> {
    let kernels: Vec<usize> = group.kernels.clone().collect();
    let found = if has_rows.is_none() { sums(all, &kernels) } else { BTreeMap::new() };
    let fold = if let ([number], None) = (&kernels[..], has_rows) { tap_fold(all, *number) } else { None };
    let plan = |engines: Engines| plan_with(machine, all, group, room, (has_rows, engines));
    let none = || Engines { sums: BTreeMap::new(), fold: None, late: false };
    let added = (!found.is_empty()).then(|| plan(Engines { sums: found, ..none() })).flatten();
    let folded = || fold.and_then(|fold| plan(Engines { fold: Some(fold), ..none() }));
    added.or_else(folded).or_else(|| {
        let early = plan(none());
        let late = has_many_late(all, &kernels).then(|| plan(Engines { late: true, ..none() })).flatten();
        // Streams that are made one by one wait for each other: that must be worth it.
        let is_less = |late: &GroupPlan| {
            early.as_ref().is_none_or(|early| late.cycles * LATE_PARTS < early.cycles * (LATE_PARTS - 1))
        };
        late.filter(is_less).or(early)
    })
}

/// Whether a chain has many inputs that can come late.
fn has_many_late(all: &Kernels, kernels: &[usize]) -> bool {
    let late = |number: &usize| match &all.kernels[*number].work {
        Work::Chain { inputs, .. } => (0..inputs.len()).filter(|stream| comes_late(inputs, *stream)).count(),
        _ => 0,
    };
    kernels.iter().any(|number| late(number) >= LEAST_LATE)
}

/// What is done of a group besides passes over streams.
struct Engines {
    /// Depthwise sums that the contraction engine adds.
    sums: BTreeMap<usize, Taps>,
    /// The fold that its only kernel begins with, in one command.
    fold: Option<TapFold>,
    /// Inputs that can come late do.
    late: bool,
}

impl Engines {
    /// Words of temporary streams, and commands of the vector engine.
    fn passes(&self, machine: &Tcp, all: &Kernels, kernels: &[usize]) -> (u64, u64) {
        if let Some(TapFold { lines, streams, .. }) = &self.fold {
            let made = passes(machine, 1, lines, streams).unwrap_or_default();
            return (Rooms::new(1, streams, &made).most, (made.len() + streams.len()) as u64);
        }
        let by_vectors = || kernels.iter().filter(|at| !self.sums.contains_key(at));
        let temporary =
            by_vectors().map(|at| temporary(machine, all, *at, self.late)).max().unwrap_or_default();
        (temporary, by_vectors().map(|at| commands(machine, all, *at)).sum())
    }

    /// Whether an input of a kernel is read as part of others.
    fn takes(&self, number: usize) -> bool {
        self.fold.is_some() || self.sums.contains_key(&number)
    }
}

/// Rows that are filled up in a slice are whole flits there, whatever comes and leaves.
fn fills_up(all: &Kernels, group: &Group, made: &BTreeSet<usize>) -> bool {
    let is_wide = |value: &usize| !all.values[*value].packing.is_narrow();
    !group.columns.is_multiple_of(FLIT_WORDS) && made.iter().all(is_wide)
}

/// What is brought, with its hull.
type Brought = Vec<(usize, Operand, Hull)>;

/// What shares bring of operands, how far that reaches into values, and how far before them; `None` if no
/// transfer can.
fn brought(
    machine: &Tcp,
    wide: &Cut,
    common: Vec<(usize, Operand)>,
    reach: &mut BTreeMap<usize, u64>,
) -> Option<(Brought, BTreeMap<usize, u64>)> {
    let mut ahead: BTreeMap<usize, u64> = BTreeMap::new();
    let mut brought = Brought::new();
    for (value, operand) in common {
        let before = ahead.entry(value).or_default();
        *before = wide.ahead(&operand).max(*before);
        let last = reach.entry(value).or_default();
        *last = wide.reach(&operand)?.max(*last);
        let hull = wide.hull(machine, &operand)?;
        brought.push((value, operand, hull));
    }
    Some((brought, ahead))
}

/// The same with what engines are to do.
fn plan_with(
    machine: &Tcp,
    all: &Kernels,
    group: &Group,
    (pes, dm_bytes): (u64, u64),
    (has_rows, engines): (Option<RowResults>, Engines),
) -> Option<GroupPlan> {
    let single = has_rows == Some(RowResults::Stay);
    let has_rows = has_rows.is_some();
    let kernels: Vec<usize> = group.kernels.clone().collect();
    let made: BTreeSet<usize> =
        kernels.iter().flat_map(|at| all.kernels[*at].results.iter().copied()).collect();
    let dims = if has_rows { axes(all, group)? } else { first_dims(all, group)? };
    let reads = brought_in(all, &kernels, &made, &dims)?;
    let rows = has_rows.then(|| per_row(&dims, group.columns));
    let (sizes, operands) = entering(all, &reads, rows, &engines);
    let (slots, wide_slots, narrow_slots) = slots(all, &kernels, group, has_rows);
    let narrows = !has_rows && kernels.iter().all(|at| is_narrowing(all, *at));
    let copies = !has_rows && kernels.iter().all(|at| is_copy(all, *at));
    let by_granules = copies || (has_rows && fills_up(all, group, &made));
    let slot_bytes = if narrows { result_bytes(all, &kernels) } else { WORD_BYTES };
    let (temporary, commands) = engines.passes(machine, all, &kernels);
    let temporary = if narrows || copies { 0 } else { temporary };
    let room = Room {
        pes,
        stream_bytes: wide_slots * slot_bytes + (temporary + narrow_slots.div_ceil(8)) * WORD_BYTES,
        passes: commands,
        result_bytes: result_bytes(all, &kernels),
        dm_bytes,
        rows: has_rows.then_some(WholeRows { columns: group.columns, multiple: LEAST_ROWS, single }),
        taps: engines.sums.values().map(|taps| taps.windows.len() as u64).sum(),
        folded: engines.fold.as_ref().map_or(0, |fold| fold.taps as u64),
        unit: if by_granules { GRANULE_WORDS } else { FLIT_WORDS },
    };
    let known: Vec<(usize, Operand)> = reads.iter().map(|(_, (value, _))| *value).zip(operands).collect();
    // Each row must be one axis for its places to be filled up.
    if has_rows && !group.columns.is_multiple_of(FLIT_WORDS) && sizes.last() != Some(&group.columns) {
        return None;
    }
    let Together { cycles, cut, common, places } = cut_together(machine, &sizes, known, room)?;
    let wide = if has_rows { cut.pitched(group.columns) } else { cut.clone() };
    let mut reach: BTreeMap<usize, u64> = BTreeMap::new();
    for value in kernels.iter().flat_map(|number| &all.kernels[*number].results) {
        let each = if has_rows && all.values[*value].count() == group.rows { group.columns } else { 1 };
        reach.insert(*value, cut.shares() * cut.share() / each);
    }
    let (brought, ahead) = brought(machine, &wide, common, &mut reach)?;
    let begins = |(number, taken): &(usize, Vec<i64>)| {
        let steps = taken.iter().zip(&brought[*number].2.steps);
        (*number, steps.map(|(count, stride)| count * stride).sum::<i64>())
    };
    let reads: BTreeMap<(usize, usize), (usize, i64)> =
        reads.iter().map(|(read, _)| *read).zip(places.iter().map(begins)).collect();
    let columns = has_rows.then_some(group.columns.next_multiple_of(FLIT_WORDS));
    let late = engines.late;
    let fold = engines.fold.map(|fold| FoldedShare::new(fold, &brought, &reads, kernels[0]));
    let fold = if let Some(fold) = fold { Some(fold?) } else { None };
    let sums = shares(machine, &brought, &reads, engines.sums)?;
    Some(GroupPlan {
        kernels,
        columns,
        words: wide.share(),
        cut,
        cycles,
        elements: sizes.iter().product(),
        operands: brought,
        reads,
        slots,
        wide_slots,
        slot_bytes,
        narrow_slots,
        temporary,
        sums,
        fold,
        late,
        reach,
        ahead,
    })
}

/// Axes that all reads of a group and its rows, if it has some, walk alike, and the reads over them.
fn entering(
    all: &Kernels,
    reads: &[((usize, usize), Read)],
    rows: Option<Vec<(u64, i64)>>,
    engines: &Engines,
) -> (Vec<u64>, Vec<Operand>) {
    let mut views: Vec<View> = reads.iter().map(|(_, (_, view))| view.clone()).collect();
    let bytes: Vec<u64> = views.iter().map(|view| all.values[view.value].element_bytes()).collect();
    // Rows are not joined with what is in them.
    views.extend(rows.map(|axes| View { value: 0, first: 0, axes }));
    let (sizes, mut operands) = coalesced(&views, &[bytes, vec![WORD_BYTES]].concat());
    operands.truncate(reads.len());
    for (operand, ((number, _), (value, _))) in operands.iter_mut().zip(reads) {
        operand.contracted = engines.takes(*number);
        let count = all.values[*value].count();
        (operand.room, operand.ahead) = (count + slack(count), slack(count));
    }
    (sizes, operands)
}

/// A cut with what it takes, and what streams have in common.
struct Together {
    cycles: u64,
    cut: Cut,
    common: Vec<(usize, Operand)>,
    /// The number of the common one and steps in it, of each stream.
    places: Vec<(usize, Vec<i64>)>,
}

/// The cut that takes least; streams that no transfer brings as one come one by one.
fn cut_together(machine: &Tcp, sizes: &[u64], known: Vec<(usize, Operand)>, room: Room) -> Option<Together> {
    let cut = |common: &[(usize, Operand)]| {
        let operands: Vec<Operand> = common.iter().map(|(_, operand)| operand.clone()).collect();
        cut::cut(machine, sizes, &operands, room)
    };
    let (common, places) = shared(sizes, &known);
    if let Some((cycles, cut)) = cut(&common) {
        return Some(Together { cycles, cut, common, places });
    }
    let (cycles, cut) = (common.len() < known.len()).then(|| cut(&known))??;
    let places = (0..known.len()).map(|at| (at, Vec::new())).collect();
    Some(Together { cycles, cut, common: known, places })
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
    machine: &Tcp,
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

/// Whether a kernel only reads words by strides, which is one command without temporary streams.
pub(super) fn is_copy(all: &Kernels, number: usize) -> bool {
    let kernel = &all.kernels[number];
    let Work::Chain { inputs, lines, streams } = &kernel.work else { return false };
    let [view] = &inputs[..] else { return false };
    let words = |value: usize| all.values[value].element_bytes() == WORD_BYTES;
    lines.is_empty() && streams[..] == [0] && words(view.value) && words(kernel.results[0])
}

fn temporary(machine: &Tcp, all: &Kernels, number: usize, late: bool) -> u64 {
    let Work::Chain { inputs, lines, streams } = &all.kernels[number].work else { return 1 };
    let made = passes(machine, inputs.len(), lines, streams).unwrap_or_default();
    Rooms::with_late(inputs.len(), streams, &made, &|stream| late && comes_late(inputs, stream)).most
}

/// Whether an input of a chain that reads by strides is a walk over what was brought for several, or is
/// spread: such a stream is made when it is read.
pub(super) fn comes_late(inputs: &[View], stream: usize) -> bool {
    let view = &inputs[stream];
    let spread = view.axes.iter().any(|(size, stride)| *size > 1 && *stride == 0);
    let beside =
        |(at, other): (usize, &View)| at != stream && (other.value, &other.axes) == (view.value, &view.axes);
    spread || inputs.iter().enumerate().any(beside)
}

fn commands(machine: &Tcp, all: &Kernels, number: usize) -> u64 {
    let Work::Chain { inputs, lines, streams } = &all.kernels[number].work else { return 1 };
    let made = passes(machine, inputs.len(), lines, streams).map_or(0, |made| made.len());
    (made + streams.len()) as u64
}
