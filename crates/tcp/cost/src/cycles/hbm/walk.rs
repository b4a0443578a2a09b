//! The walk of a loop nest through the channels of off-chip memory (requests and access units: vISA book, DMA
//! engine).
//!
//! Nests are walked packet by packet, in order, with two shortcuts that change no count: repeats (stride 0)
//! are walked a few times, and whole blocks of a contiguous run meet every bank of every channel equally
//! often. Whole laps of a run, which meet every channel once in one bank and row, are counted in `laps`. Of a
//! nest that takes more than [`WALKED_UNITS`](super::WALKED_UNITS) steps only the beginning is walked, and
//! what was counted stands for the rest in proportion: the answer then says that it is no exact count. More
//! iterations never give less: those of the outermost loop add to the same beginning.

use tilewright_machine::tcp::Tcp;

use super::map::BankAddress;
use super::window::WindowAccess;
use super::{Direction, HbmAccess, HbmChannels};
use crate::cycles::dma::packet_requests;
use tilewright_tcp_isa::capped::Capped;

/// What one step takes of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepAccess {
    /// Accesses of one unit, one right after the other.
    pub(super) times: u64,
    /// Bytes of the packet that they cover.
    pub(super) bytes: u64,
    /// They write the unit in part.
    pub(super) partial: bool,
    /// The last of them is the first of its request.
    pub(super) begins: bool,
    /// How many such steps it stands for.
    pub(super) weight: u64,
}

/// Bank and row of a unit within its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct BankRow {
    /// Counted over groups and ranks.
    pub(super) bank: usize,
    pub(super) group: usize,
    pub(super) rank: usize,
    /// The address bits that tell it from other rows.
    pub(super) row: u64,
}

impl HbmChannels {
    /// Walks a nest, each step of which counts so many times. False if steps ran out.
    pub(super) fn nest(&mut self, machine: &Tcp, access: &HbmAccess, weight: u64) -> bool {
        let Some((outer, inner)) = access.loops_bytes.split_first() else {
            return self.packet(machine, access, weight);
        };
        let body = HbmAccess { loops_bytes: inner, ..*access };
        if outer.stride == 0 && outer.size > 1 {
            return self.repeats(machine, &body, outer.size, weight);
        }
        (0..outer.size).all(|step| {
            let base_bytes = access.base_bytes.wrapping_add(step.wrapping_mul(outer.stride));
            self.nest(machine, &HbmAccess { base_bytes, ..body }, weight)
        })
    }

    /// The same accesses so many times: walked until the window was full twice, and as often again for the
    /// others, which the last stands for.
    fn repeats(&mut self, machine: &Tcp, body: &HbmAccess, size: u64, weight: u64) -> bool {
        let packets = body.loops_bytes.iter().fold(1_u64, |all, row| all.capped_mul(row.size));
        let requests = packets.capped_mul(packet_requests(machine, body.packet_bytes)).max(1);
        let full = self.window.requests().capped_mul(2).div_ceil(requests);
        let (filling, walked) = (full.min(size - 1), full.max(1));
        if !(0..filling).all(|_| self.nest(machine, body, weight)) {
            return false;
        }
        let since = self.window.elapsed();
        let walked = walked.min(size - filling);
        let others = size - filling - walked;
        let done = (1..walked).all(|_| self.nest(machine, body, weight))
            && self.nest(machine, body, weight.capped_mul(others + 1));
        self.window.repeat(since, walked, others);
        done
    }

    /// Requests of one packet: whole ones as one run, then the rest.
    fn packet(&mut self, machine: &Tcp, access: &HbmAccess, weight: u64) -> bool {
        let (request_bytes, writes) = (machine.tdma.request_bytes, access.direction == Direction::Write);
        if request_bytes != machine.hbm.access_bytes {
            return self.uneven(machine, access, weight);
        }
        let (base, into) = (access.base_bytes, remainder(access.base_bytes, request_bytes));
        let (whole, rest_bytes) = if access.packet_bytes == request_bytes {
            (1, 0)
        } else {
            (access.packet_bytes / request_bytes, access.packet_bytes % request_bytes)
        };
        let one = StepAccess { times: 1, bytes: request_bytes, partial: false, begins: true, weight };
        let gone_on = if into == 0 {
            self.run(base, whole, one)
        } else if whole > 0 {
            // Each request ends in the unit in which the next begins.
            let (head, tail) = (request_bytes - into, into);
            let partial = writes;
            let first = StepAccess { bytes: head, partial, ..one };
            let both = StepAccess { times: 2, partial, ..one };
            let last = StepAccess { bytes: tail, partial, begins: false, ..one };
            let end = base.wrapping_add(whole.wrapping_mul(request_bytes));
            self.touch(base, first)
                && self.run(base.wrapping_add(head), whole - 1, both)
                && self.touch(end, last)
        } else {
            true
        };
        let rest = base.wrapping_add(whole.wrapping_mul(request_bytes));
        gone_on && self.request(machine, rest, rest_bytes, weight, writes)
    }

    /// The same where requests and access units differ in size: request by request.
    fn uneven(&mut self, machine: &Tcp, access: &HbmAccess, weight: u64) -> bool {
        let (request_bytes, writes) = (machine.tdma.request_bytes, access.direction == Direction::Write);
        (0..packet_requests(machine, access.packet_bytes)).all(|step| {
            let done = step.capped_mul(request_bytes);
            let bytes = request_bytes.min(access.packet_bytes.saturating_sub(done));
            self.request(machine, access.base_bytes.wrapping_add(done), bytes, weight, writes)
        })
    }

    /// The units of one request.
    fn request(&mut self, machine: &Tcp, base_bytes: u64, bytes: u64, weight: u64, writes: bool) -> bool {
        let unit_bytes = machine.hbm.access_bytes;
        let (mut at, mut left) = (base_bytes, bytes);
        while left > 0 {
            let covered = left.min(unit_bytes - at % unit_bytes);
            let partial = writes && covered < unit_bytes;
            let begins = left == bytes;
            if !self.touch(at, StepAccess { times: 1, bytes: covered, partial, begins, weight }) {
                return false;
            }
            at = at.wrapping_add(covered);
            left -= covered;
        }
        true
    }

    /// Units one after the other: up to the border of a block, whole blocks, the rest.
    fn run(&mut self, base_bytes: u64, units: u64, touch: StepAccess) -> bool {
        let unit_bytes = self.map.unit_bytes;
        if units.capped_mul(unit_bytes) < self.map.block_bytes {
            return self.units(base_bytes, units, touch);
        }
        let (mut at, mut left) = (base_bytes, units);
        while let Some((head, blocks)) = self.map.blocks(at, left.capped_mul(unit_bytes)) {
            let head_units = head / unit_bytes;
            if !self.units(at, head_units, touch) {
                return false;
            }
            at = at.wrapping_add(head);
            let alike = self.map.blocks_alike_bytes - at % self.map.blocks_alike_bytes;
            let blocks = blocks.min(alike / self.map.block_bytes).max(1);
            if !self.blocks(at, blocks, touch) {
                return false;
            }
            let bytes = blocks * self.map.block_bytes;
            at = at.wrapping_add(bytes);
            left -= head_units + bytes / unit_bytes;
        }
        self.units(at, left, touch)
    }

    /// Units one after the other: laps of all channels where they are whole, the others one by one.
    fn units(&mut self, base_bytes: u64, units: u64, touch: StepAccess) -> bool {
        let (unit_bytes, lap_units) = (self.map.unit_bytes, self.map.lap_units);
        let (mut at, mut place, mut left) = (base_bytes, self.map.place(base_bytes), units);
        while left > 0 {
            let fits_lap = lap_units > 0 && left >= lap_units;
            let begins_lap = fits_lap && remainder(at, lap_units * unit_bytes) == 0;
            let laps = if begins_lap { left.min(self.steps_left) / lap_units } else { 0 };
            let walked = if laps > 0 {
                place = self.laps(at, place, laps, touch);
                laps * lap_units
            } else if self.touch_place(at, place, touch) {
                place = self.map.next(place, at);
                1
            } else {
                return false;
            };
            at = at.wrapping_add(walked.wrapping_mul(unit_bytes));
            left -= walked;
        }
        true
    }

    /// Whole blocks that lie in the same banks: the first as it is, the others as often as there are.
    fn blocks(&mut self, base_bytes: u64, blocks: u64, touch: StepAccess) -> bool {
        let (unit_bytes, block_bytes) = (self.map.unit_bytes, self.map.block_bytes);
        let units = block_bytes / unit_bytes;
        let last = base_bytes.wrapping_add((blocks - 1).wrapping_mul(block_bytes));
        let again = StepAccess { weight: touch.weight.capped_mul(blocks - 1), ..touch };
        // The last block follows the first as any block follows the one before: another row of each bank.
        let first = self.units(base_bytes, units, touch);
        if !first || blocks == 1 {
            return first;
        }
        let since = self.window.elapsed();
        let done = self.units(last, units, again);
        self.window.repeat(since, 1, blocks - 2);
        done
    }

    /// One step. False, and nothing done, if there are none left.
    fn touch(&mut self, at_bytes: u64, touch: StepAccess) -> bool {
        self.touch_place(at_bytes, self.map.place(at_bytes), touch)
    }

    /// The same for an address whose place is known.
    fn touch_place(&mut self, at_bytes: u64, place: BankAddress, touch: StepAccess) -> bool {
        let Some(left) = self.steps_left.checked_sub(1) else { return false };
        self.steps_left = left;
        let bytes = u128::from(touch.bytes) * u128::from(touch.weight);
        self.covered_bytes = self.covered_bytes.capped_add(bytes);
        self.step(self.map.channel(place), self.bank_row(at_bytes, place), touch);
        true
    }

    /// Where an address lies within its channel.
    #[inline]
    pub(super) fn bank_row(&self, at_bytes: u64, place: BankAddress) -> BankRow {
        BankRow {
            bank: self.map.bank(place),
            group: self.map.group(place),
            rank: self.map.rank(place),
            row: self.map.row(at_bytes),
        }
    }

    /// Counts one step on a channel, and sends its accesses.
    #[inline]
    pub(super) fn step(&mut self, at: usize, to: BankRow, touch: StepAccess) {
        let StepAccess { times, bytes: _, partial, begins, weight } = touch;
        let count = self.channels.len();
        let (group_at, bank_at) = (to.group * count + at, to.bank * count + at);
        let accesses = times.capped_mul(weight);
        let partial_writes = if partial { accesses } else { 0 };
        if let Some(used) = self.group_units.get_mut(group_at).filter(|_| !partial) {
            *used = used.capped_add(accesses);
        }
        let Some(channel) = self.channels.get_mut(at) else { return };
        let Some(bank) = self.banks.get_mut(bank_at) else { return };
        let row_switch = !partial && bank.row.is_some_and(|last| last != to.row);
        let back_to_back = row_switch && channel.bank == Some(to.bank);
        let counted = |so: bool| if so { weight } else { 0 };
        let ranks = counted(channel.rank.is_some_and(|last| last != to.rank));
        bank.add(accesses, partial_writes, counted(row_switch));
        (bank.row, channel.rank, channel.bank) = (Some(to.row), Some(to.rank), Some(to.bank));
        channel.accesses = channel.accesses.capped_add(accesses);
        channel.partial_writes = channel.partial_writes.capped_add(partial_writes);
        channel.row_switches = channel.row_switches.capped_add(counted(row_switch));
        channel.back_to_back = channel.back_to_back.capped_add(counted(back_to_back));
        channel.rank_changes = channel.rank_changes.capped_add(ranks);
        let begins_first = begins && times == 1;
        let access = WindowAccess {
            channel: at,
            group: group_at,
            bank: bank_at,
            partial,
            row_switch,
            back_to_back,
            begins: begins_first,
        };
        self.window.send(access);
        // Of two, the first ends the request before.
        for _ in 1..times {
            self.window.send(WindowAccess { row_switch: false, back_to_back: false, begins, ..access });
        }
    }
}

/// What is left of an address beyond a border; borders are mostly powers of two.
#[inline]
fn remainder(at_bytes: u64, border_bytes: u64) -> u64 {
    if border_bytes.is_power_of_two() { at_bytes & (border_bytes - 1) } else { at_bytes % border_bytes }
}
