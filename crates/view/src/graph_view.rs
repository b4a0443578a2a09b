//! The graph of the model that ran: operators, the kernels that they became, and which commands are whose.

use serde::Serialize;

/// A graph, its kernels, and the commands of each kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelGraphView {
    /// Operators, each after those whose results it reads.
    pub nodes: Vec<NodeView>,
    /// Kernels in the order of the compiler.
    pub kernels: Vec<KernelView>,
    /// The kernel of each command of the run, in the order of its lanes: how many commands that follow each
    /// other are of the same kernel, then its number from 1; 0 for those of none.
    pub kernel_of_command: String,
}

/// One operator of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// What it does, such as `matmul`.
    pub operator: String,
    /// Its results by name.
    pub results: Vec<String>,
    /// Numbers of the operators whose results it reads.
    pub inputs: Vec<u32>,
    /// The operator that computes it as a part of its kernels, if it has no kernel of its own.
    pub within: Option<u32>,
}

/// One kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelView {
    /// It in one line, as the compiler prints it.
    pub text: String,
    /// The operator whose result it gives, or whose result it is computed for.
    pub node: Option<u32>,
}
