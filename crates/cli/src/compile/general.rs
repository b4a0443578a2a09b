//! Stages of graphs that no template takes: kernels one by one, with fixed sizes.

use std::collections::BTreeMap;

use tilewright_base::{Severity, Sources};
use tilewright_compile::cluster::cluster;
use tilewright_compile::general::bound::roofline_cycles;
use tilewright_compile::general::{self, Planned, text};
use tilewright_graph::{Graph, primitives};
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_report::columns::thousands;
use tilewright_tcp_isa::program::text as commands;
use tilewright_tcp_isa::verify;

use super::args::{CompileArgs, Stage};
use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::target::refused_programs;

/// The text of a stage, for a graph of fixed sizes that is no language model; `None` for all others.
pub(super) fn printed(
    stage: Stage,
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<String>, Outcome> {
    if !matches!(stage, Stage::Kernels | Stage::Lowered | Stage::Commands) {
        return Ok(None);
    }
    let Some(graph) = planned(args, loaded, host)? else { return Ok(None) };
    let PlannedGraph { machine, planned, .. } = &graph;
    Ok(Some(match stage {
        Stage::Kernels => text::kernels(&planned.kernels),
        Stage::Lowered => text::lowered(machine, planned),
        _ => commands::print(&planned.program),
    }))
}

/// A graph that takes arrays, compiled.
pub(super) struct PlannedGraph {
    pub(super) machine: Tcp,
    /// Of the machine's figures.
    pub(super) fingerprint: u64,
    pub(super) planned: Planned,
    /// PEs that it may use.
    pub(super) pes: u64,
}

/// What is said of a graph if no stage is asked for and no file.
pub(super) fn summary(graph: &PlannedGraph) -> String {
    let PlannedGraph { machine, planned, pes, .. } = graph;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for kernel in &planned.kernels.kernels {
        *kinds.entry(kernel.name()).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let (transfers, execs) = (planned.program.transfers.len(), planned.program.execs.len());
    let rows = [
        ("kernels", kinds.join(", ")),
        ("program", format!("{transfers} transfers, {execs} images of commands, for {pes} PEs")),
        ("memory", format!("{} B of HBM", thousands(planned.hbm_bytes))),
        ("bound", format!("{} cycles", thousands(roofline_cycles(machine, &planned.kernels, *pes)))),
    ];
    rows.iter().map(|(name, what)| format!("{name:<12}{what}\n")).collect()
}

/// The program of a graph of fixed sizes that is no language model; `None` for all others. It is made of the
/// graph as it was read, as `run` makes it: patterns that templates know would be spelled otherwise.
pub(super) fn planned(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<PlannedGraph>, Outcome> {
    let (model, as_read) = loaded;
    if !model.graph.axes.is_empty() || cluster(&model.graph).is_ok() {
        return Ok(None);
    }
    let (machine, fingerprint) = args.target.identified_machine(host)?;
    let graph = primitives(as_read)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let pes = args.target.general_pes(&machine)?;
    let options = general::Options { pes, ..general::Options::default() };
    let planned = general::plan(&machine, &graph, &model.store, &options);
    let planned = planned.map_err(|refusal| Outcome {
        code: FAILED,
        ..Outcome::usage(&format!("{refusal}\n  = instead: `run --interp`, which computes every operator"))
    })?;
    if !args.no_check {
        let mut complaints = verify(&machine, &planned.program);
        complaints.retain(|complaint| complaint.severity == Severity::Error);
        if !complaints.is_empty() {
            return Err(refused_programs(&args.target.chip, &args.target.set, &complaints));
        }
    }
    Ok(Some(PlannedGraph { machine, fingerprint, planned, pes }))
}
