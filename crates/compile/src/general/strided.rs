//! Contractions that read their operands by strides, where a copy would only lay them in row-major order.
//!
//! A transfer walks any strides between rows, as long as the elements of a sum lie one after the other (vISA
//! book, tensor DMA). Whether tiles can be had is known when tilings are chosen; a graph one of whose
//! contractions has none then is planned with copies.

use super::kernel::{Kernels, Sizes, Strides, Work};
use super::unread::without_unread;
use super::view::View;

/// The same kernels without copies that only lay operands of contractions of so many products and more.
#[must_use]
pub(super) fn strided_operands(least_products: u64, mut all: Kernels) -> Kernels {
    for number in 0..all.kernels.len() {
        let Work::Contract { a, b, mut sizes } = all.kernels[number].work else { continue };
        let few = sizes.batch * sizes.rows * sizes.columns * sizes.summed < least_products;
        // Runs of which not all counts are masked where windows are fetched.
        if few || sizes.runs.is_some() {
            continue;
        }
        let mut values = [a, b];
        for (operand, value) in values.iter_mut().enumerate() {
            let Some((from, strides)) = source(&all, *value, sizes, operand) else { continue };
            (*value, sizes.strides[operand]) = (from, strides);
        }
        all.kernels[number].work = Work::Contract { a: values[0], b: values[1], sizes };
    }
    without_unread(all)
}

/// What a copy reads, and how the operand lies there.
fn source(all: &Kernels, value: usize, sizes: Sizes, operand: usize) -> Option<(usize, Strides)> {
    let copy = all.kernels.iter().find(|kernel| kernel.results == [value])?;
    let Work::Chain { inputs, lines, streams } = &copy.work else { return None };
    let ([view], [], [0]) = (&inputs[..], &lines[..], &streams[..]) else { return None };
    if all.values[view.value].packing != all.values[value].packing {
        return None;
    }
    let own = if operand == 0 { sizes.rows } else { sizes.columns };
    let View { first, axes, .. } = view.reshaped(&[sizes.batch, own, sizes.summed])?;
    let stride = |axis: usize| if axes[axis].0 == 1 { Some(0) } else { u64::try_from(axes[axis].1).ok() };
    let strides = Strides { first: u64::try_from(first).ok()?, batch: stride(0)?, own: stride(1)? };
    let granule = GRANULE_BYTES / sizes.operands.element_bytes();
    let steps = [strides.first, strides.batch, strides.own];
    let whole = steps.iter().all(|step| step.is_multiple_of(granule));
    // Positions that are read again and again would cost as many reads of HBM.
    let apart = (strides.batch > 0 || sizes.batch == 1) && (strides.own > 0 || own == 1);
    (whole && apart && axes[2].1 == 1).then_some((view.value, strides))
}

/// Bytes that transfers move at least, and at whose multiples they begin.
const GRANULE_BYTES: u64 = 8;
