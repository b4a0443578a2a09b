//! `tilewright compile`: a model through the stages of the compiler, as text or as a file that `tilewright
//! exec` runs.

pub(crate) mod args;
mod batch;
mod file;
mod general;
mod graph_file;
mod language_file;
pub(crate) mod page;
mod ready;
mod schedule;
mod source;

use std::path::Path;

use tilewright_artifact::programs;
use tilewright_base::{Severity, Sources};
use tilewright_compile::Compiled;
use tilewright_compile::compiled::ProgramOutline;
use tilewright_compile::lowered::{Origin, lowered};
use tilewright_explore::Goal;
use tilewright_graph::primitives;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_schedule::tune::{TokenCost, TunedModel, watts};
use tilewright_tcp_isa::program::{Program, text as commands};
use tilewright_tcp_isa::verify;

use crate::calibrate;
use crate::goal::goal;
use crate::host::{Host, refuse_other_pictures, refuse_overwrite};
use crate::outcome::{FAILED, OUR_FAULT, Outcome};
use crate::target::{ModelTarget, refused_programs};
use args::{CompileArgs, ExecArgs, ProgramName, Stage};
use source::{CompileInput, CompileOutput};

pub(crate) fn run(args: &CompileArgs, host: &mut dyn Host) -> Outcome {
    compile(args, host).unwrap_or_else(|outcome| outcome)
}

pub(crate) use ready::executed;

pub(crate) fn exec(args: &ExecArgs, host: &mut dyn Host) -> Outcome {
    file::exec(args, host).unwrap_or_else(|outcome| outcome)
}

fn compile(args: &CompileArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    // What cannot be compiled is refused before a large file is read.
    if !args.target.is_for_graphs() {
        calibrate::check(&args.target)?;
    }
    goal(&args.goal)?;
    if args.explain.is_some() || args.path.is_some() {
        refuse_other_pictures(args.output.as_deref())?;
    }
    if args.program_file().is_some() {
        crate::model::weights_to_write(&args.model)?;
    }
    let loaded = CompileInput::load(args, host)?;
    refuse_overwrite(host, args.output.as_deref())?;
    if let Some(checked) = checked(args, &loaded, host) {
        return checked;
    }
    let bytes = match args.emit {
        Some(stage) => {
            let printed = printed(stage, args, &loaded, host)?;
            if args.output.is_none() {
                return Ok(Outcome::good(printed));
            }
            printed.into_bytes()
        }
        None => {
            if let CompileInput::Model(model) = &loaded
                && args.worth
                && let Some(worth) = general::worth(args, model, host)?
            {
                return Ok(worth);
            }
            if args.worth {
                return Err(Outcome::usage(
                    "--worth with a language model\n  = allowed: graphs that take arrays\n  \
                     = instead: --effort 0, for what its choices are worth beside the rule",
                ));
            }
            if let CompileInput::Model(model) = &loaded
                && let Some(written) = language_file::compiled(args, model, host)?
            {
                return Ok(written);
            }
            if let CompileInput::Model(model) = &loaded
                && let Some(graph) = general::planned(args, model, host)?
            {
                return of_graph(args, &graph, host);
            }
            if args.explain.is_some() {
                return Err(Outcome::usage(
                    "--explain with a language model\n  = allowed: graphs that take arrays\n  \
                     = instead: --emit schedule, which says what keeps its program from the bound",
                ));
            }
            if args.path.is_some() {
                return Err(Outcome::usage(
                    "--path with a language model\n  = allowed: graphs that take arrays\n  \
                     = instead: --emit schedule, which says what lies where, or --without templates",
                ));
            }
            let CompileOutput { machine, target, tuned, .. } = loaded.made(args, host)?;
            host.progress("checking", None);
            let checked = if args.no_check {
                String::new()
            } else {
                check(&target, &machine, &tuned.compiled, &loaded)?
            };
            if args.output.is_none() {
                let mut said = summary(&tuned, goal(&args.goal)?) + &checked;
                if let Some(path) = &args.html {
                    said +=
                        &page::of_model(path, (&machine, &target), loaded.model()?, tuned.compiled, host)?;
                }
                return Ok(Outcome::good(said));
            }
            host.progress("packing weights", None);
            file::bytes(args, loaded.model()?, &tuned.compiled, host)?
        }
    };
    written(args.output.as_deref().unwrap_or_default(), &bytes, host)
}

/// What was asked of a graph that no template takes.
fn of_graph(
    args: &CompileArgs,
    graph: &general::PlannedGraph,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    if let Some(path) = &args.html {
        let said = general::summary(graph) + &page::of_graph(path, graph, host)?;
        return Ok(Outcome::good(said));
    }
    match (args.program_file(), &args.explain, &args.path) {
        (None, Some(kernel), _) => {
            let (text, picture) = general::explained(kernel, graph)?;
            drawn(args, text, picture, host)
        }
        (None, None, Some(input)) => {
            let (text, picture) = general::path(input, graph)?;
            drawn(args, text, Some(picture), host)
        }
        (None, None, None) => Ok(Outcome::good(general::summary(graph))),
        (Some(path), ..) => written(path, &graph_file::bytes(args, graph), host),
    }
}

/// What is said, and the picture of it if one is to be written.
fn drawn(
    args: &CompileArgs,
    text: String,
    picture: Option<String>,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let Some(path) = &args.output else { return Ok(Outcome::good(text)) };
    let picture = picture.ok_or_else(|| {
        Outcome::usage(&format!(
            "-o {path}: nothing was weighed for this kernel\n  = allowed: contractions\n  \
             = instead: leave -o out, to see what bounds it"
        ))
    })?;
    host.write(Path::new(path), picture.as_bytes()).map_err(|error| Outcome::unwritten(path, &error))?;
    Ok(Outcome::good(format!("{text}picture: {path}\n")))
}

/// Writes a file, all of it or nothing.
fn written(path: &str, bytes: &[u8], host: &mut dyn Host) -> Result<Outcome, Outcome> {
    host.write(Path::new(path), bytes).map_err(|error| Outcome::unwritten(path, &error))?;
    Ok(Outcome::good(format!("wrote {path} ({} bytes)\n", thousands(bytes.len() as u64))))
}

/// Checks the programs; a line on what was gone through, or what is wrong.
fn check(
    target: &ModelTarget,
    machine: &Tcp,
    compiled: &Compiled,
    loaded: &CompileInput,
) -> Result<String, Outcome> {
    for (_, program) in programs(compiled) {
        let mut complaints = verify(machine, program);
        complaints.retain(|complaint| complaint.severity == Severity::Error);
        if !complaints.is_empty() {
            return Err(refused_programs(&target.chip, &target.set, &complaints));
        }
    }
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
    Err(match loaded {
        // Kernels that somebody wrote may read what is no longer there.
        CompileInput::Kernels(_) | CompileInput::Lowered(_) => {
            let message = format!(
                "the programs of these kernels are wrong:{wrong}\n  \
                 = instead: kernels that read a value before its place is used again"
            );
            Outcome { code: FAILED, ..Outcome::usage(&message) }
        }
        CompileInput::Model(_) | CompileInput::Schedule(_) => {
            let message = format!("the schedule is wrong, which is a fault of the compiler:{wrong}");
            Outcome { code: OUR_FAULT, ..Outcome::usage(&message) }
        }
    })
}

/// What is said of a schedule that is right.
fn checked(args: &CompileArgs, loaded: &CompileInput, host: &dyn Host) -> Option<Result<Outcome, Outcome>> {
    let CompileInput::Schedule(read) = loaded else { return None };
    let emit = match (args.emit, &args.output) {
        (emit @ (None | Some(Stage::Schedule)), None) => emit.is_some(),
        _ => return Some(Err(source::ended())),
    };
    Some(schedule::checked(&read.0, &read.1, emit, host.colour()).map(Outcome::good))
}

/// The text of a stage.
fn printed(
    stage: Stage,
    args: &CompileArgs,
    loaded: &CompileInput,
    host: &mut dyn Host,
) -> Result<String, Outcome> {
    if let CompileInput::Model(model) = loaded
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
        Stage::Bounded => {
            return Err(Outcome::usage(
                "--emit bounded with a language model, whose axes stay open\n  \
                 = allowed: graphs that take arrays\n  = instead: --emit primitives",
            ));
        }
        Stage::Kernels => loaded.kernels(args, host)?.print(),
        Stage::Lowered | Stage::Commands | Stage::Schedule => {
            let CompileOutput { machine, target, kernels, tuned } = loaded.made(args, host)?;
            let (compiled, name) = (&tuned.compiled, loaded.program(args));
            let program = program(compiled, name)?;
            if !args.no_check {
                host.progress("checking", None);
                check(&target, &machine, compiled, loaded)?;
            }
            match stage {
                Stage::Lowered => {
                    let origin = Origin { chip: &target.chip, set: &target.set, kernels: &kernels };
                    let outline = outline(compiled, name)?;
                    let lowered = lowered(&machine, compiled, outline);
                    lowered.explored(&machine, compiled, outline, &|_| true).print(origin)
                }
                Stage::Schedule => schedule::text(&machine, compiled, name)?,
                _ => commands::print(program),
            }
        }
    };
    Ok(text)
}

/// What is known of a program besides its steps.
fn outline(compiled: &Compiled, name: ProgramName) -> Result<&ProgramOutline, Outcome> {
    let found = compiled.outlines.iter().find(|outline| outline.name == name.name());
    found.ok_or_else(|| {
        let name = name.name();
        Outcome::usage(&format!(
            "`{name}` has no kernels\n  = allowed: --program decode or prefill, or batch with --batch N"
        ))
    })
}

/// A program of a model, which must be there.
fn program(compiled: &Compiled, name: ProgramName) -> Result<&Program, Outcome> {
    compiled.program(name.name()).ok_or_else(|| {
        let (name, allowed) = (name.name(), programs(compiled).map(|(name, _)| name));
        let allowed: Vec<&str> = allowed.collect();
        Outcome::usage(&format!(
            "--program {name} of a model for one sequence\n  = allowed: {}\n  = instead: --batch N as well",
            allowed.join(", ")
        ))
    })
}

/// Energy and average power of a token by the rule, and as it is.
fn energies(rule: TokenCost, own: TokenCost) -> String {
    let nanojoules = |taken: TokenCost| thousands(taken.energy_fj / 1_000_000);
    let watts = |taken: TokenCost| watts(taken.milliwatts);
    format!("{} -> {} nJ, {} -> {} W", nanojoules(rule), nanojoules(own), watts(rule), watts(own))
}

/// What the compiler made, in a few lines.
fn summary(tuned: &TunedModel, goal: Goal) -> String {
    let compiled = &tuned.compiled;
    let mut text = String::new();
    let mut line = |what: &str, words: &str| text.push_str(&format!("{what:<12}{words}\n"));
    line("model", &compiled.kernels.name);
    line("kernels", &thousands(compiled.kernels.kernels.len() as u64));
    let options = &compiled.plan.options;
    line("context", &format!("{} tokens", thousands(options.context)));
    if options.batch > 1 {
        line("texts", &format!("up to {} at the same time", thousands(options.batch)));
    }
    for (name, program) in programs(compiled) {
        let steps: u64 = program.queues.iter().map(|queue| queue.steps.len() as u64).sum();
        let (execs, transfers) = (program.execs.len() as u64, program.transfers.len() as u64);
        let words = format!(
            "{} steps, {} images, {} transfers",
            thousands(steps),
            thousands(execs),
            thousands(transfers)
        );
        line(name, &words);
    }
    line("choices", &format!("{}, {} candidates evaluated", compiled.plan.choices, tuned.evaluations));
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
