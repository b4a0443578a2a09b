//! What commands touch, worked out once for each image, PE and values of the registers that it names; and
//! whether two of them meet.
//!
//! Blocks of a model repeat: their commands touch the same bytes of the memories of PEs, and other bytes of
//! HBM. What is touched of PEs is therefore kept once for all commands that touch the same ([`PeAccess`]),
//! and whether two such meet is found once.

use std::collections::{BTreeMap, BTreeSet};
use tilewright_base::invariant::{OrBroken, to_index};

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{
    Footprint, MemoryAccess, MemoryKind, OutOfBounds, of_exec, of_read, of_transfer, tensor,
};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::ExecBody;
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

impl MemoryRegion {
    /// One of the memories that it is a part of.
    pub(super) fn memory(self) -> MemoryKind {
        match self {
            MemoryRegion::Pe(..) => MemoryKind::Dm,
            MemoryRegion::Hbm(_) => MemoryKind::Hbm,
        }
    }
}

/// Index of what is touched of the memories of PEs; equal if the same bytes are touched in the same way.
pub(super) type PeAccessId = u32;

/// What commands touch of the memories of PEs.
#[derive(Debug)]
struct PeAccess {
    accesses: Vec<MemoryAccess>,
    /// Regions, and whether they are written.
    regions: Vec<(MemoryRegion, bool)>,
}

/// What one command touches.
#[derive(Debug)]
pub(super) struct CommandAccess {
    pub(super) name: String,
    /// Of the memories of PEs.
    pub(super) of_pes: PeAccessId,
    /// Of HBM.
    pub(super) hbm: Vec<MemoryAccess>,
    pub(super) outside: Vec<OutOfBounds>,
    pub(super) transfer: Option<TransferId>,
    pub(super) exec: Option<ExecId>,
    /// It writes one word everywhere: some of it may be for nobody.
    pub(super) fills: bool,
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
    of_pes: Vec<PeAccess>,
    /// Which have a digest: what is the same has the same.
    by_digest: BTreeMap<u64, Vec<PeAccessId>>,
    meets: PairMemo,
}

/// Pairs that were found apart most lately: a pair forgets another whose place in the table is the same.
struct PairMemo(Vec<u64>);

/// Places for pairs that are remembered, a power of two.
const REMEMBERED_PAIRS: usize = 1 << 17;

impl PairMemo {
    /// A number for a pair, which no other has, and its place.
    fn key(first: PeAccessId, second: PeAccessId) -> (u64, usize) {
        let key = (u64::from(first) << 32 | u64::from(second)).wrapping_add(1);
        (key, to_index(digested(0, key) >> 32) % REMEMBERED_PAIRS)
    }

    fn are_apart(&self, first: PeAccessId, second: PeAccessId) -> bool {
        let (key, place) = Self::key(first, second);
        self.0.get(place) == Some(&key)
    }

    fn put_apart(&mut self, first: PeAccessId, second: PeAccessId) {
        let (key, place) = Self::key(first, second);
        self.0.get_mut(place).into_iter().for_each(|known| *known = key);
    }
}

/// A digest with a further number in it.
pub(super) fn digested(digest: u64, number: u64) -> u64 {
    (digest ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// A digest of accesses.
fn digest(accesses: &[MemoryAccess]) -> u64 {
    accesses.iter().fold(accesses.len() as u64, |mut all, access| {
        let kind = 2 * access.memory as u64 + u64::from(access.write);
        for number in [kind, access.chip, access.slices.0, access.slices.1] {
            all = digested(all, number);
        }
        access.bytes.runs().iter().fold(all, |all, (from, to)| digested(digested(all, *from), *to))
    })
}

/// Where two commands meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessConflict {
    pub(super) memory: MemoryKind,
    pub(super) slice: u64,
    pub(super) bytes: (u64, u64),
}

impl<'m> AccessCache<'m> {
    /// Of a program, with values whose rows its commands find by a table.
    pub(super) fn new(machine: &'m Tcp, program: &'m Program, indexed: &[MemoryAccess]) -> AccessCache<'m> {
        let tensors = program.tensors.iter().filter_map(|held| tensor::whole(machine, held));
        let objects = indexed.iter().cloned().chain(tensors).collect();
        AccessCache {
            machine,
            program,
            objects,
            named: BTreeMap::new(),
            known: BTreeMap::new(),
            all: Vec::new(),
            of_pes: Vec::new(),
            by_digest: BTreeMap::new(),
            meets: PairMemo(vec![0; REMEMBERED_PAIRS]),
        }
    }

    /// Accesses of the memories of PEs.
    pub(super) fn in_pes(&self, id: PeAccessId) -> &[MemoryAccess] {
        self.of_pes.get(id as usize).map_or(&[], |known| known.accesses.as_slice())
    }

    /// How many different accesses of the memories of PEs there are.
    pub(super) fn count_in_pes(&self) -> PeAccessId {
        u32::try_from(self.of_pes.len()).or_broken("commands of a case fit 32 bits")
    }

    fn pe_access(&self, touch: &CommandAccess) -> &PeAccess {
        self.of_pes.get(touch.of_pes as usize).or_broken("what a command touches is known")
    }

    /// All that a command touches.
    pub(super) fn accesses<'t>(
        &'t self,
        touch: &'t CommandAccess,
    ) -> impl Iterator<Item = &'t MemoryAccess> + Clone {
        self.pe_access(touch).accesses.iter().chain(&touch.hbm)
    }

    /// Regions that a command touches, and whether it writes there.
    pub(super) fn regions(&self, touch: &CommandAccess) -> impl Iterator<Item = (MemoryRegion, bool)> {
        let hbm = touch.hbm.iter().enumerate().filter(|(at, access)| {
            let before = touch.hbm.get(..*at).unwrap_or_default();
            before.iter().all(|other| other.chip != access.chip)
        });
        let hbm = hbm.map(|(_, access)| {
            let written = touch.hbm.iter().any(|other| other.chip == access.chip && other.write);
            (MemoryRegion::Hbm(access.chip), written)
        });
        self.pe_access(touch).regions.iter().copied().chain(hbm)
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
        let found = self.add(exec.name.clone(), footprint, (None, Some(id)));
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
        let found = self.add(transfer.name.clone(), footprint, (Some(id), None));
        self.known.insert(key, found);
        Some(found)
    }

    /// A core's read.
    pub(super) fn read(&mut self, address: Address, bytes: u64) -> TouchId {
        let footprint = of_read(self.machine, address, bytes);
        self.add("read".to_string(), footprint, (None, None))
    }

    fn add(
        &mut self,
        name: String,
        footprint: Footprint,
        (transfer, exec): (Option<TransferId>, Option<ExecId>),
    ) -> TouchId {
        let (hbm, of_pes) =
            merged(footprint.accesses).into_iter().partition(|access| access.memory == MemoryKind::Hbm);
        let of_pes = self.of_pes(of_pes);
        let id = u32::try_from(self.all.len()).or_broken("commands of a case fit 32 bits");
        let image = exec.and_then(|id| self.program.execs.get(id.0 as usize));
        let fills = image.is_some_and(|image| matches!(image.body, ExecBody::Fill(_)));
        let outside = footprint.outside;
        self.all.push(CommandAccess { name, of_pes, hbm, outside, transfer, exec, fills });
        id
    }

    /// The id of accesses of the memories of PEs.
    pub(super) fn of_pes(&mut self, accesses: Vec<MemoryAccess>) -> PeAccessId {
        let same = self.by_digest.entry(digest(&accesses)).or_default();
        let is_known =
            |id: &&PeAccessId| self.of_pes.get(**id as usize).is_some_and(|known| known.accesses == accesses);
        if let Some(known) = same.iter().find(is_known) {
            return *known;
        }
        let mut regions = BTreeMap::new();
        for access in &accesses {
            for region in regions_of(self.machine, access) {
                *regions.entry(region).or_insert(false) |= access.write;
            }
        }
        let id = u32::try_from(self.of_pes.len()).or_broken("commands of a case fit 32 bits");
        same.push(id);
        self.of_pes.push(PeAccess { accesses, regions: regions.into_iter().collect() });
        id
    }

    /// Where two commands touch the same bytes and one writes: in HBM, or in the memories of PEs, by a region
    /// that both touch.
    pub(super) fn meeting(
        &mut self,
        first: TouchId,
        second: TouchId,
        region: MemoryRegion,
    ) -> Option<AccessConflict> {
        let (one, other) = (self.get(first)?, self.get(second)?);
        if region.memory() == MemoryKind::Hbm {
            return meeting(&one.hbm, &other.hbm);
        }
        let (low, high) = (one.of_pes.min(other.of_pes), one.of_pes.max(other.of_pes));
        if self.meets.are_apart(low, high) {
            return None;
        }
        let found = meeting(&self.pe_access(one).accesses, &self.pe_access(other).accesses);
        if found.is_none() {
            self.meets.put_apart(low, high);
        }
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

fn meeting(one: &[MemoryAccess], other: &[MemoryAccess]) -> Option<AccessConflict> {
    for a in one {
        for b in other.iter().filter(|b| (a.write || b.write) && a.meets(b)) {
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
