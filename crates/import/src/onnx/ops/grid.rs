//! Sampling at places that a run computes: GridSample and AffineGrid.
//!
//! A sample is a sum over the elements of each axis, weighed by a matrix that is zero but for the few
//! neighbours of a place. The matrix is made element by element, so that no index decides what is read.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, Fold, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// What is beyond the borders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// How places are taken.
#[derive(Clone, Copy)]
struct Sampling {
    mode: Mode,
    outside: Outside,
    /// Whether -1 and 1 are the centres of the outer elements, or their edges.
    is_aligned: bool,
}

fn sampling(call: &Call<'_, '_>) -> ImportResult<Sampling> {
    let mode = match call.word("mode", "linear").as_str() {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" => Mode::Linear,
        "cubic" | "bicubic" => Mode::Cubic,
        other => {
            return Err(call.refuse(format!("`mode` is `{other}`")).allowed("linear, nearest, cubic"));
        }
    };
    let outside = match call.word("padding_mode", "zeros").as_str() {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => {
            let what = format!("`padding_mode` is `{other}`");
            return Err(call.refuse(what).allowed("zeros, border, reflection"));
        }
    };
    Ok(Sampling { mode, outside, is_aligned: call.int("align_corners", 0) != 0 })
}

pub(super) fn sample(call: &mut Call<'_, '_>) -> Outputs {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let sampling = sampling(call)?;
    let (own, places) = (call.reader.b.dims(x).to_vec(), call.reader.b.dims(grid).to_vec());
    let Some(axes) = own.len().checked_sub(2) else {
        return Err(call
            .refuse(format!("an image of {} axes", own.len()))
            .allowed("[batch, channels, ..] of up to three axes"));
    };
    let sizes: Option<Vec<i64>> = own.iter().skip(2).map(Dim::as_fixed).collect();
    let sizes = sizes.ok_or_else(|| call.refuse("an image of an open size").allowed("fixed sizes"))?;
    let width = i64::try_from(axes).or_broken("ranks fit 64 bits");
    let is_there = sizes.iter().all(|size| (1..1 << 24).contains(size));
    let fits = places.len() == own.len() && places.last().is_some_and(|last| last.is(width));
    if !(1..=3).contains(&axes) || !is_there || !fits || own.first() != places.first() {
        return Err(call
            .refuse(format!("an image of {} axes and places of {}", own.len(), places.len()))
            .allowed("[batch, channels, ..] of up to three axes, and [batch, .., as many numbers]"));
    }
    let count = Dim::product(&places[1..=axes]);
    let count = count.ok_or_else(|| call.refuse("places whose number has too many terms"))?;
    let mut result = own[..2].to_vec();
    result.extend_from_slice(&places[1..=axes]);
    Ok(vec![call.build(|b| {
        let dtype = b.dtype(x);
        let grid = b.convert(grid, Dtype::F32)?;
        let flat = b.reshape(grid, &[own[0].clone(), count.clone(), Dim::fixed(width)])?;
        let mut matrices = Vec::new();
        for (axis, size) in sizes.iter().enumerate() {
            // Numbers of a place are those of the axes from the last on.
            let number = width - 1 - i64::try_from(axis).or_broken("ranks fit 64 bits");
            let place = b.slice(flat, 2, number.into(), 1.into(), 1)?;
            matrices.push(sampling.weights(b, place, *size)?);
        }
        let x = b.convert(x, Dtype::F32)?;
        let y = weighed(b, x, &matrices)?;
        let y = b.reshape(y, &result)?;
        b.convert(y, dtype)
    })?])
}

/// Sums over all axes of an image by their matrices `[batch, places, size]`: over the last by a product, over
/// the others element by element.
pub(super) fn weighed(b: &mut Builder, x: ValueId, matrices: &[ValueId]) -> BuildResult<ValueId> {
    let Some((last, others)) = matrices.split_last() else { return Ok(x) };
    let dims = b.dims(x).to_vec();
    let rank = dims.len();
    let rows = Dim::product(&dims[1..rank - 1]);
    let rows =
        rows.ok_or_else(|| tilewright_graph::infer::shape_error("too many elements", "sizes of few terms"))?;
    let flat = b.reshape(x, &[dims[0].clone(), rows, dims[rank - 1].clone()])?;
    let mut sum = b.einsum("nrw,npw->nrp", &[flat, *last])?;
    let count = b.dim(sum, 2)?;
    let mut left = dims[..rank - 1].to_vec();
    left.push(count.clone());
    sum = b.reshape(sum, &left)?;
    for matrix in others.iter().rev() {
        // `[.., size, places]`, with the matrix turned and stretched over what is in front.
        let axis = b.rank(sum) - 2;
        let turned = b.transpose(*matrix, &[0, 2, 1])?;
        let mut beside = vec![Dim::fixed(1); axis + 2];
        (beside[0], beside[axis], beside[axis + 1]) = (dims[0].clone(), b.dim(sum, axis)?, count.clone());
        let turned = b.reshape(turned, &beside)?;
        let parts = b.mul(sum, turned)?;
        sum = b.reduce(Fold::Sum, parts, &[axis], false)?;
    }
    Ok(sum)
}

/// `[batch, places, size]`: what each element adds to a sample between two of them at a place, `[batch,
/// places, 1]`, which is a number of elements; what is outside is zero.
pub(super) fn beside(b: &mut Builder, at: ValueId, size: i64) -> BuildResult<ValueId> {
    let sampling = Sampling { mode: Mode::Linear, outside: Outside::Zeros, is_aligned: true };
    sampling.neighbours(b, at, size)
}

/// A place within so many elements.
#[expect(clippy::cast_precision_loss, reason = "sizes below 2^24")]
fn clamped(b: &mut Builder, at: ValueId, (least, most): (i64, i64)) -> BuildResult<ValueId> {
    let at = b.with(Binary::Max, at, least as f64)?;
    b.with(Binary::Min, at, most as f64)
}

impl Sampling {
    /// The least and largest place that is within, of an axis.
    #[expect(clippy::cast_precision_loss, reason = "sizes below 2^24")]
    fn edges(self, size: i64) -> (f64, f64) {
        if self.is_aligned { (0.0, (size - 1) as f64) } else { (-0.5, size as f64 - 0.5) }
    }

    /// `[batch, places, size]`: what each element adds to a sample at `place`, `[batch, places, 1]`.
    fn weights(self, b: &mut Builder, place: ValueId, size: i64) -> BuildResult<ValueId> {
        let (least, most) = self.edges(size);
        let half = (most - least) / 2.0;
        let from_middle = b.with(Binary::Mul, place, half)?;
        let mut at = b.with(Binary::Add, from_middle, least + half)?;
        if self.mode == Mode::Nearest {
            at = b.unary(Unary::Round, at)?;
        }
        at = match self.outside {
            Outside::Zeros => at,
            // Cubic samples beyond the outer elements are none of them: each neighbour is clamped on its own.
            // Farther than two away, all neighbours are the outer element.
            Outside::Border if self.mode == Mode::Cubic => clamped(b, at, (-2, size + 1))?,
            _ => self.inside(b, at, size)?,
        };
        if self.mode == Mode::Nearest {
            return self.hits(b, at, size);
        }
        self.neighbours(b, at, size)
    }

    /// The same where `at` is a number of elements.
    fn neighbours(self, b: &mut Builder, at: ValueId, size: i64) -> BuildResult<ValueId> {
        let first = b.unary(Unary::Floor, at)?;
        let rest = b.sub(at, first)?;
        let neighbours: &[f64] = if self.mode == Mode::Linear { &[0.0, 1.0] } else { &[-1.0, 0.0, 1.0, 2.0] };
        let mut sum: Option<ValueId> = None;
        for step in neighbours {
            let neighbour = b.with(Binary::Add, first, *step)?;
            let away = b.with(Binary::Sub, rest, *step)?;
            let away = b.unary(Unary::Abs, away)?;
            let weight = self.weight(b, away, (-1.0..=1.0).contains(&(step - 0.5)))?;
            let hits = self.hits(b, neighbour, size)?;
            let part = b.mul(hits, weight)?;
            sum = Some(match sum {
                None => part,
                Some(sum) => b.add(sum, part)?,
            });
        }
        Ok(sum.unwrap_or(rest))
    }

    /// What an element counts that is `away` from the place; `is_near` if that is at most 1.
    fn weight(self, b: &mut Builder, away: ValueId, is_near: bool) -> BuildResult<ValueId> {
        const A: f64 = -0.75;
        if self.mode == Mode::Linear {
            let one = b.scalar(Dtype::F32, 1.0)?;
            return b.sub(one, away);
        }
        let factors: [f64; 4] =
            if is_near { [A + 2.0, -(A + 3.0), 0.0, 1.0] } else { [A, -5.0 * A, 8.0 * A, -4.0 * A] };
        let mut sum = b.scalar(Dtype::F32, factors[0])?;
        for factor in &factors[1..] {
            let product = b.mul(sum, away)?;
            sum = b.with(Binary::Add, product, *factor)?;
        }
        Ok(sum)
    }

    /// One where the number of an element is `at`, brought within the axis, zero elsewhere.
    fn hits(self, b: &mut Builder, at: ValueId, size: i64) -> BuildResult<ValueId> {
        let at = match self.outside {
            Outside::Zeros => at,
            Outside::Border => self.inside(b, at, size)?,
            Outside::Reflection => {
                // Halves are cut off: the reflection of a number of an element at an edge is one.
                let inside = self.inside(b, at, size)?;
                b.unary(Unary::Floor, inside)?
            }
        };
        let numbers = b.iota(Dtype::F32, &[Dim::fixed(size)], 0)?;
        let here = b.binary(Binary::Eq, at, numbers)?;
        b.convert(here, Dtype::F32)
    }

    /// A place brought within the axis.
    fn inside(self, b: &mut Builder, at: ValueId, size: i64) -> BuildResult<ValueId> {
        let (least, most) = self.edges(size);
        if self.outside == Outside::Border || most <= least {
            return clamped(b, at, (0, size - 1));
        }
        // There and back is a period.
        let from = b.with(Binary::Sub, at, least)?;
        let range = most - least;
        // Chips have no remainder.
        let periods = b.with(Binary::Div, from, 2.0 * range)?;
        let periods = b.unary(Unary::Floor, periods)?;
        let whole = b.with(Binary::Mul, periods, 2.0 * range)?;
        let there = b.sub(from, whole)?;
        let back = b.unary(Unary::Neg, there)?;
        let back = b.with(Binary::Add, back, 2.0 * range)?;
        let folded = b.binary(Binary::Min, there, back)?;
        b.with(Binary::Add, folded, least)
    }
}

/// Places of the elements of an image, turned by a matrix for each of the batch.
pub(super) fn affine(call: &mut Call<'_, '_>) -> Outputs {
    let theta = call.input(0)?;
    let sizes = call.numbers(1, "sizes")?.unwrap_or_default();
    let (batch, image) = match &sizes[..] {
        [batch, _, image @ ..] => (*batch, image.to_vec()),
        _ => return Err(call.refuse(format!("sizes {sizes:?}")).allowed("[n, c, h, w] or [n, c, d, h, w]")),
    };
    let axes = image.len();
    let is_aligned = call.int("align_corners", 0) != 0;
    let rows = i64::try_from(axes).or_broken("ranks fit 64 bits");
    let wanted = [Dim::fixed(batch), Dim::fixed(rows), Dim::fixed(rows + 1)];
    let is_there = image.iter().all(|size| (1..1 << 24).contains(size));
    if !(2..=3).contains(&axes) || !is_there || call.reader.b.dims(theta) != wanted {
        return Err(call
            .refuse(format!("sizes {sizes:?} with matrices of other sizes"))
            .allowed("[n, c, h, w] with matrices [n, 2, 3], [n, c, d, h, w] with [n, 3, 4]"));
    }
    Ok(vec![call.build(|b| {
        let column = |b: &mut Builder, at: i64| {
            let column = b.slice(theta, 2, at.into(), 1.into(), 1)?;
            let mut dims = vec![Dim::fixed(1); axes + 2];
            (dims[0], dims[axes + 1]) = (wanted[0].clone(), Dim::fixed(rows));
            b.reshape(column, &dims)
        };
        let mut sum = column(b, rows)?;
        for (axis, size) in image.iter().enumerate() {
            let mut dims = vec![Dim::fixed(1); axes + 2];
            dims[axis + 1] = Dim::fixed(*size);
            let number = b.iota(Dtype::F32, &dims, axis + 1)?;
            #[expect(clippy::cast_precision_loss, reason = "sizes below 2^24")]
            let size = *size as f64;
            let (step, start) = match (is_aligned, size > 1.0) {
                (true, true) => (2.0 / (size - 1.0), -1.0),
                (true, false) => (0.0, -1.0),
                (false, _) => (2.0 / size, 1.0 / size - 1.0),
            };
            let place = b.with(Binary::Mul, number, step)?;
            let place = b.with(Binary::Add, place, start)?;
            let place = b.convert(place, b.dtype(theta))?;
            let turned = column(b, rows - 1 - i64::try_from(axis).or_broken("ranks fit 64 bits"))?;
            let part = b.mul(turned, place)?;
            sum = b.add(sum, part)?;
        }
        Ok(sum)
    })?])
}
