//! In which order of axes an input lies in HBM, where the host may choose: what convolutions sum over at each
//! position lies together, so that a window is read in long runs.

use tilewright_graph::{Binary, Dim, Graph, Node, Op, Subscripts, Unary, ValueId};

/// Operators between an input and its windows at most.
const MOST_LOOKS: u32 = 16;

/// Axes of an input by what contractions do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AxisUse {
    /// Kept, or not looked at.
    Kept,
    /// Windows are taken along it.
    Windowed,
    /// Summed over at each position of windows.
    Summed,
}

/// Axes of an input as they lie in HBM, outermost first; `None` if they lie as the graph has them. Whoever
/// reads the input must come to contractions of its windows, all with the same axes behind, with nothing
/// between but padding and what may come behind it: what is computed of few channels would be moved into
/// their padding in short pieces.
pub(super) fn input_order(graph: &Graph, input: ValueId) -> Option<Vec<usize>> {
    let rank = graph.value(input)?.ty.dims.len();
    let axes: Vec<Option<usize>> = (0..rank).map(Some).collect();
    let mut uses: Option<Vec<AxisUse>> = None;
    let sizes = graph.value(input)?.ty.dims.iter().map(Dim::as_fixed).collect();
    follow(graph, input, &(axes, vec![AxisUse::Kept; rank], sizes), MOST_LOOKS, &mut uses)?;
    let uses = uses?;
    let last_window = uses.iter().rposition(|one| *one == AxisUse::Windowed)?;
    let before = |at: &usize| uses[*at] == AxisUse::Summed && *at < last_window;
    let moved: Vec<usize> = (0..rank).filter(before).collect();
    if moved.is_empty() {
        return None;
    }
    let stay = (0..rank).filter(|at| !moved.contains(at));
    let (front, behind): (Vec<usize>, Vec<usize>) = stay.partition(|at| *at <= last_window);
    Some([front, moved, behind].concat())
}

/// Axes of a value by those of the input, what is known of these, and their sizes.
type Seen = (Vec<Option<usize>>, Vec<AxisUse>, Vec<Option<i64>>);

/// Follows a value to the contractions that read it, and compares what they do with the input's axes; `None`
/// where something else reads it.
fn follow(
    graph: &Graph,
    value: ValueId,
    seen: &Seen,
    looks: u32,
    found: &mut Option<Vec<AxisUse>>,
) -> Option<()> {
    if looks == 0 || graph.outputs.iter().any(|output| output.value == value) {
        return None;
    }
    for node in graph.nodes.iter().filter(|node| node.inputs.contains(&Some(value))) {
        let (axes, uses, sizes) = seen;
        let out = *node.outputs.first()?;
        let next = match &node.op {
            Op::Pad { .. } | Op::Convert(_) => seen.clone(),
            _ if keeps_zeros(graph, node, value) => seen.clone(),
            Op::Transpose(order) => (order.iter().map(|at| axes[*at]).collect(), uses.clone(), sizes.clone()),
            Op::Reshape(dims) => (with_ones(graph, value, dims, axes)?, uses.clone(), sizes.clone()),
            Op::Window { axis, .. } => {
                let (mut axes, mut uses, sizes) = seen.clone();
                uses[axes[*axis]?] = AxisUse::Windowed;
                axes.insert(axis + 1, None);
                (axes, uses, sizes)
            }
            Op::Einsum(spec) => {
                let own = contracted(node, value, spec, seen)?;
                if found.get_or_insert_with(|| own.clone()) != &own {
                    return None;
                }
                continue;
            }
            _ => return None,
        };
        follow(graph, out, &next, looks - 1, found)?;
    }
    Some(())
}

/// Whether an operator works on elements of a value alone, and makes zero of zero: it may come behind
/// padding.
fn keeps_zeros(graph: &Graph, node: &Node, value: ValueId) -> bool {
    let is_scalar = |id: &Option<ValueId>| {
        let other = id.filter(|id| *id != value).and_then(|id| graph.value(id));
        other.is_some_and(|other| other.ty.dims.iter().all(|dim| dim.as_fixed() == Some(1)))
    };
    match &node.op {
        Op::Unary(op) => matches!(
            op,
            Unary::Neg
                | Unary::Abs
                | Unary::Sqrt
                | Unary::Sin
                | Unary::Tanh
                | Unary::Erf
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::RoundAway
                | Unary::Sign
        ),
        // Limits on both sides of zero, as most are.
        Op::Binary(Binary::Mul | Binary::Max | Binary::Min) => node.inputs.iter().any(is_scalar),
        Op::Binary(Binary::Div) => {
            node.inputs.first() == Some(&Some(value)) && node.inputs[1..].iter().all(is_scalar)
        }
        _ => false,
    }
}

/// Axes behind a reshape that adds or leaves out axes of one position.
fn with_ones(
    graph: &Graph,
    value: ValueId,
    to: &[Dim],
    axes: &[Option<usize>],
) -> Option<Vec<Option<usize>>> {
    let is_wide = |dim: &Dim| dim.as_fixed() != Some(1);
    let from = &graph.value(value)?.ty.dims;
    if !from.iter().filter(|dim| is_wide(dim)).eq(to.iter().filter(|dim| is_wide(dim))) {
        return None;
    }
    let mut wide = from.iter().zip(axes).filter(|(dim, _)| is_wide(dim)).map(|(_, axis)| *axis);
    to.iter().map(|dim| if is_wide(dim) { wide.next() } else { Some(None) }).collect()
}

/// What a contraction does with the input's axes, if it takes windows of it.
fn contracted(node: &Node, value: ValueId, spec: &str, (axes, uses, sizes): &Seen) -> Option<Vec<AxisUse>> {
    let parsed = Subscripts::parse(spec)?;
    let at = node.inputs.iter().position(|input| *input == Some(value))?;
    let mut uses = uses.clone();
    for (letter, axis) in parsed.inputs.get(at)?.iter().zip(axes) {
        if let Some(axis) = axis
            && !parsed.output.contains(letter)
            && uses[*axis] == AxisUse::Kept
            && sizes.get(*axis).is_some_and(|size| *size != Some(1))
        {
            uses[*axis] = AxisUse::Summed;
        }
    }
    uses.contains(&AxisUse::Windowed).then_some(uses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_base::SourceId;

    fn order(lines: &str) -> Option<Vec<usize>> {
        let text = format!("graph 1\nname g\n{lines}");
        let graph = tilewright_graph::text::read(&text, SourceId(0)).unwrap();
        let graph = tilewright_graph::primitives(&graph).unwrap();
        input_order(&graph, graph.inputs[0])
    }

    const IMAGE: &str = "input x: f32[2, 3, 14, 14]\ninput w: f32[8, 3, 3, 3]\n";

    #[test]
    fn channels_lie_behind_the_axes_of_windows() {
        let conv = "let y: f32[2, 8, 7, 7] = conv(x, w) pads=[1, 1, 1, 1] strides=[2, 2]\noutput y = y\n";
        assert_eq!(order(&format!("{IMAGE}{conv}")), Some(vec![0, 2, 3, 1]));
    }

    #[test]
    fn what_others_read_stays_as_it_is() {
        let scaled =
            "let h: f32[2, 3, 14, 14] = sigmoid(x)\nlet y: f32[2, 8, 12, 12] = conv(h, w)\noutput y = y\n";
        assert_eq!(order(&format!("{IMAGE}{scaled}")), None);
        let both = "let y: f32[2, 8, 12, 12] = conv(x, w)\noutput y = y\noutput x = x\n";
        assert_eq!(order(&format!("{IMAGE}{both}")), None);
        let none = "let y: f32[2, 3, 14, 14] = relu(x)\noutput y = y\n";
        assert_eq!(order(&format!("{IMAGE}{none}")), None);
        let one = "input x: f32[2, 1, 14, 14]\ninput w: f32[8, 1, 3, 3]\n\
                   let y: f32[2, 8, 12, 12] = conv(x, w)\noutput y = y\n";
        assert_eq!(order(one), None);
    }
}
