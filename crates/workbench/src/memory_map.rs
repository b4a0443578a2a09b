//! Who owns each byte, and from when to when: memories of the first slice, and HBM, from the footprints of
//! commands as they ran.
//!
//! A command owns what it writes until somebody writes there again or reads it for the last time; inputs are
//! owned by their tensors from the start, and what an output's tensor covers is kept to the end. Addresses
//! that come from tables are not known and are left out.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_tcp_isa::footprint::tensor::whole;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind, of_exec, of_transfer};
use tilewright_tcp_isa::program::event::{CommandImage, PeId, RunEvent, Ticket};
use tilewright_tcp_isa::program::tensor::TensorRole;
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Exec, Program, Transfer};
use tilewright_tcp_sim::{Detail, Observer, SimOptions, simulate};
use tilewright_view::run_view::{MemoryBlock, MemoryView};

use crate::byte_ranges::ByteRanges;

/// Commands that are followed; a longer run has no map, and values have no path.
pub const MOST_COMMANDS: usize = 20_000;
/// Runs of bytes of one access that are kept apart; of more, all between the first and the last counts.
const MOST_RUNS: usize = 1024;
/// Blocks of one memory.
const MOST_BLOCKS: usize = 5_000;

/// Commands of a run by their start, and the cycles of all; `None` if there are too many, or they cannot be
/// timed without values.
pub(crate) fn ran_commands(machine: &Tcp, program: &Program) -> Option<(Vec<RanCommand>, u64)> {
    let mut ran = CommandTimes::default();
    let options = SimOptions { detail: Detail::Totals, ..SimOptions::default() };
    let outcome = simulate(machine, program, &options, KeepLast::new(0), &mut ran).ok()?;
    if ran.reads_values || ran.commands.len() > MOST_COMMANDS {
        return None;
    }
    let mut order: Vec<RanCommand> = ran.commands.into_values().collect();
    order.sort_by_key(|command| command.start);
    Some((order, outcome.cycles))
}

/// The map of a program's run; empty if it is too long, or cannot be timed without values.
pub fn memory_map(machine: &Tcp, program: &Program) -> Vec<MemoryView> {
    let Some((order, cycles)) = ran_commands(machine, program) else { return Vec::new() };
    let mut memories: BTreeMap<MemoryKind, OwnedBytes> = BTreeMap::new();
    let tensors: Vec<(&str, TensorRole, MemoryAccess)> = program
        .tensors
        .iter()
        .filter_map(|tensor| Some((tensor.name.as_str(), tensor.role, whole(machine, tensor)?)))
        .filter(|(_, _, access)| is_here(access))
        .collect();
    for (name, _, access) in tensors.iter().filter(|(_, role, _)| *role != TensorRole::Output) {
        memories.entry(access.memory).or_default().touch(access, name, true, (0, 0));
    }
    for command in &order {
        let accesses = command.accesses(machine);
        for write in [false, true] {
            for access in accesses.iter().filter(|access| access.write == write && is_here(access)) {
                let memory = memories.entry(access.memory).or_default();
                memory.touch(access, command.name(), write, (command.start, command.end));
            }
        }
    }
    for (name, _, access) in tensors.iter().filter(|(_, role, _)| *role != TensorRole::Input) {
        let memory = memories.entry(access.memory).or_default();
        memory.touch(access, name, false, (cycles, cycles));
    }
    let view = |(kind, owned): (MemoryKind, OwnedBytes)| MemoryView {
        name: if kind == MemoryKind::Hbm { "hbm".into() } else { format!("{} of slice 0", kind.name()) },
        capacity_bytes: kind.capacity_bytes(machine),
        blocks: owned.blocks(),
    };
    memories.into_iter().map(view).filter(|memory| !memory.blocks.is_empty()).collect()
}

/// Bytes of the first chip's HBM and of its first slice that are known exactly.
fn is_here(access: &MemoryAccess) -> bool {
    let first = access.memory == MemoryKind::Hbm || access.slices.0 == 0;
    access.chip == 0 && first && access.bytes.is_exact()
}

/// Runs of bytes that an access touches; one from the first to the last if there are too many.
pub(crate) fn touched_runs(access: &MemoryAccess) -> Vec<(u64, u64)> {
    let runs = access.bytes.runs();
    if runs.len() > MOST_RUNS { access.bytes.bounds().into_iter().collect() } else { runs.to_vec() }
}

/// A command with when it ran.
pub(crate) struct RanCommand {
    pub(crate) pe: PeId,
    pub(crate) image: RanImage,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

pub(crate) enum RanImage {
    Exec(Arc<Exec>),
    Transfer(Arc<Transfer>),
}

impl RanCommand {
    pub(crate) fn name(&self) -> &str {
        match &self.image {
            RanImage::Exec(exec) => &exec.name,
            RanImage::Transfer(transfer) => &transfer.name,
        }
    }

    pub(crate) fn accesses(&self, machine: &Tcp) -> Vec<MemoryAccess> {
        match &self.image {
            RanImage::Exec(exec) => of_exec(machine, exec, self.pe, &[]).accesses,
            RanImage::Transfer(transfer) => of_transfer(machine, transfer, &[]).accesses,
        }
    }
}

/// Hears when commands run.
#[derive(Default)]
struct CommandTimes {
    commands: BTreeMap<Ticket, RanCommand>,
    reads_values: bool,
}

impl Observer for CommandTimes {
    fn observe(&mut self, event: &RunEvent<'_>) -> ControlFlow<()> {
        match *event {
            RunEvent::Issue { ticket, pe, image, at_cycles, .. } => {
                let image = match image {
                    CommandImage::Exec(exec) => RanImage::Exec(Arc::clone(exec)),
                    CommandImage::Transfer(transfer) => RanImage::Transfer(Arc::clone(transfer)),
                };
                self.commands.insert(ticket, RanCommand { pe, image, start: at_cycles, end: at_cycles });
            }
            RunEvent::Start { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.start = at_cycles;
                }
            }
            RunEvent::Done { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.end = at_cycles;
                }
            }
            _ => {}
        }
        match self.reads_values || self.commands.len() > MOST_COMMANDS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn read(&mut self, _address: Address, _dtype: Dtype) -> Option<i64> {
        self.reads_values = true;
        None
    }
}

/// Who owns some bytes, and from when to when.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByteOwner {
    name: String,
    from: u64,
    until: u64,
}

/// A memory, piece by piece: who owns it now, and who did before.
#[derive(Default)]
struct OwnedBytes {
    now: ByteRanges<ByteOwner>,
    before: Vec<(u64, u64, ByteOwner)>,
}

impl OwnedBytes {
    fn touch(&mut self, access: &MemoryAccess, name: &str, write: bool, (start, end): (u64, u64)) {
        for (first, last) in touched_runs(access) {
            if write {
                let owner = ByteOwner { name: name.to_string(), from: start, until: end };
                self.before.extend(self.now.put(first, last, owner));
            } else {
                self.now.within(first, last).for_each(|(_, _, owner)| owner.until = owner.until.max(end));
            }
        }
    }

    /// All of them; neighbours of one owner and one time are one.
    fn blocks(self) -> Vec<MemoryBlock> {
        let mut all = self.before;
        all.extend(self.now.all());
        all.sort_by(|(a, _, one), (b, _, two)| {
            (one.from, one.until, &one.name, a).cmp(&(two.from, two.until, &two.name, b))
        });
        let mut blocks: Vec<MemoryBlock> = Vec::new();
        for (start_byte, end, owner) in all {
            let ByteOwner { name, from, until } = owner;
            match blocks.last_mut() {
                Some(last)
                    if last.end_byte == start_byte
                        && last.name == name
                        && (last.start_tick, last.end_tick) == (from, until) =>
                {
                    last.end_byte = end;
                }
                _ => blocks.push(MemoryBlock {
                    name,
                    start_byte,
                    end_byte: end,
                    start_tick: from,
                    end_tick: until,
                }),
            }
        }
        blocks.truncate(MOST_BLOCKS);
        blocks
    }
}

#[cfg(test)]
mod tests {
    use tilewright_tcp_isa::footprint::ByteSet;

    use super::*;

    fn access(start: u64, end: u64) -> MemoryAccess {
        let bytes = Arc::new(ByteSet::range(start, end));
        MemoryAccess { memory: MemoryKind::Dm, chip: 0, slices: (0, 1), write: true, lanes: 0, bytes }
    }

    #[test]
    fn bytes_are_owned_until_they_are_read_last_or_written_again() {
        let mut owned = OwnedBytes::default();
        owned.touch(&access(0, 100), "x", true, (0, 0));
        owned.touch(&access(0, 50), "x", false, (5, 10));
        owned.touch(&access(40, 60), "y", true, (20, 30));
        owned.touch(&access(50, 60), "y", false, (40, 45));
        let blocks = owned.blocks();
        let found: Vec<(&str, [u64; 4])> = blocks
            .iter()
            .map(|one| (one.name.as_str(), [one.start_byte, one.end_byte, one.start_tick, one.end_tick]))
            .collect();
        let expected =
            [("x", [50, 100, 0, 0]), ("x", [0, 50, 0, 10]), ("y", [40, 50, 20, 30]), ("y", [50, 60, 20, 45])];
        assert_eq!(found, expected);
    }
}
