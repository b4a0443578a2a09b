//! One DMA command: paired loops over two address ranges (vISA book, DMA engine), and the address space of a
//! program.
//!
//! All memories of all chips lie in one space, so that a remote access looks like a local one (paper section
//! III-D). Slices follow each other at the virtual stride of 4 MiB that DMA uses (vISA book, data memory),
//! which is part of the form of programs; PEs continue the numbering.

use tilewright_base::Span;
use tilewright_num::Dtype;

use super::Count;

/// A byte in some memory of some chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

/// Memories that DMA reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryInstance {
    /// High-bandwidth memory of a chip.
    Hbm,
    /// Data memory of a slice, numbered over the chip.
    Dm {
        /// PE times slices of a PE, plus slice.
        slice: u64,
    },
    /// Scratchpad of a PE's control core.
    Spm {
        /// Which PE of the chip.
        pe: u64,
    },
}

/// An address taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLocation {
    /// Chip.
    pub chip: u64,
    /// Memory.
    pub medium: MemoryInstance,
    /// Byte in it.
    pub offset: u64,
}

const CHIP_SHIFT: u32 = 44;
/// Chips that an address can name.
pub const MOST_CHIPS: u64 = 1 << (64 - CHIP_SHIFT);
const KIND_SHIFT: u32 = 40;
/// Bytes of address that one kind of memory of a chip has.
pub const KIND_BYTES: u64 = 1 << KIND_SHIFT;
/// Log2 of the virtual stride between slices, and of the room of a scratchpad.
const SLICE_SHIFT: u32 = 22;

/// Bytes of virtual address between neighbouring slices.
pub const SLICE_STRIDE: i64 = 1 << SLICE_SHIFT;

impl Address {
    /// Puts an address together.
    pub fn new(located: MemoryLocation) -> Address {
        let (kind, inner) = match located.medium {
            MemoryInstance::Hbm => (0, located.offset),
            MemoryInstance::Dm { slice } => (1, (slice << SLICE_SHIFT) + located.offset),
            MemoryInstance::Spm { pe } => (2, (pe << SLICE_SHIFT) + located.offset),
        };
        Address((located.chip << CHIP_SHIFT) + (kind << KIND_SHIFT) + inner)
    }

    /// Puts an address together; `None` where a part is too large for its bits.
    pub fn checked(located: MemoryLocation) -> Option<Address> {
        let fits = match located.medium {
            MemoryInstance::Hbm => located.offset >> KIND_SHIFT == 0,
            MemoryInstance::Dm { slice: index } | MemoryInstance::Spm { pe: index } => {
                index >> (KIND_SHIFT - SLICE_SHIFT) == 0 && located.offset >> SLICE_SHIFT == 0
            }
        };
        (fits && located.chip >> (u64::BITS - CHIP_SHIFT) == 0).then(|| Address::new(located))
    }

    /// Takes it apart; `None` if no memory is mapped there by any machine.
    pub fn locate(self) -> Option<MemoryLocation> {
        let chip = self.0 >> CHIP_SHIFT;
        let inner = self.0 & ((1 << KIND_SHIFT) - 1);
        let (high, low) = (inner >> SLICE_SHIFT, inner & ((1 << SLICE_SHIFT) - 1));
        match (self.0 >> KIND_SHIFT) & 0xF {
            0 => Some(MemoryLocation { chip, medium: MemoryInstance::Hbm, offset: inner }),
            1 => Some(MemoryLocation { chip, medium: MemoryInstance::Dm { slice: high }, offset: low }),
            2 => Some(MemoryLocation { chip, medium: MemoryInstance::Spm { pe: high }, offset: low }),
            _ => None,
        }
    }

    /// An address so many bytes on; `None` past either end of the space.
    pub fn step(self, bytes: i64) -> Option<Address> {
        self.0.checked_add_signed(bytes).map(Address)
    }
}

/// A DMA command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its name.
    pub name: String,
    /// First byte read.
    pub source: Address,
    /// First byte written.
    pub target: Address,
    /// Outermost first.
    pub loops: Vec<TransferLoop>,
    /// Contiguous bytes of the innermost step, on both sides.
    pub packet: u64,
    /// Rows by index.
    pub index: Option<TransferIndex>,
    /// Source span of the statement.
    pub span: Span,
}

/// One loop of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferLoop {
    /// Iterations.
    pub size: Count,
    /// Bytes between iterations at the source.
    pub source: i64,
    /// Bytes between iterations at the target.
    pub target: i64,
}

/// Gather or scatter: iteration `i` of the outermost loop goes to the row that a table names.
///
/// A table in HBM holds byte offsets, a table in data memory row numbers, which are multiplied by the loop's
/// stride (vISA book).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferIndex {
    /// First entry.
    pub table: Address,
    /// Type of the entries: i32 or u32.
    pub dtype: Dtype,
    /// Rows of the target rather than the source.
    pub scatter: bool,
}
