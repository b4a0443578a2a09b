//! The program of a planned graph against its plan: every value has its place, no transfer reaches from one value
//! into another, values are read and written whole where their kernels do so, and every command is issued.

use std::collections::BTreeSet;

use tilewright_tcp_isa::footprint::ByteSet;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::transfer::{MemoryInstance, Transfer};

use super::images::{never_issued, unpaired};
use crate::general::Planned;
use crate::general::kernel::{Kernels, Value, Work};

/// What is wrong with a plan, in words; none if nothing is.
pub fn plan_fault(planned: &Planned) -> Option<String> {
    let (values, places) = (planned.kernels.values.len(), planned.places.len());
    if values != places {
        return Some(format!("{values} values have {places} places"));
    }
    let program = &planned.program;
    let unpaired = unpaired(program).into_iter().next().map(|fault| fault.to_string());
    unpaired
        .or_else(|| never_issued(program))
        .or_else(|| crossing(planned))
        .or_else(|| reads_nothing(planned))
        .or_else(|| not_whole(planned))
}

/// The first transfer that begins to read where no value is and nothing is written.
fn reads_nothing(planned: &Planned) -> Option<String> {
    let (program, values) = (&planned.program, &planned.kernels.values);
    let end = |(value, start): (&Value, &u64)| (*start, start + value.count() * value.element_bytes());
    let mut known: Vec<(u64, u64)> = values.iter().zip(&planned.places).map(end).collect();
    let written = program.transfers.iter().filter_map(|transfer| hbm_runs(program, transfer, true));
    known.extend(written.flatten());
    known.extend(planned.blocks.iter().map(|block| {
        let element_bytes = if block.half { 2 } else { 4 };
        (block.base, block.base + block.patterns.len() as u64 * element_bytes)
    }));
    let known = ByteSet::from_runs(known);
    let found = program.transfers.iter().find(|transfer| {
        let located = transfer.source.locate().filter(|at| at.medium == MemoryInstance::Hbm);
        let first = located.map(|at| ByteSet::range(at.offset, at.offset + 1));
        first.is_some_and(|first| !first.is_within(&known))
    })?;
    Some(format!("`{}` reads where no value is", found.name))
}

/// The first transfer that reaches over the first byte of a value.
fn crossing(planned: &Planned) -> Option<String> {
    let laid = planned.laid.values().flatten().map(|laid| laid.base);
    let blocks = planned.blocks.iter().map(|block| block.base);
    let starts: BTreeSet<u64> = planned.places.iter().copied().chain(laid).chain(blocks).collect();
    let program = &planned.program;
    let found = program.transfers.iter().find(|transfer| {
        let runs = [false, true].into_iter().flat_map(|write| hbm_runs(program, transfer, write));
        let bounds = runs.flatten().collect::<Vec<_>>();
        bounds.iter().any(|(first, end)| starts.range(first + 1..*end.max(&(first + 1))).next().is_some())
    })?;
    Some(format!("`{}` reaches from one value into another", found.name))
}

/// The first value that is read or written in part, though its kernels read and write all of it.
fn not_whole(planned: &Planned) -> Option<String> {
    let (program, kernels) = (&planned.program, &planned.kernels);
    let all = |write: bool| {
        let transfers = program.transfers.iter().filter_map(|transfer| hbm_runs(program, transfer, write));
        ByteSet::from_runs(transfers.flatten().collect())
    };
    let by_index = indexed_starts(program);
    for (write, touched) in [(false, all(false)), (true, all(true))] {
        let wanted = if write { written_whole(kernels) } else { read_whole(kernels) };
        for number in wanted.into_iter().filter(|number| !planned.laid.contains_key(number)) {
            let (value, start) = (kernels.values.get(number)?, *planned.places.get(number)?);
            let end = start + value.count() * value.element_bytes();
            let own = ByteSet::range(start, end);
            let partly = own.overlap(&touched).is_some() && !own.is_within(&touched);
            if partly && by_index.range(start..end).next().is_none() {
                let what = if write { "written" } else { "read" };
                return Some(format!("`{}` is not {what} whole", value.name));
            }
        }
    }
    None
}

/// Values that some kernel reads all of.
fn read_whole(kernels: &Kernels) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    for kernel in &kernels.kernels {
        match &kernel.work {
            Work::Contract { a, b, .. } => all.extend([*a, *b]),
            Work::Reduce { from, .. } => _ = all.insert(*from),
            Work::Chain { inputs, .. } => {
                all.extend(inputs.iter().filter(|view| kernels.is_whole(view)).map(|view| view.value));
            }
            Work::Move(_) | Work::Gather { .. } | Work::Scatter { .. } => {}
        }
    }
    all
}

/// Values that their kernel writes all of.
fn written_whole(kernels: &Kernels) -> BTreeSet<usize> {
    let whole = kernels.kernels.iter().filter(|kernel| {
        matches!(kernel.work, Work::Contract { .. } | Work::Reduce { .. } | Work::Chain { .. })
    });
    whole.flat_map(|kernel| kernel.results.iter().copied()).collect()
}

/// Where rows begin that are read or written by index.
fn indexed_starts(program: &Program) -> BTreeSet<u64> {
    let sides = program.transfers.iter().filter_map(|transfer| {
        let base = if transfer.index?.scatter { transfer.target } else { transfer.source };
        base.locate().map(|located| located.offset)
    });
    sides.collect()
}

/// Runs of bytes of HBM that a side of a transfer touches; none if it is elsewhere, or by index.
fn hbm_runs(program: &Program, transfer: &Transfer, write: bool) -> Option<Vec<(u64, u64)>> {
    let base = if write { transfer.target } else { transfer.source };
    let located = base.locate().filter(|located| located.medium == MemoryInstance::Hbm)?;
    if transfer.index.is_some_and(|index| index.scatter == write) {
        return None;
    }
    let mut runs = vec![(located.offset, located.offset + transfer.packet)];
    for row in transfer.loops.iter().rev() {
        let stride = if write { row.target } else { row.source };
        let steps = 0..program.most(row.size);
        let step = |run: u64, step: u64| run.checked_add_signed(stride.checked_mul(step.try_into().ok()?)?);
        let moved = steps.flat_map(|at| {
            runs.iter().filter_map(move |(from, to)| Some((step(*from, at)?, step(*to, at)?)))
        });
        runs = ByteSet::from_runs(moved.collect()).runs().to_vec();
    }
    Some(runs)
}
