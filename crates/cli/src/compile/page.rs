//! The page of a compiled model or graph: its programs timed, without weights and inputs.

use std::path::Path;

use tilewright_compile::Compiled;
use tilewright_graph::Graph;
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_runtime::ReadingError;
use tilewright_view::{PageRuns, RunView, page};
use tilewright_workbench::graph_run::timed_graph_view;
use tilewright_workbench::model_run::timed_views;

use super::general::PlannedGraph;
use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::target::{ModelTarget, refused_programs};

/// Writes the page of a language model; the line that says so.
pub(super) fn of_model(
    path: &str,
    on: (&Tcp, &ModelTarget),
    model: &Model,
    compiled: Compiled,
    host: &mut dyn Host,
) -> Result<String, Outcome> {
    written(path, runs(on, &model.graph, compiled)?, host)
}

/// What the page shows of a language model.
pub(crate) fn runs(
    (machine, target): (&Tcp, &ModelTarget),
    graph: &Graph,
    compiled: Compiled,
) -> Result<Vec<RunView>, Outcome> {
    timed_views(machine, graph, compiled).map_err(|error| untimed(target, &error))
}

/// The same of a graph that no template takes.
pub(super) fn of_graph(path: &str, graph: &PlannedGraph, host: &mut dyn Host) -> Result<String, Outcome> {
    let run = timed_graph_view(&graph.machine, &graph.as_read, &graph.tuned.planned);
    let run = run.map_err(|error| untimed(&ModelTarget::default(), &error))?;
    written(path, vec![run], host)
}

fn untimed(target: &ModelTarget, error: &ReadingError) -> Outcome {
    if let ReadingError::Refused(complaints) = error {
        return refused_programs(&target.chip, &target.set, complaints);
    }
    let words = format!(
        "--html: {error}\n  = allowed: programs whose times no value decides\n  \
         = instead: tilewright run MODEL --html FILE, which has values"
    );
    Outcome { code: FAILED, ..Outcome::usage(&words) }
}

fn written(path: &str, runs: Vec<RunView>, host: &mut dyn Host) -> Result<String, Outcome> {
    let text = page(&PageRuns { runs, ..PageRuns::default() });
    host.write(Path::new(path), text.as_bytes()).map_err(|error| Outcome::unwritten(path, &error))?;
    Ok(format!("{:<12}{path} (opens without a network)\n", "page"))
}
