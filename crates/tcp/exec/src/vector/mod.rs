//! What the vector engine computes: every slice's words through the chain, then between slices (vISA book,
//! vector engine).
//!
//! Operations run one after the other over all words of some slices, so that each is a plain loop. Floats are
//! settled by the rule set as they enter a unit and leave it; an element that no guard matches passes as it
//! is. Assumptions, besides those of `vector`:
//!
//! - fused multiply-add is `element * first + second`, rounded once; functions are correctly rounded
//!   (`tilewright_num::Function`);
//! - shifts by more than 31 follow the same arithmetic: logical ones give 0, arithmetic ones the sign;
//! - the clip unit's integer sum wraps; maxima and minima of floats let NaN give way and put minus zero below
//!   plus zero;
//! - in pair mode the first of two flits is the stream's element, the second the pair operand; the result has
//!   the first one's tag;
//! - half flits that narrow stages leave out come back as zeros, with an empty tag;
//! - a reduction settles what enters; tags end there.

mod filter;
mod inter_slice;
mod operand;
mod ops;
mod reduce;
mod stream;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tilewright_base::invariant::OrBroken;
use tilewright_num::RuleSet;
use tilewright_tcp_isa::capped::Capped;

use super::parallel::{is_shared, map};
use stream::WordStream;
use tilewright_tcp_isa::program::vector::{Op, OpKind, Vector, Word};
use tilewright_tcp_isa::vector::shape::{joins, shapes};
use tilewright_tcp_isa::vector::unit::{gives, stage};
use tilewright_tcp_isa::vector::{FLIT_WORDS, VectorFault, reads, structure};

/// Words of a flit, as a length.
#[expect(clippy::cast_possible_truncation, reason = "it is 8")]
const FLIT: usize = FLIT_WORDS as usize;
/// Words of as many slices as go through the chain together, so that they stay in a near cache.
const TOGETHER_WORDS: usize = 1 << 12;
/// Parts that shared slices go through the chain in, at least.
const PARTS: usize = 8;
/// Words of half a flit, as a length.
#[expect(clippy::cast_possible_truncation, reason = "it is 4")]
const HALF: usize = tilewright_tcp_isa::vector::HALF_WORDS as usize;

/// Why a chain gives no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorError {
    /// The chain is not legal, or does not fit the stream.
    Fault(VectorFault),
    /// A slice's words are no whole flits, or not as many as the first one's.
    Words {
        /// Which slice.
        slice: usize,
        /// How many words.
        found: usize,
    },
    /// The number of slices is no multiple of the groups that the reducer combines.
    Slices {
        /// How many there are.
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

impl From<VectorFault> for VectorError {
    fn from(fault: VectorFault) -> Self {
        VectorError::Fault(fault)
    }
}

/// A slice's words; slices with the same ones may share them.
pub(super) type SharedWords = Arc<Vec<u32>>;

/// Runs a chain over the words of all slices of a group: 8 to a flit, in time order. `vrf` holds each slice's
/// register file.
///
/// # Errors
/// A chain that is not legal on any machine, streams that it does not fit, reads outside a register file.
pub fn apply(
    rules: &RuleSet,
    vector: &Vector,
    slices: Vec<Vec<u32>>,
    vrf: &[&[u8]],
) -> Result<Vec<Vec<u32>>, VectorError> {
    let slices = slices.into_iter().map(Arc::new).collect();
    let done = apply_for(rules, vector, slices, vrf, &|_| true)?;
    Ok(done.into_iter().map(Arc::unwrap_or_clone).collect())
}

/// [`apply`] for some slices: others may be without words where slices are not reduced, and may leave
/// without.
///
/// # Errors
/// As [`apply`].
pub(super) fn apply_for(
    rules: &RuleSet,
    vector: &Vector,
    mut slices: Vec<SharedWords>,
    vrf: &[&[u8]],
    wanted: &dyn Fn(usize) -> bool,
) -> Result<Vec<SharedWords>, VectorError> {
    if let Some(fault) = structure(vector).first() {
        return Err((*fault).into());
    }
    let enters = |slice: &usize| vector.between.is_some() || wanted(*slice);
    let mut entering = slices.iter().enumerate().filter(|(slice, _)| enters(slice));
    let words = entering.clone().next().map_or(0, |(_, words)| words.len());
    if let Some((slice, odd)) = entering.find(|(_, of)| of.len() != words || !words.is_multiple_of(FLIT)) {
        return Err(VectorError::Words { slice, found: odd.len() });
    }
    shapes(vector, (words / FLIT) as u64)?;
    let before = vector.between.filter(|_| vector.between_first);
    let after = vector.between.filter(|_| !vector.between_first);
    if let Some(reducer) = before {
        slices = inter_slice::apply(rules, reducer, vector.input, &slices, wanted)?;
    }
    let mut word = vector.input;
    if !vector.ops.is_empty() {
        let needed: Vec<usize> =
            (0..slices.len()).filter(|slice| after.is_some() || wanted(*slice)).collect();
        word = chain_of(rules, vector, &mut slices, vrf, &needed)?;
    }
    match after {
        Some(reducer) => inter_slice::apply(rules, reducer, word, &slices, wanted),
        None => Ok(slices),
    }
}

/// Runs the operations of a chain over the words of some slices.
fn chain_of(
    rules: &RuleSet,
    vector: &Vector,
    slices: &mut [SharedWords],
    vrf: &[&[u8]],
    needed: &[usize],
) -> Result<Word, VectorError> {
    let own: Vec<SharedWords> = needed.iter().filter_map(|slice| slices.get(*slice).cloned()).collect();
    // Without a register file there is nothing to read: operands from there are refused.
    let file = |slice: &usize| vrf.get(*slice).map_or(&[][..], |file| file);
    let files: Vec<&[u8]> = needed.iter().map(file).collect();
    // What counts slices takes them by their place in the group.
    let apart = needed.last().is_some_and(|last| last + 1 != needed.len());
    let (done, word) = match apart && counts_slices(vector) {
        false => chain(rules, vector, &own, &files, 0).map_err(|error| placed(error, needed))?,
        true => {
            let mut all = (Vec::new(), vector.input);
            for ((words, file), slice) in own.iter().zip(&files).zip(needed) {
                let done = chain(rules, vector, std::slice::from_ref(words), &[*file], *slice);
                let (mut done, word) = done.map_err(|error| placed(error, &[*slice]))?;
                all.0.append(&mut done);
                all.1 = word;
            }
            all
        }
    };
    for (slice, words) in needed.iter().zip(done) {
        slices[*slice] = words;
    }
    Ok(word)
}

/// An error with the number that a slice has in the group.
fn placed(error: VectorError, numbers: &[usize]) -> VectorError {
    match error {
        VectorError::Vrf { slice, at } => {
            VectorError::Vrf { slice: *numbers.get(slice).or_broken("a number for each slice"), at }
        }
        error => error,
    }
}

/// Runs the operations of a chain over the words of neighbouring slices, of which the first has a number in
/// the group.
fn chain(
    rules: &RuleSet,
    vector: &Vector,
    slices: &[SharedWords],
    vrf: &[&[u8]],
    first: usize,
) -> Result<(Vec<SharedWords>, Word), VectorError> {
    let words = slices.first().map_or(0, |words| words.len());
    let classes = equal_slices(vector, slices, vrf);
    let own = |slice: &usize| {
        let numbers = classes.as_deref().and_then(|numbers| numbers.get(slice.checked_sub(1)?..=*slice));
        numbers.is_none_or(|pair| pair.first() != pair.last())
    };
    let kinds: Vec<usize> = (0..slices.len()).filter(own).collect();
    let files: Vec<&[u8]> = kinds.iter().filter_map(|slice| vrf.get(*slice).copied()).collect();
    let each = vector.ops.iter().map(|op| word_steps(&op.kind)).fold(1, u64::capped_add);
    let steps = (words as u64).capped_mul(kinds.len() as u64).capped_mul(each);
    // Work that is shared has parts to share.
    let most = if is_shared(steps) { kinds.len().div_ceil(PARTS) } else { kinds.len() };
    let together = (TOGETHER_WORDS / words.max(1)).clamp(1, most.max(1));
    let parts: Vec<&[usize]> = kinds.chunks(together).collect();
    let done = map(parts, steps, |number, part: &[usize]| {
        let run = SliceChain {
            rules,
            vector,
            number: first,
            first: number * together,
            slices: part.len(),
            vrf: &files,
        };
        run.run(joined(slices, part)).map(|(words, word)| (split(words, part.len()), word))
    });
    let mut word = vector.input;
    let mut results: Vec<SharedWords> = Vec::with_capacity(kinds.len());
    for result in done {
        let (words, leaving) = result.map_err(|error| located(error, classes.as_deref()))?;
        results.extend(words);
        word = leaving;
    }
    if let Some(numbers) = classes {
        results = numbers.iter().filter_map(|number| results.get(*number).cloned()).collect();
    }
    Ok((results, word))
}

/// Host work of an operation on a word, in steps of about a nanosecond.
fn word_steps(kind: &OpKind) -> u64 {
    match kind {
        OpKind::Reduce(_) => 12,
        OpKind::Tanh | OpKind::Sigmoid | OpKind::Erf | OpKind::Log => 20,
        OpKind::Sin | OpKind::Cos | OpKind::Exp | OpKind::ExpNeg => 20,
        _ => 1,
    }
}

/// Bytes of register files that are looked at for every byte that goes through the chain, at most: more cost
/// as much as the chain.
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
    &memory[part.start.min(end)..end]
}

/// Slices on which the chain does what it does on the one before, numbered by the first of them: same words,
/// same register files, and nothing that counts slices. `None` if there are few.
fn equal_slices(vector: &Vector, slices: &[SharedWords], vrf: &[&[u8]]) -> Option<Vec<usize>> {
    let reads = reads(vector);
    let costly = slices.first().is_none_or(|words| words.len().capped_mul(4 * COMPARED) < reads.len());
    if vrf.len() != slices.len() || counts_slices(vector) || costly {
        return None;
    }
    let read = |slice: usize| vrf.get(slice).map(|file| part(file, &reads));
    let mut number = 0;
    let mut numbers = vec![0; slices.len()];
    for slice in 1..slices.len() {
        let [one, other] = [&slices[slice - 1], &slices[slice]];
        let same = (Arc::ptr_eq(one, other) || one == other) && read(slice) == read(slice - 1);
        number += usize::from(!same);
        numbers[slice] = number;
        // Most slices are equal, or it does not pay.
        if 2 * number > slices.len() {
            return None;
        }
    }
    (number + 1 < slices.len()).then_some(numbers)
}

/// An error with the number of the slice that it was found on.
fn located(error: VectorError, classes: Option<&[usize]>) -> VectorError {
    match (error, classes) {
        (VectorError::Vrf { slice, at }, Some(numbers)) => {
            let first = numbers.iter().position(|number| *number == slice);
            VectorError::Vrf { slice: first.unwrap_or(slice), at }
        }
        (error, _) => error,
    }
}

/// Words of some slices, one after the other.
fn joined(slices: &[SharedWords], part: &[usize]) -> Vec<u32> {
    let all: Vec<&[u32]> =
        part.iter().filter_map(|slice| slices.get(*slice)).map(|words| words.as_slice()).collect();
    all.concat()
}

/// The words of each of so many slices that have as many.
fn split(words: Vec<u32>, slices: usize) -> Vec<SharedWords> {
    if slices == 1 {
        return vec![Arc::new(words)];
    }
    let each = words.len() / slices.max(1);
    (0..slices).map(|slice| Arc::new(words[slice * each..(slice + 1) * each].to_vec())).collect()
}

/// The chain on some neighbouring slices.
struct SliceChain<'a> {
    rules: &'a RuleSet,
    vector: &'a Vector,
    /// Number in the group of the first slice that has a register file here.
    number: usize,
    /// The first of them, and how many.
    first: usize,
    slices: usize,
    /// Register files.
    vrf: &'a [&'a [u8]],
}

impl SliceChain<'_> {
    fn run(&self, words: Vec<u32>) -> Result<(Vec<u32>, Word), VectorError> {
        let mut stream = WordStream::new(self.rules, self.vector, words);
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
                    let first = self.number + self.first;
                    let slices = first..first + self.slices;
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
