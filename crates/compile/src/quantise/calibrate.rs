//! Ranges of values over sets of inputs, by the interpreter, and how far results are from floats.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_graph::graph::GraphOutput;
use tilewright_graph::{Graph, TensorStore, ValueId};
use tilewright_reference::{Elements, EvalError, Interpreter, Tensor};

use super::GraphTypes;
use super::find::{Operand, contractions};

/// The largest magnitude of each value that becomes narrow.
pub type Ranges = BTreeMap<ValueId, f32>;

/// Ranges of what contractions of a graph of primitives read, over sets of inputs in the order of the graph.
/// A value that is not finite has none.
///
/// # Errors
/// Inputs that do not fit the graph.
pub fn ranges(
    graph: &Graph,
    store: &TensorStore,
    types: &GraphTypes,
    sets: &[Vec<Tensor>],
) -> Result<Ranges, EvalError> {
    let found = contractions(graph, types);
    let source = |operand: &Operand| match operand {
        Operand::Computed { source, .. } => Some(*source),
        Operand::Constant => None,
    };
    let wanted: BTreeSet<ValueId> =
        found.chosen.values().flat_map(|one| one.operands.iter().filter_map(source)).collect();
    let output = |id: &ValueId| GraphOutput { name: String::new(), value: *id };
    let seen = Graph { outputs: wanted.iter().map(output).collect(), states: Vec::new(), ..graph.clone() };
    let interpreter = Interpreter::new(seen, store)?;
    let mut all = Ranges::new();
    for set in sets {
        for (id, tensor) in wanted.iter().zip(interpreter.run(set)?) {
            let range = all.entry(*id).or_insert(0.0);
            *range = largest(&tensor).max(*range);
        }
    }
    all.retain(|_, range| range.is_finite());
    Ok(all)
}

/// The largest magnitude; infinite if an element is no number.
fn largest(tensor: &Tensor) -> f32 {
    let magnitude = |value: &f32| if value.is_nan() { f32::INFINITY } else { value.abs() };
    match &tensor.elements {
        Elements::Floats(values) => values.iter().map(magnitude).fold(0.0, f32::max),
        Elements::Ints(_) => f32::INFINITY,
    }
}

/// How far a result is from another: the root of the mean square of the difference, as part of that of the
/// other; none where the other is zero everywhere or they cannot be compared.
pub fn relative_error(found: &Tensor, wanted: &Tensor) -> Option<f64> {
    let (Elements::Floats(found), Elements::Floats(wanted)) = (&found.elements, &wanted.elements) else {
        return None;
    };
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let differences = found.iter().zip(wanted.iter()).map(|(a, b)| f64::from(*a) - f64::from(*b));
    let (off, all) =
        (squares(&mut { differences }), squares(&mut wanted.iter().map(|value| f64::from(*value))));
    (all > 0.0 && found.len() == wanted.len()).then(|| (off / all).sqrt())
}
