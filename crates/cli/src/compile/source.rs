//! What is compiled, by the name of its file: a model or its graph from stage 1 on, kernels from stage 3 on,
//! lowered kernels from stage 4 on.

use std::ops::ControlFlow;

use tilewright_base::{Diagnostic, Sources};
use tilewright_compile::cluster::cluster;
use tilewright_compile::general::refusal::check_graph;
use tilewright_compile::kernel::Kernels;
use tilewright_compile::{kernel_text, lowered, schedule_text};
use tilewright_graph::{Graph, TensorStore};
use tilewright_import::{Model, configs};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_schedule::tune::{TuneGoal, TunedModel, tune_compiled};

use super::args::{CompileArgs, ProgramName, Stage};
use super::batch;
use crate::calibrate;
use crate::goal::goal;
use crate::graph::not_lowered;
use crate::host::{Host, read_text};
use crate::model;
use crate::outcome::{BAD_INPUT, FAILED, Outcome};
use crate::progress::part;
use crate::run::{compiled_long, refused, untuned};
use crate::target::{ModelTarget, here};

/// Effort for a language model if nobody says how much.
const MODEL_EFFORT: u64 = 1;

/// A file as it was read.
pub(super) enum CompileInput {
    /// With its weights, if the file has them; what the templates take, and the graph as it was read.
    Model(Box<(Model, Graph)>),
    /// Stage 2, without weights.
    Kernels(Kernels),
    /// Stage 3, likewise, and where it was read from.
    Lowered(Box<(lowered::read::LoweredText, Sources)>),
    /// Stage 5: nothing is left to compile.
    Schedule(Box<(schedule_text::ScheduleText, Sources)>),
}

/// What a file was compiled to.
pub(super) struct CompileOutput {
    pub(super) machine: Tcp,
    pub(super) target: ModelTarget,
    /// Before they are sharded.
    pub(super) kernels: Kernels,
    pub(super) tuned: TunedModel,
}

/// Texts of stages, by what their names end in and what they begin with.
const TEXTS: [&str; 4] = ["graph", "kernels", "lowered", "schedule"];

/// The stage that a text is of, by the name of its file; standard input by its first word.
fn stage(path: &str, text: &str) -> Option<&'static str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '/']));
    let first = lines.flat_map(str::split_whitespace).next().unwrap_or_default();
    TEXTS.into_iter().find(|stage| match path {
        "-" => first == *stage,
        _ => path.strip_suffix(stage).is_some_and(|path| path.ends_with('.')),
    })
}

/// What a text of a graph that takes arrays holds, if it is one that is not read.
fn general_stage(text: &str) -> Option<&'static str> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some("general"), Some("kernels")) => Some("kernels"),
        (Some("general"), Some("lowered")) => Some("lowered kernels"),
        _ => None,
    }
}

impl CompileInput {
    pub(super) fn load(args: &CompileArgs, host: &mut dyn Host) -> Result<CompileInput, Outcome> {
        let path = &args.model;
        if path != "-" && stage(path, "").is_none() {
            let loaded = model::load(path, args.dims.as_deref(), host)?;
            return CompileInput::of_model(args, batch::bounded(args, loaded, host)?);
        }
        model::own_sizes(path, args.dims.as_deref())?;
        let text = read_text(host, path).map_err(|why| Outcome::usage(&why))?;
        if let Some(stage) = general_stage(&text) {
            return Err(Outcome::usage(&format!(
                "`{path}` holds {stage} of a graph that takes arrays, which are for people and not read\n  \
                 = allowed: graph texts; kernels, lowered kernels and schedules of language models\n  \
                 = instead: the graph, or what --emit primitives prints of it"
            )));
        }
        let mut sources = Sources::default();
        let id = sources.add(path.as_str(), &text);
        let refuse = |sources: &Sources, found: &[Diagnostic]| {
            Outcome::refused(BAD_INPUT, sources, found, host.colour())
        };
        match stage(path, &text) {
            Some("kernels") => {
                let read = kernel_text::read(&text, id).map_err(|found| refuse(&sources, &found))?;
                Ok(CompileInput::Kernels(read))
            }
            Some("lowered") => {
                let read = lowered::read::read(&text, id).map_err(|found| refuse(&sources, &found))?;
                Ok(CompileInput::Lowered(Box::new((read, sources))))
            }
            Some("schedule") => {
                let read = schedule_text::read::read(&text, id).map_err(|found| refuse(&sources, &found))?;
                Ok(CompileInput::Schedule(Box::new((read, sources))))
            }
            _ => {
                let graph =
                    tilewright_graph::text::read(&text, id).map_err(|found| refuse(&sources, &found))?;
                CompileInput::of_model(args, Model { graph, store: TensorStore::default() })
            }
        }
    }

    fn of_model(args: &CompileArgs, model: Model) -> Result<CompileInput, Outcome> {
        let stays = matches!(args.emit, Some(Stage::Graph | Stage::Primitives | Stage::Bounded));
        if !stays {
            // Patterns are looked for in graphs that can be compiled.
            check_graph(&model.graph).map_err(|refusal| not_lowered(&model.graph, &refusal))?;
        }
        let as_read = model.graph.clone();
        if stays {
            return Ok(CompileInput::Model(Box::new((model, as_read))));
        }
        Ok(CompileInput::Model(Box::new((model::recognised(model), as_read))))
    }

    /// The model, for what needs its graph or its weights.
    pub(super) fn model(&self) -> Result<&Model, Outcome> {
        let (what, allowed) = match self {
            CompileInput::Model(model) => return Ok(&model.0),
            CompileInput::Kernels(_) => ("kernels", "kernels, lowered, commands or schedule"),
            CompileInput::Lowered(_) => ("lowered kernels", "kernels, lowered, commands or schedule"),
            CompileInput::Schedule(_) => return Err(ended()),
        };
        Err(Outcome::usage(&format!(
            "a text of {what} has neither a graph nor weights\n  = allowed: --emit {allowed}\n  \
             = instead: the model that the kernels are of"
        )))
    }

    /// The program that is meant if none is named.
    pub(super) fn program(&self, args: &CompileArgs) -> ProgramName {
        let own = match self {
            CompileInput::Lowered(read) => {
                ProgramName::ALL.into_iter().find(|name| name.name() == read.0.program)
            }
            _ => None,
        };
        args.program.or(own).unwrap_or(ProgramName::Decode)
    }

    /// Kernels, with scales from a text if one is named.
    pub(super) fn kernels(&self, args: &CompileArgs, host: &mut dyn Host) -> Result<Kernels, Outcome> {
        calibrate::check(&args.target)?;
        let mut kernels = match self {
            CompileInput::Model(model) => cluster(&model.0.graph).map_err(|error| refused(&error))?,
            CompileInput::Kernels(kernels) => kernels.clone(),
            CompileInput::Lowered(read) => read.0.kernels.clone(),
            CompileInput::Schedule(_) => return Err(ended()),
        };
        if args.target.calibrate.is_none() {
            // Without weights there is nothing to find scales with, and no value that they change.
            let integers = args.target.check()?.dtype == Dtype::I8;
            if integers && configs::names().contains(&args.model.as_str()) {
                kernels.assume_peaks();
            }
            return Ok(kernels);
        }
        let machine = args.target.machine(host)?;
        let tokenizer = |host: &dyn Host| model::tokenizer(&args.model, args.tokenizer.as_deref(), host);
        calibrate::calibrated(&machine, &args.target, (self.model()?, &tokenizer), kernels, host)
    }

    /// Compiles it to programs: by the rule, and then with the choices that an effort finds, unless they are
    /// made already.
    pub(super) fn made(&self, args: &CompileArgs, host: &mut dyn Host) -> Result<CompileOutput, Outcome> {
        let kernels = self.kernels(args, host)?;
        if let CompileInput::Lowered(read) = self {
            let (text, sources) = &**read;
            let target = decided(text, args)?;
            let machine = target.machine(host)?;
            if text.choices.window > 0 {
                here(text.choices.solver, host)?;
            }
            let compiled = text
                .compile(&machine)
                .map_err(|found| Outcome::refused(FAILED, sources, &found, host.colour()))?;
            let tuned = TunedModel { compiled, evaluations: 0, times: None };
            return Ok(CompileOutput { machine, target, kernels, tuned });
        }
        let (target, machine) = (args.target.clone(), args.target.machine(host)?);
        host.progress("compiling", None);
        let rule = compiled_long(&machine, &target, &kernels, args.batch.unwrap_or(1))?;
        let effort = args.effort.unwrap_or(MODEL_EFFORT);
        let aim = TuneGoal { effort, goal: goal(&args.goal)?, solver: target.solver(host)? };
        let phase = format!("choosing with effort {effort}");
        let tuned = tune_compiled(&machine, &kernels, rule, aim, &mut |done, of| {
            host.progress(&phase, Some(part(done, of)));
            ControlFlow::Continue(())
        });
        let tuned = tuned.map_err(|error| untuned(&error))?;
        Ok(CompileOutput { machine, target, kernels, tuned })
    }
}

/// Why a schedule is not compiled.
pub(super) fn ended() -> Outcome {
    Outcome::usage(
        "a schedule says when commands ran, not what they are\n  = allowed: --emit schedule, or none to have \
         it checked\n  \
         = instead: the model, its kernels or its lowered kernels",
    )
}

/// What a text was lowered for; the command line may say the same, or nothing.
fn decided(text: &lowered::read::LoweredText, args: &CompileArgs) -> Result<ModelTarget, Outcome> {
    let asked = &args.target;
    let (options, rule) = (&text.options, ModelTarget::default());
    let cache = if options.cache == Dtype::I8 { "int8" } else { "bf16" };
    let own = ModelTarget {
        chip: text.chip.clone(),
        set: text.set.clone(),
        dtype: options.dtype_name().to_string(),
        cache: cache.to_string(),
        calibrate: None,
        pes: options.pes,
        chips: options.chips,
        context: Some(options.context),
        solver: text.choices.solver.name().to_string(),
        without: asked.without.clone(),
    };
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let both = [
        ("chip", &asked.chip, &rule.chip, &own.chip),
        ("set", &asked.set.join(" "), &String::new(), &own.set.join(" ")),
        ("dtype", &asked.dtype, &rule.dtype, &own.dtype),
        ("cache", &asked.cache, &rule.cache, &own.cache),
        ("pes", &asked.pes.to_string(), &rule.pes.to_string(), &own.pes.to_string()),
        ("chips", &asked.chips.to_string(), &rule.chips.to_string(), &own.chips.to_string()),
        ("batch", &args.batch.unwrap_or(1).to_string(), &"1".to_string(), &options.batch.to_string()),
        ("context", &number(asked.context), &String::new(), &number(own.context)),
        ("solver", &asked.solver, &rule.solver, &own.solver),
    ];
    let other = both.into_iter().find(|(_, asked, rule, own)| asked != rule && asked != own);
    if let Some((name, asked, _, own)) = other {
        return Err(Outcome::usage(&format!(
            "--{name} {asked}, but the text was lowered for `{name} {own}`\n  = allowed: --{name} {own}\n  \
             = instead: leave it out; or change the line `{name}` of the text and what is stated below its \
             kernels"
        )));
    }
    Ok(own)
}
