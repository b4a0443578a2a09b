//! Orders that are followed, and made better a few commands at a time by integer programs.
//!
//! Of the next commands of a PE in a given order, up to the next barrier or message, those that depend on
//! each other keep their order; [`crate::tcp::window`] has the others issued so that whatever waits for them
//! ends earliest. Half of them are issued, and the next window begins there.

use std::collections::BTreeMap;

use super::issue::Pe;
use super::order::{Core, Unit};
use crate::tcp::window::{self, Clock, Job, Solver, UNITS};

/// Programs that are solved in a run at most; equal windows of several PEs are one.
const MOST_SOLVED: usize = 2_000;
/// Cycles by which what waits for commands of a window may differ: more would drown the window in the
/// solver's tolerance.
const MOST_BEHIND: u64 = 100_000;

/// An order of all PEs that a run follows.
pub(super) struct Given {
    orders: Vec<Vec<usize>>,
    windows: Option<Windows>,
}

/// Windows of commands while a run goes on.
struct Windows {
    most: usize,
    /// Where the next window of each PE begins.
    due: Vec<usize>,
    solved: BTreeMap<(Vec<Job>, Clock), Vec<usize>>,
}

impl Given {
    /// An order as it is.
    #[cfg(test)]
    pub(super) fn as_is(orders: Vec<Vec<usize>>) -> Given {
        Given { orders, windows: None }
    }

    /// An order whose windows of so many commands are put in the best order of theirs on the way.
    pub(super) fn windows(orders: Vec<Vec<usize>>, most: usize) -> Given {
        let due = vec![0; orders.len()];
        let windows = Windows { most: most.min(window::MOST), due, solved: BTreeMap::new() };
        Given { orders, windows: Some(windows) }
    }

    /// The next command of a PE, while so many others use HBM.
    pub(super) fn next(&mut self, number: usize, pe: &Pe<'_>, sharing: usize) -> usize {
        let (order, at) = (&mut self.orders[number], pe.order.len());
        if let Some(windows) = self.windows.as_mut().filter(|windows| at >= windows.due[number]) {
            let is_command = |job: &&usize| pe.graph.jobs[**job].core == Core::Push;
            let many = order[at..].iter().take(windows.most).take_while(is_command).count();
            windows.improve(&mut order[at..at + many], pe, sharing);
            windows.due[number] = at + many.div_ceil(2).max(1);
        }
        order[at]
    }
}

impl Windows {
    /// Puts the next commands of a PE in their best order.
    fn improve(&mut self, order: &mut [usize], pe: &Pe<'_>, sharing: usize) {
        if order.len() < 2 {
            return;
        }
        let clock = clock(pe);
        let key = (jobs(order, pe, sharing, clock.issue), clock.since(clock.issue));
        if !self.solved.contains_key(&key) {
            if self.solved.len() >= MOST_SOLVED {
                return;
            }
            let found = window::order(&key.0, key.1, Solver::Microlp);
            self.solved.insert(key.clone(), found);
        }
        let before = order.to_vec();
        let found = self.solved.get(&key).into_iter().flatten();
        order.iter_mut().zip(found).for_each(|(slot, at)| *slot = before[*at]);
    }
}

/// The queue and the units of a PE.
fn clock(pe: &Pe<'_>) -> Clock {
    let mut free = [0; UNITS];
    free.copy_from_slice(&pe.free[..UNITS]);
    Clock { issue: pe.issue.max(pe.core), free }
}

/// Commands as the program has them, times from a cycle on.
fn jobs(order: &[usize], pe: &Pe<'_>, sharing: usize, from: u64) -> Vec<Job> {
    let all = pe.graph.jobs;
    let behind = |at: usize| pe.graph.path[at].saturating_sub(all[at].cycles);
    let least = order.iter().map(|at| behind(*at)).min().unwrap_or_default();
    let job = |(place, at): (usize, &usize)| {
        let own = &all[*at];
        // What stands in front of a command that it passed does not depend on it.
        let depends = |before: usize| before < *at && own.follows(before, &all[before]);
        let earlier = order[..place].iter().enumerate().filter(|(_, before)| depends(**before));
        Job {
            unit: own.unit as usize,
            cycles: own.cycles.max(own.hbm_cycles * (sharing as u64 + 1)),
            ready: pe.ready[*at].saturating_sub(from),
            after: earlier.fold(0, |bits, (i, _)| bits | 1 << i),
            behind: (behind(*at) - least).min(MOST_BEHIND),
        }
    };
    order.iter().enumerate().map(job).collect()
}

// Units of a queue are those of the programs, by number.
const _: () = assert!(Unit::Dma as usize == window::DMA && (Unit::Queue as usize) == UNITS);
