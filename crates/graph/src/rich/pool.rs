//! Pooling: reductions over windows.

use crate::build::Builder;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Data, Type, ValueId};
use crate::infer::{BuildResult, shape_error};
use crate::op::{Binary, Fold, Unary};
use crate::rich::RichCall;
use crate::rich::contract::Windows;

/// Windows of a pooling, and what rounding up adds behind each axis.
fn windows(b: &Builder, call: &RichCall<'_>, x: ValueId) -> BuildResult<(Windows, Vec<i64>)> {
    let sizes = call.ints("kernel")?.map(<[i64]>::to_vec);
    let Some(sizes) = sizes else { return call.refuse("without `kernel`", "a size for each axis") };
    let windows = Windows::new(call, sizes)?;
    let mut more = vec![0; windows.sizes.len()];
    if b.rank(x) != windows.sizes.len() + 2 {
        return call.refuse("on axes without a window", "a size for each axis behind the channels");
    }
    if call.flag("ceil")? {
        for (axis, more) in more.iter_mut().enumerate() {
            let open = || shape_error("pooling rounded up on an open size", "a fixed size");
            let size = b.dim(x, axis + 2)?.as_fixed().ok_or_else(open)?;
            let (low, high) = windows.pads[axis];
            let stride = windows.strides[axis];
            let reach = (windows.sizes[axis] - 1) * windows.dilations[axis] + 1;
            let rest = size + low + high - reach;
            let mut steps = rest.div_euclid(stride) + i64::from(rest.rem_euclid(stride) > 0);
            // The last window starts inside the input or the padding before it.
            if steps * stride >= size + low {
                steps -= 1;
            }
            *more = (steps * stride - rest).max(0);
        }
    }
    Ok((windows, more))
}

/// Axes of the window elements in `[n, c, o1, k1, o2, k2]`.
fn inside(windows: &Windows) -> Vec<usize> {
    (0..windows.sizes.len()).map(|axis| 3 + 2 * axis).collect()
}

fn with_more(windows: &Windows, more: &[i64]) -> Vec<(i64, i64)> {
    windows.pads.iter().zip(more).map(|((low, high), more)| (*low, high + more)).collect()
}

/// `max_pool(x)`; the second result is the place of each maximum in the whole tensor, row-major, or with the
/// axes of windows in reverse if `columns=1`. The maximum of a window with NaN is NaN, its place that of the
/// first.
pub(super) fn max_pool(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let (windows, more) = windows(b, call, x)?;
    let pads = with_more(&windows, &more);
    let least = match b.dtype(x).integer_range() {
        Some((least, _)) => b.constant(Type::new(b.dtype(x), []), Data::Ints(vec![least]))?,
        None => b.scalar(b.dtype(x), f64::NEG_INFINITY)?,
    };
    let padded = windows.padded(b, x, least, &pads)?;
    let seen = windows.windows(b, padded)?;
    let largest = b.reduce(Fold::Max, seen, &inside(&windows), true)?;
    let y = b.reduce(Fold::Max, seen, &inside(&windows), false)?;
    let places = places(b, x, call.flag("columns")?)?;
    let none = behind_all(b, x)?;
    let places = windows.padded(b, places, none, &pads)?;
    let places = windows.windows(b, places)?;
    let mut here = b.binary(Binary::Eq, seen, largest)?;
    if b.dtype(x).is_float() {
        let nan = b.unary(Unary::IsNan, seen)?;
        here = b.binary(Binary::Or, here, nan)?;
    }
    let places = b.select(here, places, none)?;
    Ok(vec![y, b.reduce(Fold::Min, places, &inside(&windows), false)?])
}

/// An index behind all elements of a tensor, whatever sizes of open axes are.
fn behind_all(b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
    let too_many = || shape_error("too many elements", "64 bits");
    let count = Dim::product(b.dims(x)).ok_or_else(too_many)?;
    let most = i64::try_from(count.range(b.axes()).1).map_err(|_| too_many())?;
    b.constant(Type::new(Dtype::I64, []), Data::Ints(vec![most]))
}

/// The number of each element of a tensor; with the axes behind the first two in reverse if `columns`.
fn places(b: &mut Builder, x: ValueId, columns: bool) -> BuildResult<ValueId> {
    let mut dims = b.dims(x).to_vec();
    let count = Dim::product(&dims).ok_or_else(|| shape_error("too many elements", "64 bits"))?;
    let flat = b.iota(Dtype::I64, &[count], 0)?;
    if !columns {
        return b.reshape(flat, &dims);
    }
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order[2..].reverse();
    dims[2..].reverse();
    let numbers = b.reshape(flat, &dims)?;
    b.transpose(numbers, &order)
}

/// `avg_pool(x)`: the mean of the elements of a window; padding counts if `count_pads=1`.
pub(super) fn avg_pool(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let (windows, more) = windows(b, call, x)?;
    let zero = b.scalar(b.dtype(x), 0.0)?;
    let padded = windows.padded(b, x, zero, &with_more(&windows, &more))?;
    let seen = windows.windows(b, padded)?;
    let sum = b.reduce(Fold::Sum, seen, &inside(&windows), false)?;
    let one = b.scalar(b.dtype(x), 1.0)?;
    let mut dims = b.dims(x).to_vec();
    dims.splice(..2, [Dim::fixed(1), Dim::fixed(1)]);
    let ones = b.broadcast(one, &dims)?;
    let counted = if call.flag("count_pads")? { one } else { zero };
    let ones = windows.padded(b, ones, counted, &windows.pads)?;
    let behind: Vec<(i64, i64)> = more.iter().map(|more| (0, *more)).collect();
    let ones = windows.padded(b, ones, zero, &behind)?;
    let ones = windows.windows(b, ones)?;
    let count = b.reduce(Fold::Sum, ones, &inside(&windows), false)?;
    Ok(vec![b.div(sum, count)?])
}

/// `lp_pool(x)`: the root of order `p` of the sum of that power of a window's magnitudes.
pub(super) fn lp_pool(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let x = call.input(0)?;
    let (windows, more) = windows(b, call, x)?;
    let order = call.int("p", 2)?;
    if !(1..1 << 10).contains(&order) {
        return call.refuse("of no order, or of too high a one", "p=1 to 1023");
    }
    #[expect(clippy::cast_precision_loss, reason = "small orders")]
    let power = order as f64;
    let powers = match order {
        1 => b.unary(Unary::Abs, x)?,
        2 => b.mul(x, x)?,
        _ => {
            let sizes = b.unary(Unary::Abs, x)?;
            b.with(Binary::Pow, sizes, power)?
        }
    };
    let zero = b.scalar(b.dtype(x), 0.0)?;
    let padded = windows.padded(b, powers, zero, &with_more(&windows, &more))?;
    let seen = windows.windows(b, padded)?;
    let sum = b.reduce(Fold::Sum, seen, &inside(&windows), false)?;
    Ok(vec![match order {
        1 => sum,
        2 => b.unary(Unary::Sqrt, sum)?,
        _ => b.with(Binary::Pow, sum, 1.0 / power)?,
    }])
}
