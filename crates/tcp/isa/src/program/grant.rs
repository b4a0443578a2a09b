//! What the address translation of a PE lets through (paper section III-D: unauthorised accesses are refused,
//! PEs may share a space).

use tilewright_base::Span;

use super::transfer::Address;

/// Lets PEs touch a range of addresses. A program without grants shares everything; with any, a PE may touch
/// its own data memory and scratchpad, and what it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Chip of the PEs.
    pub chip: u64,
    /// First PE of the chip and one past the last.
    pub pes: (u64, u64),
    /// First byte.
    pub first: Address,
    /// Number of bytes.
    pub bytes: u64,
    /// Writing too.
    pub write: bool,
    /// Source span of the statement.
    pub span: Span,
}
