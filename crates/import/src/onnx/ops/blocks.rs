//! Blocks of images put back: Col2Im and MaxUnpool.

use tilewright_graph::{BuildResult, Builder, Dim, Op, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

/// Elements of a block that is written out, at most.
const MOST_BLOCK: i64 = 1024;
/// Sizes, strides and pads are smaller.
const MOST_SIZE: i64 = 1 << 24;

/// Where the elements of a block stand along one axis.
struct BlockAxis {
    block: i64,
    stride: i64,
    dilation: i64,
    /// Elements before and behind that are cut off.
    pads: (i64, i64),
    /// Places that blocks have.
    places: i64,
    /// The image with its pads.
    padded: i64,
}

fn axes(call: &Call<'_, '_>) -> ImportResult<Vec<BlockAxis>> {
    let (image, block) = (call.numbers(1, "sizes")?.unwrap_or_default(), call.numbers(2, "blocks")?);
    let block = block.unwrap_or_default();
    let rank = image.len();
    let list = |name: &str, default: i64, count: usize| {
        call.ints(name).map_or_else(|| vec![default; count], <[i64]>::to_vec)
    };
    let (strides, dilations, pads) =
        (list("strides", 1, rank), list("dilations", 1, rank), list("pads", 0, 2 * rank));
    let from_one = [&image[..], &block, &strides, &dilations].concat();
    let are_sizes = from_one.iter().all(|number| (1..MOST_SIZE).contains(number))
        && pads.iter().all(|number| (0..MOST_SIZE).contains(number));
    let lengths = [block.len(), strides.len(), dilations.len()];
    if rank == 0 || lengths != [rank; 3] || pads.len() != 2 * rank || !are_sizes {
        return Err(call
            .refuse("blocks that do not fit the axes")
            .allowed("numbers from 1 below 2^24 for each axis, pads from 0"));
    }
    let count = block.iter().try_fold(1_i64, |count, size| count.checked_mul(*size));
    if count.is_none_or(|count| count > MOST_BLOCK) {
        let what = format!("blocks of {block:?}, whose elements are written out");
        return Err(call.refuse(what).allowed(format!("at most {MOST_BLOCK} elements")));
    }
    let axis = |at: usize| -> Option<BlockAxis> {
        let pads = (pads[at], pads[rank + at]);
        let padded = image[at] + pads.0 + pads.1;
        let rest = padded - (dilations[at] * (block[at] - 1) + 1);
        (rest >= 0).then(|| BlockAxis {
            block: block[at],
            stride: strides[at],
            dilation: dilations[at],
            pads,
            places: rest / strides[at] + 1,
            padded,
        })
    };
    let axes: Option<Vec<BlockAxis>> = (0..rank).map(axis).collect();
    axes.ok_or_else(|| call.refuse("blocks that are larger than the image").allowed("blocks that fit"))
}

/// The sum of all blocks, each at its place: for each element of a block, the elements of all places spread
/// out over the image.
pub(super) fn col2im(call: &mut Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let axes = axes(call)?;
    let dims = call.reader.b.dims(x).to_vec();
    let elements: i64 = axes.iter().map(|axis| axis.block).product();
    let count = Dim::fixed(elements);
    let places = axes.iter().try_fold(1_i64, |count, axis| count.checked_mul(axis.places));
    let channels = match &dims[..] {
        [_, rows, columns] if places.is_some_and(|places| columns.is(places)) => rows.divided(&count),
        _ => None,
    };
    let Some(channels) = channels else {
        let found: Vec<String> = dims.iter().map(|dim| dim.text(call.reader.b.axes())).collect();
        let what = format!("sizes [{}]", found.join(", "));
        let Some(places) = places else {
            return Err(call.refuse("blocks at more places than 64 bits count").allowed("smaller images"));
        };
        return Err(call.refuse(what).allowed(format!(
            "[batch, channels times {elements}, {places}], for so many elements and places of blocks"
        )));
    };
    Ok(vec![call.build(|b| {
        let mut apart = vec![dims[0].clone(), channels.clone(), count.clone()];
        apart.extend(axes.iter().map(|axis| Dim::fixed(axis.places)));
        let x = b.reshape(x, &apart)?;
        let mut sum: Option<ValueId> = None;
        for element in 0..elements {
            let part = b.slice(x, 2, element.into(), 1.into(), 1)?;
            apart[2] = Dim::fixed(1);
            let mut kept = apart.clone();
            kept.remove(2);
            let mut part = b.reshape(part, &kept)?;
            let mut rest = element;
            for (at, axis) in axes.iter().enumerate().rev() {
                part = axis.spread(b, part, at + 2, rest % axis.block)?;
                rest /= axis.block;
            }
            sum = Some(match sum {
                None => part,
                Some(sum) => b.add(sum, part)?,
            });
        }
        let mut sum = sum.unwrap_or(x);
        for (at, axis) in axes.iter().enumerate() {
            let kept = axis.padded - axis.pads.0 - axis.pads.1;
            sum = b.slice(sum, at + 2, axis.pads.0.into(), kept.into(), 1)?;
        }
        Ok(sum)
    })?])
}

impl BlockAxis {
    /// Elements of all places where those with this number in their block belong.
    fn spread(&self, b: &mut Builder, x: ValueId, axis: usize, number: i64) -> BuildResult<ValueId> {
        let zero = b.scalar(b.dtype(x), 0.0)?;
        let mut x = x;
        if self.stride > 1 {
            let mut dims = b.dims(x).to_vec();
            let alone = b.unsqueeze(x, axis + 1)?;
            let apart = b.pad(alone, axis + 1, 0.into(), (self.stride - 1).into(), zero)?;
            dims[axis] = Dim::fixed(self.places * self.stride);
            x = b.reshape(apart, &dims)?;
        }
        let reach = (self.places - 1) * self.stride + 1;
        let x = b.slice(x, axis, 0.into(), reach.into(), 1)?;
        let low = number * self.dilation;
        b.pad(x, axis, low.into(), (self.padded - low - reach).into(), zero)
    }
}

/// Elements where the maxima were, zeros elsewhere; sizes that are asked for add zeros behind.
pub(super) fn max_unpool(call: &mut Call<'_, '_>) -> Outputs {
    let (x, places) = (call.input(0)?, call.input(1)?);
    let kernel = call.ints("kernel_shape").map(<[i64]>::to_vec).unwrap_or_default();
    let rank = kernel.len();
    let strides = call.ints("strides").map_or_else(|| vec![1; rank], <[i64]>::to_vec);
    let pads = call.ints("pads").map_or_else(|| vec![0; 2 * rank], <[i64]>::to_vec);
    let own: Option<Vec<i64>> = call.reader.b.dims(x).iter().map(Dim::as_fixed).collect();
    let own = own.ok_or_else(|| call.refuse("a size that is open").allowed("fixed sizes"))?;
    let is_small =
        [&kernel[..], &strides, &pads].concat().iter().all(|number| (0..MOST_SIZE).contains(number));
    if own.len() != rank + 2 || strides.len() != rank || pads.len() != 2 * rank || !is_small {
        return Err(call.refuse("windows that do not fit the axes").allowed("a number for each axis"));
    }
    let mut inferred = own.clone();
    for axis in 0..rank {
        let size = (own[axis + 2] - 1).checked_mul(strides[axis]);
        let size = size.and_then(|size| size.checked_add(kernel[axis] - pads[axis] - pads[rank + axis]));
        inferred[axis + 2] = size.ok_or_else(|| {
            call.refuse(format!("{} windows, {} apart", own[axis + 2], strides[axis]))
                .allowed("sizes of 64 bits")
        })?;
    }
    let wanted = call.numbers(2, "sizes")?.unwrap_or_else(|| inferred.clone());
    let fits = wanted.len() == inferred.len() && wanted.iter().zip(&inferred).all(|(x, y)| x >= y);
    if !fits || inferred.iter().any(|size| *size < 0) {
        return Err(call.refuse(format!("sizes {wanted:?}")).allowed(format!("{inferred:?}, or more")));
    }
    Ok(vec![call.build(|b| {
        let fixed = |sizes: &[i64]| sizes.iter().map(|size| Dim::fixed(*size)).collect::<Vec<Dim>>();
        let many = || tilewright_graph::infer::shape_error("too many elements", "64 bits");
        let (own, inferred_dims) = (fixed(&own), fixed(&inferred));
        let count = [Dim::product(&own).ok_or_else(many)?];
        let zero = b.scalar(b.dtype(x), 0.0)?;
        let nothing = b.broadcast(zero, &[Dim::product(&inferred_dims).ok_or_else(many)?])?;
        let (x, places) = (b.reshape(x, &count)?, b.reshape(places, &count)?);
        let y = b.emit(Op::Scatter { fold: None }, &[nothing, places, x])?;
        let mut y = b.reshape(y, &inferred_dims)?;
        for (axis, (wanted, size)) in wanted.iter().zip(&inferred).enumerate() {
            y = b.pad(y, axis, 0.into(), (wanted - size).into(), zero)?;
        }
        Ok(y)
    })?])
}
