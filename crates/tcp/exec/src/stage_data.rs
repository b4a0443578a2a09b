//! What passes from one engine to the next on a slice: flits or words.

use std::borrow::Cow;
use std::sync::Arc;

use super::packets::Packets;
use super::vector::SharedWords;

/// The data between two engines on one slice.
pub(super) enum StageData<'s> {
    /// Flits, perhaps those of other slices too.
    Flits(Cow<'s, Packets>),
    /// Words of whole flits, perhaps those of other slices too.
    Words(SharedWords),
}

impl StageData<'_> {
    /// Whether two are the same.
    pub(super) fn is(&self, other: &StageData<'_>) -> bool {
        match (self, other) {
            (StageData::Flits(one), StageData::Flits(other)) => {
                std::ptr::eq(one.as_ref(), other.as_ref()) || one == other
            }
            (StageData::Words(one), StageData::Words(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => false,
        }
    }
}
