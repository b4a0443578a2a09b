//! How inputs of a graph lie in HBM: one that only contractions read, whole or through windows, is written by
//! the host as they take it, so that no kernel converts it.

use std::collections::BTreeMap;

use super::early::{is_even, narrowing};
use super::kernel::{Kernels, Origin, Packing, Value, Work};
use super::plan::readers;
use super::view::View;

/// The same kernels without conversions of inputs that nothing else reads.
#[must_use]
pub(super) fn entry_layouts(mut all: Kernels) -> Kernels {
    let readers = readers(&all);
    let mut inputs_of_halves = BTreeMap::new();
    for input in all.inputs.clone() {
        let Some(conversion) = conversion(&all, &readers, input) else { continue };
        let Some(half) = all.kernels[conversion].results.first().copied() else { continue };
        all.values[input].packing = all.values[half].packing;
        inputs_of_halves.insert(half, input);
    }
    for input in all.inputs.clone() {
        if let Some(packing) = narrow_for_all(&all, &readers, input) {
            all.values[input].packing = packing;
        }
    }
    if inputs_of_halves.is_empty() {
        return all;
    }
    let is_half = |value: &usize| inputs_of_halves.contains_key(value);
    all.kernels.retain(|kernel| !kernel.results.first().is_some_and(is_half));
    for kernel in &mut all.kernels {
        rename_reads(&mut kernel.work, &|value| inputs_of_halves.get(&value).copied().unwrap_or(value));
    }
    all
}

/// The only kernel that reads an input, if it does nothing but convert it.
fn conversion(all: &Kernels, readers: &[Vec<usize>], input: usize) -> Option<usize> {
    if all.values[input].origin != Origin::Input {
        return None;
    }
    let [number] = readers[input][..] else { return None };
    // The graph's results are read behind the last kernel.
    let kernel = all.kernels.get(number)?;
    let converts = matches!(&kernel.work, Work::Chain { inputs, lines, streams }
        if lines.is_empty() && *streams == [0] && inputs.len() == 1 && all.is_whole(&inputs[0]));
    let half = kernel.results.first().is_some_and(|result| all.values[*result].packing.is_narrow());
    (converts && half).then_some(number)
}

/// How all kernels that read an input convert it, through windows of whole granules, if they do nothing else.
fn narrow_for_all(all: &Kernels, readers: &[Vec<usize>], input: usize) -> Option<Packing> {
    let Value { origin, packing, .. } = &all.values[input];
    if *origin != Origin::Input || packing.is_narrow() {
        return None;
    }
    let views = readers[input].iter().map(|reader| narrowing(all, all.kernels.get(*reader)?));
    let views = views.collect::<Option<Vec<(View, Packing)>>>()?;
    let to = views.first()?.1;
    let alike = |(view, own): &(View, Packing)| *own == to && is_even(&view.axes, view.first, to);
    views.iter().all(alike).then_some(to)
}

/// Has a kernel read another value.
pub(super) fn reads_instead(work: &mut Work, old: usize, new: usize) {
    rename_reads(work, &|value| if value == old { new } else { value });
}

/// Other numbers for the values that a kernel reads.
fn rename_reads(work: &mut Work, to: &dyn Fn(usize) -> usize) {
    let rename = |value: &mut usize| *value = to(*value);
    match work {
        Work::Move(parts) => parts.iter_mut().for_each(|part| rename(&mut part.from)),
        Work::Gather { from, table, .. } => [from, table].into_iter().for_each(rename),
        Work::Scatter { base, table, rows, .. } => [base, table, rows].into_iter().for_each(rename),
        Work::Chain { inputs, .. } => inputs.iter_mut().for_each(|input| rename(&mut input.value)),
        Work::Contract { a, b, .. } => [a, b].into_iter().for_each(rename),
        Work::Reduce { from, .. } => rename(from),
    }
}
