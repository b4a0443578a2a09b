//! What commands touch, worked out once for each image, PE and values of the registers that it names; and
//! whether two of them meet.

use std::collections::{BTreeMap, BTreeSet};
use tilewright_base::invariant::OrBroken;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{
    Footprint, MemoryAccess, MemoryKind, OutOfBounds, of_exec, of_read, of_transfer, tensor,
};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Count, ExecId, Program, TransferId};

/// Index of a known footprint.
pub(super) type TouchId = u32;

/// A part of memory in which commands are compared: the memories of a PE, or a chip's HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemoryRegion {
    Pe(u64, u64),
    Hbm(u64),
}

/// What one command touches.
#[derive(Debug)]
pub(super) struct CommandAccess {
    pub(super) name: String,
    pub(super) accesses: Vec<MemoryAccess>,
    pub(super) outside: Vec<OutOfBounds>,
    pub(super) transfer: Option<TransferId>,
    /// Regions, and whether it writes there.
    pub(super) regions: BTreeMap<MemoryRegion, bool>,
}

/// Execution or transfer, which, on which PE, with which values of the registers that it names.
type AccessKey = (bool, u32, PeId, Vec<i64>);

/// All that is known.
pub(super) struct AccessCache<'m> {
    machine: &'m Tcp,
    program: &'m Program,
    objects: Vec<MemoryAccess>,
    named: BTreeMap<(bool, u32), Vec<u32>>,
    known: BTreeMap<AccessKey, TouchId>,
    all: Vec<CommandAccess>,
    meets: BTreeMap<(TouchId, TouchId), Option<AccessConflict>>,
}

/// Where two commands meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessConflict {
    pub(super) memory: MemoryKind,
    pub(super) slice: u64,
    pub(super) bytes: (u64, u64),
}

impl<'m> AccessCache<'m> {
    pub(super) fn new(machine: &'m Tcp, program: &'m Program) -> AccessCache<'m> {
        let objects = program.tensors.iter().filter_map(|held| tensor::whole(machine, held)).collect();
        AccessCache {
            machine,
            program,
            objects,
            named: BTreeMap::new(),
            known: BTreeMap::new(),
            all: Vec::new(),
            meets: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, id: TouchId) -> Option<&CommandAccess> {
        self.all.get(id as usize)
    }

    pub(super) fn exec(&mut self, id: ExecId, pe: PeId, registers: &[i64]) -> Option<TouchId> {
        let exec = self.program.execs.get(id.0 as usize)?;
        let named = self.named.entry((false, id.0)).or_insert_with(|| {
            let mut names = BTreeSet::new();
            exec.clone().each_count(&mut |count| names.extend(register(*count)));
            names.into_iter().collect()
        });
        let key = (false, id.0, pe, values(named, registers));
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let footprint = of_exec(self.machine, &exec.resolved(registers), pe, &self.objects);
        let found = self.add(exec.name.clone(), footprint, None);
        self.known.insert(key, found);
        Some(found)
    }

    pub(super) fn transfer(&mut self, id: TransferId, registers: &[i64]) -> Option<TouchId> {
        let transfer = self.program.transfers.get(id.0 as usize)?;
        let named = self.named.entry((true, id.0)).or_insert_with(|| {
            transfer
                .loops
                .iter()
                .filter_map(|row| register(row.size))
                .collect::<BTreeSet<u32>>()
                .into_iter()
                .collect()
        });
        let key = (true, id.0, PeId { chip: 0, pe: 0 }, values(named, registers));
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let footprint = of_transfer(self.machine, &transfer.resolved(registers), &self.objects);
        let found = self.add(transfer.name.clone(), footprint, Some(id));
        self.known.insert(key, found);
        Some(found)
    }

    /// A core's read.
    pub(super) fn read(&mut self, address: Address, bytes: u64) -> TouchId {
        let footprint = of_read(self.machine, address, bytes);
        self.add("read".to_string(), footprint, None)
    }

    fn add(&mut self, name: String, footprint: Footprint, transfer: Option<TransferId>) -> TouchId {
        let accesses = merged(footprint.accesses);
        let mut regions = BTreeMap::new();
        for access in &accesses {
            for region in regions_of(self.machine, access) {
                *regions.entry(region).or_insert(false) |= access.write;
            }
        }
        let id = u32::try_from(self.all.len()).or_broken("commands of a case fit 32 bits");
        self.all.push(CommandAccess { name, accesses, outside: footprint.outside, transfer, regions });
        id
    }

    /// Where two commands touch the same bytes and one writes.
    pub(super) fn meeting(&mut self, first: TouchId, second: TouchId) -> Option<AccessConflict> {
        let key = (first.min(second), first.max(second));
        if let Some(known) = self.meets.get(&key) {
            return *known;
        }
        let found = match (self.get(first), self.get(second)) {
            (Some(one), Some(other)) => meeting(one, other),
            _ => None,
        };
        self.meets.insert(key, found);
        found
    }
}

fn register(count: Count) -> Option<u32> {
    match count {
        Count::Register(id) => Some(id.0),
        Count::Fixed(_) => None,
    }
}

fn values(named: &[u32], registers: &[i64]) -> Vec<i64> {
    named
        .iter()
        .map(|id| registers.get(*id as usize).copied().or_broken("a command names registers of its program"))
        .collect()
}

/// Neighbouring slices with the same bytes are one access.
fn merged(accesses: Vec<MemoryAccess>) -> Vec<MemoryAccess> {
    let mut all: Vec<MemoryAccess> = Vec::new();
    for access in accesses {
        match all.last_mut() {
            Some(last)
                if (last.memory, last.chip, last.write, last.lanes)
                    == (access.memory, access.chip, access.write, access.lanes)
                    && last.slices.1 == access.slices.0
                    && last.bytes == access.bytes =>
            {
                last.slices.1 = access.slices.1;
            }
            _ => all.push(access),
        }
    }
    all
}

fn regions_of(machine: &Tcp, access: &MemoryAccess) -> impl Iterator<Item = MemoryRegion> + use<> {
    let (chip, memory) = (access.chip, access.memory);
    let per_pe = if memory == MemoryKind::Spm { 1 } else { machine.pe.slices.max(1) };
    let (first, end) = (access.slices.0 / per_pe, access.slices.1.div_ceil(per_pe));
    (first..end).map(move |pe| {
        if memory == MemoryKind::Hbm { MemoryRegion::Hbm(chip) } else { MemoryRegion::Pe(chip, pe) }
    })
}

fn meeting(one: &CommandAccess, other: &CommandAccess) -> Option<AccessConflict> {
    for a in &one.accesses {
        for b in other.accesses.iter().filter(|b| (a.write || b.write) && a.meets(b)) {
            let (Some(own), Some(its)) = (a.bytes.bounds(), b.bytes.bounds()) else { continue };
            if own.0 >= its.1 || its.0 >= own.1 {
                continue;
            }
            if let Some(bytes) = a.bytes.overlap(&b.bytes) {
                return Some(AccessConflict { memory: a.memory, slice: a.slices.0.max(b.slices.0), bytes });
            }
        }
    }
    None
}
