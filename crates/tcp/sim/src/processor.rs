//! The command processor of a PE: takes entries in order, starts work, and holds where an entry has to wait
//! (paper section V-A).
//!
//! An id names one command until that is done, so a command whose id is still in use holds the queue; at most
//! 256 transfers wait for an engine. A wait takes the time of one look at least. Loads are part of the
//! overhead of their execution.

use tilewright_base::invariant::Exact;
use tilewright_record::Sink;
use tilewright_tcp_isa::program::event::{CommandImage, ExecUnit, RunEvent};

use crate::SimError;
use crate::events::EventKind;
use crate::outcome::WaitReason;
use crate::plan::context_index;
use crate::state::{CommandIdState, IssuedTransfer, QueuedCommand, World, small};

/// What became of the entry at the front.
enum DequeueResult {
    /// It left the queue.
    Yes,
    /// It stays until something ends, or until the processor has looked.
    No,
}

impl<S: Sink> World<'_, '_, S> {
    /// Takes entries until one has to wait.
    pub(crate) fn pump(&mut self, pe: usize) -> Result<(), SimError> {
        let full = self.pes[pe].queue.len();
        loop {
            let state = &mut self.pes[pe];
            state.held = false;
            if self.now < state.processor_at || self.stopped {
                break;
            }
            let Some(entry) = state.queue.front() else { break };
            let (order, received, span) = (entry.order.clone(), entry.received, entry.span);
            let taken = match order {
                QueuedCommand::Load(plan) => {
                    let context = plan.context();
                    state.loaded[context] = Some(plan);
                    DequeueResult::Yes
                }
                QueuedCommand::Dma(..) if self.named(pe, &order).busy => DequeueResult::No,
                QueuedCommand::Dma(plan, id) => {
                    let (ticket, owner) = (self.ticket(), self.pes[pe].id);
                    self.tell(&RunEvent::Issue {
                        ticket,
                        pe: owner,
                        unit: ExecUnit::Dma,
                        id,
                        image: CommandImage::Transfer(&plan.transfer),
                        received,
                        span,
                        at_cycles: self.now,
                    });
                    let state = &mut self.pes[pe];
                    state.transfers[usize::from(id)].start(ticket);
                    state.outstanding += 1;
                    let waits = std::mem::take(&mut state.waits);
                    state.fifo.push_back(IssuedTransfer { plan, ticket, id, started: 0, waits, power: 0 });
                    self.start_transfer(pe)?;
                    DequeueResult::Yes
                }
                QueuedCommand::Exec(..) if self.named(pe, &order).busy => DequeueResult::No,
                QueuedCommand::Exec(context, id) => {
                    if self.start_exec(pe, context_index(context), id, (received, span))? {
                        DequeueResult::Yes
                    } else {
                        DequeueResult::No
                    }
                }
                QueuedCommand::WaitD(_) | QueuedCommand::WaitE(_) => self.wait(pe, &order)?,
            };
            if matches!(taken, DequeueResult::No) {
                self.pes[pe].held = true;
                break;
            }
            self.pes[pe].queue.pop_front();
            self.sums.commands += 1;
        }
        let left = self.pes[pe].queue.len();
        if left < full {
            self.trace.queue(pe, self.now, left)?;
            self.wake_core(pe, WaitReason::Room);
            self.wake_if_idle(pe);
        }
        Ok(())
    }

    /// The command that an order's id names.
    fn named(&self, pe: usize, order: &QueuedCommand) -> CommandIdState {
        match order {
            QueuedCommand::Dma(_, id) | QueuedCommand::WaitD(id) => self.pes[pe].transfers[usize::from(*id)],
            QueuedCommand::Exec(_, id) | QueuedCommand::WaitE(id) => self.pes[pe].execs[usize::from(*id)],
            QueuedCommand::Load(_) => CommandIdState::default(),
        }
    }

    /// Looks once, then waits until the command is done.
    fn wait(&mut self, pe: usize, order: &QueuedCommand) -> Result<DequeueResult, SimError> {
        if !self.pes[pe].polled {
            let cycles = self.machine.queue.wait_cycles;
            self.latency(cycles);
            self.pes[pe].polled = true;
            self.pes[pe].processor_at = self.after(cycles)?;
            if cycles > 0 {
                self.events.plan(self.pes[pe].processor_at, EventKind::Processor(small(pe)));
                return Ok(DequeueResult::No);
            }
        }
        let named = self.named(pe, order);
        if named.busy {
            return Ok(DequeueResult::No);
        }
        self.pes[pe].polled = false;
        if let Some(ticket) = named.ticket {
            let id = self.pes[pe].id;
            let waits = &mut self.pes[pe].waits;
            if waits.len() < 8 {
                waits.push(ticket);
            }
            self.tell(&RunEvent::Waited { pe: id, ticket });
        }
        Ok(DequeueResult::Yes)
    }

    /// A command of this PE's queue is done.
    pub(crate) fn command_done(&mut self, pe: usize) {
        self.pes[pe].outstanding = self.pes[pe].outstanding.exact_sub(1);
        self.wake_if_idle(pe);
    }

    fn wake_if_idle(&mut self, pe: usize) {
        if self.pes[pe].idle() {
            self.wake_core(pe, WaitReason::Sync);
        }
    }

    /// Lets every held queue of a PE's chip try again.
    pub(crate) fn pump_chip(&mut self, pe: usize) -> Result<(), SimError> {
        let first = pe - pe % self.pes_per_chip.max(1);
        for at in first..first + self.pes_per_chip {
            if self.pes[at].held {
                self.pump(at)?;
            }
        }
        Ok(())
    }
}
