//! Several texts that go on at the same time, as sequences of a batch.

use std::ops::ControlFlow;

use tilewright_runtime::generate::Generation;
use tilewright_runtime::model::ModelDevice;
use tilewright_runtime::together::{Together, generate_together};

use super::device::{Job, failed, wide};
use super::report::{Report, Text};
use crate::host::Host;
use crate::outcome::Outcome;

impl Job<'_> {
    /// Generates all texts, and says what it took.
    pub(super) fn together(&self, device: &mut ModelDevice, host: &mut dyn Host) -> Result<Outcome, Outcome> {
        let prompts: Vec<Vec<u64>> = self.prompts.iter().map(|prompt| wide(prompt)).collect();
        let done = generate_together(device, &prompts, &self.limits(), &mut |_, _| {
            if host.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Together { texts, prefill, decode } = done.map_err(|error| failed(&error))?;
        let stops: Vec<_> = texts.iter().map(|text| text.stop).collect();
        let spoken = self.prompts.iter().zip(texts).map(|(prompt, spoken)| {
            let narrow = |token: &u64| u32::try_from(*token).unwrap_or(u32::MAX);
            let all: Vec<u32> = prompt.iter().copied().chain(spoken.tokens.iter().map(narrow)).collect();
            let (text, stop) = (self.tokenizer.decode(&all), spoken.stop.name());
            Text { prompt_tokens: prompt.clone(), tokens: spoken.tokens, text, stop }
        });
        let mut with: Vec<Text> = spoken.collect();
        let all = with.iter().map(|text| text.text.as_str()).collect::<Vec<_>>().join("\n\n");
        let (Some(stop), false) = (stops.first(), with.is_empty()) else { return Ok(Outcome::good(all)) };
        let first = with.remove(0);
        let generation = Generation { tokens: first.tokens, stop: *stop, prefill, decode, last: Vec::new() };
        let (text, vector, traced) = (&first.text, None, None);
        let report = Report { job: self, device, generation: &generation, text, vector, traced, with };
        Ok(Outcome::good(match self.prompting.json {
            true => report.json(),
            false => format!("{all}\n{}", report.words()),
        }))
    }
}
