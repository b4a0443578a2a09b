//! The run of a compiled graph as the page shows it: the program's text, and the graph with the kernels and
//! commands that its operators became.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::Sources;
use tilewright_compile::general::kernel::Kernels;
use tilewright_compile::general::plan::Planned;
use tilewright_compile::general::text::kernel_line;
use tilewright_graph::Graph;
use tilewright_machine::Tcp;
use tilewright_runtime::Reading;
use tilewright_tcp_isa::program::text;
use tilewright_view::RunView;
use tilewright_view::graph_view::{KernelView, ModelGraphView, NodeView};

use crate::simulate::{SimulatedRun, TcpRun};
use crate::view::view;

/// What the page shows of a graph that was planned and run.
pub fn view_of_graph_run(machine: &Tcp, graph: &Graph, planned: &Planned, reading: Reading) -> RunView {
    let printed = text::print(&planned.program);
    let mut sources = Sources::default();
    let id = sources.add("program", printed.as_str());
    // As it is read from its text, so that commands know their lines.
    let program = text::read(&printed, id).unwrap_or_else(|_| planned.program.clone());
    let run = SimulatedRun::Tcp(Box::new(TcpRun { sources, program, machine: machine.clone(), reading }));
    let mut shown = view(&planned.kernels.name, Some(&printed), &run);
    shown.graph = Some(graph_view(graph, planned, &shown.names));
    shown
}

/// Operators, kernels and the names of their commands.
fn graph_view(graph: &Graph, planned: &Planned, names: &[String]) -> ModelGraphView {
    let owners = kernel_nodes(graph, &planned.kernels);
    let all = &planned.kernels;
    let kernels = all.kernels.iter().zip(&owners).enumerate();
    let kernels = kernels
        .map(|(number, (kernel, node))| KernelView { text: kernel_line(all, number, kernel), node: *node });
    ModelGraphView {
        nodes: nodes(graph, &owners),
        kernels: kernels.collect(),
        kernel_of_name: kernels_of_names(planned, names),
    }
}

/// The kernel of each name of a command.
fn kernels_of_names(planned: &Planned, names: &[String]) -> Vec<Option<u32>> {
    let program = &planned.program;
    let execs = program.execs.iter().map(|exec| exec.name.as_str()).zip(&planned.kernel_of_exec);
    let transfers = program.transfers.iter().map(|one| one.name.as_str()).zip(&planned.kernel_of_transfer);
    let known: BTreeMap<&str, usize> = execs.chain(transfers).map(|(name, kernel)| (name, *kernel)).collect();
    names.iter().map(|name| known.get(name.as_str()).and_then(|kernel| u32::try_from(*kernel).ok())).collect()
}

/// The operator of each kernel: the one whose result it gives, else that of a kernel that reads what it
/// gives.
fn kernel_nodes(graph: &Graph, all: &Kernels) -> Vec<Option<u32>> {
    let mut outputs: BTreeMap<&str, u32> = BTreeMap::new();
    for (number, node) in (0_u32..).zip(&graph.nodes) {
        let given = node.outputs.iter().filter_map(|id| graph.values.get(id.0 as usize));
        outputs.extend(given.map(|value| (value.name.as_str(), number)));
    }
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

/// Every operator, with those that it reads from.
fn nodes(graph: &Graph, owners: &[Option<u32>]) -> Vec<NodeView> {
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
        let own = u32::try_from(number).ok().filter(|number| owning.contains(number));
        let home = own.or(all[number].within);
        for input in all[number].inputs.clone() {
            if let Some(read) = all.get_mut(input as usize).filter(|_| !owning.contains(&input)) {
                read.within = home;
            }
        }
    }
    all
}
