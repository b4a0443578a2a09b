//! What the address translation of a PE lets through (paper section III-D): its own memories and what it is
//! granted.
//!
//! The verifier asks for footprints that are known before a run, the DMA engine for every packet when it
//! moves: where a table leads is known only then.

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;

use crate::capped::Capped;
use crate::program::Program;
use crate::program::event::PeId;
use crate::program::grant::Grant;
use crate::program::transfer::{Address, MemoryInstance, MemoryLocation};

/// Addresses that one PE may touch, as sorted runs that do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSpace {
    pe: PeId,
    slices_per_pe: u64,
    readable: Vec<(u64, u64)>,
    writable: Vec<(u64, u64)>,
    grants: Vec<Grant>,
}

impl AddressSpace {
    /// The space of a PE; `None` for a program without grants, whose PEs share everything.
    pub fn of(machine: &Tcp, program: &Program, pe: PeId) -> Option<AddressSpace> {
        if program.grants.is_empty() {
            return None;
        }
        let own = own_memories(machine, pe);
        let granted = |write: bool| {
            let grants = program.grants.iter().filter(|grant| is_for(grant, pe) && (grant.write || !write));
            let runs = grants.map(|grant| (grant.first.0, grant.first.0.capped_add(grant.bytes)));
            merged(runs.chain(own.iter().copied()).collect())
        };
        Some(AddressSpace {
            pe,
            slices_per_pe: machine.pe.slices.max(1),
            readable: granted(false),
            writable: granted(true),
            grants: program.grants.clone(),
        })
    }

    /// Whose space it is.
    pub fn pe(&self) -> PeId {
        self.pe
    }

    /// Whether all bytes from `first` to before `end` may be touched.
    pub fn allows(&self, (first, end): (u64, u64), write: bool) -> bool {
        self.first_denied((first, end), write).is_none()
    }

    /// The first of the bytes from `first` to before `end` that may not be touched.
    pub fn first_denied(&self, (first, end): (u64, u64), write: bool) -> Option<Address> {
        if first >= end {
            return None;
        }
        let runs = if write { &self.writable } else { &self.readable };
        let before = runs.partition_point(|run| run.0 <= first);
        let reached = before.checked_sub(1).and_then(|at| runs.get(at)).map_or(first, |run| run.1.max(first));
        (reached < end).then_some(Address(reached))
    }

    /// Whose an address is: the PE whose memory it lies in, or those that it is granted to.
    pub fn owner(&self, address: Address) -> String {
        let pe_of = |chip: u64, pe: u64| format!("of chip {chip} pe {pe}");
        match address.locate().map(|at| (at.chip, at.medium)) {
            Some((chip, MemoryInstance::Dm { slice })) => pe_of(chip, slice / self.slices_per_pe),
            Some((chip, MemoryInstance::Spm { pe })) => pe_of(chip, pe),
            Some((_, MemoryInstance::Hbm)) | None => self.holders(address),
        }
    }

    fn holders(&self, address: Address) -> String {
        let holds =
            |grant: &&Grant| grant.first <= address && address.0 < grant.first.0.capped_add(grant.bytes);
        let mut found: Vec<String> = self.grants.iter().filter(holds).map(described).collect();
        found.dedup();
        if found.is_empty() { "granted to nobody".to_owned() } else { found.join(", ") }
    }
}

fn described(grant: &Grant) -> String {
    let (first, end) = grant.pes;
    let how = if grant.write { "granted" } else { "granted for reading" };
    match end.saturating_sub(first) {
        1 => format!("{how} to chip {} pe {first}", grant.chip),
        _ => format!("{how} to chip {} pes {first} to {}", grant.chip, end.saturating_sub(1)),
    }
}

fn is_for(grant: &Grant, pe: PeId) -> bool {
    grant.chip == pe.chip && grant.pes.0 <= pe.pe && pe.pe < grant.pes.1
}

/// Sorted runs that neither meet nor touch.
fn merged(mut runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
    for (start, end) in runs {
        match all.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

/// Data memories and scratchpad of a PE, as addresses.
fn own_memories(machine: &Tcp, pe: PeId) -> Vec<(u64, u64)> {
    let range = |medium, bytes| {
        let start = Address::new(MemoryLocation { chip: pe.chip, medium, offset: 0 }).0;
        (start, start.exact_add(bytes))
    };
    let first = pe.pe.exact_mul(machine.pe.slices);
    let slices = first..first.exact_add(machine.pe.slices);
    let slices = slices.map(|slice| range(MemoryInstance::Dm { slice }, machine.dm.capacity_bytes));
    slices.chain([range(MemoryInstance::Spm { pe: pe.pe }, machine.cpu.spm_bytes)]).collect()
}
