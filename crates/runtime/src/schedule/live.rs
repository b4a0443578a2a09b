//! What lies where, and from when to when: areas of data memory by the times of the commands that touch them, and ranges of other memories.

use std::collections::BTreeMap;

use tilewright_compile::Compiled;
use tilewright_compile::compiled::Outline;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp::footprint::{Access, Store, of_exec, of_transfer};
use tilewright_tcp::program::event::{PeId, Ticket};
use tilewright_tcp::program::{Program, RegisterId};

use super::Timed;

/// Bytes of a memory that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// The memory.
    pub memory: Store,
    /// What lies there; several names share one place.
    pub name: String,
    /// First byte and one past the last that is touched.
    pub bytes: (u64, u64),
    /// First and last cycle at which somebody touches it; `None` if nobody does.
    pub live: Option<(u64, u64)>,
}

/// Areas of the first PE's slices and of HBM.
pub(super) fn areas(
    machine: &Tcp,
    compiled: &Compiled,
    outline: &Outline,
    values: &[(RegisterId, i64)],
    commands: &BTreeMap<Ticket, Timed>,
    pe: PeId,
) -> Vec<Area> {
    let mut all = named(compiled, outline);
    let Some(program) = compiled.program(outline.name) else { return all };
    let touched = touched(machine, program, values, pe);
    for command in commands.values() {
        let Some(accesses) = touched.get(command.name.as_str()) else { continue };
        for access in accesses.iter().filter(|access| of_first(machine, access, pe)) {
            for run in access.bytes.runs() {
                touch(&mut all, access.memory, *run, (command.start, command.end));
            }
        }
    }
    all.retain(|area| area.live.is_some());
    all
}

fn of_first(machine: &Tcp, access: &Access, pe: PeId) -> bool {
    let first = pe.pe * machine.pe.slices;
    access.memory == Store::Hbm || (access.slices.0..access.slices.1).contains(&first)
}

/// Places with names, in order; each ends where the next begins.
fn named(compiled: &Compiled, outline: &Outline) -> Vec<Area> {
    let plan = &compiled.plan;
    let area = |memory, name: &str, start: u64| Area {
        memory,
        name: name.to_string(),
        bytes: (start, start),
        live: None,
    };
    let mut all = vec![area(Store::Trf, "register files", 0), area(Store::Vrf, "vector registers", 0)];
    let mut dm: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (name, start) in outline.places.named() {
        dm.entry(start).or_default().push(name);
    }
    all.extend(dm.into_iter().map(|(start, names)| area(Store::Dm, &names.join("/"), start)));
    all.extend([
        area(Store::Hbm, "embedding", plan.embedding),
        area(Store::Hbm, "angles", plan.angles),
        area(Store::Hbm, "caches", plan.caches_start()),
        area(Store::Hbm, "tables", plan.token_table),
        area(Store::Hbm, "logits", plan.logits),
    ]);
    if let Some(first) = plan.packed.first().and_then(|packed| packed.fills.first()) {
        all.push(area(Store::Hbm, "weights", first.at));
    }
    all.sort_by_key(|area| (area.memory, area.bytes.0));
    all
}

fn touched<'p>(
    machine: &Tcp,
    program: &'p Program,
    values: &[(RegisterId, i64)],
    pe: PeId,
) -> BTreeMap<&'p str, Vec<Access>> {
    let mut registers: Vec<i64> = program.registers.iter().map(|register| register.initial).collect();
    for (RegisterId(id), value) in values {
        if let Some(slot) = registers.get_mut(*id as usize) {
            *slot = *value;
        }
    }
    let execs = program
        .execs
        .iter()
        .map(|exec| (exec.name.as_str(), of_exec(machine, &exec.resolved(&registers), pe, &[]).accesses));
    // What comes from tables is somewhere in what they lead to.
    let transfers = program.transfers.iter().map(|transfer| {
        let mut accesses = of_transfer(machine, &transfer.resolved(&registers), &[]).accesses;
        accesses.retain(|access| access.bytes.is_exact());
        (transfer.name.as_str(), accesses)
    });
    execs.chain(transfers).collect()
}

/// A run of bytes belongs to the last area that begins before it.
fn touch(areas: &mut [Area], memory: Store, (start, end): (u64, u64), (from, to): (u64, u64)) {
    let mut at = start;
    while at < end {
        let next = areas
            .iter()
            .filter(|area| area.memory == memory && area.bytes.0 > at)
            .map(|area| area.bytes.0)
            .min()
            .unwrap_or(u64::MAX);
        let own = areas.iter_mut().filter(|area| area.memory == memory && area.bytes.0 <= at);
        if let Some(area) = own.max_by_key(|area| area.bytes.0) {
            area.bytes.1 = area.bytes.1.max(end.min(next));
            let live = area.live.get_or_insert((from, to));
            *live = (live.0.min(from), live.1.max(to));
        }
        at = next;
    }
}
