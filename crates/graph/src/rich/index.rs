//! Choosing and moving elements by number: all of it gather, scatter, comparison and reduction.

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::ValueId;
use crate::infer::{BuildResult, shape_error};
use crate::op::{Binary, Fold, Op, Unary};
use crate::rich::RichCall;
use tilewright_base::invariant::OrBroken;

/// Where NaN stands among the elements of a row: with infinity or minus infinity, and before or behind all of
/// that.
#[derive(Clone, Copy)]
struct NanRank {
    number: f64,
    is_first: bool,
}

/// What elements are ranked by: numbers, and among equal ones places. NaN becomes the number that it stands
/// with, and its place moves by the size `n` of the axis in front of all others, or behind them.
fn rank_keys(
    b: &mut Builder,
    x: ValueId,
    (places, n): (ValueId, &Dim),
    rank: NanRank,
) -> BuildResult<(ValueId, ValueId)> {
    if !b.dtype(x).is_float() {
        return Ok((x, places));
    }
    let nan = b.unary(Unary::IsNan, x)?;
    let number = b.scalar(b.dtype(x), rank.number)?;
    let numbers = b.select(nan, number, x)?;
    let size = b.number(n.clone(), b.dtype(places))?;
    let moved = b.binary(if rank.is_first { Binary::Sub } else { Binary::Add }, places, size)?;
    Ok((numbers, b.select(nan, moved, places)?))
}

/// The place of the largest (`least=1`: smallest) element along `axis`; the first of equals, or with `last=1`
/// the last. NaN is better than any number, as `numpy.argmax` and `numpy.argmin` have it: where some are NaN,
/// the place is that of the first (`last=1`: last) of them.
pub(super) fn arg_best(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let axis = call.axis(b, x, "axis", 0)?;
    let (least, last) = (call.flag("least")?, call.flag("last")?);
    let n = b.dim(x, axis)?;
    let mut dims = vec![Dim::fixed(1); b.rank(x)];
    dims[axis] = n.clone();
    // Chips have no arithmetic of i64, which places moved by NaN need in the end.
    let dtype = if b.dtype(x).is_float() { Dtype::I32 } else { Dtype::I64 };
    let places = b.iota(dtype, &dims, axis)?;
    let number = if least { f64::NEG_INFINITY } else { f64::INFINITY };
    let (numbers, places) = rank_keys(b, x, (places, &n), NanRank { number, is_first: !last })?;
    let best = b.reduce(if least { Fold::Min } else { Fold::Max }, numbers, &[axis], true)?;
    let here = b.binary(Binary::Eq, numbers, best)?;
    let size = b.number(n, dtype)?;
    let none = if last { b.scalar(dtype, -1.0)? } else { size };
    let places = b.select(here, places, none)?;
    let fold = if last { Fold::Max } else { Fold::Min };
    let found = b.reduce(fold, places, &[axis], call.int("keep", 1)? != 0)?;
    if !b.dtype(x).is_float() {
        return Ok(vec![found]);
    }
    let (is_moved, back) = if last {
        (b.binary(Binary::Ge, found, size)?, b.sub(found, size)?)
    } else {
        (b.with(Binary::Lt, found, 0.0)?, b.add(found, size)?)
    };
    let found = b.select(is_moved, back, found)?;
    Ok(vec![b.convert(found, Dtype::I64)?])
}

/// An order of axes with one moved to the end, and the order that moves it back.
fn to_end(rank: usize, axis: usize) -> (Vec<usize>, Vec<usize>) {
    let order: Vec<usize> = (0..rank).filter(|other| *other != axis).chain([axis]).collect();
    let mut back = vec![0; rank];
    order.iter().enumerate().for_each(|(to, from)| back[*from] = to);
    (order, back)
}

/// `topk(x)`: the `k` largest (`least=1`: smallest) along `axis` in order, and their places. An element's
/// rank is how many beat it; equal elements rank by place, and NaN is greater than any number.
pub(super) fn topk(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let axis = call.axis(b, x, "axis", -1)?;
    let count = call.int("k", 1)?;
    let least = call.flag("least")?;
    let (order, back) = to_end(b.rank(x), axis);
    let row = b.transpose(x, &order)?;
    let last = b.rank(row) - 1;
    let n = b.dim(row, last)?;
    let most = n.range(b.axes()).1;
    if !(0..=most).contains(&count.into()) {
        return call
            .refuse(&format!("with k={count} of {most} elements"), "k from 0 to the size of the axis");
    }
    // Ranks and places are i32, which chips add, until the end.
    let places = b.iota(Dtype::I32, std::slice::from_ref(&n), 0)?;
    let rank = NanRank { number: f64::INFINITY, is_first: !least };
    let (numbers, ties) = rank_keys(b, row, (places, &n), rank)?;
    let few = n.as_fixed().is_some_and(|size| count > 0 && count.saturating_mul(FEW_OF) <= size);
    if few && matches!(b.dtype(x), Dtype::F32 | Dtype::I32) {
        let (values, places) = best_in_turn(b, row, (numbers, ties, places), (count, least))?;
        let (values, places) = (b.transpose(values, &back)?, b.transpose(places, &back)?);
        return Ok(vec![values, b.convert(places, Dtype::I64)?]);
    }
    let (mine, other) = (b.unsqueeze(numbers, last + 1)?, b.unsqueeze(numbers, last)?);
    let better = b.binary(if least { Binary::Lt } else { Binary::Gt }, other, mine)?;
    let equal = b.binary(Binary::Eq, other, mine)?;
    let ties_end = b.rank(ties);
    let (i, j) = (b.unsqueeze(ties, ties_end)?, b.unsqueeze(ties, ties_end - 1)?);
    let earlier = b.binary(Binary::Lt, j, i)?;
    let tie = b.binary(Binary::And, equal, earlier)?;
    let beaten = b.binary(Binary::Or, better, tie)?;
    let beaten = b.convert(beaten, Dtype::I32)?;
    let rank = b.reduce(Fold::Sum, beaten, &[last + 1], false)?;
    let rank = b.unsqueeze(rank, last)?;
    let wanted = b.iota(Dtype::I32, &[Dim::fixed(count), Dim::fixed(1)], 0)?;
    let chosen = b.binary(Binary::Eq, rank, wanted)?;
    let pick = |b: &mut Builder, from: ValueId| -> BuildResult<ValueId> {
        let zero = b.scalar(b.dtype(from), 0.0)?;
        let picked = b.select(chosen, from, zero)?;
        let picked = b.reduce(Fold::Sum, picked, &[last + 1], false)?;
        b.transpose(picked, &back)
    };
    let elements = b.unsqueeze(row, last)?;
    let values = pick(b, elements)?;
    let places = pick(b, places)?;
    Ok(vec![values, b.convert(places, Dtype::I64)?])
}

/// Elements of a row for each that is wanted, from which on they are found one after the other.
const FEW_OF: i64 = 32;

/// The best of each row one after the other, without those before it: elements and places.
fn best_in_turn(
    b: &mut Builder,
    row: ValueId,
    (numbers, ties, places): (ValueId, ValueId, ValueId),
    (count, least): (i64, bool),
) -> BuildResult<(ValueId, ValueId)> {
    let last = b.rank(row) - 1;
    let (fold, worst) = if least { (Fold::Min, f64::INFINITY) } else { (Fold::Max, f64::NEG_INFINITY) };
    let worst = match (b.dtype(row), least) {
        (Dtype::I32, true) => f64::from(i32::MAX),
        (Dtype::I32, false) => f64::from(i32::MIN),
        _ => worst,
    };
    let worst = b.scalar(b.dtype(numbers), worst)?;
    let no_tie = b.scalar(Dtype::I32, f64::from(i32::MAX))?;
    let zero = [b.scalar(b.dtype(row), 0.0)?, b.scalar(Dtype::I32, 0.0)?];
    let wanted = b.iota(Dtype::I32, &[Dim::fixed(count)], 0)?;
    let (mut left, mut keys) = (numbers, ties);
    let mut found: [Option<ValueId>; 2] = [None; 2];
    for number in 0..count {
        let best = b.reduce(fold, left, &[last], true)?;
        let here = b.binary(Binary::Eq, left, best)?;
        let candidates = b.select(here, keys, no_tie)?;
        let key = b.reduce(Fold::Min, candidates, &[last], true)?;
        let chosen = b.binary(Binary::Eq, keys, key)?;
        let here = b.with(Binary::Eq, wanted, number as f64)?;
        for ((from, zero), all) in [row, places].into_iter().zip(zero).zip(&mut found) {
            let picked = b.select(chosen, from, zero)?;
            let picked = b.reduce(Fold::Sum, picked, &[last], true)?;
            *all = Some(b.select(here, picked, all.unwrap_or(zero))?);
        }
        // What is found neither is among the best nor breaks a tie again.
        left = b.select(chosen, worst, left)?;
        keys = b.select(chosen, no_tie, keys)?;
    }
    let [values, places] = found.map(|all| all.or_broken("at least one is wanted"));
    Ok((values, places))
}

/// Elements of a row whose sums up to each are taken at once.
const MOST_SUMMED: i64 = 64;
/// Elements of a block of longer rows.
const SUM_BLOCK: i64 = 32;

/// `cumsum(x)` along `axis`; `exclusive=1` leaves out the element itself, `reverse=1` starts at the end.
pub(super) fn cumsum(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let axis = call.axis(b, x, "axis", 0)?;
    let (order, back) = to_end(b.rank(x), axis);
    let row = b.transpose(x, &order)?;
    let sums = sums_up_to(b, row, (call.flag("exclusive")?, call.flag("reverse")?))?;
    Ok(vec![b.transpose(sums, &back)?])
}

/// Sums of the last axis up to each element: of long rows in blocks, to which those before them are added.
fn sums_up_to(b: &mut Builder, row: ValueId, (exclusive, reverse): (bool, bool)) -> BuildResult<ValueId> {
    let last = b.rank(row) - 1;
    let n = b.dim(row, last)?;
    let zero = b.scalar(b.dtype(row), 0.0)?;
    let Some(size) = n.as_fixed().filter(|size| *size > MOST_SUMMED) else {
        return all_sums_up_to(b, row, (exclusive, reverse), zero);
    };
    let blocks = size / SUM_BLOCK + i64::from(size % SUM_BLOCK > 0);
    let padded = b.pad(row, last, 0.into(), (blocks * SUM_BLOCK - size).into(), zero)?;
    let mut dims = b.dims(row)[..last].to_vec();
    let mut cut = dims.clone();
    cut.extend([Dim::fixed(blocks), Dim::fixed(SUM_BLOCK)]);
    let cut = b.reshape(padded, &cut)?;
    let inside = all_sums_up_to(b, cut, (exclusive, reverse), zero)?;
    let whole = b.reduce(Fold::Sum, cut, &[last + 1], false)?;
    let before = sums_up_to(b, whole, (true, reverse))?;
    let before = b.unsqueeze(before, last + 1)?;
    let all = b.add(inside, before)?;
    dims.push(Dim::fixed(blocks * SUM_BLOCK));
    let all = b.reshape(all, &dims)?;
    b.slice(all, last, 0.into(), n, 1)
}

/// The same with each element beside all that count for it.
fn all_sums_up_to(
    b: &mut Builder,
    row: ValueId,
    (exclusive, reverse): (bool, bool),
    zero: ValueId,
) -> BuildResult<ValueId> {
    let last = b.rank(row) - 1;
    let n = b.dim(row, last)?;
    let from = b.unsqueeze(row, last)?;
    let square = [n.clone(), n];
    let (to, at) = (b.iota(Dtype::I64, &square, 0)?, b.iota(Dtype::I64, &square, 1)?);
    let counted = match (exclusive, reverse) {
        (false, false) => Binary::Le,
        (true, false) => Binary::Lt,
        (false, true) => Binary::Ge,
        (true, true) => Binary::Gt,
    };
    let counted = b.binary(counted, at, to)?;
    let parts = b.select(counted, from, zero)?;
    b.reduce(Fold::Sum, parts, &[last + 1], false)
}

/// `trilu(x, k)`: zeros above (`upper=1`: below) diagonal `k` of the last two axes.
pub(super) fn trilu(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let rank = b.rank(x);
    if rank < 2 {
        return Err(shape_error("`trilu` of a vector", "a matrix"));
    }
    let dims = b.dims(x)[rank - 2..].to_vec();
    let (row, column) = (b.iota(Dtype::I64, &dims, 0)?, b.iota(Dtype::I64, &dims, 1)?);
    let k = match call.maybe(1) {
        Some(k) => b.reshape(k, &[])?,
        None => b.scalar(Dtype::I64, 0.0)?,
    };
    let edge = b.add(row, k)?;
    let keeps = if call.flag("upper")? { Binary::Ge } else { Binary::Le };
    let kept = b.binary(keeps, column, edge)?;
    let zero = b.scalar(b.dtype(x), 0.0)?;
    Ok(vec![b.select(kept, x, zero)?])
}

fn too_large() -> Box<tilewright_base::Diagnostic> {
    shape_error("a tensor with too many elements", "64 bits")
}

/// Elements behind each axis of a shape.
fn strides(dims: &[Dim]) -> BuildResult<Vec<Dim>> {
    let each = (0..dims.len()).map(|axis| Dim::product(&dims[axis + 1..]).ok_or_else(too_large));
    each.collect()
}

/// Indices as i64, counted from the front.
fn from_front(b: &mut Builder, indices: ValueId, size: Dim) -> BuildResult<ValueId> {
    let indices = b.convert(indices, Dtype::I64)?;
    let negative = b.with(Binary::Lt, indices, 0.0)?;
    let size = b.number(size, Dtype::I64)?;
    let moved = b.add(indices, size)?;
    b.select(negative, moved, indices)
}

fn scaled(b: &mut Builder, x: ValueId, by: &Dim) -> BuildResult<ValueId> {
    if by.is(1) {
        return Ok(x);
    }
    let by = b.number(by.clone(), Dtype::I64)?;
    b.mul(x, by)
}

/// For each index along `axis`, the number of the element of `x` that it means.
fn element_places(b: &mut Builder, x: ValueId, indices: ValueId, axis: usize) -> BuildResult<ValueId> {
    let dims = b.dims(x).to_vec();
    let own = b.dims(indices).to_vec();
    let mut sum: Option<ValueId> = None;
    for (at, stride) in strides(&dims)?.iter().enumerate() {
        let part = if at == axis {
            from_front(b, indices, dims[at].clone())?
        } else {
            b.iota(Dtype::I64, &own, at)?
        };
        let part = scaled(b, part, stride)?;
        sum = Some(match sum {
            None => part,
            Some(sum) => b.add(sum, part)?,
        });
    }
    sum.ok_or_else(|| shape_error("elements of a scalar", "an axis"))
}

fn flat(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let count = Dim::product(b.dims(x)).ok_or_else(too_large)?;
    b.reshape(x, &[count])
}

/// `gather_elements(x, indices)`: each element by its own index along `axis`.
pub(super) fn gather_elements(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(b, x, "axis", 0)?;
    let places = element_places(b, x, indices, axis)?;
    let elements = flat(b, x)?;
    Ok(vec![b.gather(elements, 0, places)?])
}

fn fold(call: &RichCall<'_>) -> BuildResult<Option<Fold>> {
    Ok(match call.word("fold", "none")? {
        "none" => None,
        "add" | "sum" => Some(Fold::Sum),
        "mul" | "prod" => Some(Fold::Prod),
        "max" => Some(Fold::Max),
        "min" => Some(Fold::Min),
        _ => return call.refuse("with another `fold`", "none, add, mul, max, min"),
    })
}

/// `scatter_elements(x, indices, updates)`: `x` with elements replaced or folded, each by its own index along
/// `axis`.
pub(super) fn scatter_elements(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = call.axis(b, x, "axis", 0)?;
    let places = element_places(b, x, indices, axis)?;
    let (places, elements, updates) = (flat(b, places)?, flat(b, x)?, flat(b, updates)?);
    let y = b.emit(Op::Scatter { fold: fold(call)? }, &[elements, places, updates])?;
    let dims = b.dims(x).to_vec();
    Ok(vec![b.reshape(y, &dims)?])
}

/// `x` as rows over its first `axes` axes, and for each tuple of indices the row that it means; the first
/// `batch` axes are shared with the indices.
fn rows(
    b: &mut Builder,
    x: ValueId,
    indices: ValueId,
    batch: usize,
) -> BuildResult<(ValueId, ValueId, usize)> {
    let wrong = || {
        shape_error("indices of an open or too large width", "as many numbers as axes that they choose from")
    };
    let last = b.rank(indices).checked_sub(1).ok_or_else(wrong)?;
    let width =
        b.dim(indices, last)?.as_fixed().and_then(|width| usize::try_from(width).ok()).ok_or_else(wrong)?;
    let axes = batch + width;
    let dims = b.dims(x).to_vec();
    if axes > dims.len() || batch > last {
        return Err(wrong());
    }
    let outer = b.dims(indices)[..last].to_vec();
    let mut sum: Option<ValueId> = None;
    for (at, stride) in strides(&dims[..axes])?.iter().enumerate() {
        let part = match at.checked_sub(batch) {
            None => b.iota(Dtype::I64, &outer, at)?,
            Some(column) => {
                let column = i64::try_from(column).or_broken("a column fits 63 bits");
                let part = b.slice(indices, last, column.into(), 1.into(), 1)?;
                let part = b.reshape(part, &outer)?;
                from_front(b, part, dims[at].clone())?
            }
        };
        let part = scaled(b, part, stride)?;
        sum = Some(match sum {
            None => part,
            Some(sum) => b.add(sum, part)?,
        });
    }
    let mut flat = vec![Dim::product(&dims[..axes]).ok_or_else(too_large)?];
    flat.extend_from_slice(&dims[axes..]);
    let rows = b.reshape(x, &flat)?;
    Ok((rows, sum.ok_or_else(wrong)?, axes))
}

/// `gather_nd(x, indices)`: rows by tuples of indices; the first `batch` axes are shared.
pub(super) fn gather_nd(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let batch = usize::try_from(call.int("batch", 0)?).unwrap_or(usize::MAX);
    let (rows, places, _) = rows(b, x, indices, batch)?;
    Ok(vec![b.gather(rows, 0, places)?])
}

/// `scatter_nd(x, indices, updates)`: `x` with rows replaced or folded, by tuples of indices.
pub(super) fn scatter_nd(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (rows, places, axes) = rows(b, x, indices, 0)?;
    let places = flat(b, places)?;
    let mut dims = b.dims(places).to_vec();
    dims.extend_from_slice(&b.dims(x)[axes..]);
    let updates = b.reshape(updates, &dims)?;
    let y = b.emit(Op::Scatter { fold: fold(call)? }, &[rows, places, updates])?;
    let dims = b.dims(x).to_vec();
    Ok(vec![b.reshape(y, &dims)?])
}

/// `cache_write(cache, new, at)`: `new` written along `axis` from place `at[batch]` on; `circular=1` goes
/// round.
pub(super) fn cache_write(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (cache, new) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(b, cache, "axis", -2)?;
    let dims = b.dims(cache).to_vec();
    let Some(outer) = b.dims(new).get(..=axis).map(<[Dim]>::to_vec) else {
        return call.refuse("of a tensor with fewer axes", "as many axes as the cache has");
    };
    let mut place = b.iota(Dtype::I64, &outer, axis)?;
    if let Some(start) = call.maybe(2) {
        let mut column = vec![Dim::fixed(1); outer.len()];
        column[0] = outer[0].clone();
        let start = b.convert(start, Dtype::I64)?;
        let start = b.reshape(start, &column)?;
        place = b.add(place, start)?;
    }
    if call.flag("circular")? {
        let size = b.number(dims[axis].clone(), Dtype::I64)?;
        place = b.binary(Binary::Mod, place, size)?;
    }
    for (at, stride) in strides(&dims[..=axis])?.iter().enumerate().take(axis) {
        let part = b.iota(Dtype::I64, &outer, at)?;
        let part = scaled(b, part, stride)?;
        place = b.add(place, part)?;
    }
    let rest = dims[axis + 1..].to_vec();
    let rowed = |b: &mut Builder, x: ValueId| -> BuildResult<ValueId> {
        let mut shape = vec![Dim::product(&b.dims(x)[..=axis]).ok_or_else(too_large)?];
        shape.extend_from_slice(&rest);
        b.reshape(x, &shape)
    };
    let (rows, updates, places) = (rowed(b, cache)?, rowed(b, new)?, flat(b, place)?);
    let y = b.emit(Op::Scatter { fold: None }, &[rows, places, updates])?;
    Ok(vec![b.reshape(y, &dims)?])
}
