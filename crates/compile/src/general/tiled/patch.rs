//! Windows that are fetched from one copy of what they look at: a slice has the lines that the windows of its
//! rows cover, every element once, and the fetch sequencer walks over one window after the other.
//!
//! A slice has whole lines of rows, or a part of one. Slices of a ring have blocks of rows, not every so
//! manyth, so that the windows of a slice have most of their elements in common.

use super::super::image::Stretch;
use super::super::kernel::{Part, Runs};
use super::super::view::signed;
use super::lines::{Lines, Windows};
use super::split::Spread;

/// Windows over lines, in elements of the value that they look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Lines of rows after which the next image begins.
    pub(super) lines: u64,
    /// From line to line of rows.
    pub(super) line_step: u64,
    /// From row to row.
    pub(super) position_step: u64,
    /// Runs of a window.
    pub(super) taps: u64,
    /// From run to run.
    pub(super) tap_step: u64,
    /// Elements of a run.
    pub(super) run: u64,
    /// Rows of a line, alone and with padding.
    pub(super) line: [u64; 2],
    /// Elements of an access unit of HBM.
    pub(super) unit: u64,
    /// Elements between a whole access unit and the first window of each line, if that is the same for all.
    pub(super) ahead: u64,
}

/// What a slice has of the value that windows look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patch {
    of: Geometry,
    /// Lines of rows.
    lines: u64,
    /// Rows of a line, or of the part of one that a slice has; padding included.
    positions: u64,
    /// Lines of the value.
    height: u64,
    /// Elements from one of these lines to the next.
    pitch: u64,
    /// Elements before the first window of a line, so that it begins at a whole access unit of HBM.
    ahead: u64,
}

impl Patch {
    /// What so many rows of a slice need, with sums taken so many elements at once; `None` if slices would
    /// not all find their windows at the same places.
    pub(super) fn new(of: Geometry, rows: u64, packet: u64) -> Option<Patch> {
        let [_, padded] = of.line;
        let (lines, positions) = (rows.div_ceil(padded), rows.min(padded));
        let even = if rows < padded {
            padded.is_multiple_of(rows.max(1))
        } else {
            rows.is_multiple_of(padded) && of.lines.is_multiple_of(lines)
        };
        let walked = of.run.is_multiple_of(packet)
            && of.position_step <= of.run
            && of.tap_step > 0
            && of.line_step.is_multiple_of(of.tap_step);
        let steps = of.line_step.checked_div(of.tap_step)?;
        let height = (lines.checked_sub(1)?) * steps + of.taps;
        let whole = positions == padded || (positions * of.position_step).is_multiple_of(of.unit.max(1));
        let ahead = if whole { of.ahead } else { 0 };
        let pitch = ahead + positions.checked_sub(1)? * of.position_step + of.run;
        (even && walked).then_some(Patch { of, lines, positions, height, pitch, ahead })
    }

    /// Rows of a slice.
    fn rows(&self) -> u64 {
        self.lines * self.positions
    }

    /// Elements of a slice.
    pub(super) fn elements(&self) -> u64 {
        self.height * self.pitch
    }

    /// Whether a tile of so many rows begins where slices begin.
    pub(super) fn divides(&self, rows: u64) -> bool {
        rows.is_multiple_of(self.rows().max(self.of.line[1]))
    }

    /// Whether the runs of windows are those of a sum.
    pub(super) fn has_runs(&self, runs: Option<Runs>) -> bool {
        runs.is_some_and(|runs| runs.size == self.of.run)
    }

    /// Elements before the first window.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Loops over rows, runs and elements of a run, as sizes and strides.
    pub(super) fn walk(&self, packet: u64) -> [(u64, u64); 5] {
        [
            (self.lines, self.of.line_step / self.of.tap_step * self.pitch),
            (self.positions, self.of.position_step),
            (self.of.taps, self.pitch),
            (self.of.run / packet, packet),
            (packet, 1),
        ]
    }

    /// Elements of a line that so many rows look at.
    fn extent(&self, rows: u64) -> u64 {
        rows.checked_sub(1).map_or(0, |last| self.ahead + last * self.of.position_step + self.of.run)
    }

    /// Elements of a line that transfers bring to slices with most of them.
    pub(super) fn brought(&self) -> u64 {
        self.extent(self.positions.min(self.of.line[0]))
    }

    /// Lines that transfers bring for so many rows.
    pub(super) fn lines_for(&self, rows: u64) -> u64 {
        rows.div_ceil(self.rows()) * self.height
    }

    /// Elements of each line of a block of rows that no transfer fills: the first, and how many; then lines
    /// and elements from line to line.
    pub(super) fn hole(&self, block: u64) -> Option<([u64; 2], [u64; 2])> {
        let [live, padded] = self.of.line;
        let first = block * self.positions % padded.max(1);
        let rows = if self.lines > 1 { live } else { live.saturating_sub(first).min(self.positions) };
        let extent = self.extent(rows);
        (extent < self.pitch).then_some(([extent, self.pitch - extent], [self.height, self.pitch]))
    }

    /// How rows `first..first + count`, padding included, come to slices that are so many elements apart.
    pub(super) fn parts(
        &self,
        windows: &Windows,
        over: &Spread,
        (first, count): (u64, u64),
        slice: u64,
    ) -> Option<Vec<Part>> {
        let slice = signed(slice);
        let mut digits = vec![(over.rows_ring, signed(over.columns) * slice), (1, slice)];
        if over.rows_ring == 1 {
            digits.pop();
        }
        let mut all = Vec::new();
        for (rows, stretch) in self.stretches(windows.rows(), &digits, first, count)? {
            let mut loops = vec![(over.row_copies(), 0, signed(over.rows_ring) * slice)];
            loops.extend(stretch.loops.iter().map(|(size, [from, to])| (*size, *from, *to)));
            loops.push((self.height, signed(self.of.tap_step), signed(self.pitch)));
            loops.push((self.extent(rows), 1, 1));
            let [from_first, to_first] = stretch.first;
            all.push(Part { from: 0, from_first: from_first - signed(self.ahead), to_first, loops });
        }
        Some(all)
    }

    /// Places of blocks of rows, with the rows of each line that are no padding.
    fn stretches(
        &self,
        lines: &Lines,
        digits: &[(u64, i64)],
        first: u64,
        count: u64,
    ) -> Option<Vec<(u64, Stretch)>> {
        let ([live, padded], positions) = (self.of.line, self.positions);
        if self.positions == padded {
            let blocks = (first / self.rows(), count / self.rows());
            let found = lines.by_lines(self.lines)?.line_stretches(digits, blocks.0, blocks.1)?;
            return Some(found.into_iter().map(|one| (live, one)).collect());
        }
        let (parts, blocks) = (padded / positions, (first / positions, count / positions));
        let (whole, rest) = (live / positions, live % positions);
        let step = signed(positions * self.of.position_step);
        let mut all = Vec::new();
        if whole > 0 {
            let found = lines.with_line(whole, step).stretches_in(parts, digits, blocks.0, blocks.1)?;
            all.extend(found.into_iter().map(|one| (positions, one)));
        }
        if rest > 0 {
            let to = place(digits, whole);
            let found = lines.with_line(1, step).stretches_in(parts, digits, blocks.0, blocks.1)?;
            all.extend(found.into_iter().map(|Stretch { first: [from, at], loops }| {
                (rest, Stretch { first: [from + signed(whole) * step, at + to], loops })
            }));
        }
        Some(all)
    }
}

/// The place of a number by digits of falling weight.
fn place(digits: &[(u64, i64)], number: u64) -> i64 {
    let (mut left, mut all) = (number, 0);
    for (weight, to) in digits {
        all += signed(left / weight) * to;
        left %= weight;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::super::kernel::{Packing, Sizes};
    use super::super::super::view::View;
    use super::*;

    /// Elements from slice to slice.
    const SLICE: u64 = 1 << 20;

    fn brought(parts: &[Part]) -> BTreeMap<i64, i64> {
        let mut found = BTreeMap::new();
        for part in parts {
            let mut own = vec![(part.from_first, part.to_first)];
            for (size, from, to) in &part.loops {
                let walk =
                    |(a, b): (i64, i64)| (0..signed(*size)).map(move |at| (a + at * from, b + at * to));
                own = own.into_iter().flat_map(walk).collect();
            }
            found.extend(own.into_iter().map(|(from, to)| (to, from)));
        }
        found
    }

    proptest! {
        /// Every slice finds every element of its windows where the fetch looks for it.
        #[test]
        fn windows_are_found_in_what_was_brought(
            (images, height, live) in (1..3_u64, 1..5_u64, 2..9_u64), taps in 1..4_u64, stride in 1..3_u64,
            (own_log2, ring_log2, copies_log2) in (0..5_u32, 0..3_u32, 0..2_u32), left in 0..3_u64,
        ) {
            let (channels, padded) = (4_u64, live.next_power_of_two());
            let width = live * stride + taps + 4;
            let image = (height * stride + taps) * width * channels;
            let steps = [width * channels, channels].map(|step| signed(step * stride));
            let view = View {
                value: 0,
                first: signed(left * channels),
                axes: vec![
                    (images, signed(image)), (height, steps[0]), (live, steps[1]),
                    (taps, signed(width * channels)), (taps, signed(channels)), (channels, 1),
                ],
            };
            let summed = taps * taps * channels;
            let sizes = Sizes::new(1, images * height * live, 1, summed, Packing::Half);
            let Some(windows) = Windows::new(&view, sizes, 8) else { return Ok(()) };
            let Some(of) = windows.geometry(8) else { return Ok(()) };
            let (own, ring) = (1_u64 << own_log2, 1_u64 << ring_log2);
            let Some(patch) = Patch::new(of, own, channels) else { return Ok(()) };
            let rows = images * height * padded;
            prop_assume!(patch.divides(rows));
            let columns = ring << copies_log2;
            let over = Spread { rows: 1 << 10, columns, summed: 1, rows_ring: ring, columns_ring: 1 };
            let found = brought(&patch.parts(&windows, &over, (0, rows), SLICE).expect("parts"));
            for row in (0..rows).filter(|row| row % padded < live) {
                let (line, x) = (row / padded, row % padded);
                let image = signed(line / height * image);
                let from = image + signed(line % height) * steps[0] + signed(x) * steps[1];
                let (block, inside) = (row / own, row % own);
                let [lines, positions, tap, piece, _] = patch.walk(channels);
                for copy in 0..columns / ring {
                    let slice = block / ring * columns + copy * ring + block % ring;
                    let at = inside / positions.0 * lines.1 + inside % positions.0 * positions.1;
                    for k in 0..summed {
                        let (y, rest) = (k / (taps * channels), k % (taps * channels));
                        // Runs that follow each other are one.
                        let walked = k / of.run * tap.1 + k % of.run / piece.1 * piece.1 + k % piece.1;
                        let to = signed(slice * SLICE + patch.ahead() + at + walked);
                        let wanted = from + signed(y * width * channels + rest);
                        prop_assert_eq!(found.get(&to), Some(&wanted));
                    }
                }
            }
        }
    }
}
