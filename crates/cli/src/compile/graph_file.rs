//! `tilewright compile -o` and `tilewright exec` of graphs that take arrays.

use std::sync::Arc;

use tilewright_artifact::{ArtifactError, GraphArtifact, GraphPlan, write_graph};
use tilewright_base::invariant::OrBroken;
use tilewright_compile::general::interface::{GraphInterface, Port, interface};
use tilewright_import::onnx::{DeclaredInput, DeclaredSize};
use tilewright_machine::Tcp;
use tilewright_reference::index_inputs;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_tcp_exec::state::SharedBytes;

use super::args::{CompileArgs, ExecArgs};
use super::file::unreadable;
use super::general::PlannedGraph;
use crate::host::Host;
use crate::mapped::Mapped;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::run::{GivenSizes, GraphJob, InputArrays};
use crate::target::ModelTarget;

/// The bytes of the file.
pub(super) fn bytes(args: &CompileArgs, graph: &PlannedGraph) -> Vec<u8> {
    let PlannedGraph { machine, fingerprint, tuned, as_read, open, divided, .. } = graph;
    let planned = &tuned.planned;
    let outside =
        interface(machine, planned, tuned.options.pes).or_broken("a plan has a place for every result");
    let outside = match divided {
        Some(divided) => outside.of_division(divided),
        None => outside,
    };
    let plan = GraphPlan {
        chip: args.target.chip.clone(),
        set: args.target.set.clone(),
        machine: *fingerprint,
        interface: GraphInterface { open: open.clone(), ..outside.with_empty_inputs(as_read) },
        constants: Vec::new(),
        indices: index_inputs(as_read),
    };
    write_graph(planned, plan)
}

/// Runs a file.
pub(super) fn exec(
    args: &ExecArgs,
    artifact: &GraphArtifact<'_>,
    file: &Arc<Mapped>,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    args.prompting.check_arrays(&args.file)?;
    let plan = &artifact.plan;
    let target = ModelTarget { chip: plan.chip.clone(), set: plan.set.clone(), ..ModelTarget::default() };
    let machine = same_machine(&args.file, plan, &target, host)?;
    let program = artifact.program().map_err(|error| unreadable(&args.file, &error))?;
    let declared = declared_inputs(&plan.interface);
    let asked = model::axes(args.dims.as_deref().unwrap_or(""))?;
    let sizes = GivenSizes::of(asked, &plan.interface.open.axes, &format!("`{}`", args.file))?;
    let given = InputArrays::new(&args.tensors, sizes, &declared, host)?;
    let job = GraphJob {
        machine: &machine,
        chip: &target.chip,
        set: &target.set,
        tensors: &args.tensors,
        prompting: &args.prompting,
        quantised: None,
        indices: &plan.indices,
        page: None,
    };
    job.check_files(&plan.interface, host)?;
    let mut graph = ExecutableGraph::new(&machine, plan.interface.clone(), program)
        .map_err(|error| job.failed(&error))?;
    for (base, bytes) in &artifact.constants {
        let shared = mapped_constant(&args.file, bytes, file)?;
        graph.lend_constant(*base, &shared).map_err(|error| job.failed(&error))?;
    }
    let outcome = job.run(graph, &given, host)?;
    Ok(Outcome { stderr: given.notes + &outcome.stderr, ..outcome })
}

/// A constant of a file, which is read where the file is mapped: whoever runs it holds it.
pub(super) fn mapped_constant(path: &str, bytes: &[u8], file: &Arc<Mapped>) -> Result<SharedBytes, Outcome> {
    let shared = file.range(bytes).and_then(|range| SharedBytes::new(Arc::<Mapped>::clone(file), range));
    shared.ok_or_else(|| unreadable(path, &ArtifactError::Constants))
}

/// The machine that a file was compiled for, which must have the figures that it had.
pub(super) fn same_machine(
    path: &str,
    plan: &GraphPlan,
    target: &ModelTarget,
    host: &mut dyn Host,
) -> Result<Tcp, Outcome> {
    let (machine, fingerprint) = target.identified_machine(host)?;
    if fingerprint != plan.machine {
        return Err(other_machine(path, plan, fingerprint));
    }
    Ok(machine)
}

/// What a graph asks for, as a model file would declare it: arrays, and no run-time sizes.
fn declared_inputs(graph: &GraphInterface) -> Vec<DeclaredInput> {
    let GraphInterface { inputs, open, .. } = graph;
    let is_size = |port: &&Port| open.sizes.iter().any(|size| size.name == port.name);
    let declared = |port: &Port| {
        let axes = open.inputs.iter().find(|input| input.name == port.name).map(|input| &input.axes);
        let size = |(at, size): (usize, &u64)| {
            let dim = axes.and_then(|axes| axes.get(at)?.first()).filter(|dim| dim.as_fixed().is_none());
            dim.map_or(DeclaredSize::Fixed(*size), |dim| DeclaredSize::Named(dim.text(&open.axes)))
        };
        let sizes = port.dims.iter().enumerate().map(size).collect();
        DeclaredInput { name: port.name.clone(), dtype: port.dtype, sizes }
    };
    inputs.iter().filter(|port| !is_size(port)).map(declared).collect()
}

/// What is said of a file for a machine whose figures have changed.
fn other_machine(path: &str, plan: &GraphPlan, fingerprint: u64) -> Outcome {
    let (chip, wanted) = (&plan.chip, plan.machine);
    Outcome {
        code: FAILED,
        ..Outcome::usage(&format!(
            "`{path}` was compiled for other figures of `{chip}`: their fingerprint is {fingerprint:016x} \
             now\n  \
             = allowed: {wanted:016x}\n  = instead: compile the graph again"
        ))
    }
}
