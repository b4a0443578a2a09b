//! Convolutions whose windows see what lies at places of their own: DeformConv.

use tilewright_graph::{BuildResult, Builder, Dim, Dtype, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::contract::{kernel, window_axes};
use crate::onnx::ops::grid::{beside, weighed};

/// Elements of a window, at most.
const MOST_WINDOW: i64 = 1 << 12;

/// The sizes of a convolution of an image.
struct Shape {
    /// Sizes of the image, of windows, and of the result.
    image: [i64; 2],
    window: [i64; 2],
    places: [i64; 2],
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
    groups: i64,
    /// Channels that share places.
    offset_groups: i64,
}

fn pair(sizes: &[i64]) -> Option<[i64; 2]> {
    <[i64; 2]>::try_from(sizes).ok().filter(|sizes| sizes.iter().all(|size| (1..1 << 20).contains(size)))
}

fn shape(call: &Call<'_, '_>, x: ValueId, w: ValueId) -> ImportResult<Shape> {
    let window = kernel(call, w)?;
    let (strides, dilations, pads) = window_axes(call, x, &window)?;
    let image: Option<Vec<i64>> = call.reader.b.dims(x).iter().skip(2).map(Dim::as_fixed).collect();
    let sizes = image.as_deref().and_then(pair).zip(pair(&window));
    let (image, window) = sizes.ok_or_else(|| {
        call.refuse("an image or windows of other axes").allowed("two, of fixed sizes from 1")
    })?;
    if window[0] * window[1] > MOST_WINDOW {
        let what = format!("windows of {window:?}");
        return Err(call.refuse(what).allowed(format!("at most {MOST_WINDOW} elements")));
    }
    let mut places = [0, 0];
    for axis in 0..2 {
        let reach = (window[axis] - 1) * dilations[axis] + 1;
        let rest = image[axis] + pads[axis] + pads[axis + 2] - reach;
        let step = strides[axis];
        if rest < 0 || step < 1 {
            return Err(call.refuse("windows that do not fit the image").allowed("windows that fit"));
        }
        places[axis] = rest / step + 1;
    }
    let (groups, offset_groups) = (call.int("group", 1), call.int("offset_group", 1));
    if groups < 1 || offset_groups < 1 {
        let what = format!("{groups} groups, {offset_groups} of offsets");
        return Err(call.refuse(what).allowed("divisors of the channels, from 1"));
    }
    Ok(Shape { image, window, places, strides, dilations, pads, groups, offset_groups })
}

pub(super) fn conv(call: &mut Call<'_, '_>) -> Outputs {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (bias, mask) = (call.maybe(3), call.maybe(4));
    let shape = shape(call, x, w)?;
    Ok(vec![call.build(|b| shape.conv(b, (x, w, offset), (bias, mask)))?])
}

fn uneven() -> Box<tilewright_base::Diagnostic> {
    tilewright_graph::infer::shape_error("groups that do not divide the channels", "divisors of the channels")
}

impl Shape {
    fn elements(&self) -> i64 {
        self.window[0] * self.window[1]
    }

    fn conv(
        &self,
        b: &mut Builder,
        (x, w, offset): (ValueId, ValueId, ValueId),
        (bias, mask): (Option<ValueId>, Option<ValueId>),
    ) -> BuildResult<ValueId> {
        let dtype = b.dtype(x);
        let (own, weights) = (b.dims(x).to_vec(), b.dims(w).to_vec());
        let both = |a: &Dim, b: i64| a.times(&Dim::fixed(b)).ok_or_else(uneven);
        let split = |a: &Dim, b: i64| a.divided(&Dim::fixed(b)).ok_or_else(uneven);
        let (elements, count) = (self.elements(), self.places[0] * self.places[1]);
        // Channels that share places are a batch of their own.
        let batch = both(&own[0], self.offset_groups)?;
        let each = split(&own[1], self.offset_groups)?;
        let [height, width] = self.image.map(Dim::fixed);
        let wide = b.convert(x, Dtype::F32)?;
        let image = b.reshape(wide, &[batch.clone(), each, height, width])?;
        let offset = b.convert(offset, Dtype::F32)?;
        let points = [batch.clone(), Dim::fixed(elements), Dim::fixed(2), Dim::fixed(count)];
        let offset = b.reshape(offset, &points)?;
        let mut matrices = Vec::new();
        for axis in 0..2_usize {
            let at = i64::from(axis == 1);
            let moved = b.slice(offset, 2, at.into(), 1.into(), 1)?;
            let moved = b.reshape(moved, &[batch.clone(), Dim::fixed(elements), Dim::fixed(count)])?;
            let start = self.starts(b, axis)?;
            let place = b.add(moved, start)?;
            let place = b.reshape(place, &[batch.clone(), Dim::fixed(elements * count), Dim::fixed(1)])?;
            matrices.push(beside(b, place, self.image[axis])?);
        }
        let mut seen = weighed(b, image, &matrices)?;
        if let Some(mask) = mask {
            let mask = b.convert(mask, Dtype::F32)?;
            let mask = b.reshape(mask, &[batch, Dim::fixed(1), Dim::fixed(elements * count)])?;
            seen = b.mul(seen, mask)?;
        }
        let (groups, own_group) = (Dim::fixed(self.groups), split(&own[1], self.groups)?);
        let apart =
            [own[0].clone(), groups.clone(), own_group.clone(), Dim::fixed(elements), Dim::fixed(count)];
        let seen = b.reshape(seen, &apart)?;
        let w = b.convert(w, Dtype::F32)?;
        let w = b.reshape(w, &[groups, split(&weights[0], self.groups)?, own_group, Dim::fixed(elements)])?;
        let y = b.einsum("ngckp,gmck->ngmp", &[seen, w])?;
        let [rows, columns] = self.places.map(Dim::fixed);
        let mut y = b.reshape(y, &[own[0].clone(), weights[0].clone(), rows, columns])?;
        if let Some(bias) = bias {
            let bias = b.convert(bias, Dtype::F32)?;
            let bias = b.reshape(bias, &[weights[0].clone(), Dim::fixed(1), Dim::fixed(1)])?;
            y = b.add(y, bias)?;
        }
        b.convert(y, dtype)
    }

    /// `[elements, places]`: where each element of each window lies along an axis, before it is moved.
    fn starts(&self, b: &mut Builder, axis: usize) -> BuildResult<ValueId> {
        let [rows, columns] = self.window;
        let [down, right] = self.places;
        let dims = [rows, columns, down, right].map(Dim::fixed);
        let (of_element, of_place) = (b.iota(Dtype::I32, &dims, axis)?, b.iota(Dtype::I32, &dims, axis + 2)?);
        let scaled = |b: &mut Builder, x: ValueId, by: i64| {
            let by = b.number(Dim::fixed(by), Dtype::I32)?;
            b.mul(x, by)
        };
        let element = scaled(b, of_element, self.dilations[axis])?;
        let place = scaled(b, of_place, self.strides[axis])?;
        let sum = b.add(element, place)?;
        let before = b.number(Dim::fixed(self.pads[axis]), Dtype::I32)?;
        let sum = b.sub(sum, before)?;
        let sum = b.convert(sum, Dtype::F32)?;
        b.reshape(sum, &[Dim::fixed(self.elements()), Dim::fixed(down * right)])
    }
}
