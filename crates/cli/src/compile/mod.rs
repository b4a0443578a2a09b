//! `tilewright compile`: a model through the stages of the compiler, as text or as a file that `tilewright exec` runs.

pub(crate) mod args;
mod file;

use std::path::Path;

use tilewright_base::Sources;
use tilewright_compile::Compiled;
use tilewright_compile::cluster::cluster;
use tilewright_graph::primitives;
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_tcp::program::{Program, text as commands};

use crate::host::Host;
use crate::model;
use crate::outcome::{FAILED, OUR_FAULT, Outcome};
use crate::run::{compiled_long, refused};
use args::{CompileArgs, ExecArgs, ProgramName, Stage};

pub(crate) fn run(args: &CompileArgs, host: &mut dyn Host) -> Outcome {
    compile(args, host).unwrap_or_else(|outcome| outcome)
}

pub(crate) fn exec(args: &ExecArgs, host: &mut dyn Host) -> Outcome {
    file::exec(args, host).unwrap_or_else(|outcome| outcome)
}

fn compile(args: &CompileArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    // What cannot be compiled is refused before a large file is read.
    args.target.check()?;
    let loaded = model::load(&args.model, args.dims.as_deref(), host)?;
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
            let compiled = compiled_long(&machine, &args.target, &loaded)?;
            let checked = if args.no_check { String::new() } else { check(&machine, &compiled)? };
            if args.output.is_none() {
                return Ok(Outcome::good(summary(&compiled) + &checked));
            }
            file::bytes(args, &loaded, &compiled, host)?
        }
    };
    let path = args.output.as_deref().unwrap_or_default();
    host.write(Path::new(path), &bytes)
        .map_err(|error| Outcome::usage(&format!("cannot write `{path}`: {error}")))?;
    Ok(Outcome::good(format!("wrote {path} ({} bytes)\n", thousands(bytes.len() as u64))))
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
fn printed(stage: Stage, args: &CompileArgs, loaded: &Model, host: &mut dyn Host) -> Result<String, Outcome> {
    Ok(match stage {
        Stage::Graph => tilewright_graph::text::print(&loaded.graph),
        Stage::Primitives => {
            let graph = primitives(&loaded.graph).map_err(|complaint| {
                Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
            })?;
            tilewright_graph::text::print(&graph)
        }
        Stage::Kernels => cluster(&loaded.graph).map_err(|error| refused(&error))?.print(),
        Stage::Commands => {
            let machine = args.target.machine(host)?;
            let compiled = compiled_long(&machine, &args.target, loaded)?;
            commands::print(program(&compiled, args.program))
        }
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

/// What the compiler made, in a few lines.
fn summary(compiled: &Compiled) -> String {
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
    let (start, end) = (compiled.plan.caches_start(), compiled.plan.end);
    line("hbm", &format!("{} B, of it {} B of weights and tables", thousands(end), thousands(start)));
    text
}
