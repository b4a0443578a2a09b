//! What the vector engine computes: every slice's words through the chain, then between slices (vISA book, vector engine).
//!
//! Operations run one after the other over all words of some slices, so that each is a plain loop. Floats are settled by the rule set as
//! they enter a unit and leave it; an element that no guard matches passes as it is. Assumptions, besides those of `vector`:
//!
//! - fused multiply-add is `element * first + second`, rounded once; functions are correctly rounded (`tilewright_num::Function`);
//! - shifts by more than 31 follow the same arithmetic: logical ones give 0, arithmetic ones the sign;
//! - the clip unit's integer sum wraps; maxima and minima of floats let NaN give way and put minus zero below plus zero;
//! - in pair mode the first of two flits is the stream's element, the second the pair operand; the result has the first one's tag;
//! - half flits that narrow stages leave out come back as zeros, with an empty tag;
//! - a reduction settles what enters; tags end there.

mod between;
mod filter;
mod operand;
mod ops;
mod reduce;
mod stream;

use std::fmt;
use std::ops::Range;

use tilewright_num::RuleSet;

use super::parallel::map;
use crate::program::vector::{Op, OpKind, Vector, Word};
use crate::vector::shape::{joins, shapes};
use crate::vector::unit::{gives, stage};
use crate::vector::{FLIT_WORDS, Fault, reads, structure};
use stream::Stream;

/// Words of a flit, as a length.
#[expect(clippy::cast_possible_truncation, reason = "it is 8")]
const FLIT: usize = FLIT_WORDS as usize;
/// Words of as many slices as go through the chain together, so that they stay in a near cache.
const TOGETHER_WORDS: usize = 1 << 12;
/// Words of half a flit, as a length.
#[expect(clippy::cast_possible_truncation, reason = "it is 4")]
const HALF: usize = crate::vector::HALF_WORDS as usize;

/// Why a chain gives no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorError {
    /// The chain is not legal, or does not fit the stream.
    Fault(Fault),
    /// A slice's words are no whole flits, or not as many as the first one's.
    Words {
        /// Which slice.
        slice: usize,
        /// How many words.
        found: usize,
    },
    /// The number of slices is no multiple of the groups that the reducer combines.
    Slices {
        /// How many.
        found: usize,
        /// Slices of a group.
        group: u64,
    },
    /// A read outside a slice's register file.
    Vrf {
        /// Which slice.
        slice: usize,
        /// Which operation.
        at: usize,
    },
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorError::Fault(fault) => fault.fmt(f),
            VectorError::Words { slice, found } => {
                write!(f, "slice {slice} has {found} words: all slices have the same number of whole flits")
            }
            VectorError::Slices { found, group } => {
                write!(f, "{found} slices are no whole groups of {group}")
            }
            VectorError::Vrf { slice, at } => {
                write!(f, "operation {at} reads past the register file of slice {slice}")
            }
        }
    }
}

impl std::error::Error for VectorError {}

impl From<Fault> for VectorError {
    fn from(fault: Fault) -> Self {
        VectorError::Fault(fault)
    }
}

/// Runs a chain over the words of all slices of a group: 8 to a flit, in time order. `vrf` holds each slice's register file.
///
/// # Errors
/// A chain that is not legal on any machine, streams that it does not fit, reads outside a register file.
pub fn apply(
    rules: &RuleSet,
    vector: &Vector,
    mut slices: Vec<Vec<u32>>,
    vrf: &[&[u8]],
) -> Result<Vec<Vec<u32>>, VectorError> {
    if let Some(fault) = structure(vector).first() {
        return Err((*fault).into());
    }
    let words = slices.first().map_or(0, Vec::len);
    for (slice, found) in slices.iter().map(Vec::len).enumerate() {
        if found != words || !found.is_multiple_of(FLIT) {
            return Err(VectorError::Words { slice, found });
        }
    }
    shapes(vector, (words / FLIT) as u64)?;
    if let (Some(reducer), true) = (vector.between, vector.between_first) {
        slices = between::apply(rules, reducer, vector.input, slices)?;
    }
    if vector.ops.is_empty() {
        return match (vector.between, vector.between_first) {
            (Some(reducer), false) => between::apply(rules, reducer, vector.input, slices),
            _ => Ok(slices),
        };
    }
    let alike = alike(vector, &slices, vrf);
    let mut files = Vec::new();
    if let Some(firsts) = &alike {
        let own = |slice: usize| slice == 0 || firsts.get(slice) != firsts.get(slice - 1);
        files = vrf.iter().enumerate().filter(|(slice, _)| own(*slice)).map(|(_, file)| *file).collect();
        let mut slice = 0..;
        slices.retain(|_| slice.next().is_some_and(own));
    }
    let vrf = if alike.is_some() { files.as_slice() } else { vrf };
    let mut word = vector.input;
    let steps = words.saturating_mul(slices.len()).saturating_mul(vector.ops.len() + 1) as u64;
    let all = slices.len();
    let together = (TOGETHER_WORDS / words.max(1)).clamp(1, all.max(1));
    let mut left = slices.into_iter();
    let mut parts: Vec<Vec<Vec<u32>>> = Vec::new();
    while left.len() > 0 {
        parts.push(left.by_ref().take(together).collect());
    }
    let done = map(parts, steps, |number, part: Vec<Vec<u32>>| {
        let chain = Chain { rules, vector, first: number * together, slices: part.len(), vrf };
        chain.run(joined(part))
    });
    let mut slices = Vec::with_capacity(all);
    for (number, result) in done.into_iter().enumerate() {
        let (words, leaving) = result.map_err(|error| located(error, alike.as_deref()))?;
        let count = together.min(all.saturating_sub(number * together)).max(1);
        split(words, count, &mut slices);
        word = leaving;
    }
    if let Some(firsts) = alike {
        slices = firsts.iter().map(|first| slices.get(*first).cloned().unwrap_or_default()).collect();
    }
    match (vector.between, vector.between_first) {
        (Some(reducer), false) => between::apply(rules, reducer, word, slices),
        _ => Ok(slices),
    }
}

/// Bytes of register files that are looked at for every byte that goes through the chain, at most: more cost as much as the chain.
const COMPARED: usize = 4;

/// Whether a chain does something else on other slices.
pub(super) fn counts_slices(vector: &Vector) -> bool {
    let counts = |op: &Op| match &op.kind {
        OpKind::Reduce(reduce) => reduce.limits.iter().any(|limit| !limit.slices.is_empty()),
        _ => false,
    };
    vector.ops.iter().any(counts)
}

/// As much of a part as a memory has.
pub(super) fn part<'m>(memory: &'m [u8], part: &Range<usize>) -> &'m [u8] {
    let end = part.end.min(memory.len());
    memory.get(part.start.min(end)..end).unwrap_or_default()
}

/// Slices on which the chain does what it does on the one before, numbered by the first of them: same words, same register files, and
/// nothing that counts slices. `None` if there are few.
fn alike(vector: &Vector, slices: &[Vec<u32>], vrf: &[&[u8]]) -> Option<Vec<usize>> {
    let reads = reads(vector);
    let costly = slices.first().is_none_or(|words| words.len().saturating_mul(4 * COMPARED) < reads.len());
    if vrf.len() != slices.len() || counts_slices(vector) || costly {
        return None;
    }
    let read = |slice: usize| vrf.get(slice).map(|file| part(file, &reads));
    let mut number = 0;
    let mut numbers = vec![0; slices.len()];
    for slice in 1..slices.len() {
        let same = slices[slice] == slices[slice - 1] && read(slice) == read(slice - 1);
        number += usize::from(!same);
        numbers[slice] = number;
        // Most slices are alike, or it does not pay.
        if 2 * number > slices.len() {
            return None;
        }
    }
    (number + 1 < slices.len()).then_some(numbers)
}

/// An error with the number of the slice that it was found on.
fn located(error: VectorError, alike: Option<&[usize]>) -> VectorError {
    match (error, alike) {
        (VectorError::Vrf { slice, at }, Some(numbers)) => {
            let first = numbers.iter().position(|number| *number == slice);
            VectorError::Vrf { slice: first.unwrap_or(slice), at }
        }
        (error, _) => error,
    }
}

/// Words of all slices of a part, one after the other.
fn joined(mut part: Vec<Vec<u32>>) -> Vec<u32> {
    match part.len() {
        1 => part.pop().unwrap_or_default(),
        _ => part.concat(),
    }
}

/// The words of each of so many slices that have as many.
fn split(words: Vec<u32>, slices: usize, all: &mut Vec<Vec<u32>>) {
    if slices == 1 {
        all.push(words);
        return;
    }
    let each = words.len() / slices;
    all.extend((0..slices).map(|slice| words[slice * each..(slice + 1) * each].to_vec()));
}

/// The chain on some neighbouring slices.
struct Chain<'a> {
    rules: &'a RuleSet,
    vector: &'a Vector,
    /// The first of them, and how many.
    first: usize,
    slices: usize,
    /// Register files of all slices of the group.
    vrf: &'a [&'a [u8]],
}

impl Chain<'_> {
    fn run(&self, words: Vec<u32>) -> Result<(Vec<u32>, Word), VectorError> {
        let mut stream = Stream::new(self.rules, self.vector, words);
        let mut word = self.vector.input;
        let mut narrow = false;
        for (at, op) in self.vector.ops.iter().enumerate() {
            match (std::mem::replace(&mut narrow, stage(&op.kind).narrow()), narrow) {
                (false, true) if self.vector.trim => stream.trim(),
                (true, false) => stream.widen(),
                _ => {}
            }
            if op.stash {
                stream.stash = Some(stream.words.clone());
            }
            let pair = if joins(op) { stream.split_pair() } else { Vec::new() };
            match &op.kind {
                OpKind::Reduce(reduce) => {
                    let slices = self.first..self.first + self.slices;
                    reduce::apply(self.rules, reduce, word, slices, &mut stream);
                }
                OpKind::Filter { mask, value } => filter::apply(*mask, *value, &mut stream),
                _ => {
                    let operands = self.operands(at, op, &stream, &pair)?;
                    ops::apply(self.rules, op, word, &operands, &mut stream.words);
                }
            }
            word = gives(&op.kind, word);
        }
        stream.widen();
        Ok((stream.words, word))
    }
}
