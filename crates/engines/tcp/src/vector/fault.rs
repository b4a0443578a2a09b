//! What can be wrong with a chain of the vector engine. `at` counts operations from 0.

use std::fmt;

use super::unit::VeUnit;
use crate::program::vector::{ReduceOp, Word};

/// A rule that a chain breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named in the messages")]
pub enum Fault {
    /// An operation of an earlier stage comes later.
    StageOrder { at: usize },
    /// A unit is used again.
    UnitTwice { at: usize, unit: VeUnit },
    /// The words that arrive are of the wrong type.
    WordType { at: usize, found: Word },
    /// Too few or too many operands.
    OperandCount { at: usize, needed: usize, found: usize },
    /// An operand has no source.
    NoSource { at: usize },
    /// An operation whose operands cannot change places is marked as reversed.
    Reversed { at: usize },
    /// An integer width above 31.
    IntWidth { at: usize, int_width: u32 },
    /// Too many immediates.
    Immediates { at: usize, found: u64, most: u64 },
    /// More than one read of register file or stash.
    Ports { at: usize, found: usize },
    /// Too many comparisons.
    Comparisons { found: usize, most: u64 },
    /// A guard that asks for bits a tag does not have, or for set bits that it does not look at.
    Guard { at: usize, mask: u8, value: u8 },
    /// A guard or filter behind a reduction, which has no tags.
    TagsLost { at: usize },
    /// A second stash.
    StashTwice { at: usize },
    /// The stash is kept and never read.
    StashUnread { at: usize },
    /// The stash is read again.
    StashReadTwice { at: usize },
    /// The stash is read where none was kept before.
    StashMissing { at: usize },
    /// The stash holds words of the other type.
    StashWord { at: usize, kept: Word },
    /// A reduction or the join of the two groups lies between keeping and reading.
    StashShape { at: usize },
    /// A pair operand without pair mode.
    PairOutside { at: usize },
    /// A second pair operand.
    PairTwice { at: usize },
    /// Pair mode without a pair operand.
    PairMissing,
    /// A reduction before the groups are joined.
    ReduceBeforePair { at: usize },
    /// A reduction that the word type does not have within a slice.
    ReduceOp { at: usize, op: ReduceOp, word: Word },
    /// A reduction that the word type does not have between slices.
    BetweenOp { op: ReduceOp, word: Word },
    /// Slices of a group are not a power of two.
    BetweenSlices { slices: u64 },
    /// A scatter of zero flits.
    ScatterEmpty,
    /// A loop runs zero times.
    LoopEmpty { at: usize },
    /// Low and high halves of a flit cannot be told apart: the innermost loop is odd.
    Halves { at: usize },
    /// A limit has not one weight for each loop.
    LimitWeights { at: usize, limit: usize },
    /// Too many results open at once.
    Slots { at: usize, found: u64, most: u64 },
    /// Too many limits that do not count elements.
    TimeFilters { at: usize, found: u64, most: u64 },
    /// Too many limits that count elements.
    PacketClippers { at: usize, found: u64, most: u64 },
    /// Too many loops for a sequencer.
    SequencerLoops { at: usize, found: u64, most: u64 },
    /// A loop too long for a sequencer.
    SequencerSize { at: usize, found: u64, most: u64 },
    /// A register file address that is no multiple of a word.
    VrfAlignment { at: usize, base: u64 },
    /// A register file address outside the file.
    VrfRange { at: usize, byte: i64, capacity: u64 },
    /// The register file's loops give more or fewer words than elements enter.
    VrfElements { at: usize, found: u64, needed: u64 },
    /// The reduction's loops give more or fewer steps than halves of flits enter.
    ReduceSteps { at: usize, found: u64, needed: u64 },
    /// An odd number of flits in pair mode.
    PairFlits { at: usize, flits: u64 },
    /// Flits that a scatter cannot deal out evenly.
    ScatterFlits { flits: u64, period: u64 },
    /// Sizes that are not known yet or do not fit 64 bits.
    Size { at: usize },
}

impl fmt::Display for Fault {
    #[expect(clippy::too_many_lines, reason = "one line a rule")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::StageOrder { at } => {
                write!(f, "operation {at} belongs to an earlier stage than the one before it")
            }
            Fault::UnitTwice { at, unit } => {
                write!(f, "operation {at} uses {unit:?} again; each unit runs once in a command")
            }
            Fault::WordType { at, found } => {
                write!(f, "operation {at} does not take {found:?} words; convert them first")
            }
            Fault::OperandCount { at, needed, found } => {
                write!(f, "operation {at} takes {needed} operands, not {found}")
            }
            Fault::NoSource { at } => write!(f, "an operand of operation {at} has no source"),
            Fault::Reversed { at } => {
                write!(f, "operation {at} cannot be reversed; only differences and quotients can")
            }
            Fault::IntWidth { at, int_width } => {
                write!(f, "operation {at} has {int_width} integer bits; at most 31")
            }
            Fault::Immediates { at, found, most } => {
                write!(f, "operation {at} has {found} immediates; at most {most}")
            }
            Fault::Ports { at, found } => {
                write!(f, "operation {at} reads register file or stash {found} times; there is one port")
            }
            Fault::Comparisons { found, most } => write!(f, "{found} comparisons set tags; at most {most}"),
            Fault::Guard { at, mask, value } => {
                write!(f, "a guard of operation {at} asks for {value:#x} under {mask:#x}, which no tag has")
            }
            Fault::TagsLost { at } => {
                write!(f, "operation {at} asks for tags behind a reduction, which has none")
            }
            Fault::StashTwice { at } => {
                write!(f, "operation {at} keeps a second stash; there is one in a command")
            }
            Fault::StashUnread { at } => write!(f, "the stash of operation {at} is never read"),
            Fault::StashReadTwice { at } => {
                write!(f, "operation {at} reads the stash again; it is read once")
            }
            Fault::StashMissing { at } => write!(f, "operation {at} reads a stash that was not kept before"),
            Fault::StashWord { at, kept } => write!(f, "operation {at} reads a stash of {kept:?} words"),
            Fault::StashShape { at } => {
                write!(f, "operation {at} reads a stash from before a reduction or join")
            }
            Fault::PairOutside { at } => {
                write!(f, "operation {at} has a pair operand, but the stream has no two groups")
            }
            Fault::PairTwice { at } => write!(f, "operation {at} joins the groups again"),
            Fault::PairMissing => f.write_str("no operation joins the two groups of pair mode"),
            Fault::ReduceBeforePair { at } => {
                write!(f, "operation {at} reduces before the two groups are joined")
            }
            Fault::ReduceOp { at, op, word } => {
                write!(f, "operation {at}: no {op:?} of {word:?} words within a slice")
            }
            Fault::BetweenOp { op, word } => write!(f, "no {op:?} of {word:?} words between slices"),
            Fault::BetweenSlices { slices } => {
                write!(f, "{slices} slices cannot be reduced; groups are powers of two")
            }
            Fault::ScatterEmpty => f.write_str("a scatter of zero flits"),
            Fault::LoopEmpty { at } => write!(f, "a loop of operation {at} runs zero times"),
            Fault::Halves { at } => {
                write!(f, "the innermost loop of operation {at} must be even: flits enter in halves")
            }
            Fault::LimitWeights { at, limit } => {
                write!(f, "limit {limit} of operation {at} needs one weight for each loop")
            }
            Fault::Slots { at, found, most } => {
                write!(f, "operation {at} keeps {found} results open; at most {most}")
            }
            Fault::TimeFilters { at, found, most } => {
                write!(f, "operation {at} has {found} limits over time; at most {most}")
            }
            Fault::PacketClippers { at, found, most } => {
                write!(f, "operation {at} has {found} limits over elements; at most {most}")
            }
            Fault::SequencerLoops { at, found, most } => {
                write!(f, "operation {at} has {found} loops; a sequencer has {most}")
            }
            Fault::SequencerSize { at, found, most } => {
                write!(f, "operation {at} has a loop of {found}; at most {most}")
            }
            Fault::VrfAlignment { at, base } => {
                write!(f, "operation {at} reads from byte {base}, which is no multiple of a word")
            }
            Fault::VrfRange { at, byte, capacity } => {
                write!(f, "operation {at} reads byte {byte} of a register file of {capacity}")
            }
            Fault::VrfElements { at, found, needed } => {
                write!(f, "operation {at} reads {found} words for {needed} elements")
            }
            Fault::ReduceSteps { at, found, needed } => {
                write!(f, "operation {at} has {found} steps for {needed} halves of flits")
            }
            Fault::PairFlits { at, flits } => write!(f, "operation {at} cannot join {flits} flits in pairs"),
            Fault::ScatterFlits { flits, period } => {
                write!(f, "{flits} flits cannot be dealt out in rounds of {period}")
            }
            Fault::Size { at } => write!(f, "a size of operation {at} is not known or too large"),
        }
    }
}
