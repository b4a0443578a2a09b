//! Words, and the parts of flits that writes are made of.

/// Bytes of a 32-bit word.
pub(super) const WORD_BYTES: u64 = 4;

/// The largest of one flit, half of it and so on that divides.
pub(super) fn whole_part(bytes: u64, flit_bytes: u64) -> u64 {
    let mut part = flit_bytes;
    while !bytes.is_multiple_of(part) {
        part /= 2;
    }
    part
}
