//! What kernels of a general graph must give, from the values that they read alone: neither layouts nor
//! commands.
//!
//! Chains, moves, reductions and contractions of bytes are compared bit for bit. One of floats takes bf16 or
//! f8e4m3 and sums in f32 in the order of its tactic: its result may differ from the exact sum of products by
//! what f32 loses ([`SLACK`] of the sum of magnitudes).

use tilewright_base::invariant::OrBroken;
use tilewright_graph::Fold;
use tilewright_num::{self as num, RuleSet, decode};

use super::kernel::{Kernels, Origin, Packing, Sizes, Work};
use super::tactic::multiplied;
use super::view::{View, signed};
use super::words::evaluate;

/// Parts of the sum of magnitudes by which a sum of products may differ from the exact one: some hundred
/// roundings of f32.
pub const SLACK: f64 = 1e-5;

/// What a kernel must give.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// These patterns; places that a kernel does not write are zero.
    Exact(Vec<u32>),
    /// The same, and anything where a copy runs over the end of what it reads.
    Within(Vec<Option<u32>>),
    /// f32 near these sums, each with the sum of its magnitudes.
    Near(Vec<(f64, f64)>),
}

impl Expected {
    /// The first element that differs, if one does.
    pub fn differs(&self, found: &[u32]) -> Option<usize> {
        match self {
            Expected::Exact(wanted) => {
                let length = wanted.len().min(found.len());
                let place = wanted.iter().zip(found).position(|(wanted, found)| wanted != found);
                place.or_else(|| (wanted.len() != found.len()).then_some(length))
            }
            Expected::Within(wanted) => {
                let other = |(wanted, found): (&Option<u32>, &u32)| wanted.is_some_and(|word| word != *found);
                let place = wanted.iter().zip(found).position(other);
                place.or_else(|| (wanted.len() != found.len()).then_some(wanted.len().min(found.len())))
            }
            Expected::Near(wanted) => {
                let far = |((sum, magnitude), found): (&(f64, f64), &u32)| {
                    let off = (f64::from(f32::from_bits(*found)) - sum).abs();
                    // Beyond f32 the order of the sum decides whether it ends there.
                    (off.is_nan() || off > SLACK * magnitude) && *magnitude <= f64::from(f32::MAX)
                };
                wanted.iter().zip(found).position(far)
            }
        }
    }
}

/// Values by number.
pub type Values<'v> = dyn Fn(usize) -> Vec<u32> + 'v;

fn index(number: i64) -> usize {
    usize::try_from(number).or_broken("counts are indices of this host")
}

/// What a kernel gives for each of its results.
pub fn expected(rules: &RuleSet, all: &Kernels, number: usize, values: &Values<'_>) -> Vec<Expected> {
    let kernel = &all.kernels[number];
    let count = |value: usize| index(signed(all.values[value].count()));
    let to = kernel.results.first().copied().or_broken("every kernel gives something");
    match &kernel.work {
        Work::Move(parts) => {
            let fill = if let Origin::Filled(word) = all.values[to].origin { word } else { 0 };
            let mut out = vec![fill; count(to)];
            for part in parts {
                let from = values(part.from);
                part.each(|from_place, to_place| {
                    if let (Some(word), Some(slot)) = (from.get(from_place), out.get_mut(to_place)) {
                        *slot = *word;
                    }
                });
            }
            vec![Expected::Exact(out)]
        }
        Work::Gather { from, table, around: (outer, size, inner) } => {
            let (from, table) = (values(*from), values(*table));
            let inner = index(signed(*inner));
            let mut out = Vec::with_capacity(count(to));
            for block in from.chunks(index(signed(*size)) * inner).take(index(signed(*outer))) {
                for offset in &table {
                    let first = *offset as usize / 4;
                    let row =
                        block.get(first..first + inner).or_broken("rows are within what they are taken from");
                    out.extend_from_slice(row);
                }
            }
            vec![Expected::Exact(out)]
        }
        Work::Scatter { base, table, rows, inner } => {
            let (mut out, table, rows) = (values(*base), values(*table), values(*rows));
            for (row, offset) in rows.chunks(index(signed(*inner))).zip(&table) {
                for (at, word) in row.iter().enumerate() {
                    if let Some(slot) = out.get_mut(*offset as usize / 4 + at) {
                        *slot = *word;
                    }
                }
            }
            vec![Expected::Exact(out)]
        }
        Work::Chain { inputs, lines, .. } if lines.is_empty() && all.runs_over(inputs) => {
            let from = values(inputs[0].value);
            vec![Expected::Within(inputs[0].places().into_iter().map(|at| word_at(&from, at)).collect())]
        }
        Work::Chain { inputs, lines, streams } => {
            let inputs: Vec<Vec<u32>> = inputs.iter().map(|input| taken(rules, all, input, values)).collect();
            let mut outs = vec![Vec::new(); streams.len()];
            for at in 0..count(to) {
                let elements: Vec<u32> = inputs
                    .iter()
                    .map(|input| input.get(at).copied().or_broken("inputs have all elements"))
                    .collect();
                let all_streams = evaluate(rules, &elements, lines);
                for ((out, stream), value) in outs.iter_mut().zip(streams).zip(&kernel.results) {
                    let word = all_streams[*stream];
                    out.push(all.values[*value].packing.narrowed(rules, word));
                }
            }
            outs.into_iter().map(Expected::Exact).collect()
        }
        Work::Contract { a, b, sizes } if sizes.operands == Packing::Byte => {
            vec![Expected::Exact(of_bytes(rules, [&values(*a), &values(*b)], *sizes))]
        }
        Work::Contract { a, b, sizes } => {
            vec![Expected::Near(products(rules, [&values(*a), &values(*b)], *sizes))]
        }
        Work::Reduce { from, fold, columns } => {
            let float = all.values[*from].dtype.is_float();
            let from = values(*from);
            let rows = from.chunks(index(signed(*columns))).map(|row| reduced(rules, *fold, float, row));
            vec![Expected::Exact(rows.collect())]
        }
    }
}

/// Elements of a view as words.
fn taken(rules: &RuleSet, all: &Kernels, input: &View, values: &Values<'_>) -> Vec<u32> {
    let (packing, from) = (all.values[input.value].packing, values(input.value));
    let wide = |word: u32| packing.widened(rules, word);
    input.places().into_iter().map(|at| word_at(&from, at).map_or(0, wide)).collect()
}

/// An element of a value; none before the first and behind the last.
fn word_at(from: &[u32], at: i64) -> Option<u32> {
    usize::try_from(at).ok().and_then(|at| from.get(at)).copied()
}

/// A contraction of bytes, or of bytes and integers of four bits.
fn of_bytes(rules: &RuleSet, [a, b]: [&[u32]; 2], sizes: Sizes) -> Vec<u32> {
    let word = |word: &u32| i64::from(Packing::Byte.widened(rules, *word).cast_signed());
    let wide = |words: &[u32]| -> Vec<i64> { words.iter().map(word).collect() };
    let held = if sizes.held == Packing::Pairs { unpaired(b) } else { wide(b) };
    whole_products(&wide(a), &held, sizes)
}

/// Integers of four bits that lie two to a byte, the first in the low half.
fn unpaired(bytes: &[u32]) -> Vec<i64> {
    let signed = |nibble: u32| i64::from((nibble << 28).cast_signed() >> 28);
    bytes.iter().flat_map(|byte| [signed(*byte), signed(byte >> 4)]).collect()
}

/// Sums in i32 of products of bytes: exact, as long as they stay in i32.
fn whole_products(a: &[i64], b: &[i64], sizes: Sizes) -> Vec<u32> {
    let mut all = Vec::new();
    for batch in 0..sizes.batch {
        for row in (0..sizes.rows).map(|row| of_sum(a, sizes, 0, [batch, row])) {
            for column in (0..sizes.columns).map(|column| of_sum(b, sizes, 1, [batch, column])) {
                let sum: i64 = counted(row, column, sizes).map(|(x, y)| x * y).sum();
                let sum = sum.clamp(i32::MIN.into(), i32::MAX.into());
                all.push(i32::try_from(sum).or_broken("a clamped sum fits").cast_unsigned());
            }
        }
    }
    all
}

/// Elements of an operand that are summed, of a row or column at a position of the batch.
fn of_sum<E>(all: &[E], sizes: Sizes, operand: usize, [batch, own]: [u64; 2]) -> &[E] {
    let strides = sizes.strides[operand];
    let first = strides.first + batch * strides.batch + own * strides.own;
    &all[index(signed(first))..][..index(signed(sizes.summed))]
}

/// Elements of a row and of a column that are multiplied.
fn counted<'e, E>(row: &'e [E], column: &'e [E], sizes: Sizes) -> impl Iterator<Item = (&'e E, &'e E)> {
    let counts = move |at: usize| sizes.runs.is_none_or(|runs| (at as u64) % runs.size < runs.live);
    row.iter().zip(column).enumerate().filter(move |(at, _)| counts(*at)).map(|(_, pair)| pair)
}

fn products(rules: &RuleSet, operands: [&[u32]; 2], sizes: Sizes) -> Vec<(f64, f64)> {
    let dtype = multiplied(sizes.operands);
    let wide = |words: &[u32]| -> Vec<f64> {
        words.iter().map(|word| f64::from(decode(rules, dtype, *word))).collect()
    };
    let [a, b] = operands.map(wide);
    let mut all = Vec::new();
    for batch in 0..sizes.batch {
        for row in (0..sizes.rows).map(|row| of_sum(&a, sizes, 0, [batch, row])) {
            for column in (0..sizes.columns).map(|column| of_sum(&b, sizes, 1, [batch, column])) {
                let products = counted(row, column, sizes).map(|(x, y)| x * y);
                all.push(
                    products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs())),
                );
            }
        }
    }
    all
}

/// Four at a time in a tree, then one after the other (vISA book, intra-slice reduce).
fn reduced(rules: &RuleSet, fold: Fold, float: bool, row: &[u32]) -> u32 {
    let join = |a: u32, b: u32| {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let (i, j) = (a.cast_signed(), b.cast_signed());
        match (fold, float) {
            (Fold::Max, true) => num::max_f32(rules, x, y).to_bits(),
            (Fold::Min, true) => num::min_f32(rules, x, y).to_bits(),
            (_, true) => num::add_f32(rules, x, y).to_bits(),
            (Fold::Max, false) => i.max(j).cast_unsigned(),
            (Fold::Min, false) => i.min(j).cast_unsigned(),
            (_, false) => num::add_sat(i, j).cast_unsigned(),
        }
    };
    let settled: Vec<u32> =
        row.iter().map(|word| if float { rules.settle_f32(*word) } else { *word }).collect();
    let fours = settled
        .chunks(4)
        .filter_map(|four| four.chunks(2).filter_map(|two| two.iter().copied().reduce(join)).reduce(join));
    fours.reduce(join).unwrap_or(0)
}
