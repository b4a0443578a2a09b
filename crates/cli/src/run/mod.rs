//! `tilewright run`: a language model generates text, an encoder gives the vector of one, any other graph its
//! outputs, on the simulated chip or with the interpreter.

pub(crate) mod args;
mod batch;
mod device;
mod language;
mod page;
mod reference;
mod report;
mod stream;
mod tensors;
mod vocabulary;

use tilewright_compile::cluster::cluster;
use tilewright_compile::kernel::Kernels;
use tilewright_compile::{CompileError, Compiled, Options, compile_kernels, weights};
use tilewright_graph::{Graph, LanguageGraph};
use tilewright_import::Model;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_machine::Tcp;
use tilewright_schedule::tune::{TuneError, TuneGoal, tune, watts};

pub(crate) use device::{ModelJob, WeightSource};
pub(crate) use language::{check_file, generated, unready};
pub(crate) use reference::positions;
pub(crate) use tensors::{GivenSizes, GraphJob, InputArrays};

use crate::calibrate;
use crate::compile::executed;
use crate::host::{Host, OutputFile, refuse_collisions};
use crate::model;
use crate::outcome::{BAD_INPUT, FAILED, Outcome};
use crate::target::ModelTarget;
use args::{PromptArgs, RunArgs};
use page::ModelPage;

pub(crate) fn run(args: &RunArgs, host: &mut dyn Host) -> Outcome {
    if let Err(refusal) = args.prompting.check(args.interp).and_then(|()| args.check_page()) {
        return refusal;
    }
    if let Some(outcome) = executed(args, host) {
        return outcome;
    }
    let outcome = if tensors::asked(args) {
        tensors::run(args, host)
    } else if args.interp {
        reference::generate(args, host)
    } else {
        chip(args, host)
    };
    outcome.unwrap_or_else(|refusal| refusal)
}

fn chip(args: &RunArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let machine = args.target.machine(host)?;
    let is_without = args.target.leaves_out_templates();
    // What cannot be compiled is refused before a large file is read.
    if !is_without && !args.target.is_for_graphs() {
        calibrate::check(&args.target)?;
    }
    model::with_weights(&args.model)?;
    let as_read = model::load(&args.model, args.dims.as_deref(), host)?;
    let tokenizer = model::tokenizer(&args.model, args.prompting.tokenizer.as_deref(), host)?;
    let files = [("--trace", &args.prompting.trace), ("--html", &args.html)];
    let files = files.map(|(option, path)| OutputFile::of_option(option, path.as_deref()));
    refuse_collisions(host, files.into_iter().flatten())?;
    let on = RunTarget {
        machine: &machine,
        target: &args.target,
        tokenizer: &tokenizer,
        prompting: &args.prompting,
        page: args.html.as_deref(),
    };
    let graph = tilewright_compile::recognise(&as_read.graph);
    if is_without || !has_template(&as_read.graph, &graph) {
        return language::run(args, &on, &as_read, host);
    }
    calibrate::check(&args.target)?;
    on_chip(&on, &Model { graph, ..as_read }, args.effort, host)
}

/// Whether templates write the programs of a graph, which is given as it was read and with rich operators.
/// One that takes no tokens or gives no logits is theirs to refuse, unless it is an encoder.
fn has_template(as_read: &Graph, recognised: &Graph) -> bool {
    cluster(recognised).is_ok() || LanguageGraph::of(as_read).is_err()
}

/// What a model is run on and asked for.
pub(crate) struct RunTarget<'t> {
    pub(crate) machine: &'t Tcp,
    pub(crate) target: &'t ModelTarget,
    pub(crate) tokenizer: &'t Tokenizer,
    pub(crate) prompting: &'t PromptArgs,
    /// Where a page of its runs goes, if one is written.
    pub(crate) page: Option<&'t str>,
}

/// Compiles a model, with the choices that an effort finds, and generates with it.
pub(crate) fn on_chip(
    on: &RunTarget<'_>,
    loaded: &Model,
    effort: u64,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let page = on.page.map(|path| ModelPage { path, graph: &loaded.graph });
    let job = ModelJob { page, ..on.job()? };
    let phase = |phase: &str, host: &mut dyn Host| {
        if !on.prompting.json {
            host.progress(phase, None);
        }
    };
    let longest = job.others.iter().map(Vec::len).fold(job.prompt.len(), usize::max) as u64;
    let needed = longest + u64::from(on.prompting.max_tokens());
    let kernels = cluster(&loaded.graph).map_err(|error| refused(&error))?;
    let tokenizer = |_: &dyn Host| Ok(on.tokenizer.clone());
    let kernels = calibrate::calibrated(on.machine, on.target, (loaded, &tokenizer), kernels, host)?;
    on.target.check_context(kernels.positions)?;
    let options = Options { batch: job.others.len() as u64 + 1, ..on.target.options(on.machine, needed)? };
    let aim = TuneGoal { solver: on.target.solver(host)?, ..TuneGoal::time(effort) };
    phase("compiling", host);
    let tuned = tune(on.machine, &kernels, options, aim).map_err(|error| untuned(&error))?;
    let compiled = tuned.compiled;
    let constant = |name: &str| weights::constant(&loaded.graph, &loaded.store, name);
    phase("packing weights", host);
    job.run(compiled, &WeightSource::Constants(&constant), host)
}

impl<'t> RunTarget<'t> {
    /// All texts as tokens, for a model that is compiled.
    pub(crate) fn job(&self) -> Result<ModelJob<'t>, Outcome> {
        let others = self.prompting.others().iter();
        let others: Result<Vec<_>, _> = others.map(|text| prompt(self.tokenizer, text)).collect();
        Ok(ModelJob {
            machine: self.machine,
            chip: &self.target.chip,
            set: &self.target.set,
            pes: self.target.pes,
            chips: self.target.chips,
            tokenizer: self.tokenizer,
            prompting: self.prompting,
            prompt: prompt(self.tokenizer, self.prompting.first())?,
            others: others?,
            page: None,
        })
    }
}

/// Tokens of a prompt.
fn prompt(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Outcome> {
    let prompt = tokenizer.encode(text).map_err(|error| Outcome::usage(&error.to_string()))?;
    if prompt.is_empty() {
        return Err(Outcome::usage("the prompt has no token\n  = instead: --prompt TEXT"));
    }
    Ok(prompt)
}

/// Refuses a prompt that the context has no room for, or that the model has no positions for.
fn check_room(prompt: &[u32], context: u64, positions: u64) -> Result<(), Outcome> {
    let found = prompt.len() as u64;
    let (most, named, instead) = if context < positions {
        (context, "the context", format!("a shorter prompt, or a longer --context, up to {positions}"))
    } else {
        (positions, "the positions of the model", "a shorter prompt".to_string())
    };
    if found <= most {
        return Ok(());
    }
    Err(Outcome::usage(&format!(
        "the prompt has {found} tokens\n  = allowed: 1 to {most}, {named}\n  = instead: {instead}"
    )))
}

/// The same, and one with tokens that the model does not have.
pub(crate) fn check_prompt(
    prompt: &[u32],
    (context, positions): (u64, u64),
    vocabulary: u64,
) -> Result<(), Outcome> {
    check_room(prompt, context, positions)?;
    vocabulary::check(prompt, vocabulary)
}

/// Kernels compiled for a target; without `--context` all positions, halved until they fit.
pub(crate) fn compiled_long(
    machine: &Tcp,
    target: &ModelTarget,
    kernels: &Kernels,
    batch: u64,
) -> Result<Compiled, Outcome> {
    target.check_context(kernels.positions)?;
    let mut options = Options { batch, ..target.options(machine, u64::MAX)? };
    if target.context.is_none() {
        options.context = kernels.positions;
    }
    loop {
        let made = compile_kernels(machine, kernels, options);
        let too_long = match &made {
            Err(CompileError::Dm { .. } | CompileError::Size { what: "the context", .. }) => true,
            // Caches of many sequences; weights are the same with a shorter context.
            Err(CompileError::Hbm { .. }) => batch > 1,
            _ => false,
        };
        if !(too_long && target.context.is_none() && options.context > LEAST_CONTEXT) {
            return made.map_err(|error| refused(&error));
        }
        options.context /= 2;
    }
}

/// A shorter context is not tried.
const LEAST_CONTEXT: u64 = 64;

/// A model for which no choice does.
pub(crate) fn untuned(error: &TuneError) -> Outcome {
    let instead = match error {
        TuneError::Compile(_) | TuneError::Graph(_) | TuneError::Stopped => String::new(),
        TuneError::Power { least_milliwatts, .. } => {
            format!("\n  = instead: --goal time@{}, fewer --pes or more --effort", watts(*least_milliwatts))
        }
        TuneError::Untimed => "\n  = instead: --goal time, energy or edp".to_string(),
    };
    let code =
        if matches!(error, TuneError::Compile(error) if error.is_of_request()) { BAD_INPUT } else { FAILED };
    Outcome { code, ..Outcome::usage(&format!("{error}{instead}")) }
}

/// A model that does not compile.
pub(crate) fn refused(error: &CompileError) -> Outcome {
    let code = if error.is_of_request() { BAD_INPUT } else { FAILED };
    Outcome { code, ..Outcome::usage(&error.to_string()) }
}
