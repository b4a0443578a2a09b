//! `tilewright compile`: a model through the stages of the compiler, as text or as a file that `tilewright exec` runs.

pub(crate) mod args;
mod file;
mod general;
mod schedule;

use std::path::Path;

use tilewright_base::Sources;
use tilewright_compile::cluster::cluster;
use tilewright_compile::compiled::Outline;
use tilewright_compile::kernel::Kernels;
use tilewright_compile::lowered::lowered;
use tilewright_compile::{Compiled, kernel_text};
use tilewright_explore::Goal;
use tilewright_graph::primitives;
use tilewright_import::{Model, configs};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_report::columns::thousands;
use tilewright_runtime::tune::{Taken, Tuned, tune};
use tilewright_tcp::program::{Program, text as commands};

use crate::calibrate;
use crate::goal::goal;
use crate::host::{Host, read_bytes};
use crate::model;
use crate::outcome::{BAD_INPUT, FAILED, OUR_FAULT, Outcome};
use crate::run::{compiled_long, refused, untuned};
use args::{CompileArgs, ExecArgs, ProgramName, Stage};

pub(crate) fn run(args: &CompileArgs, host: &mut dyn Host) -> Outcome {
    compile(args, host).unwrap_or_else(|outcome| outcome)
}

pub(crate) fn exec(args: &ExecArgs, host: &mut dyn Host) -> Outcome {
    file::exec(args, host).unwrap_or_else(|outcome| outcome)
}

/// What is compiled: a model, or kernels without weights.
enum Source {
    Model(Box<Model>),
    Kernels(Kernels),
}

impl Source {
    fn load(args: &CompileArgs, host: &mut dyn Host) -> Result<Source, Outcome> {
        let path = &args.model;
        if !path.ends_with(".kernels") {
            let mut loaded = model::load(path, args.dims.as_deref(), host)?;
            if !matches!(args.emit, Some(Stage::Graph | Stage::Primitives)) {
                loaded = model::raised(loaded);
            }
            return Ok(Source::Model(Box::new(loaded)));
        }
        let bytes = read_bytes(host, path).map_err(|why| Outcome::usage(&why))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Outcome::usage(&format!("`{path}`: not UTF-8\n  = allowed: a text of kernels")))?;
        let mut sources = Sources::default();
        let id = sources.add(path.as_str(), &text);
        let kernels = kernel_text::read(&text, id)
            .map_err(|found| Outcome::refused(BAD_INPUT, &sources, &found, host.colour()))?;
        Ok(Source::Kernels(kernels))
    }

    /// The model, for what needs its graph or its weights.
    fn model(&self) -> Result<&Model, Outcome> {
        match self {
            Source::Model(model) => Ok(model),
            Source::Kernels(_) => Err(Outcome::usage(
                "a text of kernels has neither a graph nor weights\n  = allowed: --emit kernels, lowered, commands or schedule\n  \
                 = instead: the model that the kernels are of",
            )),
        }
    }

    /// Kernels, with scales from a text if one is named.
    fn kernels(&self, args: &CompileArgs, host: &mut dyn Host) -> Result<Kernels, Outcome> {
        let mut kernels = match self {
            Source::Model(model) => cluster(&model.graph).map_err(|error| refused(&error))?,
            Source::Kernels(kernels) => kernels.clone(),
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
}

fn compile(args: &CompileArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    // What cannot be compiled is refused before a large file is read.
    calibrate::check(&args.target)?;
    goal(&args.goal)?;
    let loaded = Source::load(args, host)?;
    let bytes = match args.emit {
        Some(stage) => {
            let printed = printed(stage, args, &loaded, host)?;
            if args.output.is_none() {
                return Ok(Outcome::good(printed));
            }
            printed.into_bytes()
        }
        None => {
            let machine = args.target.machine(host)?;
            let tuned = tuned(&machine, args, &loaded.kernels(args, host)?)?;
            let compiled = &tuned.compiled;
            let checked = if args.no_check { String::new() } else { check(&machine, compiled)? };
            if args.output.is_none() {
                return Ok(Outcome::good(summary(&tuned, goal(&args.goal)?) + &checked));
            }
            file::bytes(args, loaded.model()?, compiled, host)?
        }
    };
    let path = args.output.as_deref().unwrap_or_default();
    host.write(Path::new(path), &bytes)
        .map_err(|error| Outcome::usage(&format!("cannot write `{path}`: {error}")))?;
    Ok(Outcome::good(format!("wrote {path} ({} bytes)\n", thousands(bytes.len() as u64))))
}

/// Compiles by the rule, and then with the choices that an effort finds.
fn tuned(machine: &Tcp, args: &CompileArgs, kernels: &Kernels) -> Result<Tuned, Outcome> {
    let rule = compiled_long(machine, &args.target, kernels)?;
    let goal = goal(&args.goal)?;
    tune(machine, kernels, rule.plan.options, args.effort, goal).map_err(|error| untuned(&error))
}

/// Checks the programs; a line on what was gone through, or what is wrong.
fn check(machine: &Tcp, compiled: &Compiled) -> Result<String, Outcome> {
    let (mut commands, mut cases, mut wrong) = (0_u64, 0_u64, String::new());
    for (name, checked) in compiled.check(machine) {
        commands += checked.commands;
        cases += checked.cases;
        checked.errors().for_each(|fault| wrong.push_str(&format!("\n  {name}: {fault}")));
    }
    if wrong.is_empty() {
        let (commands, cases) = (thousands(commands), thousands(cases));
        return Ok(format!("{:<12}{commands} commands in {cases} cases are in order\n", "check"));
    }
    let message = format!("the schedule is wrong, which is a fault of the compiler:{wrong}");
    Err(Outcome { code: OUR_FAULT, ..Outcome::usage(&message) })
}

/// The text of a stage.
fn printed(
    stage: Stage,
    args: &CompileArgs,
    loaded: &Source,
    host: &mut dyn Host,
) -> Result<String, Outcome> {
    if let Source::Model(model) = loaded
        && let Some(text) = general::printed(stage, args, model, host)?
    {
        return Ok(text);
    }
    let text = match stage {
        Stage::Graph => tilewright_graph::text::print(&loaded.model()?.graph),
        Stage::Primitives => {
            let graph = primitives(&loaded.model()?.graph).map_err(|complaint| {
                Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
            })?;
            tilewright_graph::text::print(&graph)
        }
        Stage::Kernels => loaded.kernels(args, host)?.print(),
        Stage::Lowered | Stage::Commands | Stage::Schedule => {
            let machine = args.target.machine(host)?;
            let compiled = tuned(&machine, args, &loaded.kernels(args, host)?)?.compiled;
            match stage {
                Stage::Lowered => lowered(&machine, &compiled, outline(&compiled, args.program)?).print(),
                Stage::Schedule => schedule::text(&machine, &compiled, args.program)?,
                _ => commands::print(program(&compiled, args.program)),
            }
        }
    };
    Ok(text)
}

/// What is known of a program besides its steps.
fn outline(compiled: &Compiled, name: ProgramName) -> Result<&Outline, Outcome> {
    let found = compiled.outlines.iter().find(|outline| outline.name == name.name());
    found.ok_or_else(|| {
        let name = name.name();
        Outcome::usage(&format!("`{name}` has no kernels\n  = allowed: --program decode or prefill"))
    })
}

/// A program of a model.
fn program(compiled: &Compiled, name: ProgramName) -> &Program {
    match name {
        ProgramName::Decode => &compiled.decode,
        ProgramName::Prefill => &compiled.prefill,
        ProgramName::Clear => &compiled.clear,
    }
}

/// Energy and average power of a token by the rule, and as it is.
fn energies(rule: Taken, own: Taken) -> String {
    let nanojoules = |taken: Taken| thousands(taken.energy_fj / 1_000_000);
    let watts = |taken: Taken| format!("{}.{:03}", taken.milliwatts / 1000, taken.milliwatts % 1000);
    format!("{} -> {} nJ, {} -> {} W", nanojoules(rule), nanojoules(own), watts(rule), watts(own))
}

/// What the compiler made, in a few lines.
fn summary(tuned: &Tuned, goal: Goal) -> String {
    let compiled = &tuned.compiled;
    let mut text = String::new();
    let mut line = |what: &str, words: &str| text.push_str(&format!("{what:<12}{words}\n"));
    line("model", &compiled.kernels.name);
    line("kernels", &thousands(compiled.kernels.kernels.len() as u64));
    line("context", &format!("{} tokens", thousands(compiled.plan.options.context)));
    for name in ProgramName::ALL {
        let program = program(compiled, name);
        let steps: u64 = program.queues.iter().map(|queue| queue.steps.len() as u64).sum();
        let (execs, transfers) = (program.execs.len() as u64, program.transfers.len() as u64);
        let words = format!(
            "{} steps, {} images, {} transfers",
            thousands(steps),
            thousands(execs),
            thousands(transfers)
        );
        line(name.name(), &words);
    }
    line("choices", &format!("{}, {} judged", compiled.plan.choices, tuned.evaluations));
    if let Some((rule, own)) = tuned.times {
        let to = |before: u64, after: u64| format!("{} -> {} cycles", thousands(before), thousands(after));
        line("a token", &to(rule.decode.millicycles / 1000, own.decode.millicycles / 1000));
        line("of a prompt", &to(rule.prefill.millicycles / 1000, own.prefill.millicycles / 1000));
        if goal != Goal::Time {
            line("its energy", &energies(rule.decode, own.decode));
            line("of a prompt", &energies(rule.prefill, own.prefill));
        }
    }
    let (start, end) = (compiled.plan.caches_start(), compiled.plan.end);
    line("hbm", &format!("{} B, of it {} B of weights and tables", thousands(end), thousands(start)));
    text
}
