//! What the kernels of a planned graph say of its commands: which of them work together, whose bytes of HBM
//! each reads, and what the host has written before a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use tilewright_tcp_isa::footprint::{ByteSet, MemoryAccess, MemoryKind};
use tilewright_tcp_isa::program::TransferId;

use super::intent::{HostRead, Intent};
use crate::general::kernel::{Kernel, Origin, Value, Work};
use crate::general::{Planned, Resident};

/// Kernels whose commands run together, by a number that each of them has.
pub(super) struct Teams(Vec<usize>);

impl Teams {
    /// Chains and reductions on the tiles of a contraction, moves that it makes needless, rows in groups.
    pub(super) fn new(planned: &Planned) -> Teams {
        let mut teams = Teams((0..planned.kernels.kernels.len()).collect());
        let chosen = &planned.chosen;
        chosen.tails.iter().for_each(|(one, other)| teams.join(*one, *other));
        for (one, others) in &chosen.epilogues {
            others.iter().for_each(|other| teams.join(*one, *other));
        }
        chosen.padded.iter().for_each(|(one, inside)| teams.join(*one, inside.mover));
        for group in &planned.groups {
            group.clone().for_each(|kernel| teams.join(group.start, kernel));
        }
        teams
    }

    fn join(&mut self, one: usize, other: usize) {
        let (to, from) = (self.of(one), self.of(other));
        self.0.iter_mut().filter(|team| **team == from).for_each(|team| *team = to);
    }

    pub(super) fn of(&self, kernel: usize) -> usize {
        self.0.get(kernel).copied().unwrap_or(kernel)
    }
}

/// What the commands of a planned graph are meant to read.
pub(super) fn intent(planned: &Planned) -> Intent {
    let kernels = &planned.kernels;
    let teams = Teams::new(planned);
    let name = |(number, kernel): (usize, &Kernel)| format!("{} {number}", kernel.name());
    let ahead = (0_u32..).zip(&planned.kernel_of_transfer);
    Intent {
        names: kernels.kernels.iter().enumerate().map(name).collect(),
        reads: reads(planned, &teams),
        ahead: ahead.map(|(id, kernel)| (TransferId(id), teams.of(*kernel))).collect(),
        image_kernels: planned.kernel_of_exec.iter().map(|kernel| teams.of(*kernel)).collect(),
        passes_in_hbm: true,
        held: vec![held(planned)],
        resident: resident(planned, &teams),
        indexed: indexed(planned),
        results: results(planned, &teams),
        kept_bytes: Some(0),
        reads_all: true,
        ..Intent::default()
    }
}

/// Teams that find values in data memory, with those that left them.
fn resident(planned: &Planned, teams: &Teams) -> BTreeSet<(usize, usize)> {
    let pairs = |one: &Resident| {
        let maker = teams.of(one.maker);
        one.readers.iter().map(|reader| (teams.of(*reader), maker)).collect::<Vec<_>>()
    };
    planned.residents.iter().flat_map(pairs).collect()
}

/// Values whose rows are gathered or scattered by a table.
fn indexed(planned: &Planned) -> Vec<MemoryAccess> {
    let by_table = |kernel: &Kernel| match &kernel.work {
        Work::Gather { from, .. } => Some(*from),
        Work::Scatter { .. } => kernel.results.first().copied(),
        Work::Chain { .. } | Work::Reduce { .. } | Work::Contract { .. } | Work::Move(_) => None,
    };
    let range = |number: usize| {
        let (value, place) = (planned.kernels.values.get(number)?, *planned.places.get(number)?);
        Some(of_hbm(ByteSet::range(place, place + value.count() * value.element_bytes())))
    };
    planned.kernels.kernels.iter().filter_map(by_table).filter_map(range).collect()
}

/// For each value the teams that make it.
fn makers(planned: &Planned, teams: &Teams) -> Vec<Vec<usize>> {
    let mut makers = vec![Vec::new(); planned.kernels.values.len()];
    for (number, kernel) in planned.kernels.kernels.iter().enumerate() {
        for value in &kernel.results {
            makers.get_mut(*value).into_iter().for_each(|makers| makers.push(teams.of(number)));
        }
    }
    makers
}

/// Results of the graph that kernels make and that lie row-major.
fn results(planned: &Planned, teams: &Teams) -> Vec<HostRead> {
    let makers = makers(planned, teams);
    let laid = |value: usize| planned.laid.contains_key(&value);
    let results = planned.kernels.results.iter().filter(|result| !laid(result.value));
    let read = |result: &crate::general::kernel::Result| {
        let (value, place) = (planned.kernels.values.get(result.value)?, *planned.places.get(result.value)?);
        let bytes = ByteSet::range(place, place + value.count() * value.element_bytes());
        let makers = makers.get(result.value)?.clone();
        Some(HostRead { name: result.name.clone(), bytes: of_hbm(bytes), makers })
    };
    results.filter_map(read).collect()
}

fn of_hbm(bytes: ByteSet) -> MemoryAccess {
    let bytes = Arc::new(bytes);
    MemoryAccess { memory: MemoryKind::Hbm, chip: 0, slices: (0, 1), write: false, lanes: 0, bytes }
}

/// For each team the teams that make what it reads.
fn reads(planned: &Planned, teams: &Teams) -> Vec<Vec<usize>> {
    let (kernels, makers) = (&planned.kernels, makers(planned, teams));
    let mut reads = vec![Vec::new(); kernels.kernels.len()];
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        let mut values = kernel.reads();
        values.extend(planned.chosen.windows.get(&number).map(|looked| looked.source));
        let own: Vec<usize> =
            values.iter().flat_map(|value| makers.get(*value).cloned().unwrap_or_default()).collect();
        reads[teams.of(number)].extend(own);
    }
    reads
}

/// Bytes of HBM that the host writes or clears: all but those of the elements that kernels make.
fn held(planned: &Planned) -> MemoryAccess {
    let values = planned.kernels.values.iter().zip(&planned.places);
    let made = values.filter(|(value, _)| value.origin == Origin::Kernel);
    let range = |(value, start): (&Value, &u64)| (*start, start + value.count() * value.element_bytes());
    let made = ByteSet::from_runs(made.map(range).collect());
    let (mut held, mut from) = (Vec::new(), 0);
    for (start, end) in made.runs() {
        held.push((from, *start));
        from = *end;
    }
    held.push((from, planned.hbm_bytes.max(from)));
    held.retain(|(start, end)| start < end);
    of_hbm(ByteSet::from_runs(held))
}
