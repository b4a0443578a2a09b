//! Floats of 16 bits computed as words.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilewright_base::SourceId;
use tilewright_graph::{Dtype, Graph, text, wide_floats};

fn read(lines: &str) -> Graph {
    let text = format!("graph 1\nname g\n{lines}");
    text::read(&text, SourceId(0)).unwrap()
}

#[test]
fn floats_of_sixteen_bits_are_computed_as_words() {
    let graph = read(
        "input x: f16[4, 8]\ninput w: f32[8, 2]\nlet v: f16[8, 2] = convert(w)\n\
         let y: f16[4, 2] = einsum(x, v) spec=\"mk,kn->mn\"\noutput y = y\n",
    );
    let wide = wide_floats(&graph).unwrap().unwrap();
    let types: Vec<String> = wide
        .nodes
        .iter()
        .map(|node| {
            let out = wide.value(node.outputs[0]).unwrap();
            format!("{} {}", node.op.name(), out.ty.dtype)
        })
        .collect();
    assert_eq!(types, ["convert f32", "einsum f32", "convert f16"]);
    let given = wide.outputs[0].value;
    assert_eq!(wide.value(given).unwrap().ty.dtype, Dtype::F16);
}

#[test]
fn graphs_without_them_stay_as_they_are() {
    let graph = read("input x: f32[4]\nlet y: f32[4] = neg(x)\noutput y = y\n");
    assert!(wide_floats(&graph).unwrap().is_none());
}
