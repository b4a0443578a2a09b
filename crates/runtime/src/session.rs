//! A language model of any shape as planned graphs on a device: one program for prompts, one for single
//! tokens, each with its weights; state goes from run to run as the host reads and writes it.

use tilewright_base::Diagnostic;
use tilewright_compile::general::sequence::Sequence;
use tilewright_record::{KeepLast, Sink};

use crate::executable::ExecutableGraph;
use crate::generate::{LanguageDevice, ended};
use crate::model::{ModelError, Phase};
use crate::readings::{Reading, ReadingOptions};

/// Programs of a language model.
#[derive(Debug)]
pub struct SessionPrograms {
    /// Takes several tokens, if a run may have more than one.
    pub prompt: Option<ExecutableGraph>,
    /// Tokens that it takes, at most.
    pub prompt_tokens: u64,
    /// Takes one token behind others; without it prompts go through the other program alone.
    pub token: Option<ExecutableGraph>,
    /// Positions that both have.
    pub context: u64,
}

/// One text on them.
#[derive(Debug)]
pub struct GraphSession {
    programs: SessionPrograms,
    start: Sequence,
    now: Sequence,
    /// As it was before the last run.
    before: Sequence,
    logits: Vec<f32>,
}

impl GraphSession {
    /// A text without tokens.
    pub fn new(programs: SessionPrograms, start: Sequence) -> GraphSession {
        let (now, before) = (start.clone(), start.clone());
        GraphSession { programs, start, now, before, logits: Vec::new() }
    }

    /// Which program takes so many tokens now.
    pub fn phase(&self, tokens: usize) -> Phase {
        let is_one = tokens == 1 && self.now.seen() > 0;
        match (is_one, &self.programs.prompt, &self.programs.token) {
            (true, _, Some(_)) | (_, None, _) => Phase::Decode,
            _ => Phase::Prefill,
        }
    }

    /// Forgets all tokens.
    pub fn restart(&mut self) {
        (self.now, self.before) = (self.start.clone(), self.start.clone());
    }

    /// Takes tokens behind those that it has.
    ///
    /// # Errors
    /// More than the programs take, a run that cannot go on.
    pub fn feed<S: Sink + Send>(
        &mut self,
        tokens: &[u64],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ModelError> {
        let phase = self.phase(tokens.len());
        let SessionPrograms { prompt, token, .. } = &mut self.programs;
        let program = if phase == Phase::Decode { token.as_mut() } else { prompt.as_mut() };
        let program = program.ok_or_else(|| ModelError::Stopped("it has no program".to_string()))?;
        let interface = program.interface().clone();
        let refused = |complaint: Box<Diagnostic>| ModelError::Stopped(complaint.message.clone());
        let mut next = self.now.clone();
        let run = next.inputs(&interface, tokens).map_err(refused)?;
        let reading = ended(program.run(&run.words, wanted, sink)?)?;
        if let Some(finding) = reading.findings.iter().find(|finding| finding.certain) {
            return Err(ModelError::Stopped(finding.to_diagnostic().message));
        }
        self.logits = next.take(&run, &interface, &program.results()?);
        self.before = std::mem::replace(&mut self.now, next);
        Ok(reading)
    }

    /// Forgets what the last run took: it may be fed again.
    pub fn rewind_run(&mut self) {
        self.now = self.before.clone();
    }
}

impl LanguageDevice for GraphSession {
    fn context(&self) -> u64 {
        self.programs.context
    }

    fn most_tokens(&self) -> u64 {
        self.programs.prompt_tokens
    }

    fn seen(&self) -> u64 {
        self.now.seen()
    }

    fn take(&mut self, tokens: &[u64], _wants_logits: bool) -> Result<Reading, ModelError> {
        let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
        self.feed(tokens, &wanted, KeepLast::new(0))
    }

    fn last_logits(&self) -> Result<Vec<f32>, ModelError> {
        Ok(self.logits.clone())
    }
}
