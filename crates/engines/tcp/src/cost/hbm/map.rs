//! The address map of off-chip memory: stack bits, channel bits with further address bits exclusive-ored in, banks and rows
//! (vISA book, memory performance; positions are the machine's).

use tilewright_machine::tcp::Tcp;

/// Most bits of a stack or channel number that are used.
const BITS: usize = 16;

/// Masks of the address bits that tell channels, banks and rows apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    /// Each bit of the channel number is the parity of the address under its mask; stack bits first.
    masks: [u64; BITS],
    bits: usize,
    channels: usize,
    bank_mask: u64,
    row_mask: u64,
    pub(super) unit_bytes: u64,
    /// Units of an aligned block that touches every channel once; 0 if blocks do not.
    pub(super) block_units: u64,
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
            bank_mask: mask(&hbm.bank_group_bit_positions)
                | mask(&hbm.bank_bit_positions)
                | mask(&hbm.rank_bit_positions),
            row_mask: mask(&hbm.row_bit_positions),
            unit_bytes: hbm.access_bytes,
            block_units: 0,
        };
        for parity in stack.take(stacked).chain(channel.take(numbered_bits(hbm.channels_per_stack))) {
            if let Some(slot) = map.masks.get_mut(map.bits) {
                *slot = parity;
                map.bits += 1;
            }
        }
        map.block_units = map.whole_blocks();
        map
    }

    /// The channel, counted over all stacks.
    pub(super) fn channel(&self, at_bytes: u64) -> usize {
        let bit = |i: usize| usize::from((at_bytes & self.masks[i]).count_ones() % 2 == 1) << i;
        let number = (0..self.bits).fold(0, |number, i| number | bit(i));
        if number < self.channels { number } else { number % self.channels.max(1) }
    }

    /// Both lie in one bank of a channel, but in different rows.
    pub(super) fn switches_row(&self, last_bytes: u64, at_bytes: u64) -> bool {
        let differs = last_bytes ^ at_bytes;
        differs & self.bank_mask == 0 && differs & self.row_mask != 0
    }

    /// Head units before the first block of a run, and its blocks, if there are enough for a shortcut.
    pub(super) fn blocks(&self, base_bytes: u64, units: u64) -> Option<(u64, u64)> {
        let block = self.block_units;
        if units < 3 * block {
            return None;
        }
        let into = (base_bytes / self.unit_bytes).checked_rem(block)?;
        let head = (block - into) % block;
        let blocks = units.checked_sub(head)? / block;
        (blocks > 2).then_some((head, blocks))
    }

    /// Units that are walked for a run of `units`.
    pub(super) fn walked(&self, units: u64) -> u64 {
        if self.block_units == 0 { units } else { units.min(4 * self.block_units) }
    }

    /// Units of a block if, within one, the bits above the unit give every channel once, whatever the bits above the block
    /// are; and if neighbouring blocks differ in bank, so that no row changes between them.
    fn whole_blocks(&self) -> u64 {
        let channels = self.channels as u64;
        let block_bits = bit(u64::from(self.unit_bytes.trailing_zeros()))
            .wrapping_mul(channels)
            .wrapping_sub(self.unit_bytes);
        let next = block_bits.wrapping_add(self.unit_bytes);
        let mut seen = 0;
        let each_once = self.masks[..self.bits].iter().all(|parity| {
            let own = parity & block_bits;
            let fresh = own.count_ones() == 1 && seen & own == 0;
            seen |= own;
            fresh
        });
        let whole = self.unit_bytes.is_power_of_two() && self.channels == 1 << self.bits;
        if whole && each_once && next & self.bank_mask != 0 { channels } else { 0 }
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
