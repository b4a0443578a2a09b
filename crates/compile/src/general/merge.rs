//! Chains that read one another become one, so that what is between them never leaves data memory; what a
//! chain behind a contraction needs besides comes before the contraction, so that the chain may follow it at
//! once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::{OrBroken, broken};

use super::depthwise::Taps;
use super::kernel::{Kernel, Kernels, Work};
use super::view::View;
use super::words::{Line, Other, Step};

/// The same kernels with neighbouring chains joined, and without results that nobody reads.
#[must_use]
pub(super) fn merged(all: Kernels) -> Kernels {
    let mut all = MergedKernels::new(all).joined();
    unread(&mut all);
    all.kernels.iter_mut().for_each(without_idle_steps);
    all
}

/// Kernels while chains are joined: each keeps its number, and those that became a part of others are gone.
struct MergedKernels {
    all: Kernels,
    /// Numbers of kernels that are there.
    left: BTreeSet<usize>,
    /// The kernel that makes each value.
    makers: Vec<Option<usize>>,
    /// Kernels that read each value.
    readers: Vec<BTreeSet<usize>>,
}

impl MergedKernels {
    fn new(all: Kernels) -> MergedKernels {
        let (mut makers, mut readers) =
            (vec![None; all.values.len()], vec![BTreeSet::new(); all.values.len()]);
        for (number, kernel) in all.kernels.iter().enumerate() {
            for value in &kernel.results {
                makers[*value].get_or_insert(number);
            }
            kernel.reads().into_iter().for_each(|value| _ = readers[value].insert(number));
        }
        MergedKernels { left: (0..all.kernels.len()).collect(), all, makers, readers }
    }

    /// All chains joined that can be, from the first on.
    fn joined(mut self) -> Kernels {
        let mut next = 0;
        while let Some(second) = self.left.range(next..).next().copied() {
            match self.pair(second) {
                None => next = second + 1,
                // Nothing before the first of both sees a difference.
                Some((first, at)) => {
                    self.join(first, second, at);
                    next = first;
                }
            }
        }
        let MergedKernels { mut all, left, .. } = self;
        let numbered = std::mem::take(&mut all.kernels).into_iter().enumerate();
        all.kernels =
            numbered.filter(|(number, _)| left.contains(number)).map(|(_, kernel)| kernel).collect();
        all
    }

    /// A chain to join a chain with, and whose place the joined one takes.
    fn pair(&self, second: usize) -> Option<(usize, usize)> {
        let Work::Chain { inputs, .. } = &self.all.kernels[second].work else { return None };
        for first in inputs.iter().filter_map(|input| self.makers[input.value]) {
            if !joins(&self.all, first, second) {
                continue;
            }
            let mut makers = inputs.iter().filter_map(|input| self.makers[input.value]);
            if makers.all(|maker| maker <= first) {
                return Some((first, first));
            }
            let made = &self.all.kernels[first].results;
            if made.iter().all(|value| self.readers[*value].range(first + 1..second).next().is_none()) {
                return Some((first, second));
            }
        }
        None
    }

    fn join(&mut self, first: usize, second: usize, at: usize) {
        for number in [first, second] {
            for value in self.all.kernels[number].reads() {
                self.readers[value].remove(&number);
            }
        }
        let gone = if at == first { second } else { first };
        let other = std::mem::replace(&mut self.all.kernels[second], no_kernel());
        let one = std::mem::replace(&mut self.all.kernels[first], no_kernel());
        // What the first made stays in its place if the joined chain does.
        let moved = if at == first { &other.results } else { &one.results };
        moved.iter().for_each(|value| self.makers[*value] = Some(at));
        self.all.kernels[at] = joined(one, other);
        self.left.remove(&gone);
        for value in self.all.kernels[at].reads() {
            self.readers[value].insert(at);
        }
    }
}

/// What stands where a kernel was.
fn no_kernel() -> Kernel {
    Kernel { work: Work::Move(Vec::new()), results: Vec::new() }
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

/// Inputs of two chains by the sizes that both have, if there are such.
fn same_sizes(a: &[View], b: &[View]) -> Option<[Vec<View>; 2]> {
    let dims = refined(&a.first()?.dims(), &b.first()?.dims())?;
    let again = |views: &[View]| views.iter().map(|view| view.reshaped(&dims)).collect::<Option<Vec<View>>>();
    Some([again(a)?, again(b)?])
}

/// Whether one chain can do what two do: the second reads results of the first as they are.
fn joins(all: &Kernels, first: usize, second: usize) -> bool {
    let (first, second) = (&all.kernels[first], &all.kernels[second]);
    let (Work::Chain { inputs: a, .. }, Work::Chain { inputs: b, .. }) = (&first.work, &second.work) else {
        return false;
    };
    // The contraction engine takes one alone.
    if Taps::of(all, first).is_some() || Taps::of(all, second).is_some() {
        return false;
    }
    let is_made = |view: &&View| first.results.contains(&view.value);
    let as_it_is = |view: &View| all.is_whole(view) && !all.values[view.value].packing.is_narrow();
    b.iter().filter(is_made).all(as_it_is) && same_sizes(a, b).is_some()
}

/// One chain that does what two did that [`joins`] says can be one.
fn joined(first: Kernel, second: Kernel) -> Kernel {
    let (
        Work::Chain { inputs: a, lines: lines_a, streams: out_a },
        Work::Chain { inputs: b, lines: mut lines_b, streams: out_b },
    ) = (first.work, second.work)
    else {
        broken(format_args!("only chains are joined"))
    };
    let made = |view: &View| first.results.iter().position(|made| *made == view.value);
    let [a, b] = same_sizes(&a, &b).or_broken("chains that are joined have sizes in common");
    // The first of inputs that are alike; those of the second chain follow those of the first. Views that
    // differ by how they walk axes of one element are alike once both chains have the same sizes.
    let mut inputs: Vec<View> = Vec::with_capacity(a.len() + b.len());
    let mut of_view: BTreeMap<&View, usize> = BTreeMap::new();
    for view in a.iter().chain(b.iter().filter(|view| made(view).is_none())) {
        if let Entry::Vacant(first) = of_view.entry(view) {
            first.insert(inputs.len());
            inputs.push(view.clone());
        }
    }
    let place = |view: &View| of_view.get(view).copied().or_broken("an input of either chain");
    let places: Vec<usize> = a.iter().map(place).collect();
    let of_a = |stream: usize| match places.get(stream) {
        Some(place) => *place,
        None => inputs.len() + stream - a.len(),
    };
    let of_b = |stream: usize| match b.get(stream) {
        Some(view) => made(view).map_or_else(|| place(view), |at| of_a(out_a[at])),
        None => inputs.len() + lines_a.len() + stream - b.len(),
    };
    lines_b.iter_mut().for_each(|line| rename(line, &of_b));
    let streams_b: Vec<usize> = out_b.iter().map(|stream| of_b(*stream)).collect();
    let (mut lines, mut streams, mut results) = (lines_a, out_a, first.results);
    // Nothing is renamed in the first chain if it has all inputs.
    if inputs.len() != a.len() || places.iter().enumerate().any(|(at, place)| at != *place) {
        lines.iter_mut().for_each(|line| rename(line, &of_a));
        streams.iter_mut().for_each(|stream| *stream = of_a(*stream));
    }
    lines.append(&mut lines_b);
    streams.extend(streams_b);
    results.extend(second.results);
    Kernel { work: Work::Chain { inputs, lines, streams }, results }
}

/// Other numbers for the streams of a line.
fn rename(line: &mut Line, to: &dyn Fn(usize) -> usize) {
    line.input = to(line.input);
    if let Step::With { other: Other::Stream(stream), .. } = &mut line.step {
        *stream = to(*stream);
    }
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
