//! Maxima of windows over what is narrow: what is computed of a maximum, and never falls where its element
//! rises, is computed of each element before, so that padding and windows carry narrow elements.

use tilewright_graph::Dtype;
use tilewright_num::RuleSet;

use super::early::is_even;
use super::kernel::{Kernel, Kernels, Origin, Packing, Part, Value, Work};
use super::plan::readers;
use super::relaid::Relaid;
use super::view::View;
use super::words::{Arith, Line, Other, Step, evaluate};

/// Bytes of an access unit of HBM.
const UNIT_BYTES: u64 = 256;
/// Patterns of f32.
const MINUS_INFINITY: u32 = 0xFF80_0000;
const NOT_A_NUMBER: u32 = 0x7FC0_0000;

/// A chain that takes a maximum and goes on with it.
struct Maximum {
    /// The kernel.
    number: usize,
    /// The value that all of its windows look at.
    over: usize,
    /// Lines of the maximum.
    taken: usize,
    /// How the result lies.
    packing: Packing,
}

/// The same kernels with maxima over narrow elements.
#[must_use]
pub(super) fn narrow_maxima(mut all: Kernels) -> Kernels {
    let mut number = 0;
    while number < all.kernels.len() {
        if let Some(one) = maximum(&all, number)
            && let Some(changed) = narrowed(&all, &one)
        {
            all = changed;
        }
        number += 1;
    }
    all
}

/// What a kernel takes the maximum of, if all that comes behind never falls.
fn maximum(all: &Kernels, number: usize) -> Option<Maximum> {
    let Kernel { work: Work::Chain { inputs, lines, streams }, results } = &all.kernels[number] else {
        return None;
    };
    let ([to], [stream], [first, ..]) = (&results[..], &streams[..], &inputs[..]) else { return None };
    let (over, packing) = (first.value, all.values[*to].packing);
    let taken = inputs.len().checked_sub(1).filter(|taken| *taken > 0 && *taken <= lines.len())?;
    let alike = inputs.iter().all(|view| {
        view.value == over && is_even(&view.axes, view.first, packing) && view.axes == first.axes
    });
    let one = &all.values[over];
    if !alike || !packing.is_narrow() || one.packing.is_narrow() || one.dtype != Dtype::F32 {
        return None;
    }
    // A line for each input but the first, each with the one before.
    let with = |(at, line): (usize, &Line)| {
        let Step::With { arith: Arith::FMax, other: Other::Stream(other), .. } = line.step else {
            return false;
        };
        let before = if at == 0 { 0 } else { inputs.len() + at - 1 };
        (line.input, other) == (before, at + 1) || (other, line.input) == (before, at + 1)
    };
    let is_maximum = lines[..taken].iter().enumerate().all(with);
    let behind = &lines[taken..];
    let last = inputs.len() + lines.len() - 1;
    let follows =
        |(at, line): (usize, &Line)| line.input == inputs.len() + taken + at - 1 && rises(&line.step);
    let goes_on = behind.iter().enumerate().all(follows) && *stream == last;
    (is_maximum && goes_on).then_some(Maximum { number, over, taken, packing })
}

/// Whether a step of one operand never falls where the operand rises.
fn rises(step: &Step) -> bool {
    match step {
        Step::ToInt | Step::ToFloat => true,
        Step::With { arith, other: Other::Word(word), reversed } => {
            let float = f32::from_bits(*word);
            match arith {
                Arith::FMax | Arith::FMin => !float.is_nan(),
                Arith::Max | Arith::Min => true,
                Arith::FAdd => float.is_finite(),
                Arith::FSub => float.is_finite() && !reversed,
                Arith::FMul => float.is_finite() && float > 0.0,
                Arith::FDiv => float.is_finite() && float > 0.0 && !reversed,
                _ => false,
            }
        }
        _ => false,
    }
}

/// Lines as those of a chain with one input.
fn alone(lines: &[Line]) -> Vec<Line> {
    lines.iter().enumerate().map(|(at, line)| Line { input: at, step: line.step.clone() }).collect()
}

/// Whether a value is never NaN: it is a maximum or minimum with a number, which NaN gives way to.
fn is_number(all: &Kernels, value: usize) -> bool {
    let maker = all.kernels.iter().find(|kernel| kernel.results[..] == [value]);
    let Some(Kernel { work: Work::Chain { inputs, lines, streams }, .. }) = maker else { return false };
    let last = streams.first().and_then(|stream| lines.get(stream.checked_sub(inputs.len())?));
    last.is_some_and(|line| match line.step {
        Step::With { arith: Arith::FMax | Arith::FMin, other: Other::Word(word), .. } => {
            !f32::from_bits(word).is_nan()
        }
        _ => false,
    })
}

/// The same kernels with the steps behind a maximum before it; `None` if somebody else reads what it is over,
/// or NaN would not give way any more.
fn narrowed(all: &Kernels, one: &Maximum) -> Option<Kernels> {
    let uses = readers(all);
    let Work::Chain { inputs, lines, .. } = &all.kernels[one.number].work else { return None };
    let behind = alone(&lines[one.taken..]);
    let maker = all.kernels.iter().position(|kernel| kernel.results[..] == [one.over])?;
    // Padding is narrow too.
    let moved = match (&all.kernels[maker].work, &all.values[one.over].origin) {
        (Work::Move(parts), Origin::Filled(word)) => match &parts[..] {
            [part] if is_even_part(part, one.packing) => Some((part.clone(), *word)),
            _ => return None,
        },
        (Work::Chain { .. } | Work::Contract { .. }, Origin::Kernel) => None,
        _ => return None,
    };
    let value = moved.as_ref().map_or(one.over, |(part, _)| part.from);
    let last = behind.len();
    let of = |word: u32| {
        let words = evaluate(&RuleSet::TCP, &[word], &behind);
        one.packing.narrowed(&RuleSet::TCP, words[last])
    };
    let is_float = matches!(one.packing, Packing::Half | Packing::Float8) && behind.is_empty();
    let gives_way = is_float || is_number(all, value) || of(NOT_A_NUMBER) == of(MINUS_INFINITY);
    let only = |value: usize, reader: usize| uses[value].iter().all(|one| *one == reader);
    let alone_read = only(one.over, one.number) && moved.as_ref().is_none_or(|_| only(value, maker));
    let is_plain = all.values[value].origin == Origin::Kernel && all.values[value].host.is_none();
    if !gives_way || !alone_read || !is_plain {
        return None;
    }
    let unit = UNIT_BYTES / one.packing.element_bytes();
    let relaid = moved.as_ref().and_then(|(part, _)| {
        let first = u64::try_from(part.to_first).ok()?;
        let found = Relaid::new(&all.values[one.over].dims, &all.values[value].dims, first, unit)?;
        let views = inputs.iter().map(|view| found.view(view)).collect::<Option<Vec<View>>>()?;
        Some((found.part(part)?, views, found.dims))
    });
    if moved.is_some() != relaid.is_some() {
        return None;
    }
    let mut changed = all.clone();
    let Value { name, dims, .. } = all.values[value].clone();
    let dtype = all.values[all.kernels[one.number].results[0]].dtype;
    let narrow = changed.values.len();
    let name = format!("{name}.{}", one.packing.name());
    let view = View::whole(value, &dims);
    changed.values.push(Value {
        name,
        dims,
        dtype,
        packing: one.packing,
        origin: Origin::Kernel,
        host: None,
    });
    let (over, views) = match (moved, relaid) {
        (Some((_, word)), Some((part, views, sizes))) => {
            let padded = &mut changed.values[one.over];
            (padded.packing, padded.dtype, padded.dims) = (one.packing, dtype, sizes);
            padded.origin = Origin::Filled(of(word));
            changed.kernels[maker].work = Work::Move(vec![Part { from: narrow, ..part }]);
            (one.over, views)
        }
        _ => (narrow, inputs.iter().map(|view| View { value: narrow, ..view.clone() }).collect()),
    };
    let arith = if one.packing == Packing::Byte { Arith::Max } else { Arith::FMax };
    let maxima = lines[..one.taken].iter().map(|line| {
        let Step::With { other, .. } = line.step else { return line.clone() };
        Line { input: line.input, step: Step::With { arith, other, reversed: false } }
    });
    changed.kernels[one.number].work =
        Work::Chain { inputs: views, lines: maxima.collect(), streams: vec![inputs.len() + one.taken - 1] };
    let before = Work::Chain { inputs: vec![view], lines: behind, streams: vec![last] };
    let at = if over == narrow { maker + 1 } else { maker };
    changed.kernels.insert(at, Kernel { work: before, results: vec![narrow] });
    Some(changed)
}

/// Whether a move carries runs of whole granules, if they are narrow.
fn is_even_part(part: &Part, packing: Packing) -> bool {
    let side = |of: &dyn Fn(&(u64, i64, i64)) -> i64| {
        part.loops.iter().map(|row| (row.0, of(row))).collect::<Vec<(u64, i64)>>()
    };
    is_even(&side(&|row| row.1), part.from_first, packing)
        && is_even(&side(&|row| row.2), part.to_first, packing)
}
