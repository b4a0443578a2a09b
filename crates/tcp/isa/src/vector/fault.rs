//! What can be wrong with a chain of the vector engine. `at` counts operations from 0.

use thiserror::Error;

use super::unit::VeUnit;
use crate::program::vector::{ReduceOp, Word};

/// A rule that a chain breaks.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named in the messages")]
pub enum VectorFault {
    /// An operation of an earlier stage comes later.
    #[error("operation {at} belongs to an earlier stage than the one before it")]
    StageOrder { at: usize },
    /// A unit is used again.
    #[error("operation {at} uses {unit:?} again; each unit runs once in a command")]
    UnitTwice { at: usize, unit: VeUnit },
    /// The words that arrive are of the wrong type.
    #[error("operation {at} does not take {found:?} words; convert them first")]
    WordType { at: usize, found: Word },
    /// Too few or too many operands.
    #[error("operation {at} takes {needed} operands, not {found}")]
    OperandCount { at: usize, needed: usize, found: usize },
    /// An operand has no source.
    #[error("an operand of operation {at} has no source")]
    NoSource { at: usize },
    /// An operation whose operands cannot change places is marked as reversed.
    #[error("operation {at} cannot be reversed; only differences and quotients can")]
    Reversed { at: usize },
    /// An integer width above 31.
    #[error("operation {at} has {int_width} integer bits; at most 31")]
    IntWidth { at: usize, int_width: u32 },
    /// Too many immediates.
    #[error("operation {at} has {found} immediates; at most {most}")]
    Immediates { at: usize, found: u64, most: u64 },
    /// More than one read of register file or stash.
    #[error("operation {at} reads register file or stash {found} times; there is one port")]
    Ports { at: usize, found: usize },
    /// Too many comparisons.
    #[error("{found} comparisons set tags; at most {most}")]
    Comparisons { found: usize, most: u64 },
    /// A guard that asks for bits a tag does not have, or for set bits that it does not look at.
    #[error("a guard of operation {at} asks for {value:#x} under {mask:#x}, which no tag has")]
    Guard { at: usize, mask: u8, value: u8 },
    /// A guard or filter behind a reduction, which has no tags.
    #[error("operation {at} asks for tags behind a reduction, which has none")]
    TagsLost { at: usize },
    /// A second stash.
    #[error("operation {at} keeps a second stash; there is one in a command")]
    StashTwice { at: usize },
    /// The stash is kept and never read.
    #[error("the stash of operation {at} is never read")]
    StashUnread { at: usize },
    /// The stash is read again.
    #[error("operation {at} reads the stash again; it is read once")]
    StashReadTwice { at: usize },
    /// The stash is read where none was kept before.
    #[error("operation {at} reads a stash that was not kept before")]
    StashMissing { at: usize },
    /// The stash holds words of the other type.
    #[error("operation {at} reads a stash of {kept:?} words")]
    StashWord { at: usize, kept: Word },
    /// A reduction or the join of the two groups lies between keeping and reading.
    #[error("operation {at} reads a stash from before a reduction or join")]
    StashShape { at: usize },
    /// A pair operand without pair mode.
    #[error("operation {at} has a pair operand, but the stream has no two groups")]
    PairOutside { at: usize },
    /// A second pair operand.
    #[error("operation {at} joins the groups again")]
    PairTwice { at: usize },
    /// Pair mode without a pair operand.
    #[error("no operation joins the two groups of pair mode")]
    PairMissing,
    /// A reduction before the groups are joined.
    #[error("operation {at} reduces before the two groups are joined")]
    ReduceBeforePair { at: usize },
    /// A reduction that the word type does not have within a slice.
    #[error("operation {at}: no {op:?} of {word:?} words within a slice")]
    ReduceOp { at: usize, op: ReduceOp, word: Word },
    /// A reduction that the word type does not have between slices.
    #[error("no {op:?} of {word:?} words between slices")]
    BetweenOp { op: ReduceOp, word: Word },
    /// Slices of a group are not a power of two.
    #[error("{slices} slices cannot be reduced; groups are powers of two")]
    BetweenSlices { slices: u64 },
    /// A scatter of zero flits.
    #[error("a scatter of zero flits")]
    ScatterEmpty,
    /// A loop runs zero times.
    #[error("a loop of operation {at} runs zero times")]
    LoopEmpty { at: usize },
    /// Low and high halves of a flit cannot be distinguished: the innermost loop is odd.
    #[error("the innermost loop of operation {at} must be even: flits enter in halves")]
    Halves { at: usize },
    /// A limit has not one weight for each loop.
    #[error("limit {limit} of operation {at} needs one weight for each loop")]
    LimitWeights { at: usize, limit: usize },
    /// Too many results open at once.
    #[error("operation {at} keeps {found} results open; at most {most}")]
    Slots { at: usize, found: u64, most: u64 },
    /// Too many limits that do not count elements.
    #[error("operation {at} has {found} limits over time; at most {most}")]
    TimeFilters { at: usize, found: u64, most: u64 },
    /// Too many limits that count elements.
    #[error("operation {at} has {found} limits over elements; at most {most}")]
    PacketClippers { at: usize, found: u64, most: u64 },
    /// Too many loops for a sequencer.
    #[error("operation {at} has {found} loops; a sequencer has {most}")]
    SequencerLoops { at: usize, found: u64, most: u64 },
    /// A loop too long for a sequencer.
    #[error("operation {at} has a loop of {found}; at most {most}")]
    SequencerSize { at: usize, found: u64, most: u64 },
    /// A register file address that is no multiple of a word.
    #[error("operation {at} reads from byte {base}, which is no multiple of a word")]
    VrfAlignment { at: usize, base: u64 },
    /// A register file address outside the file.
    #[error("operation {at} reads byte {byte} of a register file of {capacity}")]
    VrfRange { at: usize, byte: i64, capacity: u64 },
    /// The register file's loops give more or fewer words than elements enter.
    #[error("operation {at} reads {found} words for {needed} elements")]
    VrfElements { at: usize, found: u64, needed: u64 },
    /// The reduction's loops give more or fewer steps than halves of flits enter.
    #[error("operation {at} has {found} steps for {needed} halves of flits")]
    ReduceSteps { at: usize, found: u64, needed: u64 },
    /// An odd number of flits in pair mode.
    #[error("operation {at} cannot join {flits} flits in pairs")]
    PairFlits { at: usize, flits: u64 },
    /// Flits that a scatter cannot distribute evenly.
    #[error("{flits} flits cannot be scattered evenly in periods of {period}")]
    ScatterFlits { flits: u64, period: u64 },
    /// Sizes that are not known yet or do not fit 64 bits.
    #[error("a size of operation {at} is not known or too large")]
    Size { at: usize },
}
