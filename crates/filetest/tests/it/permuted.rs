//! The order in which a graph lists its nodes is nobody's business: every order in which operands come before
//! what uses them gives the same programs.
#![expect(clippy::disallowed_methods, reason = "reads a model of the repository")]

use tilewright_base::random;
use tilewright_compile::{Mixed, Options, compile};
use tilewright_graph::Graph;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::text::print;

/// The nodes in another order, drawn from a seed.
fn permuted(graph: &Graph, seed: u64) -> Graph {
    let mut state = seed;
    let (mut waiting, mut nodes) = (graph.nodes.clone(), Vec::new());
    let mut made: Vec<_> = graph.inputs.clone();
    made.extend(graph.constants.iter().map(|constant| constant.value));
    while !waiting.is_empty() {
        let ready = |at: &usize| waiting[*at].inputs.iter().flatten().all(|input| made.contains(input));
        let ready: Vec<usize> = (0..waiting.len()).filter(ready).collect();
        let drawn = usize::try_from(random::below(&mut state, ready.len() as u64)).expect("a few");
        let node = waiting.remove(ready[drawn]);
        made.extend(&node.outputs);
        nodes.push(node);
    }
    Graph { nodes, ..graph.clone() }
}

#[test]
fn any_order_of_nodes_gives_the_same_programs() {
    let root = tilewright_testkit::repository().join("models/fables");
    let read = |name: &str| std::fs::read(root.join(name)).ok().map(std::sync::Arc::new);
    let model = tilewright_import::hf::read(&read).expect("a model of the repository");
    let loaded = tilewright_filetest::fuzz::tcp();
    for (pes, dtype) in [(1, Dtype::Bf16), (2, Dtype::I8)] {
        let mixed = Mixed::default();
        let options = Options { dtype, mixed, cache: Dtype::Bf16, context: 64, pes, chips: 1, batch: 1 };
        let programs = |graph: &Graph| {
            let compiled = compile(&loaded, graph, options).expect("a model that is compiled");
            [print(&compiled.decode), print(&compiled.prefill)]
        };
        let plain = programs(&model.graph);
        for seed in 0..tilewright_testkit::draws(2, 50) {
            let other = permuted(&model.graph, seed);
            assert_ne!(other.nodes, model.graph.nodes, "{seed}: the order is another");
            assert!(programs(&other) == plain, "{pes} PEs, {dtype:?}, seed {seed}: other programs");
        }
    }
}
