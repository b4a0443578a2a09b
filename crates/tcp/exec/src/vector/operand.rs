//! Operands of an operation for all elements at once: immediates, register file walks, stash, the other
//! group, by tag.

use tilewright_base::invariant::OrBroken;
use tilewright_tcp_isa::program::exec::Loop;
use tilewright_tcp_isa::program::vector::{GuardedSource, Op, OperandChoice, OperandSource};
use tilewright_tcp_isa::vector::VectorFault;
use tilewright_tcp_isa::vector::steps::fixed;

use super::stream::WordStream;
use super::{SliceChain, VectorError};

/// What an operation meets besides its elements.
pub(super) enum VectorOperand {
    /// The same word for all.
    Uniform(u32),
    /// A word for each.
    Each(Vec<u32>),
    /// A word for each that is live; the others pass.
    Some(Vec<u32>, Vec<bool>),
    /// Nothing: all pass.
    Nothing,
}

impl SliceChain<'_> {
    pub(super) fn operands(
        &self,
        at: usize,
        op: &Op,
        stream: &WordStream,
        pair: &[u32],
    ) -> Result<Vec<VectorOperand>, VectorError> {
        op.operands.iter().map(|choice| self.choose(at, choice, stream, pair)).collect()
    }

    fn choose(
        &self,
        at: usize,
        choice: &OperandChoice,
        stream: &WordStream,
        pair: &[u32],
    ) -> Result<VectorOperand, VectorError> {
        let matching = |tag: u8| move |guarded: &&GuardedSource| tag & guarded.mask == guarded.value;
        let unguarded = choice.sources.first().filter(|guarded| guarded.mask == 0);
        if stream.tags.is_empty() || unguarded.is_some() {
            return match choice.sources.iter().find(matching(0)) {
                None => Ok(VectorOperand::Nothing),
                Some(guarded) => self.read(at, &guarded.source, stream, pair),
            };
        }
        let read = choice.sources.iter().map(|guarded| self.read(at, &guarded.source, stream, pair));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        let by_tag: Vec<Option<&VectorOperand>> = (0..16)
            .map(|tag| choice.sources.iter().position(|guarded| matching(tag)(&guarded)))
            .map(|index| index.and_then(|index| read.get(index)))
            .collect();
        let words = stream.tags.iter().enumerate().map(|(index, tag)| {
            match by_tag.get(usize::from(*tag)).copied().flatten() {
                Some(VectorOperand::Uniform(word)) => (*word, true),
                Some(VectorOperand::Each(words)) => {
                    (*words.get(index).or_broken("an operand has a word for each tag"), true)
                }
                _ => (0, false),
            }
        });
        let (words, live) = words.unzip();
        Ok(VectorOperand::Some(words, live))
    }

    fn read(
        &self,
        at: usize,
        source: &OperandSource,
        stream: &WordStream,
        pair: &[u32],
    ) -> Result<VectorOperand, VectorError> {
        match source {
            OperandSource::Immediate(word) => Ok(VectorOperand::Uniform(*word)),
            OperandSource::Pair => Ok(VectorOperand::Each(pair.to_vec())),
            OperandSource::Stash => {
                let stash = stream.stash.clone().ok_or(VectorFault::StashMissing { at })?;
                Ok(VectorOperand::Each(stash))
            }
            OperandSource::Vrf { base, loops } => {
                let mut words = Vec::with_capacity(stream.words.len());
                for slice in self.first..self.first + self.slices {
                    let start = i64::try_from(*base).map_err(|_| VectorError::Vrf { slice, at })?;
                    let file = self.vrf.get(slice).map_or(&[][..], |file| file);
                    walk(file, start, loops, &mut words).ok_or(VectorError::Vrf { slice, at })?;
                }
                Ok(VectorOperand::Each(words))
            }
        }
    }
}

/// Reads a word at every address of the loops, outermost first; `None` if one lies outside.
fn walk(bytes: &[u8], start: i64, loops: &[Loop], words: &mut Vec<u32>) -> Option<()> {
    let Some((row, inner)) = loops.split_first() else {
        let start = usize::try_from(start).ok()?;
        let word: [u8; 4] = bytes.get(start..start.checked_add(4)?)?.try_into().ok()?;
        words.push(u32::from_le_bytes(word));
        return Some(());
    };
    let size = fixed(row.size)?;
    if row.stride == 0 && size > 0 {
        // The same words again.
        let from = words.len();
        walk(bytes, start, inner, words)?;
        let once = from..words.len();
        if once.len() == 1 {
            let word = words[from];
            words.resize(from.checked_add(usize::try_from(size).ok()?)?, word);
            return Some(());
        }
        (1..size).for_each(|_| words.extend_from_within(once.clone()));
        return Some(());
    }
    let stride = row.stride.checked_mul(4)?;
    if inner.is_empty() && row.stride == 1 && size > 0 {
        let start = usize::try_from(start).ok()?;
        let length = usize::try_from(size).ok()?.checked_mul(4)?;
        let run = bytes.get(start..start.checked_add(length)?)?;
        words.extend(run.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)));
        return Some(());
    }
    let mut at = start;
    for _ in 0..size {
        walk(bytes, at, inner, words)?;
        at = at.checked_add(stride)?;
    }
    Some(())
}
