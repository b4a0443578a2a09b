//! The address map of off-chip memory: stack bits, channel bits with further address bits exclusive-ored in, banks and rows
//! (vISA book, memory performance; positions are the machine's).

use tilewright_machine::tcp::Tcp;

/// Most bits of a stack or channel number that are used.
const BITS: usize = 16;
/// Most bits of a group, bank or rank number that are used: the machine has no more than 16 of each.
const DIGITS: usize = 4;

/// Masks of the address bits that tell channels, banks and rows apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    /// Each bit of the channel number is the parity of the address under its mask; stack bits first.
    masks: [u64; BITS],
    bits: usize,
    channels: usize,
    groups: Digits,
    banks: Digits,
    ranks: Digits,
    row_mask: u64,
    pub(super) unit_bytes: u64,
    /// Bytes of an aligned block in which every channel meets every bank that its address can name equally often, and one row of each;
    /// 0 if blocks do not.
    pub(super) block_bytes: u64,
    /// Bytes after which neighbouring blocks lie in other banks.
    pub(super) blocks_alike_bytes: u64,
}

/// Address bits that number something.
#[derive(Clone, Copy, Debug)]
struct Digits {
    positions: [u8; DIGITS],
    count: usize,
}

impl Digits {
    /// As many of the positions as numbers below `count` need.
    fn new(positions: &[u64], count: u64) -> Digits {
        let mut digits = Digits { positions: [0; DIGITS], count: 0 };
        for (slot, position) in digits.positions.iter_mut().zip(positions).take(numbered_bits(count)) {
            *slot = u8::try_from((*position).min(63)).unwrap_or(63);
            digits.count += 1;
        }
        digits
    }

    fn of(&self, at_bytes: u64) -> usize {
        let bits = self.positions.iter().take(self.count).enumerate();
        bits.fold(0, |number, (i, position)| number | usize::from(at_bytes >> position & 1 == 1) << i)
    }

    fn mask(&self) -> u64 {
        self.positions.iter().take(self.count).fold(0, |mask, position| mask | 1 << position)
    }
}

impl Map {
    pub(super) fn new(machine: &Tcp) -> Map {
        let hbm = &machine.hbm;
        let hashed = |position: u64| {
            hbm.channel_hash_offsets.iter().fold(0, |mask, offset| mask ^ bit(position + offset))
        };
        let stack = hbm.stack_bit_positions.iter().map(|&position| bit(position));
        let channel = hbm.channel_bit_positions.iter().map(|&position| hashed(position));
        let stacked = numbered_bits(hbm.stacks);
        let mut map = Map {
            masks: [0; BITS],
            bits: 0,
            channels: usize::try_from(machine.hbm_channels()).unwrap_or(1),
            groups: Digits::new(&hbm.bank_group_bit_positions, hbm.bank_groups),
            banks: Digits::new(&hbm.bank_bit_positions, hbm.banks_per_group),
            ranks: Digits::new(&hbm.rank_bit_positions, hbm.ranks),
            row_mask: mask(&hbm.row_bit_positions),
            unit_bytes: hbm.access_bytes,
            block_bytes: 0,
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
        let above = bank_mask & !map.block_bytes.wrapping_sub(1);
        map.blocks_alike_bytes = if above == 0 { 1 << 63 } else { 1 << above.trailing_zeros() };
        map
    }

    /// The channel, counted over all stacks.
    pub(super) fn channel(&self, at_bytes: u64) -> usize {
        let bit = |i: usize| usize::from((at_bytes & self.masks[i]).count_ones() % 2 == 1) << i;
        let number = (0..self.bits).fold(0, |number, i| number | bit(i));
        if number < self.channels { number } else { number % self.channels.max(1) }
    }

    /// The bank of a channel, counted over its groups and ranks.
    pub(super) fn bank(&self, at_bytes: u64) -> usize {
        let group = self.groups.of(at_bytes);
        let bank = self.banks.of(at_bytes) << self.groups.count;
        group | bank | self.rank(at_bytes) << (self.groups.count + self.banks.count)
    }

    /// Banks that a channel has, by number.
    pub(super) fn banks(&self) -> usize {
        1 << (self.groups.count + self.banks.count + self.ranks.count)
    }

    pub(super) fn rank(&self, at_bytes: u64) -> usize {
        self.ranks.of(at_bytes)
    }

    pub(super) fn group(&self, at_bytes: u64) -> usize {
        self.groups.of(at_bytes)
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

    /// Bytes up to the lowest bit of a row if, in an aligned block of as many, every channel meets each bank equally often: the bits
    /// above the unit give every channel once whatever the other bits are, and bits of banks lie above those.
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
        let block_bytes = 1_u64.checked_shl(self.row_mask.trailing_zeros()).unwrap_or(0);
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
