//! Rows of a contraction that are positions of windows: where they lie in the value that windows look at, and
//! how tiles take them from there without a copy of the windows in HBM.
//!
//! Rows are counted as lines of neighbouring positions. A line is padded to a power of two, so that the
//! digits of a tile's shape fall on lines; rows that are padding are computed and not stored.

use super::super::image::{Digit, Stretch, common, even, stretches, stretches_of};
use super::super::kernel::{Part, Sizes};
use super::super::view::{View, joined, signed};
use super::patch::Geometry;

/// Runs of a sum that cut across the parts of slices, at most.
const MOST_RUNS: u64 = 64;

/// Rows in lines: size and stride of what is around lines, outermost first, then positions of a line and
/// their stride.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Lines {
    outer: Vec<(u64, i64)>,
    line: (u64, i64),
}

/// An operand that is read through windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Windows {
    /// First element.
    pub(in super::super) first: i64,
    rows: Lines,
    /// Size and stride of the axes that are summed over, the last contiguous.
    summed: Vec<(u64, i64)>,
    /// Where results go, if that is inside of padding.
    inside: Option<Padding>,
}

/// Results of a contraction inside of padding: the first element, and where their rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Padding {
    first: i64,
    rows: Lines,
}

impl Padding {
    /// The room that a move takes the rows of a result to; `None` if it takes something else, or elsewhere.
    pub(in super::super) fn new(part: &Part, sizes: Sizes) -> Option<Padding> {
        let loops: Vec<(u64, i64, i64)> = part.loops.iter().copied().filter(|row| row.0 > 1).collect();
        let from: Vec<(u64, i64)> = loops.iter().map(|row| (row.0, row.1)).collect();
        let whole = part.from_first == 0 && joined(&from) == [(sizes.rows * sizes.columns, 1)];
        let [outer @ .., line, (columns, _, 1)] = &loops[..] else { return None };
        if !whole || *columns != sizes.columns || outer.is_empty() || loops.iter().any(|row| row.2 <= 0) {
            return None;
        }
        let outer = outer.iter().map(|row| (row.0, row.2)).collect();
        Some(Padding { first: part.to_first, rows: Lines { outer, line: (line.0, line.2) } })
    }
}

impl Lines {
    /// Positions of a line.
    pub(super) fn live(&self) -> u64 {
        self.line.0
    }

    /// Positions of a line, padding included.
    pub(super) fn padded(&self) -> u64 {
        self.line.0.next_power_of_two()
    }

    /// Lines.
    fn count(&self) -> u64 {
        self.outer.iter().map(|(size, _)| size).product()
    }

    /// Lines by blocks of so many, which divide those of an image.
    pub(super) fn by_lines(&self, lines: u64) -> Option<Lines> {
        let ((size, stride), around) = self.outer.split_last()?;
        let mut outer = around.to_vec();
        outer.push((size / lines.max(1), stride * signed(lines)));
        Some(Lines { outer, line: self.line })
    }

    /// The same lines with other positions.
    pub(super) fn with_line(&self, positions: u64, stride: i64) -> Lines {
        Lines { outer: self.outer.clone(), line: (positions, stride) }
    }

    /// Places of rows `first..first + count`, padding included, by the digits of a tile's shape; `None` if
    /// digits cut across lines.
    pub(super) fn stretches(&self, digits: &[(u64, i64)], first: u64, count: u64) -> Option<Vec<Stretch>> {
        self.stretches_in(self.padded(), digits, first, count)
    }

    /// The same with lines of so many positions, padding included.
    pub(super) fn stretches_in(
        &self,
        padded: u64,
        digits: &[(u64, i64)],
        first: u64,
        count: u64,
    ) -> Option<Vec<Stretch>> {
        if !first.is_multiple_of(padded) || !count.is_multiple_of(padded) {
            return None;
        }
        if digits.iter().any(|(weight, _)| !weight.is_multiple_of(padded) && !padded.is_multiple_of(*weight))
        {
            return None;
        }
        let (mut lines, within): (Vec<_>, Vec<_>) = digits.iter().copied().partition(|one| one.0 >= padded);
        lines.iter_mut().for_each(|one| one.0 /= padded);
        if let Some((weight, to)) = within.first().filter(|_| lines.last().is_none_or(|last| last.0 > 1)) {
            lines.push((1, to * signed(padded / weight)));
        }
        let inner = stretches(&even(&within, self.line.1), self.line.0)?;
        let mut all = Vec::new();
        for line in self.line_stretches(&lines, first / padded, count / padded)? {
            all.extend(inner.iter().map(|own| behind(&line, own)));
        }
        Some(all)
    }

    /// Places of lines `first..first + count`.
    pub(super) fn line_stretches(
        &self,
        digits: &[(u64, i64)],
        first: u64,
        count: u64,
    ) -> Option<Vec<Stretch>> {
        let Some(((size, stride), around)) = self.outer.split_last() else {
            return stretches_of(&even(digits, 0), 0, count);
        };
        let digits = even(digits, *stride);
        let mut all = Vec::new();
        for block in first / size..(first + count).div_ceil(*size) {
            let (start, end) = ((block * size).max(first), ((block + 1) * size).min(first + count));
            let skipped = offset(around, block) + signed(first) * stride - signed(block * size) * stride;
            for mut stretch in stretches_of(&digits, start - first, end - first)? {
                stretch.first[0] += skipped;
                all.push(stretch);
            }
        }
        Some(all)
    }

    /// Runs of neighbouring lines that rows are cut into, at most.
    pub(super) fn blocks(&self, rows: u64) -> u64 {
        let run = self.outer.last().map_or(1, |(size, _)| *size);
        (rows / self.padded()).div_ceil(run.max(1)).max(1)
    }
}

/// The place of a number over axes.
fn offset(axes: &[(u64, i64)], number: u64) -> i64 {
    let (mut left, mut all) = (number, 0);
    for (size, stride) in axes.iter().rev() {
        all += signed(left % size) * stride;
        left /= size;
    }
    all
}

/// Loops of one axis inside of those of another.
fn behind(outer: &Stretch, inner: &Stretch) -> Stretch {
    let first = [0, 1].map(|at| outer.first[at] + inner.first[at]);
    Stretch { first, loops: [&outer.loops[..], &inner.loops].concat() }
}

impl Windows {
    /// Windows of a view that has the rows and then the sum of a contraction; `None` if transfers cannot walk
    /// over them.
    pub(in super::super) fn new(view: &View, sizes: Sizes, granule_bytes: u64) -> Option<Windows> {
        let at = (0..=view.axes.len()).find(|at| {
            let count = |axes: &[(u64, i64)]| axes.iter().map(|axis| axis.0).product::<u64>();
            (count(&view.axes[..*at]), count(&view.axes[*at..])) == (sizes.rows, sizes.summed)
        })?;
        let (mut rows, summed) = (joined(&view.axes[..at]), joined(&view.axes[at..]));
        let even = |elements: u64| (elements * sizes.operands.element_bytes()).is_multiple_of(granule_bytes);
        let (run, 1) = *summed.last()? else { return None };
        let strides = rows.iter().chain(&summed[..summed.len() - 1]);
        let walked = strides.into_iter().all(|(_, stride)| *stride > 0 && even(stride.unsigned_abs()));
        if sizes.batch != 1 || !walked || !even(run) || view.first < 0 || !even(view.first.unsigned_abs()) {
            return None;
        }
        let line = if rows.len() > 1 { rows.pop()? } else { (1, 0) };
        Some(Windows { first: view.first, rows: Lines { outer: rows, line }, summed, inside: None })
    }

    /// The rows of a contraction as they lie, in lines as padding around results has them.
    pub(in super::super) fn plain(sizes: Sizes, inside: Padding) -> Windows {
        let (live, row) = (inside.rows.live(), signed(sizes.summed));
        let rows = Lines { outer: vec![(sizes.rows / live, signed(live) * row)], line: (live, row) };
        Windows { first: 0, rows, summed: vec![(sizes.summed, 1)], inside: Some(inside) }
    }

    /// The same with results inside of padding, if both have the same lines.
    pub(in super::super) fn into_padding(self, inside: Padding) -> Option<Windows> {
        let same = self.rows.live() == inside.rows.live() && self.rows.count() == inside.rows.count();
        same.then_some(Windows { inside: Some(inside), ..self })
    }

    /// Whether results go inside of padding.
    pub(in super::super) fn pads(&self) -> bool {
        self.inside.is_some()
    }

    /// Whether rows are read through windows.
    pub(in super::super) fn looks(&self) -> bool {
        let (live, row) = self.rows.line;
        let lines = [(self.rows.count(), signed(live) * row)];
        self.first != 0 || self.summed.len() > 1 || row != signed(self.run()) || self.rows.outer != lines
    }

    /// Windows as lines have them, if they are runs of as many lines; access units of HBM have so many
    /// elements.
    pub(super) fn geometry(&self, unit: u64) -> Option<Geometry> {
        let step = |stride: i64| u64::try_from(stride).ok();
        let first = step(self.first)?;
        let around = self.rows.outer.iter().chain(&self.summed[..self.summed.len() - 1]);
        let even = around.into_iter().all(|(_, stride)| stride.unsigned_abs().is_multiple_of(unit.max(1)));
        let (lines, line_step) = *self.rows.outer.last()?;
        let (taps, tap_step) = match self.summed[..] {
            [_] => (1, line_step),
            [tap, _] => tap,
            _ => return None,
        };
        Some(Geometry {
            lines,
            line_step: step(line_step)?,
            position_step: step(self.rows.line.1)?,
            taps,
            tap_step: step(tap_step)?,
            run: self.run(),
            line: [self.rows.live(), self.rows.padded()],
            unit,
            ahead: if even { first % unit.max(1) } else { 0 },
        })
    }

    /// Rows as they lie in the value that windows look at.
    pub(super) fn rows(&self) -> &Lines {
        &self.rows
    }

    /// The first element of a result of so many columns that is written, and its rows from there on.
    pub(super) fn stored(&self, columns: u64) -> (i64, Lines) {
        match &self.inside {
            Some(inside) => (inside.first, inside.rows.clone()),
            None => (0, self.results(columns)),
        }
    }

    /// Rows as they lie in a result of so many columns.
    pub(super) fn results(&self, columns: u64) -> Lines {
        let (live, columns) = (self.rows.live(), signed(columns));
        Lines { outer: vec![(self.rows.count(), signed(live) * columns)], line: (live, columns) }
    }

    /// The contraction with the rows that are padding.
    pub(in super::super) fn padded(&self, sizes: Sizes) -> Sizes {
        Sizes { rows: self.rows.count() * self.rows.padded(), ..sizes }
    }

    /// Elements of the sum that follow each other.
    pub(super) fn run(&self) -> u64 {
        self.summed.last().map_or(1, |(size, _)| *size)
    }

    /// Whether all runs begin at multiples of so many elements.
    pub(super) fn begins_at(&self, elements: u64) -> bool {
        let rows = self.rows.outer.iter().chain([&self.rows.line]);
        let mut all = rows.chain(&self.summed[..self.summed.len() - 1]);
        self.first.unsigned_abs().is_multiple_of(elements)
            && all.all(|(_, stride)| stride.unsigned_abs().is_multiple_of(elements))
    }

    /// Places of the sum by the digits of a tile's shape; `None` if digits cut across too many runs.
    pub(super) fn sum_stretches(&self, digits: &[(u64, i64)]) -> Option<Vec<Stretch>> {
        let mut weight = 1;
        let mut own: Vec<(u64, i64)> = Vec::new();
        for (size, stride) in self.summed.iter().rev() {
            own.insert(0, (weight, *stride));
            weight *= size;
        }
        if let Some(all) = common(&own, digits) {
            return stretches(&all, weight);
        }
        let (run, around) = (self.run(), &self.summed[..self.summed.len() - 1]);
        let runs = weight / run;
        let digits: Vec<Digit> = even(digits, 1);
        let mut all = Vec::new();
        for number in (0..runs).filter(|_| runs <= MOST_RUNS) {
            let skipped = offset(around, number) - signed(number * run);
            for mut stretch in stretches_of(&digits, number * run, (number + 1) * run)? {
                stretch.first[0] += skipped;
                all.push(stretch);
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::kernel::Packing;
    use super::*;

    fn places(all: &[Stretch]) -> Vec<[i64; 2]> {
        let mut found = Vec::new();
        for stretch in all {
            let mut own = vec![stretch.first];
            for (size, steps) in &stretch.loops {
                let walk = |from: [i64; 2]| {
                    (0..signed(*size)).map(move |at| [from[0] + at * steps[0], from[1] + at * steps[1]])
                };
                own = own.into_iter().flat_map(walk).collect();
            }
            found.extend(own);
        }
        found.sort_unstable_by_key(|pair| pair[1]);
        found
    }

    proptest! {
        /// Every row of a tile that is no padding lies where the windows have it.
        #[test]
        fn lines_are_rows_of_windows(
            sizes in (1..4_u64, 1..6_u64, 2..9_u64), cut in 0..5_u32, range in (0..20_u64, 0..20_u64),
        ) {
            let (images, height, width) = sizes;
            let lines = Lines { outer: vec![(images, 1000), (height, 50)], line: (width, 3) };
            let padded = lines.padded();
            let all = images * height;
            let (first, end) = (range.0.min(range.1).min(all), range.0.max(range.1).min(all));
            let weight = 1_u64 << cut;
            let digits = [(weight, signed(1 << 20)), (1, 1)];
            let found = lines.stretches(&digits, first * padded, (end - first) * padded);
            let mut wanted = Vec::new();
            for row in 0..(end - first) * padded {
                let (line, x) = (first + row / padded, row % padded);
                let from = signed(line / height) * 1000 + signed(line % height) * 50 + signed(x) * 3;
                let to = signed(row / weight) * (1 << 20) + signed(row % weight);
                wanted.extend((x < width).then_some([from, to]));
            }
            prop_assert_eq!(places(&found.unwrap()), wanted);
        }

        /// Every element of a sum lies where the windows have it, also where slices cut across runs.
        #[test]
        fn sums_are_runs_of_windows(height in 1..5_u64, run in 1..5_u64, share in 1..20_u64) {
            let run = run * 4;
            let view = View { value: 0, first: 0, axes: vec![(2, 400), (height, 100), (run, 1)] };
            let sizes = Sizes::new(1, 2, 1, height * run, Packing::Half);
            let windows = Windows::new(&view, sizes, 8).unwrap();
            let found = windows.sum_stretches(&[(share, 1 << 20), (1, 1)]).unwrap();
            let wanted: Vec<[i64; 2]> = (0..height * run).map(|at| {
                let to = signed(at / share) * (1 << 20) + signed(at % share);
                [signed(at / run) * 100 + signed(at % run), to]
            }).collect();
            prop_assert_eq!(places(&found), wanted);
        }
    }
}
