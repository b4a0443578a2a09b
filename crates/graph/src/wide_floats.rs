//! The same graph of primitives with floats of 16 bits computed as f32: engines that multiply bf16 and add in
//! f32 round what they multiply, and nothing else. Inputs and outputs keep their types.

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::dtype::Dtype;
use crate::graph::{Constant, Graph, Node, ValueId};
use crate::infer::BuildResult;
use crate::op::Op;

fn is_short(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16)
}

/// The graph in f32; `None` if it has no floats of 16 bits but in its inputs and outputs, or keeps some in
/// its state.
///
/// # Errors
/// A graph that is no graph of primitives.
pub fn wide_floats(graph: &Graph) -> BuildResult<Option<Graph>> {
    let short = |id: &ValueId| graph.value(*id).is_some_and(|value| is_short(value.ty.dtype));
    let computed = graph
        .nodes
        .iter()
        .any(|node| node.inputs.iter().flatten().any(short) || node.outputs.iter().any(short));
    if !computed || graph.states.iter().any(|state| short(&state.input)) {
        return Ok(None);
    }
    let mut b = Builder::new(graph.name.clone());
    graph.values.iter().for_each(|value| b.reserve(&value.name));
    for axis in &graph.axes {
        b.axis(&axis.name, axis.least, axis.most);
    }
    let mut pass = WidePass { graph, b, new: vec![None; graph.values.len()] };
    for id in &graph.inputs {
        let value = graph.value(*id).ok_or_else(undefined)?;
        let input = pass.b.input(&value.name, value.ty.clone())?;
        pass.set(*id, input)?;
    }
    graph.constants.iter().try_for_each(|constant| pass.constant(constant))?;
    graph.nodes.iter().try_for_each(|node| pass.node(node))?;
    for output in &graph.outputs {
        let (value, ty) = (pass.get(output.value)?, &graph.value(output.value).ok_or_else(undefined)?.ty);
        let value = pass.b.convert(value, ty.dtype)?;
        pass.b.output(&output.name, value);
    }
    for state in &graph.states {
        let input = pass.get(state.input)?;
        pass.b.state(input, state.output);
    }
    Ok(Some(pass.b.finish()))
}

struct WidePass<'g> {
    graph: &'g Graph,
    b: Builder,
    new: Vec<Option<ValueId>>,
}

impl WidePass<'_> {
    /// A value of the new graph, as f32 if it is shorter.
    fn set(&mut self, old: ValueId, new: ValueId) -> BuildResult<()> {
        let short = self.graph.value(old).is_some_and(|value| is_short(value.ty.dtype));
        let new = if short { self.b.convert(new, Dtype::F32)? } else { new };
        if let Some(slot) = self.new.get_mut(old.index()) {
            *slot = Some(new);
        }
        Ok(())
    }

    fn get(&self, old: ValueId) -> BuildResult<ValueId> {
        self.new.get(old.index()).copied().flatten().ok_or_else(undefined)
    }

    fn constant(&mut self, constant: &Constant) -> BuildResult<()> {
        let value = self.graph.value(constant.value).ok_or_else(undefined)?;
        let new = self.b.called(value.name.clone()).constant(value.ty.clone(), constant.data.clone())?;
        self.set(constant.value, new)
    }

    fn node(&mut self, node: &Node) -> BuildResult<()> {
        let output = node.outputs.first().copied().ok_or_else(undefined)?;
        let inputs = node.inputs.iter().flatten().map(|id| self.get(*id)).collect::<BuildResult<Vec<_>>>()?;
        let wide = |dtype: Dtype| if is_short(dtype) { Dtype::F32 } else { dtype };
        let op = match &node.op {
            Op::Convert(dtype) => Op::Convert(wide(*dtype)),
            Op::Iota { dtype, dims, axis } => {
                Op::Iota { dtype: wide(*dtype), dims: dims.clone(), axis: *axis }
            }
            other => other.clone(),
        };
        let before = self.b.graph().values.len();
        let made = match (&op, &inputs[..]) {
            (Op::Convert(dtype), [x]) => self.b.convert(*x, *dtype)?,
            _ => self.b.emit(op, &inputs)?,
        };
        if made.index() >= before {
            let name = self.graph.value(output).map_or("", |value| &value.name);
            self.b.rename(made, name);
        }
        self.set(output, made)
    }
}

fn undefined() -> Box<Diagnostic> {
    Box::new(Diagnostic::error("graph/order", "a value is used before it is defined"))
}
