//! What is ordered before what, by vector clocks over the units of all PEs (paper section V-A: queues, waits,
//! doorbells).
//!
//! - Commands of one unit that one queue issues run in order. Those of another queue on the same unit (a
//!   command of a fused group runs on the units of all its PEs) take turns with them, in whatever order they
//!   come: nothing is ordered by that.
//! - A wait orders the command before everything that the queue issues later. So does an `exec`, for the
//!   command that ran before it in its context: the queue is held until the context is free.
//! - A core knows what it saw done: its own queue when it synced, a command that it awaited, and what
//!   messages carried. It does not know what its queue waited for.
//! - A message is ordered before the commands that its receiver pushed after it, not before those that its
//!   queue held already. So is a command that the core awaited.
//! - A core's reads follow a sync, and order like commands of a unit of its own.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use tilewright_tcp_isa::program::event::{ExecUnit, PeId, Ticket};

/// How many commands of each unit are known to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VectorClock(Vec<u64>);

impl VectorClock {
    pub(super) fn get(&self, unit: usize) -> u64 {
        self.0.get(unit).copied().unwrap_or(0)
    }

    fn join(&mut self, other: &VectorClock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*other);
        }
    }

    fn set(&mut self, unit: usize, count: u64) {
        if self.0.len() <= unit {
            self.0.resize(unit + 1, 0);
        }
        if let Some(slot) = self.0.get_mut(unit) {
            *slot = count;
        }
    }
}

/// How a command is known to its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuedCommand {
    pub(super) ticket: Ticket,
    pub(super) id: u8,
    /// What the core had waited for when it pushed it.
    pub(super) received: u64,
}

/// A command's place in the order.
#[derive(Clone, Debug)]
pub(super) struct OrderStamp {
    /// The unit of the PE that issued it.
    pub(super) unit: usize,
    /// Its number there.
    pub(super) count: u64,
    /// All that is ordered before it, and itself.
    pub(super) clock: Rc<VectorClock>,
}

impl OrderStamp {
    /// This is ordered before `later`.
    pub(super) fn before(&self, later: &OrderStamp) -> bool {
        later.clock.get(self.unit) >= self.count
    }
}

/// One PE's queue and core.
#[derive(Clone, Debug, Default)]
struct PeOrder {
    /// What everything that the queue issues comes after.
    queue: VectorClock,
    /// What the core knows to be done.
    core: VectorClock,
    /// Messages and commands that the core has waited for, and what those carried that not all commands in
    /// the queue come after, by their number.
    received: u64,
    carried: VecDeque<(u64, VectorClock)>,
    /// The last command it issued on each unit.
    issued: BTreeMap<usize, Rc<VectorClock>>,
    /// Commands that were not waited for, as long as a wait can name them.
    open: BTreeMap<Ticket, Rc<VectorClock>>,
    /// The last command of each id: of a transfer or not.
    ids: BTreeMap<(bool, u8), Ticket>,
    /// Those that a core can await.
    named: BTreeMap<Ticket, Rc<VectorClock>>,
}

/// The order so far.
#[derive(Clone, Debug, Default)]
pub(super) struct HappensBefore {
    units: BTreeMap<(PeId, ExecUnit), usize>,
    /// By unit: its PE, and the clock of its last command.
    last: Vec<(PeId, Rc<VectorClock>)>,
    fronts: BTreeMap<PeId, PeOrder>,
    messages: BTreeMap<(PeId, PeId), VecDeque<VectorClock>>,
}

impl HappensBefore {
    /// PEs that will issue commands: nothing is forgotten that is not ordered before what they do next.
    pub(super) fn new(pes: impl Iterator<Item = PeId>) -> HappensBefore {
        let mut order = HappensBefore::default();
        for pe in pes {
            order.fronts.entry(pe).or_default();
            [ExecUnit::Main, ExecUnit::Sub, ExecUnit::Dma].into_iter().for_each(|unit| {
                order.unit(pe, unit);
            });
        }
        order
    }

    fn unit(&mut self, pe: PeId, unit: ExecUnit) -> usize {
        let next = self.last.len();
        let index = *self.units.entry((pe, unit)).or_insert(next);
        if index == next {
            self.last.push((pe, Rc::default()));
        }
        index
    }

    /// A queue issues a command.
    pub(super) fn issue(&mut self, pe: PeId, unit: ExecUnit, named: IssuedCommand) -> OrderStamp {
        let IssuedCommand { ticket, id, received } = named;
        let own = self.unit(pe, unit);
        let mut clock = VectorClock::default();
        self.last.get(own).iter().for_each(|last| clock.join(&last.1));
        let front = self.fronts.entry(pe).or_default();
        while front.carried.front().is_some_and(|(number, _)| *number <= received) {
            front.carried.pop_front().iter().for_each(|(_, message)| front.queue.join(message));
        }
        if unit != ExecUnit::Dma {
            front.queue.join(&clock);
        }
        clock.join(&front.queue);
        clock.set(own, clock.get(own) + 1);
        let clock = Rc::new(clock);
        if let Some(last) = self.last.get_mut(own) {
            last.1 = Rc::clone(&clock);
        }
        front.issued.insert(own, Rc::clone(&clock));
        if let Some(before) = front.ids.insert((unit == ExecUnit::Dma, id), ticket) {
            front.open.remove(&before);
            front.named.remove(&before);
        }
        front.open.insert(ticket, Rc::clone(&clock));
        front.named.insert(ticket, Rc::clone(&clock));
        OrderStamp { unit: own, count: clock.get(own), clock }
    }

    pub(super) fn waited(&mut self, pe: PeId, ticket: Ticket) {
        let front = self.fronts.entry(pe).or_default();
        if let Some(clock) = front.open.remove(&ticket) {
            front.queue.join(&clock);
        }
    }

    pub(super) fn synced(&mut self, pe: PeId) {
        let front = self.fronts.entry(pe).or_default();
        for clock in front.issued.values() {
            front.core.join(clock);
        }
        front.core.join(&front.queue);
        front.queue.join(&front.core);
        front.open.clear();
        front.carried.clear();
    }

    pub(super) fn awaited(&mut self, pe: PeId, ticket: Ticket) {
        let front = self.fronts.entry(pe).or_default();
        front.received += 1;
        if let Some(clock) = front.named.get(&ticket).cloned() {
            front.core.join(&clock);
            front.carried.push_back((front.received, VectorClock::clone(&clock)));
        }
    }

    pub(super) fn posted(&mut self, from: PeId, to: PeId) {
        let carried = self.fronts.entry(from).or_default().core.clone();
        self.messages.entry((from, to)).or_default().push_back(carried);
    }

    pub(super) fn received(&mut self, pe: PeId, from: PeId) {
        let message = self.messages.get_mut(&(from, pe)).and_then(VecDeque::pop_front);
        let front = self.fronts.entry(pe).or_default();
        front.received += 1;
        if let Some(message) = message {
            front.core.join(&message);
            front.carried.push_back((front.received, message));
        }
    }

    /// A core that just synced reads: a command of its own unit, done at once.
    pub(super) fn read(&mut self, pe: PeId) -> OrderStamp {
        let unit = self.unit(pe, ExecUnit::Core);
        let front = self.fronts.entry(pe).or_default();
        let count = front.core.get(unit) + 1;
        front.core.set(unit, count);
        front.queue.set(unit, count);
        let clock = Rc::new(front.core.clone());
        if let Some(last) = self.last.get_mut(unit) {
            last.1 = Rc::clone(&clock);
        }
        OrderStamp { unit, count, clock }
    }

    /// Up to which command of a unit everything is ordered before all that any PE can still issue.
    pub(super) fn settled(&self, unit: usize) -> u64 {
        let seen = |(pe, last): &(PeId, Rc<VectorClock>)| {
            let front = self.fronts.get(pe).map(|front| front.queue.get(unit));
            // A PE without a queue issues nothing.
            front.map_or(u64::MAX, |front| front.max(last.get(unit)))
        };
        self.last.iter().map(seen).min().unwrap_or(0)
    }
}
