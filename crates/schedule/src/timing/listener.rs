//! What a run tells: when commands are issued, begin and end, and what they are ordered behind.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use tilewright_base::invariant::OrBroken;

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::{CommandImage, ExecUnit, PeId, RunEvent, Ticket};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_sim::Observer;

use super::{ResolvedImage, TimedCommand};

/// The last command of each unit that somebody knows to be done: units run in order.
type LastDone = BTreeMap<(PeId, ExecUnit), Ticket>;

/// What a queue and its control core have learned.
#[derive(Default)]
struct QueueProgress {
    /// The queue waited for these since it issued a command.
    waited: Vec<Ticket>,
    /// Last command of each unit that was issued.
    issued: LastDone,
    /// The core knows these to be done.
    core: LastDone,
    /// Awaited commands and messages so far.
    received: u64,
    /// What each of them brought, for the commands that the core pushes behind it.
    carried: VecDeque<(u64, Vec<Ticket>)>,
}

#[derive(Default)]
pub(super) struct TimingListener {
    pub(super) commands: BTreeMap<Ticket, TimedCommand>,
    fronts: BTreeMap<PeId, QueueProgress>,
    messages: BTreeMap<(PeId, PeId), VecDeque<LastDone>>,
}

impl TimingListener {
    fn front(&mut self, pe: PeId) -> &mut QueueProgress {
        self.fronts.entry(pe).or_default()
    }

    fn issue(
        &mut self,
        ticket: Ticket,
        (pe, unit): (PeId, ExecUnit),
        image: CommandImage<'_>,
        received: u64,
        at: u64,
    ) {
        let (name, ran) = match image {
            CommandImage::Exec(exec) => (exec.name.clone(), ResolvedImage::Exec(Arc::clone(exec))),
            CommandImage::Transfer(transfer) => {
                (transfer.name.clone(), ResolvedImage::Transfer(Arc::clone(transfer)))
            }
        };
        let front = self.front(pe);
        let waited = std::mem::take(&mut front.waited);
        front.issued.insert((pe, unit), ticket);
        let mut known_done = Vec::new();
        while front.carried.front().is_some_and(|(number, _)| *number <= received) {
            known_done.extend(front.carried.pop_front().into_iter().flat_map(|(_, brought)| brought));
        }
        let timed = TimedCommand { pe, unit, name, issued: at, start: at, end: at, waited, known_done, ran };
        self.commands.insert(ticket, timed);
    }

    /// A core learns that some commands are done.
    fn learns(&mut self, pe: PeId, known: &LastDone) {
        let front = self.front(pe);
        front.received += 1;
        front.carried.push_back((front.received, known.values().copied().collect()));
        merge(&mut front.core, known);
    }
}

fn merge(into: &mut LastDone, known: &LastDone) {
    for (unit, ticket) in known {
        let last = into.entry(*unit).or_insert(*ticket);
        *last = (*last).max(*ticket);
    }
}

impl Observer for TimingListener {
    fn observe(&mut self, event: &RunEvent<'_>) -> ControlFlow<()> {
        match *event {
            RunEvent::Issue { ticket, pe, unit, image, received, at_cycles, .. } => {
                self.issue(ticket, (pe, unit), image, received, at_cycles);
            }
            RunEvent::Start { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.start = at_cycles;
                }
            }
            RunEvent::Done { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.end = at_cycles;
                }
            }
            RunEvent::Waited { pe, ticket } => self.front(pe).waited.push(ticket),
            RunEvent::Synced { pe } => {
                let front = self.front(pe);
                merge(&mut front.core, &front.issued);
            }
            RunEvent::Awaited { pe, ticket } => {
                let unit = self.commands.get(&ticket).map_or(ExecUnit::Core, |command| command.unit);
                self.learns(pe, &LastDone::from([((pe, unit), ticket)]));
            }
            RunEvent::Posted { from, to } => {
                let known = self.front(from).core.clone();
                self.messages.entry((from, to)).or_default().push_back(known);
            }
            RunEvent::Received { pe, from } => {
                let message = self.messages.get_mut(&(from, pe)).and_then(VecDeque::pop_front);
                self.learns(pe, &message.or_broken("a message is posted before it is received"));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn read(&mut self, _address: Address, _dtype: Dtype) -> Option<i64> {
        None
    }
}
