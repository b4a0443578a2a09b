//! What passes from one engine to the next on a slice: flits or words.

use std::borrow::Cow;
use std::sync::Arc;

use super::packets::Packets;
use super::vector::Words;

/// What is between two engines on one slice.
pub(super) enum Flow<'s> {
    /// Flits, perhaps those of other slices too.
    Flits(Cow<'s, Packets>),
    /// Words of whole flits, perhaps those of other slices too.
    Words(Words),
}

impl Flow<'_> {
    /// Whether two are the same.
    pub(super) fn is(&self, other: &Flow<'_>) -> bool {
        match (self, other) {
            (Flow::Flits(one), Flow::Flits(other)) => {
                std::ptr::eq(one.as_ref(), other.as_ref()) || one == other
            }
            (Flow::Words(one), Flow::Words(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => false,
        }
    }
}
