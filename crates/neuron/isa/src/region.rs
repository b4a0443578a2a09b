//! Bytes that instructions touch, as rows of a pitch: what dependencies, races and capacity are told from.

use smallvec::SmallVec;

use crate::operand::TensorAccess;
use crate::pattern::{PatternDim, TensorView, as_u64};
use crate::tensor::TensorDecl;
use tilewright_base::invariant::Exact;

/// Bytes of one tensor that an instruction touches: rows of a pitch, and bytes within a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorRegion {
    /// Number of the tensor.
    pub storage: u32,
    /// Number of the tile, if leading dimensions number tiles.
    pub tile: u32,
    /// Bytes from row to row; partitions are rows. Zero: one row.
    pub pitch_bytes: u64,
    /// First row and the one after the last.
    pub rows: (u64, u64),
    /// First byte of a row and the one after the last.
    pub bytes: (u64, u64),
    /// Some bytes of these rows are not touched: the pattern leaves gaps.
    pub sparse: bool,
}

impl TensorRegion {
    /// What a tile touches; `None` if it touches nothing.
    pub fn of(tile: &impl TensorAccess) -> Option<TensorRegion> {
        let (storage, view) = (tile.tensor(), tile.view());
        let size = as_u64(view.dtype.size_bytes(1));
        let (least, most) = view.extent()?;
        let (least, most) = (u64::try_from(least).ok()? * size, (u64::try_from(most).ok()? + 1) * size);
        if storage.memory.on_chip() {
            return Some(on_chip(storage, least, most, view, size));
        }
        let touched = touched_elements(view).saturating_mul(size);
        let flat = TensorRegion {
            storage: storage.id,
            tile: 0,
            pitch_bytes: 0,
            rows: (0, 1),
            bytes: (least, most),
            sparse: touched < most - least,
        };
        if view.gather.is_some() {
            return Some(flat);
        }
        let found = in_rows(view, size, touched, &flat).unwrap_or(flat);
        let exact = if found.sparse { runs_of_one_pitch(view, size, &flat) } else { None };
        Some(exact.unwrap_or(found))
    }

    /// True if they share a byte.
    pub fn overlaps(&self, other: &TensorRegion) -> bool {
        let meet = |a: (u64, u64), b: (u64, u64)| a.0 < b.1 && b.0 < a.1;
        if self.storage != other.storage || self.tile != other.tile {
            return false;
        }
        if self.pitch_bytes == other.pitch_bytes {
            return meet(self.rows, other.rows) && meet(self.bytes, other.bytes);
        }
        meet(self.span(), other.span())
    }

    /// True if both touch a byte for certain, gaps or not.
    pub fn surely_overlaps(&self, other: &TensorRegion) -> bool {
        let dense = !self.sparse && !other.sparse;
        let comparable = self.pitch_bytes == other.pitch_bytes || (self.is_run() && other.is_run());
        (dense && comparable && self.overlaps(other)) || (self == other)
    }

    /// True if its rows are one run of bytes.
    fn is_run(&self) -> bool {
        self.rows.1.exact_sub(self.rows.0) == 1 || self.bytes == (0, self.pitch_bytes)
    }

    /// True if every byte of `other` is in it.
    pub fn covers(&self, other: &TensorRegion) -> bool {
        let within = |a: (u64, u64), b: (u64, u64)| a.0 <= b.0 && b.1 <= a.1;
        if self.storage != other.storage || self.tile != other.tile {
            return false;
        }
        if self.pitch_bytes == other.pitch_bytes {
            return within(self.rows, other.rows) && within(self.bytes, other.bytes);
        }
        !self.sparse && self.is_run() && within(self.span(), other.span())
    }

    /// First byte and the one after the last, over all rows.
    fn span(&self) -> (u64, u64) {
        let last = self.rows.1.exact_sub(1);
        let at = |row: u64, byte: u64| row.exact_mul(self.pitch_bytes).exact_add(byte);
        (at(self.rows.0, self.bytes.0), at(last, self.bytes.1))
    }
}

/// Rows as far apart as the steps of the longest stride, with what the other loops reach of each; none of a
/// pattern that reaches beyond a row, or has one.
fn in_rows(view: &TensorView, size: u64, touched: u64, flat: &TensorRegion) -> Option<TensorRegion> {
    let (least, most) = flat.bytes;
    let outer = view.dims.iter().filter(|dim| dim.size > 1).max_by_key(|dim| dim.stride.unsigned_abs())?;
    let pitch = as_u64(outer.stride.unsigned_abs()) * size;
    let inner = (most - least).saturating_sub(pitch.saturating_mul(as_u64(outer.size - 1)));
    if pitch == 0 || least % pitch + inner > pitch {
        return None;
    }
    let row = least / pitch;
    let bytes = (least % pitch, least % pitch + inner);
    let rows = (row, row + as_u64(outer.size));
    let sparse = touched < inner.saturating_mul(as_u64(outer.size));
    Some(TensorRegion { pitch_bytes: pitch, rows, bytes, sparse, ..*flat })
}

fn on_chip(storage: &TensorDecl, least: u64, most: u64, view: &TensorView, size: u64) -> TensorRegion {
    let pitch = storage.partition_bytes().max(1);
    let tile_bytes = pitch.saturating_mul(as_u64(storage.partitions())).max(1);
    let tile = least / tile_bytes;
    let (row, byte) = (least % tile_bytes / pitch, least % pitch);
    let (rows, bytes): ((u64, u64), (u64, u64)) = if view.gather.is_some() {
        ((row, (most - 1) % tile_bytes / pitch + 1), (0, pitch))
    } else {
        let reach =
            view.dims.iter().skip(1).map(|dim| {
                as_u64(dim.size.saturating_sub(1)).saturating_mul(as_u64(dim.stride.unsigned_abs()))
            });
        let inner = reach.fold(1_u64, u64::saturating_add).saturating_mul(size);
        let rows = (most - least).saturating_sub(inner) / pitch + 1;
        ((row, row + rows), (byte, byte.saturating_add(inner)))
    };
    let held = rows.1.exact_sub(rows.0).saturating_mul(bytes.1.exact_sub(bytes.0));
    TensorRegion {
        storage: storage.id,
        tile: u32::try_from(tile).unwrap_or(u32::MAX),
        pitch_bytes: pitch,
        rows,
        bytes,
        sparse: touched_elements(view).saturating_mul(size) < held,
    }
}

/// A pattern whose loops, in whatever order, go through runs of the same length at the same distance: every
/// second element, or one head of several in all rows. It has no gaps but those between the runs.
fn runs_of_one_pitch(view: &TensorView, size: u64, flat: &TensorRegion) -> Option<TensorRegion> {
    let mut moving: SmallVec<[(u64, u64); 5]> = view
        .dims
        .iter()
        .filter(|dim| dim.stride != 0 && dim.size > 1)
        .map(|dim| (as_u64(dim.stride.unsigned_abs()).saturating_mul(size), as_u64(dim.size)))
        .collect();
    moving.sort_unstable();
    let mut run = size;
    let mut loops = moving.into_iter().peekable();
    while let Some((stride, count)) = loops.next_if(|(stride, _)| *stride == run) {
        run = stride.saturating_mul(count);
    }
    let (pitch, mut count) = loops.next()?;
    for (stride, steps) in loops {
        if stride != pitch.saturating_mul(count) {
            return None;
        }
        count = count.saturating_mul(steps);
    }
    let (row, byte) = (flat.bytes.0 / pitch, flat.bytes.0 % pitch);
    let (rows, bytes) = ((row, row.saturating_add(count)), (byte, byte.saturating_add(run)));
    (bytes.1 <= pitch).then_some(TensorRegion { pitch_bytes: pitch, rows, bytes, sparse: false, ..*flat })
}

/// Elements that a pattern touches; steps in place are no elements of their own. None of a list of offsets
/// and of loops that overlap: how many of those are the same is not counted.
fn touched_elements(view: &TensorView) -> u64 {
    if view.gather.is_some() {
        return 0;
    }
    let mut moving: SmallVec<[PatternDim; 5]> =
        view.dims.iter().copied().filter(|dim| dim.stride != 0 && dim.size > 1).collect();
    moving.sort_unstable_by_key(|dim| dim.stride.unsigned_abs());
    let (mut count, mut reach) = (1_u64, 1_u64);
    for dim in moving {
        let (size, stride) = (as_u64(dim.size), as_u64(dim.stride.unsigned_abs()));
        if stride < reach {
            return 0;
        }
        count = count.saturating_mul(size);
        reach = reach.saturating_add(stride.saturating_mul(size - 1));
    }
    count
}
