//! Moves into padding, and words put between others, as chains: every place reads what lies there or beside
//! it, and a mask for each axis leaves nothing of what is beside. Within HBM such rows would be written in
//! parts of access units, or word by word.

use tilewright_graph::Dtype;
use tilewright_machine::tcp::Tcp;

use super::kernel::{Kernel, Kernels, Origin, Packing, Part, Value, Work};
use super::legal::{KERNEL_CYCLES, LEAST_CYCLES, cycles};
use super::link;
use super::view::{View, signed};
use super::words::{Arith, Line, Other, Step};

/// Positions of an axis that a mask is made for, at most.
const MOST_MASKED: u64 = 1 << 16;

/// What is around what is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// One pattern.
    Word(u32),
    /// The only word of a value, from an element on.
    Scalar(usize, i64),
}

/// An axis of the result: its positions, those that are moved and where they begin, and from one to the next
/// where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    all: u64,
    first: u64,
    live: u64,
    from: i64,
}

/// The chain that does what a move does, if that takes less.
pub(super) fn masked(machine: &Tcp, pes: u64, all: &mut Kernels, kernel: &Kernel) -> Option<Kernel> {
    let (Work::Move(parts), [to]) = (&kernel.work, &kernel.results[..]) else { return None };
    let (main, fill) = inside(all, parts, *to)?;
    let words = |value: usize| all.values[value].packing == Packing::Words;
    let moved_cycles =
        KERNEL_CYCLES + link::shared_cycles(machine, parts, all.values[*to].element_bytes(), pes);
    if !words(*to) || !words(main.from) || moved_cycles <= LEAST_CYCLES || in_parts(all, main.from) {
        return None;
    }
    let axes = axes(main, all.values[*to].count())?;
    let known = all.values.len();
    let work = chain(all, main, &axes, fill);
    let made = Kernel { work, results: vec![*to] };
    let is_less = cycles(machine, pes, all, &made).is_some_and(|own| own < moved_cycles);
    if !is_less {
        all.values.truncate(known);
        return None;
    }
    all.values[*to].origin = Origin::Kernel;
    Some(made)
}

/// Whether a value lies in another one, or others in it.
fn in_parts(all: &Kernels, value: usize) -> bool {
    let has = |one: &Value| matches!(&one.origin, Origin::Parts(parts) if parts.contains(&value));
    matches!(all.values[value].origin, Origin::Parts(_)) || all.values.iter().any(has)
}

/// The part that is moved inside of others of one word.
fn inside<'p>(all: &Kernels, parts: &'p [Part], to: usize) -> Option<(&'p Part, Fill)> {
    let elements = |part: &Part| part.loops.iter().map(|row| row.0).product::<u64>();
    let main = parts.iter().max_by_key(|part| elements(part))?;
    match (&all.values[to].origin, parts) {
        (Origin::Filled(word), [_]) => Some((main, Fill::Word(*word))),
        (Origin::Kernel, [_, _, ..]) => {
            let others = || parts.iter().filter(|part| !std::ptr::eq(*part, main));
            let of = |part: &Part| (part.from, part.from_first);
            let fill = others().map(of).next()?;
            let same =
                |part: &Part| of(part) == fill && part.loops.iter().all(|row| row.0 == 1 || row.1 == 0);
            let whole = parts.iter().map(elements).sum::<u64>() == all.values[to].count();
            let scalar = all.values[fill.0].packing == Packing::Words && !in_parts(all, fill.0);
            (whole && scalar && others().all(same)).then_some((main, Fill::Scalar(fill.0, fill.1)))
        }
        _ => None,
    }
}

/// Axes of the result as the loops of a part walk them, outermost first; `None` if they do not.
fn axes(part: &Part, elements: u64) -> Option<Vec<Axis>> {
    let mut loops: Vec<(u64, i64, i64)> = part.loops.iter().copied().filter(|row| row.0 > 1).collect();
    loops.sort_by_key(|row| std::cmp::Reverse(row.2));
    if loops.last().is_none_or(|row| row.2 > 1) {
        loops.push((1, 0, 1));
    }
    let (mut around, mut left) = (elements, u64::try_from(part.to_first).ok()?);
    let mut all = Vec::new();
    for (live, from, to) in loops {
        let step = u64::try_from(to).ok().filter(|step| *step > 0 && around.is_multiple_of(*step))?;
        let axis = Axis { all: around / step, first: left / step, live, from };
        if axis.first + axis.live > axis.all {
            return None;
        }
        (around, left) = (step, left % step);
        all.push(axis);
    }
    all.retain(|axis| axis.all > 1);
    let is_masked = |axis: &&Axis| axis.live < axis.all;
    let fits = all.iter().filter(is_masked).all(|axis| axis.all <= MOST_MASKED);
    (fits && all.iter().any(|axis| axis.live < axis.all)).then_some(all)
}

/// The chain: what is moved under all masks, or the fill where one of them has nothing.
fn chain(all: &mut Kernels, part: &Part, axes: &[Axis], fill: Fill) -> Work {
    let before: i64 = axes.iter().map(|axis| signed(axis.first) * axis.from).sum();
    let whole = axes.iter().map(|axis| (axis.all, axis.from)).collect();
    let mut inputs = vec![View { value: part.from, first: part.from_first - before, axes: whole }];
    let cut: Vec<usize> = (0..axes.len()).filter(|at| axes[*at].live < axes[*at].all).collect();
    for at in &cut {
        inputs.push(mask(all, axes, *at, [u32::MAX, 0]));
    }
    match fill {
        Fill::Word(0) => {}
        Fill::Word(word) => {
            for at in &cut {
                inputs.push(mask(all, axes, *at, [0, word]));
            }
        }
        Fill::Scalar(value, first) => {
            for at in &cut {
                inputs.push(mask(all, axes, *at, [0, u32::MAX]));
            }
            inputs.push(View { value, first, axes: axes.iter().map(|axis| (axis.all, 0)).collect() });
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    let given = inputs.len();
    let mut with = |input: usize, arith: Arith, other: usize| {
        lines.push(Line { input, step: Step::With { arith, other: Other::Stream(other), reversed: false } });
        given + lines.len() - 1
    };
    let live = (1..=cut.len()).fold(0, |stream, mask| with(stream, Arith::And, mask));
    let outer = cut.len() + 1..2 * cut.len() + 1;
    let last = match fill {
        Fill::Word(0) => live,
        Fill::Word(_) => outer.fold(live, |stream, fill| with(stream, Arith::Or, fill)),
        Fill::Scalar(..) => {
            let around =
                outer.clone().skip(1).fold(outer.start, |stream, mask| with(stream, Arith::Or, mask));
            let filled = with(given - 1, Arith::And, around);
            with(live, Arith::Or, filled)
        }
    };
    Work::Chain { inputs, lines, streams: vec![last] }
}

/// A word for each position of an axis: one for those that are moved, one for others.
fn mask(all: &mut Kernels, axes: &[Axis], at: usize, [live, other]: [u32; 2]) -> View {
    let axis = axes[at];
    let inside = |place: u64| (axis.first..axis.first + axis.live).contains(&place);
    let words: Vec<u32> = (0..axis.all).map(|place| if inside(place) { live } else { other }).collect();
    let (dtype, packing) = (Dtype::I32, Packing::Words);
    let origin = Origin::Constant(words);
    all.values.push(Value {
        name: "mask".to_string(),
        dims: vec![axis.all],
        dtype,
        packing,
        origin,
        host: None,
    });
    let mut view = View { value: all.values.len() - 1, first: 0, axes: Vec::new() };
    view.axes = axes.iter().enumerate().map(|(own, axis)| (axis.all, i64::from(own == at))).collect();
    view
}

#[cfg(test)]
mod tests {
    use super::super::view::count;
    use super::*;

    fn part(from_first: i64, to_first: i64, loops: &[(u64, i64, i64)]) -> Part {
        Part { from: 0, from_first, to_first, loops: loops.to_vec() }
    }

    /// Images of 4 x 6 inside of 6 x 8, and words before zeros.
    #[test]
    fn axes_are_those_that_loops_walk() {
        let padded = part(0, 9, &[(5, 24, 48), (4, 6, 8), (6, 1, 1)]);
        let axis = |all, first, live, from| Axis { all, first, live, from };
        assert_eq!(axes(&padded, 240), Some(vec![axis(5, 0, 5, 24), axis(6, 1, 4, 6), axis(8, 1, 6, 1)]));
        let stuffed = part(0, 0, &[(100, 1, 2)]);
        assert_eq!(axes(&stuffed, 200), Some(vec![axis(100, 0, 100, 1), axis(2, 0, 1, 0)]));
        // Nothing is around it, what is inside runs over, or loops are no axes.
        assert_eq!(axes(&part(0, 0, &[(10, 1, 1)]), 10), None);
        assert_eq!(axes(&part(0, 7, &[(4, 4, 8), (4, 1, 1)]), 32), None);
        assert_eq!(axes(&part(0, 0, &[(4, 4, 7), (4, 1, 2)]), 64), None);
    }

    /// What a chain gives of what it reads is what the move gives.
    #[test]
    fn chains_give_what_moves_give() {
        let rules = tilewright_num::RuleSet::TCP;
        let value = |dims: &[u64], origin: Origin| Value {
            name: "v".to_string(),
            dims: dims.to_vec(),
            dtype: Dtype::F32,
            packing: Packing::Words,
            origin,
            host: None,
        };
        let edge = |to_first: i64, rows: u64| part(0, to_first, &[(5, 0, 48), (rows * 8, 0, 1)]);
        let main = part(0, 16, &[(5, 32, 48), (32, 1, 1)]);
        let scalar = |one: Part| Part { from: 1, ..one };
        let cases = [
            (Origin::Filled(0), vec![part(0, 9, &[(5, 24, 48), (4, 6, 8), (6, 1, 1)])]),
            (Origin::Filled(0xFF80_0000), vec![part(0, 9, &[(5, 24, 48), (4, 6, 8), (6, 1, 1)])]),
            (Origin::Filled(7), vec![part(3, 1, &[(80, 1, 3)])]),
            (Origin::Kernel, vec![scalar(edge(0, 2)), main]),
        ];
        for (at, (origin, mut parts)) in cases.into_iter().enumerate() {
            if at == 3 {
                parts[0].loops = vec![(5, 0, 48), (16, 0, 1)];
            }
            let mut all = Kernels {
                values: vec![value(&[200], Origin::Input), value(&[1], Origin::Input), value(&[240], origin)],
                ..Kernels::default()
            };
            let (main, fill) = inside(&all, &parts, 2).expect("a part inside of others");
            let axes = axes(main, 240).expect("axes");
            let work = chain(&mut all, main, &axes, fill);
            let moved = Kernel { work: Work::Move(parts.clone()), results: vec![2] };
            all.kernels = vec![moved, Kernel { work, results: vec![2] }];
            let read = |value: usize| match &all.values[value].origin {
                Origin::Constant(words) => words.clone(),
                _ => {
                    (0..u32::try_from(count(&all.values[value].dims)).unwrap()).map(|at| at + 1000).collect()
                }
            };
            let given = |number: usize| super::super::reference::expected(&rules, &all, number, &read);
            assert_eq!(given(1), given(0), "case {at}");
        }
    }
}
