//! Resizing, axis by axis: a gather for the nearest element, otherwise an einsum with a matrix of weights, or
//! for long axes with those of neighbours, which are gathered. Rules are those of ONNX's Resize.

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
    scale: Scale,
    roi: (f64, f64),
    places: &'a str,
}

/// Size after resizing over size before.
#[derive(Clone, Copy)]
enum Scale {
    /// A given number.
    Float(f64),
    /// `over / under`, two sizes: places that lie on an element or halfway between two do so exactly.
    Ratio { over: i64, under: i64 },
}

impl Scale {
    #[expect(clippy::cast_precision_loss, reason = "axes are short")]
    fn value(self) -> f64 {
        match self {
            Scale::Float(scale) => scale,
            Scale::Ratio { over, under } => over as f64 / under as f64,
        }
    }
}

/// The scales of all axes: `scales`, or `ratios` with the sizes above and then those below the line.
fn scales_of(call: &RichCall<'_>) -> BuildResult<Vec<Scale>> {
    let Some(ratios) = call.ints("ratios")? else {
        return Ok(floats(call, "scales").into_iter().map(Scale::Float).collect());
    };
    if ratios.iter().any(|size| !(1..=LONGEST_AXIS).contains(size)) {
        return call.refuse("by a ratio of other sizes", "sizes of 1 to 65536");
    }
    let (over, under) = ratios.split_at(ratios.len() / 2);
    Ok(over.iter().zip(under).map(|(over, under)| Scale::Ratio { over: *over, under: *under }).collect())
}

const LONGEST_AXIS: i64 = 1 << 16;
/// Elements of a matrix of weights at most: it grows with both sizes, neighbours with one.
const LARGEST_MATRIX: i64 = 1 << 22;

fn floats(call: &RichCall<'_>, name: &str) -> Vec<f64> {
    match call.attrs.0.get(name) {
        Some(Attr::Floats(patterns)) => patterns.iter().map(|p| f64::from(f32::from_bits(*p))).collect(),
        _ => Vec::new(),
    }
}

/// `resize(x)` to `sizes` (one for each axis), with `scales` or `ratios`, `roi`, `mode` and what else ONNX
/// has.
pub(super) fn resize(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let mut x = call.input(0)?;
    let from: Option<Vec<i64>> = b.dims(x).iter().map(Dim::as_fixed).collect();
    let sizes = call.ints("sizes")?.map(<[i64]>::to_vec);
    let (scales, roi) = (scales_of(call)?, floats(call, "roi"));
    let places = call.word("places", "half_pixel")?.to_string();
    let (Some(from), Some(sizes)) = (from, sizes) else {
        return Err(shape_error("`resize` of an open size", "fixed sizes, before and after"));
    };
    let rank = from.len();
    if sizes.len() != rank || scales.len() != rank || (!roi.is_empty() && roi.len() != 2 * rank) {
        return call.refuse("with lists of another length", "a size and a scale for each axis");
    }
    if scales.iter().any(|scale| !(1e-4..=1e4).contains(&scale.value())) {
        return call.refuse("by a scale that is too small or too large", "0.0001 to 10000");
    }
    let largest = sizes.iter().chain(&from).copied().max().unwrap_or(0);
    if largest > LONGEST_AXIS || sizes.iter().any(|size| *size < 0) {
        return Err(shape_error(format!("`resize` to {largest}"), "axes of at most 65536"));
    }
    for at in 0..rank {
        let region = if roi.is_empty() { (0.0, 1.0) } else { (roi[at], roi[rank + at]) };
        let whole = places != "tf_crop_and_resize" || region == (0.0, 1.0);
        if from[at] == sizes[at] && scales[at].value() == 1.0 && whole {
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
    let origins: Vec<Origin> = (0..axis.to).map(|to| axis.origin(to)).collect();
    let y = if mode == "nearest" {
        let rounding = call.word("rounding", "round_prefer_floor")?;
        let indices: Vec<i64> = origins.iter().map(|origin| origin.nearest(rounding, axis.from)).collect();
        let indices = b.integers(Dtype::I64, &indices)?;
        b.gather(x, at, indices)?
    } else {
        let kernel = ResizeKernel {
            cubic: mode == "cubic",
            smooth: call.flag("antialias")?,
            a: call.float("cubic", -0.75)?,
            exclude: call.flag("exclude_outside")?,
        };
        if axis.from.saturating_mul(axis.to) > LARGEST_MATRIX {
            by_neighbours(b, x, (at, axis), (&kernel, &origins))?
        } else {
            by_matrix(b, x, (at, axis), (&kernel, &origins))?
        }
    };
    if axis.places != "tf_crop_and_resize" {
        return Ok(y);
    }
    #[expect(clippy::cast_precision_loss, reason = "axes are short")]
    let inside: Vec<i64> =
        origins.iter().map(|x| i64::from((0.0..=(axis.from - 1) as f64).contains(&x.value()))).collect();
    let mut dims = vec![Dim::fixed(axis.to)];
    let inside = b.integers(Dtype::Bool, &inside)?;
    dims.resize(b.rank(y) - at, Dim::fixed(1));
    let inside = b.reshape(inside, &dims)?;
    let outside = b.scalar(b.dtype(y), call.float("extrapolation", 0.0)?)?;
    b.select(inside, y, outside)
}

/// An axis of `x` times a matrix with a row of weights for each place of the result.
fn by_matrix(
    b: &mut Builder,
    x: ValueId,
    (at, axis): (usize, &ResizeAxis<'_>),
    (kernel, origins): (&ResizeKernel, &[Origin]),
) -> BuildResult<ValueId> {
    let mut matrix = Vec::new();
    for origin in origins {
        let mut row = vec![0.0_f64; usize::try_from(axis.from).unwrap_or(0)];
        for (place, weight) in kernel.neighbours(origin.value(), axis) {
            if let Some(slot) = usize::try_from(place).ok().and_then(|place| row.get_mut(place)) {
                *slot += weight;
            }
        }
        matrix.extend(row.into_iter().map(pattern));
    }
    let ty = Type::new(Dtype::F32, [Dim::fixed(axis.to), Dim::fixed(axis.from)]);
    let matrix = b.constant(ty, Data::Floats(matrix))?;
    let labels: String = ('a'..='t').take(b.rank(x)).collect();
    let old = labels.chars().nth(at).unwrap_or('a').to_string();
    b.einsum(&format!("{labels},z{old}->{}", labels.replace(&old, "z")), &[x, matrix])
}

/// Neighbours of each place of the result, gathered, times their weights.
fn by_neighbours(
    b: &mut Builder,
    x: ValueId,
    (at, axis): (usize, &ResizeAxis<'_>),
    (kernel, origins): (&ResizeKernel, &[Origin]),
) -> BuildResult<ValueId> {
    let all = origins.iter().flat_map(|origin| kernel.neighbours(origin.value(), axis));
    let (places, weights): (Vec<i64>, Vec<u32>) = all.map(|(place, weight)| (place, pattern(weight))).unzip();
    let each = Dim::fixed(i64::try_from(kernel.steps(axis).count()).unwrap_or(i64::MAX));
    let places = b.integers(Dtype::I64, &places)?;
    let gathered = b.gather(x, at, places)?;
    let mut dims = b.dims(gathered).to_vec();
    dims.splice(at..=at, [Dim::fixed(axis.to), each.clone()]);
    let gathered = b.reshape(gathered, &dims)?;
    let weights = b.constant(Type::new(Dtype::F32, [Dim::fixed(axis.to), each]), Data::Floats(weights))?;
    let labels: Vec<char> = ('a'..='u').take(dims.len()).collect();
    let text = |labels: &[char]| labels.iter().collect::<String>();
    let kept = [&labels[..=at], &labels[at + 2..]].concat();
    let spec = format!("{},{}->{}", text(&labels), text(&labels[at..at + 2]), text(&kept));
    b.einsum(&spec, &[gathered, weights])
}

#[expect(clippy::cast_possible_truncation, reason = "weights are in f32")]
fn pattern(weight: f64) -> u32 {
    (weight as f32).to_bits()
}

/// Where a place of the result lies in the input.
#[derive(Clone, Copy)]
enum Origin {
    Float(f64),
    /// `over / under`, where `under` is more than 0.
    Ratio {
        over: i128,
        under: i128,
    },
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "axes are short")]
impl Origin {
    fn value(self) -> f64 {
        match self {
            Origin::Float(origin) => origin,
            Origin::Ratio { over, under } => {
                over.div_euclid(under) as f64 + over.rem_euclid(under) as f64 / under as f64
            }
        }
    }

    /// The element that is nearest, of so many.
    fn nearest(self, rounding: &str, size: i64) -> i64 {
        // The element before, and how the rest compares with nothing and with a half.
        let (before, rest, half) = match self {
            Origin::Float(origin) => {
                let rest = origin - origin.floor();
                (origin.floor() as i64, rest > 0.0, rest.total_cmp(&0.5))
            }
            Origin::Ratio { over, under } => {
                let rest = over.rem_euclid(under);
                (over.div_euclid(under) as i64, rest > 0, (2 * rest).cmp(&under))
            }
        };
        let up = match rounding {
            "round_prefer_ceil" => half.is_ge(),
            "floor" => false,
            "ceil" => rest,
            _ => half.is_gt(),
        };
        before.saturating_add(i64::from(up)).clamp(0, (size - 1).max(0))
    }
}

impl ResizeAxis<'_> {
    fn origin(&self, to: i64) -> Origin {
        match self.scale {
            // A region is given in floats.
            Scale::Ratio { over, under } if self.places != "tf_crop_and_resize" => {
                self.exact_origin(i128::from(to), i128::from(over), i128::from(under))
            }
            _ => Origin::Float(self.float_origin(to)),
        }
    }

    /// The rules of [`ResizeAxis::float_origin`] with a scale of `over / under`, each as one fraction.
    fn exact_origin(&self, x: i128, over: i128, under: i128) -> Origin {
        let (from, to) = (i128::from(self.from), i128::from(self.to));
        let width_is_one = over * from == under;
        let half_pixel = (2 * x + 1) * under - over;
        let (top, bottom) = match self.places {
            "align_corners" if width_is_one => (0, 1),
            "align_corners" => (x * (from - 1) * under, over * from - under),
            "asymmetric" => (x * under, over),
            "pytorch_half_pixel" if width_is_one => (-1, 2),
            "half_pixel_symmetric" => (half_pixel + from * over - to * under, 2 * over),
            _ => (half_pixel, 2 * over),
        };
        Origin::Ratio { over: top * bottom.signum(), under: bottom.abs() }
    }

    #[expect(clippy::cast_precision_loss, reason = "axes are short")]
    fn float_origin(&self, to: i64) -> f64 {
        let (x, from) = (to as f64, self.from as f64);
        let scale = self.scale.value();
        let width = match self.scale {
            Scale::Float(scale) => scale * from,
            Scale::Ratio { over, under } => over as f64 * from / under as f64,
        };
        match self.places {
            "align_corners" if width == 1.0 => 0.0,
            "align_corners" => x * (from - 1.0) / (width - 1.0),
            "asymmetric" => x / scale,
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
                offset + (x + 0.5) / scale - 0.5
            }
            _ => (x + 0.5) / scale - 0.5,
        }
    }
}

struct ResizeKernel {
    cubic: bool,
    smooth: bool,
    a: f64,
    exclude: bool,
}

impl ResizeKernel {
    /// Weights shrink with the axis, so that every element counts.
    fn scale(&self, axis: &ResizeAxis<'_>) -> f64 {
        if self.smooth { axis.scale.value().min(1.0) } else { 1.0 }
    }

    /// Steps from the element at or before a place to those that count there.
    #[expect(clippy::cast_possible_truncation, reason = "axes are short")]
    fn steps(&self, axis: &ResizeAxis<'_>) -> std::ops::Range<i64> {
        let reach = if self.cubic { 2.0 } else { 1.0 };
        let start = (-reach / self.scale(axis)).floor() as i64 + 1;
        start..2 - start
    }

    /// Elements that count at one place, the outermost for those beyond the ends, and their weights.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "axes are short")]
    fn neighbours(&self, origin: f64, axis: &ResizeAxis<'_>) -> Vec<(i64, f64)> {
        let floor = origin.floor();
        // A place on an element counts as one step behind the element before.
        let (base, ratio) =
            if floor == origin { (floor as i64 - 1, 1.0) } else { (floor as i64, origin - floor) };
        let (scale, steps) = (self.scale(axis), self.steps(axis));
        let mut weights: Vec<f64> =
            steps.clone().map(|step| self.weight((step as f64 - ratio) * scale)).collect();
        if self.smooth {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        let places: Vec<i64> = steps.map(|step| base.saturating_add(step)).collect();
        if self.exclude {
            for (place, weight) in places.iter().zip(&mut weights) {
                if *place < 0 || *place >= axis.from {
                    *weight = 0.0;
                }
            }
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        let inside = places.into_iter().map(|place| place.clamp(0, (axis.from - 1).max(0)));
        inside.zip(weights).collect()
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
