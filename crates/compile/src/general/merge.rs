//! Chains that read one another become one, so that what is between them never leaves data memory; what a
//! chain behind a contraction needs besides comes before the contraction, so that the chain may follow it at
//! once.

use std::collections::BTreeSet;

use super::kernel::{Kernel, Kernels, Work};
use super::view::View;
use super::words::{Line, Other, Step};

/// The same kernels with neighbouring chains joined, and without results that nobody reads.
#[must_use]
pub(super) fn merged(mut all: Kernels) -> Kernels {
    while let Some((first, second, at)) = pair(&all) {
        let Some(joined) = joined(&all, first, second) else { break };
        all.kernels[at] = joined;
        all.kernels.remove(if at == first { second } else { first });
    }
    unread(&mut all);
    all.kernels.iter_mut().for_each(without_idle_steps);
    all
}

/// The same kernels in an order in which nothing that a chain needs comes between it and the last contraction
/// that it reads, where that is possible.
#[must_use]
pub(super) fn close(mut all: Kernels) -> Kernels {
    for chain in 0..all.kernels.len() {
        let Work::Chain { inputs, .. } = &all.kernels[chain].work else { continue };
        let makers = inputs.iter().filter_map(|input| maker(&all, input.value));
        let last = makers.filter(|at| matches!(all.kernels[*at].work, Work::Contract { .. })).max();
        let Some(contraction) = last else { continue };
        // What depends on the contraction stays behind it.
        let mut made: BTreeSet<usize> = all.kernels[contraction].results.iter().copied().collect();
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        for kernel in &all.kernels[contraction + 1..chain] {
            if kernel.reads().iter().any(|value| made.contains(value)) {
                made.extend(kernel.results.iter().copied());
                behind.push(kernel.clone());
            } else {
                before.push(kernel.clone());
            }
        }
        before.push(all.kernels[contraction].clone());
        all.kernels.splice(contraction..chain, before.into_iter().chain(behind));
    }
    all
}

/// The kernel that makes a value.
fn maker(all: &Kernels, value: usize) -> Option<usize> {
    all.kernels.iter().position(|kernel| kernel.results.contains(&value))
}

/// Two chains to join, and whose place the joined one takes.
fn pair(all: &Kernels) -> Option<(usize, usize, usize)> {
    for (second, kernel) in all.kernels.iter().enumerate() {
        let Work::Chain { inputs, .. } = &kernel.work else { continue };
        for first in inputs.iter().filter_map(|input| maker(all, input.value)) {
            if joined(all, first, second).is_none() {
                continue;
            }
            let made = &all.kernels[first].results;
            let early = inputs
                .iter()
                .map(|input| input.value)
                .all(|value| made.contains(&value) || maker(all, value).is_none_or(|maker| maker < first));
            if early {
                return Some((first, second, first));
            }
            let reads = |kernel: &Kernel| kernel.reads().iter().any(|value| made.contains(value));
            if !all.kernels[first + 1..second].iter().any(reads) {
                return Some((first, second, second));
            }
        }
    }
    None
}

/// Sizes that both have as groups of neighbouring axes, if there are such.
pub(super) fn refined(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let suffixes = |dims: &[u64]| -> BTreeSet<u64> {
        let products = dims.iter().rev().scan(1_u64, |all, dim| {
            *all = all.checked_mul(*dim)?;
            Some(*all)
        });
        products.chain([1]).collect()
    };
    let (of_a, of_b) = (suffixes(a), suffixes(b));
    if of_a.last() != of_b.last() {
        return None;
    }
    let all: Vec<u64> = of_a.union(&of_b).copied().collect();
    let steps = all.windows(2).map(|pair| pair[1].is_multiple_of(pair[0]).then(|| pair[1] / pair[0]));
    steps.rev().collect()
}

/// One chain that does what two did, if the second reads results of the first as they are.
fn joined(all: &Kernels, first: usize, second: usize) -> Option<Kernel> {
    let (first, second) = (&all.kernels[first], &all.kernels[second]);
    let (
        Work::Chain { inputs: a, lines: lines_a, streams: out_a },
        Work::Chain { inputs: b, lines: lines_b, streams: out_b },
    ) = (&first.work, &second.work)
    else {
        return None;
    };
    let made = |view: &View| first.results.iter().position(|made| *made == view.value);
    if b.iter().any(|view| {
        made(view).is_some_and(|at| !all.is_whole(view) || all.values[first.results[at]].packing.is_narrow())
    }) {
        return None;
    }
    let dims = refined(&a.first()?.dims(), &b.first()?.dims())?;
    let again = |views: &[View]| views.iter().map(|view| view.reshaped(&dims)).collect::<Option<Vec<View>>>();
    let (a, b) = (again(a)?, again(b)?);
    let mut inputs = a.clone();
    inputs.extend(b.iter().filter(|view| !a.contains(view) && made(view).is_none()).cloned());
    let inputs = inputs;
    let place = |view: &View| inputs.iter().position(|known| known == view);
    let of_a = |stream: usize| match a.get(stream) {
        Some(view) => place(view),
        None => Some(inputs.len() + stream - a.len()),
    };
    let of_b = |stream: usize| match b.get(stream) {
        Some(view) => match made(view) {
            Some(at) => of_a(*out_a.get(at)?),
            None => place(view),
        },
        None => Some(inputs.len() + lines_a.len() + stream - b.len()),
    };
    let lines = lines_a.iter().map(|line| renamed(line, &of_a));
    let lines =
        lines.chain(lines_b.iter().map(|line| renamed(line, &of_b))).collect::<Option<Vec<Line>>>()?;
    let streams = out_a.iter().map(|s| of_a(*s)).chain(out_b.iter().map(|s| of_b(*s)));
    let streams = streams.collect::<Option<Vec<usize>>>()?;
    let results = [&first.results[..], &second.results].concat();
    Some(Kernel { work: Work::Chain { inputs: inputs.clone(), lines, streams }, results })
}

fn renamed(line: &Line, to: &dyn Fn(usize) -> Option<usize>) -> Option<Line> {
    let step = match &line.step {
        Step::With { arith, other: Other::Stream(stream), reversed } => {
            Step::With { arith: *arith, other: Other::Stream(to(*stream)?), reversed: *reversed }
        }
        step => step.clone(),
    };
    Some(Line { input: to(line.input)?, step })
}

/// Takes away steps that no result of a chain needs.
fn without_idle_steps(kernel: &mut Kernel) {
    let Work::Chain { inputs, lines, streams } = &mut kernel.work else { return };
    let first = inputs.len();
    let mut needed = vec![false; first + lines.len()];
    streams.iter().for_each(|stream| needed[*stream] = true);
    for (at, line) in lines.iter().enumerate().rev() {
        if !needed[first + at] {
            continue;
        }
        needed[line.input] = true;
        if let Step::With { other: Other::Stream(other), .. } = line.step {
            needed[other] = true;
        }
    }
    let mut next = first;
    let mut to: Vec<usize> = (0..first).collect();
    for kept in &needed[first..] {
        to.push(next);
        next += usize::from(*kept);
    }
    let kept = lines.iter().zip(&needed[first..]).filter(|(_, needed)| **needed);
    let kept = kept.map(|(line, _)| renamed(line, &|stream| to.get(stream).copied()));
    if let Some(kept) = kept.collect::<Option<Vec<Line>>>() {
        *lines = kept;
        streams.iter_mut().for_each(|stream| *stream = to[*stream]);
    }
}

/// Takes away results of chains that nobody reads.
fn unread(all: &mut Kernels) {
    let read: BTreeSet<usize> = all.kernels.iter().flat_map(Kernel::reads).collect();
    let read: BTreeSet<usize> =
        read.into_iter().chain(all.results.iter().map(|result| result.value)).collect();
    for kernel in &mut all.kernels {
        let Work::Chain { streams, .. } = &mut kernel.work else { continue };
        let keep: Vec<bool> = kernel.results.iter().map(|value| read.contains(value)).collect();
        let mut flags = keep.iter();
        streams.retain(|_| flags.next().copied().unwrap_or(true));
        let mut flags = keep.iter();
        kernel.results.retain(|_| flags.next().copied().unwrap_or(true));
    }
    all.kernels.retain(|kernel| kernel.results.iter().any(|value| read.contains(value)));
}
