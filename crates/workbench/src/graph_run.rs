//! The run of a compiled graph as the page shows it: the program's text, and the graph with the kernels and
//! commands that its operators became.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::Sources;
use tilewright_compile::general::kernel::Kernels;
use tilewright_compile::general::plan::Planned;
use tilewright_compile::general::text::kernel_line;
use tilewright_graph::Graph;
use tilewright_machine::Tcp;
use tilewright_record::{Interval, KeepAll};
use tilewright_runtime::{Prepared, Reading, ReadingError, ReadingOptions};
use tilewright_tcp_isa::program::text;
use tilewright_view::RunView;
use tilewright_view::graph_view::{KernelView, ModelGraphView, NodeView};

use crate::simulate::{SimulatedRun, TcpRun};
use crate::view::view_by_kernel;

/// What the page shows of a graph that was planned and run.
pub fn view_of_graph_run(machine: &Tcp, graph: &Graph, planned: &Planned, reading: Reading) -> RunView {
    let printed = text::print(&planned.program);
    let mut sources = Sources::default();
    let id = sources.add("program", printed.as_str());
    // As it is read from its text, so that commands know their lines.
    let program = text::read(&printed, id).unwrap_or_else(|_| planned.program.clone());
    let run = SimulatedRun::Tcp(Box::new(TcpRun { sources, program, machine: machine.clone(), reading }));
    let known = kernels_of_names(planned);
    let kernel = |command: &Interval| known.get(&*command.name).copied();
    let (mut shown, kernels) = view_by_kernel(&planned.kernels.name, Some(&printed), &run, &kernel);
    shown.graph = Some(graph_view(graph, planned, kernels));
    shown
}

/// What the page shows of a graph that was planned, without inputs.
///
/// # Errors
/// A program that is refused, or whose times depend on values.
pub fn timed_graph_view(machine: &Tcp, graph: &Graph, planned: &Planned) -> Result<RunView, ReadingError> {
    let wanted = ReadingOptions { trace: true, ..ReadingOptions::default() };
    let prepared = Prepared::new(machine, planned.program.clone())?;
    let reading = prepared.time(&[], &wanted, KeepAll::default())?;
    Ok(view_of_graph_run(machine, graph, planned, reading))
}

/// Operators and kernels, with the kernels of commands.
fn graph_view(graph: &Graph, planned: &Planned, kernel_of_command: String) -> ModelGraphView {
    let owners = kernel_nodes(graph, &planned.kernels);
    let all = &planned.kernels;
    let kernels = all.kernels.iter().zip(&owners).enumerate();
    let kernels = kernels
        .map(|(number, (kernel, node))| KernelView { text: kernel_line(all, number, kernel), node: *node });
    ModelGraphView {
        nodes: nodes(graph, &owners, &BTreeMap::new()),
        kernels: kernels.collect(),
        kernel_of_command,
    }
}

/// The kernel of each name of a command.
fn kernels_of_names(planned: &Planned) -> BTreeMap<&str, u32> {
    let program = &planned.program;
    let execs = program.execs.iter().map(|exec| exec.name.as_str()).zip(&planned.kernel_of_exec);
    let transfers = program.transfers.iter().map(|one| one.name.as_str()).zip(&planned.kernel_of_transfer);
    let all = execs.chain(transfers);
    all.filter_map(|(name, kernel)| Some((name, u32::try_from(*kernel).ok()?))).collect()
}

/// The number of the operator that gives each value, by the value's name.
pub(crate) fn nodes_by_result(graph: &Graph) -> BTreeMap<&str, u32> {
    let mut found: BTreeMap<&str, u32> = BTreeMap::new();
    for (number, node) in (0_u32..).zip(&graph.nodes) {
        let given = node.outputs.iter().filter_map(|id| graph.values.get(id.0 as usize));
        found.extend(given.map(|value| (value.name.as_str(), number)));
    }
    found
}

/// The operator of each kernel: the one whose result it gives, else that of a kernel that reads what it
/// gives.
fn kernel_nodes(graph: &Graph, all: &Kernels) -> Vec<Option<u32>> {
    let outputs = nodes_by_result(graph);
    let gives = |name: &str| {
        // A value in another type or order has a suffix behind its name.
        let plain = name.rsplit_once('.').map(|(plain, _)| plain);
        outputs.get(name).or_else(|| outputs.get(plain?)).copied()
    };
    let mut found: Vec<Option<u32>> = vec![None; all.kernels.len()];
    // Readers come behind what they read: from the last kernel to the first, theirs is known.
    let mut node_of_reader: BTreeMap<usize, u32> = BTreeMap::new();
    for (number, kernel) in all.kernels.iter().enumerate().rev() {
        let own = kernel.results.iter().find_map(|value| gives(&all.values.get(*value)?.name));
        let own = own.or_else(|| kernel.results.iter().find_map(|value| node_of_reader.get(value).copied()));
        if let (Some(node), Some(place)) = (own, found.get_mut(number)) {
            *place = Some(node);
            node_of_reader.extend(kernel.reads().into_iter().map(|value| (value, node)));
        }
    }
    found
}

/// Every operator, with those that it reads from. `shared` are operators that are known to be computed by the
/// kernels of another.
pub(crate) fn nodes(graph: &Graph, owners: &[Option<u32>], shared: &BTreeMap<u32, u32>) -> Vec<NodeView> {
    let mut giver: BTreeMap<u32, u32> = BTreeMap::new();
    let mut all: Vec<NodeView> = Vec::new();
    for (number, node) in (0_u32..).zip(&graph.nodes) {
        let mut inputs: Vec<u32> =
            node.inputs.iter().flatten().filter_map(|id| giver.get(&id.0).copied()).collect();
        inputs.sort_unstable();
        inputs.dedup();
        giver.extend(node.outputs.iter().map(|id| (id.0, number)));
        let results = node.outputs.iter().filter_map(|id| graph.values.get(id.0 as usize));
        let results = results.map(|value| value.name.clone()).collect();
        all.push(NodeView { operator: node.op.name().to_string(), results, inputs, within: None });
    }
    let owning: BTreeSet<u32> = owners.iter().flatten().copied().collect();
    for number in (0..all.len()).rev() {
        let own = u32::try_from(number).ok();
        if let Some(of) = own.and_then(|number| shared.get(&number)) {
            all[number].within = Some(*of);
        }
        let own = own.filter(|number| owning.contains(number));
        let home = own.or(all[number].within);
        for input in all[number].inputs.clone() {
            if let Some(read) = all.get_mut(input as usize).filter(|_| !owning.contains(&input)) {
                read.within = home;
            }
        }
    }
    // What no kernel reads was computed behind what it reads itself.
    for (number, owner) in (0_u32..).zip(0..all.len()) {
        let first = all[owner].inputs.first().copied();
        if all[owner].within.is_none() && !owning.contains(&number) {
            let input = first.filter(|input| owning.contains(input));
            all[owner].within = input.or_else(|| all.get(first? as usize)?.within);
        }
    }
    all
}
