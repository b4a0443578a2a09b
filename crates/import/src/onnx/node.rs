//! One node: its operands, attributes and results, and how it asks the graph for operators.

use std::collections::BTreeSet;

use tilewright_base::nearest::near;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{BuildResult, Data, StoredTensor, ValueId};

use crate::error::{ImportError, ImportResult};
use crate::onnx::attributes::attributes;
use crate::onnx::ops::{NAMES, convert};
use crate::onnx::{OnnxReader, is_onnx, proto, tensor};

impl OnnxReader<'_> {
    pub(super) fn node(&mut self, node: &proto::NodeProto) -> ImportResult<()> {
        let name = match node.name.as_str() {
            "" => node.outputs.first().map_or_else(String::new, Clone::clone),
            name => name.to_string(),
        };
        let item = format!("node `{name}` ({})", node.op);
        if !is_onnx(&node.domain) {
            let what = format!("operators of domain `{}` are not known", node.domain);
            return Err(ImportError::about(self.file, item, what).allowed("operators of ONNX itself"));
        }
        self.known_opset(node, &item)?;
        let mut inputs = Vec::new();
        for input in &node.inputs {
            let id = match input.as_str() {
                "" => None,
                input => Some(self.values.get(input).copied().ok_or_else(|| {
                    let what = format!("its operand `{input}` is not defined before it");
                    ImportError::about(self.file, item.clone(), what)
                        .allowed("nodes in order, without a cycle")
                })?),
            };
            inputs.push(id);
        }
        self.known_attributes(node, &item)?;
        let first = node.outputs.first().cloned().unwrap_or_default();
        let before = self.b.graph().values.len();
        let mut call = Call { reader: self, node, inputs, item: item.clone() };
        let outputs = match convert(&mut call) {
            Some(outputs) => outputs,
            None => Err(call.unknown()),
        }?;
        for (output, id) in node.outputs.iter().zip(&outputs) {
            if !output.is_empty() {
                self.define(format!("{item}: its result `{output}`"), output, *id)?;
            }
        }
        let wanted = node.outputs.iter().skip(outputs.len()).any(|output| !output.is_empty());
        if wanted {
            let what = format!("gives {} results here, {} are asked for", outputs.len(), node.outputs.len());
            return Err(ImportError::about(self.file, item, what));
        }
        if let Some(id) = outputs.first().filter(|id| id.index() >= before) {
            self.b.rename(*id, &first);
        }
        Ok(())
    }

    /// Refuses attributes that a known operator does not have, or that come twice: what they ask for would be
    /// passed over.
    fn known_attributes(&self, node: &proto::NodeProto, item: &str) -> ImportResult<()> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = node.attributes.iter().map(|one| &one.name).find(|name| !seen.insert(*name)) {
            let what = format!("attribute `{twice}` is there more than once");
            return Err(ImportError::about(self.file, item, what).allowed("each attribute once"));
        }
        let known = attributes(&node.op);
        let other = node.attributes.iter().find(|attribute| !known.contains(&attribute.name.as_str()));
        let Some(other) = other.filter(|_| NAMES.contains(&node.op.as_str())) else { return Ok(()) };
        let what = format!("attribute `{}` is none of the operator's", other.name);
        let all = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        let error = ImportError::about(self.file, item, what).allowed(all);
        Err(match near(&other.name, known.iter().copied()) {
            Some(near) => error.instead(near),
            None => error.instead("the node without it"),
        })
    }

    /// Refuses operators of versions whose rules are not known.
    fn known_opset(&self, node: &proto::NodeProto, item: &str) -> ImportResult<()> {
        let old = self.opset < *OPSETS.start() && !SINCE_FIRST.contains(&node.op.as_str());
        if !old && self.opset <= *OPSETS.end() {
            return Ok(());
        }
        let (opset, first, last) = (self.opset, OPSETS.start(), OPSETS.end());
        let what = format!("is of opset {opset}, whose rules are not known here");
        Err(ImportError::about(self.file, item, what)
            .allowed(format!("opset {first} to {last}"))
            .instead("the model converted to opset 13 to 23"))
    }
}

/// Opsets whose operators are known: 7 has today's broadcasting, 27 is the last that the node tests of ONNX
/// 1.22 have.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=27;

/// Operators that never meant anything else.
const SINCE_FIRST: [&str; 12] =
    ["Abs", "Ceil", "Exp", "Floor", "Identity", "Log", "Neg", "Not", "Relu", "Sigmoid", "Sqrt", "Tanh"];

/// Families of operators that have no near name, and what to do about them.
fn replacement(op: &str) -> &'static str {
    match op {
        _ if op.contains("Sequence") || op.contains("Optional") => {
            "export the model with tensors in place of sequences"
        }
        _ if op.starts_with("Random") || matches!(op, "Bernoulli" | "Multinomial") => {
            "draw the numbers outside the model and make them an input"
        }
        _ => "export the model without it",
    }
}

/// A node on its way into the graph.
pub(crate) struct Call<'c, 'r> {
    pub(crate) reader: &'c mut OnnxReader<'r>,
    pub(crate) node: &'c proto::NodeProto,
    pub(crate) inputs: Vec<Option<ValueId>>,
    item: String,
}

impl Call<'_, '_> {
    /// A refusal that names the node.
    pub(crate) fn refuse(&self, what: impl Into<String>) -> Box<ImportError> {
        ImportError::about(self.reader.file, self.item.clone(), what)
    }

    /// The node and its operator, for complaints.
    pub(crate) fn item(&self) -> &str {
        &self.item
    }

    fn unknown(&self) -> Box<ImportError> {
        let near = match near(&self.node.op, NAMES.iter().copied()) {
            Some(near) => format!("near is `{near}`"),
            None => "none has a near name".to_string(),
        };
        self.refuse(format!("operator `{}` is not known here", self.node.op))
            .allowed(format!("{} operators; {near}", NAMES.len()))
            .instead(replacement(&self.node.op))
    }

    /// What the graph says, with the node's name in a complaint.
    pub(crate) fn built<T>(&self, built: BuildResult<T>) -> ImportResult<T> {
        built.map_err(|complaint| ImportError::graph(self.reader.file, self.item.clone(), &complaint))
    }

    pub(crate) fn input(&self, at: usize) -> ImportResult<ValueId> {
        self.maybe(at).ok_or_else(|| self.refuse(format!("operand {at} is missing")))
    }

    pub(crate) fn maybe(&self, at: usize) -> Option<ValueId> {
        self.inputs.get(at).copied().flatten()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&proto::AttributeProto> {
        self.node.attributes.iter().find(|attribute| attribute.name == name)
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.i)
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).map_or(default, |attribute| attribute.f)
    }

    pub(crate) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(crate) fn word(&self, name: &str, default: &str) -> String {
        let found = self.attribute(name).map(|attribute| String::from_utf8_lossy(&attribute.s).into_owned());
        found.unwrap_or_else(|| default.to_string())
    }

    pub(crate) fn words(&self, name: &str) -> Option<Vec<String>> {
        let strings = &self.attribute(name)?.strings;
        Some(strings.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    /// The tensor of an attribute.
    pub(crate) fn tensor(&self, name: &str) -> ImportResult<Option<StoredTensor>> {
        let Some(found) = self.attribute(name).and_then(|attribute| attribute.t.clone()) else {
            return Ok(None);
        };
        tensor::stored(self.reader.file, found, &tensor::no_external_data).map(Some)
    }

    /// Whole numbers that must be known while the model is read.
    pub(crate) fn numbers(&self, at: usize, what: &str) -> ImportResult<Option<Vec<i64>>> {
        let Some(id) = self.maybe(at) else { return Ok(None) };
        let found = self.reader.b.numbers(id);
        found.map(Some).ok_or_else(|| {
            self.refuse(format!("{what} (operand {at}) are known only when the model runs"))
                .allowed("constants, or what is computed from sizes")
        })
    }

    /// Floats that must be known while the model is read; integers are taken as floats.
    pub(crate) fn known_floats(&self, at: usize, what: &str) -> ImportResult<Option<Vec<f32>>> {
        let Some(id) = self.maybe(at) else { return Ok(None) };
        let late = || {
            self.refuse(format!("{what} (operand {at}) are known only when the model runs"))
                .allowed("constants")
        };
        if !self.reader.b.dtype(id).is_float() {
            let numbers = self.reader.b.numbers(id).ok_or_else(late)?;
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            return Ok(Some(numbers.into_iter().map(|number| number as f32).collect()));
        }
        match self.reader.b.constant_data(id) {
            Some(Data::Floats(patterns)) => Ok(Some(patterns.iter().map(|p| f32::from_bits(*p)).collect())),
            Some(Data::Stored(name)) => {
                let stored = self.reader.store.tensors.get(name).and_then(tensor::floats);
                stored.map(Some).ok_or_else(late)
            }
            _ => Err(late()),
        }
    }

    /// A rich operator on the node's own operands.
    pub(crate) fn rich(&mut self, rich: RichOp, attrs: Attrs) -> ImportResult<Vec<ValueId>> {
        let inputs = self.inputs.clone();
        self.rich_on(rich, &inputs, attrs)
    }

    /// A rich operator.
    pub(crate) fn rich_on(
        &mut self,
        rich: RichOp,
        inputs: &[Option<ValueId>],
        attrs: Attrs,
    ) -> ImportResult<Vec<ValueId>> {
        let built = self.reader.b.rich(rich, inputs, attrs);
        self.built(built)
    }

    /// Something built from the node.
    pub(crate) fn build<T>(
        &mut self,
        build: impl FnOnce(&mut tilewright_graph::Builder) -> BuildResult<T>,
    ) -> ImportResult<T> {
        let built = build(&mut self.reader.b);
        self.built(built)
    }

    /// An axis of a value that may count from the end.
    pub(crate) fn axis_of(&self, x: ValueId, axis: i64) -> ImportResult<usize> {
        self.built(tilewright_graph::rich::axis_of(&self.reader.b, x, axis))
    }
}
