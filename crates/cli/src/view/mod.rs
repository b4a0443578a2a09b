//! `tilewright view`: runs on one page, served on a loopback port or written as a file.

pub(crate) mod args;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use tilewright_base::Sources;
use tilewright_compile::cluster::cluster;
use tilewright_runtime::ArrayError;
use tilewright_tcp_isa::program::binary;
use tilewright_tcp_isa::program::tensor::Tensor;
use tilewright_view::{ExplorationView, PageRuns, RunView, page, view_of_trace};
use tilewright_workbench::Refusal;
use tilewright_workbench::simulate::{SimulateRequest, SimulatedRun, read_program, simulate};
use tilewright_workbench::timeline_picture::{PicturedRun, timeline_picture};
use tilewright_workbench::view::view;

use crate::chip::load_chip;
use crate::compile;
use crate::host::{Host, map_bytes, refuse_other_pictures};
use crate::mapped::Mapped;
use crate::model;
use crate::outcome::{BAD_INPUT, FAILED, Outcome};
use crate::program;
use crate::run::compiled_long;
use crate::target::ModelTarget;
use args::ViewArgs;

pub(crate) fn run(args: &ViewArgs, host: &mut dyn Host) -> Outcome {
    shown(args, host).unwrap_or_else(|refusal| refusal)
}

fn shown(args: &ViewArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    if let Some(path) = &args.svg {
        return drawn(path, args, host);
    }
    let mut runs = PageRuns::default();
    for path in &args.runs {
        match found(path, host) {
            Some(found) => runs.explorations.push(found),
            None if model::is_model(path, host) => runs.runs.extend(of_model(path, args, host)?),
            None => runs.runs.push(one(path, args, host)?),
        }
    }
    let page = page(&runs);
    match &args.html {
        Some(path) => {
            host.write(Path::new(path), page.as_bytes()).map_err(|error| Outcome::unwritten(path, &error))?;
            Ok(Outcome::good(format!("page        {path} (opens without a network)\n")))
        }
        None => match host.serve(&page, args.port) {
            Ok(()) => Ok(Outcome::good(String::new())),
            Err(error) => Err(Outcome::usage(&format!(
                "cannot serve on 127.0.0.1 port {}: {error}\n  = allowed: a free port; 0 for any\n  \
                 = instead: --html page.html",
                args.port
            ))),
        },
    }
}

/// The timelines of programs as one picture.
fn drawn(picture: &str, args: &ViewArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    refuse_other_pictures(Some(picture))?;
    let mut runs = Vec::new();
    for path in &args.runs {
        let is_model = model::is_model(path, host);
        let bytes = if is_model { None } else { Some(readable(path, host)?) };
        if bytes.is_none_or(|bytes| !is_program(&bytes) || bytes.first() == Some(&b'{')) {
            return Err(Outcome::usage(&format!(
                "--svg with `{path}`, which is no program\n  = allowed: programs, which are simulated now\n  \
                 = instead: --html page.html, which shows traces and models too"
            )));
        }
        runs.push((path.as_str(), simulated(path, args, host)?.0));
    }
    let runs: Vec<PicturedRun<'_>> = runs.iter().map(|(name, run)| PicturedRun { name, run }).collect();
    let text = timeline_picture(&runs);
    host.write(Path::new(picture), text.as_bytes()).map_err(|error| Outcome::unwritten(picture, &error))?;
    Ok(Outcome::good(format!("picture: {picture}\n")))
}

/// The runs of a language model that is compiled and timed now, without weights.
fn of_model(path: &str, args: &ViewArgs, host: &mut dyn Host) -> Result<Vec<RunView>, Outcome> {
    let target = ModelTarget {
        chip: args.chip.clone().unwrap_or(ModelTarget::default().chip),
        set: args.set.clone(),
        ..ModelTarget::default()
    };
    let loaded = model::recognised(model::load(path, None, host)?);
    let kernels = cluster(&loaded.graph).map_err(|_| {
        Outcome::usage(&format!(
            "`{path}` is a graph and no run\n  = allowed: programs, traces, what `explore --json` printed, \
             and language models of the Llama family and BERT\n  \
             = instead: tilewright compile {path} --html page.html, or tilewright run {path} --html \
             page.html"
        ))
    })?;
    let machine = target.machine(host)?;
    let compiled = compiled_long(&machine, &target, &kernels, 1)?;
    compile::page::runs((&machine, &target), &loaded.graph, compiled)
}

/// What `explore --json` printed, if that is what the file holds.
fn found(path: &str, host: &mut dyn Host) -> Option<ExplorationView> {
    let bytes = host.read(Path::new(path)).ok().filter(|bytes| bytes.first() == Some(&b'{'))?;
    ExplorationView::read(path, std::str::from_utf8(&bytes).ok()?)
}

/// The bytes of a file, or what there is to look at.
fn readable(path: &str, host: &mut dyn Host) -> Result<Mapped, Outcome> {
    map_bytes(host, path).map_err(|why| {
        if why.contains("= allowed:") {
            return Outcome::usage(&why);
        }
        Outcome::usage(&format!(
            "{why}\n  = allowed: programs, traces that `--trace` wrote, what `explore --json` printed, and \
             language models\n  \
             = instead: builtin:attention, or fables, which come with the binary"
        ))
    })
}

/// A run from a trace, or of a program that is simulated now.
fn one(path: &str, args: &ViewArgs, host: &mut dyn Host) -> Result<RunView, Outcome> {
    let bytes = readable(path, host)?;
    if is_program(&bytes) {
        drop(bytes);
        return of_program(path, args, host);
    }
    view_of_trace(path, &bytes).map_err(|why| Outcome {
        code: FAILED,
        ..Outcome::usage(&format!(
            "`{path}`: {why}\n  = allowed: a whole trace that `--trace` of a verb wrote, or a program\n  \
             = instead: write it again with --trace"
        ))
    })
}

/// A binary of ours, or text that starts as programs and their comments do.
fn is_program(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(1 << 12)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return binary::is_binary(bytes),
    };
    let control = |c: char| c.is_control() && !c.is_whitespace();
    binary::is_binary(bytes) || (!text.trim().is_empty() && !text.contains(control))
}

fn of_program(path: &str, args: &ViewArgs, host: &mut dyn Host) -> Result<RunView, Outcome> {
    let (run, text) = simulated(path, args, host)?;
    Ok(view(path, Some(&text), &run))
}

/// A program that is simulated now, with its text.
fn simulated(path: &str, args: &ViewArgs, host: &mut dyn Host) -> Result<(SimulatedRun, String), Outcome> {
    let sources = Sources::default();
    let written = program::written(path, host).map_err(|refusal| refusal.outcome(&sources, host))?;
    let colour = host.colour();
    let refused =
        |code: u8, refusal: &Refusal| Outcome::refused(code, &refusal.sources, &refusal.diagnostics, colour);
    let read = read_program(path, &written.text).map_err(|refusal| refused(BAD_INPUT, &refusal))?;
    let chip = args.chip.as_deref().unwrap_or(read.machine()).to_string();
    let loaded = load_chip(&mut Sources::default(), &chip, &args.set, host)?;
    let stop = AtomicBool::new(false);
    let request = SimulateRequest { values: false, findings: true, timeline: true, stop: &stop };
    let mut file = |tensor: &Tensor| match loaded.machine.tcp() {
        Some(tcp) => written.array(tensor, tilewright_tcp_exec::rules(tcp), &*host),
        None => Err(ArrayError::Format("no file".to_string())),
    };
    let run = simulate(read, &loaded, std::collections::BTreeMap::new(), &mut file, &request)
        .map_err(|refusal| refused(FAILED, &refusal))?;
    Ok((run, written.text))
}
