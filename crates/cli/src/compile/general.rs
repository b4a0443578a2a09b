//! Stages of graphs that no template takes: kernels one by one, with sizes that are fixed or bounded.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::{Diagnostic, Severity, Sources};
use tilewright_compile::CompileError;
use tilewright_compile::cluster::cluster;
use tilewright_compile::divide::DividedGraph;
use tilewright_compile::general::bound::roofline_cycles;
use tilewright_compile::general::explain::{explain, find_kernel};
use tilewright_compile::general::text;
use tilewright_compile::recognise;
use tilewright_graph::{Axis, Data, Graph, LanguageGraph, OpenSizes, primitives, sized};
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_schedule::tune::{TokenCost, TunedGraph};
use tilewright_tcp_isa::program::text as commands;
use tilewright_tcp_isa::verify;
use tilewright_workbench::compile_pictures::{candidates_picture, path_picture};
use tilewright_workbench::memory_map::MOST_COMMANDS;
use tilewright_workbench::value_path::{NoPath, value_path};

use super::args::{CompileArgs, ProgramName, Stage};
use super::batch;
use crate::goal::goal;
use crate::graph::{CompiledGraph, GraphRequest, at_bounds, check_target, refuse_given};
use crate::host::Host;
use crate::language::SequenceSizes;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::quantise::{self, Calibration, QuantisedNote, rewritten};
use crate::target::{ModelTarget, refused_programs};
use crate::without::worth_text;

/// The text of a stage, for a graph of fixed sizes that is no language model; `None` for all others.
pub(super) fn printed(
    stage: Stage,
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<String>, Outcome> {
    if matches!(stage, Stage::Primitives | Stage::Bounded) {
        return primitive_text(stage, args, loaded, host);
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

/// Primitives with contractions in narrow types, for a graph that takes arrays; `None` for all others, and if
/// all contractions are in bf16. At the bounds of its axes if that is asked for.
fn primitive_text(
    stage: Stage,
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<String>, Outcome> {
    let (model, as_read) = loaded;
    let is_bounded = stage == Stage::Bounded;
    let has_stage = is_bounded || args.target.is_quantised() && as_read.axes.is_empty();
    if !has_stage {
        return Ok(None);
    }
    let Err(error) = cluster(&recognise(as_read)) else { return Ok(None) };
    if let Some(axis) = first_unbounded(args, as_read, host)? {
        return Err(unbounded(axis, Some(&error)));
    }
    check_target(&args.target)?;
    let graph = primitives(as_read)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let calibration = calibrated(args, as_read, host)?;
    let made = rewritten(&args.target, (&graph, &model.store), calibration.as_ref(), host)?;
    let graph = made.map_or(graph, |(graph, _)| graph);
    let graph = if is_bounded { at_bounds(graph, host)?.0 } else { graph };
    Ok(Some(tilewright_graph::text::print(&graph)))
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
    /// Sizes that a run may have below those that it was compiled for.
    pub(super) open: OpenSizes,
    /// How it is divided over chips; the plan is that of one part.
    pub(super) divided: Option<DividedGraph>,
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
        ("bound", format!("{} cycles", thousands(roofline_cycles(machine, &planned.least, pes)))),
    ];
    if !graph.open.is_empty() {
        let range = |axis: &Axis| format!("{} {}..{}", axis.name, axis.least, axis.most);
        let ranges: Vec<String> = graph.open.axes.iter().map(range).collect();
        rows.push(("any size", ranges.join(", ")));
    }
    if let Some(DividedGraph { parts, positions, .. }) = &graph.divided {
        let each = positions / parts;
        let words =
            format!("{parts}, each with {each} of {positions} positions of the batch and all constants");
        rows.push(("chips", words));
    }
    if let Some(note) = &graph.note {
        rows.push(("types", format!("{}: {}", note.types(), note.words())));
    }
    if let Some((rule, own)) = costs {
        let cycles = |cost: &TokenCost| thousands(cost.millicycles / 1000);
        let nanojoules = |cost: &TokenCost| thousands(cost.energy_fj / 1_000_000);
        let (tactics, search) = (options.tactics, options.search);
        let choices = format!("pes={pes} tactics={tactics}{search}, {evaluations} candidates evaluated");
        rows.push(("choices", choices));
        rows.push(("a run", format!("{} -> {} cycles", cycles(rule), cycles(own))));
        rows.push(("its energy", format!("{} -> {} nJ", nanojoules(rule), nanojoules(own))));
    }
    rows.iter().map(|(name, what)| format!("{name:<12}{what}\n")).collect()
}

/// What bounds the kernel that `--explain` names, and a picture of what it was chosen among, if it was.
pub(super) fn explained(asked: &str, graph: &PlannedGraph) -> Result<(String, Option<String>), Outcome> {
    let planned = &graph.tuned.planned;
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
    Ok((explanation.to_string(), candidates_picture(&explanation)))
}

/// Where the input goes that `--path` names, in words and as a picture.
pub(super) fn path(asked: &str, graph: &PlannedGraph) -> Result<(String, String), Outcome> {
    let path = value_path(&graph.machine, &graph.tuned.planned, asked).map_err(|why| match why {
        NoPath::NoInput(names) => Outcome::usage(&format!(
            "--path {asked}: no input of the program has this name\n  = allowed: {}\n  \
             = instead: --emit kernels, to see how inputs are read",
            if names.is_empty() { "nothing: it has no inputs".to_string() } else { names.join(", ") }
        )),
        NoPath::TooLong => Outcome::usage(&format!(
            "--path {asked}: the program is too long to be followed\n  \
             = allowed: runs of up to {} commands\n  = instead: a part of the graph, or `run --html FILE`",
            thousands(MOST_COMMANDS as u64)
        )),
    })?;
    Ok((path.to_string(), path_picture(&path)))
}

/// What is said of an ONNX graph that is no language model while a size of it has no bound.
fn unbounded(axis: &Axis, error: Option<&CompileError>) -> Outcome {
    let name = &axis.name;
    let why = error.map_or_else(
        || "templates are left out".to_string(),
        |error| {
            let error = error.to_string();
            format!("the graph is no language model: {}", error.lines().next().unwrap_or_default())
        },
    );
    let words = format!(
        "the size `{name}` is open, and {why}\n  \
         = allowed: graphs of sizes that are fixed or bounded, or the Llama family and BERT\n  \
         = instead: --dims {name}=N, or {name}=..N for any size up to N"
    );
    Outcome { code: FAILED, ..Outcome::usage(&words) }
}

/// Whether a graph with open sizes may be one that takes arrays: a file of a language model is none, nor is a
/// text whose weights are elsewhere, of which templates say what they miss.
fn takes_arrays(args: &CompileArgs, (model, as_read): &(Model, Graph)) -> bool {
    let is_graph = [".onnx", ".graph"].iter().any(|ending| args.model.ends_with(ending));
    has_weights(model, as_read) && (is_graph || args.model == "-")
}

/// Whether all constants of a graph are there.
fn has_weights(model: &Model, graph: &Graph) -> bool {
    let is_elsewhere = |data: &Data| match data {
        Data::Stored(name) => !model.store.tensors.contains_key(name),
        Data::Floats(_) | Data::Ints(_) => false,
    };
    !graph.constants.iter().any(|constant| is_elsewhere(&constant.data))
}

/// The first axis of a graph that nobody gave a bound: graph texts have bounds of their own.
fn first_unbounded<'g>(
    args: &CompileArgs,
    graph: &'g Graph,
    host: &dyn Host,
) -> Result<Option<&'g Axis>, Outcome> {
    if !args.model.ends_with(".onnx") || graph.axes.is_empty() {
        return Ok(None);
    }
    let (_, names) = model::onnx_inputs(&args.model, &BTreeSet::new(), host)?;
    let asked = model::axes(args.dims.as_deref().unwrap_or(""))?;
    let mut given: Vec<&str> = asked.keys().filter_map(|asked| names.find(asked)).collect();
    let batch = batch::axis(args, host)?;
    given.extend(batch.as_deref());
    Ok(graph.axes.iter().find(|axis| !given.contains(&axis.name.as_str())))
}

/// The program of a graph of fixed or bounded sizes that is no language model; `None` for all others. It is
/// made of the graph as it was read, as `run` makes it: patterns that templates know would be spelled
/// otherwise.
pub(super) fn planned(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<PlannedGraph>, Outcome> {
    let Some(GraphTarget { machine, fingerprint, calibration, graph }) = graph_target(args, loaded, host)?
    else {
        return Ok(None);
    };
    let store = &loaded.0.store;
    let compiled = request(args)?.compile(&machine, &graph, store, calibration.as_ref(), host)?;
    let CompiledGraph { tuned, note, open, divided } = compiled;
    if !args.no_check {
        let mut complaints = verify(&machine, &tuned.planned.program);
        complaints.retain(|complaint| complaint.severity == Severity::Error);
        if !complaints.is_empty() {
            return Err(refused_programs(&args.target.chip, &args.target.set, &complaints));
        }
    }
    Ok(Some(PlannedGraph { machine, fingerprint, tuned, note, open, divided, as_read: graph }))
}

/// What each part of the compiler is worth for a graph that takes arrays; `None` for all others.
pub(super) fn worth(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<Outcome>, Outcome> {
    let Some(GraphTarget { machine, calibration, graph, .. }) = graph_target(args, loaded, host)? else {
        return Ok(None);
    };
    let store = &loaded.0.store;
    let found = request(args)?.worth(&machine, &graph, store, calibration.as_ref(), host)?;
    Ok(Some(Outcome::good(worth_text(&found))))
}

/// What a graph that takes arrays is compiled for.
struct GraphTarget {
    machine: Tcp,
    fingerprint: u64,
    calibration: Option<Calibration>,
    /// As it was read, or a program of a language model at its sizes.
    graph: Graph,
}

/// What a graph of fixed or bounded sizes that is no language model is compiled for; `None` for all others.
fn graph_target(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<GraphTarget>, Outcome> {
    let (model, as_read) = loaded;
    args.target.without()?;
    let error = match cluster(&model.graph) {
        Ok(_) if !args.target.leaves_out_templates() => return Ok(None),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    let unbound = first_unbounded(args, as_read, host)?;
    if let Some((graph, language)) = language_graph(args, loaded, unbound.is_some())? {
        let graph = language_program(args, &graph, &language)?;
        return language_target(args, graph, host).map(Some);
    }
    if !as_read.axes.is_empty() && !takes_arrays(args, loaded) {
        return Ok(None);
    }
    if let Some(axis) = unbound {
        return Err(unbounded(axis, error.as_ref()));
    }
    refuse_given(&[
        (
            "--batch",
            args.batch.is_some() && !args.model.ends_with(".onnx"),
            "the sizes of its inputs",
            "an ONNX file whose inputs begin with an open axis",
        ),
        ("--tokenizer", args.tokenizer.is_some(), "arrays", "leave --tokenizer out"),
        ("--program", args.program.is_some(), "its only program", "leave --program out"),
        (
            "--emit schedule",
            args.emit == Some(Stage::Schedule),
            "--emit graph, primitives, bounded, kernels, lowered or commands",
            "`run --trace FILE`, for when each command runs",
        ),
    ])?;
    if error.is_some() {
        args.target.check_arrays()?;
    }
    let (machine, fingerprint) = args.target.identified_machine(host)?;
    check_target(&args.target)?;
    let calibration = calibrated(args, as_read, host)?;
    Ok(Some(GraphTarget { machine, fingerprint, calibration, graph: as_read.clone() }))
}

/// A language model that no template takes, or none is to take, in primitives; `None` for all others.
pub(super) fn language(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &dyn Host,
) -> Result<Option<(Graph, LanguageGraph)>, Outcome> {
    args.target.without()?;
    if cluster(&loaded.0.graph).is_ok() && !args.target.leaves_out_templates() {
        return Ok(None);
    }
    let unbound = first_unbounded(args, &loaded.1, host)?;
    language_graph(args, loaded, unbound.is_some())
}

/// The same for a graph that no template takes. Graphs whose axes all have a bound are taken as they are,
/// unless something is asked for that only language models have, or a file of one with state.
fn language_graph(
    args: &CompileArgs,
    (model, as_read): &(Model, Graph),
    is_unbound: bool,
) -> Result<Option<(Graph, LanguageGraph)>, Outcome> {
    let is_file = ![".onnx", ".graph"].iter().any(|ending| args.model.ends_with(ending));
    let is_kept = args.program_file().is_some() && args.dims.is_none() && !as_read.states.is_empty();
    let has_option = args.program.is_some() || args.target.context.is_some() || args.tokenizer.is_some();
    let is_asked = is_unbound || is_file && !as_read.axes.is_empty() || has_option || is_kept;
    if !is_asked || !has_weights(model, as_read) {
        return Ok(None);
    }
    let refused = |complaint: Box<Diagnostic>| Outcome { code: FAILED, ..Outcome::usage(&complaint.message) };
    let graph = primitives(as_read).map_err(refused)?;
    let language = LanguageGraph::of(&graph);
    Ok(language.ok().map(|language| (graph, language)))
}

/// One program of such a model, as a graph at its sizes.
fn language_program(args: &CompileArgs, graph: &Graph, language: &LanguageGraph) -> Result<Graph, Outcome> {
    let name = args.program.unwrap_or(ProgramName::Decode);
    let sizes = SequenceSizes::compiled(graph, language, &args.target)?;
    let chosen = match name {
        ProgramName::Decode => sizes.token,
        ProgramName::Prefill => sizes.prompt,
        ProgramName::Clear | ProgramName::Batch => None,
    };
    let (seq, past) = chosen.ok_or_else(|| {
        Outcome::usage(&format!(
            "--program {} of a language model whose programs templates do not write\n  \
             = allowed: decode, prefill\n  = instead: --program decode",
            name.name()
        ))
    })?;
    sized(graph, &language.axes(&seq, &past))
        .map_err(|complaint| Outcome { code: FAILED, ..Outcome::usage(&complaint.message) })
}

/// What such a program is compiled for.
fn language_target(args: &CompileArgs, graph: Graph, host: &mut dyn Host) -> Result<GraphTarget, Outcome> {
    let target = ModelTarget { context: None, ..args.target.clone() };
    check_target(&target)?;
    let (machine, fingerprint) = args.target.identified_machine(host)?;
    Ok(GraphTarget { machine, fingerprint, calibration: None, graph })
}

/// How graphs are compiled.
pub(super) fn request(args: &CompileArgs) -> Result<GraphRequest<'_>, Outcome> {
    Ok(GraphRequest {
        target: &args.target,
        effort: args.effort,
        goal: goal(&args.goal)?,
        checks: !args.no_check,
        shows_progress: true,
    })
}
