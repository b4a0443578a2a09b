//! How inputs of a graph lie in HBM: one that only contractions read is written by the host as they take
//! it, so that no kernel converts it.

use super::kernel::{Kernel, Kernels, Origin, Work};

/// The same kernels without conversions of inputs that nothing else reads.
#[must_use]
pub(super) fn entry_layouts(mut all: Kernels) -> Kernels {
    for input in all.inputs.clone() {
        let Some(conversion) = conversion(&all, input) else { continue };
        let Some(half) = all.kernels[conversion].results.first().copied() else { continue };
        all.kernels.remove(conversion);
        all.values[input].packing = all.values[half].packing;
        for kernel in &mut all.kernels {
            reads_instead(&mut kernel.work, half, input);
        }
    }
    all
}

/// The only kernel that reads an input, if it does nothing but convert it.
fn conversion(all: &Kernels, input: usize) -> Option<usize> {
    let value = &all.values[input];
    if value.origin != Origin::Input || all.results.iter().any(|result| result.value == input) {
        return None;
    }
    let reads = |kernel: &Kernel| kernel.reads().contains(&input);
    let mut readers = all.kernels.iter().enumerate().filter(|(_, kernel)| reads(kernel));
    let (number, kernel) = readers.next()?;
    let converts = matches!(&kernel.work, Work::Chain { inputs, lines, streams }
        if lines.is_empty() && *streams == [0] && inputs.len() == 1 && all.is_whole(&inputs[0]));
    let half = kernel.results.first().is_some_and(|result| all.values[*result].packing.is_narrow());
    (readers.next().is_none() && converts && half).then_some(number)
}

/// Has a kernel read another value.
pub(super) fn reads_instead(work: &mut Work, old: usize, new: usize) {
    let rename = |value: &mut usize| {
        if *value == old {
            *value = new;
        }
    };
    match work {
        Work::Move(parts) => parts.iter_mut().for_each(|part| rename(&mut part.from)),
        Work::Gather { from, table, .. } => [from, table].into_iter().for_each(rename),
        Work::Scatter { base, table, rows, .. } => [base, table, rows].into_iter().for_each(rename),
        Work::Chain { inputs, .. } => inputs.iter_mut().for_each(|input| rename(&mut input.value)),
        Work::Contract { a, b, .. } => [a, b].into_iter().for_each(rename),
        Work::Reduce { from, .. } => rename(from),
    }
}
