//! Address translation: with any grant, a PE touches its own memories and what it is granted, nothing else
//! (paper section III-D).
//!
//! Rows that a table names are checked here as far as they are known, and by the DMA engine when they move.

use std::collections::BTreeSet;

use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;

use super::context::refusal;
use super::queue;
use super::queue_occupancy::MAX_NESTING;
use crate::address_space::AddressSpace;
use crate::footprint::{Footprint, MemoryAccess, MemoryKind, of_exec, of_read, of_transfer, tensor};
use crate::program::control::StepKind;
use crate::program::event::PeId;
use crate::program::transfer::{Address, MemoryInstance, MemoryLocation};
use crate::program::{Program, Step};

pub(super) fn check(machine: &Tcp, program: &Program, found: &mut Vec<Diagnostic>) {
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let objects: Vec<MemoryAccess> =
        program.tensors.iter().filter_map(|held| tensor::whole(machine, held)).collect();
    for held in &program.queues {
        let pe = PeId { chip: held.chip, pe: held.pe };
        let Some(space) = AddressSpace::of(machine, program, pe) else { return };
        let mut check = GrantCheck { machine, space, found };
        let (mut execs, mut transfers) = (BTreeSet::new(), BTreeSet::new());
        queue::used(&held.steps, 0, &mut execs, &mut transfers);
        for exec in execs.iter().filter_map(|id| program.execs.get(id.0 as usize)) {
            let footprint = of_exec(machine, &exec.resolved(&most), pe, &objects);
            check.footprint(&footprint, &exec.name, exec.span);
        }
        for transfer in transfers.iter().filter_map(|id| program.transfers.get(*id as usize)) {
            let footprint = of_transfer(machine, &transfer.resolved(&most), &objects);
            check.footprint(&footprint, &transfer.name, transfer.span);
        }
        check.reads(&held.steps, 0);
    }
}

/// The commands of one queue under examination.
struct GrantCheck<'a> {
    machine: &'a Tcp,
    space: AddressSpace,
    found: &'a mut Vec<Diagnostic>,
}

impl GrantCheck<'_> {
    /// Values that the control core reads.
    fn reads(&mut self, steps: &[Step], depth: usize) {
        if depth > MAX_NESTING {
            return;
        }
        for step in steps {
            match &step.kind {
                StepKind::Read { address, dtype, .. } => {
                    let bytes = u64::from(dtype.storage_bits() / 8);
                    self.footprint(&of_read(self.machine, *address, bytes), "read", step.span);
                }
                StepKind::For { body, .. } | StepKind::While { body, .. } => self.reads(body, depth + 1),
                StepKind::If { then, otherwise, .. } => {
                    self.reads(then, depth + 1);
                    self.reads(otherwise, depth + 1);
                }
                _ => {}
            }
        }
    }

    fn footprint(&mut self, footprint: &Footprint, name: &str, span: Span) {
        let refused = footprint.accesses.iter().find(|access| !self.allows(access));
        let Some(access) = refused else { return };
        let does = if access.write { "write" } else { "read" };
        let PeId { chip, pe } = self.space.pe();
        self.found.push(refusal(
            "tcp/grant",
            span,
            format!(
                "`{name}`: chip {chip} pe {pe} may not {does} all that it touches of {} of chip {}",
                access.memory.name(),
                access.chip
            ),
            "its own data memory and scratchpad, and what it is granted".into(),
            "a grant for the range",
        ));
    }

    fn allows(&self, access: &MemoryAccess) -> bool {
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
                return self.space.allows((at(0), at(self.machine.dm.capacity_bytes)), true);
            }
            let mut runs = access.bytes.runs().iter().map(|(start, end)| (at(*start), at(*end)));
            runs.all(|run| self.space.allows(run, access.write))
        })
    }
}
