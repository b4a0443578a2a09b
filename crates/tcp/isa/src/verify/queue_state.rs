//! Which images are loaded and which ids are in use at a step, on any path that leads there (paper section
//! V-A).
//!
//! An `exec` holds the queue until its context is free, so of each context one command at most is in flight;
//! a DMA engine runs transfers in order, so a wait for one ends those before it.

use std::collections::BTreeSet;

use crate::program::exec::Context;

/// What may be true at a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueState {
    /// An image is in the registers: main, sub.
    loaded: [bool; 2],
    /// Ids of transfers that may be in flight, in order.
    transfers: Vec<u8>,
    /// Ids of executions that may be in flight, by context.
    execs: [BTreeSet<u8>; 2],
    /// Ids that were ever issued: transfers, executions.
    issued: [BTreeSet<u8>; 2],
}

fn at(context: Context) -> usize {
    match context {
        Context::Main => 0,
        Context::Sub => 1,
    }
}

impl QueueState {
    pub(super) fn load(&mut self, context: Context) {
        self.loaded[at(context)] = true;
    }

    pub(super) fn is_loaded(&self, context: Context) -> bool {
        self.loaded[at(context)]
    }

    /// A transfer starts; whether its id may be in flight already.
    pub(super) fn start_transfer(&mut self, id: u8) -> bool {
        let again = self.transfers.contains(&id);
        self.transfers.retain(|open| *open != id);
        self.transfers.push(id);
        self.issued[0].insert(id);
        again
    }

    /// An execution starts once its context is free; whether its id may be in flight in the other.
    pub(super) fn start_exec(&mut self, context: Context, id: u8) -> bool {
        let own = at(context);
        let again = self.execs[1 - own].remove(&id);
        self.execs[own] = BTreeSet::from([id]);
        self.issued[1].insert(id);
        again
    }

    /// A transfer is done, and with it all before it; whether there ever was one.
    pub(super) fn wait_transfer(&mut self, id: u8) -> bool {
        if let Some(last) = self.transfers.iter().rposition(|open| *open == id) {
            self.transfers.drain(..=last);
        }
        self.issued[0].contains(&id)
    }

    /// An execution is done; whether there ever was one.
    pub(super) fn wait_exec(&mut self, id: u8) -> bool {
        self.execs.iter_mut().for_each(|open| {
            open.remove(&id);
        });
        self.issued[1].contains(&id)
    }

    /// Everything is done.
    pub(super) fn sync(&mut self) {
        self.transfers.clear();
        self.execs = [BTreeSet::new(), BTreeSet::new()];
    }

    /// What is true on either of two paths.
    pub(super) fn join(&mut self, other: &QueueState) {
        for context in 0..2 {
            self.loaded[context] |= other.loaded[context];
            self.execs[context].extend(&other.execs[context]);
            self.issued[context].extend(&other.issued[context]);
        }
        let missing: Vec<u8> =
            other.transfers.iter().copied().filter(|id| !self.transfers.contains(id)).collect();
        self.transfers.extend(missing);
    }
}
