//! Branches and loops, written out.

use tilewright_graph::Dtype;
use tilewright_import::onnx::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};

use super::{Node, Operand, floats, int, ints, list};

fn names(names: &[&str]) -> Vec<ValueInfoProto> {
    names.iter().map(|name| ValueInfoProto { name: (*name).into(), ty: None }).collect()
}

fn body(name: &str, inputs: &[&str], nodes: &[(&str, &[&str], &str)], outputs: &[&str]) -> AttributeProto {
    let node = |(op, inputs, output): &(&str, &[&str], &str)| NodeProto {
        op: (*op).into(),
        inputs: inputs.iter().map(|input| (*input).to_string()).collect(),
        outputs: vec![(*output).into()],
        ..Default::default()
    };
    let graph = GraphProto {
        nodes: nodes.iter().map(node).collect(),
        inputs: names(inputs),
        outputs: names(outputs),
        ..Default::default()
    };
    AttributeProto { name: name.into(), g: Some(Box::new(graph)), ..Default::default() }
}

/// `x1` doubled, or `x1` negated and then so.
fn branch(condition: Operand) -> Node {
    // The node has one operand; branches see the other, which is an input of the model, by its name.
    let mut node = Node::new("If", &[condition, floats(&[2], &[1.0, -3.0])])
        .with(body("then_branch", &[], &[("Add", &["x1", "x1"], "z")], &["z"]))
        .with(body("else_branch", &[], &[("Neg", &["x1"], "z"), ("Add", &["z", "z"], "w")], &["w"]));
    node.seen = 1;
    node
}

#[test]
fn of_a_known_condition_one_branch_is_read_and_of_another_both() {
    assert_eq!(branch(ints(Dtype::Bool, &[], &[1]).constant()).floats(), [2.0, -6.0]);
    assert_eq!(branch(ints(Dtype::Bool, &[], &[0]).constant()).floats(), [-2.0, 6.0]);
    assert_eq!(branch(ints(Dtype::Bool, &[1], &[1])).floats(), [2.0, -6.0]);
    assert_eq!(branch(ints(Dtype::Bool, &[1], &[0])).floats(), [-2.0, 6.0]);
    let mut unlike = branch(ints(Dtype::Bool, &[], &[0]));
    unlike.attributes[1] = body("else_branch", &[], &[("Shape", &["x1"], "z")], &["z"]);
    let text = unlike.refused();
    assert!(text.contains("branches that give f32[2] and i64[1], by a condition of the run"), "{text}");
    unlike.attributes.pop();
    assert!(unlike.refused().contains("attribute `else_branch` is missing"));
}

fn repeated(turns: Operand, start: &[i64]) -> Node {
    let nodes: [(&str, &[&str], &str); 3] = [
        ("Identity", &["go"], "on"),
        ("Add", &["sum", "turn"], "next"),
        ("Mul", &["next", "next"], "square"),
    ];
    let body = body("body", &["turn", "go", "sum"], &nodes, &["on", "next", "square"]);
    let mut node = Node::new("Loop", &[turns, ints(Dtype::I64, &[start.len()], start)]).with(body);
    node.operands.insert(1, None);
    node.results = 2;
    node
}

#[test]
fn loops_of_a_known_number_of_turns_are_written_out() {
    let found = repeated(ints(Dtype::I64, &[], &[4]).constant(), &[10, 20]).run();
    assert_eq!(found[0].as_ints(), [16, 26]);
    assert_eq!(
        (found[1].dims.as_slice(), &found[1].as_ints()[..4]),
        (&[4, 2][..], &[100, 400, 121, 441][..])
    );
    let text = repeated(ints(Dtype::I64, &[], &[4]), &[1]).refused();
    assert!(text.contains("numbers of turns (operand 0) are known only when the model runs"), "{text}");
    let text = repeated(ints(Dtype::I64, &[], &[1025]).constant(), &[1]).refused();
    assert!(text.contains("more than 1024 turns, which are written out"), "{text}");
    let text = repeated(ints(Dtype::I64, &[], &[0]).constant(), &[1]).refused();
    assert!(text.contains("no turn, of which the type of a result would follow"), "{text}");
}

#[test]
fn loops_within_loops_end() {
    let mut inner = body("body", &["t", "g", "s"], &[], &["g", "s"]);
    for depth in 0..12 {
        let names = [format!("t{depth}"), format!("g{depth}"), format!("s{depth}")];
        let node = NodeProto {
            op: "Loop".into(),
            inputs: vec!["x0".into(), String::new(), names[2].clone()],
            outputs: vec![format!("r{depth}")],
            attributes: vec![inner],
            ..Default::default()
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let result = format!("r{depth}");
        inner = body("body", &names, &[], &[names[1], &result]);
        inner.g.as_mut().expect("a graph").nodes.push(node);
    }
    let mut node = Node::new("Loop", &[ints(Dtype::I64, &[], &[1000]).constant(), floats(&[1], &[1.0])]);
    node.operands.insert(1, None);
    let text = node.with(inner).refused();
    assert!(text.contains("= allowed: 16384 times a body, 8 deep"), "{text}");
}

#[test]
fn scans_go_along_axes_in_either_direction() {
    let nodes: [(&str, &[&str], &str); 1] = [("Add", &["sum", "x"], "next")];
    let body = body("body", &["sum", "x"], &nodes, &["next", "next"]);
    let operands = [floats(&[2], &[0.0; 2]), floats(&[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0])];
    let mut scan = Node::new("Scan", &operands).with(body).with(int("num_scan_inputs", 1));
    scan.results = 2;
    let scan = scan.with(list("scan_input_axes", &[1])).with(list("scan_input_directions", &[1]));
    let found = scan.run();
    assert_eq!(found[0].as_floats(), [6.0, 60.0]);
    assert_eq!(found[1].as_floats(), [3.0, 30.0, 5.0, 50.0, 6.0, 60.0]);
    let crooked = scan.clone().with(list("scan_output_axes", &[1, 0]));
    let turned = scan.with(list("scan_output_axes", &[1])).with(list("scan_output_directions", &[1]));
    assert_eq!(turned.run()[1].as_floats(), [6.0, 5.0, 3.0, 60.0, 50.0, 30.0]);
    let text = crooked.refused();
    assert!(text.contains("`scan_output_axes` of 2 numbers\n  = allowed: 1"), "{text}");
    let old = Node { opset: 8, ..turned };
    assert!(old.refused().contains("is of opset 8, whose Scan has other operands"));
}
