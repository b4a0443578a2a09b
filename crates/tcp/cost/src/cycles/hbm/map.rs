//! The address map of off-chip memory: stack bits, channel bits with further address bits exclusive-ored in,
//! banks and rows (vISA book, memory performance; positions are the machine's).

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_machine::tcp::Tcp;

/// Most bits of a stack or channel number that are used.
const BITS: usize = 16;
/// Most bits of a group, bank or rank number that are used: the machine has no more than 16 of each.
const DIGITS: usize = 4;
/// Hexadecimal digits of an address.
const HEX_DIGITS: usize = 16;

/// Masks of the address bits that tell channels, banks and rows apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressMap {
    /// Each bit of the channel number is the parity of the address under its mask; stack bits first.
    masks: [u64; BITS],
    bits: usize,
    channels: usize,
    groups: AddressBits,
    banks: AddressBits,
    ranks: AddressBits,
    row_mask: u64,
    /// The place of each value of each hexadecimal digit of an address, lowest digit first.
    digit_places: [[u32; 16]; HEX_DIGITS],
    /// Digits up to the highest that tells places apart.
    placed_digits: usize,
    /// What changes of a place from one unit to the next, by the highest address bit that changes; units of a
    /// power of two only.
    steps: [u32; 64],
    pub(super) unit_bytes: u64,
    /// Bytes of an aligned block in which every channel meets every bank that its address can name equally
    /// often, and one row of each; 0 if blocks do not.
    pub(super) block_bytes: u64,
    /// Units of an aligned lap, which meets every channel once, in one bank and one row; 0 if laps do not.
    pub(super) lap_units: u64,
    /// Bytes after which neighbouring blocks lie in other banks.
    pub(super) blocks_alike_bytes: u64,
}

/// Channel and bank of an address. Every bit of both is a parity of address bits, so places of addresses that
/// differ in some bits differ by those of these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BankAddress(u32);

/// Address bits that number something.
#[derive(Clone, Copy, Debug)]
struct AddressBits {
    positions: [u8; DIGITS],
    count: usize,
}

impl AddressBits {
    /// As many of the positions as numbers below `count` need.
    fn new(positions: &[u64], count: u64) -> AddressBits {
        let mut digits = AddressBits { positions: [0; DIGITS], count: 0 };
        for (slot, position) in digits.positions.iter_mut().zip(positions).take(numbered_bits(count)) {
            *slot = u8::try_from((*position).min(63)).unwrap_or(63);
            digits.count += 1;
        }
        digits
    }

    fn of(&self, at_bytes: u64) -> u32 {
        let bits = self.positions.iter().take(self.count).enumerate();
        bits.fold(0, |number, (i, position)| number | u32::from(at_bytes >> position & 1 == 1) << i)
    }

    fn mask(&self) -> u64 {
        self.positions.iter().take(self.count).fold(0, |mask, position| mask | 1 << position)
    }
}

impl AddressMap {
    pub(super) fn new(machine: &Tcp) -> AddressMap {
        let hbm = &machine.hbm;
        let hashed = |position: u64| {
            hbm.channel_hash_offsets.iter().fold(0, |mask, offset| mask ^ bit(position + offset))
        };
        let stack = hbm.stack_bit_positions.iter().map(|&position| bit(position));
        let channel = hbm.channel_bit_positions.iter().map(|&position| hashed(position));
        let stacked = numbered_bits(hbm.stacks);
        let mut map = AddressMap {
            masks: [0; BITS],
            bits: 0,
            channels: to_index(machine.hbm_channels()),
            groups: AddressBits::new(&hbm.bank_group_bit_positions, hbm.bank_groups),
            banks: AddressBits::new(&hbm.bank_bit_positions, hbm.banks_per_group),
            ranks: AddressBits::new(&hbm.rank_bit_positions, hbm.ranks),
            row_mask: mask(&hbm.row_bit_positions),
            digit_places: [[0; 16]; HEX_DIGITS],
            placed_digits: 0,
            steps: [0; 64],
            unit_bytes: hbm.access_bytes,
            block_bytes: 0,
            lap_units: 0,
            blocks_alike_bytes: 0,
        };
        for parity in stack.take(stacked).chain(channel.take(numbered_bits(hbm.channels_per_stack))) {
            if let Some(slot) = map.masks.get_mut(map.bits) {
                *slot = parity;
                map.bits += 1;
            }
        }
        let bank_mask = map.groups.mask() | map.banks.mask() | map.ranks.mask();
        map.block_bytes = map.whole_blocks(bank_mask);
        // Bits of banks and rows lie above those of a lap wherever blocks are whole.
        map.lap_units = if map.block_bytes > 0 { map.channels as u64 } else { 0 };
        let above = bank_mask & !map.block_bytes.wrapping_sub(1);
        map.blocks_alike_bytes = if above == 0 { 1 << 63 } else { 1 << above.trailing_zeros() };
        map.tabulate();
        map
    }

    /// Fills in the tables of places.
    fn tabulate(&mut self) {
        let mut step = 0;
        for bit in 0..64 {
            let place = self.place_by_bits(1 << bit).0;
            let (digit, value) = (bit / 4, 1_usize << (bit % 4));
            for below in 0..value {
                self.digit_places[digit][value + below] = self.digit_places[digit][below] ^ place;
            }
            if place != 0 {
                self.placed_digits = digit + 1;
            }
            if bit >= self.unit_bytes.trailing_zeros() as usize {
                step ^= place;
                self.steps[bit] = step;
            }
        }
    }

    /// The place of an address.
    #[inline]
    pub(super) fn place(&self, at_bytes: u64) -> BankAddress {
        let (mut place, mut digits) = (0, at_bytes);
        for places in self.digit_places.iter().take(self.placed_digits) {
            place ^= places[(digits & 15) as usize];
            digits >>= 4;
        }
        BankAddress(place)
    }

    /// The place of an address, each of its bits gathered from the address.
    fn place_by_bits(&self, at_bytes: u64) -> BankAddress {
        let bit = |i: usize| u32::from((at_bytes & self.masks[i]).count_ones() % 2 == 1) << i;
        let channel = (0..self.bits).fold(0, |number, i| number | bit(i));
        let group = self.groups.of(at_bytes);
        let bank = self.banks.of(at_bytes) << self.groups.count;
        let rank = self.ranks.of(at_bytes) << (self.groups.count + self.banks.count);
        BankAddress(channel | (group | bank | rank) << BITS)
    }

    /// The place of the unit behind one.
    pub(super) fn next(&self, place: BankAddress, at_bytes: u64) -> BankAddress {
        let next = at_bytes.wrapping_add(self.unit_bytes);
        if !self.unit_bytes.is_power_of_two() {
            return self.place(next);
        }
        let highest = (at_bytes ^ next).checked_ilog2().or_broken("the next unit is another");
        BankAddress(place.0 ^ self.steps[highest as usize & 63])
    }

    /// The channel, counted over all stacks.
    pub(super) fn channel(&self, place: BankAddress) -> usize {
        let number = (place.0 & ((1 << BITS) - 1)) as usize;
        if number < self.channels { number } else { number % self.channels.max(1) }
    }

    /// The bank of a channel, counted over its groups and ranks.
    pub(super) fn bank(&self, place: BankAddress) -> usize {
        (place.0 >> BITS) as usize
    }

    /// Banks that a channel has, by number.
    pub(super) fn banks(&self) -> usize {
        1 << (self.groups.count + self.banks.count + self.ranks.count)
    }

    pub(super) fn rank(&self, place: BankAddress) -> usize {
        self.bank(place) >> (self.groups.count + self.banks.count)
    }

    pub(super) fn group(&self, place: BankAddress) -> usize {
        self.bank(place) & (self.groups() - 1)
    }

    /// Bank groups of a channel; those of all ranks with one number count as one.
    pub(super) fn groups(&self) -> usize {
        1 << self.groups.count
    }

    /// The row, as the address bits that tell it from others.
    pub(super) fn row(&self, at_bytes: u64) -> u64 {
        at_bytes & self.row_mask
    }

    /// Bytes before the first whole block of a run, and its whole blocks, if there are any.
    pub(super) fn blocks(&self, base_bytes: u64, run_bytes: u64) -> Option<(u64, u64)> {
        let into = base_bytes.checked_rem(self.block_bytes)?;
        let head = (self.block_bytes - into) % self.block_bytes;
        let blocks = run_bytes.checked_sub(head)? / self.block_bytes;
        (blocks > 0).then_some((head, blocks))
    }

    /// Bytes up to the lowest bit of a row if, in an aligned block of as many, every channel meets each bank
    /// equally often: the bits above the unit give every channel once whatever the other bits are, and bits
    /// of banks lie above those.
    fn whole_blocks(&self, bank_mask: u64) -> u64 {
        let unit = self.unit_bytes;
        let each_bytes = unit.wrapping_mul(self.channels as u64);
        let channel_bits = each_bytes.wrapping_sub(unit);
        let mut seen = 0;
        let each_once = self.masks[..self.bits].iter().all(|parity| {
            let own = parity & channel_bits;
            let fresh = own.count_ones() == 1 && seen & own == 0;
            seen |= own;
            fresh
        });
        let whole = unit.is_power_of_two() && self.channels == 1 << self.bits;
        let block_bytes = 1_u64.unbounded_shl(self.row_mask.trailing_zeros());
        let above = bank_mask & each_bytes.wrapping_sub(1) == 0 && block_bytes >= each_bytes;
        if whole && each_once && above { block_bytes } else { 0 }
    }
}

fn bit(position: u64) -> u64 {
    if position < 64 { 1 << position } else { 0 }
}

fn mask(positions: &[u64]) -> u64 {
    positions.iter().fold(0, |mask, &position| mask | bit(position))
}

/// Binary digits of the numbers below `count`.
fn numbered_bits(count: u64) -> usize {
    count.checked_next_power_of_two().unwrap_or(1 << 63).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tilewright_base::Sources;
    use tilewright_machine::{Tcp, builtin, load};

    use super::AddressMap;

    fn tcp() -> Tcp {
        let mut sources = Sources::default();
        let id = sources.add("tcp", builtin("tcp").unwrap());
        load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
    }

    proptest! {
        #[test]
        fn the_next_place_is_that_of_the_next_address(
            at_bytes: u64,
            unit_bits in 5_u32..12,
            odd in 0_u64..2,
        ) {
            let mut machine = tcp();
            machine.hbm.access_bytes = (1 << unit_bits) + 32 * odd;
            let map = AddressMap::new(&machine);
            let next = at_bytes.wrapping_add(map.unit_bytes);
            prop_assert_eq!(map.next(map.place(at_bytes), at_bytes), map.place(next));
            prop_assert_eq!(map.place(at_bytes), map.place_by_bits(at_bytes));
        }
    }
}
