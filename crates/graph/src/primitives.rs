//! Stage 1: every rich operator written in primitives, integers of shapes folded away.

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::dim::Dim;
use crate::graph::{Graph, ValueId};
use crate::infer::BuildResult;
use crate::op::Op;

/// The same graph in primitives.
pub fn primitives(graph: &Graph) -> BuildResult<Graph> {
    let mut b = Builder::new(graph.name.clone());
    // What the graph names is called so in primitives too, whatever comes between.
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    for axis in &graph.axes {
        b.axis(&axis.name, axis.least, axis.most);
    }
    let mut new: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    let missing = || Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"));
    for id in &graph.inputs {
        let value = graph.value(*id).ok_or_else(missing)?;
        set(&mut new, *id, b.input(&value.name, value.ty.clone())?);
    }
    for constant in &graph.constants {
        let value = graph.value(constant.value).ok_or_else(missing)?;
        let id = b.called(value.name.clone()).constant(value.ty.clone(), constant.data.clone())?;
        set(&mut new, constant.value, id);
    }
    for node in &graph.nodes {
        let names: Vec<String> =
            node.outputs.iter().filter_map(|id| graph.value(*id)).map(|value| value.name.clone()).collect();
        let find = |id: Option<ValueId>| -> BuildResult<Option<ValueId>> {
            let Some(id) = id else { return Ok(None) };
            Ok(Some(new.get(id.index()).copied().flatten().ok_or_else(missing)?))
        };
        let inputs: Vec<Option<ValueId>> =
            node.inputs.iter().map(|id| find(*id)).collect::<BuildResult<_>>()?;
        let named = |complaint: Box<Diagnostic>| {
            let name = names.first().map_or("", String::as_str);
            Box::new(complaint.with_note(format!("in `{name}`")))
        };
        let before = b.graph().values.len();
        let outputs = match &node.op {
            Op::Rich(rich, attrs) => rich.decompose(&mut b, &inputs, attrs).map_err(named)?,
            op => {
                let inputs: Option<Vec<ValueId>> = inputs.into_iter().collect();
                vec![b.emit(op.clone(), &inputs.ok_or_else(missing)?).map_err(named)?]
            }
        };
        for ((old, output), name) in node.outputs.iter().zip(outputs).zip(&names) {
            if output.index() >= before {
                b.rename(output, name);
            }
            set(&mut new, *old, output);
        }
    }
    for output in &graph.outputs {
        let value = new.get(output.value.index()).copied().flatten().ok_or_else(missing)?;
        b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = new.get(state.input.index()).copied().flatten().ok_or_else(missing)?;
        b.state(input, state.output);
    }
    Ok(b.finish())
}

fn set(new: &mut [Option<ValueId>], old: ValueId, id: ValueId) {
    if let Some(slot) = new.get_mut(old.index()) {
        *slot = Some(id);
    }
}

/// Multiply-accumulates of all einsums with these sizes of the axes; `None` if one is missing.
pub fn multiply_accumulates(graph: &Graph, sizes: &[Option<u64>]) -> Option<u128> {
    let mut sum = 0_u128;
    for node in &graph.nodes {
        let Op::Einsum(spec) = &node.op else { continue };
        let parts = crate::infer::Subscripts::parse(spec)?;
        let mut seen: Vec<u8> = Vec::new();
        let mut product = 1_u128;
        for (labels, id) in parts.inputs.iter().zip(node.inputs.iter().flatten()) {
            for (label, dim) in labels.iter().zip(&graph.value(*id)?.ty.dims) {
                if !seen.contains(label) {
                    seen.push(*label);
                    product = product.checked_mul(u128::try_from(Dim::value(dim, sizes)?).ok()?)?;
                }
            }
        }
        sum = sum.checked_add(product)?;
    }
    Some(sum)
}
