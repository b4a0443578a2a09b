//! Bytes that somebody else holds, as those of a mapped file: memories read them where they lie.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tilewright_base::invariant::OrBroken;

/// The owner of shared bytes.
type BytesOwner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A range of bytes of an owner, which it keeps alive and unchanged.
#[derive(Clone)]
pub struct SharedBytes {
    holder: BytesOwner,
    range: Range<usize>,
}

impl SharedBytes {
    /// A part of what a holder has; `None` if it has less.
    pub fn new(holder: BytesOwner, range: Range<usize>) -> Option<SharedBytes> {
        (*holder).as_ref().get(range.clone())?;
        Some(SharedBytes { holder, range })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.holder).as_ref().get(self.range.clone()).or_broken("the owner keeps the bytes that it shares")
    }

    /// How many bytes are shared.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// A part of it; `None` if it has less.
    pub fn part(&self, first: usize, length: usize) -> Option<SharedBytes> {
        let start = self.range.start.checked_add(first)?;
        let end = start.checked_add(length).filter(|end| *end <= self.range.end)?;
        Some(SharedBytes { holder: Arc::clone(&self.holder), range: start..end })
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({:?})", self.range)
    }
}
