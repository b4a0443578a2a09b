//! Signals: windows, Fourier transforms as products with constant matrices, mel weights.

use std::f64::consts::TAU;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_graph::{BuildResult, Builder, Dim, Dtype, Op, StoredTensor, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::unrolled::computed;
use crate::onnx::tensor;

/// Elements of a constant that is computed here, at most.
const MOST_ELEMENTS: i64 = 1 << 24;

/// One whole number that must be known, within bounds.
fn number(
    call: &Call<'_, '_>,
    at: usize,
    what: &str,
    (least, most): (i64, i64),
) -> ImportResult<Option<i64>> {
    let Some(found) = call.numbers(at, what)? else { return Ok(None) };
    match found[..] {
        [one] if (least..=most).contains(&one) => Ok(Some(one)),
        _ => Err(call
            .refuse(format!("{what} (operand {at}) are {found:?}"))
            .allowed(format!("one number, {least} to {most}"))),
    }
}

/// The same, which must be there.
fn needed(call: &Call<'_, '_>, at: usize, what: &str, bounds: (i64, i64)) -> ImportResult<i64> {
    number(call, at, what, bounds)?.ok_or_else(|| call.refuse(format!("operand {at} is missing")))
}

/// A constant of floats, of another float type if that is asked for.
fn constant(call: &mut Call<'_, '_>, dims: &[i64], elements: &[f64], dtype: Dtype) -> ImportResult<ValueId> {
    #[expect(clippy::cast_possible_truncation, reason = "constants are f32")]
    let narrow: Vec<f32> = elements.iter().map(|x| *x as f32).collect();
    let dims: Vec<u64> = dims.iter().map(|dim| dim.unsigned_abs()).collect();
    let stored = StoredTensor::floats(&dims, &narrow)
        .ok_or_else(|| call.refuse("a constant with too many elements"))?;
    let name = call.node.outputs.first().map_or("constant", String::as_str);
    let id = call.reader.tensor(&format!("{name}.constant"), stored)?;
    call.build(|b| b.convert(id, dtype))
}

/// The float type that an attribute names, f32 if there is none.
fn asked_type(call: &Call<'_, '_>, name: &str) -> ImportResult<Dtype> {
    let dtype = tensor::known_type(call.int(name, 1));
    dtype.map_err(|what| call.refuse(format!("`{name}`: {what}")).allowed(tensor::types_text()))
}

/// A window's elements by the part of a turn that each stands at.
pub(super) fn window(call: &mut Call<'_, '_>) -> Outputs {
    let size = needed(call, 0, "sizes", (1, MOST_ELEMENTS))?;
    let turn = if call.int("periodic", 1) != 0 { size } else { (size - 1).max(1) };
    let op = call.node.op.clone();
    computed(call, size)?;
    #[expect(clippy::cast_precision_loss, reason = "at most 2^24")]
    let element = |at: i64| {
        let angle = TAU * at as f64 / turn as f64;
        match op.as_str() {
            "HannWindow" => 0.5 - 0.5 * angle.cos(),
            "HammingWindow" => 25.0 / 46.0 - 21.0 / 46.0 * angle.cos(),
            _ => 0.42 - 0.5 * angle.cos() + 0.08 * (2.0 * angle).cos(),
        }
    };
    let elements: Vec<f64> = (0..size).map(element).collect();
    let dtype = asked_type(call, "output_datatype")?;
    Ok(vec![constant(call, &[size], &elements, dtype)?])
}

/// What a transform goes from and to.
struct Transform {
    /// Elements of the signal, and of its spectrum.
    length: i64,
    /// Elements that go in and come out.
    from: i64,
    to: i64,
    /// Real and imaginary parts that go in and come out: 1 or 2.
    parts: (i64, i64),
    is_inverse: bool,
    is_onesided: bool,
}

impl Transform {
    /// `[from, parts, to, parts]`: what each part of an element adds to each part of a result.
    fn matrix(&self) -> Vec<f64> {
        let mut all = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "at most 2^24")]
        let length = self.length as f64;
        for n in 0..self.from {
            // Of a spectrum that is given by half the other half adds as much, but for its ends.
            let is_end = n == 0 || 2 * n == self.length;
            let factor = match (self.is_inverse, self.is_onesided && !is_end) {
                (false, _) => 1.0,
                (true, false) => 1.0 / length,
                (true, true) => 2.0 / length,
            };
            for part in 0..self.parts.0 {
                for k in 0..self.to {
                    #[expect(clippy::cast_precision_loss, reason = "at most 2^24")]
                    let angle = TAU * ((n * k) % self.length) as f64 / length;
                    let angle = if self.is_inverse { angle } else { -angle };
                    let (cosine, sine) = (factor * angle.cos(), factor * angle.sin());
                    let both = if part == 0 { [cosine, sine] } else { [-sine, cosine] };
                    all.extend(both.iter().take(if self.parts.1 == 1 { 1 } else { 2 }));
                }
            }
        }
        all
    }

    /// Applies it to the last two axes of `[.., from, parts]`.
    fn apply(&self, call: &mut Call<'_, '_>, x: ValueId) -> ImportResult<ValueId> {
        let dims = [self.from, self.parts.0, self.to, self.parts.1];
        let count = dims.iter().try_fold(1_i64, |count, dim| count.checked_mul(*dim));
        let Some(count) = count.filter(|count| *count <= MOST_ELEMENTS) else {
            return Err(call
                .refuse(format!("a transform of {} elements to {}", self.from, self.to))
                .allowed("a matrix of at most 2^24 elements")
                .instead("shorter frames"));
        };
        computed(call, count)?;
        let dtype = call.reader.b.dtype(x);
        let matrix = constant(call, &dims, &self.matrix(), dtype)?;
        let own = call.reader.b.dims(x).to_vec();
        let outer = own[..own.len() - 2].to_vec();
        let rows =
            Dim::product(&outer).ok_or_else(|| call.refuse("sizes whose product has too many terms"))?;
        let mut result = outer;
        result.extend([Dim::fixed(self.to), Dim::fixed(self.parts.1)]);
        call.build(|b| {
            let width = Dim::fixed(self.from * self.parts.0);
            let columns = Dim::fixed(self.to * self.parts.1);
            let flat = b.reshape(x, &[rows, width.clone()])?;
            let matrix = b.reshape(matrix, &[width, columns])?;
            let y = b.einsum("pn,nk->pk", &[flat, matrix])?;
            b.reshape(y, &result)
        })
    }
}

/// Real and imaginary parts along the last axis of a signal.
fn parts(call: &Call<'_, '_>, x: ValueId, axes: usize) -> ImportResult<i64> {
    let dims = call.reader.b.dims(x);
    let parts = dims.last().and_then(Dim::as_fixed).filter(|parts| (1..=2).contains(parts));
    parts.filter(|_| dims.len() >= axes && call.reader.b.dtype(x).is_float()).ok_or_else(|| {
        call.refuse("a signal of other axes").allowed("floats [batch, .., 1], or [batch, .., 2] for complex")
    })
}

/// The opset from which on the axis of a transform is an operand.
const FIRST_AXIS_OPERAND: i64 = 20;

pub(super) fn dft(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let parts = parts(call, x, 2)?;
    let axis = if call.reader.opset < FIRST_AXIS_OPERAND {
        call.int("axis", 1)
    } else {
        call.numbers(2, "axes")?.and_then(|axes| axes.first().copied()).unwrap_or(-2)
    };
    let (axis, last) = (call.axis_of(x, axis)?, call.reader.b.rank(x) - 1);
    if axis == last {
        return Err(call.refuse(format!("a transform along axis {axis}, which has the parts of numbers")));
    }
    let size = call.built(call.reader.b.dim(x, axis))?.as_fixed().filter(|size| *size > 0);
    let size = size.ok_or_else(|| call.refuse("a transform of an open size").allowed("a fixed size"))?;
    let (is_inverse, is_onesided) = (call.int("inverse", 0) != 0, call.int("onesided", 0) != 0);
    let is_to_real = is_inverse && is_onesided;
    let given = number(call, 1, "lengths", (1, MOST_ELEMENTS))?;
    let length = given.unwrap_or(if is_to_real { (2 * (size - 1)).max(1) } else { size });
    if is_onesided && !is_inverse && parts == 2 {
        return Err(call
            .refuse("one side of the spectrum of complex numbers")
            .allowed("real numbers, or both sides"));
    }
    let half = length / 2 + 1;
    let from = if is_to_real { half } else { length };
    let transform = Transform {
        length,
        from,
        to: if is_onesided && !is_inverse { half } else { length },
        parts: (parts, if is_to_real { 1 } else { 2 }),
        is_inverse,
        is_onesided,
    };
    // The axis moves behind the others, is cut or filled up, and moves back.
    let order: Vec<usize> = (0..last).filter(|other| *other != axis).chain([axis, last]).collect();
    let mut back = vec![0; last + 1];
    order.iter().enumerate().for_each(|(to, from)| back[*from] = to);
    let fitted = call.build(|b| {
        let turned = b.transpose(x, &order)?;
        fitted(b, turned, last - 1, (size, from))
    })?;
    let y = transform.apply(call, fitted)?;
    Ok(vec![call.build(|b| b.transpose(y, &back))?])
}

/// The first elements of an axis, zeros behind them if there are too few.
fn fitted(b: &mut Builder, x: ValueId, axis: usize, (size, wanted): (i64, i64)) -> BuildResult<ValueId> {
    if wanted <= size {
        return b.slice(x, axis, 0.into(), wanted.into(), 1);
    }
    let zero = b.scalar(b.dtype(x), 0.0)?;
    b.pad(x, axis, 0.into(), (wanted - size).into(), zero)
}

/// Spectra of frames, each perhaps weighed by a window.
pub(super) fn stft(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let parts = parts(call, x, 3)?;
    if call.reader.b.rank(x) != 3 {
        return Err(call.refuse("a signal of other axes").allowed("[batch, length, 1 or 2]"));
    }
    let step = needed(call, 1, "steps", (1, MOST_ELEMENTS))?;
    let window = call.maybe(2);
    let of_window = match window {
        Some(window) => call.reader.b.dims(window).first().and_then(Dim::as_fixed),
        None => None,
    };
    let length = number(call, 3, "lengths", (1, MOST_ELEMENTS))?.or(of_window).ok_or_else(|| {
        call.refuse("neither a window nor a frame length").allowed("one of the two, of a known size")
    })?;
    if let Some(elements) = of_window.filter(|elements| *elements != length) {
        let what = format!("a window of {elements} elements for frames of {length}");
        return Err(call.refuse(what).allowed("as many elements as a frame has"));
    }
    let is_onesided = call.int("onesided", 1) != 0;
    if is_onesided && parts == 2 {
        return Err(call
            .refuse("one side of the spectrum of complex numbers")
            .allowed("real numbers, or `onesided` 0"));
    }
    let to = if is_onesided { length / 2 + 1 } else { length };
    let transform = Transform { length, from: length, to, parts: (parts, 2), is_inverse: false, is_onesided };
    let frames = call.build(|b| {
        let op =
            Op::Window { axis: 1, size: length.unsigned_abs(), stride: step.unsigned_abs(), dilation: 1 };
        let frames = b.emit(op, &[x])?;
        let Some(window) = window else { return Ok(frames) };
        let window = b.reshape(window, &[Dim::fixed(length), Dim::fixed(1)])?;
        b.mul(frames, window)
    })?;
    Ok(vec![transform.apply(call, frames)?])
}

/// One float that must be known.
fn hertz(call: &Call<'_, '_>, at: usize, what: &str) -> ImportResult<f64> {
    match call.known_floats(at, what)?.as_deref() {
        Some([one]) if one.is_finite() && *one >= 0.0 => Ok(f64::from(*one)),
        _ => Err(call.refuse(format!("{what} (operand {at})")).allowed("one number from 0")),
    }
}

/// Triangles over the bins of a spectrum, as far apart in mel.
pub(super) fn mel_weights(call: &mut Call<'_, '_>) -> Outputs {
    let bands = needed(call, 0, "bands", (1, 1 << 12))?;
    let length = needed(call, 1, "lengths", (1, 1 << 24))?;
    let rate = needed(call, 2, "rates", (1, 1 << 40))?;
    let (low, high) = (hertz(call, 3, "lower edges")?, hertz(call, 4, "upper edges")?);
    let bins = length / 2 + 1;
    if bins.exact_mul(bands) > MOST_ELEMENTS {
        let what = format!("{bins} bins and {bands} bands");
        return Err(call.refuse(what).allowed("a matrix of at most 2^24 elements"));
    }
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "numbers that were bounded; the last bin is looked at"
    )]
    let edge = |at: i64| {
        let step = (mel(high) - mel(low)) / (bands + 2) as f64;
        let hertz = 700.0 * (10_f64.powf((mel(low) + at as f64 * step) / 2595.0) - 1.0);
        ((length + 1) as f64 * hertz / rate as f64).floor() as i64
    };
    let edges: Vec<i64> = (0..bands + 2).map(edge).collect();
    if edges.iter().any(|edge| !(0..bins).contains(edge)) || edges.iter().is_sorted().eq(&false) {
        return Err(call
            .refuse(format!("edges at {low} and {high} Hz of {bins} bins at {rate} Hz"))
            .allowed("a lower and an upper edge within the bins"));
    }
    computed(call, bins * bands)?;
    let at =
        |bin: i64, band: i64| usize::try_from(bin * bands + band).or_broken("bins and bands were counted");
    let mut weights = vec![0.0; at(bins, 0)];
    for (band, edges) in (0..bands).zip(edges.windows(3)) {
        let &[low, centre, high] = edges else { continue };
        #[expect(clippy::cast_precision_loss, reason = "numbers of bins")]
        let ratio = |part: i64, whole: i64| part as f64 / whole as f64;
        for bin in low..=centre {
            weights[at(bin, band)] = if low == centre { 1.0 } else { ratio(bin - low, centre - low) };
        }
        for bin in centre..high {
            weights[at(bin, band)] = ratio(high - bin, high - centre);
        }
    }
    let dtype = asked_type(call, "output_datatype")?;
    Ok(vec![constant(call, &[bins, bands], &weights, dtype)?])
}
