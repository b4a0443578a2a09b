//! Constants, sizes, and operators that only arrange elements.

use tilewright_graph::dim::cancelled;
use tilewright_graph::{Data, Dim, Dtype, KnownElements, Op, StoredTensor, Type, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

pub(super) fn identity(call: &mut Call<'_, '_>) -> Outputs {
    Ok(vec![call.input(0)?])
}

pub(super) fn constant(call: &mut Call<'_, '_>) -> Outputs {
    let name = call.node.outputs.first().cloned().unwrap_or_default();
    if let Some(stored) = call.tensor("value")? {
        return Ok(vec![call.reader.tensor(&name, stored)?]);
    }
    let whole = |numbers: &[i64], dims: &[u64]| {
        StoredTensor::owned(
            Dtype::I64,
            dims,
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        )
    };
    let stored = if let Some(attribute) = call.attribute("value_int") {
        whole(&[attribute.i], &[])
    } else if let Some(attribute) = call.attribute("value_ints") {
        whole(&attribute.ints, &[attribute.ints.len() as u64])
    } else if let Some(attribute) = call.attribute("value_float") {
        StoredTensor::floats(&[], &[attribute.f])
    } else if let Some(attribute) = call.attribute("value_floats") {
        StoredTensor::floats(&[attribute.floats.len() as u64], &attribute.floats)
    } else {
        None
    };
    let stored =
        stored.ok_or_else(|| call.refuse("a constant of another kind").allowed("tensors and numbers"))?;
    Ok(vec![call.reader.tensor(&name, stored)?])
}

/// Sizes that an operand gives: known numbers or computed from axes.
fn sizes(call: &Call<'_, '_>, at: usize) -> ImportResult<Vec<Dim>> {
    let id = call.input(at)?;
    let known: Option<&KnownElements> = call.reader.b.known(id);
    known.map(|known| known.items.clone()).ok_or_else(|| {
        call.refuse(format!("sizes (operand {at}) are known only when the model runs"))
            .allowed("constants, or what is computed from sizes")
    })
}

pub(super) fn constant_of_shape(call: &mut Call<'_, '_>) -> Outputs {
    let dims = sizes(call, 0)?;
    let value = match call.tensor("value")? {
        Some(stored) => {
            let one = call.reader.tensor("value", stored)?;
            call.build(|b| b.reshape(one, &[]))?
        }
        None => call.build(|b| b.constant(Type::new(Dtype::F32, []), Data::Floats(vec![0])))?,
    };
    Ok(vec![call.build(|b| b.broadcast(value, &dims))?])
}

/// The sizes of a tensor as an i64 vector.
fn vector(call: &mut Call<'_, '_>, dims: &[Dim]) -> ImportResult<ValueId> {
    let fixed: Option<Vec<i64>> = dims.iter().map(Dim::as_fixed).collect();
    call.build(|b| {
        if let Some(fixed) = fixed {
            return b.integers(Dtype::I64, &fixed);
        }
        let mut parts = Vec::new();
        for dim in dims {
            let size = b.size(dim.clone())?;
            parts.push(b.reshape(size, &[1.into()])?);
        }
        b.concat(0, &parts)
    })
}

pub(super) fn shape(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dims = call.reader.b.dims(x).to_vec();
    let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
    let place =
        |axis: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }.clamp(0, rank)).unwrap_or(0);
    let (start, end) = (place(call.int("start", 0)), place(call.int("end", rank)));
    let part = dims.get(start..end.max(start)).unwrap_or(&[]).to_vec();
    Ok(vec![vector(call, &part)?])
}

pub(super) fn size(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let count = Dim::product(call.reader.b.dims(x)).ok_or_else(|| call.refuse("too many elements"))?;
    Ok(vec![call.build(|b| b.size(count))?])
}

pub(super) fn range(call: &mut Call<'_, '_>) -> Outputs {
    let (start, limit, delta) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let dtype = call.reader.b.dtype(start);
    let count = if dtype.is_float() {
        let mut ends = Vec::new();
        for at in 0..3 {
            ends.push(call.known_floats(at, "ends")?.and_then(|x| x.first().copied()).unwrap_or(0.0));
        }
        let steps = ((f64::from(ends[1]) - f64::from(ends[0])) / f64::from(ends[2])).ceil().max(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "bounded before it is used")]
        Dim::fixed(steps.min(1e15) as i64)
    } else {
        let one = |id: ValueId| call.reader.b.known(id).and_then(|known| known.items.first().cloned());
        let late =
            || call.refuse("its ends are known only when the model runs").allowed("constants or sizes");
        let (first, last, step) =
            (one(start).ok_or_else(late)?, one(limit).ok_or_else(late)?, one(delta).ok_or_else(late)?);
        let length = last.minus(&first);
        match (length.as_ref().and_then(Dim::as_fixed), step.as_fixed()) {
            (_, Some(0)) => return Err(call.refuse("a step of 0")),
            (Some(length), Some(step)) => {
                let (whole, rest) = (length.checked_div(step), length.checked_rem(step));
                let steps = whole.zip(rest).and_then(|(whole, rest)| whole.checked_add(i64::from(rest != 0)));
                Dim::fixed(steps.unwrap_or(i64::MAX).max(0))
            }
            (None, Some(1)) => length.ok_or_else(|| call.refuse("a length that has too many terms"))?,
            _ => return Err(call.refuse("an open end with another step than 1")),
        }
    };
    Ok(vec![call.build(|b| {
        let counted = b.iota(dtype, &[count], 0)?;
        let start = b.reshape(start, &[])?;
        let delta = b.reshape(delta, &[])?;
        let scaled = b.mul(counted, delta)?;
        b.add(scaled, start)
    })?])
}

pub(super) fn reshape(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let mut dims = sizes(call, 1)?;
    let own = call.reader.b.dims(x).to_vec();
    if call.int("allowzero", 0) == 0 {
        for (at, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| dim.is(0)) {
            *dim = own
                .get(at)
                .cloned()
                .ok_or_else(|| call.refuse(format!("size 0 for axis {at}, which is not there")))?;
        }
    }
    if let Some(open) = dims.iter().position(|dim| dim.is(-1)) {
        let mut others = dims.clone();
        others.remove(open);
        dims[open] = rest(&own, &others)
            .ok_or_else(|| call.refuse("the size that is left open does not come out even"))?;
    }
    Ok(vec![call.build(|b| b.reshape(x, &dims))?])
}

/// What `own` has besides `others`.
fn rest(own: &[Dim], others: &[Dim]) -> Option<Dim> {
    if others.iter().any(|dim| dim.is(0)) {
        return Some(Dim::fixed(0));
    }
    let (own, others) = cancelled(own, others);
    let mut product = Dim::product(&own)?;
    for dim in &others {
        product = product.divided(dim)?;
    }
    Some(product)
}

pub(super) fn flatten(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dims = call.reader.b.dims(x).to_vec();
    let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
    let axis = call.int("axis", 1);
    let axis =
        usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(usize::MAX).min(dims.len());
    let product = |dims: &[Dim]| {
        Dim::product(dims).ok_or_else(|| call.refuse("sizes whose product has too many terms"))
    };
    let flat = [product(&dims[..axis])?, product(&dims[axis..])?];
    Ok(vec![call.build(|b| b.reshape(x, &flat))?])
}

/// Axes of squeeze and unsqueeze: an attribute before opset 13, operand 1 from then on.
fn axes(call: &Call<'_, '_>) -> ImportResult<Option<Vec<i64>>> {
    match call.ints("axes") {
        Some(axes) => Ok(Some(axes.to_vec())),
        None => call.numbers(1, "axes"),
    }
}

pub(super) fn squeeze(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let dims = call.reader.b.dims(x).to_vec();
    let gone: Vec<usize> = match axes(call)? {
        Some(axes) => axes.iter().map(|axis| call.axis_of(x, *axis)).collect::<ImportResult<_>>()?,
        None => (0..dims.len()).filter(|axis| dims[*axis].is(1)).collect(),
    };
    let kept: Vec<Dim> =
        dims.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, dim)| dim.clone()).collect();
    Ok(vec![call.build(|b| b.reshape(x, &kept))?])
}

pub(super) fn unsqueeze(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axes = axes(call)?.unwrap_or_default();
    let mut dims = call.reader.b.dims(x).to_vec();
    let rank = i64::try_from(dims.len() + axes.len()).unwrap_or(i64::MAX);
    let mut places: Vec<i64> = axes.iter().map(|axis| if *axis < 0 { axis + rank } else { *axis }).collect();
    places.sort_unstable();
    for place in places {
        let at = usize::try_from(place).ok().filter(|at| *at <= dims.len());
        dims.insert(at.ok_or_else(|| call.refuse(format!("axis {place} of {rank}")))?, Dim::fixed(1));
    }
    Ok(vec![call.build(|b| b.reshape(x, &dims))?])
}

pub(super) fn transpose(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let rank = call.reader.b.rank(x);
    let order: Vec<usize> = match call.ints("perm") {
        Some(order) => order.iter().map(|axis| call.axis_of(x, *axis)).collect::<ImportResult<_>>()?,
        None => (0..rank).rev().collect(),
    };
    Ok(vec![call.build(|b| b.transpose(x, &order))?])
}

pub(super) fn expand(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let wanted = sizes(call, 1)?;
    let own = call.reader.b.dims(x).to_vec();
    let dims = tilewright_graph::infer::stretched(&own, &wanted, call.reader.b.axes());
    let dims = call.built(dims)?;
    Ok(vec![call.build(|b| b.broadcast(x, &dims))?])
}

/// Each axis stretched behind a new one, then joined with it.
pub(super) fn tile(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let times = sizes(call, 1)?;
    let own = call.reader.b.dims(x).to_vec();
    if times.len() != own.len() {
        return Err(call.refuse("repetitions for another number of axes"));
    }
    let (mut apart, mut stretched, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    for (dim, times) in own.iter().zip(&times) {
        apart.extend([Dim::fixed(1), dim.clone()]);
        stretched.extend([times.clone(), dim.clone()]);
        joined.push(dim.times(times).ok_or_else(|| call.refuse("too many repetitions"))?);
    }
    Ok(vec![call.build(|b| {
        let x = b.reshape(x, &apart)?;
        let x = b.broadcast(x, &stretched)?;
        b.reshape(x, &joined)
    })?])
}

pub(super) fn concat(call: &mut Call<'_, '_>) -> Outputs {
    let parts: Vec<ValueId> = call.inputs.iter().flatten().copied().collect();
    let axis = call.axis_of(call.input(0)?, call.int("axis", 0))?;
    Ok(vec![call.build(|b| b.concat(axis, &parts))?])
}

pub(super) fn split(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axis = call.axis_of(x, call.int("axis", 0))?;
    let size = call.built(call.reader.b.dim(x, axis))?;
    let given = match call.ints("split") {
        Some(sizes) => Some(sizes.iter().map(|size| Dim::fixed(*size)).collect()),
        None if call.maybe(1).is_some() => Some(sizes(call, 1)?),
        None => None,
    };
    let parts: Vec<Dim> = match given {
        Some(parts) => parts,
        None => {
            let count = call
                .attribute("num_outputs")
                .map_or(call.node.outputs.len(), |a| usize::try_from(a.i).unwrap_or(0));
            even(&size, count)
                .ok_or_else(|| call.refuse("parts of an open size that do not come out even"))?
        }
    };
    let mut at = Dim::fixed(0);
    let mut outputs = Vec::new();
    for part in parts {
        let start = at.clone();
        at = at.plus(&part).ok_or_else(|| call.refuse("sizes whose sum has too many terms"))?;
        outputs.push(call.build(|b| b.emit(Op::Slice { axis, start, size: part, step: 1 }, &[x]))?);
    }
    Ok(outputs)
}

/// Equal parts, the last one smaller if need be.
fn even(size: &Dim, count: usize) -> Option<Vec<Dim>> {
    let number = i64::try_from(count).ok().filter(|count| (1..1 << 16).contains(count))?;
    if let Some(part) = size.divided(&Dim::fixed(number)) {
        return Some(vec![part; count]);
    }
    let size = size.as_fixed()?;
    let part = (size + number - 1) / number;
    Some((0..number).map(|at| Dim::fixed((size - at * part).clamp(0, part))).collect())
}

pub(super) fn depth(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let block = Dim::fixed(call.int("blocksize", 1));
    let columns_first = call.word("mode", "DCR") == "CRD";
    let to_space = call.node.op == "DepthToSpace";
    let dims = call.reader.b.dims(x).to_vec();
    let [n, c, h, w] = &dims[..] else { return Err(call.refuse("another number of axes than four")) };
    let uneven = || call.refuse("blocks that do not come out even");
    let over = |dim: &Dim| dim.divided(&block).ok_or_else(uneven);
    let by = |dim: &Dim| dim.times(&block).ok_or_else(uneven);
    let (apart, order, joined): (Vec<Dim>, [usize; 6], Vec<Dim>) = if to_space {
        let depth = over(&over(c)?)?;
        let joined = vec![n.clone(), depth.clone(), by(h)?, by(w)?];
        if columns_first {
            (
                vec![n.clone(), depth, block.clone(), block.clone(), h.clone(), w.clone()],
                [0, 1, 4, 2, 5, 3],
                joined,
            )
        } else {
            (
                vec![n.clone(), block.clone(), block.clone(), depth, h.clone(), w.clone()],
                [0, 3, 4, 1, 5, 2],
                joined,
            )
        }
    } else {
        let joined = vec![n.clone(), by(&by(c)?)?, over(h)?, over(w)?];
        (
            vec![n.clone(), c.clone(), over(h)?, block.clone(), over(w)?, block.clone()],
            [0, 3, 5, 1, 2, 4],
            joined,
        )
    };
    Ok(vec![call.build(|b| {
        let x = b.reshape(x, &apart)?;
        let x = b.transpose(x, &order)?;
        b.reshape(x, &joined)
    })?])
}
