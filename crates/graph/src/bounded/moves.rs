//! What moves elements by number: slices, windows, joining, padding, gathering and scattering.
//!
//! Where a position depends on a run-time size, elements are gathered by a vector of row numbers that is
//! computed from it.

use super::folds::kept;
use super::layout::{Digit, Padding, plain};
use super::nodes::open_part;
use super::{Bounded, BoundingPass};
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Data, ValueId};
use crate::infer::{BuildResult, shape_error, size_error};
use crate::op::{Binary, Op};

impl BoundingPass<'_> {
    /// The size of an axis whose elements come first, and what is behind them.
    fn single(&self, axes: &[Vec<Digit>], axis: usize) -> BuildResult<(Dim, Padding)> {
        match axes.get(axis).map(Vec::as_slice) {
            Some([]) => Ok((Dim::fixed(1), Padding::Unknown)),
            Some([digit]) => Ok((digit.dim.clone(), digit.padding)),
            Some(digits) => {
                let parts: Vec<String> = digits.iter().map(|digit| digit.dim.text(self.axes())).collect();
                let what = format!("axis {axis} is {} merged, with padding between", parts.join(" x "));
                Err(self.refusal(what, &open_part(digits.iter())))
            }
            None => Err(shape_error(format!("axis {axis} of {}", axes.len()), "an axis that is there")),
        }
    }

    /// Elements `start + i * step` of an axis.
    pub(super) fn slice(
        &mut self,
        axis: usize,
        (start, size, step): (&Dim, &Dim, i64),
        (x, axes): &Bounded,
    ) -> BuildResult<Bounded> {
        let (own, padding) = self.single(axes, axis)?;
        let length = self.bound(size)?;
        let mut new = axes.clone();
        let is_same = own.as_fixed().is_none() && padding == Padding::Same;
        new.splice(axis..=axis, [plain(size, if is_same { Padding::Same } else { Padding::Unknown })]);
        if is_same {
            return Ok((self.b.slice(*x, axis, Dim::fixed(0), length, 1)?, new));
        }
        if start.as_fixed().is_some() && (step > 0 || size.as_fixed().is_some() && own.as_fixed().is_some()) {
            return Ok((self.b.slice(*x, axis, start.clone(), length, step)?, new));
        }
        let place = self.b.iota(Dtype::I32, &[length], 0)?;
        #[expect(clippy::cast_precision_loss, reason = "a step beyond 32 bits is refused as a number of i32")]
        let row = self.b.with(Binary::Mul, place, step as f64)?;
        let first = self.size(start)?;
        let row = self.b.add(row, first)?;
        let row = self.below(place, size, row)?;
        Ok((self.b.gather(*x, axis, row)?, new))
    }

    /// Row numbers at places below a size, and the first row at all others.
    fn below(&mut self, place: ValueId, size: &Dim, row: ValueId) -> BuildResult<ValueId> {
        if size.as_fixed().is_some() {
            return Ok(row);
        }
        let size = self.size(size)?;
        let inside = self.b.binary(Binary::Lt, place, size)?;
        let zero = self.b.scalar(Dtype::I32, 0.0)?;
        self.b.select(inside, row, zero)
    }

    /// Windows along an axis.
    pub(super) fn window(
        &mut self,
        axis: usize,
        (size, stride, dilation): (u64, u64, u64),
        (x, axes): &Bounded,
    ) -> BuildResult<Bounded> {
        let (own, padding) = self.single(axes, axis)?;
        let y = self.b.emit(Op::Window { axis, size, stride, dilation }, &[*x])?;
        let long = || size_error("a window that is too long", "64 bits");
        let before = i64::try_from((size.saturating_sub(1)).saturating_mul(dilation)).map_err(|_| long())?;
        let windows = match own.as_fixed() {
            Some(_) => self.b.dim(y, axis)?,
            None => own.minus(&Dim::fixed(before)).ok_or_else(long)?,
        };
        let padding = if padding == Padding::Same { Padding::Same } else { Padding::Unknown };
        let mut new = axes.clone();
        new.splice(axis..=axis, [plain(&windows, padding), plain(&self.b.dim(y, axis + 1)?, padding)]);
        Ok((y, new))
    }

    /// Operands one behind the other.
    pub(super) fn concat(&mut self, axis: usize, parts: &[Bounded]) -> BuildResult<Bounded> {
        let rank = parts.first().map_or(0, |(_, axes)| axes.len());
        let mut sizes = Vec::new();
        for (_, axes) in parts {
            sizes.push(self.single(axes, axis)?);
        }
        let too_long = || size_error("`concat` of too much", "64 bits");
        let mut starts = vec![Dim::fixed(0)];
        for (size, _) in &sizes {
            let next = starts.last().and_then(|last| last.plus(size)).ok_or_else(too_long)?;
            starts.push(next);
        }
        let total = starts.pop().unwrap_or_default();
        let mut new = Vec::with_capacity(rank);
        for place in 0..rank {
            let sides: Vec<&[Digit]> =
                parts.iter().filter_map(|(_, axes)| axes.get(place)).map(Vec::as_slice).collect();
            new.push(if place == axis { Vec::new() } else { self.met(&Op::Concat { axis }, true, &sides)? });
        }
        if let ([(before, padding), (one, _)], [(x, _), (row, _)]) = (&sizes[..], parts)
            && before.as_fixed().is_none()
            && one.is(1)
        {
            let padding = if *padding == Padding::Zero { Padding::Zero } else { Padding::Unknown };
            new.splice(axis..=axis, [plain(&total, padding)]);
            return Ok((self.with_row(axis, (*x, before), *row, rank - axis - 1)?, new));
        }
        let ids: Vec<ValueId> = parts.iter().map(|(id, _)| *id).collect();
        let joined = self.b.concat(axis, &ids)?;
        let (last, others) = sizes.split_last().ok_or_else(too_long)?;
        if others.iter().all(|(size, _)| size.as_fixed().is_some()) {
            let padding = if last.1 == Padding::Zero { Padding::Zero } else { Padding::Unknown };
            new.splice(axis..=axis, [plain(&total, padding)]);
            return Ok((joined, new));
        }
        new.splice(axis..=axis, [plain(&total, Padding::Unknown)]);
        let row = self.joined_rows(&sizes, &starts, &total)?;
        Ok((self.b.gather(joined, axis, row)?, new))
    }

    /// A value with one row behind those that it has, as a cache gets with every token.
    fn with_row(
        &mut self,
        axis: usize,
        (x, size): (ValueId, &Dim),
        row: ValueId,
        behind: usize,
    ) -> BuildResult<ValueId> {
        let zero = self.b.scalar(self.b.dtype(x), 0.0)?;
        let longer = self.b.pad(x, axis, Dim::fixed(0), Dim::fixed(1), zero)?;
        let place = self.b.iota(Dtype::I32, &[self.b.dim(longer, axis)?], 0)?;
        let size = self.size(size)?;
        let here = self.b.binary(Binary::Eq, place, size)?;
        let here = self.column(here, self.b.dim(longer, axis)?, behind)?;
        self.b.select(here, row, longer)
    }

    /// For each place of joined operands, the row where it lies behind their padding.
    fn joined_rows(&mut self, sizes: &[(Dim, Padding)], starts: &[Dim], total: &Dim) -> BuildResult<ValueId> {
        let length = self.bound(total)?;
        let place = self.b.iota(Dtype::I32, &[length], 0)?;
        let (mut row, mut lies) = (place, Dim::fixed(0));
        for ((size, _), start) in sizes.iter().zip(starts) {
            if !start.is(0) {
                let first = self.size(start)?;
                let here = self.b.binary(Binary::Ge, place, first)?;
                let inside = self.b.sub(place, first)?;
                let offset = self.b.number(lies.clone(), Dtype::I32)?;
                let moved = self.b.add(inside, offset)?;
                row = self.b.select(here, moved, row)?;
            }
            let bound = self.bound(size)?;
            lies = lies.plus(&bound).ok_or_else(|| size_error("`concat` of too much", "64 bits"))?;
        }
        self.below(place, total, row)
    }

    /// Elements equal to a scalar before and behind an axis.
    pub(super) fn pad(
        &mut self,
        axis: usize,
        [low, high]: [&Dim; 2],
        (x, axes): &Bounded,
        value: ValueId,
    ) -> BuildResult<Bounded> {
        let (own, padding) = self.single(axes, axis)?;
        if low.as_fixed().is_none() {
            let what = format!("{} elements before axis {axis}", low.text(self.axes()));
            return Err(self.refusal(what, low));
        }
        let is_zero = match self.b.constant_data(value) {
            Some(Data::Floats(patterns)) => patterns.iter().all(|pattern| f32::from_bits(*pattern) == 0.0),
            Some(Data::Ints(numbers)) => numbers.iter().all(|number| *number == 0),
            _ => false,
        };
        let is_good = |digit: &Digit| is_zero && digit.has_zeros();
        let filled = self.filled(*x, axes, &[axis], &is_good, value)?;
        let y = self.b.pad(filled, axis, low.clone(), self.bound(high)?, value)?;
        let total = own.plus(low).and_then(|sum| sum.plus(high));
        let total = total.ok_or_else(|| size_error("`pad` to too much", "64 bits"))?;
        // Along other axes what was zero still is, where the scalar is zero too.
        let mut new: Vec<Vec<Digit>> = match is_zero {
            true => axes.clone(),
            false => axes.iter().map(|digits| digits.iter().cloned().map(kept).collect()).collect(),
        };
        let all_same = own.as_fixed().is_none() && padding == Padding::Same && low.is(0) && high.is(0);
        let padding = match (all_same, is_zero) {
            (true, _) => Padding::Same,
            (false, true) => Padding::Zero,
            (false, false) => Padding::Unknown,
        };
        new.splice(axis..=axis, [plain(&total, padding)]);
        Ok((y, new))
    }

    /// Slices of an axis by number.
    pub(super) fn gather(
        &mut self,
        axis: usize,
        (x, axes): &Bounded,
        indices: &Bounded,
    ) -> BuildResult<Bounded> {
        let (own, padding) = self.single(axes, axis)?;
        let zero = self.b.scalar(self.b.dtype(indices.0), 0.0)?;
        let all: Vec<usize> = (0..indices.1.len()).collect();
        let is_good = |digit: &Digit| digit.padding != Padding::Unknown;
        let rows = self.filled(indices.0, &indices.1, &all, &is_good, zero)?;
        let rows = if own.as_fixed().is_some() || padding == Padding::Same {
            rows
        } else {
            self.counted_from_front(rows, &own)?
        };
        let y = self.b.gather(*x, axis, rows)?;
        let mut new = axes.clone();
        let places = indices.1.iter().map(|digits| digits.iter().cloned().map(kept).collect());
        new.splice(axis..=axis, places);
        Ok((y, new))
    }

    /// Row numbers that count from the front: those from the end depend on the run-time size.
    fn counted_from_front(&mut self, rows: ValueId, size: &Dim) -> BuildResult<ValueId> {
        if self.b.numbers(rows).is_some_and(|rows| rows.iter().all(|row| *row >= 0)) {
            return Ok(rows);
        }
        let rows = self.b.convert(rows, Dtype::I32)?;
        let behind = self.b.with(Binary::Lt, rows, 0.0)?;
        let size = self.size(size)?;
        let moved = self.b.add(rows, size)?;
        self.b.select(behind, moved, rows)
    }

    /// Rows replaced by, or folded with, others. Rows of padding go to one behind the last.
    pub(super) fn scatter(
        &mut self,
        op: &Op,
        (x, axes): &Bounded,
        (indices, places): &Bounded,
        (updates, own): &Bounded,
    ) -> BuildResult<Bounded> {
        let (size, _) = self.single(axes, 0)?;
        let mut new = vec![axes.first().cloned().unwrap_or_default().into_iter().map(kept).collect()];
        for (mine, theirs) in axes.iter().zip(own).skip(1) {
            new.push(self.met(op, true, &[mine.as_slice(), theirs.as_slice()])?);
        }
        let open = places.iter().flatten().any(Digit::is_open);
        if !open && size.as_fixed().is_some() {
            return Ok((self.b.emit(op.clone(), &[*x, *indices, *updates])?, new));
        }
        let rows = self.counted_from_front(*indices, &size)?;
        let length = self.bound(&size)?;
        let behind = self.b.number(length.clone(), self.b.dtype(rows))?;
        let rows = self.filled(rows, places, &[0], &|_| false, behind)?;
        let zero = self.b.scalar(self.b.dtype(*x), 0.0)?;
        let room = self.b.pad(*x, 0, Dim::fixed(0), Dim::fixed(1), zero)?;
        let y = self.b.emit(op.clone(), &[room, rows, *updates])?;
        Ok((self.b.slice(y, 0, Dim::fixed(0), length, 1)?, new))
    }
}
