//! Text from a model, greedily: the prompt in as few runs as take it, then a run for each token.

use std::ops::ControlFlow;
use tilewright_base::invariant::to_index;

use tilewright_record::{KeepAll, KeepLast, Sink};
use tilewright_tcp_sim::RunEnd;

use crate::model::{ModelDevice, ModelError, Phase};
use crate::readings::{Reading, ReadingOptions};
use crate::usage::Usage;

/// When to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens to generate, at most.
    pub tokens: u64,
    /// Tokens that end a text; they are not part of it.
    pub ends: Vec<u64>,
}

/// Why it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model ended its text.
    End,
    /// As many tokens as were wanted.
    Tokens,
    /// No position is left.
    Context,
    /// Whoever listens asked.
    Asked,
}

impl Stop {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Stop::End => "end",
            Stop::Tokens => "max_tokens",
            Stop::Context => "context",
            Stop::Asked => "interrupted",
        }
    }
}

/// What was generated, and what it took.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Tokens behind the prompt.
    pub tokens: Vec<u64>,
    /// Why there are no more.
    pub stop: Stop,
    /// Runs that took the prompt.
    pub prefill: Usage,
    /// Runs that took generated tokens, one each.
    pub decode: Usage,
    /// What the last run was fed.
    pub last: Vec<u64>,
}

/// How far a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationStep {
    /// So many tokens of the prompt were taken.
    Prompt {
        /// Tokens that were taken.
        done: u64,
        /// Tokens of the prompt.
        of: u64,
    },
    /// A token was generated.
    Token(u64),
}

/// What generates: a model on a chip that takes tokens behind those that it has, and gives logits.
pub trait LanguageDevice {
    /// Positions that it has.
    fn context(&self) -> u64;
    /// Tokens that one run takes, at most.
    fn most_tokens(&self) -> u64;
    /// Tokens so far.
    fn seen(&self) -> u64;
    /// Takes tokens; whether logits behind them are asked for.
    ///
    /// # Errors
    /// Tokens that there is no room for, a run that cannot go on.
    fn take(&mut self, tokens: &[u64], wants_logits: bool) -> Result<Reading, ModelError>;
    /// Logits of the last token.
    ///
    /// # Errors
    /// Memory that is not there.
    fn last_logits(&self) -> Result<Vec<f32>, ModelError>;
}

impl LanguageDevice for ModelDevice {
    fn context(&self) -> u64 {
        // Contexts are rounded up to a position for every slice, the model's positions are not.
        self.compiled().plan.options.context.min(self.compiled().kernels.positions)
    }

    fn most_tokens(&self) -> u64 {
        self.compiled().most_tokens()
    }

    fn seen(&self) -> u64 {
        ModelDevice::seen(self)
    }

    fn take(&mut self, tokens: &[u64], wants_logits: bool) -> Result<Reading, ModelError> {
        let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
        let feed = if wants_logits { ModelDevice::feed } else { ModelDevice::feed_before };
        Ok(feed(self, tokens, &wanted, KeepLast::new(0))?.1)
    }

    fn last_logits(&self) -> Result<Vec<f32>, ModelError> {
        self.logits()
    }
}

/// Takes a prompt and generates; `heard` is told of each part of the prompt and of each token, and may ask to
/// stop.
///
/// # Errors
/// A prompt that does not fit, tokens outside the vocabulary, a run that does not come to its end.
pub fn generate(
    chip: &mut impl LanguageDevice,
    prompt: &[u64],
    limits: &Limits,
    heard: &mut dyn FnMut(GenerationStep) -> ControlFlow<()>,
) -> Result<Generation, ModelError> {
    let context = chip.context();
    let found = prompt.len() as u64;
    if found == 0 || found > context.saturating_sub(chip.seen()) {
        return Err(ModelError::Prompt { found, context });
    }
    let (mut prefill, mut decode) = (Usage::default(), Usage::default());
    let most = to_index(chip.most_tokens()).max(1);
    let mut last = Vec::new();
    let mut parts = prompt.chunks(most).peekable();
    while let Some(part) = parts.next() {
        // Only the last part is asked for a token.
        let reading = ended(chip.take(part, parts.peek().is_none())?)?;
        prefill.add(&reading.outcome, part.len() as u64);
        last = part.to_vec();
        let done = prefill.tokens;
        if heard(GenerationStep::Prompt { done, of: found }).is_break() {
            let (tokens, stop) = (Vec::new(), Stop::Asked);
            return Ok(Generation { tokens, stop, prefill, decode, last });
        }
    }
    let mut tokens = Vec::new();
    let stop = loop {
        if tokens.len() as u64 >= limits.tokens {
            break Stop::Tokens;
        }
        let token = best_after(chip.seen(), &chip.last_logits()?)?;
        if limits.ends.contains(&token) {
            break Stop::End;
        }
        tokens.push(token);
        if heard(GenerationStep::Token(token)).is_break() {
            break Stop::Asked;
        }
        if tokens.len() as u64 >= limits.tokens {
            break Stop::Tokens;
        }
        if chip.seen() >= context {
            break Stop::Context;
        }
        decode.add(&ended(chip.take(&[token], true)?)?.outcome, 1);
        last = vec![token];
    };
    Ok(Generation { tokens, stop, prefill, decode, last })
}

/// The vector of a text by a sentence encoder, with what it took as the run of a prompt.
///
/// # Errors
/// A model that gives logits, more tokens than one run takes, a run that does not come to its end.
pub fn encode(chip: &mut ModelDevice, prompt: &[u64]) -> Result<(Vec<f32>, Generation), ModelError> {
    let context = chip.compiled().plan.options.context.min(chip.compiled().most_tokens());
    let found = prompt.len() as u64;
    if found == 0 || found > context {
        return Err(ModelError::Prompt { found, context });
    }
    let wanted = ReadingOptions { values: true, ..ReadingOptions::default() };
    let (vector, reading) = chip.encode(prompt, &wanted, KeepLast::new(0))?;
    let reading = ended(reading)?;
    let mut prefill = Usage::default();
    prefill.add(&reading.outcome, found);
    let (stop, decode, last) = (Stop::End, Usage::default(), prompt.to_vec());
    Ok((vector, Generation { tokens: Vec::new(), stop, prefill, decode, last }))
}

/// Runs the last tokens of a generation once more, with everything that a trace shows.
///
/// # Errors
/// As [`generate`]; a trace that cannot be written.
pub fn trace_last<S: Sink + Send>(
    chip: &mut ModelDevice,
    generation: &Generation,
    sink: S,
) -> Result<Reading, ModelError> {
    chip.rewind(generation.last.len() as u64);
    let wanted = ReadingOptions { values: true, trace: true, ..ReadingOptions::default() };
    let (_, reading) = chip.feed(&generation.last, &wanted, sink)?;
    ended(reading)
}

/// Runs of a generation once more, with everything that a trace shows: of the first tokens of its prompt, and
/// of what it took last if that was no part of the prompt.
///
/// # Errors
/// As [`generate`].
pub fn recorded_runs(
    chip: &mut ModelDevice,
    prompt: &[u64],
    generation: &Generation,
) -> Result<Vec<RecordedRun>, ModelError> {
    let wanted = ReadingOptions { values: true, trace: true, ..ReadingOptions::default() };
    let feed = |chip: &mut ModelDevice, tokens: &[u64]| {
        let before = ModelDevice::seen(chip);
        let (phase, reading) = chip.feed(tokens, &wanted, KeepAll::default())?;
        Ok::<RecordedRun, ModelError>(RecordedRun {
            before,
            tokens: tokens.len() as u64,
            phase,
            reading: ended(reading)?,
        })
    };
    let last = match generation.decode.runs {
        0 => None,
        _ => {
            chip.rewind(generation.last.len() as u64);
            Some(feed(chip, &generation.last)?)
        }
    };
    chip.restart();
    let most = to_index(LanguageDevice::most_tokens(chip)).max(1).min(prompt.len());
    let first = feed(chip, &prompt[..most])?;
    Ok(std::iter::once(first).chain(last).collect())
}

/// A run of a model with everything that a trace shows.
#[derive(Debug)]
pub struct RecordedRun {
    /// Tokens before those that it takes.
    pub before: u64,
    /// Tokens that it takes.
    pub tokens: u64,
    /// Which program ran.
    pub phase: Phase,
    /// What it left behind.
    pub reading: Reading,
}

/// A reading of a run that came to its end.
pub(crate) fn ended(reading: Reading) -> Result<Reading, ModelError> {
    if reading.outcome.ended != RunEnd::Finished {
        let found = reading.findings.first().map(|finding| finding.to_diagnostic().message);
        return Err(ModelError::Stopped(found.unwrap_or_else(|| format!("{:?}", reading.outcome.ended))));
    }
    Ok(reading)
}

/// The place of the largest number, the first of equals; `None` where one is no number or the largest is not
/// finite, as after an overflow.
pub fn best(logits: &[f32]) -> Option<u64> {
    let mut found = (0, f32::NEG_INFINITY);
    for (at, value) in logits.iter().enumerate() {
        if value.is_nan() {
            return None;
        }
        if *value > found.1 {
            found = (at, *value);
        }
    }
    found.1.is_finite().then_some(found.0 as u64)
}

/// [`best`] of what a model gave after so many positions.
pub(crate) fn best_after(seen: u64, logits: &[f32]) -> Result<u64, ModelError> {
    best(logits).ok_or(ModelError::Overflow { seen })
}
