//! An address of HBM taken apart: channel, bank and row (vISA book, memory performance, address space).

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;

/// Where a byte lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HbmPlace {
    /// Of all stacks.
    pub(crate) channel: usize,
    /// A stack's slice in the book's words.
    pub(crate) rank: u64,
    pub(crate) group: u64,
    /// Within its group.
    pub(crate) bank: u64,
    pub(crate) row: u64,
}

impl HbmPlace {
    pub(crate) fn of(machine: &Tcp, address_bytes: u64) -> HbmPlace {
        let hbm = &machine.hbm;
        let plain = |positions: &[u64]| gather(positions.iter().map(|&at| bit(address_bytes, at)));
        let stack = plain(&hbm.stack_bit_positions);
        let hashed = hbm.channel_bit_positions.iter().map(|&at| {
            hbm.channel_hash_offsets.iter().fold(0, |sum, &offset| sum ^ bit(address_bytes, at + offset))
        });
        let channel = stack * hbm.channels_per_stack + gather(hashed) % hbm.channels_per_stack.max(1);
        HbmPlace {
            channel: to_index(channel % machine.hbm_channels().max(1)),
            rank: plain(&hbm.rank_bit_positions),
            group: plain(&hbm.bank_group_bit_positions),
            bank: plain(&hbm.bank_bit_positions),
            row: plain(&hbm.row_bit_positions),
        }
    }
}

fn bit(address_bytes: u64, at: u64) -> u64 {
    address_bytes.checked_shr(u32::try_from(at).unwrap_or(u32::MAX)).unwrap_or(0) & 1
}

/// The least significant bit first.
fn gather(bits: impl Iterator<Item = u64>) -> u64 {
    bits.enumerate().fold(0, |value, (index, bit)| value | bit << index.min(63))
}
