//! Bytes that somebody else holds, as those of a mapped file: memories read them where they lie.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Who holds the bytes.
type Holder = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A part of somebody's bytes, which stay as long as it does.
#[derive(Clone)]
pub struct Lent {
    holder: Holder,
    range: Range<usize>,
}

impl Lent {
    /// A part of what a holder has; `None` if it has less.
    pub fn new(holder: Holder, range: Range<usize>) -> Option<Lent> {
        (*holder).as_ref().get(range.clone())?;
        Some(Lent { holder, range })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.holder).as_ref().get(self.range.clone()).unwrap_or_default()
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// A part of it; `None` if it has less.
    pub(super) fn part(&self, first: usize, length: usize) -> Option<Lent> {
        let start = self.range.start.checked_add(first)?;
        let end = start.checked_add(length).filter(|end| *end <= self.range.end)?;
        Some(Lent { holder: Arc::clone(&self.holder), range: start..end })
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({:?})", self.range)
    }
}
