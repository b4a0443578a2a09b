//! Matrix products and convolutions, all of them einsums. A convolution is an einsum over windows.

use crate::build::Builder;
use crate::dim::Dim;
use crate::graph::ValueId;
use crate::infer::{BuildResult, shape_error};
use crate::op::{Binary, Op};
use crate::rich::RichCall;

/// `matmul(x, y)` with the shapes of NumPy: vectors are rows or columns, axes in front stretch.
pub(super) fn matmul(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    let (rank_x, rank_y) = (b.rank(x), b.rank(y));
    if rank_x == 0 || rank_y == 0 {
        return Err(shape_error("`matmul` of a scalar", "a vector or a matrix"));
    }
    let labels = b"abcdefghijlmopqrstuvwxyzABCDEFGH";
    let front = rank_x.max(rank_y).saturating_sub(2);
    let rows = |rank: usize| rank.saturating_sub(2);
    let mut own_x: Vec<u8> = labels[..front][front - rows(rank_x)..].to_vec();
    let mut own_y: Vec<u8> = labels[..front][front - rows(rank_y)..].to_vec();
    let (mut left, mut right) = (x, y);
    let mut out: Vec<u8> = Vec::new();
    // A size of 1 that stretches is left out of the sum's labels.
    for &label in &labels[..front] {
        let here = |own: &[u8]| own.iter().position(|known| *known == label);
        let size =
            |b: &Builder, value: ValueId, own: &[u8]| here(own).map(|axis| b.dims(value)[axis].clone());
        let (a, c) = (size(b, left, &own_x), size(b, right, &own_y));
        if let (Some(a), Some(c)) = (&a, &c) {
            if a.is(1) && !c.is(1) {
                left = squeezed(b, left, here(&own_x))?;
                own_x.retain(|known| *known != label);
            } else if c.is(1) && !a.is(1) {
                right = squeezed(b, right, here(&own_y))?;
                own_y.retain(|known| *known != label);
            }
        }
        out.push(label);
    }
    if rank_x > 1 {
        own_x.push(b'N');
        out.push(b'N');
    }
    own_x.push(b'K');
    own_y.push(b'K');
    if rank_y > 1 {
        own_y.push(b'M');
        out.push(b'M');
    }
    let text = |labels: &[u8]| String::from_utf8_lossy(labels).into_owned();
    let spec = format!("{},{}->{}", text(&own_x), text(&own_y), text(&out));
    Ok(vec![b.einsum(&spec, &[left, right])?])
}

fn squeezed(b: &mut Builder, x: ValueId, axis: Option<usize>) -> BuildResult<ValueId> {
    let mut dims = b.dims(x).to_vec();
    if let Some(axis) = axis {
        dims.remove(axis);
    }
    b.reshape(x, &dims)
}

/// `gemm(a, b, c)`: alpha a b + beta c, each matrix perhaps transposed.
pub(super) fn gemm(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    let left = if call.flag("trans_a")? { "kn" } else { "nk" };
    let right = if call.flag("trans_b")? { "mk" } else { "km" };
    let mut sum = b.einsum(&format!("{left},{right}->nm"), &[x, y])?;
    let alpha = call.float("alpha", 1.0)?;
    if alpha != 1.0 {
        sum = b.with(Binary::Mul, sum, alpha)?;
    }
    if let Some(mut bias) = call.maybe(2) {
        let beta = call.float("beta", 1.0)?;
        if beta != 1.0 {
            bias = b.with(Binary::Mul, bias, beta)?;
        }
        sum = b.add(sum, bias)?;
    }
    Ok(vec![sum])
}

/// Phases of a transposed convolution, each a channel for each of the result, at most.
const MOST_PHASES: i64 = 64;
/// Sizes, strides and pads are smaller.
const MOST_STEP: i64 = 1 << 20;

/// Windows of convolution and pooling.
pub(super) struct Windows {
    pub(super) sizes: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    /// Elements before and behind each axis.
    pub(super) pads: Vec<(i64, i64)>,
}

impl Windows {
    /// Whether a transposed convolution of these is one of phases: neighbours lie side by side, and results
    /// are only left out at the ends.
    fn takes_phases(&self) -> bool {
        let phases = self.strides.iter().try_fold(1_i64, |all, stride| all.checked_mul(*stride));
        phases.is_some_and(|phases| (2..=MOST_PHASES).contains(&phases))
            && self.dilations.iter().all(|dilation| *dilation == 1)
            && self.pads.iter().all(|(low, high)| *low >= 0 && *high >= 0)
    }

    /// Attributes `strides`, `dilations` and `pads` (all before, then all behind) for windows of these sizes.
    pub(super) fn new(call: &RichCall<'_>, sizes: Vec<i64>) -> BuildResult<Windows> {
        let rank = sizes.len();
        let list = |name: &str| -> BuildResult<Vec<i64>> {
            Ok(call.ints(name)?.map_or_else(|| vec![1; rank], <[i64]>::to_vec))
        };
        let (strides, dilations) = (list("strides")?, list("dilations")?);
        let pads = call.ints("pads")?.map_or_else(|| vec![0; 2 * rank], <[i64]>::to_vec);
        let positive =
            strides.iter().chain(&dilations).chain(&sizes).all(|number| (1..MOST_STEP).contains(number))
                && pads.iter().all(|pad| (-MOST_STEP..MOST_STEP).contains(pad));
        if strides.len() != rank || dilations.len() != rank || pads.len() != 2 * rank || !positive {
            return call.refuse("with windows that do not fit its axes", "a positive number for each axis");
        }
        let pads = (0..rank).map(|axis| (pads[axis], pads[rank + axis])).collect();
        Ok(Windows { sizes, strides, dilations, pads })
    }

    /// Pads the axes from 2 on; a negative number takes away.
    pub(super) fn padded(
        &self,
        b: &mut Builder,
        x: ValueId,
        value: ValueId,
        pads: &[(i64, i64)],
    ) -> BuildResult<ValueId> {
        let mut x = x;
        for (axis, (low, high)) in pads.iter().enumerate() {
            let axis = axis + 2;
            x = b.pad(x, axis, (*low).max(0).into(), (*high).max(0).into(), value)?;
            if *low < 0 || *high < 0 {
                let cut = Dim::fixed(low.min(&0) + high.min(&0));
                let wrong = || shape_error("padding takes away too much", "smaller numbers");
                let size = b.dim(x, axis)?.plus(&cut).ok_or_else(wrong)?;
                x = b.slice(x, axis, (-low.min(&0)).into(), size, 1)?;
            }
        }
        Ok(x)
    }

    /// `[n, c, d1, d2]` to `[n, c, o1, k1, o2, k2]`.
    pub(super) fn windows(&self, b: &mut Builder, x: ValueId) -> BuildResult<ValueId> {
        let mut x = x;
        for axis in 0..self.sizes.len() {
            let op = Op::Window {
                axis: 2 + 2 * axis,
                size: self.sizes[axis].unsigned_abs(),
                stride: self.strides[axis].unsigned_abs(),
                dilation: self.dilations[axis].unsigned_abs(),
            };
            x = b.emit(op, &[x])?;
        }
        Ok(x)
    }
}

/// Labels of places and of window elements.
const PLACES: &[u8] = b"ABDE";
const INSIDE: &[u8] = b"wxyz";

fn fixed_tail(b: &Builder, value: ValueId, from: usize) -> BuildResult<Vec<i64>> {
    let tail: Option<Vec<i64>> = b.dims(value).iter().skip(from).map(Dim::as_fixed).collect();
    tail.filter(|tail| tail.len() <= PLACES.len())
        .ok_or_else(|| shape_error("windows of an open size, or of more than four axes", "fixed sizes"))
}

fn same_rank(b: &Builder, x: ValueId, w: ValueId) -> BuildResult<()> {
    if b.rank(x) == b.rank(w) && b.rank(x) > 2 {
        return Ok(());
    }
    Err(shape_error(
        "windows of weights on a tensor with other axes",
        "batch, channels, and an axis for each of the window",
    ))
}

/// `conv(x, w, bias)` of `[n, c, ..]` and `[m, c / groups, ..]`.
pub(super) fn conv(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let windows = Windows::new(call, fixed_tail(b, w, 2)?)?;
    same_rank(b, x, w)?;
    let zero = b.scalar(b.dtype(x), 0.0)?;
    let padded = windows.padded(b, x, zero, &windows.pads)?;
    let seen = windows.windows(b, padded)?;
    let m = b.dim(w, 0)?;
    let w = grouped(b, w, 0, call.int("groups", 1)?)?;
    let y = product(b, seen, w, call.int("groups", 1)?, "gmc", &m)?;
    Ok(vec![biased(b, y, call.maybe(2))?])
}

/// Splits an axis into groups.
fn grouped(b: &mut Builder, x: ValueId, axis: usize, groups: i64) -> BuildResult<ValueId> {
    let mut dims = b.dims(x).to_vec();
    let uneven = || shape_error("groups that do not divide the channels", "a divisor");
    let each = b.dim(x, axis)?.divided(&Dim::fixed(groups)).ok_or_else(uneven)?;
    dims.splice(axis..=axis, [Dim::fixed(groups), each]);
    b.reshape(x, &dims)
}

/// The einsum over windows; `order` has the labels of the weights before those of the window.
fn product(
    b: &mut Builder,
    seen: ValueId,
    w: ValueId,
    groups: i64,
    order: &str,
    m: &Dim,
) -> BuildResult<ValueId> {
    let seen = grouped(b, seen, 1, groups)?;
    let rank = (b.rank(seen).saturating_sub(3)) / 2;
    let pairs: String = (0..rank).flat_map(|at| [char::from(PLACES[at]), char::from(INSIDE[at])]).collect();
    let places: String = PLACES[..rank].iter().map(|label| char::from(*label)).collect();
    let inside: String = INSIDE[..rank].iter().map(|label| char::from(*label)).collect();
    let y = b.einsum(&format!("ngc{pairs},{order}{inside}->ngm{places}"), &[seen, w])?;
    let mut dims = b.dims(y).to_vec();
    dims.splice(1..3, [m.clone()]);
    b.reshape(y, &dims)
}

fn biased(b: &mut Builder, y: ValueId, bias: Option<ValueId>) -> BuildResult<ValueId> {
    let Some(bias) = bias else { return Ok(y) };
    let mut dims = b.dims(bias).to_vec();
    dims.resize(b.rank(y).saturating_sub(1), Dim::fixed(1));
    let bias = b.reshape(bias, &dims)?;
    b.add(y, bias)
}

/// `conv_transpose(x, w, bias)` of `[n, c, ..]` and `[c, m / groups, ..]`: the input spread out by the
/// strides, then a convolution with the weights flipped. `pads` are those of the result; `output_padding`
/// adds behind.
pub(super) fn conv_transpose(b: &mut Builder, call: &RichCall<'_>) -> BuildResult<Vec<ValueId>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let groups = call.int("groups", 1)?;
    let mut windows = Windows::new(call, fixed_tail(b, w, 2)?)?;
    same_rank(b, x, w)?;
    let rank = windows.sizes.len();
    let extra = call.ints("output_padding")?.map_or_else(|| vec![0; rank], <[i64]>::to_vec);
    if extra.iter().any(|extra| !(0..MOST_STEP).contains(extra)) {
        return call.refuse("with `output_padding` that is negative or too large", "0 to 2^20");
    }
    let zero = b.scalar(b.dtype(x), 0.0)?;
    if windows.takes_phases() {
        let y = by_phases(b, (x, w), &mut windows, (groups, &extra), zero)?;
        return Ok(vec![biased(b, y, call.maybe(2))?]);
    }
    let mut spread = x;
    for axis in 0..rank {
        spread = spread_out(b, spread, axis + 2, windows.strides[axis], zero)?;
    }
    let reach = |axis: usize| (windows.sizes[axis] - 1) * windows.dilations[axis];
    let pads: Vec<(i64, i64)> = (0..rank)
        .map(|axis| {
            let (low, high) = windows.pads[axis];
            (reach(axis) - low, reach(axis) - high + extra.get(axis).copied().unwrap_or(0))
        })
        .collect();
    let padded = windows.padded(b, spread, zero, &pads)?;
    windows.strides = vec![1; rank];
    let seen = windows.windows(b, padded)?;
    let mut flipped = w;
    for (axis, size) in windows.sizes.iter().enumerate() {
        flipped = b.slice(flipped, axis + 2, (size - 1).into(), (*size).into(), -1)?;
    }
    let m = b
        .dim(w, 1)?
        .times(&Dim::fixed(groups))
        .ok_or_else(|| shape_error("channels times groups have too many terms", "sizes of few terms"))?;
    let flipped = grouped(b, flipped, 0, groups)?;
    let y = product(b, seen, flipped, groups, "gcm", &m)?;
    Ok(vec![biased(b, y, call.maybe(2))?])
}

/// A transposed convolution by the phases of its strides: results at the same place between two elements of
/// the input are a convolution of the input with every stride-th weight. Phases are channels of one
/// convolution, which then go between each other.
fn by_phases(
    b: &mut Builder,
    (x, w): (ValueId, ValueId),
    windows: &mut Windows,
    (groups, extra): (i64, &[i64]),
    zero: ValueId,
) -> BuildResult<ValueId> {
    let rank = windows.sizes.len();
    let (sizes, strides) = (windows.sizes.clone(), windows.strides.clone());
    let wrong = || shape_error("sizes that are too large", "64 bits");
    let taps: Vec<i64> = sizes.iter().zip(&strides).map(|(size, stride)| size.div_euclid(*stride)).collect();
    let rest = sizes.iter().zip(&strides).map(|(size, stride)| i64::from(size % stride > 0));
    let taps: Vec<i64> = taps.into_iter().zip(rest).map(|(taps, rest)| taps + rest).collect();
    // How far results go beyond those of the last element of the input.
    let over = |axis: usize| sizes[axis] - windows.pads[axis].1 + extra.get(axis).copied().unwrap_or(0);
    let more = |axis: usize| (over(axis) - taps[axis] * strides[axis]).max(0);
    let pads: Vec<(i64, i64)> = (0..rank)
        .map(|axis| {
            let behind = more(axis);
            let stride = strides[axis];
            (taps[axis] - 1, taps[axis] - 1 + behind / stride + i64::from(behind % stride > 0))
        })
        .collect();
    let first: Vec<i64> = windows.pads.iter().map(|pad| pad.0).collect();
    let results: Vec<Dim> = (0..rank)
        .map(|axis| {
            let last = b.dim(x, axis + 2)?.minus(&Dim::fixed(1)).ok_or_else(wrong)?;
            let behind = Dim::fixed(over(axis) - first[axis]);
            last.times(&Dim::fixed(strides[axis])).and_then(|all| all.plus(&behind)).ok_or_else(wrong)
        })
        .collect::<BuildResult<_>>()?;

    let padded = windows.padded(b, x, zero, &pads)?;
    (windows.sizes, windows.strides) = (taps.clone(), vec![1; rank]);
    let seen = windows.windows(b, padded)?;
    let mut phases = w;
    for axis in 0..rank {
        let missing = taps[axis] * strides[axis] - sizes[axis];
        phases = b.pad(phases, axis + 2, 0.into(), missing.into(), zero)?;
    }
    let mut dims = b.dims(w)[..2].to_vec();
    let m = dims[1].times(&Dim::fixed(groups)).ok_or_else(wrong)?;
    dims.extend(
        taps.iter().zip(&strides).flat_map(|(taps, stride)| [Dim::fixed(*taps), Dim::fixed(*stride)]),
    );
    phases = b.reshape(phases, &dims)?;
    for (axis, taps) in taps.iter().enumerate() {
        phases = b.slice(phases, 2 + 2 * axis, (taps - 1).into(), (*taps).into(), -1)?;
    }
    let order = [0, 1].into_iter().chain((0..rank).map(|axis| 3 + 2 * axis));
    let order: Vec<usize> = order.chain((0..rank).map(|axis| 2 + 2 * axis)).collect();
    phases = b.transpose(phases, &order)?;
    let count = Dim::fixed(strides.iter().product());
    let mut dims = vec![dims[0].clone(), dims[1].times(&count).ok_or_else(wrong)?];
    dims.extend(taps.iter().map(|taps| Dim::fixed(*taps)));
    phases = b.reshape(phases, &dims)?;
    let phases = grouped(b, phases, 0, groups)?;
    let channels = m.times(&count).ok_or_else(wrong)?;
    let y = product(b, seen, phases, groups, "gcm", &channels)?;

    let places = b.dims(y)[2..].to_vec();
    let mut dims = vec![b.dim(y, 0)?, m.clone()];
    dims.extend(strides.iter().map(|stride| Dim::fixed(*stride)));
    dims.extend(places.iter().cloned());
    let apart = b.reshape(y, &dims)?;
    let order = [0, 1].into_iter().chain((0..rank).flat_map(|axis| [2 + rank + axis, 2 + axis]));
    let apart = b.transpose(apart, &order.collect::<Vec<usize>>())?;
    let mut dims = vec![b.dim(y, 0)?, m];
    for (places, stride) in places.iter().zip(&strides) {
        dims.push(places.times(&Dim::fixed(*stride)).ok_or_else(wrong)?);
    }
    let mut all = b.reshape(apart, &dims)?;
    for (axis, size) in results.into_iter().enumerate() {
        all = b.slice(all, axis + 2, first[axis].into(), size, 1)?;
    }
    Ok(all)
}

/// Puts `stride - 1` zeros between neighbours of an axis.
fn spread_out(b: &mut Builder, x: ValueId, axis: usize, stride: i64, zero: ValueId) -> BuildResult<ValueId> {
    if stride == 1 {
        return Ok(x);
    }
    let wrong = || shape_error("strides that are too large", "64 bits");
    let size = b.dim(x, axis)?;
    let alone = b.unsqueeze(x, axis + 1)?;
    let padded = b.pad(alone, axis + 1, 0.into(), (stride - 1).into(), zero)?;
    let mut dims = b.dims(x).to_vec();
    dims[axis] = size.times(&Dim::fixed(stride)).ok_or_else(wrong)?;
    let flat = b.reshape(padded, &dims)?;
    let kept = dims[axis].minus(&Dim::fixed(stride - 1)).ok_or_else(wrong)?;
    b.slice(flat, axis, 0.into(), kept, 1)
}
