//! Places of slices that hold nothing of a tile: no transfer fills them, so that commands clear them first.

use std::collections::BTreeMap;

use super::patch::Patch;
use super::tile::TileShape;

/// Bytes that hold nothing in each of some lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hole {
    pub(super) first: u64,
    pub(super) bytes: u64,
    pub(super) lines: u64,
    /// Bytes from line to line.
    pub(super) pitch: u64,
}

/// Slices by the holes that they have.
pub(super) type Holes = BTreeMap<Hole, Vec<(u64, u64)>>;

/// Slices whose bytes hold nothing, as ranges, by the first of these bytes and the one behind the last.
pub(super) type Empty = BTreeMap<(u64, u64), Vec<(u64, u64)>>;

fn join(all: &mut Empty, slice: u64, first: u64, end: u64) {
    if first >= end {
        return;
    }
    add_slice(all.entry((first, end)).or_default(), slice);
}

/// Ranges of slices with one more behind them.
fn add_slice(ranges: &mut Vec<(u64, u64)>, slice: u64) {
    match ranges.last_mut() {
        Some(last) if last.1 == slice => last.1 += 1,
        _ => ranges.push((slice, slice + 1)),
    }
}

impl TileShape {
    /// Places of each slice that no transfer fills, of rows and of columns.
    pub(super) fn empty(&self) -> [Empty; 2] {
        let over = &self.over;
        let pitches = [self.summed * self.operand_bytes(), self.held_bytes(self.summed)];
        let mut found = [Empty::new(), Empty::new()];
        for slice in 0..over.slices() {
            let (by_row, by_column) =
                (slice / (over.columns * over.summed), slice / over.summed % over.columns);
            let whole = self.live.summed.saturating_sub(slice % over.summed * self.summed) >= self.summed;
            // Rows of a ring are dealt out one by one or in blocks, columns in blocks.
            let live_rows = self.live.rows.saturating_sub(by_row * self.rows).min(self.rows);
            let (turn, all_rows) = (by_column % over.rows_ring, self.rows / over.rows_ring);
            let own_rows = if self.blocks {
                live_rows.saturating_sub(turn * all_rows).min(all_rows)
            } else {
                live_rows.saturating_sub(turn).div_ceil(over.rows_ring)
            };
            let own = self.columns / over.columns_ring;
            let before = by_column * self.columns + by_row % over.columns_ring * own;
            let own_columns = self.live.columns.saturating_sub(before).min(own);
            let shares = [(own_rows, all_rows), (own_columns, own)];
            for (list, ((live, all), pitch)) in found.iter_mut().zip(shares.into_iter().zip(pitches)) {
                let first = if whole { live * pitch } else { 0 };
                join(list, slice, first, all * pitch);
            }
        }
        if let Some(patch) = self.patch {
            found[0] = Empty::new();
            let bytes = patch.elements() * self.operand_bytes();
            for slice in (0..over.slices()).filter(|slice| !self.has_rows(*slice)) {
                join(&mut found[0], slice, 0, bytes);
            }
        }
        found
    }

    /// The block of rows that a slice has, if slices of a ring have blocks.
    fn block(&self, slice: u64) -> u64 {
        let over = &self.over;
        slice / (over.columns * over.summed) * over.rows_ring + slice / over.summed % over.rows_ring
    }

    /// Whether a block of rows is one of the tile.
    fn has_rows(&self, slice: u64) -> bool {
        self.block(slice) * (self.rows / self.over.rows_ring) < self.live.rows
    }

    /// Places of each slice's lines that no window of a row needs which is stored.
    fn holes_of(&self, patch: Patch) -> Holes {
        let mut found = Holes::new();
        let bytes = |elements: u64| elements * self.operand_bytes();
        for slice in (0..self.over.slices()).filter(|slice| self.has_rows(*slice)) {
            let Some(([first, count], [lines, pitch])) = patch.hole(self.block(slice)) else { continue };
            let hole = Hole { first: bytes(first), bytes: bytes(count), lines, pitch: bytes(pitch) };
            add_slice(found.entry(hole).or_default(), slice);
        }
        found
    }

    /// Places of each slice that are padding of lines.
    pub(super) fn holes(&self) -> Holes {
        if let Some(patch) = self.patch {
            return self.holes_of(patch);
        }
        let mut found = Holes::new();
        let Some([live, padded]) = self.line.filter(|[live, padded]| live != padded) else { return found };
        let (over, pitch) = (&self.over, self.summed * self.operand_bytes());
        let ring = over.rows_ring;
        for slice in 0..over.slices() {
            let by_row = slice / (over.columns * over.summed);
            let turn = slice / over.summed % over.columns % ring;
            // Positions of a line, or of a part of one, that a slice has after each other.
            let (each, own) = if self.blocks {
                let each = (self.rows / ring).min(padded);
                let first = (by_row * self.rows + turn * (self.rows / ring)) % padded;
                (each, live.saturating_sub(first).min(each))
            } else {
                let each = (self.rows.min(padded) / ring).max(1);
                let first = by_row * self.rows % padded;
                (each, live.saturating_sub(first + turn % padded).div_ceil(ring).min(each))
            };
            let hole = Hole {
                first: own * pitch,
                bytes: (each - own) * pitch,
                lines: self.rows / ring / each,
                pitch: each * pitch,
            };
            if hole.bytes > 0 {
                add_slice(found.entry(hole).or_default(), slice);
            }
        }
        found
    }
}
