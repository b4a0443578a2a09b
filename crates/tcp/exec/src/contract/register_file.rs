//! The contraction engine's register file, as a contraction reads it.

/// A slice's register file.
#[derive(Clone, Copy, Debug)]
pub struct RegisterFileView<'a> {
    /// Payload; missing bytes are zero.
    pub bytes: &'a [u8],
    /// Extra bits of i5 and i9, as [`Packets`](crate::packets::Packets) has them.
    pub extra: Option<&'a [u8]>,
}
