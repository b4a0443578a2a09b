//! Which bytes hold something: whole write granules, as bitmaps for memories of slices and as runs for HBM.

use std::collections::BTreeMap;

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::footprint::{ByteSet, MemoryAccess, MemoryKind};

/// What has been written so far, in granules.
#[derive(Clone, Debug, Default)]
pub(super) struct InitializedBytes {
    slices: BTreeMap<(MemoryKind, u64, u64), Vec<u64>>,
    hbm: BTreeMap<u64, BTreeMap<u64, u64>>,
}

/// A place that holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UninitializedRange {
    /// Slice or PE; 0 for HBM.
    pub(super) slice: u64,
    /// First byte and one past the last that was asked for there.
    pub(super) bytes: (u64, u64),
}

impl InitializedBytes {
    /// Every granule that an access touches is filled.
    pub(super) fn fill(&mut self, machine: &Tcp, access: &MemoryAccess) {
        let granule = machine.dm.write_granule_bytes.max(1);
        if access.memory == MemoryKind::Hbm {
            let filled = self.hbm.entry(access.chip).or_default();
            access.bytes.runs().iter().for_each(|run| insert(filled, granules(*run, granule)));
            return;
        }
        let mask = bits(&access.bytes, granule);
        for slice in access.slices.0..access.slices.1 {
            let filled = self.slices.entry((access.memory, access.chip, slice)).or_default();
            if filled.len() < mask.len() {
                filled.resize(mask.len(), 0);
            }
            filled.iter_mut().zip(&mask).for_each(|(word, bits)| *word |= bits);
        }
    }

    /// The first granule of an access that is not filled.
    pub(super) fn gap(&self, machine: &Tcp, access: &MemoryAccess) -> Option<UninitializedRange> {
        let granule = machine.dm.write_granule_bytes.max(1);
        if access.memory == MemoryKind::Hbm {
            let filled = self.hbm.get(&access.chip);
            return access.bytes.runs().iter().find_map(|run| {
                let (start, end) = granules(*run, granule);
                let missing = first_missing(filled, start, end)?;
                Some(UninitializedRange { slice: 0, bytes: (missing * granule, end * granule) })
            });
        }
        let mask = bits(&access.bytes, granule);
        let nothing = Vec::new();
        (access.slices.0..access.slices.1).find_map(|slice| {
            let filled = self.slices.get(&(access.memory, access.chip, slice)).unwrap_or(&nothing);
            let missing = |at: usize, bits: u64| bits & !filled.get(at).copied().unwrap_or(0);
            let (at, bits) = mask
                .iter()
                .enumerate()
                .map(|(at, bits)| (at, missing(at, *bits)))
                .find(|(_, bits)| *bits != 0)?;
            let first = at as u64 * 64 + u64::from(bits.trailing_zeros());
            Some(UninitializedRange { slice, bytes: (first * granule, (first + 1) * granule) })
        })
    }
}

fn granules((start, end): (u64, u64), granule: u64) -> (u64, u64) {
    (start / granule, end.div_ceil(granule))
}

/// One bit for each granule that the set touches.
fn bits(bytes: &ByteSet, granule: u64) -> Vec<u64> {
    let Some((_, end)) = bytes.bounds() else { return Vec::new() };
    let words = to_index(end.div_ceil(granule).div_ceil(64));
    let mut mask = vec![0_u64; words];
    for run in bytes.runs() {
        let (mut at, end) = granules(*run, granule);
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let taken = (64 - bit).min(end - at);
            let ones = if taken == 64 { u64::MAX } else { ((1 << taken) - 1) << bit };
            if let Some(slot) = usize::try_from(word).ok().and_then(|word| mask.get_mut(word)) {
                *slot |= ones;
            }
            at += taken;
        }
    }
    mask
}

fn insert(filled: &mut BTreeMap<u64, u64>, (mut start, mut end): (u64, u64)) {
    if let Some((&before, &until)) = filled.range(..=start).next_back()
        && until >= start
    {
        if until >= end {
            return;
        }
        start = before;
    }
    while let Some((&next, &until)) = filled.range(start..=end).next() {
        end = end.max(until);
        filled.remove(&next);
    }
    filled.insert(start, end);
}

fn first_missing(filled: Option<&BTreeMap<u64, u64>>, start: u64, end: u64) -> Option<u64> {
    let before = filled.and_then(|filled| filled.range(..=start).next_back());
    match before {
        Some((_, &until)) if until >= end => None,
        Some((_, &until)) if until > start => Some(until),
        _ => (start < end).then_some(start),
    }
}
