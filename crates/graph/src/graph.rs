//! The graph itself: values, each defined once, nodes in an order in which every operand comes first.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dim::{Axis, Dim};
use crate::dtype::Dtype;
use crate::op::Op;

/// Index of a value in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// As an index of a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Element type and sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Of each element.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub dims: Vec<Dim>,
}

impl Type {
    /// A type.
    pub fn new(dtype: Dtype, dims: impl Into<Vec<Dim>>) -> Type {
        Type { dtype, dims: dims.into() }
    }

    /// Sizes, if no axis is in them.
    pub fn fixed_dims(&self) -> Option<Vec<i64>> {
        self.dims.iter().map(Dim::as_fixed).collect()
    }

    /// As written: `f32[batch, 64]`.
    pub fn text(&self, axes: &[Axis]) -> String {
        let dims: Vec<String> = self.dims.iter().map(|dim| dim.text(axes)).collect();
        format!("{}[{}]", self.dtype, dims.join(", "))
    }
}

/// A tensor of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name, different from all others.
    pub name: String,
    /// What it holds.
    pub ty: Type,
}

/// Where the elements of a constant are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// In the tensor of this name of a [`TensorStore`].
    Stored(String),
    /// Patterns of f32, for float types; one stands for all.
    Floats(Vec<u32>),
    /// Numbers, for other types; one stands for all.
    Ints(Vec<i64>),
}

/// A value that is the same in every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Which value.
    pub value: ValueId,
    /// Its elements.
    pub data: Data,
}

/// An operator with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// Operands; only rich operators may leave some out.
    pub inputs: Vec<Option<ValueId>>,
    /// Results.
    pub outputs: Vec<ValueId>,
}

/// A result of the graph under its outside name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOutput {
    /// Outside name.
    pub name: String,
    /// Which value.
    pub value: ValueId,
}

/// State from run to run: what leaves as an output enters the next run as an input. A key and value cache is
/// state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphState {
    /// The input.
    pub input: ValueId,
    /// Index of the output.
    pub output: usize,
}

/// A model as a graph of tensor operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// What it is called.
    pub name: String,
    /// Axes whose size is given by each run.
    pub axes: Vec<Axis>,
    /// Every tensor.
    pub values: Vec<Value>,
    /// Tensors that a run is given.
    pub inputs: Vec<ValueId>,
    /// Tensors that are part of the model.
    pub constants: Vec<Constant>,
    /// Operators in an order in which each comes behind its operands.
    pub nodes: Vec<Node>,
    /// Results.
    pub outputs: Vec<GraphOutput>,
    /// Outputs that enter the next run.
    pub states: Vec<GraphState>,
}

impl Graph {
    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// The input of this name.
    pub fn input(&self, name: &str) -> Option<ValueId> {
        self.inputs.iter().copied().find(|id| self.value(*id).is_some_and(|value| value.name == name))
    }

    /// The place of the output of this name.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|output| output.name == name)
    }

    /// Multiplications and additions aside, how many weights there are.
    pub fn stored_elements(&self) -> u128 {
        let stored = self.constants.iter().filter(|constant| matches!(constant.data, Data::Stored(_)));
        stored
            .filter_map(|constant| {
                let dims = self.value(constant.value)?.ty.fixed_dims()?;
                Some(dims.iter().map(|dim| u128::from(dim.unsigned_abs())).product::<u128>())
            })
            .sum()
    }
}

/// Bytes of one tensor, a range of a larger buffer that is shared.
#[derive(Clone, Debug)]
pub struct StoredTensor {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Sizes.
    pub dims: Vec<u64>,
    buffer: Arc<Vec<u8>>,
    start: usize,
    end: usize,
}

impl StoredTensor {
    /// A tensor in part of a buffer, little-endian, row-major; `None` if the range is not as long as the
    /// elements.
    pub fn new(
        dtype: Dtype,
        dims: &[u64],
        buffer: &Arc<Vec<u8>>,
        start: usize,
        end: usize,
    ) -> Option<StoredTensor> {
        let count = dims.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim))?;
        let bytes = usize::try_from(dtype.size_bytes(count)?).ok()?;
        let fits = start <= end && end <= buffer.len() && end - start == bytes;
        fits.then(|| StoredTensor { dtype, dims: dims.to_vec(), buffer: Arc::clone(buffer), start, end })
    }

    /// A tensor with bytes of its own.
    pub fn owned(dtype: Dtype, dims: &[u64], bytes: Vec<u8>) -> Option<StoredTensor> {
        let end = bytes.len();
        StoredTensor::new(dtype, dims, &Arc::new(bytes), 0, end)
    }

    /// An f32 tensor.
    pub fn floats(dims: &[u64], elements: &[f32]) -> Option<StoredTensor> {
        let bytes = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
        StoredTensor::owned(Dtype::F32, dims, bytes)
    }

    /// Its elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or(&[])
    }
}

/// Tensors by name: what the constants of a graph refer to.
#[derive(Clone, Debug, Default)]
pub struct TensorStore {
    /// Tensors by name.
    pub tensors: BTreeMap<String, StoredTensor>,
}
