//! Values of a run: each command is carried out on the memories when it is done.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_exec::MemoryState;
use tilewright_tcp_isa::address_space::AddressSpace;
use tilewright_tcp_isa::program::event::{CommandImage, ExecUnit, PeId, RunEvent, Ticket};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Exec, Program, Transfer};
use tilewright_tcp_sim::findings::{FaultKind, Finding, FindingCommand};

use super::CommandObserver;

/// A command that is done, and who issued it where.
pub(super) struct FinishedCommand {
    pub(super) ticket: Ticket,
    pe: PeId,
    unit: ExecUnit,
    span: Span,
    image: IssuedImage,
    at_cycles: u64,
}

/// What a command does, kept while it is under way.
enum IssuedImage {
    Exec(Arc<Exec>),
    Transfer(Arc<Transfer>),
}

/// Commands between their issue and their end.
#[derive(Default)]
pub(super) struct InFlight(BTreeMap<Ticket, FinishedCommand>);

impl InFlight {
    /// The command that an event ends.
    pub(super) fn observe(&mut self, event: &RunEvent<'_>) -> Option<FinishedCommand> {
        match event {
            RunEvent::Issue { ticket, pe, unit, image, span, at_cycles, .. } => {
                let image = match image {
                    CommandImage::Exec(exec) => IssuedImage::Exec(Arc::clone(exec)),
                    CommandImage::Transfer(transfer) => IssuedImage::Transfer(Arc::clone(transfer)),
                };
                let (ticket, pe, unit, span, at_cycles) = (*ticket, *pe, *unit, *span, *at_cycles);
                self.0.insert(ticket, FinishedCommand { ticket, pe, unit, span, image, at_cycles });
                None
            }
            RunEvent::Done { ticket, at_cycles } => {
                let command = self.0.remove(ticket)?;
                Some(FinishedCommand { at_cycles: *at_cycles, ..command })
            }
            _ => None,
        }
    }
}

/// The memories, and the command that could not be carried out.
pub(super) struct ValueExecutor<'a> {
    machine: &'a Tcp,
    state: &'a mut MemoryState,
    /// What each PE may touch; none for a program whose PEs share everything.
    spaces: BTreeMap<PeId, AddressSpace>,
    pub(super) fault: Option<(Ticket, Finding)>,
}

impl<'a> ValueExecutor<'a> {
    pub(super) fn new(machine: &'a Tcp, program: &Program, state: &'a mut MemoryState) -> ValueExecutor<'a> {
        let pes = program.queues.iter().map(|queue| PeId { chip: queue.chip, pe: queue.pe });
        let spaces = pes.filter_map(|pe| Some((pe, AddressSpace::of(machine, program, pe)?))).collect();
        ValueExecutor { machine, state, spaces, fault: None }
    }
}

impl CommandObserver for ValueExecutor<'_> {
    /// Carries a command out; breaks if that cannot be done.
    fn take(&mut self, command: FinishedCommand) -> ControlFlow<()> {
        let (name, done) = match &command.image {
            IssuedImage::Exec(exec) => {
                (&exec.name, tilewright_tcp_exec::exec(self.machine, self.state, command.pe, exec))
            }
            IssuedImage::Transfer(transfer) => {
                let space = self.spaces.get(&command.pe);
                let done = tilewright_tcp_exec::transfer_within(self.machine, self.state, transfer, space);
                (&transfer.name, done)
            }
        };
        let Err(fault) = done else { return ControlFlow::Continue(()) };
        let party = FindingCommand::new(name, command.pe, command.unit.name(), command.ticket, command.span);
        let kind = match &fault {
            fault if fault.is_out_of_bounds() => FaultKind::OutOfBounds,
            fault if fault.is_not_granted() => FaultKind::NotGranted,
            fault if fault.is_self_overlap() => FaultKind::SelfOverlap,
            _ => FaultKind::Registers,
        };
        let finding = Finding::fault(party, kind, fault.to_string(), command.at_cycles);
        self.fault = Some((command.ticket, finding));
        ControlFlow::Break(())
    }

    fn read(&self, address: Address, dtype: Dtype) -> Option<i64> {
        let mut bytes = vec![0; dtype.size_bytes(1)];
        self.state.read(address, &mut bytes).ok()?;
        Some(tilewright_num::int_value(dtype, tilewright_num::load(dtype, &bytes, 0)))
    }
}
