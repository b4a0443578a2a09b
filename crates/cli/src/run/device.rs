//! A compiled model on the simulated chip: weights in, tokens out, a trace if it was asked for.

use std::iter;
use std::ops::ControlFlow;
use std::path::Path;
use tilewright_base::invariant::OrBroken;

use tilewright_compile::Compiled;
use tilewright_compile::tcp::pack::Constants;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_machine::Tcp;
use tilewright_record::perfetto::Stream;
use tilewright_runtime::ReadingError;
use tilewright_runtime::generate::{
    Generation, GenerationStep, LanguageDevice, Limits, encode, generate, trace_last,
};
use tilewright_runtime::model::{ModelDevice, ModelError};
use tilewright_tcp_exec::state::SharedBytes;
use tilewright_workbench::model::report::ModelFacts;
use tilewright_workbench::model_run::ModelTexts;

use super::args::PromptArgs;
use super::page::ModelPage;
use super::report::Report;
use super::stream::TextStream;
use super::{check_room, vocabulary};
use crate::host::{Draft, Host};
use crate::outcome::{BAD_INPUT, FAILED, OUR_FAULT, Outcome, io_cause};
use crate::progress::part;
use crate::target::refused_programs;

/// Where the bytes of weights come from.
pub(crate) enum WeightSource<'w> {
    /// From a model, to be packed.
    Constants(&'w Constants<'w>),
    /// Packed before.
    Packed(&'w [SharedBytes]),
}

/// A model to be run on a chip.
pub(crate) struct ModelJob<'j> {
    pub(crate) machine: &'j Tcp,
    /// The chip's name.
    pub(crate) chip: &'j str,
    /// Figures of the chip that were changed.
    pub(crate) set: &'j [String],
    pub(crate) pes: u64,
    pub(crate) chips: u64,
    pub(crate) tokenizer: &'j Tokenizer,
    pub(crate) prompting: &'j PromptArgs,
    /// Tokens of the prompt.
    pub(crate) prompt: Vec<u32>,
    /// Those of texts that go on at the same time.
    pub(crate) others: Vec<Vec<u32>>,
    /// The page that is written of its runs, if one is.
    pub(crate) page: Option<ModelPage<'j>>,
}

/// Refuses programs whose schedule is wrong: nothing of them may pass for a result.
fn check_schedule(machine: &Tcp, compiled: &Compiled) -> Result<(), Outcome> {
    for (name, report) in compiled.check(machine) {
        if let Some(fault) = report.errors().next() {
            let words =
                format!("the schedule is wrong, which is a fault of the compiler:\n  {name}: {fault}");
            return Err(Outcome { code: OUR_FAULT, ..Outcome::usage(&words) });
        }
    }
    Ok(())
}

impl ModelJob<'_> {
    /// Generates, and says what it took.
    pub(crate) fn run(
        &self,
        mut compiled: Compiled,
        weights: &WeightSource<'_>,
        host: &mut dyn Host,
    ) -> Result<Outcome, Outcome> {
        // A prompt is refused before anything is loaded.
        for prompt in iter::once(&self.prompt).chain(&self.others) {
            check_room(prompt, compiled.plan.options.context, compiled.kernels.positions)?;
            vocabulary::check(prompt, compiled.kernels.vocabulary)?;
        }
        self.check_batch(&compiled)?;
        check_schedule(self.machine, &compiled)?;
        let texts = self.page.is_some().then(|| ModelTexts::of(&mut compiled));
        let mut device = ModelDevice::new(self.machine, compiled).map_err(|error| match &error {
            ModelError::Reading(ReadingError::Refused(complaints)) => {
                refused_programs(self.chip, self.set, complaints)
            }
            _ => failed(&error),
        })?;
        match weights {
            WeightSource::Constants(constants) => device.load(constants),
            WeightSource::Packed(chips) => device.load_packed(chips),
        }
        .map_err(|error| failed(&error))?;
        if device.compiled().kernels.pools() {
            return self.encode((&mut device, texts.as_ref()), host);
        }
        if !self.others.is_empty() {
            return self.generate_all(&mut device, host);
        }
        let (generation, shown) = self.generated(&mut device, host)?;
        let traced = self.trace(&mut device, &generation, host)?;
        let facts = ModelFacts::of(device.compiled());
        let said = self.reported(&facts, device.compiled().kernels.vocabulary, (&generation, &shown), traced);
        self.with_model_page(said, (&mut device, texts.as_ref()), &generation, host)
    }

    /// Continues the prompt, and shows the text as it comes.
    pub(super) fn generated(
        &self,
        device: &mut impl LanguageDevice,
        host: &mut dyn Host,
    ) -> Result<(Generation, ShownText), Outcome> {
        let mut stream = TextStream::new(self.tokenizer, &self.prompt, !self.prompting.json, host);
        let generation = generate(device, &wide(&self.prompt), &self.limits(), &mut |step| {
            match step {
                GenerationStep::Prompt { done, of } if done < of => self.progress("prompt", done, of, host),
                GenerationStep::Prompt { .. } => host.progress("", None),
                GenerationStep::Token(token) => {
                    stream.say(u32::try_from(token).or_broken("a token is one of the vocabulary"), host);
                }
            }
            if host.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let (text, is_shown) = stream.end(host);
        let generation = generation.map_err(|error| failed(&error))?;
        Ok((generation, ShownText { text, is_shown }))
    }

    /// What is said of a generation.
    pub(super) fn reported(
        &self,
        facts: &ModelFacts,
        vocabulary: u64,
        (generation, shown): (&Generation, &ShownText),
        traced: Option<&str>,
    ) -> Outcome {
        let (text, other_sequences) = (shown.text.as_str(), Vec::new());
        let report = Report { job: self, facts, generation, text, vector: None, traced, other_sequences };
        let stdout = match (self.prompting.json, shown.is_shown) {
            (true, _) => report.json(),
            (false, true) => report.words(),
            (false, false) => format!("{text}\n{}", report.words()),
        };
        Outcome { stderr: self.unwritten(vocabulary, &generation.tokens), ..Outcome::good(stdout) }
    }

    /// Shows how much of something is done, unless data are asked for.
    fn progress(&self, phase: &str, done: u64, of: u64, host: &mut dyn Host) {
        if !self.prompting.json {
            host.progress(phase, Some(part(done, of)));
        }
    }

    /// What is said of tokens without a text.
    pub(super) fn unwritten(&self, vocabulary: u64, tokens: &[u64]) -> String {
        vocabulary::unwritten(self.tokenizer, tokens, vocabulary)
    }

    /// Refuses more texts than the model was compiled for.
    fn check_batch(&self, compiled: &Compiled) -> Result<(), Outcome> {
        let (asked, batch) = (self.others.len() as u64 + 1, compiled.plan.options.batch);
        if asked <= batch {
            return Ok(());
        }
        let instead = match compiled.kernels.pools() {
            true => "one prompt a run".to_string(),
            false => format!("fewer --prompt, or tilewright compile MODEL --batch {asked} -o FILE"),
        };
        Err(Outcome::usage(&format!(
            "{asked} sequences at the same time\n  = allowed: 1 to {batch}, the batch that the file was \
             compiled for\n  \
             = instead: {instead}"
        )))
    }

    /// When to stop.
    pub(super) fn limits(&self) -> Limits {
        Limits { tokens: u64::from(self.prompting.max_tokens()), ends: wide(&self.tokenizer.ends()) }
    }

    /// The vector of a text, and what it took.
    fn encode(
        &self,
        (device, texts): (&mut ModelDevice, Option<&ModelTexts>),
        host: &mut dyn Host,
    ) -> Result<Outcome, Outcome> {
        let (vector, generation) = encode(device, &wide(&self.prompt)).map_err(|error| failed(&error))?;
        let traced = self.trace(device, &generation, host)?;
        let (text, vector) = (self.prompting.first(), Some(&vector[..]));
        let other_sequences = Vec::new();
        let facts = &ModelFacts::of(device.compiled());
        let report =
            Report { job: self, facts, generation: &generation, text, vector, traced, other_sequences };
        let said = Outcome::good(if self.prompting.json { report.json() } else { report.words() });
        self.with_model_page(said, (device, texts), &generation, host)
    }

    fn trace<'t>(
        &'t self,
        device: &mut ModelDevice,
        generation: &Generation,
        host: &mut dyn Host,
    ) -> Result<Option<&'t str>, Outcome> {
        self.traced(&mut |stream| trace_last(device, generation, stream).map(|_| ()), host)
    }

    /// Writes the trace of a run, if one is wanted; where it went.
    pub(super) fn traced<'t>(
        &'t self,
        run: &mut TracedRun<'_>,
        host: &mut dyn Host,
    ) -> Result<Option<&'t str>, Outcome> {
        let Some(path) = self.prompting.trace.as_deref() else { return Ok(None) };
        let unwritten = |error: &std::io::Error| Outcome::unwritten(path, error);
        let mut draft = host.draft(Path::new(path)).map_err(|error| unwritten(&error))?;
        let traced = run(Stream::new(&mut draft));
        traced.map_err(|error| io_cause(&error).map_or_else(|| failed(&error), unwritten))?;
        draft.keep(host).map_err(|error| unwritten(&error))?;
        Ok(Some(path))
    }
}

/// A run whose events go to a file.
type TracedRun<'r> = dyn FnMut(Stream<&mut Box<dyn Draft>>) -> Result<(), ModelError> + 'r;

/// A text, and whether it was shown while it was made.
pub(super) struct ShownText {
    pub(super) text: String,
    pub(super) is_shown: bool,
}

/// Tokens as a model takes them.
pub(super) fn wide(tokens: &[u32]) -> Vec<u64> {
    tokens.iter().copied().map(u64::from).collect()
}

/// A model that does not run: what the user gave, or a program of ours.
pub(super) fn failed(error: &ModelError) -> Outcome {
    let (code, words) = match error {
        ModelError::Compile(_) => (FAILED, error.to_string()),
        ModelError::Overflow { .. } => {
            let instead = "weights of a smaller range, or --interp, which computes in float32";
            (FAILED, format!("{error}\n  = allowed: finite logits\n  = instead: {instead}"))
        }
        ModelError::Prompt { .. } => {
            (BAD_INPUT, format!("{error}\n  = instead: a shorter prompt, or a longer --context"))
        }
        ModelError::Reading(ReadingError::Refused(complaints)) => {
            let first = complaints.first().map_or("", |complaint| &complaint.message);
            (OUR_FAULT, format!("the compiled program is refused: {first}"))
        }
        _ => (OUR_FAULT, error.to_string()),
    };
    Outcome { code, ..Outcome::usage(&words) }
}
