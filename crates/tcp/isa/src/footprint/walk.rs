//! The bytes that nested loops touch, with strides of either sign and limits that cut off padding (vISA book,
//! sequencer and mask).

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, OrBroken};

use super::bytes::{ByteSet, MAX_RUNS};
use crate::capped::Capped;

/// A loop in the walk's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLoop {
    /// Iterations.
    pub size: u64,
    /// Units between iterations.
    pub stride: i64,
}

/// `sum(index * weight)` over the loops stays below `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkLimit {
    /// Live below it.
    pub extent: u64,
    /// One for each loop; loops without one do not count.
    pub weights: Vec<u64>,
}

impl WalkLimit {
    fn weight(&self, at: usize) -> u64 {
        self.weights.get(at).map_or(0, |weight| *weight)
    }
}

/// Places relative to the first of all: `offsets` start at 0, which is `least` from the base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedOffsets {
    /// From the base to offset 0; negative with negative strides.
    pub least: i128,
    /// Units touched.
    pub offsets: ByteSet,
}

/// Largest distance that is followed exactly. Sums of distances stop at the largest number: no memory is near
/// so large.
const FAR: u128 = 1 << 62;
/// Most combinations of limited loops that are followed one by one.
const MAX_COMBINATIONS: u64 = 1 << 16;

impl TouchedOffsets {
    /// Every place of the loops, `length` units at each.
    pub fn of_loops(loops: &[WalkLoop], length: u64) -> TouchedOffsets {
        if loops.iter().any(|row| row.size == 0) || length == 0 {
            return TouchedOffsets::default();
        }
        let reach = |row: &WalkLoop| i128::from(row.size - 1) * i128::from(row.stride);
        let down = loops.iter().map(reach).filter(|reach| *reach < 0);
        let least = down.fold(0_i128, i128::capped_add);
        let reaches = loops.iter().map(|row| reach(row).unsigned_abs());
        let span = reaches.fold(u128::from(length), u128::capped_add);
        if span > FAR {
            let end = u64::try_from(span.min(FAR)).or_broken("FAR fits 64 bits");
            return TouchedOffsets { least, offsets: ByteSet::range(0, end).inexact() };
        }
        let mut strides: Vec<(u64, u64)> =
            loops.iter().map(|row| (row.stride.unsigned_abs(), row.size)).collect();
        strides.retain(|(stride, size)| *stride > 0 && *size > 1);
        strides.sort_unstable();
        let start = ByteSet::range(0, length);
        let offsets = strides.iter().fold(start, |set, (stride, size)| set.repeated(*size, *stride));
        TouchedOffsets { least, offsets }
    }

    /// Places of the loops that no limit cuts off.
    pub fn of_limited(loops: &[WalkLoop], length: u64, limits: &[WalkLimit]) -> TouchedOffsets {
        let counts = |at: &usize| limits.iter().any(|limit| limit.weight(*at) > 0);
        let mut limited: Vec<usize> = (0..loops.len()).filter(counts).collect();
        if limits.iter().any(|limit| limit.extent == 0) {
            return TouchedOffsets::default();
        }
        limited.sort_by_key(|at| loops[*at].size);
        let Some(last) = limited.pop() else { return TouchedOffsets::of_loops(loops, length) };
        let combinations = limited.iter().fold(1_u64, |all, at| all.capped_mul(loops[*at].size));
        if combinations > MAX_COMBINATIONS {
            return TouchedOffsets::of_loops(loops, length).inexact();
        }
        let free = (0..loops.len()).filter(|at| !counts(at)).map(|at| loops[at]).collect();
        let mut walk = LimitedWalk {
            loops,
            length,
            limits,
            limited,
            last,
            free,
            known: BTreeMap::new(),
            parts: Vec::new(),
            runs: 0,
        };
        walk.follow(0, 0, &vec![0; limits.len()]);
        if walk.runs > 2 * MAX_RUNS {
            return TouchedOffsets::of_loops(loops, length).inexact();
        }
        let part = |(offset, live): (i128, u64)| Some((offset, walk.known.get(&live)?));
        joined(&walk.parts.iter().copied().filter_map(part).collect::<Vec<_>>())
    }

    /// These offsets, marked as only a superset of what is touched.
    #[must_use]
    pub fn inexact(self) -> TouchedOffsets {
        TouchedOffsets { least: self.least, offsets: self.offsets.inexact() }
    }

    /// Byte runs from a base, `units_per_byte` units to a byte; the part outside `0..capacity` is cut off.
    pub fn placed(&self, base: i128, units_per_byte: u64, capacity: u64) -> TouchedBytes {
        let Some((_, end)) = self.offsets.bounds() else { return TouchedBytes::default() };
        let (units, shift) = (i128::from(units_per_byte.max(1)), base.capped_add(self.least));
        let low = shift.div_euclid(units);
        let end_of = |end: u64| shift.capped_add(i128::from(end)).capped_add(units - 1).div_euclid(units);
        let high = end_of(end);
        let outside = (low < 0 || high > i128::from(capacity)).then_some((low, high));
        let byte =
            |at: i128| u64::try_from(at.clamp(0, i128::from(capacity))).or_broken("a byte of a memory");
        let runs = self.offsets.runs().iter().map(|(start, end)| {
            let first = shift.capped_add(i128::from(*start)).div_euclid(units);
            (byte(first), byte(end_of(*end)))
        });
        let bytes = ByteSet::from_runs(runs.collect());
        TouchedBytes { bytes: if self.offsets.is_exact() { bytes } else { bytes.inexact() }, outside }
    }
}

/// What a walk touches of one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedBytes {
    /// Inside it.
    pub bytes: ByteSet,
    /// First byte and one past the last of the whole walk, if some of it lies outside.
    pub outside: Option<(i128, i128)>,
}

/// The walk over limited loops: all but the longest are followed value by value, the longest as a prefix.
struct LimitedWalk<'a> {
    loops: &'a [WalkLoop],
    length: u64,
    limits: &'a [WalkLimit],
    limited: Vec<usize>,
    last: usize,
    free: Vec<WalkLoop>,
    /// Walks of the free loops and a prefix of the longest, by its length.
    known: BTreeMap<u64, TouchedOffsets>,
    /// Where each of them was, and how long its prefix.
    parts: Vec<(i128, u64)>,
    runs: usize,
}

impl LimitedWalk<'_> {
    fn follow(&mut self, depth: usize, offset: i128, positions: &[u64]) {
        if self.runs > 2 * MAX_RUNS {
            return;
        }
        let Some(&at) = self.limited.get(depth) else { return self.prefix(offset, positions) };
        for index in 0..self.loops[at].size {
            let moved = self.moved(positions, at, index);
            if self.limits.iter().zip(&moved).any(|(limit, position)| *position >= limit.extent) {
                return;
            }
            let step = i128::from(index) * i128::from(self.loops[at].stride);
            self.follow(depth + 1, offset.capped_add(step), &moved);
        }
    }

    fn prefix(&mut self, offset: i128, positions: &[u64]) {
        let row = self.loops[self.last];
        let live = self.limits.iter().zip(positions).fold(row.size, |live, (limit, position)| {
            let weight = limit.weight(self.last);
            match limit.extent.saturating_sub(*position) {
                0 => 0,
                _ if weight == 0 => live,
                rest => live.min(rest.div_ceil(weight)),
            }
        });
        let walked = self.known.entry(live).or_insert_with(|| {
            let mut loops = self.free.clone();
            loops.push(WalkLoop { size: live, ..row });
            TouchedOffsets::of_loops(&loops, self.length)
        });
        self.runs = self.runs.exact_add(walked.offsets.runs().len());
        self.parts.push((offset, live));
    }

    fn moved(&self, positions: &[u64], at: usize, index: u64) -> Vec<u64> {
        let weighted = self
            .limits
            .iter()
            .zip(positions)
            .map(|(limit, position)| position.capped_add(limit.weight(at).capped_mul(index)));
        weighted.collect()
    }
}

fn joined(parts: &[(i128, &TouchedOffsets)]) -> TouchedOffsets {
    let live = || parts.iter().filter(|(_, part)| !part.offsets.is_empty());
    let first = |(offset, part): &(i128, &TouchedOffsets)| offset.capped_add(part.least);
    let Some(least) = live().map(first).min() else {
        return TouchedOffsets::default();
    };
    let shift = |placed: &(i128, &TouchedOffsets)| first(placed).abs_diff(least);
    let end = |placed: &(i128, &TouchedOffsets)| placed.1.offsets.bounds().map_or(0, |bounds| bounds.1);
    if live().any(|placed| shift(placed).capped_add(u128::from(end(placed))) > FAR) {
        let far = u64::try_from(FAR).or_broken("FAR fits 64 bits");
        return TouchedOffsets { least, offsets: ByteSet::range(0, far).inexact() };
    }
    let exact = live().all(|(_, part)| part.offsets.is_exact());
    let runs = live().flat_map(|placed| {
        let shift = u64::try_from(shift(placed)).or_broken("a part that is not far");
        placed.1.offsets.runs().iter().map(move |run| (run.0.exact_add(shift), run.1.exact_add(shift)))
    });
    let offsets = ByteSet::from_runs(runs.collect());
    TouchedOffsets { least, offsets: if exact { offsets } else { offsets.inexact() } }
}
