//! Programs against the plan: every transfer meets the region of HBM that it is meant for, row by row, brings
//! what it reads there to its place in data memory, and reads the weights of its model whole. A plan and
//! programs that do not belong together are found here.

use std::ops::Range;

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::ByteSet;
use tilewright_tcp_isa::program::control::StepKind;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, SLICE_STRIDE, Transfer};
use tilewright_tcp_isa::program::{Command, Program};

use super::{CheckFault, FaultKind};

use crate::tcp::place::Places;
use crate::tcp::plan::Plan;

/// Bytes of an entry of a table.
const ENTRY_BYTES: u64 = 4;

/// What lies in a part of HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// The first of the rows that a table points into: reads by index begin there and take whole rows.
    Rows { row_bytes: u64 },
    /// Byte offsets of rows.
    Table,
    /// A weight tile of one PE, which is read whole.
    Tile,
    /// Constants of slices.
    Constants,
    /// Keys and values of one PE, in rows.
    Cache { row_bytes: u64, sequence_bytes: u64 },
    /// What a run gives.
    Result,
}

/// A part of HBM that the plan gives away.
#[derive(Clone, Debug)]
struct PlannedRegion {
    contents: Contents,
    start: u64,
    end: u64,
    /// Tables whose entries are places in it.
    tables: Vec<Range<u64>>,
}

/// Parts of HBM as the plan names them, and a way to find them by their bytes.
struct PlannedRegions {
    all: Vec<PlannedRegion>,
    /// By rising start: start, the largest end up to here, and which of all it is.
    by_start: Vec<(u64, u64, usize)>,
}

impl PlannedRegions {
    fn new(all: Vec<PlannedRegion>) -> PlannedRegions {
        let bounds = all.iter().enumerate().map(|(at, region)| (region.start, region.end, at));
        let mut by_start: Vec<(u64, u64, usize)> = bounds.collect();
        by_start.sort_unstable();
        let mut reach = 0;
        for (_, end, _) in &mut by_start {
            reach = reach.max(*end);
            *end = reach;
        }
        PlannedRegions { all, by_start }
    }

    /// The first that has all bytes from `start` to before `end`.
    fn around(&self, start: u64, end: u64) -> Option<&PlannedRegion> {
        let before = self.by_start.partition_point(|(first, ..)| *first <= start);
        let near = self.by_start.get(..before)?.iter().rev().take_while(|(_, reach, _)| *reach >= end);
        let near = near.filter_map(|(.., at)| Some((at, self.all.get(*at)?)));
        near.filter(|(_, region)| region.end >= end).min_by_key(|(at, _)| *at).map(|(_, region)| region)
    }
}

/// One side of a transfer in HBM.
struct HbmSide {
    start: u64,
    /// First byte behind the last that it touches; of rows by index, of the first row.
    end: u64,
    write: bool,
    indexed: bool,
    /// Strides of loops with more than one iteration, and how often they are taken.
    strides: Vec<(u64, u64)>,
}

/// What is wrong with the transfers of a program; with its places in data memory if it is one that reads the
/// whole model.
pub(super) fn misplaced(
    machine: &Tcp,
    plan: &Plan,
    program: &Program,
    places: Option<&Places>,
) -> Vec<CheckFault> {
    let regions = PlannedRegions::new(regions(plan, machine.pe.slices));
    let issued = first_issues(program);
    let mut faults = Vec::new();
    let mut read = Vec::new();
    for (index, transfer) in program.transfers.iter().enumerate() {
        let (pe, step) = issued.get(index).copied().flatten().unwrap_or((PeId { chip: 0, pe: 0 }, 0));
        let mut fault = |why: String| {
            let message = format!("`{}` {why}", transfer.name);
            faults.push(CheckFault::new(FaultKind::Misplaced, pe, step, message));
        };
        for side in sides(program, transfer) {
            let why = why_misplaced(&regions, transfer, &side);
            let why =
                why.or_else(|| why_brought_elsewhere(machine, plan, &regions, places?, program, transfer));
            match why {
                Some(why) => fault(why),
                None if !side.write => read.extend(bytes_of(program, transfer, side.indexed)),
                None => {}
            }
        }
    }
    if places.is_some() {
        faults.extend(not_read_whole(plan, &regions.all, read));
    }
    faults
}

/// The first tile of weights that a program does not read whole, or the first cache whose rows it does not
/// all read where a context is longest.
fn not_read_whole(plan: &Plan, regions: &[PlannedRegion], read: Vec<(u64, u64)>) -> Option<CheckFault> {
    let read = ByteSet::from_runs(read);
    let missed = regions.iter().find(|region| {
        let end = match region.contents {
            Contents::Tile => region.end,
            Contents::Cache { row_bytes, .. } => region.start + plan.options.context * row_bytes,
            _ => return false,
        };
        !ByteSet::range(region.start, end).is_within(&read)
    })?;
    let (what, start) = (missed.contents.name(), missed.start);
    let message = format!("{what} at {start:#x} of HBM are not read whole");
    Some(CheckFault::new(FaultKind::Misplaced, PeId { chip: 0, pe: 0 }, 0, message))
}

/// All that a plan gives away in the HBM of one chip.
fn regions(plan: &Plan, slices: u64) -> Vec<PlannedRegion> {
    let mut all = Vec::new();
    let mut add = |contents, start: u64, bytes: u64, tables: &[Range<u64>]| {
        all.push(PlannedRegion { contents, start, end: start.exact_add(bytes), tables: tables.to_vec() });
    };
    let table = |start: u64, entries: u64| start..start.exact_add(entries.exact_mul(ENTRY_BYTES));
    let tokens = plan.prefill_rows.exact_mul(slices);
    let by_token = table(plan.token_table, tokens);
    let by_angle = table(plan.angle_table, tokens);
    let by_place = plan.place_table.map(|start| table(start, tokens));
    let mut by_cache = vec![table(plan.cache_table, tokens), table(plan.row_table, plan.prefill_rows)];
    by_cache.extend(plan.sequence_table.map(|start| table(start, 1)));
    let rows = Contents::Rows { row_bytes: plan.embedding_row };
    add(rows, plan.embedding, plan.embedding_row, std::slice::from_ref(&by_token));
    if let Some(by_place) = &by_place {
        add(rows, plan.places, plan.embedding_row, std::slice::from_ref(by_place));
    }
    add(
        Contents::Rows { row_bytes: plan.angles_row },
        plan.angles,
        plan.angles_row,
        std::slice::from_ref(&by_angle),
    );
    for packed in &plan.packed {
        for fill in &packed.fills {
            for pe in 0..plan.options.pes {
                add(Contents::Tile, fill.at + pe * fill.pe_bytes, packed.slices * fill.slice_bytes, &[]);
            }
        }
    }
    add(Contents::Constants, plan.constants.at, plan.constants.bytes * slices * plan.options.pes, &[]);
    let (row_bytes, sequence_bytes) = (plan.cache_row, plan.sequence_bytes);
    for cache in &plan.caches {
        for pe in 0..plan.options.pes {
            let contents = Contents::Cache { row_bytes, sequence_bytes };
            add(contents, cache + pe * plan.cache_bytes, plan.cache_bytes, &by_cache);
        }
    }
    for range in [by_token, by_angle].into_iter().chain(by_place).chain(by_cache) {
        add(Contents::Table, range.start, range.end - range.start, &[]);
    }
    add(Contents::Result, plan.logits, 4 * plan.logit_words * plan.options.batch.max(1), &[]);
    all
}

/// Sides of a transfer that lie in HBM.
fn sides(program: &Program, transfer: &Transfer) -> Vec<HbmSide> {
    let side = |write: bool| {
        let base = if write { transfer.target } else { transfer.source };
        let start = hbm_offset(base)?;
        let indexed = transfer.index.is_some_and(|index| index.scatter == write);
        let (mut end, mut strides) = (start.exact_add(transfer.packet), Vec::new());
        for row in transfer.loops.iter().skip(usize::from(indexed)) {
            let stride = if write { row.target } else { row.source }.unsigned_abs();
            let more = program.most(row.size).saturating_sub(1);
            end = end.exact_add(stride.exact_mul(more));
            strides.extend((stride > 0 && more > 0).then_some((stride, more)));
        }
        Some(HbmSide { start, end, write, indexed, strides })
    };
    [false, true].into_iter().filter_map(side).collect()
}

fn hbm_offset(address: Address) -> Option<u64> {
    let located = address.locate()?;
    (located.medium == MemoryInstance::Hbm).then_some(located.offset)
}

/// Runs of bytes that the source of a transfer in HBM reads, at most; where rows are read by index, of the
/// first row.
fn bytes_of(program: &Program, transfer: &Transfer, indexed: bool) -> Vec<(u64, u64)> {
    let mut runs =
        hbm_offset(transfer.source).map(|at| vec![(at, at.exact_add(transfer.packet))]).unwrap_or_default();
    let loops = transfer.loops.iter().skip(usize::from(indexed)).rev();
    for row in loops.filter(|row| row.source > 0) {
        let (stride, size) = (row.source.unsigned_abs(), program.most(row.size));
        runs = (0..size)
            .flat_map(|step| runs.iter().map(move |(from, to)| (from + step * stride, to + step * stride)))
            .collect();
        runs = ByteSet::from_runs(runs).runs().to_vec();
    }
    runs
}

/// Why a side of a transfer does not meet what the plan has there; none if it does.
fn why_misplaced(regions: &PlannedRegions, transfer: &Transfer, side: &HbmSide) -> Option<String> {
    let what = if side.write { "writes" } else { "reads" };
    let place = format!("{what} HBM at {:#x} to {:#x}", side.start, side.end);
    let region = regions.around(side.start, side.end);
    let Some(region) = region else { return Some(format!("{place}, where the plan has no single thing")) };
    let contents = region.contents.name();
    if !fits(region, transfer, side) {
        return Some(format!("{place}, where the plan has {contents}"));
    }
    let table = hbm_offset(transfer.index.filter(|_| side.indexed)?.table);
    let known = table.is_some_and(|at| region.tables.iter().any(|table| table.contains(&at)));
    (!known).then(|| format!("takes places of {contents} from what is not their table"))
}

/// Whether what a transfer does to a region is what is done to such regions.
fn fits(region: &PlannedRegion, transfer: &Transfer, side: &HbmSide) -> bool {
    match region.contents {
        Contents::Rows { row_bytes } => {
            let whole = side.end - side.start == row_bytes;
            !side.write && side.indexed && side.start == region.start && whole
        }
        Contents::Cache { row_bytes, sequence_bytes } => {
            let (rows, within): (Vec<_>, Vec<_>) =
                side.strides.iter().partition(|(stride, _)| *stride >= row_bytes);
            let of_row = within.iter().map(|(stride, more)| stride * more).sum::<u64>() + transfer.packet;
            rows.iter().all(|(stride, _)| stride.is_multiple_of(row_bytes))
                && (side.start - region.start) % sequence_bytes + of_row <= row_bytes
        }
        Contents::Tile | Contents::Constants => !side.write && !side.indexed,
        Contents::Result => side.write && !side.indexed,
        Contents::Table => false,
    }
}

/// Why weights, keys and values that a transfer reads do not come to their place in data memory; none if they
/// do, or if it reads something else.
fn why_brought_elsewhere(
    machine: &Tcp,
    plan: &Plan,
    regions: &PlannedRegions,
    places: &Places,
    program: &Program,
    transfer: &Transfer,
) -> Option<String> {
    let (from, to) = (hbm_offset(transfer.source)?, dm_offset(transfer.target)?);
    let region = regions.around(from, from.checked_add(1)?)?;
    match region.contents {
        Contents::Tile => {
            let first = to.checked_sub(from - region.start);
            let known = first.is_some_and(|first| places.slots.contains(&first));
            (!known).then(|| "brings weights to what is not a slot for them".to_string())
        }
        Contents::Cache { row_bytes, .. } => {
            let room = row_bytes * plan.most_key_rows(machine);
            let end = to + reach_in_slice(program, transfer);
            // Behind keys come values: half of a row on, or half of what a team has of one.
            let half = |first: u64| first == 0 || (row_bytes / 2).is_multiple_of(first);
            let fits = |place: u64| to.checked_sub(place).is_some_and(half) && end <= place + room;
            let side = sides(program, transfer).into_iter().find(|side| !side.write)?;
            let all = side.end - side.start > (plan.options.context - 1) * row_bytes;
            if !all {
                return Some("reads less than a context of keys and values".to_string());
            }
            let known = fits(places.cached) || plan.options.batch > 1 && fits(places.cached_next);
            (!known).then(|| "brings keys and values to what is not their place".to_string())
        }
        _ => None,
    }
}

fn dm_offset(address: Address) -> Option<u64> {
    let located = address.locate()?;
    matches!(located.medium, MemoryInstance::Dm { .. }).then_some(located.offset)
}

/// Bytes from the first to behind the last that a transfer writes in a slice.
fn reach_in_slice(program: &Program, transfer: &Transfer) -> u64 {
    let within = transfer.loops.iter().filter(|row| row.target.unsigned_abs() < SLICE_STRIDE.unsigned_abs());
    let steps =
        within.map(|row| row.target.unsigned_abs().exact_mul(program.most(row.size).saturating_sub(1)));
    steps.fold(transfer.packet, u64::exact_add)
}

impl Contents {
    fn name(self) -> &'static str {
        match self {
            Contents::Rows { .. } => "rows of a table",
            Contents::Table => "indices",
            Contents::Tile => "weights",
            Contents::Constants => "constants",
            Contents::Cache { .. } => "keys and values",
            Contents::Result => "results",
        }
    }
}

/// For each transfer the first step that issues it, steps inside of others left out.
fn first_issues(program: &Program) -> Vec<Option<(PeId, usize)>> {
    let mut first = vec![None; program.transfers.len()];
    for queue in &program.queues {
        let pe = PeId { chip: queue.chip, pe: queue.pe };
        for (at, step) in queue.steps.iter().enumerate() {
            let StepKind::Push(Command::Dma { transfer, .. }) = &step.kind else { continue };
            if let Some(unknown @ None) = first.get_mut(transfer.0 as usize) {
                *unknown = Some((pe, at));
            }
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One by one.
    #[test]
    fn a_region_around_bytes_is_the_first_that_has_them() {
        let mut state = 11_u64;
        let mut next = |most: u64| tilewright_base::random::below(&mut state, most);
        for _ in 0..200 {
            let all: Vec<PlannedRegion> = (0..next(20))
                .map(|_| {
                    let start = next(60);
                    let end = start + next(30);
                    PlannedRegion { contents: Contents::Tile, start, end, tables: Vec::new() }
                })
                .collect();
            let regions = PlannedRegions::new(all);
            let place = |region: &PlannedRegion| (region.start, region.end);
            for start in 0..70 {
                let end = start + 1 + next(10);
                let first = regions.all.iter().find(|region| region.start <= start && end <= region.end);
                assert_eq!(regions.around(start, end).map(place), first.map(place));
            }
        }
    }
}
