//! What a generation took, as data: the keys of `run --json`.

use serde::Serialize;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_compile::Compiled;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_runtime::generate::Generation;
use tilewright_runtime::usage::Usage;
use tilewright_tcp_sim::EngineUnit;

/// What a report says of a model and of how it was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Its name.
    pub model: String,
    /// Types of weights and activations, as they are asked for.
    pub dtype: String,
    /// The type whose peak rate multipliers are compared with.
    pub peak: Dtype,
    /// PEs of a chip.
    pub pes: u64,
    /// Chips.
    pub chips: u64,
    /// Longest context in tokens.
    pub context: u64,
}

impl ModelFacts {
    /// Facts of a compiled model.
    pub fn of(compiled: &Compiled) -> ModelFacts {
        let options = &compiled.plan.options;
        ModelFacts {
            model: compiled.kernels.name.clone(),
            dtype: options.dtype_name().to_string(),
            peak: options.dtype,
            pes: options.pes,
            chips: options.chips,
            context: options.context,
        }
    }
}

/// A generation with all that its report is made of.
#[derive(Clone, Copy, Debug)]
pub struct GenerationRun<'d> {
    /// What it ran on.
    pub machine: &'d Tcp,
    /// The chip's name.
    pub chip: &'d str,
    /// What ran.
    pub facts: &'d ModelFacts,
    /// Tokens of the prompt.
    pub prompt: &'d [u32],
    /// What was generated.
    pub generation: &'d Generation,
    /// Prompt and what came behind it.
    pub text: &'d str,
    /// What an encoder gives instead of tokens.
    pub vector: Option<&'d [f32]>,
    /// Where a trace went.
    pub trace: Option<&'d str>,
    /// Texts that went on at the same time.
    pub other_sequences: &'d [SequenceJson],
}

impl<'d> GenerationRun<'d> {
    /// All of it.
    pub fn report(&self) -> ReportJson<'d> {
        let (decode, prefill) = (&self.generation.decode, &self.generation.prefill);
        let (machine, facts) = (self.machine, self.facts);
        let shown = if decode.runs > 0 { decode } else { prefill };
        let ms = decode.ms_per_token(machine);
        ReportJson {
            model: &facts.model,
            chip: self.chip,
            dtype: &facts.dtype,
            pes: facts.pes,
            chips: facts.chips,
            context: facts.context,
            prompt_tokens: self.prompt,
            tokens: &self.generation.tokens,
            text: self.text,
            embedding: self.vector,
            norm: self.vector.map(length),
            stop: self.generation.stop.name(),
            other_sequences: self.other_sequences,
            prefill_ms: prefill.seconds(machine) * 1e3,
            ms_per_token: ms,
            tokens_per_s: ms.map(|ms| 1e3 / ms),
            energy_mj_per_token: decode.mj_per_token(),
            utilisation: Utilisation::of(machine, facts, shown),
            breakdown: kinds(shown),
            decode: sums(decode),
            prefill: sums(prefill),
            prefill_utilisation: Utilisation::of(machine, facts, prefill),
            prefill_breakdown: kinds(prefill),
            trace: self.trace,
        }
    }
}

/// One of several texts.
#[derive(Clone, Debug, Serialize)]
pub struct SequenceJson {
    /// Tokens of the prompt.
    pub prompt_tokens: Vec<u32>,
    /// Tokens behind the prompt.
    pub tokens: Vec<u64>,
    /// Prompt and what came behind it.
    pub text: String,
    /// Why there are no more tokens.
    pub stop: &'static str,
}

/// What `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct ReportJson<'d> {
    /// Its name.
    pub model: &'d str,
    /// What it ran on.
    pub chip: &'d str,
    /// Types of weights and activations.
    pub dtype: &'d str,
    /// PEs of a chip.
    pub pes: u64,
    /// Chips.
    pub chips: u64,
    /// Longest context in tokens.
    pub context: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: &'d [u32],
    /// Tokens behind the prompt.
    pub tokens: &'d [u64],
    /// Prompt and what came behind it.
    pub text: &'d str,
    /// What an encoder gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<&'d [f32]>,
    /// The length of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<f64>,
    /// Why there are no more tokens.
    pub stop: &'static str,
    /// Texts that went on at the same time.
    #[serde(skip_serializing_if = "<[SequenceJson]>::is_empty")]
    pub other_sequences: &'d [SequenceJson],
    /// Milliseconds of the prompt.
    pub prefill_ms: f64,
    /// Milliseconds of a generated token.
    pub ms_per_token: Option<f64>,
    /// Generated tokens in a second.
    pub tokens_per_s: Option<f64>,
    /// Millijoules of a generated token.
    pub energy_mj_per_token: Option<f64>,
    /// How busy the chip was.
    pub utilisation: Utilisation,
    /// Where the time went.
    pub breakdown: Vec<KindJson<'d>>,
    /// Runs for single tokens.
    pub decode: UsageJson,
    /// Runs of the prompt.
    pub prefill: UsageJson,
    /// How busy the chip was with the prompt.
    pub prefill_utilisation: Utilisation,
    /// Where the time of the prompt went.
    pub prefill_breakdown: Vec<KindJson<'d>>,
    /// Where a trace went.
    pub trace: Option<&'d str>,
}

/// Sums over runs.
#[derive(Clone, Debug, Serialize)]
pub struct UsageJson {
    /// How many.
    pub runs: u64,
    /// Tokens behind the prompt.
    pub tokens: u64,
    /// Cycles.
    pub cycles: u64,
    /// Millijoules.
    pub energy_mj: f64,
    /// Products that were asked for.
    pub macs: u64,
    /// Bytes that HBM moved.
    pub hbm_bytes: u64,
}

/// Parts of one.
#[derive(Clone, Debug, Serialize)]
pub struct Utilisation {
    /// Main contexts.
    pub main: f64,
    /// Sub contexts.
    pub sub: f64,
    /// DMA engines.
    pub dma: f64,
    /// Multipliers.
    pub mac: f64,
    /// Off-chip memory.
    pub hbm: f64,
}

/// All commands of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindJson<'k> {
    /// What they do.
    pub kind: &'k str,
    /// What runs them.
    pub unit: &'static str,
    /// How many.
    pub commands: u64,
    /// Cycles.
    pub cycles: u64,
    /// Part of the time.
    pub share: f64,
    /// Picojoules.
    pub energy_pj: f64,
}

impl Utilisation {
    /// Of the runs that a usage adds up.
    pub fn of(machine: &Tcp, facts: &ModelFacts, usage: &Usage) -> Utilisation {
        let engine = |engine: EngineUnit| {
            let used = usage.engines.iter().find(|used| used.engine == engine);
            used.map_or(0.0, |used| real(used.ppm()) / 1e6)
        };
        Utilisation {
            main: engine(EngineUnit::Main),
            sub: engine(EngineUnit::Sub),
            dma: engine(EngineUnit::Dma),
            mac: usage.mac_use(machine, facts.pes.exact_mul(facts.chips), facts.peak),
            hbm: usage.hbm_use(machine, facts.chips),
        }
    }
}

/// The length of a vector.
pub fn length(vector: &[f32]) -> f64 {
    vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt()
}

fn sums(usage: &Usage) -> UsageJson {
    UsageJson {
        runs: usage.runs,
        tokens: usage.tokens,
        cycles: usage.cycles,
        energy_mj: usage.energy_mj(),
        macs: usage.counts.macs_useful,
        hbm_bytes: usage.counts.hbm_read_bytes.exact_add(usage.counts.hbm_written_bytes),
    }
}

/// All kinds of commands, longest first.
pub fn kinds(usage: &Usage) -> Vec<KindJson<'_>> {
    let small = |value: u128| u64::try_from(value).or_broken("counts of a run fit 64 bits");
    usage
        .longest()
        .into_iter()
        .map(|(kind, unit, used)| KindJson {
            kind,
            unit,
            commands: used.runs,
            cycles: small(used.busy_cycles),
            share: real(small(used.busy_cycles)) / real(usage.cycles.max(1)),
            energy_pj: real(small(used.energy_fj)) / 1e3,
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn real(value: u64) -> f64 {
    value as f64
}
