//! A compiled model on a device: weights written once, then prompts and tokens, the caches kept from run to
//! run.

use std::sync::Arc;
use tilewright_base::invariant::to_index;

use thiserror::Error;
use tilewright_compile::tcp::image::hbm;
use tilewright_compile::tcp::pack::Constants;
use tilewright_compile::{CompileError, Compiled, Inputs};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_record::{KeepLast, Sink};
use tilewright_tcp_exec::ExecFault;
use tilewright_tcp_exec::state::SharedBytes;

use crate::device::Device;
use crate::prepared::Prepared;
use crate::readings::{Reading, ReadingError, ReadingOptions};

/// A model on a chip, with one sequence.
pub struct ModelDevice {
    device: Device,
    compiled: Compiled,
    prefill: Prepared,
    decode: Prepared,
    batch: Option<Prepared>,
    seen: u64,
    /// The same for each sequence of a batch.
    seen_by: Vec<u64>,
}

/// Which program a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Several tokens.
    Prefill,
    /// One.
    Decode,
}

/// Why a model does not run.
#[derive(Debug, Error)]
pub enum ModelError {
    /// Weights or tokens that the programs cannot take.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A program that cannot go on.
    #[error(transparent)]
    Reading(#[from] ReadingError),
    /// Memory that is not there.
    #[error("memory of the device: {0}")]
    Fault(#[from] ExecFault),
    /// A prompt without tokens, or with more than fit.
    #[error("the prompt has {found} tokens\n  = allowed: 1 to {context}, the context")]
    Prompt {
        /// Its tokens.
        found: u64,
        /// Longest context.
        context: u64,
    },
    /// Logits that are no finite numbers: weights and activations leave the range of their types.
    #[error("the logits after {seen} tokens are no finite numbers: the weights overflow")]
    Overflow {
        /// Positions that were computed.
        seen: u64,
    },
    /// Packed weights of another plan.
    #[error(
        "the packed weights have {found:?} B by chip\n  = allowed: {wanted:?}, as the plan of the model says"
    )]
    Packed {
        /// Bytes of each chip.
        found: Vec<u64>,
        /// Bytes of each chip by the plan.
        wanted: Vec<u64>,
    },
    /// A run that did not come to its end.
    #[error("a run of the model did not end: {0}")]
    Stopped(String),
}

impl ModelDevice {
    /// Programs are verified, memories are empty: enough to time it.
    ///
    /// # Errors
    /// Programs that are refused.
    pub fn new(machine: &Tcp, compiled: Compiled) -> Result<ModelDevice, ModelError> {
        let prefill = Prepared::new(machine, compiled.prefill.clone())?;
        let decode = Prepared::new(machine, compiled.decode.clone())?;
        let batch = compiled.batch.clone().map(|program| Prepared::new(machine, program)).transpose()?;
        let device = Device::new(machine, compiled.plan.options.chips);
        let seen_by = vec![0; to_index(compiled.plan.options.batch)];
        Ok(ModelDevice { device, compiled, prefill, decode, batch, seen: 0, seen_by })
    }

    /// Writes weights and tables, and runs the program that all others begin with.
    ///
    /// # Errors
    /// A constant that cannot be had.
    pub fn load(&mut self, constants: &Constants<'_>) -> Result<(), ModelError> {
        let mut fault = None;
        let device = &mut self.device;
        self.compiled.pack(constants, &mut |chip, at, bytes| {
            if let Err(found) = device.write(hbm(chip, at), bytes) {
                fault.get_or_insert(found);
            }
        })?;
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        self.begin()
    }

    /// Runs the program that all others begin with.
    fn begin(&mut self) -> Result<(), ModelError> {
        let clear = Prepared::shared(Arc::clone(self.device.machine()), self.compiled.clear.clone())?;
        self.device.run(
            &clear,
            &[],
            &ReadingOptions { values: true, ..ReadingOptions::default() },
            KeepLast::new(0),
        )?;
        Ok(())
    }

    /// Writes weights and tables that were packed before, for each chip from the first byte of its HBM on,
    /// and runs the program that all others begin with.
    ///
    /// # Errors
    /// Other bytes than the plan has weights and tables, or for other chips.
    pub fn load_packed(&mut self, chips: &[SharedBytes]) -> Result<(), ModelError> {
        let found: Vec<u64> = chips.iter().map(|image| image.bytes().len() as u64).collect();
        let wanted = vec![self.compiled.packed_bytes(); to_index(self.compiled.plan.options.chips)];
        if found != wanted {
            return Err(ModelError::Packed { found, wanted });
        }
        for (chip, lent) in (0..).zip(chips) {
            self.device.lend(hbm(chip, 0), lent)?;
        }
        self.begin()
    }

    /// Tables go to every chip.
    fn write_tables(&mut self, inputs: &Inputs) -> Result<(), ModelError> {
        for chip in 0..self.compiled.plan.options.chips {
            for (at, table) in &inputs.tables {
                self.device.write(hbm(chip, *at), table)?;
            }
        }
        Ok(())
    }

    /// The model.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// What it runs on.
    pub fn machine(&self) -> &Tcp {
        self.device.machine()
    }

    /// Tokens so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Forgets the last tokens, all of them if there are fewer: they may be fed again, or others in their
    /// place.
    pub fn rewind(&mut self, tokens: u64) {
        self.seen = self.seen.saturating_sub(tokens);
    }

    /// Forgets all tokens.
    pub fn restart(&mut self) {
        self.seen = 0;
        self.seen_by.fill(0);
    }

    /// Takes tokens behind those it has, at most [`Compiled::most_tokens`]; the reading of the run, and which
    /// program it was.
    ///
    /// # Errors
    /// Tokens that the model does not have room for.
    pub fn feed<S: Sink + Send>(
        &mut self,
        tokens: &[u64],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<(Phase, Reading), ModelError> {
        let inputs = self.compiled.inputs(self.seen, tokens)?;
        self.take(&inputs, tokens, wanted, sink)
    }

    /// Feeds a chunk of a prompt that is not the last: as [`Self::feed`], without logits.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub fn feed_before<S: Sink + Send>(
        &mut self,
        tokens: &[u64],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<(Phase, Reading), ModelError> {
        let inputs = self.compiled.inputs(self.seen, tokens)?.without_logits();
        self.take(&inputs, tokens, wanted, sink)
    }

    fn take<S: Sink + Send>(
        &mut self,
        inputs: &Inputs,
        tokens: &[u64],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<(Phase, Reading), ModelError> {
        self.write_tables(inputs)?;
        let phase = if tokens.len() == 1 { Phase::Decode } else { Phase::Prefill };
        let prepared = if phase == Phase::Decode { &self.decode } else { &self.prefill };
        let registers = inputs.register_values(prepared.program());
        let reading = self.device.run(prepared, &registers, wanted, sink)?;
        self.seen += tokens.len() as u64;
        Ok((phase, reading))
    }

    /// Takes tokens of one sequence of a batch, behind those that it took before: a prompt, or a part of one.
    /// [`Self::logits`] gives what follows them.
    ///
    /// # Errors
    /// As [`Self::feed`]; a sequence that there is not, or fewer than two tokens: one is for
    /// [`Self::feed_batch`].
    pub fn feed_sequence<S: Sink + Send>(
        &mut self,
        sequence: u64,
        tokens: &[u64],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ModelError> {
        let at = to_index(sequence);
        // A sequence that there is not has seen nothing, and is refused.
        let seen = self.seen_by.get(at).copied().unwrap_or(0);
        let inputs = self.compiled.sequence_inputs(sequence, seen, tokens)?;
        if tokens.len() == 1 {
            let allowed = "2 and more; one goes with those of other sequences".to_string();
            return Err(CompileError::Size { what: "the number of tokens", found: 1, allowed }.into());
        }
        self.write_tables(&inputs)?;
        let registers = inputs.register_values(self.prefill.program());
        let reading = self.device.run(&self.prefill, &registers, wanted, sink)?;
        if let Some(seen) = self.seen_by.get_mut(at) {
            *seen += tokens.len() as u64;
        }
        Ok(reading)
    }

    /// Takes one token of each sequence that has one, behind those that it took before; caches hold what
    /// earlier runs of this kind left. Sequences may have come differently far, and those without a token, or
    /// not named, stay where they are.
    ///
    /// # Errors
    /// A model that was compiled for one sequence, tokens that it does not have room for.
    pub fn feed_batch<S: Sink + Send>(
        &mut self,
        tokens: &[Option<u64>],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ModelError> {
        let past = self.seen_by.iter().copied().chain(std::iter::repeat(0));
        let sequences: Vec<Option<(u64, u64)>> =
            past.zip(tokens).map(|(past, token)| token.map(|token| (past, token))).collect();
        let inputs = self.compiled.batch_inputs(&sequences)?;
        self.write_tables(&inputs)?;
        let Some(prepared) = &self.batch else {
            let allowed = "one; compile with a batch for more".to_string();
            let found = tokens.len() as u64;
            return Err(CompileError::Size { what: "the number of sequences", found, allowed }.into());
        };
        let registers = inputs.register_values(prepared.program());
        let reading = self.device.run(prepared, &registers, wanted, sink)?;
        for (seen, token) in self.seen_by.iter_mut().zip(tokens) {
            *seen += u64::from(token.is_some());
        }
        Ok(reading)
    }

    /// The vector of a text, for a model that gives one: all tokens in one run, none before them.
    ///
    /// # Errors
    /// A model that gives logits; more tokens than one run takes.
    pub fn encode<S: Sink + Send>(
        &mut self,
        tokens: &[u64],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<(Vec<f32>, Reading), ModelError> {
        if !self.compiled.kernels.pools() {
            return Err(CompileError::Node {
                node: self.compiled.kernels.name.clone(),
                why: "it gives logits, no vector of a text".to_string(),
                allowed: "encoders, which end in the mean over their tokens",
            }
            .into());
        }
        self.restart();
        let (_, reading) = self.feed(tokens, wanted, sink)?;
        let vector = self.floats(self.compiled.plan.logits, self.compiled.plan.features.width)?;
        Ok((vector, reading))
    }

    /// Logits of a sequence after [`Self::feed_batch`].
    ///
    /// # Errors
    /// Memory that is not there.
    pub fn sequence_logits(&self, sequence: u64) -> Result<Vec<f32>, ModelError> {
        let plan = &self.compiled.plan;
        self.floats(plan.logits + 4 * sequence * plan.logit_words, self.compiled.kernels.vocabulary)
    }

    /// Logits of the last token that was fed.
    ///
    /// # Errors
    /// Memory that is not there.
    pub fn logits(&self) -> Result<Vec<f32>, ModelError> {
        self.floats(self.compiled.plan.logits, self.compiled.kernels.vocabulary)
    }

    fn floats(&self, at: u64, words: u64) -> Result<Vec<f32>, ModelError> {
        let mut bytes = vec![0; Dtype::F32.size_bytes(to_index(words))];
        self.device.read(hbm(0, at), &mut bytes)?;
        let words = bytes.chunks_exact(4).filter_map(|word| word.try_into().ok());
        Ok(words.map(f32::from_le_bytes).collect())
    }
}
