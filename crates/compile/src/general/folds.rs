//! Reductions: rows that are folded at once or in turns, folds of windows tap by tap, and products.

use tilewright_graph::{Binary, Dtype, Fold};
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::contract::MOST_TAPS;
use super::elementwise::{Arg, Writer};
use super::form::{Former, MOST_ELEMENTS, inverse, memory_order};
use super::group::GRANULE_WORDS;
use super::kernel::{Origin, Part, Work};
use super::refusal::Lowered;
use super::view::{View, count, joined, signed, strides};

/// Columns that a reduction takes at once; longer rows are reduced in two turns.
const MOST_COLUMNS: u64 = 4096;
/// Columns of a turn below which rows are lengthened instead.
const LEAST_COLUMNS: u64 = 64;
/// Blocks of an axis that are folded at once.
const MOST_BLOCKS: u64 = 16;
/// Elements of a position of an axis below which rows are folded instead.
const LEAST_INNER: u64 = 64;

/// Elements of which short rows are folded place by place.
const MANY_ELEMENTS: u64 = 1 << 14;
/// Elements of a window up to which they are folded at once.
const FEW_WINDOW_TAPS: u64 = 25;
/// Elements of a run below which rows are as long as they may be.
const LEAST_RUN: u64 = 512;

/// Elements from each of some axes on to the last of them.
fn inner_sizes(x: &View, axes: &[usize]) -> Vec<u64> {
    let sizes: Vec<u64> = axes.iter().filter_map(|axis| x.axes.get(*axis)).map(|axis| axis.0).collect();
    (0..sizes.len()).map(|at| sizes[at..].iter().product()).collect()
}

/// Windows along an axis that share elements.
struct Overlap {
    /// The axis of their places.
    places: usize,
    /// Elements that they look at, and from one window to the next.
    positions: u64,
    step: i64,
}

impl Overlap {
    /// Those of an axis that is folded; `None` if no axis that stays walks over the same elements.
    fn of(x: &View, folded: &[usize], axis: usize) -> Option<Overlap> {
        let (size, stride) = x.axes[axis];
        let shares = |places: &usize| {
            let (windows, by) = x.axes[*places];
            let apart = stride > 0 && by > 0 && by % stride == 0 && by / stride < signed(size);
            !folded.contains(places) && windows > 1 && apart
        };
        let places = (0..x.axes.len()).find(shares)?;
        let step = x.axes[places].1 / stride;
        let positions = (x.axes[places].0 - 1) * step.unsigned_abs() + size;
        Some(Overlap { places, positions, step })
    }
}

/// A view with neighbouring axes as one, if elements lie so, and which axis that is.
fn joined_axes(x: &View, axes: &[usize]) -> Option<(View, usize)> {
    let first = *axes.first()?;
    let follow = axes.iter().zip(first..).all(|(axis, place)| *axis == place);
    let own = x.axes.get(first..first + axes.len())?;
    let [(size, stride)] = joined(own)[..] else { return None };
    if axes.len() < 2 || !follow {
        return None;
    }
    let mut together = x.clone();
    together.axes.splice(first..first + axes.len(), [(size, stride)]);
    Some((together, first))
}

impl Former<'_> {
    /// Folds axes of elements of a type; the result has `dims`. What is looked at may be of another type with
    /// the same words: an input that is converted.
    pub(super) fn reduce(
        &mut self,
        name: &str,
        x: &View,
        (fold, dtype): (Fold, Dtype),
        axes: &[usize],
        dims: &[u64],
    ) -> Lowered<View> {
        let fold = match (dtype, fold) {
            // Truth is all ones, which is the least integer but one: any is the least, all the greatest.
            (Dtype::Bool, Fold::Max) => Fold::Min,
            (Dtype::Bool, Fold::Min) => Fold::Max,
            (_, Fold::Max | Fold::Min) | (Dtype::F32 | Dtype::I32, Fold::Sum) | (Dtype::F32, Fold::Prod) => {
                fold
            }
            (dtype, fold) => return Err(format!("{} of {dtype} over an axis", fold.name())),
        };
        if let Some((together, axis)) = joined_axes(x, axes) {
            return self.reduce_one(name, &together, (fold, dtype), (&[axis], &inner_sizes(x, axes)), dims);
        }
        self.reduce_one(name, x, (fold, dtype), (axes, &inner_sizes(x, axes)), dims)
    }

    /// The same of values and folds that there are units for; so many elements are runs of what is read.
    fn reduce_one(
        &mut self,
        name: &str,
        x: &View,
        (fold, dtype): (Fold, Dtype),
        (axes, runs): (&[usize], &[u64]),
        dims: &[u64],
    ) -> Lowered<View> {
        let rank = x.axes.len();
        let order: Vec<usize> =
            (0..rank).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect();
        let turned = x.transposed(&order).ok_or("an axis that is not there")?;
        let columns = axes.iter().filter_map(|axis| x.axes.get(*axis)).map(|axis| axis.0).product::<u64>();
        let rows = count(dims);
        let numbers = matches!(dtype, Dtype::F32 | Dtype::I32) && fold != Fold::Prod;
        if numbers && let Some(view) = self.folded_in_turns(name, x, (fold, dtype), axes, dims)? {
            return Ok(view);
        }
        let apart =
            turned.axes.last().is_some_and(|axis| axis.1 != 1) || turned.reshaped(&[rows, columns]).is_none();
        let short = columns < FLIT_WORDS && rows * columns >= MANY_ELEMENTS;
        let few = short || apart && columns <= MOST_TAPS;
        if numbers && few && columns > 1 && rows > columns {
            return self.folded_taps(name, x, (fold, dtype), axes, dims);
        }
        if numbers && let Some(parts) = self.in_blocks(name, x, (fold, dtype), axes)? {
            return self.reduce_one(name, &parts, (fold, dtype), (axes, runs), dims);
        }
        let flat = match turned.reshaped(&[rows, columns]) {
            Some(view) => view,
            None => View::whole(self.plain(&turned, &format!("{name}.rows"))?, &[rows, columns]),
        };
        let value = if fold == Fold::Prod {
            self.product(name, flat, dtype)?
        } else {
            let from = self.plain(&flat, &format!("{name}.rows"))?;
            self.folded(name, from, (fold, dtype), (rows, columns), runs)?
        };
        Ok(View::whole(value, dims))
    }

    /// An axis of which blocks lie one behind the other in memory, folded to one block; `None` if it is
    /// short, or what lies in one position is no whole granule.
    fn in_blocks(
        &mut self,
        name: &str,
        x: &View,
        of: (Fold, Dtype),
        axes: &[usize],
    ) -> Lowered<Option<View>> {
        let [axis] = axes[..] else { return Ok(None) };
        let (size, stride) = x.axes[axis];
        let inner = x.axes.iter().filter(|axis| axis.1.abs() < stride).map(|axis| axis.0).product::<u64>();
        let even = |elements: i64| elements.unsigned_abs().is_multiple_of(GRANULE_WORDS);
        let around = x.axes.iter().all(|axis| axis.1.abs() < stride || even(axis.1)) && even(x.first);
        let whole = inner >= LEAST_INNER && stride == signed(inner) && around;
        let blocks = (2..=MOST_BLOCKS).rev().find(|blocks| size.is_multiple_of(*blocks));
        let Some(blocks) = blocks.filter(|_| whole && size > MOST_TAPS) else { return Ok(None) };
        let mut rest = x.clone();
        rest.axes[axis].0 = size / blocks;
        let dims = rest.dims();
        rest.axes.push((blocks, stride * signed(size / blocks)));
        let taps = [rest.axes.len() - 1];
        self.folded_taps(&format!("{name}.blocks"), &rest, of, &taps, &dims).map(Some)
    }

    /// Windows along several axes, folded along the innermost of them first, at all places that windows along
    /// the others look at: each place is folded once for all windows that share it. `None` if that is not
    /// less.
    fn folded_in_turns(
        &mut self,
        name: &str,
        x: &View,
        of: (Fold, Dtype),
        axes: &[usize],
        dims: &[u64],
    ) -> Lowered<Option<View>> {
        let size = |axis: &usize| x.axes[*axis].0;
        let live: Vec<usize> = axes.iter().copied().filter(|axis| size(axis) > 1).collect();
        let (taps, turns) = (live.iter().map(size).product::<u64>(), live.iter().map(size).sum::<u64>());
        let first = live.iter().copied().min_by_key(|axis| x.axes[*axis].1.abs());
        let Some(first) =
            first.filter(|first| taps > FEW_WINDOW_TAPS && taps >= 2 * turns && size(first) <= MOST_TAPS)
        else {
            return Ok(None);
        };
        let overlaps: Vec<(usize, Overlap)> = live
            .iter()
            .filter(|axis| **axis != first)
            .filter_map(|axis| Some((*axis, Overlap::of(x, axes, *axis)?)))
            .collect();
        if overlaps.is_empty() {
            return Ok(None);
        }
        let mut rest = x.clone();
        for (axis, overlap) in &overlaps {
            (rest.axes[*axis], rest.axes[overlap.places]) = ((1, 0), (overlap.positions, x.axes[*axis].1));
        }
        let taken = std::mem::replace(&mut rest.axes[first], (1, 0));
        let sizes = rest.dims();
        rest.axes.push(taken);
        let last = [rest.axes.len() - 1];
        let mut folded = self.folded_taps(&format!("{name}.turn"), &rest, of, &last, &sizes)?;
        for (axis, overlap) in &overlaps {
            let stride = folded.axes[overlap.places].1;
            folded.axes[*axis] = (size(axis), stride);
            folded.axes[overlap.places] = (x.axes[overlap.places].0, stride * overlap.step);
        }
        let runs = inner_sizes(&folded, axes);
        self.reduce_one(name, &folded, of, (axes, &runs), dims).map(Some)
    }

    /// Folds of few elements that lie apart, as windows of a pooling have them: each is a view of all
    /// results.
    fn folded_taps(
        &mut self,
        name: &str,
        x: &View,
        (fold, dtype): (Fold, Dtype),
        axes: &[usize],
        dims: &[u64],
    ) -> Lowered<View> {
        let mut taps = vec![x.first];
        for (size, stride) in axes.iter().filter_map(|axis| x.axes.get(*axis)) {
            let more = |first: i64| (0..signed(*size)).map(move |at| first + at * stride);
            taps = taps.into_iter().flat_map(more).collect();
        }
        let kept = (0..x.axes.len()).filter(|axis| !axes.contains(axis)).map(|axis| x.axes[axis]);
        let rest = View { axes: kept.collect(), ..x.clone() };
        let order = memory_order(&rest);
        let stored = rest.transposed(&order).ok_or("axes that do not fit")?;
        let inputs: Vec<View> = taps.iter().map(|first| View { first: *first, ..stored.clone() }).collect();
        let op = match fold {
            Fold::Max => Binary::Max,
            Fold::Min => Binary::Min,
            _ => Binary::Add,
        };
        let mut writer = Writer::new(inputs.len());
        let mut all = 0;
        for at in 1..inputs.len() {
            all = writer.binary(op, dtype, Arg::Stream(all), Arg::Stream(at))?;
        }
        let sizes = stored.dims();
        let work = Work::Chain { inputs, lines: writer.lines, streams: vec![all] };
        let view = View::whole(self.made(name, &sizes, dtype, work), &sizes);
        let view = view.transposed(&inverse(&order)).ok_or("axes that do not fit")?;
        // Axes that are kept with one position.
        match view.reshaped(dims) {
            Some(view) => Ok(view),
            None => Ok(View::whole(self.plain(&view, &format!("{name}.moved"))?, dims)),
        }
    }

    fn folded(
        &mut self,
        name: &str,
        from: usize,
        (fold, dtype): (Fold, Dtype),
        (rows, columns): (u64, u64),
        runs: &[u64],
    ) -> Lowered<usize> {
        if columns == 1 {
            return Ok(from);
        }
        if columns <= MOST_COLUMNS {
            return Ok(self.made(name, &[rows], dtype, Work::Reduce { from, fold, columns }));
        }
        let fits =
            |part: &u64| (LEAST_COLUMNS..=MOST_COLUMNS).contains(part) && columns.is_multiple_of(*part);
        // Runs that others walk over too, so that rows are the same to all.
        let run = runs.iter().copied().filter(fits).filter(|run| *run >= LEAST_RUN).max();
        let part = run.or_else(|| (LEAST_COLUMNS..=MOST_COLUMNS).rev().find(fits));
        let Some(part) = part else {
            let parts = columns.div_ceil(MOST_COLUMNS);
            let wide = parts * columns.div_ceil(parts).next_multiple_of(FLIT_WORDS);
            let from = self.lengthened(name, from, (fold, dtype), (rows, columns, wide))?;
            return self.folded(name, from, (fold, dtype), (rows, wide), &[]);
        };
        let work = Work::Reduce { from, fold, columns: part };
        let parts = self.made(&format!("{name}.parts"), &[rows * (columns / part)], dtype, work);
        self.folded(name, parts, (fold, dtype), (rows, columns / part), &[])
    }

    /// Rows with more columns behind, of which none changes what a fold gives.
    fn lengthened(
        &mut self,
        name: &str,
        from: usize,
        (fold, dtype): (Fold, Dtype),
        (rows, columns, wide): (u64, u64, u64),
    ) -> Lowered<usize> {
        if rows.saturating_mul(wide) > MOST_ELEMENTS {
            return Err(format!("{rows} rows of {columns}; at most {MOST_ELEMENTS} elements"));
        }
        let word = match (fold, dtype.is_float()) {
            (Fold::Max, true) => f32::NEG_INFINITY.to_bits(),
            (Fold::Min, true) => f32::INFINITY.to_bits(),
            (Fold::Max, false) => i32::MIN.cast_unsigned(),
            (Fold::Min, false) => i32::MAX.cast_unsigned(),
            _ => 0,
        };
        let loops = vec![(rows, signed(columns), signed(wide)), (columns, 1, 1)];
        let work = Work::Move(vec![Part { from, from_first: 0, to_first: 0, loops }]);
        let value = self.made(&format!("{name}.wide"), &[rows, wide], dtype, work);
        self.all.values[value].origin = Origin::Filled(word);
        Ok(value)
    }

    /// Products of rows: the vector engine multiplies streams, so that halves of rows are multiplied until
    /// one column is left.
    fn product(&mut self, name: &str, mut x: View, dtype: Dtype) -> Lowered<usize> {
        loop {
            let (rows, columns) = (x.axes[0].0, x.axes[1].0);
            if columns == 1 {
                return self.plain(&x, name);
            }
            let half = columns / 2;
            let none = || "columns that are not there".to_string();
            let parts = [0, half].map(|start| x.sliced(1, signed(start), half, 1));
            let [Some(a), Some(b)] = parts else { return Err(none()) };
            let inputs = vec![a, b];
            let mut writer = Writer::new(2);
            let stream = writer.binary(Binary::Mul, dtype, Arg::Stream(0), Arg::Stream(1))?;
            let work = Work::Chain { inputs, lines: writer.lines, streams: vec![stream] };
            let value = self.made(&format!("{name}.half"), &[rows, half], dtype, work);
            let done = View::whole(value, &[rows, half]);
            x = if columns % 2 == 0 {
                done
            } else {
                let rest = x.sliced(1, signed(columns - 1), 1, 1).ok_or_else(none)?;
                let dims = [rows, half + 1];
                let to = strides(&dims);
                let parts: Vec<Part> = vec![self.part(&done, 0, &to), self.part(&rest, signed(half), &to)];
                View::whole(self.made(&format!("{name}.odd"), &dims, dtype, Work::Move(parts)), &dims)
            };
        }
    }
}
