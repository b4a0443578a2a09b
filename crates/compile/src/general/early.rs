//! Values that contractions read through padding and windows are narrow before they are padded: moves carry
//! fewer bytes, and windows are looks at elements that contractions can take as they lie.

use tilewright_num::RuleSet;

use super::kernel::{Kernel, Kernels, Origin, Packing, Part, Value, Work};
use super::plan::readers;
use super::view::{View, joined};

/// Bytes that transfers move whole.
const GRANULE_BYTES: u64 = 8;

/// The same kernels with conversions before moves and windows instead of behind them.
#[must_use]
pub(super) fn narrowed_first(mut all: Kernels) -> Kernels {
    // What a conversion is moved before may be a move of another.
    while let Some((value, packing)) = next(&all) {
        narrow(&mut all, value, packing);
    }
    all
}

/// What a kernel narrows a value to, if that is all that it does.
pub(super) fn narrowing(all: &Kernels, kernel: &Kernel) -> Option<(View, Packing)> {
    let (Work::Chain { inputs, lines, streams }, [to]) = (&kernel.work, &kernel.results[..]) else {
        return None;
    };
    let ([view], [], [0]) = (&inputs[..], &lines[..], &streams[..]) else { return None };
    let packing = all.values[*to].packing;
    (packing.is_narrow() && !all.values[view.value].packing.is_narrow()).then(|| (view.clone(), packing))
}

/// A value that all its readers narrow alike, and that can be narrow before: it was moved, or is read through
/// windows.
fn next(all: &Kernels) -> Option<(usize, Packing)> {
    let uses = readers(all);
    let mut makers = vec![None; all.values.len()];
    for kernel in all.kernels.iter().filter(|kernel| kernel.results.len() == 1) {
        makers[kernel.results[0]] = Some(kernel);
    }
    (0..all.values.len()).find_map(|value| {
        let mut views = Vec::new();
        for reader in &uses[value] {
            views.push(narrowing(all, all.kernels.get(*reader)?)?);
        }
        let packing = views.first()?.1;
        let alike =
            views.iter().all(|(view, own)| *own == packing && is_even(&view.axes, view.first, packing));
        let fits = match makers[value].map(|kernel| &kernel.work) {
            Some(Work::Move(parts)) => parts.iter().all(|part| is_even_part(all, part, packing)),
            Some(Work::Chain { .. } | Work::Contract { .. }) => {
                views.iter().any(|(view, _)| !all.is_whole(view))
            }
            _ => false,
        };
        (alike && fits).then_some((value, packing))
    })
}

/// Whether elements are read in runs of whole granules, if they are narrow.
pub(super) fn is_even(axes: &[(u64, i64)], first: i64, packing: Packing) -> bool {
    let even = |elements: u64| (elements * packing.element_bytes()).is_multiple_of(GRANULE_BYTES);
    let axes = joined(axes);
    let Some(((run, 1), outer)) = axes.split_last() else { return false };
    even(*run) && even(first.unsigned_abs()) && outer.iter().all(|(_, stride)| even(stride.unsigned_abs()))
}

fn is_even_part(all: &Kernels, part: &Part, packing: Packing) -> bool {
    let side = |of: &dyn Fn(&(u64, i64, i64)) -> i64| {
        part.loops.iter().map(|row| (row.0, of(row))).collect::<Vec<(u64, i64)>>()
    };
    let words = !all.values[part.from].packing.is_narrow();
    words
        && is_even(&side(&|row| row.1), part.from_first, packing)
        && is_even(&side(&|row| row.2), part.to_first, packing)
}

/// Makes a value narrow: what moves it moves narrow elements, or a conversion follows what makes it.
fn narrow(all: &mut Kernels, value: usize, packing: Packing) {
    let Some(maker) = all.kernels.iter().position(|kernel| kernel.results[..] == [value]) else { return };
    match all.kernels[maker].work.clone() {
        Work::Move(mut parts) => {
            let mut before = Vec::new();
            for part in &mut parts {
                part.from = known(all, part.from, packing, maker)
                    .unwrap_or_else(|| converted(all, part.from, packing, &mut before));
            }
            all.kernels[maker].work = Work::Move(parts);
            all.values[value].packing = packing;
            if let Origin::Filled(word) = &mut all.values[value].origin {
                *word = packing.narrowed(&RuleSet::TCP, *word);
            }
            all.kernels.splice(maker..maker, before);
            without_copies(all, value);
        }
        _ => {
            let mut behind = Vec::new();
            let half = converted(all, value, packing, &mut behind);
            for kernel in &mut all.kernels {
                let Work::Chain { inputs, .. } = &mut kernel.work else { continue };
                inputs.iter_mut().filter(|view| view.value == value).for_each(|view| view.value = half);
            }
            all.kernels.splice(maker + 1..maker + 1, behind);
            without_copies(all, half);
        }
    }
}

/// The narrow value that a kernel before another makes of all of a value.
fn known(all: &Kernels, value: usize, packing: Packing, before: usize) -> Option<usize> {
    all.kernels[..before].iter().find_map(|kernel| {
        let (view, own) = narrowing(all, kernel)?;
        (view.value == value && own == packing && all.is_whole(&view)).then(|| kernel.results[0])
    })
}

/// A value as it is narrow: a constant that the host narrows, or the result of a conversion.
fn converted(all: &mut Kernels, value: usize, packing: Packing, made: &mut Vec<Kernel>) -> usize {
    let Value { name, dims, dtype, origin, .. } = all.values[value].clone();
    let name = format!("{name}.{}", packing.name());
    let origin = match origin {
        Origin::Constant(words) => {
            Origin::Constant(words.iter().map(|word| packing.narrowed(&RuleSet::TCP, *word)).collect())
        }
        _ => Origin::Kernel,
    };
    let number = all.values.len();
    if origin == Origin::Kernel {
        let inputs = vec![View::whole(value, &dims)];
        let work = Work::Chain { inputs, lines: Vec::new(), streams: vec![0] };
        made.push(Kernel { work, results: vec![number] });
    }
    all.values.push(Value { name, dims, dtype, packing, origin, host: None });
    number
}

/// Takes away chains that now only copy a value.
fn without_copies(all: &mut Kernels, value: usize) {
    let is_copy = |all: &Kernels, kernel: &Kernel| {
        let (Work::Chain { inputs, lines, streams }, [to]) = (&kernel.work, &kernel.results[..]) else {
            return None;
        };
        let ([view], [], [0]) = (&inputs[..], &lines[..], &streams[..]) else { return None };
        let same = view.value == value && all.is_whole(view);
        (same && all.values[*to].packing == all.values[value].packing).then_some(*to)
    };
    while let Some((at, copy)) =
        all.kernels.iter().enumerate().find_map(|(at, kernel)| Some((at, is_copy(all, kernel)?)))
    {
        if all.results.iter().any(|result| result.value == copy) {
            return;
        }
        all.kernels.remove(at);
        all.kernels.iter_mut().for_each(|kernel| super::entry::reads_instead(&mut kernel.work, copy, value));
    }
}
