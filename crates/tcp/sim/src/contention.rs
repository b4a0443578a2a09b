//! How main commands slow sub commands beside them through ports and banks, and both slow DMA: the rules are
//! `tilewright_tcp_cost::cycles::image::beside`, asked once for each pair of images.

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;
use tilewright_tcp_cost::cycles::image::sub_speed_q32;

use crate::SimError;
use crate::bandwidth::ResourceUses;
use crate::contexts::{first_access, last_access};
use crate::events::EventKind;
use crate::plan::ExecPlan;
use crate::state::{ActiveExec, World, small};

/// Full speed.
pub(crate) const FULL_Q32: u64 = 1 << 32;
/// Pairs that are kept.
const KEPT: usize = 1 << 16;

/// Speeds of sub commands beside main commands, by the numbers of their plans.
#[derive(Debug, Default)]
pub(crate) struct ContentionSpeeds {
    known: BTreeMap<(u64, u64), u64>,
    /// Asked last: loops ask for the same pair again and again.
    last: Option<((u64, u64), u64)>,
}

impl ContentionSpeeds {
    /// The speed of a sub command past its overhead while a main command is busy, as a part of 2^32.
    pub(crate) fn of(&mut self, machine: &Tcp, sub: &ExecPlan, main: &ExecPlan) -> u64 {
        let key = (sub.number, main.number);
        if let Some((_, speed)) = self.last.filter(|(last, _)| *last == key) {
            return speed;
        }
        if let Some(speed) = self.known.get(&key).copied() {
            self.last = Some((key, speed));
            return speed;
        }
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        let speed = sub_speed_q32(machine, sub.traffic(machine), main.traffic(machine));
        self.known.insert(key, speed);
        self.last = Some((key, speed));
        speed
    }
}

impl<S: Sink> World<'_, '_, S> {
    /// Commands on a PE changed, or DMA came to it: its networks get what is left of the banks. Asked again
    /// when that changes.
    pub(crate) fn leave_banks(&mut self, pe: usize) -> Result<(), SimError> {
        // A transfer may leave the machine, which is a finding of its own: no command runs there.
        let Some(state) = self.pes.get(pe) else { return Ok(()) };
        let (chip, first) = (state.id.chip, state.id.pe.exact_mul(self.machine.pe.dmns));
        let networks = first..first.exact_add(self.machine.pe.dmns);
        if !networks.clone().any(|network| self.bandwidth.uses_network(chip, network)) {
            return Ok(());
        }
        let (mut shares, mut later) = ([Vec::<u64>::new(), Vec::new()], None);
        for (context, shares) in shares.iter_mut().enumerate() {
            let owner = state.owner[context].and_then(|owner| self.pes.get(owner as usize));
            let Some(running) = owner.and_then(|owner| owner.running[context].as_ref()) else { continue };
            let (from, until) = busy_cycles(running, context);
            if from <= self.now && self.now < until {
                let speed = running.speed_q32.unwrap_or(FULL_Q32);
                let slowed = |share: &u64| u64::try_from((u128::from(*share) * u128::from(speed)) >> 32);
                let banks = running.plan.bank_shares(self.machine).iter();
                *shares = banks.map(|share| slowed(share).unwrap_or(FULL_Q32)).collect();
            }
            let change = if from > self.now { from } else { until };
            if change > self.now && change < u64::MAX {
                later = later.into_iter().chain([change]).min();
            }
        }
        let [main, sub] = &shares;
        let banks = main.len().max(sub.len());
        let of = |bank: usize| main.get(bank).unwrap_or(&0) + sub.get(bank).unwrap_or(&0);
        let busiest = (0..banks).map(of).max().unwrap_or(0);
        if let Some(at) = later {
            self.events.plan(at, EventKind::Banks(small(pe)));
        }
        let mut changed = false;
        for network in networks {
            changed |= self.bandwidth.leave(self.now, (chip, network), FULL_Q32.saturating_sub(busiest));
        }
        if changed { self.transfer_power() } else { Ok(()) }
    }

    /// The same for all PEs that a transfer reaches.
    pub(crate) fn leave_banks_to(&mut self, uses: &ResourceUses) -> Result<(), SimError> {
        let dmns = self.machine.pe.dmns.max(1);
        for (chip, network) in uses.networks() {
            let first = to_index(chip).checked_mul(self.pes_per_chip);
            let Some(pe) = first.and_then(|first| first.checked_add(to_index(network / dmns))) else {
                continue;
            };
            self.leave_banks(pe)?;
        }
        Ok(())
    }
}

/// When an execution accesses banks: a main command while its slowest stage works, a sub command until it
/// ends.
fn busy_cycles(running: &ActiveExec, context: usize) -> (u64, u64) {
    let from = first_access(running);
    (from, if context == 0 { last_access(running) } else { u64::MAX })
}
