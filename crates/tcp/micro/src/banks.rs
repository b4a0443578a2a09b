//! Ports of the data memory banks of a slice: one access of a bank in a cycle, by priority (vISA book, data
//! memory).
//!
//! Main fetch comes before main commit, sub fetch and sub commit. Fetch and commit of one context never
//! starve each other: a commit that has lost a few cycles in a row to the fetch unit of its own context wins
//! the next. Between contexts the priority is strict.

use tilewright_machine::tcp::Tcp;

/// Where a unit reads or writes next: access `i` is at `base_bytes + i * stride_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessWalk {
    /// First address.
    pub base_bytes: u64,
    /// Distance of neighbouring accesses.
    pub stride_bytes: u64,
}

/// Banks that an access touches, a bit for each.
pub(crate) fn touched(machine: &Tcp, walk: &AccessWalk, access: u64, width_bytes: u64) -> u128 {
    let address = walk.base_bytes.wrapping_add(access.wrapping_mul(walk.stride_bytes));
    let first = address / machine.dm.bank_access_bytes;
    let last = address.saturating_add(width_bytes.max(1) - 1) / machine.dm.bank_access_bytes;
    let banks = machine.dm.banks.min(128);
    (first..=last).take(128).fold(0, |mask, bank| mask | 1 << (bank % banks))
}

/// What each unit asks for and gets in a cycle, in the order of priority.
pub(crate) const UNITS: usize = 4;

/// Cycles in a row that a commit waits for the fetch unit of its context; how many is not published.
const PATIENCE_CYCLES: u64 = 4;

/// The arbiter of a slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct BankArbiter {
    /// Cycles in a row that the commit of each context lost to its fetch unit.
    waited: [u64; UNITS / 2],
}

impl BankArbiter {
    /// Which requests are served: of main fetch, main commit, sub fetch, sub commit. Units of a context that
    /// is `apart` never meet.
    pub(crate) fn grant(
        &mut self,
        requests: [Option<u128>; UNITS],
        apart: [bool; UNITS / 2],
    ) -> [bool; UNITS] {
        let mut granted = [false; UNITS];
        let mut taken = 0;
        for (context, waited) in self.waited.iter_mut().enumerate() {
            let (fetch, commit) = (2 * context, 2 * context + 1);
            let order = if *waited >= PATIENCE_CYCLES { [commit, fetch] } else { [fetch, commit] };
            let before = taken;
            for unit in order {
                let others = if apart[context] { before } else { taken };
                let free = requests[unit].is_some_and(|banks| banks & others == 0);
                if free {
                    granted[unit] = true;
                    taken |= requests[unit].unwrap_or(0);
                }
            }
            let lost = !granted[commit] && requests[commit].is_some_and(|banks| banks & before == 0);
            *waited = if lost { *waited + 1 } else { 0 };
        }
        granted
    }
}
