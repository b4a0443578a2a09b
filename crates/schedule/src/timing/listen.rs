//! What a run tells: when commands are issued, begin and end, and what they are ordered behind.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::{Event, Image, PeId, Ticket, Unit};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_sim::Observer;

use super::{Ran, Timed};

/// The last command of each unit that somebody knows to be done: units run in order.
type Known = BTreeMap<(PeId, Unit), Ticket>;

/// What a queue and its control core have learned.
#[derive(Default)]
struct Front {
    /// The queue waited for these since it issued a command.
    waited: Vec<Ticket>,
    /// Last command of each unit that was issued.
    issued: Known,
    /// The core knows these to be done.
    core: Known,
    /// Awaited commands and messages so far.
    received: u64,
    /// What each of them brought, for the commands that the core pushes behind it.
    carried: VecDeque<(u64, Vec<Ticket>)>,
}

#[derive(Default)]
pub(super) struct Listener {
    pub(super) commands: BTreeMap<Ticket, Timed>,
    fronts: BTreeMap<PeId, Front>,
    messages: BTreeMap<(PeId, PeId), VecDeque<Known>>,
}

impl Listener {
    fn front(&mut self, pe: PeId) -> &mut Front {
        self.fronts.entry(pe).or_default()
    }

    fn issue(&mut self, ticket: Ticket, (pe, unit): (PeId, Unit), image: Image<'_>, received: u64, at: u64) {
        let (name, ran) = match image {
            Image::Exec(exec) => (exec.name.clone(), Ran::Exec(Arc::clone(exec))),
            Image::Transfer(transfer) => (transfer.name.clone(), Ran::Transfer(Arc::clone(transfer))),
        };
        let front = self.front(pe);
        let waited = std::mem::take(&mut front.waited);
        front.issued.insert((pe, unit), ticket);
        let mut told = Vec::new();
        while front.carried.front().is_some_and(|(number, _)| *number <= received) {
            told.extend(front.carried.pop_front().into_iter().flat_map(|(_, brought)| brought));
        }
        let timed = Timed { pe, unit, name, issued: at, start: at, end: at, waited, told, ran };
        self.commands.insert(ticket, timed);
    }

    /// A core learns that some commands are done.
    fn learns(&mut self, pe: PeId, known: &Known) {
        let front = self.front(pe);
        front.received += 1;
        front.carried.push_back((front.received, known.values().copied().collect()));
        merge(&mut front.core, known);
    }
}

fn merge(into: &mut Known, known: &Known) {
    for (unit, ticket) in known {
        let last = into.entry(*unit).or_insert(*ticket);
        *last = (*last).max(*ticket);
    }
}

impl Observer for Listener {
    fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match *event {
            Event::Issue { ticket, pe, unit, image, received, at_cycles, .. } => {
                self.issue(ticket, (pe, unit), image, received, at_cycles);
            }
            Event::Start { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.start = at_cycles;
                }
            }
            Event::Done { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.end = at_cycles;
                }
            }
            Event::Waited { pe, ticket } => self.front(pe).waited.push(ticket),
            Event::Synced { pe } => {
                let front = self.front(pe);
                merge(&mut front.core, &front.issued);
            }
            Event::Awaited { pe, ticket } => {
                let unit = self.commands.get(&ticket).map_or(Unit::Core, |command| command.unit);
                self.learns(pe, &Known::from([((pe, unit), ticket)]));
            }
            Event::Posted { from, to } => {
                let known = self.front(from).core.clone();
                self.messages.entry((from, to)).or_default().push_back(known);
            }
            Event::Received { pe, from } => {
                let message = self.messages.get_mut(&(from, pe)).and_then(VecDeque::pop_front);
                self.learns(pe, &message.unwrap_or_default());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn read(&mut self, _address: Address, _dtype: Dtype) -> Option<i64> {
        None
    }
}
