//! Laps of a contiguous run: each meets every channel once, in one bank and one row, so that channels differ
//! by what they did before the run alone.
//!
//! Where all channels have the same row of a bank open, what a lap adds is the same for all: it is summed up
//! and given to the channels at the end of the run. Where they differ, the first lap of the bank is counted
//! channel by channel, and after it they do not. When requests leave is followed request by request all the
//! way.

use tilewright_base::invariant::Exact;
use tilewright_tcp_isa::capped::Capped;

use super::map::{AddressMap, BankAddress};
use super::walk::{BankRow, StepAccess};
use super::window::WindowAccess;
use super::{BankLoad, ChannelLoad, HbmChannels};

/// Units of a run for each bank of a channel from which on summing up pays: all banks are looked through at
/// its end.
const UNITS_PER_BANK: u64 = 2;

/// What laps of one run add on every channel.
#[derive(Clone, Debug)]
pub(super) struct RunCounts {
    /// Which bits of the channel of its first unit each unit of a lap changes; empty if there are no laps.
    order: Vec<usize>,
    /// By bank; the row is that which the run has opened.
    banks: Vec<BankLoad>,
    channel: ChannelLoad,
}

impl RunCounts {
    /// No laps yet.
    pub(super) fn new(map: &AddressMap) -> RunCounts {
        let channel = |unit: u64| map.channel(map.place(unit * map.unit_bytes));
        RunCounts {
            order: (0..map.lap_units).map(channel).collect(),
            banks: vec![BankLoad::default(); map.banks()],
            channel: ChannelLoad::default(),
        }
    }
}

impl HbmChannels {
    /// Whole laps from an address on. Gives the place behind them. The caller has seen that there are as many
    /// steps left.
    pub(super) fn laps(
        &mut self,
        base_bytes: u64,
        place: BankAddress,
        laps: u64,
        touch: StepAccess,
    ) -> BankAddress {
        let lap_bytes = self.map.lap_units.wrapping_mul(self.map.unit_bytes);
        let units = laps.exact_mul(self.map.lap_units);
        self.steps_left = self.steps_left.exact_sub(units);
        let unit_bytes = u128::from(touch.bytes) * u128::from(touch.weight);
        self.covered_bytes = self.covered_bytes.capped_add(unit_bytes.capped_mul(u128::from(units)));
        let long = units / UNITS_PER_BANK >= self.run.banks.len() as u64;
        let sums_up = long && touch.times == 1 && touch.begins;
        let (mut at, mut place) = (base_bytes, place);
        for _ in 0..laps {
            let to = self.bank_row(at, place);
            if !sums_up {
                self.one_by_one(at, place, to, touch);
            } else if let Some(opened) = self.opened_by_all(to.bank) {
                self.like_all(self.map.channel(place), to, opened, touch);
            } else {
                self.opens(at, place, to, touch);
            }
            at = at.wrapping_add(lap_bytes);
            place = self.map.place(at);
        }
        if sums_up {
            self.end_run();
        }
        place
    }

    /// The row of a bank, or none, that all channels have open, if they do, and if all were in the same bank
    /// before.
    fn opened_by_all(&mut self, bank: usize) -> Option<Option<u64>> {
        let count = self.channels.len();
        if let Some(row) = self.run.banks.get(bank)?.row {
            return Some(Some(row));
        }
        let (first, others) = self.banks.get(bank * count..(bank + 1) * count)?.split_first()?;
        if others.iter().any(|other| other.row != first.row) {
            return None;
        }
        if self.run.channel.bank.is_none() {
            let (before, others) = self.channels.split_first()?;
            if others.iter().any(|other| (other.rank, other.bank) != (before.rank, before.bank)) {
                return None;
            }
            (self.run.channel.rank, self.run.channel.bank) = (before.rank, before.bank);
        }
        Some(first.row)
    }

    /// The first lap of a bank in a run that sums up, where channels differ.
    fn opens(&mut self, base_bytes: u64, place: BankAddress, to: BankRow, touch: StepAccess) {
        self.hand_over_last();
        self.one_by_one(base_bytes, place, to, touch);
        (self.run.channel.rank, self.run.channel.bank) = (Some(to.rank), Some(to.bank));
        if let Some(bank) = self.run.banks.get_mut(to.bank) {
            bank.row = Some(to.row);
        }
    }

    /// A lap counted channel by channel.
    fn one_by_one(&mut self, base_bytes: u64, place: BankAddress, to: BankRow, touch: StepAccess) {
        let (mut at, mut place) = (base_bytes, place);
        for _ in 0..self.map.lap_units {
            self.step(self.map.channel(place), to, touch);
            place = self.map.next(place, at);
            at = at.wrapping_add(self.map.unit_bytes);
        }
    }

    /// A lap that adds the same on every channel: all have this row of the bank open.
    fn like_all(&mut self, first: usize, to: BankRow, opened: Option<u64>, touch: StepAccess) {
        let StepAccess { partial, weight, .. } = touch;
        let (count, channel) = (self.channels.len(), &mut self.run.channel);
        let row_switch = !partial && opened.is_some_and(|last| last != to.row);
        let back_to_back = row_switch && channel.bank == Some(to.bank);
        let counted = |so: bool| if so { weight } else { 0 };
        channel.accesses = channel.accesses.capped_add(weight);
        channel.partial_writes = channel.partial_writes.capped_add(counted(partial));
        channel.row_switches = channel.row_switches.capped_add(counted(row_switch));
        channel.back_to_back = channel.back_to_back.capped_add(counted(back_to_back));
        let changes_rank = channel.rank.is_some_and(|last| last != to.rank);
        channel.rank_changes = channel.rank_changes.capped_add(counted(changes_rank));
        (channel.rank, channel.bank) = (Some(to.rank), Some(to.bank));
        if let Some(bank) = self.run.banks.get_mut(to.bank) {
            bank.add(weight, counted(partial), counted(row_switch));
            bank.row = Some(to.row);
        }
        let (group, bank) = (to.group * count + first, to.bank * count + first);
        let access =
            WindowAccess { channel: first, group, bank, partial, row_switch, back_to_back, begins: true };
        self.window.send_lap(access, &self.run.order);
    }

    /// Tells the channels which bank the last lap was in.
    fn hand_over_last(&mut self) {
        let (rank, bank) = (self.run.channel.rank, self.run.channel.bank);
        if bank.is_some() {
            for channel in &mut self.channels {
                (channel.rank, channel.bank) = (rank, bank);
            }
        }
    }

    /// Gives the channels what was summed up.
    fn end_run(&mut self) {
        self.hand_over_last();
        let (count, groups) = (self.channels.len().max(1), self.map.groups());
        let run = std::mem::take(&mut self.run.channel);
        for channel in &mut self.channels {
            channel.accesses = channel.accesses.capped_add(run.accesses);
            channel.partial_writes = channel.partial_writes.capped_add(run.partial_writes);
            channel.row_switches = channel.row_switches.capped_add(run.row_switches);
            channel.back_to_back = channel.back_to_back.capped_add(run.back_to_back);
            channel.rank_changes = channel.rank_changes.capped_add(run.rank_changes);
        }
        let each = self.run.banks.iter_mut().zip(self.banks.chunks_mut(count)).enumerate();
        for (at, (run, banks)) in each.filter(|(_, (run, _))| run.row.is_some()) {
            let run = std::mem::take(run);
            for bank in banks {
                bank.add(run.accesses, run.partial_writes, run.row_switches);
                bank.row = run.row;
            }
            // A unit that is written in part takes no columns.
            let whole = run.accesses.exact_sub(run.partial_writes);
            for used in self.group_units.iter_mut().skip(at % groups * count).take(count) {
                *used = used.capped_add(whole);
            }
        }
    }
}
