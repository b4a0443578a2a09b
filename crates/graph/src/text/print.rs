//! A graph to its text.

use tilewright_ir::print::{Item, f32_pattern, list, name, quoted};

use crate::dim::{Axis, Dim};
use crate::graph::{Data, Graph, ValueId};
use crate::op::Op;
use crate::rich::Attr;

/// The text of a graph.
pub fn print(graph: &Graph) -> String {
    let mut items = vec![Item::line("graph 1")];
    if !graph.name.is_empty() {
        items.push(Item::line(format!("name {}", name(&graph.name))));
    }
    for axis in &graph.axes {
        items.push(Item::line(format!("axis {} {}..{}", name(&axis.name), axis.least, axis.most)));
    }
    let typed = |id: ValueId| -> String {
        graph.value(id).map_or_else(String::new, |value| {
            format!("{}: {}", name(&value.name), value.ty.text(&graph.axes))
        })
    };
    items.extend(graph.inputs.iter().map(|id| Item::line(format!("input {}", typed(*id)))));
    for constant in &graph.constants {
        let data = match &constant.data {
            Data::Stored(tensor) => format!("stored {}", name(tensor)),
            Data::Floats(patterns) => list(patterns, |pattern| f32_pattern(*pattern)),
            Data::Ints(numbers) => list(numbers, i64::to_string),
        };
        items.push(Item::line(format!("const {} = {data}", typed(constant.value))));
    }
    let named = |id: Option<ValueId>| -> String {
        id.and_then(|id| graph.value(id)).map_or_else(|| "_".to_string(), |value| name(&value.name))
    };
    for node in &graph.nodes {
        let outputs: Vec<String> = node.outputs.iter().map(|id| typed(*id)).collect();
        let inputs: Vec<String> = node.inputs.iter().map(|id| named(*id)).collect();
        let mut line = format!("let {} = {}({})", outputs.join(", "), node.op.name(), inputs.join(", "));
        for (attribute, value) in attributes(&node.op, &graph.axes) {
            line.push_str(&format!(" {attribute}={value}"));
        }
        items.push(Item::line(line));
    }
    for output in &graph.outputs {
        items.push(Item::line(format!("output {} = {}", name(&output.name), named(Some(output.value)))));
    }
    for state in &graph.states {
        let output = graph.outputs.get(state.output).map_or("", |output| output.name.as_str());
        items.push(Item::line(format!("state {} -> {}", named(Some(state.input)), name(output))));
    }
    tilewright_ir::print::print(&items)
}

/// Attributes of an operator, spelled.
fn attributes(op: &Op, axes: &[Axis]) -> Vec<(String, String)> {
    let dim = |dim: &Dim| dim.text(axes);
    let pairs: Vec<(&str, String)> = match op {
        Op::Reduce { fold, axes, keep } => vec![
            ("fold", fold.name().to_string()),
            ("axes", list(axes, usize::to_string)),
            ("keep", u8::from(*keep).to_string()),
        ],
        Op::Einsum(spec) => vec![("spec", quoted(spec))],
        Op::Transpose(order) => vec![("order", list(order, usize::to_string))],
        Op::Slice { axis, start, step, .. } => {
            vec![("axis", axis.to_string()), ("from", dim(start)), ("step", step.to_string())]
        }
        Op::Concat { axis } | Op::Gather { axis } | Op::Iota { axis, .. } => vec![("axis", axis.to_string())],
        Op::Pad { axis, low, high } => {
            vec![("axis", axis.to_string()), ("low", dim(low)), ("high", dim(high))]
        }
        Op::Scatter { fold: Some(fold) } => vec![("fold", fold.name().to_string())],
        Op::Size(of) => vec![("of", dim(of))],
        Op::Window { axis, size, stride, dilation } => vec![
            ("axis", axis.to_string()),
            ("size", size.to_string()),
            ("stride", stride.to_string()),
            ("dilation", dilation.to_string()),
        ],
        Op::Rich(_, attrs) => {
            return attrs.0.iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
        }
        _ => Vec::new(),
    };
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn attribute(value: &Attr) -> String {
    match value {
        Attr::Int(number) => number.to_string(),
        Attr::Float(pattern) => f32_pattern(*pattern),
        Attr::Ints(numbers) => list(numbers, i64::to_string),
        Attr::Floats(patterns) => list(patterns, |pattern| f32_pattern(*pattern)),
        Attr::Word(text) => quoted(text),
    }
}
