//! Texts from a model that go on at the same time, as sequences of a batch: prompts one after the other, then
//! a run for a token of each.

use std::iter;
use std::ops::ControlFlow;
use tilewright_base::invariant::to_index;

use tilewright_record::KeepLast;

use crate::generate::{Limits, Stop, best_after, ended};
use crate::model::{ModelDevice, ModelError};
use crate::readings::ReadingOptions;
use crate::usage::Usage;

/// One of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedSequence {
    /// Tokens behind the prompt.
    pub tokens: Vec<u64>,
    /// Why there are no more.
    pub stop: Stop,
}

/// What was generated, and what it took.
#[derive(Clone, Debug)]
pub struct BatchGeneration {
    /// The first text.
    pub first: GeneratedSequence,
    /// The others, in the order of their prompts.
    pub others: Vec<GeneratedSequence>,
    /// Runs that took prompts.
    pub prefill: Usage,
    /// Runs that took generated tokens, one of each text that went on.
    pub decode: Usage,
}

/// Takes the prompt of the first sequence and those of others, and generates; `said` hears each token and
/// whose it is.
///
/// # Errors
/// More prompts than the model was compiled for, one that does not fit, a run that does not come to its end.
pub fn generate_batch(
    chip: &mut ModelDevice,
    first: &[u64],
    others: &[Vec<u64>],
    limits: &Limits,
    said: &mut dyn FnMut(usize, u64) -> ControlFlow<()>,
) -> Result<BatchGeneration, ModelError> {
    let prompts: Vec<&[u64]> = iter::once(first).chain(others.iter().map(Vec::as_slice)).collect();
    let context = chip.compiled().plan.options.context.min(chip.compiled().kernels.positions);
    chip.restart();
    let (prefill, decode) = (Usage::default(), Usage::default());
    let mut all = BatchGeneration {
        first: GeneratedSequence::default(),
        others: vec![GeneratedSequence::default(); others.len()],
        prefill,
        decode,
    };
    // What each text goes on with, while it does.
    let mut next: Vec<Option<u64>> = Vec::new();
    for (sequence, prompt) in (0..).zip(&prompts) {
        let found = prompt.len() as u64;
        if found == 0 || found > context {
            return Err(ModelError::Prompt { found, context });
        }
        let logits = take(chip, sequence, prompt, &mut all.prefill)?;
        next.push(Some(best_after(prompt.len() as u64, &logits)?));
    }
    loop {
        let texts = iter::once(&mut all.first).chain(&mut all.others);
        for (sequence, ((text, prompt), next)) in texts.zip(&prompts).zip(&mut next).enumerate() {
            let Some(token) = *next else { continue };
            let seen = prompt.len() + text.tokens.len();
            let (is_said, stop) = text.take(token, limits, (seen as u64) < context);
            if let Some(stop) = stop {
                (text.stop, *next) = (stop, None);
            }
            if is_said && said(sequence, token).is_break() {
                return Ok(all);
            }
        }
        let count = next.iter().flatten().count() as u64;
        if count == 0 {
            return Ok(all);
        }
        let reading = ended(chip.feed_batch(&next, &values(), KeepLast::new(0))?)?;
        all.decode.add(&reading.outcome, count);
        for (sequence, next) in (0..).zip(&mut next).filter(|(_, next)| next.is_some()) {
            *next = Some(best_after(chip.seen(), &chip.sequence_logits(sequence)?)?);
        }
    }
}

impl Default for GeneratedSequence {
    /// A text that has not begun.
    fn default() -> GeneratedSequence {
        GeneratedSequence { tokens: Vec::new(), stop: Stop::Asked }
    }
}

impl GeneratedSequence {
    /// Takes a token; whether it is part of the text, and why it is the last if it is.
    fn take(&mut self, token: u64, limits: &Limits, has_room: bool) -> (bool, Option<Stop>) {
        let is_full = |tokens: &Vec<u64>| tokens.len() as u64 >= limits.tokens;
        if is_full(&self.tokens) {
            return (false, Some(Stop::Tokens));
        }
        if limits.ends.contains(&token) {
            return (false, Some(Stop::End));
        }
        self.tokens.push(token);
        let stop = match (is_full(&self.tokens), has_room) {
            (true, _) => Some(Stop::Tokens),
            (false, false) => Some(Stop::Context),
            (false, true) => None,
        };
        (true, stop)
    }
}

/// Takes the prompt of a sequence; the logits behind it.
fn take(
    chip: &mut ModelDevice,
    sequence: u64,
    prompt: &[u64],
    usage: &mut Usage,
) -> Result<Vec<f32>, ModelError> {
    let most = to_index(chip.compiled().most_tokens()).max(2);
    let mut left = prompt;
    let mut logits = Vec::new();
    while !left.is_empty() {
        // None of the parts is a single token, unless the prompt is.
        let part = left.len().min(most);
        let part = if left.len() - part == 1 { part - 1 } else { part };
        let (now, rest) = left.split_at(part);
        let reading = match now {
            [token] => {
                let mut tokens = vec![None; to_index(sequence)];
                tokens.push(Some(*token));
                chip.feed_batch(&tokens, &values(), KeepLast::new(0))?
            }
            _ => chip.feed_sequence(sequence, now, &values(), KeepLast::new(0))?,
        };
        usage.add(&ended(reading)?.outcome, part as u64);
        logits = if part == 1 { chip.sequence_logits(sequence)? } else { chip.logits()? };
        left = rest;
    }
    Ok(logits)
}

fn values() -> ReadingOptions {
    ReadingOptions { values: true, ..ReadingOptions::default() }
}
