//! What several engines share: loops of sequencers, loops of steps, and limits.

use std::fmt::Write as _;

use tilewright_ir::{Args, Bracket, Kind, Read, Sign, print};

use super::names::{NameSpelling, ProgramNames};
use crate::program::exec::{Limit, Loop, SliceDigit, StepLoop};
use crate::program::vector::ReduceLimit;

/// `(SIZE:STRIDE)*`
pub(super) fn read_loops(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<Vec<Loop>> {
    args.repeated(|group| {
        let size = names.count(group)?;
        group.sign(Sign::Colon)?;
        Ok(Loop { size, stride: group.signed("a stride")? })
    })
}

pub(super) fn print_loops(loops: &[Loop], spell: NameSpelling<'_>) -> String {
    let mut text = String::new();
    for row in loops {
        let _ = write!(text, "({}:{})", spell.count(row.size), row.stride);
    }
    text
}

/// `SIZE sum(SIZE) ..`
pub(super) fn read_steps(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<Vec<StepLoop>> {
    let mut steps = Vec::new();
    while !args.is_empty() {
        let mut ahead = args.clone();
        let inner = if ahead.eat_word("sum") { ahead.group(Bracket::Round) } else { None };
        steps.push(match inner {
            Some(mut inner) => {
                *args = ahead;
                let size = names.count(&mut inner)?;
                inner.done()?;
                StepLoop { size, summed: true }
            }
            None => StepLoop { size: names.count(args)?, summed: false },
        });
    }
    Ok(steps)
}

pub(super) fn print_steps(steps: &[StepLoop], spell: NameSpelling<'_>) -> String {
    let spelled = steps.iter().map(|step| match (step.summed, spell.count(step.size)) {
        (true, size) => format!("sum({size})"),
        (false, size) => size,
    });
    spelled.collect::<Vec<_>>().join(" ")
}

/// `SIZE slices (SIZE:STRIDE:WEIGHT)* weights [..]`
pub(super) fn read_limit(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<Limit> {
    let extent = names.count(args)?;
    let slices = if args.eat_word("slices") { args.repeated(read_slice_digit)? } else { Vec::new() };
    let weights = if args.eat_word("weights") { read_weights(args)? } else { Vec::new() };
    Ok(Limit { extent, slices, weights })
}

fn read_weights(args: &mut Args<'_>) -> Read<Vec<u64>> {
    args.list("a list of weights", |item| item.unsigned("a weight"))
}

fn read_slice_digit(group: &mut Args<'_>) -> Read<SliceDigit> {
    let size = group.unsigned("a number of values")?;
    group.sign(Sign::Colon)?;
    let stride = group.unsigned("slices between neighbours")?;
    group.sign(Sign::Colon)?;
    Ok(SliceDigit { stride, size, weight: group.unsigned("a weight")? })
}

pub(super) fn print_limit(limit: &Limit, spell: NameSpelling<'_>) -> String {
    let mut text = spell.count(limit.extent);
    if !limit.slices.is_empty() {
        text.push_str(" slices ");
    }
    for digit in &limit.slices {
        let _ = write!(text, "({}:{}:{})", digit.size, digit.stride, digit.weight);
    }
    if !limit.weights.is_empty() {
        let _ = write!(text, " weights {}", print::list(&limit.weights, u64::to_string));
    }
    text
}

/// The same with `element N` at the end.
pub(super) fn read_reduce_limit(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<ReduceLimit> {
    let Limit { extent, slices, weights } = read_limit(args, names)?;
    let element = if args.eat_word("element") { args.unsigned("a weight")? } else { 0 };
    Ok(ReduceLimit { extent, slices, weights, element })
}

pub(super) fn print_reduce_limit(limit: &ReduceLimit, spell: NameSpelling<'_>) -> String {
    let ReduceLimit { extent, slices, weights, element } = limit.clone();
    let mut text = print_limit(&Limit { extent, slices, weights }, spell);
    if element != 0 {
        let _ = write!(text, " element {element}");
    }
    text
}

/// `at BYTE`
pub(super) fn read_at(args: &mut Args<'_>) -> Read<u64> {
    args.keyword("at")?;
    args.unsigned("a byte offset")
}

/// Whether the next value is a number.
pub(super) fn number_next(args: &Args<'_>) -> bool {
    matches!(args.kind(), Some(Kind::Integer { .. } | Kind::Float))
}
