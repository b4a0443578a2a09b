//! Register file of the contraction engine: two banks with one port each, a direct-mapped read cache before
//! each bank (vISA book, tensor register file). A read that hits leaves the bank alone; a read beats a store.
//!
//! Lanes run in lockstep, so the banks of one lane tell what those of all lanes do.

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;

/// What a contraction reads: step `i` reads unit `i / held % units` times `stride`, a unit being a row of one
/// bank (narrow) or of all (wide).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterReads {
    /// A step reads a row of every bank, not of one.
    pub wide: bool,
    /// Steps in a row that read the same unit.
    pub held_steps: u64,
    /// Units that are read in turn.
    pub units: u64,
    /// Distance of neighbouring units.
    pub stride_units: u64,
}

/// Banks, their caches, and who has which port in this cycle.
#[derive(Clone, Debug)]
pub(crate) struct RegisterFile {
    banks: u64,
    cache_rows: u64,
    row_bytes: u64,
    /// Row that each line of each bank's cache holds.
    cached: Vec<Vec<Option<u64>>>,
    busy: Vec<bool>,
    /// Steps that reached a bank.
    pub(crate) missed_steps: u64,
}

impl RegisterFile {
    pub(crate) fn new(machine: &Tcp) -> RegisterFile {
        let line = vec![None; to_index(machine.trf.cache_rows)];
        let banks = to_index(machine.trf.banks).max(1);
        RegisterFile {
            banks: banks as u64,
            cache_rows: machine.trf.cache_rows,
            row_bytes: machine.trf.row_payload_bytes,
            cached: vec![line; banks],
            busy: vec![false; banks],
            missed_steps: 0,
        }
    }

    pub(crate) fn start_cycle(&mut self) {
        self.busy.fill(false);
    }

    /// The read of a step.
    pub(crate) fn read(&mut self, reads: &RegisterReads, step: u64) {
        let unit = step / reads.held_steps.max(1) % reads.units.max(1) * reads.stride_units;
        let mut missed = false;
        if reads.wide {
            for bank in 0..self.banks {
                missed |= self.read_row(bank, unit);
            }
        } else {
            missed = self.read_row(unit % self.banks, unit / self.banks);
        }
        self.missed_steps += u64::from(missed);
    }

    fn read_row(&mut self, bank: u64, row: u64) -> bool {
        let Ok(bank) = usize::try_from(bank) else { return false };
        let line = to_index(row.checked_rem(self.cache_rows).unwrap_or(0));
        if let Some(cached) = self.cached[bank].get_mut(line) {
            if *cached == Some(row) {
                return false;
            }
            *cached = Some(row);
        }
        self.busy[bank] = true;
        true
    }

    /// A store at an address; false while a read has the bank.
    pub(crate) fn store(&mut self, address_bytes: u64) -> bool {
        let bank = to_index(address_bytes / self.row_bytes % self.banks);
        let free = !self.busy[bank];
        self.busy[bank] = true;
        free
    }
}
