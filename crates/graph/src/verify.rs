//! Whether a graph makes sense: every value defined once and before its use, types as the operators give
//! them, sizes bounded.

use std::collections::BTreeSet;
use tilewright_base::invariant::OrBroken;

use tilewright_base::Diagnostic;

use crate::build::Builder;
use crate::graph::{Data, Graph, ValueId};
use crate::infer::bounded;
use crate::op::Op;

/// What a complaint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphPlace {
    /// A node.
    Node(usize),
    /// An input or a constant.
    Value(ValueId),
    /// An output or a state.
    Output(usize),
    /// An axis.
    Axis(usize),
}

/// Codes of the graph level, with what they say.
pub const CODES: &[(&str, &str)] = &[
    ("graph/axis", "an axis is named twice, or its bounds are wrong"),
    ("graph/order", "a value is used before it is defined, or defined twice"),
    ("graph/operands", "an operator has too few or too many operands or results"),
    ("graph/attribute", "an attribute is of another kind, or has a value that is not allowed"),
    ("graph/shape", "sizes of operands do not fit together"),
    ("graph/dtype", "element types do not fit the operator"),
    ("graph/size", "a tensor may have a negative size or too many elements"),
    ("graph/type", "a value is declared with another type than its operator gives"),
    ("graph/constant", "a constant has other elements than its type says"),
    ("graph/state", "a state joins an input and an output that do not fit"),
    ("graph/open", "a node cannot be computed while the size of an axis is open"),
    (
        "graph/bounds",
        "an array has a size outside of the bounds of an axis, or another than an array before it",
    ),
];

/// Largest size of an axis.
const MOST_AXIS: u64 = 1 << 32;

type GraphComplaints = Vec<(GraphPlace, Diagnostic)>;

/// Everything that is wrong with a graph.
pub fn verify(graph: &Graph) -> GraphComplaints {
    let mut complaints = Vec::new();
    check_axes(graph, &mut complaints);
    if !complaints.is_empty() {
        return complaints;
    }
    let (new, defined) = (vec![None; graph.values.len()], vec![false; graph.values.len()]);
    let mut checker = GraphChecker { graph, b: Builder::new(""), new, defined, complaints };
    for axis in &graph.axes {
        checker.b.axis(&axis.name, axis.least, axis.most);
    }
    checker.definitions();
    for at in 0..graph.nodes.len() {
        checker.node(at);
    }
    checker.ends();
    checker.complaints
}

fn check_axes(graph: &Graph, complaints: &mut GraphComplaints) {
    let mut names = BTreeSet::new();
    for (at, axis) in graph.axes.iter().enumerate() {
        if !names.insert(&axis.name) {
            let what = format!("axis `{}` is named twice", axis.name);
            complaints.push((
                GraphPlace::Axis(at),
                Diagnostic::error("graph/axis", what).allowed("each name once"),
            ));
        }
        if axis.least > axis.most || axis.most > MOST_AXIS {
            let what = format!("axis `{}` runs from {} to {}", axis.name, axis.least, axis.most);
            let complaint = Diagnostic::error("graph/axis", what);
            complaints.push((
                GraphPlace::Axis(at),
                complaint.allowed(format!("0 to {MOST_AXIS}, the smaller first")),
            ));
        }
    }
}

struct GraphChecker<'g> {
    graph: &'g Graph,
    b: Builder,
    /// Values in the builder; of what was complained about, none.
    new: Vec<Option<ValueId>>,
    defined: Vec<bool>,
    complaints: GraphComplaints,
}

impl GraphChecker<'_> {
    fn say(&mut self, place: GraphPlace, complaint: Diagnostic) {
        self.complaints.push((place, complaint));
    }

    /// Notes where a value is defined; complains if it is already, or is not there.
    fn define(&mut self, place: GraphPlace, id: ValueId, new: Option<ValueId>) {
        let name = self.graph.value(id).map_or("", |value| value.name.as_str());
        let twice = Diagnostic::error("graph/order", format!("`{name}` is defined twice")).allowed("once");
        match (self.new.get_mut(id.index()), self.defined.get_mut(id.index())) {
            (Some(slot), Some(defined @ false)) => (*slot, *defined) = (new, true),
            _ => self.say(place, twice),
        }
    }

    fn definitions(&mut self) {
        let mut names = BTreeSet::new();
        for (at, value) in self.graph.values.iter().enumerate() {
            let place = GraphPlace::Value(ValueId(
                u32::try_from(at).or_broken("values of a graph are numbered in 32 bits"),
            ));
            if !names.insert(&value.name) {
                let complaint =
                    Diagnostic::error("graph/order", format!("`{}` is defined twice", value.name));
                self.say(place, complaint.allowed("each name once"));
            }
        }
        let constants = self.graph.constants.iter().map(|constant| constant.value);
        for id in self.graph.inputs.iter().copied().chain(constants) {
            let Some(value) = self.graph.value(id) else { continue };
            if let Err(complaint) = bounded(&value.ty, &self.graph.axes) {
                self.say(GraphPlace::Value(id), *complaint);
            }
        }
        for id in &self.graph.inputs {
            let new =
                self.graph.value(*id).and_then(|value| self.b.input(&value.name, value.ty.clone()).ok());
            self.define(GraphPlace::Value(*id), *id, new);
        }
        for constant in &self.graph.constants {
            let Some(value) = self.graph.value(constant.value) else { continue };
            let count = value.ty.fixed_dims().and_then(|dims| {
                dims.iter()
                    .try_fold(1_i64, |count, dim| count.checked_mul(*dim))
                    .and_then(|n| usize::try_from(n).ok())
            });
            let fits = match (&constant.data, count) {
                (_, None) => false,
                (Data::Stored(_), Some(_)) => true,
                (Data::Floats(items), Some(count)) => {
                    value.ty.dtype.is_float() && (items.len() == 1 || items.len() == count)
                }
                (Data::Ints(items), Some(count)) => {
                    let range = value.ty.dtype.integer_range();
                    let inside = range.is_some_and(|(a, b)| items.iter().all(|item| (a..=b).contains(item)));
                    inside && (items.len() == 1 || items.len() == count)
                }
            };
            if !fits {
                let what = format!("constant `{}` of {}", value.name, value.ty.text(&self.graph.axes));
                let allowed = "fixed sizes, and as many elements of the type as they say, or one for all";
                self.say(
                    GraphPlace::Value(constant.value),
                    Diagnostic::error("graph/constant", what).allowed(allowed),
                );
            }
            let new = self.b.constant(value.ty.clone(), constant.data.clone()).ok();
            self.define(GraphPlace::Value(constant.value), constant.value, new);
        }
    }

    fn node(&mut self, at: usize) {
        let place = GraphPlace::Node(at);
        let Some(node) = self.graph.nodes.get(at) else { return };
        let mut inputs = Vec::new();
        for id in &node.inputs {
            match id.map(|id| (id, self.new.get(id.index()).copied().flatten())) {
                None => inputs.push(None),
                Some((_, Some(new))) => inputs.push(Some(new)),
                Some((id, None)) if self.is_defined(id) => return self.assume(at),
                Some((id, None)) => {
                    let name = self.graph.value(id).map_or("?", |value| value.name.as_str());
                    let complaint =
                        Diagnostic::error("graph/order", format!("`{name}` is used before it is defined"));
                    self.say(place, complaint.allowed("operands that come before; a graph has no cycle"));
                    return self.assume(at);
                }
            }
        }
        let outputs = match &node.op {
            Op::Rich(rich, attrs) => self.b.rich(*rich, &inputs, attrs.clone()),
            op => match inputs.iter().copied().collect::<Option<Vec<ValueId>>>() {
                Some(inputs) => self.b.emit(op.clone(), &inputs).map(|id| vec![id]),
                None => {
                    let what = format!("`{}` without one of its operands", op.name());
                    Err(Box::new(
                        Diagnostic::error("graph/operands", what).allowed("all operands of a primitive"),
                    ))
                }
            },
        };
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(complaint) => {
                self.say(place, *complaint);
                return self.assume(at);
            }
        };
        if outputs.len() != node.outputs.len() {
            let what = format!("`{}` with {} results", node.op.name(), node.outputs.len());
            let complaint =
                Diagnostic::error("graph/operands", what).allowed(format!("{} results", outputs.len()));
            self.say(place, complaint);
        }
        for (id, new) in node.outputs.iter().zip(outputs) {
            let found = self.b.ty(new).text(&self.graph.axes);
            if let Some(value) = self.graph.value(*id)
                && value.ty != *self.b.ty(new)
            {
                let what = format!("`{}` is declared {}", value.name, value.ty.text(&self.graph.axes));
                let complaint = Diagnostic::error("graph/type", what).allowed(found.clone()).instead(found);
                self.say(place, complaint);
            }
            self.define(place, *id, Some(new));
        }
    }

    fn is_defined(&self, id: ValueId) -> bool {
        self.defined.get(id.index()).copied().unwrap_or(false)
    }

    /// After a complaint: the results are what they are declared to be.
    fn assume(&mut self, at: usize) {
        for id in &self.graph.nodes[at].outputs {
            let new =
                self.graph.value(*id).and_then(|value| self.b.input(&value.name, value.ty.clone()).ok());
            self.define(GraphPlace::Node(at), *id, new);
        }
    }

    fn ends(&mut self) {
        let mut names = BTreeSet::new();
        for (at, output) in self.graph.outputs.iter().enumerate() {
            if !names.insert(&output.name) || !self.is_defined(output.value) {
                let what = format!("output `{}` is named twice or is no value", output.name);
                self.say(
                    GraphPlace::Output(at),
                    Diagnostic::error("graph/order", what).allowed("a value, each name once"),
                );
            }
        }
        for state in &self.graph.states {
            let input = self.graph.value(state.input).filter(|_| self.graph.inputs.contains(&state.input));
            let output =
                self.graph.outputs.get(state.output).and_then(|output| self.graph.value(output.value));
            let fits = match (input, output) {
                (Some(input), Some(output)) => {
                    input.ty.dtype == output.ty.dtype && input.ty.dims.len() == output.ty.dims.len()
                }
                _ => false,
            };
            if !fits {
                let complaint = Diagnostic::error("graph/state", "a state joins things that do not fit");
                let complaint = complaint.allowed("an input and an output of one type and rank");
                self.say(GraphPlace::Output(state.output), complaint);
            }
        }
    }
}
