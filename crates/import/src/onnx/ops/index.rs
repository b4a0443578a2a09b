//! Slices, padding, gathering, resizing.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Dim, Dtype, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

/// Known sizes of an operand, or an attribute of older opsets.
fn list(call: &Call<'_, '_>, at: usize, name: &str) -> ImportResult<Option<Vec<Dim>>> {
    if let Some(numbers) = call.ints(name) {
        return Ok(Some(numbers.iter().map(|number| Dim::fixed(*number)).collect()));
    }
    let Some(id) = call.maybe(at) else { return Ok(None) };
    let known = call.reader.b.known(id).map(|known| known.items.clone());
    known.map(Some).ok_or_else(|| {
        call.refuse(format!("{name} (operand {at}) are known only when the model runs"))
            .allowed("constants, or what is computed from sizes")
    })
}

/// Clamps a place that may count from the end to `least..=most` below the size; `None` if an axis leaves it
/// open.
fn clamped(call: &Call<'_, '_>, place: &Dim, size: &Dim, least: i64, most: i64) -> Option<Dim> {
    let axes = call.reader.b.axes();
    let place = if place.range(axes).1 < 0 { place.plus(size)? } else { place.clone() };
    let (low, high) = (Dim::fixed(least), size.plus(&Dim::fixed(most))?);
    if place.minus(&high)?.range(axes).0 >= 0 {
        return Some(high);
    }
    if place.minus(&low)?.range(axes).1 <= 0 {
        return Some(low);
    }
    let inside = place.minus(&low)?.range(axes).0 >= 0 && high.minus(&place)?.range(axes).0 >= 0;
    inside.then_some(place)
}

pub(super) fn slice(call: &mut Call<'_, '_>) -> Outputs {
    let mut x = call.input(0)?;
    let (Some(starts), Some(ends)) = (list(call, 1, "starts")?, list(call, 2, "ends")?) else {
        return Err(call.refuse("starts or ends are missing"));
    };
    let count = i64::try_from(starts.len()).unwrap_or(i64::MAX);
    let axes = list(call, 3, "axes")?.unwrap_or_else(|| (0..count).map(Dim::fixed).collect());
    let steps = list(call, 4, "steps")?.unwrap_or_else(|| vec![Dim::fixed(1); starts.len()]);
    if starts.len() != ends.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(call.refuse("starts, ends, axes and steps of different lengths"));
    }
    for at in 0..starts.len() {
        let open = || unsettled(call);
        let axis = call.axis_of(x, axes[at].as_fixed().ok_or_else(open)?)?;
        let step = steps[at].as_fixed().filter(|step| *step != 0).ok_or_else(open)?;
        let size = call.built(call.reader.b.dim(x, axis))?;
        let (start, end) = if step > 0 {
            (clamped(call, &starts[at], &size, 0, 0), clamped(call, &ends[at], &size, 0, 0))
        } else {
            (clamped(call, &starts[at], &size, 0, -1), backwards_end(call, &ends[at], &size))
        };
        let (start, end) = (start.ok_or_else(open)?, end.ok_or_else(open)?);
        let length = end.minus(&start).ok_or_else(open)?;
        let taken = match (length.as_fixed(), step) {
            (Some(length), _) if (length > 0) != (step > 0) => Dim::fixed(0),
            (Some(length), _) => {
                let taken = length.unsigned_abs().div_ceil(step.unsigned_abs());
                Dim::fixed(i64::try_from(taken).map_err(|_| open())?)
            }
            (None, 1) if length.range(call.reader.b.axes()).0 >= 0 => length,
            (None, -1) if length.range(call.reader.b.axes()).1 <= 0 => {
                length.times(&Dim::fixed(-1)).ok_or_else(open)?
            }
            (None, 1 | -1) => return Err(open()),
            _ => return Err(stepped(call, step, &size)),
        };
        let start = if taken.is(0) { Dim::fixed(0) } else { start };
        x = call.build(|b| b.slice(x, axis, start, taken, step))?;
    }
    Ok(vec![x])
}

/// A slice that leaves elements out of an axis whose size is open: how many it takes is no sum of sizes.
fn stepped(call: &Call<'_, '_>, step: i64, size: &Dim) -> Box<crate::error::ImportError> {
    let axes = call.reader.b.axes();
    let open = size.axes().into_iter().filter_map(|axis| axes.get(axis.0 as usize));
    let fixed: Vec<String> = open.map(|axis| format!("{}={}", axis.name, axis.most)).collect();
    call.refuse(format!("a step of {step} over an axis of size {}, which is open", size.text(axes)))
        .allowed("steps of 1 and -1 over an open axis, any step over one of a fixed size")
        .instead(format!("a fixed size, such as --dims {}", fixed.join(",")))
}

/// A slice whose ends are inside for some sizes of the axes and outside for others.
fn unsettled(call: &Call<'_, '_>) -> Box<crate::error::ImportError> {
    let axes: Vec<String> = call
        .reader
        .b
        .axes()
        .iter()
        .map(|axis| format!("{} ({}..{})", axis.name, axis.least, axis.most))
        .collect();
    call.refuse("whether its ends are inside depends on the size of an axis")
        .allowed("ends that are inside for all sizes")
        .instead(format!("narrower bounds for {}", axes.join(", ")))
}

/// The end of a slice that runs backwards: one before the first element at the least.
fn backwards_end(call: &Call<'_, '_>, end: &Dim, size: &Dim) -> Option<Dim> {
    let axes = call.reader.b.axes();
    let end = if end.range(axes).1 < 0 { end.plus(size)? } else { end.clone() };
    let end = if end.range(axes).1 < -1 { Dim::fixed(-1) } else { end };
    let last = size.minus(&Dim::fixed(1))?;
    Some(if end.minus(&last)?.range(axes).0 >= 0 { last } else { end })
}

pub(super) fn pad(call: &mut Call<'_, '_>) -> Outputs {
    let mut x = call.input(0)?;
    let pads = list(call, 1, "pads")?.unwrap_or_default();
    let mode = call.word("mode", "constant");
    let rank = call.reader.b.rank(x);
    let axes: Vec<usize> = match list(call, 3, "axes")? {
        Some(axes) => axes
            .iter()
            .map(|axis| call.axis_of(x, axis.as_fixed().unwrap_or(i64::MAX)))
            .collect::<ImportResult<_>>()?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(call.refuse("pads for another number of axes"));
    }
    let value = match (call.maybe(2), call.attribute("value").map(|attribute| f64::from(attribute.f))) {
        (Some(value), _) => call.build(|b| b.reshape(value, &[]))?,
        (None, value) => call.build(|b| b.scalar(b.dtype(x), value.unwrap_or(0.0)))?,
    };
    for (at, axis) in axes.iter().enumerate() {
        let (low, high) = (&pads[at], &pads[axes.len() + at]);
        x = if mode == "constant" {
            padded(call, x, *axis, low, high, value)?
        } else {
            mirrored(call, x, *axis, low, high, &mode)?
        };
    }
    Ok(vec![x])
}

/// A negative number takes away.
fn padded(
    call: &mut Call<'_, '_>,
    x: ValueId,
    axis: usize,
    low: &Dim,
    high: &Dim,
    value: ValueId,
) -> ImportResult<ValueId> {
    let cut = |dim: &Dim| dim.as_fixed().filter(|number| *number < 0).map(i64::saturating_neg);
    let (less, fewer) = (cut(low).unwrap_or(0), cut(high).unwrap_or(0));
    let size = call.built(call.reader.b.dim(x, axis))?;
    let kept = less
        .checked_add(fewer)
        .and_then(|cut| size.minus(&Dim::fixed(cut)))
        .ok_or_else(|| call.refuse("sizes whose difference has too many terms"))?;
    let zero = Dim::fixed(0);
    let (low, high) = (if less > 0 { &zero } else { low }, if fewer > 0 { &zero } else { high });
    call.build(|b| {
        let x = b.slice(x, axis, less.into(), kept, 1)?;
        b.pad(x, axis, low.clone(), high.clone(), value)
    })
}

/// Padding with elements of the tensor itself: a gather.
fn mirrored(
    call: &mut Call<'_, '_>,
    x: ValueId,
    axis: usize,
    low: &Dim,
    high: &Dim,
    mode: &str,
) -> ImportResult<ValueId> {
    let own = call.built(call.reader.b.dim(x, axis))?.as_fixed();
    let (Some(own), Some(low), Some(high)) = (own, low.as_fixed(), high.as_fixed()) else {
        return Err(call.refuse(format!("`{mode}` padding of an open size")).allowed("a fixed size"));
    };
    if (low, high) == (0, 0) {
        return Ok(x);
    }
    if [low, high, own].iter().any(|number| number.unsigned_abs() > 1 << 24) {
        return Err(call.refuse("padding with too much").allowed("sizes and pads of at most 2^24"));
    }
    // What negative pads take away is gone before the rest is mirrored.
    let (cut, low, high, size) =
        (-low.min(0), low.max(0), high.max(0), own.saturating_add(low.min(0)).saturating_add(high.min(0)));
    if size < 0 || (size == 0 && (low, high) != (0, 0)) {
        return Err(call.refuse(format!("`{mode}` padding of nothing")).allowed("an element that is left"));
    }
    let place = |at: i64| match mode {
        "edge" => Some(at.clamp(0, size - 1)),
        "wrap" => Some(at.rem_euclid(size)),
        "reflect" if size == 1 => Some(0),
        "reflect" => {
            let turn = at.rem_euclid(2 * (size - 1));
            Some(if turn < size { turn } else { 2 * (size - 1) - turn })
        }
        _ => None,
    };
    let places: Option<Vec<i64>> = (-low..size + high).map(|at| Some(cut + place(at)?)).collect();
    let places = places
        .ok_or_else(|| call.refuse(format!("mode `{mode}`")).allowed("constant, edge, reflect, wrap"))?;
    call.build(|b| {
        let places = b.integers(Dtype::I64, &places)?;
        b.gather(x, axis, places)
    })
}

pub(super) fn gather(call: &mut Call<'_, '_>) -> Outputs {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis_of(x, call.int("axis", 0))?;
    Ok(vec![call.build(|b| b.gather(x, axis, indices))?])
}

pub(super) fn by_tuples(call: &mut Call<'_, '_>) -> Outputs {
    let attrs = Attrs::default();
    let fold = call.word("reduction", "none");
    match call.node.op.as_str() {
        "GatherElements" => call.rich(RichOp::GatherElements, attrs.int("axis", call.int("axis", 0))),
        "GatherND" => call.rich(RichOp::GatherNd, attrs.int("batch", call.int("batch_dims", 0))),
        "Scatter" | "ScatterElements" => {
            call.rich(RichOp::ScatterElements, attrs.int("axis", call.int("axis", 0)).word("fold", &fold))
        }
        "ScatterND" => call.rich(RichOp::ScatterNd, attrs.word("fold", &fold)),
        _ => {
            let circular = i64::from(call.word("mode", "linear") == "circular");
            call.rich(RichOp::CacheWrite, attrs.int("axis", call.int("axis", -2)).int("circular", circular))
        }
    }
}

pub(super) fn cumsum(call: &mut Call<'_, '_>) -> Outputs {
    let axis = call.numbers(1, "axes")?.and_then(|axes| axes.first().copied()).unwrap_or(0);
    let attrs = Attrs::default()
        .int("axis", axis)
        .int("exclusive", call.int("exclusive", 0))
        .int("reverse", call.int("reverse", 0));
    let x = call.maybe(0);
    call.rich_on(RichOp::CumSum, &[x], attrs)
}

pub(super) fn trilu(call: &mut Call<'_, '_>) -> Outputs {
    call.rich(RichOp::Trilu, Attrs::default().int("upper", call.int("upper", 1)))
}

/// The opset from which on Resize has a region, scales and sizes.
const FIRST_RESIZE: i64 = 11;

pub(super) fn resize(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let upsample = call.node.op == "Upsample";
    if !upsample && call.reader.opset < FIRST_RESIZE {
        let what = format!("is of opset {}, whose Resize has other operands", call.reader.opset);
        return Err(call
            .refuse(what)
            .allowed(format!("Resize of opset {FIRST_RESIZE} to 27"))
            .instead("the model converted to opset 13 to 23"));
    }
    let own: Option<Vec<i64>> = call.reader.b.dims(x).iter().map(Dim::as_fixed).collect();
    let own = own.ok_or_else(|| call.refuse("a size that is open").allowed("fixed sizes"))?;
    let rank = own.len();
    let axes: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|axis| call.axis_of(x, *axis)).collect::<ImportResult<_>>()?,
        None => (0..rank).collect(),
    };
    let given = match call.known_floats(if upsample { 1 } else { 2 }, "scales")? {
        Some(scales) => scales,
        // An attribute of Upsample before opset 9.
        None => call.attribute("scales").map(|attribute| attribute.floats.clone()).unwrap_or_default(),
    };
    let wanted = if upsample { None } else { call.numbers(3, "sizes")? };
    let mut sizes = own.clone();
    let attrs = match wanted.filter(|wanted| !wanted.is_empty()) {
        Some(wanted) if wanted.len() == axes.len() => {
            let ratios = by_sizes(call, &axes, &wanted, &own, &mut sizes)?;
            Attrs::default().ints("ratios", &ratios)
        }
        None if given.len() == axes.len() => {
            let mut scales = vec![1.0_f32; rank];
            for (axis, scale) in axes.iter().zip(given) {
                scales[*axis] = scale;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_precision_loss,
                    reason = "sizes are small"
                )]
                let size = (own[*axis] as f64 * f64::from(scale)).floor() as i64;
                sizes[*axis] = size;
            }
            Attrs::default().floats("scales", &scales)
        }
        _ => return Err(call.refuse("neither scales nor sizes for the axes")),
    };
    let places = if upsample {
        "asymmetric".to_string()
    } else {
        call.word("coordinate_transformation_mode", "half_pixel")
    };
    let rounding =
        if upsample { "floor".to_string() } else { call.word("nearest_mode", "round_prefer_floor") };
    let mut attrs = attrs
        .ints("sizes", &sizes)
        .word("mode", &call.word("mode", "nearest"))
        .word("places", &places)
        .word("rounding", &rounding)
        .int("antialias", call.int("antialias", 0))
        .int("exclude_outside", call.int("exclude_outside", 0))
        .float("cubic", call.float("cubic_coeff_a", -0.75))
        .float("extrapolation", call.float("extrapolation_value", 0.0));
    if places == "tf_crop_and_resize" {
        let regions = call.known_floats(1, "regions")?.unwrap_or_default();
        if regions.len() != 2 * axes.len() {
            return Err(call.refuse("a region for another number of axes"));
        }
        let mut all = [vec![0.0_f32; rank], vec![1.0; rank]].concat();
        for (at, axis) in axes.iter().enumerate() {
            all[*axis] = regions[at];
            all[rank + axis] = regions[axes.len() + at];
        }
        attrs = attrs.floats("roi", &all);
    }
    call.rich_on(RichOp::Resize, &[Some(x)], attrs)
}

/// Sizes after resizing where sizes are wanted, and the scales as ratios of sizes: those above the line, then
/// those below.
fn by_sizes(
    call: &Call<'_, '_>,
    axes: &[usize],
    wanted: &[i64],
    own: &[i64],
    sizes: &mut [i64],
) -> ImportResult<Vec<i64>> {
    let asked: Vec<(i64, i64)> = axes.iter().zip(wanted).map(|(axis, size)| (*size, own[*axis])).collect();
    if asked.iter().any(|(size, from)| !(1..=MOST_SIZE).contains(size) || !(1..=MOST_SIZE).contains(from)) {
        return Err(call.refuse("a size that is too small or too large").allowed("sizes of 1 to 2^16"));
    }
    let order = |a: &&(i64, i64), b: &&(i64, i64)| (a.0 * b.1).cmp(&(b.0 * a.1));
    let common = match call.word("keep_aspect_ratio_policy", "stretch").as_str() {
        "stretch" => None,
        "not_larger" => asked.iter().min_by(order).copied(),
        "not_smaller" => asked.iter().max_by(order).copied(),
        _ => return Err(call.refuse("another `keep_aspect_ratio_policy`")),
    };
    let mut ratios = vec![1; 2 * own.len()];
    for (axis, asked) in axes.iter().zip(&asked) {
        let (over, under) = common.unwrap_or(*asked);
        (ratios[*axis], ratios[own.len() + axis]) = (over, under);
        sizes[*axis] = common.map_or(asked.0, |_| (2 * own[*axis] * over + under) / (2 * under));
    }
    Ok(ratios)
}

/// Sizes of a resized axis are at most this.
const MOST_SIZE: i64 = 1 << 16;
