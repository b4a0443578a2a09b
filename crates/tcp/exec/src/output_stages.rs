//! From results to flits as the commit unit writes them: cast, transpose, the commit unit's own conversion.
//!
//! In bulk, flits keep only the bytes that hold elements: [`Packets::packet_bytes`] is then less than that of
//! a flit.

use std::borrow::Cow;
use std::sync::Arc;

use tilewright_num::{Dtype, RuleSet, commit_relu};
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::Stream;

use super::cast::cast;
use super::commit::CommitWriter;
use super::convert::narrow_words;
use super::fault::{ExecFault, ExecProblem, ExecStage};
use super::packets::{Packets, flits_of, words};
use super::transpose::transpose;
use crate::limits::{ExecMode, index};
use crate::stage_data::StageData;

/// What happens behind the vector engine.
pub(super) struct OutputStages<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) image: &'a Stream,
    pub(super) writer: &'a CommitWriter<'a>,
    /// Type that leaves the fetch unit.
    pub(super) leaves: Dtype,
    /// A contraction or the vector engine made words of it.
    pub(super) words: bool,
    pub(super) mode: ExecMode,
    pub(super) flit_bytes: usize,
}

impl OutputStages<'_> {
    /// Checks that words are cast.
    pub(super) fn check(&self) -> Result<(), ExecFault> {
        let narrow = !self.words && !matches!(self.leaves, Dtype::I32 | Dtype::F32);
        if narrow && (self.image.cast.is_some() || self.image.commit.to_bf16) {
            return Err(ExecProblem::Dtype(self.leaves).at(ExecStage::Cast));
        }
        Ok(())
    }

    /// What a slice writes.
    pub(super) fn slice<'s>(&self, flow: StageData<'s>) -> Result<Cow<'s, Packets>, ExecFault> {
        let unchanged = self.image.cast.is_none() && self.image.transpose.is_none();
        if matches!(&flow, StageData::Flits(flits) if flits.extra.is_some()) && !unchanged {
            return Err(ExecProblem::Dtype(self.leaves).at(ExecStage::Cast));
        }
        if self.mode == ExecMode::Literal {
            return self.literal(flits(flow, self.flit_bytes)).map(Cow::Owned);
        }
        match (self.image.cast, self.image.commit.to_bf16) {
            (None, false) if unchanged => {
                let flits = match flow {
                    StageData::Flits(flits) => flits,
                    StageData::Words(words) => Cow::Owned(flits_of(&words, self.flit_bytes)),
                };
                self.writer.check(&flits, self.flit_bytes).map_err(commit)?;
                Ok(flits)
            }
            (Some(to), false) if is_cast(to) => self.narrow(flow, to).map(Cow::Owned),
            (None, true) if unchanged => self.bf16(flow).map(Cow::Owned),
            _ => self.literal(flits(flow, self.flit_bytes)).map(Cow::Owned),
        }
    }

    /// Engine by engine, element by element.
    fn literal(&self, mut flits: Packets) -> Result<Packets, ExecFault> {
        if let Some(to) = self.image.cast {
            flits = cast(self.rules, &flits, to).map_err(|problem| problem.at(ExecStage::Cast))?;
        }
        self.transposed(flits).and_then(|flits| self.writer.convert(self.rules, flits).map_err(commit))
    }

    fn transposed(&self, flits: Packets) -> Result<Packets, ExecFault> {
        let bits = match (self.image.cast, self.words) {
            (Some(cast), _) => payload_bits(cast),
            (None, true) => payload_bits(Dtype::I32),
            (None, false) => payload_bits(self.leaves),
        };
        match &self.image.transpose {
            Some(tiles) => transpose(tiles, bits, &flits).map_err(|problem| problem.at(ExecStage::Transpose)),
            None => Ok(flits),
        }
    }

    /// Through the cast engine.
    fn narrow(&self, flow: StageData<'_>, to: Dtype) -> Result<Packets, ExecFault> {
        let words = words_of(flow).map_err(|problem| problem.at(ExecStage::Cast))?;
        let bytes = narrow_words(self.rules, to, &words).map_err(|problem| problem.at(ExecStage::Cast))?;
        let dense = self.flit_bytes / 4 * index(payload_bits(to)) / 8;
        let mut flits = Packets { bytes, extra: None, packet_bytes: dense };
        if self.image.transpose.is_some() || self.image.commit.bytes > dense as u64 {
            flits = self.transposed(widened(&flits, self.flit_bytes))?;
        }
        self.writer.check(&flits, self.flit_bytes).map_err(commit)?;
        Ok(flits)
    }

    /// Through the commit unit's conversion.
    fn bf16(&self, flow: StageData<'_>) -> Result<Packets, ExecFault> {
        let mut words = words_of(flow).map_err(commit)?;
        let dense = self.flit_bytes / 2;
        if self.image.commit.relu {
            let relu = |word: &mut u32| *word = commit_relu(self.rules, f32::from_bits(*word)).to_bits();
            words.iter_mut().for_each(relu);
        }
        let bytes = narrow_words(self.rules, Dtype::Bf16, &words).map_err(commit)?;
        let flits = Packets { bytes, extra: None, packet_bytes: dense };
        self.writer.check(&flits, self.flit_bytes).map_err(commit)?;
        let wide = self.image.commit.bytes > dense as u64;
        Ok(if wide { widened(&flits, self.flit_bytes) } else { flits })
    }
}

fn commit(problem: ExecProblem) -> ExecFault {
    problem.at(ExecStage::Commit)
}

/// Types that the cast engine gives.
fn is_cast(to: Dtype) -> bool {
    matches!(to, Dtype::I4 | Dtype::I8 | Dtype::I16 | Dtype::F8E4M3Fn | Dtype::F8E5M2 | Dtype::Bf16)
}

fn flits(flow: StageData<'_>, flit_bytes: usize) -> Packets {
    match flow {
        StageData::Flits(flits) => flits.into_owned(),
        StageData::Words(words) => flits_of(&words, flit_bytes),
    }
}

fn words_of(flow: StageData<'_>) -> Result<Vec<u32>, ExecProblem> {
    match flow {
        StageData::Flits(flits) => words(&flits),
        StageData::Words(words) => Ok(Arc::unwrap_or_clone(words)),
    }
}

/// Flits with the zeros behind their elements.
fn widened(flits: &Packets, flit_bytes: usize) -> Packets {
    let from = flits.packet_bytes.max(1);
    let mut bytes = vec![0; flits.bytes.len() / from * flit_bytes];
    for (wide, narrow) in bytes.chunks_exact_mut(flit_bytes).zip(flits.bytes.chunks_exact(from)) {
        wide[..from].copy_from_slice(narrow);
    }
    Packets { bytes, extra: None, packet_bytes: flit_bytes }
}
