//! Passes of a model as the compiler makes them and the simulator times them: prompts in chunks, single
//! tokens of a batch.

use std::sync::atomic::{AtomicBool, Ordering};

use std::collections::BTreeMap;
use tilewright_base::invariant::{OrBroken, to_index};

use tilewright_compile::cluster::cluster;
use tilewright_compile::{CompileError, Compiled, Options, compile_kernels};
use tilewright_graph::Graph;
use tilewright_machine::Tcp;
use tilewright_record::{KeepAll, KeepLast};
use tilewright_runtime::prepared::Prepared;
use tilewright_runtime::{ReadingError, ReadingOptions};
use tilewright_tcp_cost::energy::{COMPONENTS, EnergyCounts};
use tilewright_tcp_sim::SimOutcome;

use crate::llama::Scales;

/// What a pass took, all its runs together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) cycles: u64,
    pub(crate) runs: u64,
    pub(crate) commands: u64,
    pub(crate) counts: EnergyCounts,
    pub(crate) energy_fj: [u128; COMPONENTS],
    /// Cycles of main context and DMA engine, the mean over PEs.
    pub(crate) main_cycles: u64,
    pub(crate) dma_cycles: u64,
    /// Cycles that cores, queues and doorbells of all PEs took.
    pub(crate) latency_cycles: u128,
    /// What should hold of a run but does not, where runs are checked: in builds with debug assertions.
    pub(crate) violations: usize,
    /// Tokens of a run, at most, for prompts, and bytes of scores that a slice holds.
    pub(crate) run_tokens: u64,
    pub(crate) score_bytes: u64,
    /// Bytes of HBM that weights, tables and caches take.
    pub(crate) held_bytes: u64,
    /// By kind of command: runs, cycles of all PEs, energy.
    pub(crate) kinds: BTreeMap<String, (u64, u128, u128)>,
}

/// Why there is no measure.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The model does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Its programs cannot be simulated.
    #[error(transparent)]
    Reading(#[from] ReadingError),
    /// Somebody asked for the end of it.
    #[error("the study was stopped")]
    Stopped,
}

impl Pass {
    /// Joules.
    pub(crate) fn joules(&self) -> f64 {
        self.energy_fj.iter().map(|fj| real(*fj) * 1e-15).sum()
    }

    /// Bytes of HBM that were read or written.
    pub(crate) fn hbm_bytes(&self) -> f64 {
        real(u128::from(self.counts.hbm_read_bytes + self.counts.hbm_written_bytes))
    }

    fn add(&mut self, outcome: &SimOutcome, pes: u64) {
        self.cycles += outcome.cycles;
        self.runs += 1;
        self.commands += outcome.commands;
        self.counts.add(&outcome.counts, 1);
        self.latency_cycles += outcome.latency_cycles;
        self.violations += outcome.violations.len();
        for (all, part) in self.energy_fj.iter_mut().zip(outcome.energy_fj) {
            *all += part;
        }
        for used in &outcome.utilisation {
            let mean = u64::try_from(used.busy_cycles / u128::from(pes.max(1)))
                .or_broken("cycles of a unit fit 64 bits");
            match used.engine {
                tilewright_tcp_sim::EngineUnit::Main => self.main_cycles += mean,
                tilewright_tcp_sim::EngineUnit::Dma => self.dma_cycles += mean,
                _ => {}
            }
        }
        for image in &outcome.images {
            let name = format!("{} {}", image.unit.name(), kind_of(&image.name));
            let kind = self.kinds.entry(name).or_default();
            kind.0 += image.runs;
            kind.1 += image.busy_cycles;
            kind.2 += image.energy_fj;
        }
    }
}

/// What a command is called without the number that tells it from others of its kind.
pub(crate) fn kind_of(name: &str) -> &str {
    name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_')
}

/// One run of a prompt's program, with its record.
pub(crate) struct PromptChunk<'c> {
    pub(crate) compiled: &'c Compiled,
    /// Tokens before those of the run.
    pub(crate) past: u64,
    /// Tokens of the run.
    pub(crate) count: u64,
    pub(crate) outcome: &'c SimOutcome,
}

/// Looks at the runs of a prompt.
pub(crate) type ChunkObserver<'l> = dyn FnMut(&PromptChunk<'_>) + 'l;

/// A model on a machine.
#[derive(Clone, Copy)]
pub(crate) struct MeasuredModel<'m> {
    pub(crate) machine: &'m Tcp,
    pub(crate) graph: &'m Graph,
    /// Contexts may be longer than the positions of the model: only its configuration is known, and that its
    /// table of angles is longer is all that a time needs.
    pub(crate) stretches: bool,
    /// What integer activations are scaled by. Times do not depend on what calibration would find.
    pub(crate) scales: Scales,
    pub(crate) options: Options,
    /// Set by whoever wants no more of it.
    pub(crate) stop: Option<&'m AtomicBool>,
}

impl MeasuredModel<'_> {
    /// Looked at before a program is compiled or simulated.
    fn go_on(&self) -> Result<(), MeasureError> {
        let stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if stopped { Err(MeasureError::Stopped) } else { Ok(()) }
    }

    /// Programs for a context and a batch.
    pub(crate) fn compiled(&self, context: u64, batch: u64) -> Result<Compiled, MeasureError> {
        self.go_on()?;
        let mut kernels = cluster(self.graph)?;
        if self.scales == Scales::Tensor {
            kernels.assume_peaks();
        }
        if self.stretches {
            kernels.positions = kernels.positions.max(context);
        }
        Ok(compile_kernels(self.machine, &kernels, Options { context, batch, ..self.options })?)
    }

    /// The first token after a prompt: all its chunks. With a look they are recorded.
    pub(crate) fn prefill(
        &self,
        tokens: u64,
        mut look: Option<&mut ChunkObserver<'_>>,
    ) -> Result<Pass, MeasureError> {
        let compiled = self.compiled(tokens, 1)?;
        let prepared = Prepared::new(self.machine, compiled.prefill.clone())?;
        let run_tokens = compiled.most_tokens().min(tokens);
        let score_bytes = crate::layout::score_bytes(self.machine, &compiled);
        let held_bytes = compiled.plan.end;
        let mut pass = Pass { run_tokens, score_bytes, held_bytes, ..Pass::default() };
        let mut past = 0;
        while past < tokens {
            // One token has a program of its own.
            let count = compiled.most_tokens().min(tokens - past).max(2);
            let before = past.min(tokens - count);
            let inputs = compiled.inputs(before, &vec![0; index(count)])?;
            // Only the last part of a prompt is asked for a token.
            let inputs = if past + count < tokens { inputs.without_logits() } else { inputs };
            let outcome = self.time(&prepared, &inputs, look.is_some())?;
            pass.add(&outcome, self.options.all_pes());
            if let Some(look) = look.as_mut() {
                look(&PromptChunk { compiled: &compiled, past: before, count, outcome: &outcome });
            }
            past += count;
        }
        Ok(pass)
    }

    /// The next token of each of `batch` sequences that have `context` tokens.
    pub(crate) fn decode(&self, prepared: &DecodeStep) -> Result<Pass, MeasureError> {
        let DecodeStep { compiled, program, context } = prepared;
        let batch = compiled.plan.options.batch;
        let inputs = if batch > 1 {
            compiled.batch_inputs(&vec![Some((*context, 0)); index(batch)])?
        } else {
            compiled.inputs(*context, &[0])?
        };
        let mut pass = Pass { held_bytes: compiled.plan.end, ..Pass::default() };
        pass.add(&self.time(program, &inputs, false)?, self.options.all_pes());
        Ok(pass)
    }

    /// The program of single tokens, for contexts up to a longest.
    pub(crate) fn steps(&self, batch: u64, contexts: &[u64]) -> Result<Vec<(u64, Pass)>, MeasureError> {
        let most = contexts.iter().max().or_broken("steps are measured at some contexts") + 1;
        let compiled = self.compiled(most, batch)?;
        let program = compiled.batch.clone().unwrap_or_else(|| compiled.decode.clone());
        let mut step = DecodeStep { program: Prepared::new(self.machine, program)?, compiled, context: 0 };
        let mut passes = Vec::new();
        for context in contexts {
            step.context = *context;
            passes.push((*context, self.decode(&step)?));
        }
        Ok(passes)
    }

    fn time(
        &self,
        prepared: &Prepared,
        inputs: &tilewright_compile::Inputs,
        record: bool,
    ) -> Result<SimOutcome, MeasureError> {
        self.go_on()?;
        let named =
            inputs.registers.iter().filter_map(|(name, value)| Some((prepared.register(name)?, *value)));
        let registers: Vec<_> = named.collect();
        let wanted = ReadingOptions { trace: record, ..ReadingOptions::default() };
        let reading = if record {
            prepared.time(&registers, &wanted, KeepAll::default())?
        } else {
            prepared.time(&registers, &wanted, KeepLast::new(0))?
        };
        Ok(reading.outcome)
    }
}

/// A program of single tokens and the context that it is run with.
pub(crate) struct DecodeStep {
    compiled: Compiled,
    program: Prepared,
    context: u64,
}

pub(crate) fn index(count: u64) -> usize {
    to_index(count)
}

/// A count as a real number.
#[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
pub(crate) fn real(count: u128) -> f64 {
    count as f64
}
