//! Long sums in parts, one after the other: a register file holds few columns with all of a long sum, and
//! many with a part of it, so that more lanes multiply what a ring passes on.
//!
//! Each part is a contraction of its own that reads its operands by strides; what comes behind the last adds
//! what the others gave.

use tilewright_machine::tcp::Tcp;

use super::kernel::{Kernel, Kernels, Origin, Packing, Sizes, Strides, Value, Work};
use super::link::{apart_cycles, is_warm};
use super::plan::Options;
use super::tiled::{Room, candidate};
use super::view::View;
use super::words::{Arith, Line, Other, Step};

/// Elements of a sum from which on parts are looked at.
const LONG_SUM: u64 = 1024;
/// Products below which a contraction stays whole.
const MANY_PRODUCTS: u64 = 1 << 26;
/// Parts that are tried.
const PARTS: [u64; 3] = [2, 4, 8];
/// Parts must save this share of the cycles at least: they are estimates.
const SAVED: u64 = 16;

/// The same kernels, long sums in parts where that takes less.
#[must_use]
pub(super) fn sums_in_parts(machine: &Tcp, options: &Options, mut all: Kernels) -> Kernels {
    let mut known: Vec<(Sizes, Room, u64)> = Vec::new();
    let mut number = 0;
    while number < all.kernels.len() {
        let mut parts = 1;
        if is_window(&all, number) {
            // A contraction takes windows as they lie, all of their sum.
        } else if let (Some(parts_of), Work::Contract { sizes, .. }) =
            (options.parts, &all.kernels[number].work)
        {
            parts = if part(*sizes, parts_of, 0).is_some() { parts_of } else { 1 };
        } else if let Work::Contract { sizes, .. } = all.kernels[number].work
            && sizes.summed >= LONG_SUM
            && sizes.batch * sizes.rows * sizes.columns * sizes.summed >= MANY_PRODUCTS
        {
            let room = options.room(is_warm(&all, number, options));
            let same = known.iter().find(|(other, at, _)| (*other, *at) == (sizes, room));
            parts = same.map_or_else(|| best(machine, sizes, room), |(.., parts)| *parts);
            known.push((sizes, room, parts));
        }
        number += if parts > 1 { cut(&mut all, number, parts) } else { 1 };
    }
    all
}

/// Whether a copy by strides makes the rows of a contraction.
fn is_window(all: &Kernels, number: usize) -> bool {
    let Work::Contract { a, .. } = all.kernels[number].work else { return false };
    all.kernels.iter().any(|kernel| {
        kernel.results == [a] && matches!(&kernel.work, Work::Chain { lines, .. } if lines.is_empty())
    })
}

/// How many parts take least.
fn best(machine: &Tcp, sizes: Sizes, room: Room) -> u64 {
    let cycles = |sizes: Sizes| {
        let found = candidate(machine, sizes, room, (None, None), false);
        found.ok().map(|found| found.cycles)
    };
    let Some(whole) = cycles(sizes) else { return 1 };
    let of_parts = |parts: u64| {
        let each = cycles(part(sizes, parts, 0)?)?;
        let between =
            (parts - 1) * 2 * apart_cycles(machine, sizes.batch * sizes.rows * sizes.columns * 4, room.pes);
        Some((parts * each + between, parts))
    };
    let least = PARTS.into_iter().filter_map(of_parts).min();
    least.filter(|(cycles, _)| *cycles < whole - whole / SAVED).map_or(1, |(_, parts)| parts)
}

/// One of several parts of a contraction; `None` if the sum has no such parts.
fn part(sizes: Sizes, parts: u64, at: u64) -> Option<Sizes> {
    let summed = sizes.summed / parts;
    let moved = |one: Strides| Strides { first: one.first + at * summed, ..one };
    let whole = sizes.summed.is_multiple_of(parts);
    whole.then_some(Sizes { summed, strides: sizes.strides.map(moved), ..sizes })
}

/// Puts parts in the place of a contraction; gives how many kernels there are now.
fn cut(all: &mut Kernels, number: usize, parts: u64) -> usize {
    let Work::Contract { a, b, sizes } = all.kernels[number].work else { return 1 };
    let result = all.kernels[number].results[0];
    let arith = if sizes.operands == Packing::Byte { Arith::Add } else { Arith::FAdd };
    let mut made = Vec::new();
    let mut before = None;
    for at in 0..parts {
        let Some(sizes) = part(sizes, parts, at) else { return 1 };
        let value = another(all, result, &format!("part{at}"));
        made.push(Kernel { work: Work::Contract { a, b, sizes }, results: vec![value] });
        let Some(sum) = before.replace(value) else { continue };
        if at + 1 == parts {
            if !join(all, result, [value, sum], arith) {
                made.push(added(all, [value, sum], arith, result));
            }
        } else {
            let next = another(all, result, &format!("sum{at}"));
            made.push(added(all, [value, sum], arith, next));
            before = Some(next);
        }
    }
    let count = made.len();
    all.kernels.splice(number..=number, made);
    count
}

/// A value of the same sizes.
fn another(all: &mut Kernels, like: usize, suffix: &str) -> usize {
    let Value { name, dims, dtype, packing, .. } = all.values[like].clone();
    let name = format!("{name}.{suffix}");
    all.values.push(Value { name, dims, dtype, packing, origin: Origin::Kernel });
    all.values.len() - 1
}

fn sum_of(arith: Arith, first: usize, second: usize) -> Line {
    Line { input: first, step: Step::With { arith, other: Other::Stream(second), reversed: false } }
}

/// The sum of two values.
fn added(all: &Kernels, values: [usize; 2], arith: Arith, result: usize) -> Kernel {
    let inputs = values.map(|value| View::whole(value, &all.values[value].dims)).to_vec();
    let work = Work::Chain { inputs, lines: vec![sum_of(arith, 0, 1)], streams: vec![2] };
    Kernel { work, results: vec![result] }
}

/// Lets the only chain that reads a value add two others instead, if there is one.
fn join(all: &mut Kernels, value: usize, values: [usize; 2], arith: Arith) -> bool {
    if all.results.iter().any(|result| result.value == value) {
        return false;
    }
    let reads = |kernel: &Kernel| kernel.reads().contains(&value);
    let readers: Vec<usize> = (0..all.kernels.len()).filter(|at| reads(&all.kernels[*at])).collect();
    let [reader] = readers[..] else { return false };
    let Work::Chain { inputs, .. } = &all.kernels[reader].work else { return false };
    let own: Vec<usize> = (0..inputs.len()).filter(|at| inputs[*at].value == value).collect();
    let [at] = own[..] else { return false };
    if !all.is_whole(&inputs[at]) {
        return false;
    }
    let Work::Chain { inputs, lines, streams } = &mut all.kernels[reader].work else { return false };
    let count = inputs.len();
    let turned = |stream: usize| match stream {
        stream if stream == at => count + 1,
        stream if stream >= count => stream + 2,
        stream => stream,
    };
    for line in lines.iter_mut() {
        line.input = turned(line.input);
        if let Step::With { other: Other::Stream(other), .. } = &mut line.step {
            *other = turned(*other);
        }
    }
    streams.iter_mut().for_each(|stream| *stream = turned(*stream));
    lines.insert(0, sum_of(arith, at, count));
    let mut other = inputs[at].clone();
    (inputs[at].value, other.value) = (values[0], values[1]);
    inputs.push(other);
    true
}
