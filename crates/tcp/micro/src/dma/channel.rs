//! A channel of HBM: a command queue, banks with one open row each, and the distance of column commands (vISA
//! book, memory performance).
//!
//! A unit is read by column commands, each as long as two commands of different bank groups must be apart.
//! First ready, first come, first served: the oldest access whose row is open goes first; a bank switches to
//! the row of its oldest access once nothing in the queue wants the row that is open. A unit that is written
//! in part blocks the channel for as long as reading, changing and writing it takes.

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;

use super::address::HbmPlace;
use super::{RequestId, RowSwitches};

/// One unit that is read or written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) place: HbmPlace,
    /// Written in part.
    pub(crate) partial_write: bool,
    pub(crate) of: RequestId,
}

#[derive(Clone, Debug)]
struct Queued {
    access: Access,
    bank: usize,
    columns_left: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    open_row: Option<u64>,
    ready_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    tick: u64,
    rank: u64,
    group: u64,
}

/// A channel at work; a tick is a period of the memory's command clock.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    switches: RowSwitches,
    queue: Vec<Queued>,
    queue_entries: usize,
    groups: u64,
    banks_per_group: u64,
    banks: Vec<Bank>,
    columns_per_unit: u64,
    other_group_ticks: u64,
    other_rank_ticks: u64,
    same_group_ticks: u64,
    row_switch_ticks: u64,
    partial_write_ticks: u64,
    /// As many last column commands as can still matter.
    recent: Vec<Column>,
    blocked_until: u64,
    switch_free_at: u64,
    finishing: Vec<(u64, RequestId)>,
    pub(crate) served: u64,
    pub(crate) switched: u64,
}

impl Channel {
    pub(crate) fn new(machine: &Tcp, switches: RowSwitches) -> Channel {
        let hbm = &machine.hbm;
        let ticks = |time: u64, per_s: u64| scaled(time, hbm.timing_clock_hz, per_s);
        let unit_ticks = ticks(hbm.access_bytes, hbm.channel_bytes_per_cycle * hbm.channel_clock_hz);
        let ranks = 1 << hbm.rank_bit_positions.len().min(16);
        Channel {
            switches,
            queue: Vec::new(),
            queue_entries: to_index(hbm.queue_entries),
            groups: hbm.bank_groups,
            banks_per_group: hbm.banks_per_group,
            banks: vec![Bank::default(); to_index(ranks * hbm.bank_groups * hbm.banks_per_group)],
            columns_per_unit: unit_ticks.div_ceil(hbm.other_group_cycles.max(1)).max(1),
            other_group_ticks: hbm.other_group_cycles,
            other_rank_ticks: hbm.other_rank_cycles,
            same_group_ticks: hbm.same_group_cycles,
            row_switch_ticks: ticks(hbm.row_switch_ns, 1_000_000_000),
            partial_write_ticks: ticks(hbm.partial_write_cycles, machine.chip.clock_hz),
            recent: Vec::new(),
            blocked_until: 0,
            switch_free_at: 0,
            finishing: Vec::new(),
            served: 0,
            switched: 0,
        }
    }

    pub(crate) fn room(&self) -> usize {
        self.queue_entries.saturating_sub(self.queue.len())
    }

    pub(crate) fn push(&mut self, access: Access) {
        let HbmPlace { rank, group, bank, .. } = access.place;
        let bank = to_index((rank * self.groups + group) * self.banks_per_group + bank) % self.banks.len();
        self.queue.push(Queued { access, bank, columns_left: self.columns_per_unit });
    }

    /// One tick; the requests whose access ends with it.
    pub(crate) fn step(&mut self, tick: u64) -> Vec<RequestId> {
        if tick >= self.blocked_until {
            self.issue_column(tick);
        }
        self.switch_row(tick);
        if self.finishing.iter().all(|&(end, _)| end > tick) {
            return Vec::new();
        }
        let done = self.finishing.iter().filter(|&&(end, _)| end <= tick).map(|&(_, of)| of).collect();
        self.finishing.retain(|&(end, _)| end > tick);
        done
    }

    fn issue_column(&mut self, tick: u64) {
        let ready = |queued: &Queued| {
            let bank = &self.banks[queued.bank];
            bank.open_row == Some(queued.access.place.row) && bank.ready_at <= tick
        };
        let next = self.queue.iter().position(|q| ready(q) && self.is_apart(tick, &q.access.place));
        let Some(next) = next else { return };
        let Access { place, partial_write, of } = self.queue[next].access;
        self.recent.retain(|column| column.tick + self.same_group_ticks > tick);
        self.recent.push(Column { tick, rank: place.rank, group: place.group });
        if partial_write {
            self.blocked_until = tick + self.partial_write_ticks;
            self.finish(next, self.blocked_until, of);
            return;
        }
        self.queue[next].columns_left -= 1;
        if self.queue[next].columns_left == 0 {
            self.finish(next, tick + self.other_group_ticks, of);
        }
    }

    fn finish(&mut self, queued: usize, end: u64, of: RequestId) {
        self.queue.remove(queued);
        self.finishing.push((end - 1, of));
        self.served += 1;
    }

    /// Whether a column command keeps its distance from those before it.
    fn is_apart(&self, tick: u64, place: &HbmPlace) -> bool {
        self.recent.iter().all(|column| {
            let ticks = if column.rank != place.rank {
                self.other_rank_ticks
            } else if column.group != place.group {
                self.other_group_ticks
            } else {
                self.same_group_ticks
            };
            column.tick + ticks <= tick
        })
    }

    fn switch_row(&mut self, tick: u64) {
        if self.switches == RowSwitches::OneAtATime && self.switch_free_at > tick {
            return;
        }
        let wanted = self.queue.iter().find(|queued| {
            let bank = &self.banks[queued.bank];
            let open = bank.open_row;
            let held = |other: &Queued| other.bank == queued.bank && Some(other.access.place.row) == open;
            open != Some(queued.access.place.row) && bank.ready_at <= tick && !self.queue.iter().any(held)
        });
        let Some((bank, row)) = wanted.map(|queued| (queued.bank, queued.access.place.row)) else { return };
        let ready_at = tick + self.row_switch_ticks;
        self.banks[bank] = Bank { open_row: Some(row), ready_at };
        self.switch_free_at = ready_at;
        self.switched += 1;
    }
}

/// `value * numerator / denominator`, rounded up.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    u64::try_from(product.div_ceil(u128::from(denominator.max(1)))).unwrap_or(u64::MAX)
}
