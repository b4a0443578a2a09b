//! Resizing, axis by axis: a gather for the nearest element, otherwise an einsum with a matrix of weights.
//! Rules are those of ONNX's Resize.

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Data, Type, ValueId};
use crate::infer::{BuildResult, shape_error};
use crate::rich::{Attr, RichCall};

/// What one axis becomes.
struct ResizeAxis<'a> {
    from: i64,
    to: i64,
    scale: f64,
    roi: (f64, f64),
    places: &'a str,
}

fn floats(call: &RichCall<'_>, name: &str) -> Vec<f64> {
    match call.attrs.0.get(name) {
        Some(Attr::Floats(patterns)) => patterns.iter().map(|p| f64::from(f32::from_bits(*p))).collect(),
        _ => Vec::new(),
    }
}

/// `resize(x)` to `sizes` (one for each axis), with `scales`, `roi`, `mode` and what else ONNX has.
pub(super) fn resize(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let mut x = call.input(0)?;
    let from: Option<Vec<i64>> = b.dims(x).iter().map(Dim::as_fixed).collect();
    let sizes = call.ints("sizes")?.map(<[i64]>::to_vec);
    let (scales, roi) = (floats(call, "scales"), floats(call, "roi"));
    let places = call.word("places", "half_pixel")?.to_string();
    let (Some(from), Some(sizes)) = (from, sizes) else {
        return Err(shape_error("`resize` of an open size", "fixed sizes, before and after"));
    };
    let rank = from.len();
    if sizes.len() != rank || scales.len() != rank || (!roi.is_empty() && roi.len() != 2 * rank) {
        return call.refuse("with lists of another length", "a size and a scale for each axis");
    }
    if scales.iter().any(|scale| !(1e-4..=1e4).contains(scale)) {
        return call.refuse("by a scale that is too small or too large", "0.0001 to 10000");
    }
    let largest = sizes.iter().chain(&from).copied().max().unwrap_or(0);
    if largest > 1 << 16 || sizes.iter().any(|size| *size < 0) {
        return Err(shape_error(format!("`resize` to {largest}"), "axes of at most 65536"));
    }
    for at in 0..rank {
        let region = if roi.is_empty() { (0.0, 1.0) } else { (roi[at], roi[rank + at]) };
        let whole = places != "tf_crop_and_resize" || region == (0.0, 1.0);
        if from[at] == sizes[at] && scales[at] == 1.0 && whole {
            continue;
        }
        let axis =
            ResizeAxis { from: from[at], to: sizes[at], scale: scales[at], roi: region, places: &places };
        x = resized(b, call, x, at, &axis)?;
    }
    Ok(vec![x])
}

fn resized(
    b: &mut Builder,
    call: &RichCall<'_>,
    x: ValueId,
    at: usize,
    axis: &ResizeAxis<'_>,
) -> BuildResult<ValueId> {
    let mode = call.word("mode", "nearest")?;
    let origins: Vec<f64> = (0..axis.to).map(|to| axis.origin(to)).collect();
    let y = if mode == "nearest" {
        let rounding = call.word("rounding", "round_prefer_floor")?;
        let indices: Vec<i64> = origins.iter().map(|origin| nearest(*origin, rounding, axis.from)).collect();
        let indices = b.integers(Dtype::I64, &indices)?;
        b.gather(x, at, indices)?
    } else {
        let kernel = ResizeKernel {
            cubic: mode == "cubic",
            smooth: call.flag("antialias")?,
            a: call.float("cubic", -0.75)?,
            exclude: call.flag("exclude_outside")?,
        };
        let mut matrix = Vec::new();
        for origin in &origins {
            matrix.extend(kernel.weights(*origin, axis).into_iter().map(f32::to_bits));
        }
        let ty = Type::new(Dtype::F32, [Dim::fixed(axis.to), Dim::fixed(axis.from)]);
        let matrix = b.constant(ty, Data::Floats(matrix))?;
        let labels: String = ('a'..='t').take(b.rank(x)).collect();
        let old = labels.chars().nth(at).unwrap_or('a').to_string();
        b.einsum(&format!("{labels},z{old}->{}", labels.replace(&old, "z")), &[x, matrix])?
    };
    if axis.places != "tf_crop_and_resize" {
        return Ok(y);
    }
    #[expect(clippy::cast_precision_loss, reason = "axes are short")]
    let inside: Vec<i64> =
        origins.iter().map(|x| i64::from(*x >= 0.0 && *x <= (axis.from - 1) as f64)).collect();
    let mut dims = vec![Dim::fixed(axis.to)];
    let inside = b.integers(Dtype::Bool, &inside)?;
    dims.resize(b.rank(y) - at, Dim::fixed(1));
    let inside = b.reshape(inside, &dims)?;
    let outside = b.scalar(b.dtype(y), call.float("extrapolation", 0.0)?)?;
    b.select(inside, y, outside)
}

#[expect(clippy::cast_precision_loss, reason = "axes are short")]
impl ResizeAxis<'_> {
    /// Where a place of the result lies in the input.
    fn origin(&self, to: i64) -> f64 {
        let (x, from) = (to as f64, self.from as f64);
        let width = self.scale * from;
        match self.places {
            "align_corners" if width == 1.0 => 0.0,
            "align_corners" => x * (from - 1.0) / (width - 1.0),
            "asymmetric" => x / self.scale,
            "tf_crop_and_resize" => {
                let (start, end) = self.roi;
                let inner = if width == 1.0 {
                    (end - start) * (from - 1.0) / 2.0
                } else {
                    x * (end - start) * (from - 1.0) / (width - 1.0)
                };
                inner + start * (from - 1.0)
            }
            "pytorch_half_pixel" if width == 1.0 => -0.5,
            "half_pixel_symmetric" => {
                let offset = from / 2.0 * (1.0 - self.to as f64 / width);
                offset + (x + 0.5) / self.scale - 0.5
            }
            _ => (x + 0.5) / self.scale - 0.5,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "axes are short")]
fn nearest(origin: f64, rounding: &str, size: i64) -> i64 {
    let rest = origin - origin.floor();
    let up = match rounding {
        _ if rest == 0.0 => false,
        "round_prefer_ceil" => rest >= 0.5,
        "floor" => false,
        "ceil" => true,
        _ => rest > 0.5,
    };
    (origin.floor() as i64 + i64::from(up)).clamp(0, (size - 1).max(0))
}

struct ResizeKernel {
    cubic: bool,
    smooth: bool,
    a: f64,
    exclude: bool,
}

impl ResizeKernel {
    /// Weights of all elements of an axis for one place.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "axes are short")]
    fn weights(&self, origin: f64, axis: &ResizeAxis<'_>) -> Vec<f32> {
        let floor = origin.floor();
        // A place on an element counts as one step behind the element before.
        let (base, ratio) =
            if floor == origin { (floor as i64 - 1, 1.0) } else { (floor as i64, origin - floor) };
        let scale = if self.smooth { axis.scale.min(1.0) } else { 1.0 };
        let reach = if self.cubic { 2.0 } else { 1.0 };
        let start = (-reach / scale).floor() as i64 + 1;
        let steps = start..2 - start;
        let mut weights: Vec<f64> =
            steps.clone().map(|step| self.weight((step as f64 - ratio) * scale)).collect();
        if self.smooth {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        let places: Vec<i64> = steps.map(|step| base + step).collect();
        if self.exclude {
            for (place, weight) in places.iter().zip(&mut weights) {
                if *place < 0 || *place >= axis.from {
                    *weight = 0.0;
                }
            }
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        let mut row = vec![0.0_f64; usize::try_from(axis.from).unwrap_or(0)];
        for (place, weight) in places.iter().zip(weights) {
            let inside = usize::try_from((*place).clamp(0, (axis.from - 1).max(0))).unwrap_or(0);
            if let Some(slot) = row.get_mut(inside) {
                *slot += weight;
            }
        }
        row.into_iter().map(|weight| weight as f32).collect()
    }

    fn weight(&self, x: f64) -> f64 {
        let x = x.abs();
        if !self.cubic {
            return (1.0 - x).clamp(0.0, 1.0);
        }
        let a = self.a;
        if x <= 1.0 {
            ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        } else if x < 2.0 {
            ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        } else {
            0.0
        }
    }
}
