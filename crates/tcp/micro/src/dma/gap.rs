//! The closed form of a transfer beside what the simulation of its requests counts.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::transfer_cost;
use tilewright_tcp_isa::program::transfer::Transfer;

use super::{RowSwitches, run_transfers};
use crate::command::MicroError;

/// Cycles by which closed form and simulation may differ whatever the size of a transfer: on each side the
/// first row that opens and the last unit, which the start-up of a command contains.
pub const SLACK_CYCLES: u64 = 128;
/// What they may differ by beside that, of the closed form.
pub const PERCENT: u64 = 20;

/// Counts of a transfer alone on its engine, without its start-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferGap {
    /// By the closed form.
    pub closed_cycles: u64,
    /// By the simulation, banks switching rows each on its own.
    pub least_cycles: u64,
    /// By the simulation, a channel switching one row at a time.
    pub most_cycles: u64,
}

impl TransferGap {
    /// Runs a transfer alone.
    pub fn of(machine: &Tcp, transfer: &Transfer) -> Result<TransferGap, MicroError> {
        let cost = transfer_cost(machine, transfer).ok_or(MicroError::NoMemory(transfer.source.0))?;
        let run = |switches| run_transfers(machine, std::slice::from_ref(transfer), switches);
        let [banks, channel] = [run(RowSwitches::EachBank)?.cycles, run(RowSwitches::OneAtATime)?.cycles];
        Ok(TransferGap {
            closed_cycles: cost.moved_cycles,
            least_cycles: banks.min(channel),
            most_cycles: banks.max(channel),
        })
    }

    /// Whether the closed form is less than half of the least that was simulated: it never is.
    pub fn is_far_too_fast(&self) -> bool {
        2 * self.closed_cycles + SLACK_CYCLES < self.least_cycles
    }

    /// Whether the closed form lies between the two readings, or as near as it has to be.
    pub fn holds(&self) -> bool {
        let near = self.closed_cycles * PERCENT / 100 + SLACK_CYCLES;
        self.closed_cycles + near >= self.least_cycles && self.closed_cycles <= self.most_cycles + near
    }
}
