//! Long sums in parts: a register file holds few columns with all of a long sum, and many with a part of it,
//! so that more lanes multiply what a ring passes on.
//!
//! Parts run one after the other, each a contraction of its own that reads its operands by strides; or beside
//! each other as positions of one batch, each on PEs of its own, which then read less of both operands. What
//! comes behind adds what they gave.

use super::contraction_facts::{apart_cycles, rooms};
use super::kernel::{Kernel, Kernels, Origin, Packing, Sizes, Strides, Value, Work};
use super::options::Options;
use super::tiled::{Room, TileSearches};
use super::view::{View, signed};
use super::words::{Arith, Line, Other, Step};

/// Elements of a sum from which on parts are looked at.
const LONG_SUM: u64 = 1024;
/// Products below which a contraction stays whole.
const MANY_PRODUCTS: u64 = 1 << 26;
/// Parts that are tried.
const PARTS: [u64; 3] = [2, 4, 8];
/// Parts must save this share of the cycles at least: they are estimates.
const SAVED: u64 = 16;

/// How a sum is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parts {
    /// So many, one after the other.
    InTurn(u64),
    /// So many beside each other, on PEs of their own.
    Beside(u64),
}

/// The same kernels, long sums in parts where that takes less.
#[must_use]
pub(super) fn sums_in_parts(searches: &TileSearches<'_>, options: &Options, mut all: Kernels) -> Kernels {
    let mut known: Vec<(Sizes, Vec<Room>, Option<Parts>)> = Vec::new();
    let mut number = 0;
    while number < all.kernels.len() {
        let mut parts = None;
        if is_window(&all, number) {
            // A contraction takes windows as they lie, all of their sum.
        } else if options.parts.is_some() {
            parts = options.parts;
        } else if let Work::Contract { sizes, .. } = all.kernels[number].work
            && sizes.summed >= LONG_SUM
            && sizes.batch * sizes.rows * sizes.columns * sizes.summed >= MANY_PRODUCTS
        {
            let rooms = rooms(searches, &all, number, options);
            let same = known.iter().find(|(other, at, _)| (*other, at) == (sizes, &rooms));
            parts = same.map_or_else(|| best(searches, sizes, &rooms), |(.., parts)| *parts);
            if same.is_none() {
                known.push((sizes, rooms, parts));
            }
        }
        number += match parts {
            Some(Parts::InTurn(parts)) => cut(&mut all, number, parts),
            Some(Parts::Beside(parts)) => spread(&mut all, number, parts),
            None => 1,
        };
    }
    all
}

/// Whether a copy by strides makes the rows of a contraction.
pub(super) fn is_window(all: &Kernels, number: usize) -> bool {
    let Work::Contract { a, .. } = all.kernels[number].work else { return false };
    all.kernels.iter().any(|kernel| {
        kernel.results == [a] && matches!(&kernel.work, Work::Chain { lines, .. } if lines.is_empty())
    })
}

/// Which parts take least; `None` if the whole sum does.
fn best(searches: &TileSearches<'_>, sizes: Sizes, rooms: &[Room]) -> Option<Parts> {
    let (machine, pes) = (searches.machine, rooms.first()?.pes);
    let cycles = |sizes: Sizes| {
        let found = searches.candidate(sizes, rooms, (None, None), false);
        found.ok().map(|found| found.cycles)
    };
    let whole = cycles(sizes)?;
    let sums = sizes.batch * sizes.rows * sizes.columns * SUM_BYTES;
    let apart = apart_cycles(machine, sums, pes);
    let in_turn = PARTS.into_iter().filter_map(|parts| {
        let each = cycles(part(sizes, parts, 0)?)?;
        Some((parts * each + (parts - 1) * 2 * apart, Parts::InTurn(parts)))
    });
    let beside = PARTS.into_iter().filter(|parts| *parts <= pes).filter_map(|parts| {
        // All of them are read again, and all PEs wait for each other once more.
        let read = apart_cycles(machine, parts * sums, pes);
        Some((cycles(beside(sizes, parts)?)? + read + apart, Parts::Beside(parts)))
    });
    let least = in_turn.chain(beside).min();
    least.filter(|(cycles, _)| *cycles < whole - whole / SAVED).map(|(_, parts)| parts)
}

/// Bytes of a sum.
const SUM_BYTES: u64 = 4;

/// One of several parts of a contraction; `None` if the sum has no such parts.
fn part(sizes: Sizes, parts: u64, at: u64) -> Option<Sizes> {
    let summed = sizes.summed / parts;
    let moved = |one: Strides| Strides { first: one.first + at * summed, ..one };
    let whole = sizes.summed.is_multiple_of(parts);
    let counted = sizes.counted.div_ceil(parts);
    whole.then_some(Sizes { summed, counted, strides: sizes.strides.map(moved), ..sizes })
}

/// Parts of a contraction as positions of a batch; `None` if it has one, or the sum has no such parts.
fn beside(sizes: Sizes, parts: u64) -> Option<Sizes> {
    let summed = sizes.summed / parts;
    let strides = sizes.strides.map(|one| Strides { batch: summed, ..one });
    let whole = sizes.batch == 1 && sizes.summed.is_multiple_of(parts);
    let counted = sizes.counted.div_ceil(parts);
    whole.then_some(Sizes { batch: parts, summed, counted, strides, ..sizes })
}

/// How sums of the type are added.
fn addition(sizes: Sizes) -> Arith {
    if sizes.operands == Packing::Byte { Arith::Add } else { Arith::FAdd }
}

/// Puts parts in the place of a contraction; gives how many kernels there are now.
fn cut(all: &mut Kernels, number: usize, parts: u64) -> usize {
    let Work::Contract { a, b, sizes } = all.kernels[number].work else { return 1 };
    let result = all.kernels[number].results[0];
    let arith = addition(sizes);
    let mut made = Vec::new();
    let mut before = None;
    for at in 0..parts {
        let Some(sizes) = part(sizes, parts, at) else { return 1 };
        let value = another(all, result, &format!("part{at}"));
        made.push(Kernel { work: Work::Contract { a, b, sizes }, results: vec![value] });
        let Some(sum) = before.replace(value) else { continue };
        if at + 1 == parts {
            let both = [value, sum].map(|value| (value, 0));
            if !join(all, result, &both, arith) {
                made.push(added(all, &both, arith, result));
            }
        } else {
            let next = another(all, result, &format!("sum{at}"));
            made.push(added(all, &[(value, 0), (sum, 0)], arith, next));
            before = Some(next);
        }
    }
    let count = made.len();
    all.kernels.splice(number..=number, made);
    count
}

/// Puts parts beside each other in the place of a contraction; gives how many kernels there are now.
fn spread(all: &mut Kernels, number: usize, parts: u64) -> usize {
    let Work::Contract { a, b, sizes } = all.kernels[number].work else { return 1 };
    let Some(sizes) = beside(sizes, parts) else { return 1 };
    let (result, arith) = (all.kernels[number].results[0], addition(sizes));
    let value = another(all, result, "parts");
    all.values[value].dims.insert(0, parts);
    let elements = signed(all.values[result].count());
    let each: Vec<(usize, i64)> = (0..signed(parts)).map(|at| (value, at * elements)).collect();
    let mut made = vec![Kernel { work: Work::Contract { a, b, sizes }, results: vec![value] }];
    if !join(all, result, &each, arith) {
        made.push(added(all, &each, arith, result));
    }
    let count = made.len();
    all.kernels.splice(number..=number, made);
    count
}

/// A value of the same sizes.
fn another(all: &mut Kernels, like: usize, suffix: &str) -> usize {
    let Value { name, dims, dtype, packing, .. } = all.values[like].clone();
    let name = format!("{name}.{suffix}");
    all.values.push(Value { name, dims, dtype, packing, origin: Origin::Kernel, host: None });
    all.values.len() - 1
}

fn sum_of(arith: Arith, first: usize, second: usize) -> Line {
    Line { input: first, step: Step::With { arith, other: Other::Stream(second), reversed: false } }
}

/// Sums of streams as the first steps of a chain with so many inputs: the first stream with each of the
/// others.
fn sums_of(arith: Arith, inputs: usize, first: usize, others: impl Iterator<Item = usize>) -> Vec<Line> {
    let before = |at: usize| if at == 0 { first } else { inputs + at - 1 };
    others.enumerate().map(|(at, other)| sum_of(arith, before(at), other)).collect()
}

/// The sum of some values, each from an element on.
fn added(all: &Kernels, values: &[(usize, i64)], arith: Arith, result: usize) -> Kernel {
    let dims = &all.values[result].dims;
    let view = |(value, first): &(usize, i64)| View { first: *first, ..View::whole(*value, dims) };
    let lines = sums_of(arith, values.len(), 0, 1..values.len());
    let streams = vec![values.len() + lines.len() - 1];
    let work = Work::Chain { inputs: values.iter().map(view).collect(), lines, streams };
    Kernel { work, results: vec![result] }
}

/// Lets the only chain that reads a value add some others instead, each from an element on, if there is one.
fn join(all: &mut Kernels, value: usize, values: &[(usize, i64)], arith: Arith) -> bool {
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
    let (count, more) = (inputs.len(), values.len() - 1);
    let turned = |stream: usize| match stream {
        stream if stream == at => count + 2 * more - 1,
        stream if stream >= count => stream + 2 * more,
        stream => stream,
    };
    for line in lines.iter_mut() {
        line.input = turned(line.input);
        if let Step::With { other: Other::Stream(other), .. } = &mut line.step {
            *other = turned(*other);
        }
    }
    streams.iter_mut().for_each(|stream| *stream = turned(*stream));
    lines.splice(0..0, sums_of(arith, count + more, at, count..count + more));
    let view = inputs[at].clone();
    let mut views = values.iter().map(|(value, first)| View { value: *value, first: *first, ..view.clone() });
    inputs.splice(at..=at, views.next());
    inputs.extend(views);
    true
}
