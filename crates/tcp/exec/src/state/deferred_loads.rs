//! Loads of the contraction engine's register file that were not carried out: their bytes lie unchanged where
//! data memory had them from, or in data memory itself until they change there.
//!
//! With one token every byte of a weight meets one element of the stream, so that a copy would take longer
//! than the products.

use std::ops::Range;

use super::overlay::ByteSource;
use crate::byte_runs::EvenRuns;
use crate::limits::index;
use tilewright_base::invariant::{Exact, OrBroken};

/// Loads below so many bytes are carried out at once.
const LEAST_BYTES: usize = 1 << 10;
/// Most loads that are kept for a slice.
const MAX_LOADS: usize = 8;

/// Where loads put bytes: in every lane the same rows, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadTarget {
    lanes: usize,
    lane_bytes: usize,
    /// First byte of a lane's part.
    start: usize,
    rows: usize,
    row_bytes: usize,
}

/// Bytes of every lane of a register file that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneReads {
    pub(crate) lanes: usize,
    pub(crate) lane_bytes: usize,
    pub(crate) part: Range<usize>,
}

/// A load that was not carried out.
#[derive(Clone, Debug)]
pub(crate) struct DeferredLoad {
    target: LoadTarget,
    source: ByteSource,
    /// Bytes of the source from one lane and from one row to the next.
    lane_step: usize,
    row_step: usize,
}

/// Rows of a load, as a contraction asks for them.
pub(crate) enum LoadedRows<'l> {
    /// Zeros.
    Zeros,
    /// For every row, those of all lanes.
    Joined(&'l [u8]),
    /// For every lane, all rows: bytes from the first lane on, and from one lane to the next.
    ByLane(&'l [u8], usize),
}

impl LoadTarget {
    /// What a load writes to a register file of so many lanes and bytes; `None` if lanes differ or rows have
    /// gaps.
    pub(crate) fn of(even: &EvenRuns, lanes: u64, capacity: u64) -> Option<(LoadTarget, [(usize, i64); 2])> {
        let lane_bytes = capacity.checked_div(lanes)?;
        let lane_stride = i64::try_from(lane_bytes).ok()?;
        let of_lanes = |row: &(usize, i64, i64)| row.0 as u64 == lanes && row.2 == lane_stride;
        let row_bytes = even.first.bytes;
        let of_rows = |row: &(usize, i64, i64)| row.0 == 1 || i64::try_from(row_bytes) == Ok(row.2);
        let [inner, outer] = even.loops;
        let (by_lane, by_row) =
            match (of_lanes(&inner) && of_rows(&outer), of_lanes(&outer) && of_rows(&inner)) {
                (true, _) => (inner, outer),
                (_, true) => (outer, inner),
                _ => return None,
            };
        let (start, lane_bytes) = (index(even.first.to), index(lane_bytes));
        let target = LoadTarget { lanes: by_lane.0, lane_bytes, start, rows: by_row.0, row_bytes };
        (lanes > 1 && target.part().end <= lane_bytes)
            .then_some((target, [(by_lane.0, by_lane.1), (by_row.0, by_row.1)]))
    }

    /// Bytes of every lane.
    fn part(&self) -> Range<usize> {
        self.start..self.start.exact_add(self.rows.exact_mul(self.row_bytes))
    }

    /// Whether one of some bytes of the register file is written.
    fn meets(&self, offset: usize, bytes: usize) -> bool {
        let (lane, at) = (offset / self.lane_bytes, offset % self.lane_bytes);
        let part = self.part();
        let within = at.exact_add(bytes) <= self.lane_bytes;
        !within || (lane < self.lanes && at < part.end && part.start < at + bytes)
    }
}

impl DeferredLoad {
    /// A load from data memory as it is described by `even`, and the part of data memory that it reads.
    pub(super) fn reads(
        even: &EvenRuns,
        lanes: u64,
        capacity: u64,
    ) -> Option<(LoadTarget, [usize; 2], Range<usize>)> {
        let (target, [(_, lane_step), (rows, row_step)]) = LoadTarget::of(even, lanes, capacity)?;
        if target.lanes * rows * target.row_bytes < LEAST_BYTES {
            return None;
        }
        let lane_step = usize::try_from(lane_step).ok()?;
        let row_step = if rows == 1 { 0 } else { usize::try_from(row_step).ok()? };
        let start = usize::try_from(even.first.from).ok()?;
        let reach = lane_step.checked_mul(target.lanes - 1)?.checked_add(row_step.checked_mul(rows - 1)?)?;
        let end = start.checked_add(reach)?.checked_add(target.row_bytes)?;
        Some((target, [lane_step, row_step], start..end))
    }

    /// Rows that lie behind each other in every lane, from a byte of the lanes on, if this load has them all.
    fn rows<'l>(
        &'l self,
        dm: &'l [u8],
        (lanes, lane_bytes): (usize, usize),
        start: usize,
        (rows, row_bytes): (usize, usize),
    ) -> Option<LoadedRows<'l>> {
        let target = &self.target;
        let end = start.checked_add(rows.checked_mul(row_bytes)?)?;
        if (lanes, lane_bytes) != (target.lanes, target.lane_bytes)
            || start < target.start
            || end > target.part().end
        {
            return None;
        }
        let Some(held) = self.bytes(dm) else { return Some(LoadedRows::Zeros) };
        let before = start - target.start;
        let joined = row_bytes == target.row_bytes
            && before.is_multiple_of(row_bytes)
            && self.lane_step == row_bytes
            && (target.rows == 1 || self.row_step == lanes * row_bytes);
        if joined {
            let first = before * lanes;
            return held.get(first..first + rows * row_bytes * lanes).map(LoadedRows::Joined);
        }
        let in_lane = target.rows == 1 || self.row_step == target.row_bytes;
        let bytes = held.get(before..)?;
        (in_lane && bytes.len() >= self.lane_step * (lanes - 1) + end - start)
            .then_some(LoadedRows::ByLane(bytes, self.lane_step))
    }

    /// Bytes of the source; `None` if they are zeros.
    fn bytes<'l>(&'l self, dm: &'l [u8]) -> Option<&'l [u8]> {
        match &self.source {
            ByteSource::Zeros => None,
            ByteSource::Borrowed(shared) => Some(shared.bytes()),
            ByteSource::Own(range) => {
                Some(dm.get(range.clone()).or_broken("a load's bytes lie in data memory"))
            }
        }
    }

    /// Carries out the load of one row for all lanes.
    fn carry_out(&self, row: usize, trf: &mut [u8], dm: &[u8]) {
        let LoadTarget { lanes, lane_bytes, start, row_bytes, .. } = self.target;
        for lane in 0..lanes {
            let to = lane * lane_bytes + start + row * row_bytes;
            let place = trf.get_mut(to..to + row_bytes).or_broken("a load's rows lie in the register file");
            let from = lane * self.lane_step + row * self.row_step;
            match self.bytes(dm) {
                Some(held) => place.copy_from_slice(&held[from..from + row_bytes]),
                None => place.fill(0),
            }
        }
    }

    /// Whether it is from a part of data memory itself.
    fn reads_own(&self, part: &Range<usize>) -> bool {
        matches!(&self.source, ByteSource::Own(own) if own.start < part.end && part.start < own.end)
    }

    /// Carries out all of it.
    fn settle(&self, trf: &mut [u8], dm: &[u8]) {
        (0..self.target.rows).for_each(|row| self.carry_out(row, trf, dm));
    }

    /// What is left of it once others write so many of its first bytes in every lane.
    fn behind(mut self, bytes: usize, trf: &mut [u8], dm: &[u8]) -> Option<DeferredLoad> {
        let gone = bytes.div_ceil(self.target.row_bytes).min(self.target.rows);
        if !bytes.is_multiple_of(self.target.row_bytes) {
            self.carry_out(gone - 1, trf, dm);
        }
        if gone == self.target.rows {
            return None;
        }
        let skipped = gone * self.row_step;
        match &mut self.source {
            ByteSource::Zeros => {}
            ByteSource::Borrowed(shared) => *shared = shared.part(skipped, shared.len() - skipped)?,
            ByteSource::Own(range) => range.start += skipped,
        }
        self.target.start += gone * self.target.row_bytes;
        self.target.rows -= gone;
        Some(self)
    }
}

/// Loads of a slice with its data memory.
#[derive(Clone, Copy)]
pub(crate) struct SliceLoads<'m> {
    pub(super) loads: &'m DeferredLoads,
    pub(super) dm: &'m [u8],
}

impl<'m> SliceLoads<'m> {
    /// The load that has all of some rows; see [`DeferredLoad::rows`].
    pub(crate) fn rows(
        &self,
        lanes: (usize, usize),
        start: usize,
        size: (usize, usize),
    ) -> Option<LoadedRows<'m>> {
        let SliceLoads { loads, dm } = *self;
        loads.all.iter().find_map(|load| load.rows(dm, lanes, start, size))
    }
}

/// Loads of one register file that were not carried out. No two of them write the same byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeferredLoads {
    all: Vec<DeferredLoad>,
}

impl DeferredLoads {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Carries all out.
    pub(super) fn settle(&mut self, trf: &mut [u8], dm: &[u8]) {
        self.all.drain(..).for_each(|load| load.settle(trf, dm));
    }

    /// Before a part of data memory changes: carries out loads from there.
    pub(super) fn settle_from(&mut self, part: &Range<usize>, trf: &mut [u8], dm: &[u8]) {
        self.all.retain(|load| {
            let reads = load.reads_own(part);
            if reads {
                load.settle(trf, dm);
            }
            !reads
        });
    }

    /// Whether one of them is from a part of data memory itself.
    pub(super) fn are_from(&self, part: &Range<usize>) -> bool {
        self.all.iter().any(|load| load.reads_own(part))
    }

    /// Carries out those that write to some bytes of one of the lanes.
    pub(super) fn settle_part(&mut self, reads: &LaneReads, trf: &mut [u8], dm: &[u8]) {
        self.all.retain(|load| {
            let read = (0..reads.lanes)
                .any(|lane| load.target.meets(lane * reads.lane_bytes + reads.part.start, reads.part.len()));
            if read {
                load.settle(trf, dm);
            }
            !read
        });
    }

    /// A register file as it would be if all were carried out.
    pub(super) fn settled(&self, trf: &[u8], capacity: usize, dm: &[u8]) -> Vec<u8> {
        let mut all = vec![0; capacity];
        if let Some(place) = all.get_mut(..trf.len()) {
            place.copy_from_slice(trf);
        }
        self.all.iter().for_each(|load| load.settle(&mut all, dm));
        all
    }

    /// Whether one of them writes to some bytes.
    pub(super) fn meet(&self, offset: usize, bytes: usize) -> bool {
        self.all.iter().any(|load| load.target.meets(offset, bytes))
    }

    /// Before all bytes of a target are written: what is left of the loads does not meet it.
    pub(super) fn make_way(&mut self, target: &LoadTarget, trf: &mut [u8], dm: &[u8]) {
        let new = target.part();
        for load in std::mem::take(&mut self.all) {
            let old = load.target.part();
            let alike = (load.target.lanes, load.target.lane_bytes) == (target.lanes, target.lane_bytes);
            if alike && (old.end <= new.start || new.end <= old.start) {
                self.all.push(load);
            } else if alike && new.start <= old.start {
                self.all.extend(load.behind(new.end.min(old.end) - old.start, trf, dm));
            } else {
                load.settle(trf, dm);
            }
        }
    }

    /// Keeps a load, for which way was made.
    pub(super) fn keep(
        &mut self,
        target: LoadTarget,
        source: ByteSource,
        steps: [usize; 2],
        (trf, dm): (&mut [u8], &[u8]),
    ) {
        if self.all.len() >= MAX_LOADS {
            self.all.remove(0).settle(trf, dm);
        }
        let [lane_step, row_step] = steps;
        self.all.push(DeferredLoad { target, source, lane_step, row_step });
    }
}
