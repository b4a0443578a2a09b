//! Language models: read from files that the caller reads, compiled for the TCP, and generating text there.

pub mod files;
pub mod report;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tilewright_base::Diagnostic;
use tilewright_base::invariant::OrBroken;
use tilewright_compile::cluster::cluster;
use tilewright_compile::{Compiled, Named, Options, compile_kernels, weights};
use tilewright_explore::Goal;
use tilewright_import::Model;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_runtime::generate::{
    Generation, GenerationStep, Limits, RecordedRun, generate, recorded_runs,
};
use tilewright_runtime::model::{ModelDevice, ModelError};
use tilewright_schedule::tune::{ProgramCosts, TokenCost, TuneGoal, TunedModel, tune_compiled};
use tilewright_tcp_isa::program::text::print;

use crate::Refusal;
use crate::model_run::{ModelRun, ModelTexts, title};
use files::{AxisBounds, ModelFiles, read_model, read_tokenizer_of, tokenizer_path};
use report::{GenerationRun, ModelFacts};

/// A model with its tokenizer, if one lies beside it.
#[derive(Debug)]
pub struct LoadedModel {
    /// The graph and its tensors, with rich operators where its file has patterns of primitives.
    pub model: Model,
    /// What makes tokens of texts.
    pub tokenizer: Option<Tokenizer>,
}

/// Reads a model, with rich operators where its file has patterns of primitives, and its tokenizer.
///
/// # Errors
/// Files that are not there, or no such model.
pub fn load(path: &str, files: &dyn ModelFiles) -> Result<LoadedModel, Box<Refusal>> {
    let model = read_model(path, AxisBounds::new(), files)?;
    let model = Model { graph: tilewright_compile::recognise(&model.graph), ..model };
    let tokenizer = tokenizer_path(path, files).map(|found| read_tokenizer_of(path, &found, files));
    Ok(LoadedModel { model, tokenizer: tokenizer.transpose()? })
}

fn refused(complaint: Diagnostic) -> Box<Refusal> {
    Box::new(Refusal::plain(complaint))
}

/// What to compile a model for.
#[derive(Clone, Copy, Debug)]
pub struct CompileRequest<'a> {
    /// Types of weights and activations: bf16, int8, w8a8, w8a16, w4a8 or w4a16.
    pub dtype: &'a str,
    /// Keys and values are kept in eight bits.
    pub cache_int8: bool,
    /// PEs of a chip.
    pub pes: u64,
    /// Chips that share the weights.
    pub chips: u64,
    /// Longest context in tokens.
    pub context: u64,
    /// How many choices are evaluated by simulated time.
    pub effort: u64,
    /// What is to be least.
    pub goal: Goal,
}

/// A compiled model.
#[derive(Debug)]
pub struct CompiledModel {
    /// What it was compiled for.
    pub machine: Tcp,
    /// The chip's name.
    pub chip: String,
    /// The model with the choices that were found.
    pub tuned: TunedModel,
}

fn named_types(name: &str) -> Result<Named, Box<Refusal>> {
    Named::read(name).map_err(|allowed| {
        let complaint = Diagnostic::error("compile/dtype", format!("models are not compiled in `{name}`"));
        refused(complaint.allowed(allowed).instead("bf16"))
    })
}

/// Positions of a model, and its kernels as text: what the times of its programs follow from besides the
/// machine and what it is compiled for.
///
/// # Errors
/// Files that are not there, models that no template takes, types that there are not.
pub fn kernels_of(path: &str, dtype: &str, files: &dyn ModelFiles) -> Result<(u64, String), Box<Refusal>> {
    named_types(dtype)?;
    let loaded = load(path, files)?;
    let kernels = cluster(&loaded.model.graph)
        .map_err(|error| refused(Diagnostic::error("compile/refused", error.to_string())))?;
    Ok((kernels.positions, kernels.print()))
}

/// Compiles a model; ends before its next choice once `stop` is set.
///
/// # Errors
/// Types and counts that there are not; models that no template takes, or that do not fit; the end that was
/// asked for.
pub fn compile(
    machine: &Tcp,
    chip: &str,
    loaded: &LoadedModel,
    request: &CompileRequest<'_>,
    stop: &AtomicBool,
) -> Result<CompiledModel, Box<Refusal>> {
    let Named { dtype, mixed, .. } = named_types(request.dtype)?;
    for (what, count) in [("PEs", request.pes), ("chips", request.chips)] {
        if ![1, 2, 4, 8].contains(&count) {
            let complaint = Diagnostic::error("compile/count", format!("{count} {what}"));
            return Err(refused(complaint.allowed("1, 2, 4, 8").instead(format!("1 of the {what}"))));
        }
    }
    let failed = |words: String| refused(Diagnostic::error("compile/refused", words));
    let kernels = cluster(&loaded.model.graph).map_err(|error| failed(error.to_string()))?;
    if request.context == 0 || request.context > kernels.positions {
        let complaint =
            Diagnostic::error("compile/context", format!("a context of {} tokens", request.context));
        let allowed = format!("1 to {}, the positions of the model", kernels.positions);
        return Err(refused(complaint.allowed(allowed).instead(kernels.positions.to_string())));
    }
    let slices = machine.pe.slices.max(1);
    let options = Options {
        dtype,
        mixed,
        cache: if request.cache_int8 { Dtype::I8 } else { Dtype::Bf16 },
        context: request.context.checked_next_multiple_of(slices).unwrap_or(request.context),
        pes: request.pes,
        chips: request.chips,
        batch: 1,
    };
    let aim = TuneGoal { goal: request.goal, ..TuneGoal::time(request.effort) };
    let rule = compile_kernels(machine, &kernels, options).map_err(|error| failed(error.to_string()))?;
    let mut go_on = |_: u64, _: u64| match stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    if go_on(0, 0).is_break() {
        return Err(failed("the search was stopped".to_string()));
    }
    let tuned = tune_compiled(machine, &kernels, rule, aim, &mut go_on);
    let tuned = tuned.map_err(|error| failed(error.to_string()))?;
    Ok(CompiledModel { machine: machine.clone(), chip: chip.to_string(), tuned })
}

impl CompiledModel {
    /// Programs by name, as texts.
    pub fn programs(&self) -> Vec<(&'static str, String)> {
        let compiled = &self.tuned.compiled;
        let all = [("clear", &compiled.clear), ("prefill", &compiled.prefill), ("decode", &compiled.decode)];
        all.map(|(name, program)| (name, print(program))).to_vec()
    }

    /// What was decided, as data.
    pub fn value(&self) -> Value {
        let (compiled, options) = (&self.tuned.compiled, &self.tuned.compiled.plan.options);
        json!({
            "model": compiled.kernels.name,
            "chip": self.chip,
            "dtype": options.dtype_name(),
            "pes": options.pes,
            "chips": options.chips,
            "context": options.context,
            "positions": compiled.kernels.positions,
            "vocabulary": compiled.kernels.vocabulary,
            "evaluations": self.tuned.evaluations,
            "kernels": compiled.kernels.print(),
        })
    }

    /// What a token takes, of the longest prompt and behind the longest context; none if the programs do not
    /// come to their end. Needs no weights.
    pub fn costs(&self) -> Option<Value> {
        let costs = ProgramCosts::of(&self.machine, &self.tuned.compiled)?;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let one = |cost: &TokenCost| {
            json!({
                "ms_per_token": cost.millicycles as f64 / self.machine.chip.clock_hz as f64,
                "energy_mj_per_token": cost.energy_fj as f64 / 1e12,
                "milliwatts": cost.milliwatts,
            })
        };
        Some(json!({ "decode": one(&costs.decode), "prefill": one(&costs.prefill) }))
    }

    /// Puts the model with its weights on a device of its own; with the texts of its programs.
    ///
    /// # Errors
    /// Weights that are missing.
    pub fn device(&self, loaded: &LoadedModel) -> Result<(ModelDevice, ModelTexts), Box<Refusal>> {
        let failed = |error: ModelError| refused(Diagnostic::error("model/device", error.to_string()));
        let mut compiled = self.tuned.compiled.clone();
        let texts = ModelTexts::of(&mut compiled);
        let mut device = ModelDevice::new(&self.machine, compiled).map_err(failed)?;
        let constant = |name: &str| weights::constant(&loaded.model.graph, &loaded.model.store, name);
        device.load(&constant).map_err(failed)?;
        Ok((device, texts))
    }
}

/// What a prompt became.
#[derive(Debug)]
pub struct GeneratedText {
    /// Prompt and what came behind it.
    pub text: String,
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// What was generated, and what it took.
    pub generation: Generation,
    /// Runs in full: of the prompt, and of the last token if one was fed behind it.
    pub runs: Vec<ModelRun>,
}

/// Generates behind a prompt; `said` hears the text of each token, and stops it with `true`.
///
/// # Errors
/// A prompt without tokens, or that does not fit.
pub fn generate_text(
    (device, texts): (&mut ModelDevice, &ModelTexts),
    tokenizer: &Tokenizer,
    prompt: &str,
    most_tokens: u64,
    said: &mut dyn FnMut(&str) -> bool,
) -> Result<GeneratedText, Box<Refusal>> {
    let failed = |error: ModelError| refused(Diagnostic::error("model/generate", error.to_string()));
    let tokens = tokenizer.encode(prompt);
    let tokens = tokens.map_err(|error| refused(Diagnostic::error("model/prompt", error.to_string())))?;
    let vocabulary = device.compiled().kernels.vocabulary;
    if tokens.is_empty() || tokens.iter().any(|token| u64::from(*token) >= vocabulary) {
        let complaint = Diagnostic::error("model/prompt", "the prompt has no token that the model takes");
        let allowed = format!("at least one token, all below {vocabulary}");
        return Err(refused(complaint.allowed(allowed).instead("a text, with the model's own tokenizer")));
    }
    let wide = |tokens: &[u32]| tokens.iter().copied().map(u64::from).collect::<Vec<u64>>();
    let limits = Limits { tokens: most_tokens, ends: wide(&tokenizer.ends()) };
    let mut all = tokens.clone();
    let generation = generate(device, &wide(&tokens), &limits, &mut |step| {
        let GenerationStep::Token(token) = step else { return ControlFlow::Continue(()) };
        all.push(u32::try_from(token).or_broken("a token is one of the vocabulary"));
        let stop = said(&tokenizer.decode(&all));
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let generation = generation.map_err(failed)?;
    let runs = recorded_runs(device, &wide(&tokens), &generation).map_err(failed)?;
    let compiled = device.compiled();
    let run = |run: RecordedRun| {
        let title = title(&compiled.kernels.name, run.before, run.tokens);
        texts.run(device.machine(), compiled, title, (run.phase, run.reading))
    };
    let runs = runs.into_iter().map(run).collect();
    let text = tokenizer.decode(&all);
    Ok(GeneratedText { text, prompt: tokens, generation, runs })
}

/// What a generation took, as data.
pub fn generation_value(model: &CompiledModel, compiled: &Compiled, made: &GeneratedText) -> Value {
    let run = GenerationRun {
        machine: &model.machine,
        chip: &model.chip,
        facts: &ModelFacts::of(compiled),
        prompt: &made.prompt,
        generation: &made.generation,
        text: &made.text,
        vector: None,
        trace: None,
        other_sequences: &[],
    };
    serde_json::to_value(run.report()).unwrap_or(Value::Null)
}
