//! Several prompts that are continued at the same time, as the sequences of a batch.

use std::iter;
use std::ops::ControlFlow;
use tilewright_base::invariant::OrBroken;

use tilewright_runtime::batch::{BatchGeneration, generate_batch};
use tilewright_runtime::generate::Generation;
use tilewright_runtime::model::ModelDevice;
use tilewright_workbench::model::report::{ModelFacts, SequenceJson};

use super::device::{ModelJob, failed, wide};
use super::report::Report;
use crate::host::Host;
use crate::outcome::Outcome;

impl ModelJob<'_> {
    /// Continues all prompts, and reports what it took.
    pub(super) fn generate_all(
        &self,
        device: &mut ModelDevice,
        host: &mut dyn Host,
    ) -> Result<Outcome, Outcome> {
        let others: Vec<Vec<u64>> = self.others.iter().map(|prompt| wide(prompt)).collect();
        let done = generate_batch(device, &wide(&self.prompt), &others, &self.limits(), &mut |_, _| {
            if host.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let BatchGeneration { first, others, prefill, decode } = done.map_err(|error| failed(&error))?;
        let text = self.continued(&self.prompt, &first.tokens);
        let other_sequences = self.others.iter().zip(others).map(|(prompt, sequence)| {
            let text = self.continued(prompt, &sequence.tokens);
            SequenceJson {
                prompt_tokens: prompt.clone(),
                tokens: sequence.tokens,
                text,
                stop: sequence.stop.name(),
            }
        });
        let other_sequences: Vec<SequenceJson> = other_sequences.collect();
        let texts: Vec<&str> =
            iter::once(text.as_str()).chain(other_sequences.iter().map(|other| &*other.text)).collect();
        let texts = texts.join("\n\n");
        let generated: Vec<u64> = iter::once(&first.tokens)
            .chain(other_sequences.iter().map(|other| &other.tokens))
            .flatten()
            .copied()
            .collect();
        let stderr = self.unwritten(device.compiled().kernels.vocabulary, &generated);
        let (tokens, stop, last) = (first.tokens, first.stop, Vec::new());
        let generation = Generation { tokens, stop, prefill, decode, last };
        let (text, vector, traced) = (&text, None, None);
        let facts = &ModelFacts::of(device.compiled());
        let report =
            Report { job: self, facts, generation: &generation, text, vector, traced, other_sequences };
        let stdout = match self.prompting.json {
            true => report.json(),
            false => format!("{texts}\n{}", report.words()),
        };
        Ok(Outcome { stderr, ..Outcome::good(stdout) })
    }

    /// A prompt and what came behind it, as text.
    fn continued(&self, prompt: &[u32], tokens: &[u64]) -> String {
        let downcast = |token: &u64| u32::try_from(*token).or_broken("a token is one of the vocabulary");
        let all: Vec<u32> = prompt.iter().copied().chain(tokens.iter().map(downcast)).collect();
        self.tokenizer.decode(&all)
    }
}
