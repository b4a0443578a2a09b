//! Slices on which a command does what it does on the one before: they read the same bytes. With one token
//! most slices have the same row of it, and one of them computes for all.

use std::ops::Range;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::Stream;
use tilewright_tcp_isa::switch::Topology;
use tilewright_tcp_isa::vector::reads;

use super::fetch::Fetcher;
use super::state::SliceMemory;
use super::vector::{counts_slices, part};

/// Bytes that are compared for every byte that is fetched, at most.
const COMPARED: usize = 4;

/// Classes of slices that read the same bytes.
pub(super) struct SliceClasses {
    /// The first slice of each class, which computes for all of them.
    pub(super) representatives: Vec<usize>,
    /// The class of every slice.
    pub(super) of: Vec<usize>,
}

impl SliceClasses {
    /// `None` where slices are told apart by more than their own bytes, or where few of them are equal.
    pub(super) fn new(
        image: &Stream,
        fetcher: &Fetcher<'_>,
        memories: &[&SliceMemory],
    ) -> Option<SliceClasses> {
        let vector = image.vector.as_ref();
        let own = image.switch.topology == Topology::Forwarding
            && image.contract.is_none()
            && image.commit.slices.is_empty()
            && image.fetch.indirect.is_none()
            && image.fetch.limits.iter().all(|limit| limit.slices.is_empty())
            && vector.is_none_or(|vector| vector.between.is_none() && !counts_slices(vector));
        let [first, second] = fetcher.reads();
        let file = vector.map_or(0..0, reads);
        let fetched = usize::try_from(fetcher.packets.checked_mul(fetcher.packet_bytes)?).ok()?;
        let compared = [&first, &second, &file].into_iter().map(ExactSizeIterator::len);
        let compared = compared.fold(0, usize::capped_add);
        if !own || compared > fetched.capped_mul(COMPARED) {
            return None;
        }
        let same = |one: &SliceMemory, other: &SliceMemory| {
            let equal = |one: &[u8], other: &[u8], range: &Range<usize>| {
                one.len() == other.len() && part(one, range) == part(other, range)
            };
            equal(one.dm(), other.dm(), &first)
                && equal(one.dm(), other.dm(), &second)
                && equal(one.vrf(), other.vrf(), &file)
        };
        let mut found = SliceClasses { representatives: vec![0], of: vec![0; memories.len()] };
        for slice in 1..memories.len() {
            if !same(memories[slice - 1], memories[slice]) {
                found.representatives.push(slice);
                // Most slices are equal, or it does not pay.
                if 2 * found.representatives.len() > memories.len() {
                    return None;
                }
            }
            found.of[slice] = found.representatives.len() - 1;
        }
        (memories.len() > 1).then_some(found)
    }
}
