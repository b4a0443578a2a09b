//! What the host does itself while it writes inputs and reads results: it puts an input inside of its
//! padding, leaves out padding of a result, and takes its elements in the order of its axes. No kernel moves
//! elements for that.

use super::kernel::{HostBox, Kernel, Kernels, Origin, Part, Value, Work};
use super::plan::readers;
use super::view::{View, signed, strides};

/// The same kernels without those that pad an input which nothing else reads, or put it in another order.
#[must_use]
pub(super) fn inputs_by_host(all: Kernels) -> Kernels {
    ordered_inputs(padded_inputs(all))
}

fn padded_inputs(mut all: Kernels) -> Kernels {
    for at in 0..all.inputs.len() {
        let input = all.inputs[at];
        let readers = readers(&all);
        let [reader] = readers[input][..] else { continue };
        let Some((host, padded)) = all.kernels.get(reader).and_then(|kernel| padding(&all, kernel, input))
        else {
            continue;
        };
        let name = std::mem::take(&mut all.values[input].name);
        let Value { dtype, .. } = all.values[input];
        let value = &mut all.values[padded];
        all.inputs[at] = padded;
        (value.name, value.dtype, value.origin, value.host) = (name, dtype, Origin::Input, Some(host));
        all.kernels.remove(reader);
    }
    all
}

/// Where a kernel puts the elements of an input, if it does nothing else, and the value that it puts them in,
/// which is zero elsewhere.
fn padding(all: &Kernels, kernel: &Kernel, input: usize) -> Option<(HostBox, usize)> {
    let (Work::Move(parts), [padded]) = (&kernel.work, &kernel.results[..]) else { return None };
    let ([part], Origin::Filled(0)) = (&parts[..], &all.values[*padded].origin) else { return None };
    let (from, to) = (&all.values[input], &all.values[*padded]);
    let count = part.loops.iter().map(|(size, ..)| size).product::<u64>();
    let begins = from.host.as_ref().is_none_or(|host| host.first == 0);
    let is_plain = from.origin == Origin::Input && begins && from.packing == to.packing;
    let is_part = all.values.iter().any(|value| is_part_of(value, input));
    let is_result = all.results.iter().any(|result| result.value == *padded);
    if !is_plain || is_part || is_result || part.from_first != 0 || count != from.count() {
        return None;
    }
    let place = |element: i64| place_of(part, element);
    let dense = || from.dims.iter().copied().zip(strides(&from.dims)).collect();
    let given = from.host.as_ref().map_or_else(dense, |host| {
        host.axes.iter().map(|(size, stride)| (*size, signed(*stride))).collect::<Vec<(u64, i64)>>()
    });
    let steps = given.iter().map(|(size, stride)| {
        let (size, stride) = (size, *stride);
        let step = if *size == 1 { 0 } else { place(stride)? };
        let last = (signed(*size) - 1) * stride;
        // A step of an axis goes as far everywhere.
        (place(last)? == (signed(*size) - 1) * step).then_some(())?;
        Some((*size, u64::try_from(step).ok()?))
    });
    let axes = steps.collect::<Option<Vec<(u64, u64)>>>()?;
    Some((HostBox { first: u64::try_from(part.to_first).ok()?, axes }, *padded))
}

/// The same kernels without those that only put an input which nothing else reads in another order, or take
/// it in narrower elements besides: filters of a convolution, with what is summed at each position together.
fn ordered_inputs(mut all: Kernels) -> Kernels {
    for at in 0..all.inputs.len() {
        let input = all.inputs[at];
        let [reader] = readers(&all)[input][..] else { continue };
        let Some((host, ordered)) = all.kernels.get(reader).and_then(|kernel| order(&all, kernel, input))
        else {
            continue;
        };
        let name = std::mem::take(&mut all.values[input].name);
        let dtype = all.values[input].dtype;
        let value = &mut all.values[ordered];
        all.inputs[at] = ordered;
        (value.name, value.dtype, value.origin, value.host) = (name, dtype, Origin::Input, Some(host));
        all.kernels.remove(reader);
    }
    all
}

/// Where a kernel puts the elements of an input, if it takes all of them in another order and does nothing
/// else, and the value that it gives.
fn order(all: &Kernels, kernel: &Kernel, input: usize) -> Option<(HostBox, usize)> {
    let (Work::Chain { inputs, lines, streams }, [ordered]) = (&kernel.work, &kernel.results[..]) else {
        return None;
    };
    let ([view], true) = (&inputs[..], lines.is_empty() && *streams == [0]) else { return None };
    let (from, to) = (&all.values[input], &all.values[*ordered]);
    let begins = view.first == 0 && from.host.as_ref().is_none_or(|host| host.first == 0);
    let is_result = all.results.iter().any(|result| result.value == *ordered);
    let is_part = all.values.iter().any(|value| is_part_of(value, input));
    // What is narrow and read as words is rounded, which the host would not do.
    let widens = from.packing.is_narrow() && from.packing != to.packing;
    if from.origin != Origin::Input
        || to.origin != Origin::Kernel
        || !begins
        || is_result
        || is_part
        || widens
    {
        return None;
    }
    let sizes: Vec<u64> = view.axes.iter().map(|axis| axis.0).collect();
    let loops = view.axes.iter().zip(strides(&sizes)).filter(|((size, _), _)| *size > 1);
    let loops =
        loops.map(|((size, step), to)| Some((*size, u64::try_from(*step).ok()?, u64::try_from(to).ok()?)));
    let mut loops = loops.collect::<Option<Vec<(u64, u64, u64)>>>()?;
    loops.sort_by_key(|(_, step, _)| *step);
    // Every element once: each loop begins where the one inside of it ends.
    let dense = loops.iter().try_fold(1, |end, (size, step, _)| (end == *step).then_some(end * size));
    if dense != Some(from.count()) {
        return None;
    }
    let whole =
        || from.dims.iter().copied().zip(strides(&from.dims)).map(|(size, step)| (size, step.unsigned_abs()));
    let given = from.host.as_ref().map_or_else(|| whole().collect(), |host| host.axes.clone());
    let axes = given.iter().map(|axis| Some((axis.0, step_along(&loops, *axis)?)));
    Some((HostBox { first: 0, axes: axes.collect::<Option<_>>()? }, *ordered))
}

/// How far one step along an axis of the source goes in the target, if every step goes as far; loops go from
/// the source to the target, innermost of the source first.
fn step_along(loops: &[(u64, u64, u64)], (size, stride): (u64, u64)) -> Option<u64> {
    if size == 1 {
        return Some(0);
    }
    let (mut first, mut next, end) = (None, (stride, 0), stride * size);
    for (count, from, to) in loops {
        let (low, high) = ((*from).max(stride), (from * count).min(end));
        if low >= high {
            continue;
        }
        let step = to * (low / from);
        let follows = first.is_none() || next.1 == step;
        if low != next.0 || low % from != 0 || high % low != 0 || !follows {
            return None;
        }
        first.get_or_insert(step);
        next = (high, step * (high / low));
    }
    first.filter(|_| next.0 == end)
}

fn is_part_of(value: &Value, input: usize) -> bool {
    matches!(&value.origin, Origin::Parts(parts) if parts.contains(&input))
}

/// How far behind the first an element of the source goes; `None` if loops do not reach it.
fn place_of(part: &Part, element: i64) -> Option<i64> {
    let mut loops: Vec<(u64, i64, i64)> = part.loops.clone();
    loops.sort_by_key(|(_, from, _)| std::cmp::Reverse(*from));
    let (mut left, mut place) = (element, 0);
    for (size, from, to) in loops {
        if from <= 0 {
            return None;
        }
        let steps = (left / from).min(signed(size) - 1);
        (left, place) = (left - steps * from, place + steps * to);
    }
    (left == 0).then_some(place)
}

/// The same kernels without those that make a result of part of another value, or of all of it in another
/// order.
#[must_use]
pub(super) fn cropped_results(mut all: Kernels) -> Kernels {
    for at in 0..all.results.len() {
        let value = all.results[at].value;
        let readers = readers(&all);
        let alone = readers[value] == [all.kernels.len()];
        let maker = all.kernels.iter().position(|kernel| kernel.results == [value]);
        let Some((source, host)) =
            maker.filter(|_| alone).and_then(|maker| crop(&all, &all.kernels[maker].work, value))
        else {
            continue;
        };
        all.results[at].value = source;
        all.values[source].host = Some(host);
        if let Some(maker) = maker {
            all.kernels.remove(maker);
        }
    }
    all
}

/// The value of which another is a part, and where its elements lie there.
fn crop(all: &Kernels, work: &Work, value: usize) -> Option<(usize, HostBox)> {
    let (source, first, axes) = match work {
        Work::Chain { inputs, lines, streams } if lines.is_empty() && *streams == [0] => {
            let [View { value, first, axes }] = &inputs[..] else { return None };
            (*value, *first, axes.clone())
        }
        Work::Move(parts) => {
            let [part] = &parts[..] else { return None };
            let sizes: Vec<u64> = part.loops.iter().map(|row| row.0).collect();
            let dense = part.to_first == 0 && part.loops.iter().map(|row| row.2).eq(strides(&sizes));
            let axes = part.loops.iter().map(|(size, from, _)| (*size, *from));
            dense.then(|| (part.from, part.from_first, axes.collect()))?
        }
        _ => return None,
    };
    let (from, to) = (&all.values[source], &all.values[value]);
    let given = all.results.iter().any(|result| result.value == source);
    let is_made = from.origin.is_made() && to.origin == Origin::Kernel && from.packing == to.packing;
    let axes: Vec<(u64, i64)> = axes.into_iter().filter(|axis| axis.0 > 1).collect();
    let count = axes.iter().map(|axis| axis.0).product::<u64>();
    let mut lying = axes.clone();
    lying.sort_by_key(|axis| std::cmp::Reverse(axis.1));
    let lies = |(one, next): (&(u64, i64), &(u64, i64))| one.1 >= next.1 * signed(next.0);
    let once = lying.iter().zip(lying.iter().skip(1)).all(lies) && lying.last().is_none_or(|axis| axis.1 > 0);
    // The host takes elements from one place: what it leaves out of a value stays to be left out.
    if given || !is_made || !once || count != to.count() || to.host.is_some() {
        return None;
    }
    let axes = axes.into_iter().map(|(size, step)| Some((size, u64::try_from(step).ok()?)));
    let host = HostBox { first: u64::try_from(first).ok()?, axes: axes.collect::<Option<_>>()? };
    Some((source, host))
}
