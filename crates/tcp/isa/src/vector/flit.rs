//! Words of a flit, as the stages of the vector engine count them.

/// Words of a flit.
pub const FLIT_WORDS: u64 = 8;
/// Words that narrow stages take at once: half a flit.
pub const HALF_WORDS: u64 = 4;
/// The tag bit that tells the groups of pair mode apart.
pub const GROUP_TAG: u8 = 1 << 3;
