//! What is ordered before what: clocks over the units of all PEs (paper sections III-C and V-A).
//!
//! A unit runs the commands of its queue in order. A wait orders a command before all that the queue starts
//! later; so does an `exec`, for the command before it in its context. A core knows what it synced with, what
//! it awaited and what messages carried; what it pushes then is ordered after that. A message carries what
//! its sender's core knows.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tilewright_base::invariant::{Exact, OrBroken};

use tilewright_tcp_isa::program::event::{ExecUnit, PeId};

/// How many commands of each unit are known to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u32>);

impl Clock {
    pub(super) fn get(&self, unit: usize) -> u32 {
        self.0.get(unit).copied().unwrap_or(0)
    }

    /// By unit; units behind the last have none.
    pub(super) fn counts(&self) -> &[u32] {
        &self.0
    }

    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, its)| *mine = (*mine).max(*its));
    }

    fn count(&mut self, unit: usize) -> u32 {
        if self.0.len() <= unit {
            self.0.resize(unit + 1, 0);
        }
        let Some(slot) = self.0.get_mut(unit) else { return 0 };
        *slot = slot.exact_add(1);
        *slot
    }
}

/// Units of a queue.
const UNITS: usize = 4;

/// The queue of a unit.
pub(super) fn queue_of(unit: usize) -> usize {
    unit / UNITS
}

fn place(unit: ExecUnit) -> usize {
    match unit {
        ExecUnit::Main => 0,
        ExecUnit::Sub => 1,
        ExecUnit::Dma => 2,
        ExecUnit::Core => 3,
    }
}

/// One queue and its core.
#[derive(Clone, Debug, Default)]
struct QueueClocks {
    queue: Clock,
    core: Clock,
    last: [Rc<Clock>; UNITS],
    ids: BTreeMap<(bool, u8), Rc<Clock>>,
}

/// A command's place in the order.
#[derive(Clone, Debug)]
pub(super) struct CommandStamp {
    pub(super) unit: usize,
    pub(super) count: u32,
    pub(super) clock: Rc<Clock>,
}

/// The order so far.
#[derive(Clone, Debug, Default)]
pub(super) struct HappensBefore {
    fronts: Vec<QueueClocks>,
    messages: BTreeMap<(PeId, PeId), VecDeque<Clock>>,
}

impl HappensBefore {
    pub(super) fn new(queues: usize) -> HappensBefore {
        HappensBefore { fronts: vec![QueueClocks::default(); queues], messages: BTreeMap::new() }
    }

    /// Units in all.
    pub(super) fn units(&self) -> usize {
        self.fronts.len() * UNITS
    }

    /// A command of a queue starts.
    pub(super) fn issue(&mut self, queue: usize, unit: ExecUnit, id: u8) -> CommandStamp {
        let index = queue * UNITS + place(unit);
        let Some(front) = self.fronts.get_mut(queue) else {
            return CommandStamp { unit: index, count: 0, clock: Rc::default() };
        };
        let mut clock = Clock::clone(&front.last[place(unit)]);
        if unit != ExecUnit::Dma {
            front.queue.join(&clock);
        }
        clock.join(&front.queue);
        let count = clock.count(index);
        let clock = Rc::new(clock);
        front.last[place(unit)] = Rc::clone(&clock);
        front.ids.insert((unit == ExecUnit::Dma, id), Rc::clone(&clock));
        CommandStamp { unit: index, count, clock }
    }

    /// The queue waits for a command by its id; whether there was one.
    pub(super) fn wait(&mut self, queue: usize, transfer: bool, id: u8) -> bool {
        let Some(front) = self.fronts.get_mut(queue) else { return false };
        let Some(clock) = front.ids.get(&(transfer, id)) else { return false };
        front.queue.join(clock);
        true
    }

    /// A command of an id would start on another path: waits for it wait for nothing.
    pub(super) fn skip(&mut self, queue: usize, transfer: bool, id: u8) {
        let front = self.fronts.get_mut(queue);
        front.into_iter().for_each(|front| {
            front.ids.entry((transfer, id)).or_default();
        });
    }

    /// The core waits for a command by its id; whether there was one.
    pub(super) fn await_one(&mut self, queue: usize, transfer: bool, id: u8) -> bool {
        let known = self.wait(queue, transfer, id);
        let Some(front) = self.fronts.get_mut(queue) else { return false };
        let QueueClocks { core, ids, .. } = front;
        ids.get(&(transfer, id)).iter().for_each(|clock| core.join(clock));
        known
    }

    pub(super) fn sync(&mut self, queue: usize) {
        let front = self.fronts.get_mut(queue).or_broken("a queue of the program");
        let QueueClocks { queue, core, last, .. } = front;
        last.iter().for_each(|clock| core.join(clock));
        core.join(queue);
        queue.join(core);
    }

    /// A core that just synced reads.
    pub(super) fn read(&mut self, queue: usize) -> CommandStamp {
        let unit = queue * UNITS + place(ExecUnit::Core);
        let front = self.fronts.get_mut(queue).or_broken("a queue of the program");
        let count = front.core.count(unit);
        front.queue.join(&front.core);
        CommandStamp { unit, count, clock: Rc::new(front.core.clone()) }
    }

    pub(super) fn post(&mut self, queue: usize, from: PeId, to: PeId) {
        let carried = self.fronts.get(queue).or_broken("a queue of the program").core.clone();
        self.messages.entry((from, to)).or_default().push_back(carried);
    }

    /// Takes the next message; whether there is one.
    pub(super) fn receive(&mut self, queue: usize, pe: PeId, from: PeId) -> bool {
        let message = self.messages.get_mut(&(from, pe)).and_then(VecDeque::pop_front);
        let (Some(message), Some(front)) = (message, self.fronts.get_mut(queue)) else { return false };
        front.core.join(&message);
        front.queue.join(&message);
        true
    }

    /// Messages that nobody took.
    pub(super) fn left(&self) -> impl Iterator<Item = (PeId, PeId, usize)> {
        let some = self.messages.iter().filter(|(_, waiting)| !waiting.is_empty());
        some.map(|((from, to), waiting)| (*from, *to, waiting.len()))
    }

    /// Up to which command of a unit all queues know it to be done.
    pub(super) fn settled(&self, unit: usize) -> u32 {
        self.fronts.iter().map(|front| front.queue.get(unit)).min().or_broken("a program has queues")
    }
}
