//! Stages of graphs that no template takes: kernels one by one, with fixed sizes.

use std::collections::BTreeMap;

use tilewright_base::{Severity, Sources};
use tilewright_compile::CompileError;
use tilewright_compile::cluster::cluster;
use tilewright_compile::general::bound::roofline_cycles;
use tilewright_compile::general::explain::{explain, find_kernel};
use tilewright_compile::general::text;
use tilewright_graph::{Axis, Graph, primitives};
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_schedule::tune::{TokenCost, TunedGraph};
use tilewright_tcp_isa::program::text as commands;
use tilewright_tcp_isa::verify;

use super::args::{CompileArgs, Stage};
use crate::goal::goal;
use crate::graph::{CompiledGraph, GraphRequest, check_target, refuse_given};
use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::quantise::{self, Calibration, QuantisedNote, rewritten};
use crate::target::refused_programs;

/// The text of a stage, for a graph of fixed sizes that is no language model; `None` for all others.
pub(super) fn printed(
    stage: Stage,
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<String>, Outcome> {
    if stage == Stage::Primitives {
        return primitive_text(args, loaded, host);
    }
    if stage == Stage::Graph {
        return Ok(None);
    }
    let Some(graph) = planned(args, loaded, host)? else { return Ok(None) };
    let PlannedGraph { machine, tuned: TunedGraph { planned, .. }, .. } = &graph;
    Ok(Some(match stage {
        Stage::Kernels => text::kernels(&planned.kernels),
        Stage::Lowered => text::lowered(machine, planned),
        _ => commands::print(&planned.program),
    }))
}

/// Primitives with contractions in int8, for a graph that takes arrays; `None` for all others, and without
/// integers.
fn primitive_text(
    args: &CompileArgs,
    (model, as_read): &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<String>, Outcome> {
    if args.target.quantised().is_none() || cluster(&model.graph).is_ok() || !model.graph.axes.is_empty() {
        return Ok(None);
    }
    check_target(&args.target)?;
    let graph = primitives(as_read)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let calibration = calibrated(args, as_read, host)?;
    let made = rewritten(&args.target, (&graph, &model.store), calibration.as_ref(), host)?;
    Ok(made.map(|(graph, _)| tilewright_graph::text::print(&graph)))
}

/// The inputs that scales are found on, if a folder of them is named.
fn calibrated(
    args: &CompileArgs,
    graph: &Graph,
    host: &mut dyn Host,
) -> Result<Option<Calibration>, Outcome> {
    let folder = args.target.calibrate.as_deref();
    folder.map(|folder| quantise::calibration(folder, graph, host)).transpose()
}

/// A graph that takes arrays, compiled.
pub(super) struct PlannedGraph {
    pub(super) machine: Tcp,
    /// Of the machine's figures.
    pub(super) fingerprint: u64,
    pub(super) tuned: TunedGraph,
    /// What became of its contractions, if they are not all in bf16.
    pub(super) note: Option<QuantisedNote>,
    /// The graph as it was read.
    pub(super) as_read: Graph,
}

/// What is said of a graph if no stage is asked for and no file.
pub(super) fn summary(graph: &PlannedGraph) -> String {
    let PlannedGraph { machine, tuned: TunedGraph { planned, options, evaluations, costs }, .. } = graph;
    let pes = options.pes;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for kernel in &planned.kernels.kernels {
        *kinds.entry(kernel.name()).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let (transfers, execs) = (planned.program.transfers.len(), planned.program.execs.len());
    let mut rows = vec![
        ("kernels", kinds.join(", ")),
        ("program", format!("{transfers} transfers, {execs} images of commands, for {pes} PEs")),
        ("memory", format!("{} B of HBM", thousands(planned.hbm_bytes))),
        ("bound", format!("{} cycles", thousands(roofline_cycles(machine, &planned.kernels, pes)))),
    ];
    if let Some(note) = &graph.note {
        rows.push(("int8", note.words()));
    }
    if let Some((rule, own)) = costs {
        let cycles = |cost: &TokenCost| thousands(cost.millicycles / 1000);
        let nanojoules = |cost: &TokenCost| thousands(cost.energy_fj / 1_000_000);
        let tactics = options.tactics;
        rows.push(("choices", format!("pes={pes} tactics={tactics}, {evaluations} candidates evaluated")));
        rows.push(("a run", format!("{} -> {} cycles", cycles(rule), cycles(own))));
        rows.push(("its energy", format!("{} -> {} nJ", nanojoules(rule), nanojoules(own))));
    }
    rows.iter().map(|(name, what)| format!("{name:<12}{what}\n")).collect()
}

/// What bounds the kernel that `--explain` names.
pub(super) fn explained(args: &CompileArgs, graph: &PlannedGraph) -> Result<Outcome, Outcome> {
    let (asked, planned) = (args.explain.as_deref().unwrap_or_default(), &graph.tuned.planned);
    let found = find_kernel(&planned.kernels, asked);
    let explanation = found.and_then(|number| explain(&graph.machine, planned, number));
    let explanation = explanation.ok_or_else(|| {
        let allowed = match planned.kernels.kernels.len() {
            0 => "nothing: the graph has no kernels".to_string(),
            more => format!("0 to {}, or the name of what a kernel gives", more - 1),
        };
        Outcome::usage(&format!(
            "--explain {asked}: no kernel has this number or gives this value\n  = allowed: {allowed}\n  \
             = instead: --emit kernels, to see them"
        ))
    })?;
    Ok(Outcome::good(explanation.to_string()))
}

/// What is said of an ONNX graph that is no language model while a size of it is open.
fn open(axis: &Axis, error: &CompileError) -> Outcome {
    let (name, error) = (&axis.name, error.to_string());
    let why = error.lines().next().unwrap_or_default();
    let words = format!(
        "the size `{name}` is open, and the graph is no language model: {why}\n  \
         = allowed: graphs of fixed sizes, or the Llama family and BERT\n  = instead: --dims {name}=N"
    );
    Outcome { code: FAILED, ..Outcome::usage(&words) }
}

/// The program of a graph of fixed sizes that is no language model; `None` for all others. It is made of the
/// graph as it was read, as `run` makes it: patterns that templates know would be spelled otherwise.
pub(super) fn planned(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<PlannedGraph>, Outcome> {
    let (model, as_read) = loaded;
    let Err(error) = cluster(&model.graph) else { return Ok(None) };
    if let Some(axis) = model.graph.axes.first() {
        return if args.model.ends_with(".onnx") { Err(open(axis, &error)) } else { Ok(None) };
    }
    refuse_given(&[
        (
            "--batch",
            args.batch != 1,
            "the sizes of its inputs",
            "--dims, where a size of an ONNX file is open",
        ),
        ("--tokenizer", args.tokenizer.is_some(), "arrays", "leave --tokenizer out"),
        ("--program", args.program.is_some(), "its only program", "leave --program out"),
        (
            "--emit schedule",
            args.emit == Some(Stage::Schedule),
            "--emit graph, primitives, kernels, lowered or commands",
            "`run --trace FILE`, for when each command runs",
        ),
    ])?;
    let (machine, fingerprint) = args.target.identified_machine(host)?;
    let request = GraphRequest {
        target: &args.target,
        effort: args.effort,
        goal: goal(&args.goal)?,
        shows_progress: true,
    };
    check_target(&args.target)?;
    let calibration = calibrated(args, as_read, host)?;
    let compiled = request.compile(&machine, as_read, &model.store, calibration.as_ref(), host)?;
    let CompiledGraph { tuned, note } = compiled;
    if !args.no_check {
        let mut complaints = verify(&machine, &tuned.planned.program);
        complaints.retain(|complaint| complaint.severity == Severity::Error);
        if !complaints.is_empty() {
            return Err(refused_programs(&args.target.chip, &args.target.set, &complaints));
        }
    }
    Ok(Some(PlannedGraph { machine, fingerprint, tuned, note, as_read: as_read.clone() }))
}
