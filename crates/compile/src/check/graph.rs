//! The program of a planned graph against its plan: every value has its place, no transfer reaches from one
//! value into another or reads where none is, and every command is issued.

use std::collections::BTreeSet;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::ByteSet;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::transfer::{MemoryInstance, Transfer};

use super::images::{never_issued, unpaired};
use super::{CheckReport, RegisterFacts, check, places, values};
use crate::general::Planned;
use crate::general::kernel::{Origin, Value};

/// Checks the program of a planned graph: hazards between the units of all PEs, bytes that nobody wrote, and
/// that every kernel reads what it is meant to.
pub fn check_plan(machine: &Tcp, planned: &Planned) -> CheckReport {
    check(machine, &planned.program, &values::intent(planned), &RegisterFacts::default())
}

/// What is wrong with a plan, in words; none if nothing is.
pub fn plan_fault(machine: &Tcp, planned: &Planned) -> Option<String> {
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
        .or_else(|| places::misplaced(machine, planned))
}

/// The first transfer that begins to read where no value is and nothing is written.
fn reads_nothing(planned: &Planned) -> Option<String> {
    let program = &planned.program;
    let room = |((start, ahead), room): ((&u64, &u64), &u64)| (start.saturating_sub(*ahead), start + room);
    let places = planned.places.iter().zip(&planned.ahead).zip(&planned.rooms);
    let mut known: Vec<(u64, u64)> = places.map(room).collect();
    let written = program.transfers.iter().filter_map(|transfer| hbm_runs(program, transfer, true));
    known.extend(written.flatten());
    known.extend(planned.blocks.iter().map(|block| {
        let element_bytes = block.packing.element_bytes();
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
    // What the host fills before kernels write some of it is no value beside the one that it fills.
    let filled = |base: &u64| planned.places.contains(base);
    let blocks = planned.blocks.iter().map(|block| block.base).filter(|base| !filled(base));
    // Inputs that lie one behind the other are read as one.
    let joined = |value: &Value| match &value.origin {
        Origin::Parts(parts) => parts.clone(),
        _ => Vec::new(),
    };
    let parts: BTreeSet<usize> = planned.kernels.values.iter().flat_map(joined).collect();
    let places = planned.places.iter().zip(&planned.ahead).enumerate();
    let places = places.filter(|(value, _)| !parts.contains(value));
    let places = places.map(|(_, (place, ahead))| place.saturating_sub(*ahead));
    let starts: BTreeSet<u64> = places.chain(laid).chain(blocks).collect();
    let program = &planned.program;
    let found = program.transfers.iter().find(|transfer| {
        let runs = [false, true].into_iter().flat_map(|write| hbm_runs(program, transfer, write));
        let bounds = runs.flatten().collect::<Vec<_>>();
        bounds.iter().any(|(first, end)| starts.range(first + 1..*end.max(&(first + 1))).next().is_some())
    })?;
    Some(format!("`{}` reaches from one value into another", found.name))
}

/// Runs of bytes of HBM that a side of a transfer touches; none if it is elsewhere, or by index.
pub(super) fn hbm_runs(program: &Program, transfer: &Transfer, write: bool) -> Option<Vec<(u64, u64)>> {
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
