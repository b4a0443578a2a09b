//! Address translation: with any grant, a PE touches its own memories and what it is granted, nothing else
//! (paper section III-D).

use std::collections::BTreeSet;
use tilewright_base::invariant::Exact;

use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;

use super::context::refusal;
use super::queue;
use crate::capped::Capped;
use crate::footprint::{ByteSet, Footprint, MemoryAccess, MemoryKind, of_exec, of_transfer, tensor};
use crate::program::event::PeId;
use crate::program::grant::Grant;
use crate::program::transfer::{Address, MemoryInstance, MemoryLocation};
use crate::program::{Program, Queue};

pub(super) fn check(machine: &Tcp, program: &Program, found: &mut Vec<Diagnostic>) {
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let objects: Vec<MemoryAccess> =
        program.tensors.iter().filter_map(|held| tensor::whole(machine, held)).collect();
    for held in &program.queues {
        let space = AddressSpace::new(machine, program, held);
        let (mut execs, mut transfers) = (BTreeSet::new(), BTreeSet::new());
        queue::used(&held.steps, 0, &mut execs, &mut transfers);
        let pe = PeId { chip: held.chip, pe: held.pe };
        for exec in execs.iter().filter_map(|id| program.execs.get(id.0 as usize)) {
            let footprint = of_exec(machine, &exec.resolved(&most), pe, &objects);
            space.check(&footprint, &exec.name, exec.span, found);
        }
        for transfer in transfers.iter().filter_map(|id| program.transfers.get(*id as usize)) {
            let footprint = of_transfer(machine, &transfer.resolved(&most), &objects);
            space.check(&footprint, &transfer.name, transfer.span, found);
        }
    }
}

/// What one PE may touch.
struct AddressSpace<'a> {
    machine: &'a Tcp,
    pe: PeId,
    /// Addresses that may be read, and those that may be written too.
    allowed: [ByteSet; 2],
}

impl AddressSpace<'_> {
    fn new<'a>(machine: &'a Tcp, program: &Program, queue: &Queue) -> AddressSpace<'a> {
        let pe = PeId { chip: queue.chip, pe: queue.pe };
        let mine = |grant: &&Grant| grant.chip == pe.chip && grant.pes.0 <= pe.pe && pe.pe < grant.pes.1;
        let own = own_memories(machine, pe);
        let granted = |write: bool| {
            let grants = program.grants.iter().filter(mine).filter(|grant| grant.write || !write);
            let runs = grants.map(|grant| (grant.first.0, grant.first.0.capped_add(grant.bytes)));
            ByteSet::from_runs(runs.chain(own.iter().copied()).collect())
        };
        AddressSpace { machine, pe, allowed: [granted(false), granted(true)] }
    }

    fn check(&self, footprint: &Footprint, name: &str, span: Span, found: &mut Vec<Diagnostic>) {
        let refused = footprint.accesses.iter().find(|access| !self.allows(access));
        let Some(access) = refused else { return };
        let does = if access.write { "write" } else { "read" };
        found.push(refusal(
            "tcp/grant",
            span,
            format!(
                "`{name}`: chip {} pe {} may not {does} all that it touches of {} of chip {}",
                self.pe.chip,
                self.pe.pe,
                access.memory.name(),
                access.chip
            ),
            "its own data memory and scratchpad, and what it is granted".into(),
            "a grant for the range",
        ));
    }

    fn allows(&self, access: &MemoryAccess) -> bool {
        let allowed = &self.allowed[usize::from(access.write)];
        let medium = |slice: u64| match access.memory {
            MemoryKind::Hbm => MemoryInstance::Hbm,
            MemoryKind::Spm => MemoryInstance::Spm { pe: slice },
            MemoryKind::Dm | MemoryKind::Trf | MemoryKind::Vrf => MemoryInstance::Dm { slice },
        };
        (access.slices.0..access.slices.1).all(|slice| {
            let at =
                |offset| Address::new(MemoryLocation { chip: access.chip, medium: medium(slice), offset }).0;
            if matches!(access.memory, MemoryKind::Trf | MemoryKind::Vrf) {
                // Register files have no addresses: who may write the slice's data memory may use them.
                let whole = (at(0), at(self.machine.dm.capacity_bytes));
                return ByteSet::range(whole.0, whole.1).is_within(&self.allowed[1]);
            }
            let runs = access.bytes.runs().iter().map(|(start, end)| (at(*start), at(*end)));
            ByteSet::from_runs(runs.collect()).is_within(allowed)
        })
    }
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
