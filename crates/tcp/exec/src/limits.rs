//! How a command is followed, and how much of it is held at once.

use tilewright_base::invariant::to_index;
use tilewright_machine::NumberRules;
use tilewright_machine::tcp::Tcp;
use tilewright_num::RuleSet;

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
