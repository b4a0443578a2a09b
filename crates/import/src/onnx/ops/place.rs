//! Elements chosen or put by their places: one-hot vectors, reversed sequences, diagonals, crops, chosen
//! slices, products of what came before, determinants.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, Fold, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::unrolled::computed;
use crate::onnx::tensor;

/// Elements whose places are found while a model is read, at most.
const MOST_ELEMENTS: i64 = 1 << 20;

/// Whole numbers; a `depth` of floats is cut.
fn depth(call: &Call<'_, '_>) -> ImportResult<i64> {
    let given = call.known_floats(1, "depths")?.unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "this is the conversion; bounds follow")]
    let depth = given.first().map_or(0, |depth| *depth as i64);
    if given.len() == 1 && (1..1 << 24).contains(&depth) {
        return Ok(depth);
    }
    Err(call.refuse(format!("depths (operand 1) are {given:?}")).allowed("one number from 1, below 2^24"))
}

/// A new axis with one value at the place that an index names, and another elsewhere. Negative indices count
/// from the end; those out of the axis name nothing.
pub(super) fn one_hot(call: &mut Call<'_, '_>) -> Outputs {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = depth(call)?;
    let rank = call.reader.b.rank(indices);
    let axis = call.int("axis", -1);
    let all = i64::try_from(rank + 1).or_broken("ranks fit 64 bits");
    let from_front = if axis < 0 { axis + all } else { axis };
    let at = usize::try_from(from_front).ok().filter(|at| *at <= rank);
    let at = at.ok_or_else(|| {
        call.refuse(format!("axis {axis} of {all}")).allowed("an axis of the result, which has one more")
    })?;
    Ok(vec![call.build(|b| {
        let dtype = match b.dtype(indices) {
            Dtype::I64 => Dtype::I64,
            _ => Dtype::I32,
        };
        let indices = b.convert(indices, dtype)?;
        let negative = b.with(Binary::Lt, indices, 0.0)?;
        let size = b.number(Dim::fixed(depth), dtype)?;
        let moved = b.add(indices, size)?;
        let indices = b.select(negative, moved, indices)?;
        let indices = b.unsqueeze(indices, at)?;
        let mut column = vec![Dim::fixed(1); rank + 1];
        column[at] = Dim::fixed(depth);
        let places = b.iota(dtype, &column, at)?;
        let here = b.binary(Binary::Eq, indices, places)?;
        let [off, on] = [0, 1].map(|at: i64| b.slice(values, 0, at.into(), 1.into(), 1));
        let (off, on) = (off?, on?);
        let (off, on) = (b.reshape(off, &[])?, b.reshape(on, &[])?);
        b.select(here, on, off)
    })?])
}

/// The first elements of each sequence, as many as its length says, from the last to the first.
pub(super) fn reverse_sequence(call: &mut Call<'_, '_>) -> Outputs {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let (batch, time) =
        (call.axis_of(x, call.int("batch_axis", 1))?, call.axis_of(x, call.int("time_axis", 0))?);
    if batch == time {
        return Err(call.refuse(format!("axis {batch} as both axes")).allowed("two axes"));
    }
    let rank = call.reader.b.rank(x);
    let order: Vec<usize> =
        [batch, time].into_iter().chain((0..rank).filter(|axis| *axis != batch && *axis != time)).collect();
    let mut back = vec![0; rank];
    order.iter().enumerate().for_each(|(to, from)| back[*from] = to);
    let places = call.build(|b| {
        let sizes = [b.dim(x, batch)?, b.dim(x, time)?];
        let dtype = b.dtype(lengths);
        let here = b.iota(dtype, &sizes, 1)?;
        let lengths = b.unsqueeze(lengths, 1)?;
        let last = b.with(Binary::Sub, lengths, 1.0)?;
        let there = b.sub(last, here)?;
        let within = b.binary(Binary::Lt, here, lengths)?;
        b.select(within, there, here)
    })?;
    let turned = call.build(|b| {
        let turned = b.transpose(x, &order)?;
        let dims = b.dims(turned).to_vec();
        // An index for each row of a sequence.
        let rows = b.unsqueeze(places, 2)?;
        Ok((turned, b.reshape(rows, &[dims[0].clone(), dims[1].clone(), Dim::fixed(1)])?))
    })?;
    let rows =
        call.rich_on(RichOp::GatherNd, &[Some(turned.0), Some(turned.1)], Attrs::default().int("batch", 1))?;
    let rows = rows.first().copied().unwrap_or(x);
    Ok(vec![call.build(|b| b.transpose(rows, &back))?])
}

/// Ones on a diagonal of a matrix with the sizes of another.
pub(super) fn eye_like(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dims = call.reader.b.dims(x).to_vec();
    if dims.len() != 2 {
        return Err(call.refuse(format!("a tensor of {} axes", dims.len())).allowed("a matrix"));
    }
    let dtype = match call.attribute("dtype").map(|attribute| attribute.i) {
        None => call.reader.b.dtype(x),
        Some(number) => {
            tensor::known_type(number).map_err(|what| call.refuse(what).allowed(tensor::types_text()))?
        }
    };
    let k = call.int("k", 0);
    let in_reach = (-(1 << 24)..1 << 24).contains(&k);
    if !in_reach {
        return Err(call.refuse(format!("diagonal {k}")).allowed("one less than 2^24 from the first"));
    }
    Ok(vec![call.build(|b| {
        let (row, column) = (b.iota(Dtype::I32, &dims, 0)?, b.iota(Dtype::I32, &dims, 1)?);
        let k = b.number(Dim::fixed(k), Dtype::I32)?;
        let row = b.add(row, k)?;
        let here = b.binary(Binary::Eq, row, column)?;
        b.convert(here, dtype)
    })?])
}

/// The middle of each axis cut out, or zeros put around it; an odd element more is behind.
pub(super) fn center_crop_pad(call: &mut Call<'_, '_>) -> Outputs {
    let mut x = call.input(0)?;
    let wanted = call.numbers(1, "sizes")?.unwrap_or_default();
    let axes: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|axis| call.axis_of(x, *axis)).collect::<ImportResult<_>>()?,
        None => (0..call.reader.b.rank(x)).collect(),
    };
    if axes.len() != wanted.len() {
        let what = format!("{} sizes for {} axes", wanted.len(), axes.len());
        return Err(call.refuse(what).allowed("a size for each axis"));
    }
    for (axis, wanted) in axes.into_iter().zip(wanted) {
        let size = call.built(call.reader.b.dim(x, axis))?.as_fixed();
        let size = size.ok_or_else(|| call.refuse("the middle of an open size").allowed("a fixed size"))?;
        if !(0..1 << 32).contains(&wanted) {
            return Err(call.refuse(format!("size {wanted}")).allowed("0 to 2^32"));
        }
        x = call.build(|b| {
            if wanted < size {
                return b.slice(x, axis, ((size - wanted) / 2).into(), wanted.into(), 1);
            }
            let (more, zero) = (wanted - size, b.scalar(b.dtype(x), 0.0)?);
            b.pad(x, axis, (more / 2).into(), (more - more / 2).into(), zero)
        })?;
    }
    Ok(vec![x])
}

/// Slices of an axis, or elements, for which a condition that is known holds.
pub(super) fn compress(call: &mut Call<'_, '_>) -> Outputs {
    let mut x = call.input(0)?;
    let kept = call.numbers(1, "conditions")?.unwrap_or_default();
    let axis = match call.attribute("axis").map(|attribute| attribute.i) {
        Some(axis) => call.axis_of(x, axis)?,
        None => {
            let count =
                Dim::product(call.reader.b.dims(x)).ok_or_else(|| call.refuse("too many elements"))?;
            x = call.build(|b| b.reshape(x, &[count]))?;
            0
        }
    };
    let size = call.built(call.reader.b.dim(x, axis))?;
    let size = size.as_fixed().and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| call.refuse("conditions of an open size").allowed("a fixed size"))?;
    if kept.len() > size {
        let what = format!("{} conditions for {size} elements", kept.len());
        return Err(call.refuse(what).allowed("one for each, or fewer"));
    }
    let places = kept.iter().zip(0_i64..).filter(|(kept, _)| **kept != 0).map(|(_, at)| at);
    let places: Vec<i64> = places.collect();
    Ok(vec![call.build(|b| {
        let places = b.integers(Dtype::I64, &places)?;
        b.gather(x, axis, places)
    })?])
}

/// Places of elements that are not zero, which must be known.
pub(super) fn non_zero(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dims: Option<Vec<i64>> = call.reader.b.dims(x).iter().map(Dim::as_fixed).collect();
    let dims = dims.ok_or_else(|| call.refuse("elements of an open size").allowed("fixed sizes"))?;
    let there: Vec<bool> = if call.reader.b.dtype(x).is_float() {
        let given = call.known_floats(0, "elements")?.unwrap_or_default();
        given.iter().map(|x| *x != 0.0).collect()
    } else {
        call.numbers(0, "elements")?.unwrap_or_default().iter().map(|x| *x != 0).collect()
    };
    let count = dims.iter().try_fold(1_i64, |count, size| count.checked_mul(*size));
    let count = count.filter(|count| *count <= MOST_ELEMENTS).ok_or_else(|| {
        call.refuse(format!("places of sizes {dims:?}")).allowed(format!("at most {MOST_ELEMENTS} elements"))
    })?;
    // One element may stand for all.
    let is_there = |at: i64| {
        let at = if there.len() == 1 { Some(0) } else { usize::try_from(at).ok() };
        at.and_then(|at| there.get(at)).copied().unwrap_or(false)
    };
    let found: Vec<i64> = (0..count).filter(|at| is_there(*at)).collect();
    let rank = i64::try_from(dims.len()).or_broken("ranks fit 64 bits");
    computed(call, count.exact_mul(rank))?;
    let mut places = Vec::new();
    for axis in 0..dims.len() {
        let behind: i64 = dims[axis + 1..].iter().product();
        places.extend(found.iter().map(|at| at / behind.max(1) % dims[axis].max(1)));
    }
    let columns = i64::try_from(found.len()).or_broken("there are few elements");
    Ok(vec![call.build(|b| {
        let flat = b.integers(Dtype::I64, &places)?;
        b.reshape(flat, &[Dim::fixed(rank), Dim::fixed(columns)])
    })?])
}

/// Products of all elements up to each one.
pub(super) fn cumulative_product(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = match call.numbers(1, "axes")?.as_deref() {
        Some([axis]) => call.axis_of(x, *axis)?,
        other => {
            let count = other.map_or(0, <[i64]>::len);
            return Err(call.refuse(format!("{count} axes (operand 1)")).allowed("one"));
        }
    };
    let counted = match (call.int("exclusive", 0) != 0, call.int("reverse", 0) != 0) {
        (false, false) => Binary::Le,
        (true, false) => Binary::Lt,
        (false, true) => Binary::Ge,
        (true, true) => Binary::Gt,
    };
    Ok(vec![call.build(|b| {
        let n = b.dim(x, axis)?;
        let rank = b.rank(x);
        let mut square = vec![Dim::fixed(1); rank + 1];
        (square[axis], square[axis + 1]) = (n.clone(), n);
        let (to, from) = (b.iota(Dtype::I32, &square, axis)?, b.iota(Dtype::I32, &square, axis + 1)?);
        let counted = b.binary(counted, from, to)?;
        let one = b.scalar(b.dtype(x), 1.0)?;
        let apart = b.unsqueeze(x, axis)?;
        let parts = b.select(counted, apart, one)?;
        b.reduce(Fold::Prod, parts, &[axis + 1], false)
    })?])
}

/// Rows of a matrix whose determinant is written out, at most.
const MOST_ROWS: i64 = 6;

/// Determinants by expansion: those of the first rows, for every choice of as many columns.
pub(super) fn determinant(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dims = call.reader.b.dims(x).to_vec();
    let size = match &dims[..] {
        [.., rows, columns] if rows == columns => rows.as_fixed(),
        _ => None,
    };
    let Some(size) = size.filter(|size| (1..=MOST_ROWS).contains(size)) else {
        let axes = call.reader.b.axes();
        let found: Vec<String> = dims.iter().map(|dim| dim.text(axes)).collect();
        return Err(call
            .refuse(format!("a determinant of sizes [{}]", found.join(", ")))
            .allowed(format!("square matrices of 1 to {MOST_ROWS} rows")));
    };
    Ok(vec![call.build(|b| expanded(b, x, size))?])
}

fn expanded(b: &mut Builder, x: ValueId, size: i64) -> BuildResult<ValueId> {
    let rank = b.rank(x);
    let outer = b.dims(x)[..rank - 2].to_vec();
    let element = |b: &mut Builder, row: i64, column: i64| -> BuildResult<ValueId> {
        let row = b.slice(x, rank - 2, row.into(), 1.into(), 1)?;
        let one = b.slice(row, rank - 1, column.into(), 1.into(), 1)?;
        b.reshape(one, &outer)
    };
    let mut minors: Vec<Option<ValueId>> = vec![None; 1 << size];
    // A choice of columns is a number with their bits; those of fewer columns come before.
    for columns in 1_usize..1 << size {
        let row = i64::from(columns.count_ones()) - 1;
        let mut sum: Option<ValueId> = None;
        for column in (0..size).filter(|column| columns >> column & 1 == 1) {
            let mut term = element(b, row, column)?;
            let others = columns & !(1 << column);
            if let Some(minor) = minors[others] {
                term = b.mul(term, minor)?;
            }
            // The sign is that of the columns behind it that are chosen.
            let is_minus = (columns >> column >> 1).count_ones() % 2 == 1;
            sum = Some(match (sum, is_minus) {
                (None, false) => term,
                (None, true) => b.unary(Unary::Neg, term)?,
                (Some(sum), false) => b.add(sum, term)?,
                (Some(sum), true) => b.sub(sum, term)?,
            });
        }
        minors[columns] = sum;
    }
    minors.pop().flatten().map_or_else(|| element(b, 0, 0), Ok)
}
