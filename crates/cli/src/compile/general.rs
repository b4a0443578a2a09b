//! Stages of graphs that no template takes: kernels one by one, with fixed sizes.

use tilewright_base::{Severity, Sources};
use tilewright_compile::cluster::cluster;
use tilewright_compile::general::{self, text};
use tilewright_graph::primitives;
use tilewright_import::Model;
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
    model: &Model,
    host: &mut dyn Host,
) -> Result<Option<String>, Outcome> {
    let ours = matches!(stage, Stage::Kernels | Stage::Lowered | Stage::Commands);
    if !ours || !model.graph.axes.is_empty() || cluster(&model.graph).is_ok() {
        return Ok(None);
    }
    let machine = args.target.machine(host)?;
    let graph = primitives(&model.graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let options = general::Options { pes: args.target.general_pes(&machine)?, ..general::Options::default() };
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
    Ok(Some(match stage {
        Stage::Kernels => text::kernels(&planned.kernels),
        Stage::Lowered => text::lowered(&machine, &planned),
        _ => commands::print(&planned.program),
    }))
}
