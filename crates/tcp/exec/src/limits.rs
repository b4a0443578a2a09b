//! How a command is followed, and how much of it is held at once.

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_machine::NumberRules;
use tilewright_machine::tcp::Tcp;
use tilewright_num::RuleSet;

use crate::fault::ExecProblem;

/// How a command is executed; both modes give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecMode {
    /// Element by element.
    Literal,
    /// Runs and whole streams at once, where registers are regular.
    Bulk,
}

/// The number rules that a machine computes by.
pub fn rules(machine: &Tcp) -> &'static RuleSet {
    match machine.numerics.rules {
        NumberRules::Tcp => &RuleSet::TCP,
        NumberRules::Neuron => &RuleSet::NEURON,
    }
}

/// Most elements, steps or bytes of one slice's part of a command; more are refused before memory is taken.
pub const MAX_SLICE: u64 = 1 << 32;

/// Most bytes of a command that are held at once, over all its slices.
pub const MAX_GROUP_BYTES: u64 = 1 << 32;

/// A count, checked before memory was taken for it, as an index.
pub(crate) fn index(value: u64) -> usize {
    to_index(value)
}

/// The largest first byte of a command: offsets of its loops, which stay as near, are added without overflow.
pub(crate) const MAX_BASE: u64 = 1 << 60;

/// A first byte, which an image may set to any number, as what offsets are added to.
pub(crate) fn base(what: &'static str, first: u64) -> Result<i64, ExecProblem> {
    if first > MAX_BASE {
        return Err(ExecProblem::TooFar { what, first, most: MAX_BASE });
    }
    Ok(checked_base(first))
}

/// A first byte that [`base`] has taken before.
pub(crate) fn checked_base(first: u64) -> i64 {
    i64::try_from(first).or_broken("a base was checked with the image")
}

/// How far nested loops reach from their first step, back and on; their span was checked.
pub(crate) fn reach(loops: impl Iterator<Item = (u64, i64)>) -> (i64, i64) {
    loops.fold((0, 0), |(low, high), (size, stride)| {
        // Without a stride, a loop may have any number of iterations.
        let steps = if stride == 0 { 0 } else { size.max(1).cast_signed().exact_sub(1) };
        let end = stride.exact_mul(steps);
        (low.exact_add(end.min(0)), high.exact_add(end.max(0)))
    })
}
