//! Transfers of a planned graph against what their kernels read and give: a kernel reads the values that it
//! is meant to, all of the elements that it looks at, and writes nothing but its own.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::ByteSet;

use super::graph::hbm_runs;
use super::values::Teams;
use crate::general::kernel::{Origin, Part, Work};
use crate::general::view::{View, signed};
use crate::general::{Planned, Resident};

/// What transfers of a team touch of HBM.
#[derive(Default)]
struct TeamBytes {
    read: Vec<(u64, u64)>,
    written: Vec<(u64, u64)>,
    /// Some of it is read by index.
    by_index: bool,
}

/// The first transfer that reads a value which its kernel does not read, or writes one that it does not give;
/// and the first kernel that does not read all that it looks at.
pub(super) fn misplaced(machine: &Tcp, planned: &Planned) -> Option<String> {
    let teams = Teams::new(planned);
    let (reads, gives) = team_values(planned, &teams);
    let values = ValuePlaces::new(planned);
    let mut touched: BTreeMap<usize, TeamBytes> = BTreeMap::new();
    for (transfer, kernel) in planned.program.transfers.iter().zip(&planned.kernel_of_transfer) {
        let team = teams.of(*kernel);
        for write in [false, true] {
            let Some(runs) = hbm_runs(&planned.program, transfer, write) else {
                touched.entry(team).or_default().by_index |= transfer.index.is_some();
                continue;
            };
            let known = if write { &gives } else { &reads };
            let own = known.get(&team);
            let foreign = runs.iter().filter_map(|(start, _)| values.around(*start)).find(|value| {
                let inputs_of = |value: &usize| values.parts_of.get(value).copied();
                let is_own = |value: &usize| own.is_some_and(|own| own.contains(value));
                !is_own(value) && !inputs_of(value).is_some_and(|whole| is_own(&whole))
            });
            if let Some(value) = foreign {
                let name = planned.kernels.values.get(value).map_or("", |value| value.name.as_str());
                let does = if write { "writes" } else { "reads" };
                return Some(format!("`{}` {does} `{name}`, which its kernel does not", transfer.name));
            }
            let own = touched.entry(team).or_default();
            if write { own.written.extend(runs) } else { own.read.extend(runs) }
        }
    }
    let unit = machine.hbm.access_bytes;
    not_filled(planned, unit, &teams, &touched).or_else(|| not_read(planned, &teams, touched))
}

/// The first move inside of what the host has filled that does not write just the elements it says; zeros
/// around them may be written again as far as access units of HBM go.
fn not_filled(
    planned: &Planned,
    unit: u64,
    teams: &Teams,
    touched: &BTreeMap<usize, TeamBytes>,
) -> Option<String> {
    let kernels = &planned.kernels;
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        let (Work::Move(parts), [to]) = (&kernel.work, &kernel.results[..]) else { continue };
        let (value, place) = (kernels.values.get(*to)?, *planned.places.get(*to)?);
        if !matches!(value.origin, Origin::Filled(_)) {
            continue;
        }
        let mut wanted = ByteSet::default();
        for part in parts {
            let target = source(&part.turned());
            wanted = wanted.union(&bytes(&target, place, value.element_bytes())?);
        }
        let (start, end) = (place, place + value.count() * value.element_bytes());
        let written = touched.get(&teams.of(number)).map_or(&[][..], |own| &own.written);
        let inside = written.iter().filter(|run| run.0 < end && run.1 > start);
        let written = ByteSet::from_runs(inside.copied().collect());
        let unit = if value.origin == Origin::Filled(0) { unit } else { 1 };
        let around = |run: &(u64, u64)| (run.0 / unit * unit, run.1.next_multiple_of(unit));
        let may = ByteSet::from_runs(wanted.runs().iter().map(around).collect());
        if !(wanted.is_within(&written) && written.is_within(&may)) {
            return Some(format!("move {number} writes other elements of `{}` than it says", value.name));
        }
    }
    None
}

/// Values that teams read and give.
type TeamValues = BTreeMap<usize, BTreeSet<usize>>;

fn team_values(planned: &Planned, teams: &Teams) -> (TeamValues, TeamValues) {
    let (mut reads, mut gives) = (TeamValues::new(), TeamValues::new());
    for (number, kernel) in planned.kernels.kernels.iter().enumerate() {
        let team = teams.of(number);
        let own = reads.entry(team).or_default();
        own.extend(kernel.reads());
        own.extend(planned.chosen.windows.get(&number).map(|looked| looked.source));
        let own = gives.entry(team).or_default();
        own.extend(&kernel.results);
    }
    // What a scatter leaves as it was is copied first; sums that are kept are read again by their own team.
    for (team, given) in &gives {
        reads.entry(*team).or_default().extend(given);
    }
    (reads, gives)
}

/// Values by their place in HBM.
struct ValuePlaces {
    /// First byte, one behind the last, and the value.
    by_start: BTreeMap<u64, (u64, usize)>,
    /// Inputs that lie one behind the other as a value of their own.
    parts_of: BTreeMap<usize, usize>,
}

impl ValuePlaces {
    fn new(planned: &Planned) -> ValuePlaces {
        let mut parts_of = BTreeMap::new();
        for (number, value) in planned.kernels.values.iter().enumerate() {
            if let Origin::Parts(parts) = &value.origin {
                parts_of.extend(parts.iter().map(|part| (*part, number)));
            }
        }
        let values = planned.kernels.values.iter().zip(&planned.places).enumerate();
        let whole = values.filter(|(number, _)| !parts_of.contains_key(number));
        let by_start = whole.map(|(number, (value, start))| {
            (*start, (start + value.count() * value.element_bytes(), number))
        });
        ValuePlaces { by_start: by_start.collect(), parts_of }
    }

    /// The value that a byte is of.
    fn around(&self, byte: u64) -> Option<usize> {
        let (_, (end, value)) = self.by_start.range(..=byte).next_back()?;
        (byte < *end).then_some(*value)
    }
}

/// The first kernel that does not read all elements that it looks at.
fn not_read(planned: &Planned, teams: &Teams, touched: BTreeMap<usize, TeamBytes>) -> Option<String> {
    let read: BTreeMap<usize, (ByteSet, bool)> = touched
        .into_iter()
        .map(|(team, bytes)| (team, (ByteSet::from_runs(bytes.read), bytes.by_index)))
        .collect();
    let kernels = &planned.kernels;
    let mut made = BTreeMap::new();
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        made.extend(kernel.results.iter().map(|value| (*value, teams.of(number))));
    }
    for number in 0..kernels.kernels.len() {
        let team = teams.of(number);
        if planned.chosen.unwritten.contains(&number) {
            continue;
        }
        for view in looks(planned, number) {
            let (value, place) = (kernels.values.get(view.value)?, *planned.places.get(view.value)?);
            let elsewhere = planned.laid.contains_key(&view.value) || made.get(&view.value) == Some(&team);
            let resident = |one: &Resident| {
                one.value == view.value && one.readers.iter().any(|reader| teams.of(*reader) == team)
            };
            let elsewhere = elsewhere || planned.residents.iter().any(resident);
            let packed = matches!(value.origin, Origin::Constant(_)) && !planned.blocks.is_empty();
            if elsewhere || packed {
                continue;
            }
            let needed = bytes(&view, place, value.element_bytes())?;
            let whole = read.get(&team).is_some_and(|(read, by_index)| *by_index || needed.is_within(read));
            if !whole {
                let name = kernels.kernels.get(number)?.name();
                return Some(format!("{name} {number} does not read all of `{}`", value.name));
            }
        }
    }
    None
}

/// What a kernel looks at.
fn looks(planned: &Planned, number: usize) -> Vec<View> {
    let kernels = &planned.kernels;
    let whole = |value: usize| View::whole(value, &kernels.values[value].dims);
    let mut all = match &kernels.kernels[number].work {
        Work::Move(_) if planned.chosen.is_inside(number) => Vec::new(),
        Work::Move(parts) => parts.iter().map(source).collect(),
        Work::Gather { table, .. } => vec![whole(*table)],
        Work::Scatter { table, rows, .. } => vec![whole(*table), whole(*rows)],
        Work::Chain { inputs, .. } => inputs.clone(),
        Work::Contract { a, b, sizes } => vec![sizes.view(*a, 0), sizes.view(*b, 1)],
        Work::Reduce { from, .. } => vec![whole(*from)],
    };
    if let Some(looked) = planned.chosen.windows.get(&number) {
        let chain = &kernels.kernels[looked.chain].work;
        let Work::Chain { inputs, .. } = chain else { return all };
        all.remove(0);
        all.extend(inputs.clone());
    }
    all
}

/// The elements that a part of a move takes.
fn source(part: &Part) -> View {
    let axes = part.loops.iter().map(|(size, from, _)| (*size, *from)).collect();
    View { value: part.from, first: part.from_first, axes }
}

/// Bytes of a view of a value that lies somewhere; `None` if they begin before it.
fn bytes(view: &View, place: u64, element_bytes: u64) -> Option<ByteSet> {
    let element = signed(element_bytes);
    let first = signed(place) + view.first * element;
    let mut runs = vec![(first, first + element)];
    for (size, stride) in view.axes.iter().rev().filter(|(size, stride)| *size > 1 && *stride != 0) {
        let one = (runs.len() == 1).then(|| runs[0]).filter(|(from, to)| stride * element == to - from);
        if let Some((from, to)) = one {
            runs = vec![(from, from + (to - from) * signed(*size))];
            continue;
        }
        let steps = 0..signed(*size);
        let moved = steps.flat_map(|at| {
            runs.iter().map(move |(from, to)| (from + at * stride * element, to + at * stride * element))
        });
        let natural = |number: i64| u64::try_from(number).ok();
        let all: Option<Vec<(u64, u64)>> =
            moved.map(|(from, to)| Some((natural(from)?, natural(to)?))).collect();
        let joined = ByteSet::from_runs(all?);
        runs = joined.runs().iter().map(|(from, to)| (signed(*from), signed(*to))).collect();
    }
    let natural = |(from, to): (i64, i64)| Some((u64::try_from(from).ok()?, u64::try_from(to).ok()?));
    Some(ByteSet::from_runs(runs.into_iter().map(natural).collect::<Option<_>>()?))
}
