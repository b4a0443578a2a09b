//! What a run keeps: the chips, their PEs, what is under way, and sums.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use smallvec::SmallVec;
use tilewright_base::Span;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;
use tilewright_tcp_cost::energy::EnergyCounts;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::{PeId, RunEvent, Ticket};
use tilewright_tcp_isa::program::exec::Context;

use crate::bandwidth::BandwidthSharing;
use crate::core::ControlCore;
use crate::events::EventQueue;
use crate::image_use::ImageUses;
use crate::ledger::Ledger;
use crate::outcome::{EngineUnit, QueueOverflow, SimOptions};
use crate::plan::{ExecPlan, PlanCache, TransferPlan};
use crate::touched::TouchedMemory;
use crate::trace::RunTrace;
use crate::{Observer, SimError};

/// Cycles that a run may last, and a command, so that sums of a few of them can be counted.
pub(crate) const MOST_CYCLES: u64 = 1 << 62;

/// Tickets that a command waited for.
pub(crate) type WaitTickets = SmallVec<[Ticket; 2]>;

/// An entry of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) order: QueuedCommand,
    /// Messages that the core had taken when it pushed this.
    pub(crate) received: u64,
    pub(crate) span: Span,
}

/// A command with its image costed.
#[derive(Clone, Debug)]
pub(crate) enum QueuedCommand {
    Dma(Arc<TransferPlan>, u8),
    Load(Arc<ExecPlan>),
    Exec(Context, u8),
    WaitD(u8),
    WaitE(u8),
}

/// An execution under way.
#[derive(Debug)]
pub(crate) struct ActiveExec {
    pub(crate) plan: Arc<ExecPlan>,
    pub(crate) ticket: Ticket,
    pub(crate) id: u8,
    pub(crate) started: u64,
    pub(crate) left_q32: u128,
    /// `None` before the first is known.
    pub(crate) speed_q32: Option<u64>,
    pub(crate) updated: u64,
    pub(crate) generation: u32,
    pub(crate) waits: WaitTickets,
    pub(crate) power: u64,
}

/// A transfer, waiting for its engine or under way.
#[derive(Debug)]
pub(crate) struct IssuedTransfer {
    pub(crate) plan: Arc<TransferPlan>,
    pub(crate) ticket: Ticket,
    pub(crate) id: u8,
    pub(crate) started: u64,
    pub(crate) waits: WaitTickets,
    pub(crate) power: u64,
}

/// What an id names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandIdState {
    /// The last command under this id, if there was one.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) busy: bool,
    /// Commands under this id that wait in the queue.
    pub(crate) queued: u32,
}

impl CommandIdState {
    /// A command leaves the queue and runs.
    pub(crate) fn start(&mut self, ticket: Ticket) {
        *self = CommandIdState { ticket: Some(ticket), busy: true, queued: self.queued.exact_sub(1) };
    }
}

/// One PE.
#[derive(Debug)]
pub(crate) struct PeState<'p> {
    pub(crate) id: PeId,
    /// Someone used it.
    pub(crate) used: bool,
    pub(crate) core: ControlCore<'p>,
    pub(crate) queue: VecDeque<QueueEntry>,
    /// The processor looks at a wait until then.
    pub(crate) processor_at: u64,
    pub(crate) polled: bool,
    /// The processor waits for something to end.
    pub(crate) held: bool,
    pub(crate) loaded: [Option<Arc<ExecPlan>>; 2],
    /// Executions that this PE is the first of.
    pub(crate) running: [Option<ActiveExec>; 2],
    /// The first PE of the execution that has each context.
    pub(crate) owner: [Option<u32>; 2],
    pub(crate) bitmap_until: u64,
    /// Accesses in a row for which executions may hold a bank, all together.
    pub(crate) bank_accesses: u64,
    pub(crate) sending: Option<IssuedTransfer>,
    pub(crate) fifo: VecDeque<IssuedTransfer>,
    pub(crate) execs: Box<[CommandIdState; 256]>,
    pub(crate) transfers: Box<[CommandIdState; 256]>,
    /// Commands issued and not done.
    pub(crate) outstanding: u32,
    /// What was waited for since the last command.
    pub(crate) waits: WaitTickets,
    pub(crate) generation: u32,
    pub(crate) touched: TouchedMemory,
    pub(crate) busy: [u64; EngineUnit::ALL.len()],
}

impl<'p> PeState<'p> {
    pub(crate) fn new(id: PeId) -> PeState<'p> {
        PeState {
            id,
            used: false,
            core: ControlCore::default(),
            queue: VecDeque::new(),
            processor_at: 0,
            polled: false,
            held: false,
            loaded: [None, None],
            running: [None, None],
            owner: [None, None],
            bitmap_until: 0,
            bank_accesses: 0,
            sending: None,
            fifo: VecDeque::new(),
            execs: Box::new([CommandIdState::default(); 256]),
            transfers: Box::new([CommandIdState::default(); 256]),
            outstanding: 0,
            waits: WaitTickets::new(),
            generation: 0,
            touched: TouchedMemory::default(),
            busy: [0; EngineUnit::ALL.len()],
        }
    }

    /// Nothing is queued and nothing runs.
    pub(crate) fn idle(&self) -> bool {
        self.queue.is_empty() && self.outstanding == 0
    }
}

/// Sums of a run.
#[derive(Debug, Default)]
pub(crate) struct RunTotals {
    pub(crate) commands: u64,
    pub(crate) execs: u64,
    pub(crate) transfers: u64,
    pub(crate) steps: u64,
    pub(crate) counts: EnergyCounts,
    pub(crate) latency_cycles: u128,
    pub(crate) overflows: Vec<QueueOverflow>,
    pub(crate) lost_commands: u64,
    /// For the checks alone.
    pub(crate) ledger: Ledger,
}

/// A run.
pub(crate) struct World<'p, 'j, S> {
    pub(crate) machine: &'p Tcp,
    pub(crate) program: &'p Program,
    pub(crate) options: SimOptions,
    pub(crate) plans: &'j mut PlanCache,
    pub(crate) pes: Vec<PeState<'p>>,
    pub(crate) pes_per_chip: usize,
    pub(crate) events: EventQueue,
    pub(crate) bandwidth: BandwidthSharing,
    pub(crate) now: u64,
    pub(crate) tickets: u64,
    pub(crate) sums: RunTotals,
    pub(crate) images: ImageUses,
    pub(crate) trace: RunTrace<S>,
    pub(crate) observer: &'j mut dyn Observer,
    pub(crate) stopped: bool,
}

impl<S: Sink> World<'_, '_, S> {
    /// Tells the observer.
    pub(crate) fn tell(&mut self, event: &RunEvent<'_>) {
        if self.observer.observe(event) == ControlFlow::Break(()) {
            self.stopped = true;
        }
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// The index of a PE over all chips.
    pub(crate) fn index(&self, pe: PeId, span: Span) -> Result<usize, SimError> {
        let missing = SimError::NoSuchPe { pe, span };
        let within = usize::try_from(pe.pe).ok().filter(|at| *at < self.pes_per_chip);
        let chip = usize::try_from(pe.chip).ok();
        let index =
            chip.zip(within).and_then(|(chip, at)| chip.checked_mul(self.pes_per_chip)?.checked_add(at));
        index.filter(|index| *index < self.pes.len()).ok_or(missing)
    }

    /// A cycle after now; refuses what cannot be counted.
    pub(crate) fn after(&self, cycles: u64) -> Result<u64, SimError> {
        let at = self.now.checked_add(cycles).filter(|at| *at < MOST_CYCLES);
        at.ok_or(SimError::TooLong)
    }

    /// Adds to the time that cores, queues and doorbells take.
    pub(crate) fn latency(&mut self, cycles: u64) {
        self.sums.latency_cycles += u128::from(cycles);
    }
}

/// An index as events carry it.
pub(crate) fn small(index: usize) -> u32 {
    u32::try_from(index).or_broken("more PEs than a run has room for")
}
