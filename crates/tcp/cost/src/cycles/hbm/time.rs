//! How long a channel of off-chip memory takes (vISA book, memory performance), in closed form: the longest
//! of
//!
//! - its data bus: a unit takes a fraction of a cycle more than 5, a partial write its own time, a change of
//!   rank some more. The controller serves first what needs no change, so a full queue of requests changes
//!   rank at most once for each other rank. A unit that follows one of the same bank and another row takes
//!   the time of the switch: interleaving "cannot hide the row-conflict cost within each channel";
//! - the columns of each bank group, which follow each other at half the rate of columns in different groups.
//!   A unit is read whole, however little of it is asked for;
//! - each bank, which opens one row after the other. Rows of other banks open meanwhile.
//!
//! That the controller finds enough requests in its queue to keep all of these busy at once is an assumption,
//! and so is that it does not gather requests of one row beyond their order. Times are summed exactly and
//! rounded up once; the time of a row is first rounded to whole cycles. Refresh is part of what all transfers
//! together may use.

use tilewright_machine::tcp::Tcp;

use super::{HbmChannels, column_bytes};
use tilewright_tcp_isa::capped::{Capped, capped};

/// Times as multiples of one over a denominator.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelTimes {
    denominator: u128,
    /// A unit on the data bus.
    pub(super) unit: u128,
    /// A column that follows one of the same bank group.
    column: u128,
    /// Columns of a unit.
    unit_columns: u128,
    /// More than that of a column in another bank group.
    rank: u128,
    pub(super) row: u128,
    pub(super) partial: u128,
}

impl ChannelTimes {
    pub(super) fn new(machine: &Tcp) -> ChannelTimes {
        let (hbm, clock) = (&machine.hbm, u128::from(machine.chip.clock_hz));
        let bus = u128::from(hbm.channel_bytes_per_cycle) * u128::from(hbm.channel_clock_hz);
        let timing = u128::from(hbm.timing_clock_hz);
        let denominator = bus * timing;
        let timed = |cycles: u64| u128::from(cycles) * clock * bus;
        let columns = u128::from(hbm.access_bytes.div_ceil(column_bytes(machine)));
        let moved = u128::from(hbm.access_bytes) * clock * timing;
        let row = (u128::from(hbm.row_switch_ns) * clock).div_ceil(1_000_000_000);
        let unit = moved.max(columns.capped_mul(timed(hbm.other_group_cycles)));
        ChannelTimes {
            denominator,
            unit,
            column: timed(hbm.same_group_cycles),
            unit_columns: columns,
            rank: timed(hbm.other_rank_cycles.saturating_sub(hbm.other_group_cycles)),
            row: row.capped_mul(denominator).max(unit),
            partial: u128::from(hbm.partial_write_cycles).capped_mul(denominator).max(unit),
        }
    }

    /// One cycle of the chip.
    pub(super) fn cycle(&self) -> u128 {
        self.denominator
    }

    /// A unit that follows one of the same bank group.
    pub(super) fn group_unit(&self) -> u128 {
        self.unit_columns.capped_mul(self.column).max(self.unit)
    }

    /// So many units of one bank group: all but the first keep their distance.
    fn group(&self, units: u64) -> u128 {
        let following = u128::from(units.saturating_sub(1)).capped_mul(self.group_unit());
        if units == 0 { 0 } else { self.unit.capped_add(following) }
    }

    fn work(&self, accesses: u64, partial_writes: u64, row_switches: u64) -> u128 {
        let plain = accesses.saturating_sub(partial_writes).saturating_sub(row_switches);
        let parts = [(plain, self.unit), (partial_writes, self.partial), (row_switches, self.row)];
        parts.into_iter().fold(0, |all, (count, each)| all.capped_add(each.capped_mul(u128::from(count))))
    }
}

impl HbmChannels {
    /// Cycles of the busiest channel, rounded up.
    pub fn busiest_cycles(&self, machine: &Tcp) -> u64 {
        let times = ChannelTimes::new(machine);
        let busiest = (0..self.channels.len()).map(|at| self.time(machine, &times, at)).fold(0, u128::max);
        capped(busiest.div_ceil(times.denominator.max(1)))
    }

    /// Cycles of each channel times 2^32, rounded up, so that many small shares add up to what they are.
    pub fn cycles_q32(&self, machine: &Tcp) -> Vec<u128> {
        let times = ChannelTimes::new(machine);
        let denominator = times.denominator.max(1);
        let cycles = |at: usize| {
            let time = self.time(machine, &times, at);
            let (whole, part) = (time / denominator, time % denominator);
            // The remainder is below a denominator of at most 2^90.
            let part = (part << 32).div_ceil(denominator);
            whole.capped_mul(1 << 32).capped_add(part)
        };
        (0..self.channels.len()).map(cycles).collect()
    }

    /// Time of one channel, in parts of the denominator.
    fn time(&self, machine: &Tcp, times: &ChannelTimes, at: usize) -> u128 {
        let channel = &self.channels[at];
        // Most transfers touch few channels, and few banks of those.
        if channel.accesses == 0 && channel.row_switches == 0 {
            return 0;
        }
        let queues = channel.accesses.div_ceil(machine.hbm.queue_entries.max(1));
        let changes = channel.rank_changes.min(queues.capped_mul(machine.hbm.ranks.saturating_sub(1)));
        let bus = times
            .work(channel.accesses, channel.partial_writes, channel.back_to_back)
            .capped_add(times.rank.capped_mul(u128::from(changes)));
        let count = self.channels.len();
        let units = self.group_units.iter().skip(at).step_by(count).copied().fold(0, u64::max);
        let group = times.group(units);
        let banks = self.banks.iter().skip(at).step_by(count);
        let banks = banks.filter(|bank| bank.accesses > 0 || bank.row_switches > 0);
        let banks = banks.map(|bank| times.work(bank.accesses, bank.partial_writes, bank.row_switches));
        banks.fold(bus.max(group), u128::max)
    }
}
