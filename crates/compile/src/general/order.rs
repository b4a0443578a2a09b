//! Commands as far as their order goes (stage 5): which of a PE's commands come behind which.
//!
//! Commands that touch the same bytes keep their order; so do all around a barrier of PEs, but for transfers
//! that bring what nobody writes. Messages between PEs keep their order among each other: what a message
//! tells comes before it, and behind one that is received comes all that may need it.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::{exec_cycles, transfer_cost};
use tilewright_tcp_isa::footprint::{MemoryAccess, of_exec, of_transfer};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Context, Exec};
use tilewright_tcp_isa::program::transfer::Transfer;

use super::moves::hbm_cycles;
use super::signals::Signal;

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Main,
    Sub,
    Dma,
    /// The queue itself.
    Queue,
}

/// What the control core does itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Core {
    /// It gives a command to the queue.
    Push,
    /// All PEs wait for each other.
    Barrier,
    /// Others learn that some commands, or all executions so far, are done.
    Tell { to: Vec<usize>, after: Vec<usize>, execs: bool },
    /// It waits for others.
    Hear { from: Vec<usize> },
    /// Others learn that some transfers, in ascending order, are done.
    Signal { to: Vec<usize>, after: Vec<usize> },
    /// It waits for signals of others.
    Await { from: Vec<usize> },
}

impl Core {
    /// Whether it goes to other PEs, and to which.
    pub(super) fn receivers(&self) -> &[usize] {
        match self {
            Core::Tell { to, .. } | Core::Signal { to, .. } => to,
            _ => &[],
        }
    }

    /// Whether it comes from other PEs, and from which.
    pub(super) fn senders(&self) -> &[usize] {
        match self {
            Core::Hear { from } | Core::Await { from } => from,
            _ => &[],
        }
    }
}

/// A command as far as its place among others goes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) core: Core,
    pub(super) unit: Unit,
    /// How long it takes when nobody else asks HBM.
    pub(super) cycles: u64,
    /// Cycles of HBM, if nobody else asks it for anything.
    pub(super) hbm_cycles: u64,
    accesses: Vec<MemoryAccess>,
    /// Nothing passes it, but for what is free.
    barrier: bool,
    /// It brings what nobody writes, so that it may pass a meeting.
    pub(super) free: bool,
    /// Waits for signals that it comes behind.
    behind: Vec<usize>,
}

impl Job {
    /// A command of the tensor unit; one that stays at a bank keeps its place.
    pub(super) fn exec(machine: &Tcp, pe: u64, exec: &Exec, stays: bool) -> Job {
        let unit = if exec.context == Context::Main { Unit::Main } else { Unit::Sub };
        let accesses = of_exec(machine, exec, PeId { chip: 0, pe }, &[]).accesses;
        let cycles = exec_cycles(machine, exec).total_cycles;
        Job {
            core: Core::Push,
            unit,
            cycles,
            hbm_cycles: 0,
            accesses,
            barrier: stays,
            free: false,
            behind: Vec::new(),
        }
    }

    /// A transfer, as long as it takes when nobody else asks HBM.
    pub(super) fn transfer(machine: &Tcp, transfer: &Transfer, free: bool) -> Job {
        let accesses = of_transfer(machine, transfer, &[]).accesses;
        let cost = transfer_cost(machine, transfer);
        let (cycles, hbm_cycles) = cost.map_or((0, 0), |cost| (cost.cycles.total_cycles, hbm_cycles(&cost)));
        let barrier = transfer.index.is_some();
        Job {
            core: Core::Push,
            unit: Unit::Dma,
            cycles,
            hbm_cycles,
            accesses,
            barrier,
            free,
            behind: Vec::new(),
        }
    }

    /// All PEs wait for each other.
    pub(super) fn meet() -> Job {
        Job::of_core(Core::Barrier, Vec::new())
    }

    /// Others learn that commands of the PE, by number, or all of its executions so far are done.
    pub(super) fn tell(to: &[usize], after: &[usize], execs: bool) -> Job {
        Job::of_core(Core::Tell { to: to.to_vec(), after: after.to_vec(), execs }, Vec::new())
    }

    /// The PE learns that others are done, which have touched some bytes of its own until then.
    pub(super) fn hear(from: &[usize], accesses: Vec<MemoryAccess>) -> Job {
        Job::of_core(Core::Hear { from: from.to_vec() }, accesses)
    }

    /// Others learn that transfers are done.
    pub(super) fn signal(signal: &Signal) -> Job {
        Job::of_core(Core::Signal { to: signal.to.clone(), after: signal.after.clone() }, Vec::new())
    }

    /// The PE waits for signals of others.
    pub(super) fn wait(from: &[usize]) -> Job {
        Job::of_core(Core::Await { from: from.to_vec() }, Vec::new())
    }

    /// The same behind waits for signals.
    #[must_use]
    pub(super) fn behind(self, waits: &[usize]) -> Job {
        Job { behind: waits.to_vec(), ..self }
    }

    fn of_core(core: Core, accesses: Vec<MemoryAccess>) -> Job {
        Job {
            core,
            unit: Unit::Queue,
            cycles: 0,
            hbm_cycles: 0,
            accesses,
            barrier: true,
            free: false,
            behind: Vec::new(),
        }
    }

    /// A command of some cycles that reads or writes a range of bytes of the first slice.
    #[cfg(test)]
    pub(super) fn test(unit: Unit, cycles: u64, (first, end): (u64, u64), write: bool, free: bool) -> Job {
        use tilewright_tcp_isa::footprint::{ByteSet, MemoryKind};
        let bytes = std::sync::Arc::new(ByteSet::range(first, end));
        let touched =
            MemoryAccess { memory: MemoryKind::Dm, chip: 0, slices: (0, 1), write, lanes: 0, bytes };
        let (accesses, hbm_cycles) = (vec![touched], if unit == Unit::Dma { cycles / 8 } else { 0 });
        let behind = Vec::new();
        Job { core: Core::Push, unit, cycles, hbm_cycles, accesses, barrier: false, free, behind }
    }

    fn is_exec(&self) -> bool {
        matches!(self.unit, Unit::Main | Unit::Sub)
    }

    /// Whether it comes behind another one, whose number is given.
    pub(super) fn follows(&self, number: usize, before: &Job) -> bool {
        match (&self.core, &before.core) {
            // PEs wait for each other for what lies in HBM, which executions do not touch.
            (Core::Barrier, Core::Push) => !before.free && !before.is_exec(),
            (Core::Push, Core::Barrier) => !self.free && !self.is_exec(),
            (Core::Tell { after, execs, .. }, Core::Push) => {
                after.contains(&number) || *execs && !before.free
            }
            (Core::Signal { after, .. }, Core::Push) => after.binary_search(&number).is_ok(),
            (Core::Push, Core::Await { .. }) => self.behind.contains(&number),
            (Core::Push, Core::Tell { .. } | Core::Signal { .. }) | (Core::Await { .. }, Core::Push) => false,
            // Signals are given and awaited in order, but whoever waits goes on to signal.
            (Core::Signal { .. }, Core::Await { .. }) | (Core::Await { .. }, Core::Signal { .. }) => false,
            (Core::Hear { .. }, Core::Push) => !before.free,
            (Core::Push, Core::Hear { .. }) => !self.free || meets(&self.accesses, &before.accesses),
            (Core::Push, Core::Push) => {
                self.barrier || before.barrier || meets(&self.accesses, &before.accesses)
            }
            _ => true,
        }
    }
}

fn meets(a: &[MemoryAccess], b: &[MemoryAccess]) -> bool {
    let conflict = |a: &MemoryAccess, b: &MemoryAccess| {
        (a.write || b.write) && a.meets(b) && a.bytes.overlap(&b.bytes).is_some()
    };
    a.iter().any(|a| b.iter().any(|b| conflict(a, b)))
}
