//! Graphs of files without each part of the compiler: they compile, and give the values that they must.

use tilewright_base::SourceId;
use tilewright_compile::general::{Choice, Options, Without};
use tilewright_graph::{Dtype, Graph, primitives};
use tilewright_reference::Tensor;

use crate::general::on_chip;

const GRAPHS: [&str; 3] = [
    include_str!("../../../../tests/general/encoder.graph"),
    include_str!("../../../../tests/general/cnn.graph"),
    include_str!("../../../../tests/general/depthwise.graph"),
];

/// Some numbers for each input, all of them of floats.
fn inputs(graph: &Graph) -> Vec<Tensor> {
    let value = |number: usize| ((number * number * 31 + 7 * number) % 257) as f32 / 64.0 - 2.0;
    let sizes = graph.inputs.iter().map(|input| {
        let dims = &graph.value(*input).expect("an input").ty.dims;
        dims.iter().map(|dim| usize::try_from(dim.as_fixed().expect("a size")).expect("a size")).collect()
    });
    let tensor = |sizes: Vec<usize>| {
        let count = sizes.iter().product::<usize>();
        Tensor::floats(Dtype::F32, &sizes, (0..count).map(value).collect())
    };
    sizes.map(tensor).collect()
}

#[test]
fn every_part_can_be_left_out() {
    for text in GRAPHS {
        let graph = tilewright_graph::text::read(text, SourceId(0)).expect("a graph");
        let graph = primitives(&graph).expect("primitives");
        let inputs = inputs(&graph);
        for part in Choice::ALL {
            let options = Options { pes: 4, without: Without::from(part), ..Options::default() };
            let given = on_chip(&graph, &inputs, options);
            assert!(given.is_ok(), "{} without {}: {given:?}", graph.name, part.name());
        }
    }
}
