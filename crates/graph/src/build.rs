//! Builds a graph node by node: types are inferred, names made unique, integers that are known folded away.

use std::collections::{BTreeMap, BTreeSet};
use tilewright_base::invariant::OrBroken;

use tilewright_base::Diagnostic;

use crate::dim::{Axis, AxisId, Dim};
use crate::dtype::Dtype;
use crate::graph::{Constant, Data, Graph, GraphOutput, GraphState, Node, Type, Value, ValueId};
use crate::infer::{BuildResult, bounded, infer, shape_error, size_error};
use crate::known::{KnownElements, MOST_KNOWN, evaluate};
use crate::op::{Binary, Fold, Op, Unary};
use crate::rich::{Attrs, RichOp};

/// Values of a graph, at most.
const MOST_VALUES: usize = 1 << 22;

/// A graph under construction.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    graph: Graph,
    known: Vec<Option<KnownElements>>,
    names: BTreeSet<String>,
    /// Names that values get only if they are called so.
    reserved: BTreeSet<String>,
    scalars: BTreeMap<(Dtype, u64), ValueId>,
    sizes: BTreeMap<Dim, ValueId>,
    /// Name for the next value.
    hint: Option<String>,
}

impl Builder {
    /// An empty graph of this name.
    pub fn new(name: impl Into<String>) -> Builder {
        Builder { graph: Graph { name: name.into(), ..Graph::default() }, ..Builder::default() }
    }

    /// The graph as it is now, without checks.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// An axis; one of the same name is taken again.
    pub fn axis(&mut self, name: &str, least: u64, most: u64) -> Dim {
        let found = self.graph.axes.iter().position(|axis| axis.name == name);
        let at = found.unwrap_or_else(|| {
            self.graph.axes.push(Axis { name: name.to_string(), least, most });
            self.graph.axes.len() - 1
        });
        Dim::axis(AxisId(u32::try_from(at).or_broken("axes of a graph fit 32 bits")))
    }

    /// The axes so far.
    pub fn axes(&self) -> &[Axis] {
        &self.graph.axes
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        const NOTHING: &Type = &Type { dtype: Dtype::F32, dims: Vec::new() };
        self.graph.value(value).map_or(NOTHING, |value| &value.ty)
    }

    /// Its sizes.
    pub fn dims(&self, value: ValueId) -> &[Dim] {
        &self.ty(value).dims
    }

    /// Its element type.
    pub fn dtype(&self, value: ValueId) -> Dtype {
        self.ty(value).dtype
    }

    /// Its number of axes.
    pub fn rank(&self, value: ValueId) -> usize {
        self.dims(value).len()
    }

    /// The size of an axis of a value.
    pub fn dim(&self, value: ValueId, axis: usize) -> BuildResult<Dim> {
        let dims = self.dims(value);
        let found = dims.get(axis).cloned();
        found.ok_or_else(|| shape_error(format!("axis {axis} of {}", dims.len()), "an axis that is there"))
    }

    /// Its elements, if they are known.
    pub fn known(&self, value: ValueId) -> Option<&KnownElements> {
        self.known.get(value.index())?.as_ref()
    }

    /// Its elements as numbers, if they are known and no axis is in them.
    pub fn numbers(&self, value: ValueId) -> Option<Vec<i64>> {
        self.known(value)?.fixed()
    }

    /// The constant behind a value.
    pub fn constant_data(&self, value: ValueId) -> Option<&Data> {
        let found = self.graph.constants.binary_search_by_key(&value, |constant| constant.value).ok()?;
        self.graph.constants.get(found).map(|constant| &constant.data)
    }

    /// Calls the next value so, or something like it if that is taken.
    pub fn called(&mut self, name: impl Into<String>) -> &mut Builder {
        self.hint = Some(name.into());
        self
    }

    /// Keeps a name for a value that will be called so.
    pub fn reserve(&mut self, name: &str) {
        self.reserved.insert(name.to_string());
    }

    fn define(&mut self, ty: Type, known: Option<KnownElements>) -> BuildResult<ValueId> {
        let at = self.graph.values.len();
        if at >= MOST_VALUES {
            return Err(size_error("the graph has too many values", format!("at most {MOST_VALUES}")));
        }
        bounded(&ty, &self.graph.axes)?;
        let wanted = self.hint.take().filter(|name| !name.is_empty());
        let mut name = wanted.unwrap_or_else(|| {
            let mut name = format!("v{at}");
            while self.reserved.contains(&name) {
                name.push('x');
            }
            name
        });
        if self.names.contains(&name) {
            name = format!("{name}.v{at}");
            while self.names.contains(&name) {
                name.push('x');
            }
        }
        self.names.insert(name.clone());
        self.graph.values.push(Value { name, ty });
        self.known.push(known);
        Ok(ValueId(u32::try_from(at).or_broken("values of a graph are bounded")))
    }

    /// A tensor that a run is given.
    pub fn input(&mut self, name: &str, ty: Type) -> BuildResult<ValueId> {
        let id = self.called(name).define(ty, None)?;
        self.graph.inputs.push(id);
        Ok(id)
    }

    /// A tensor of a store; its name there is also its name here.
    pub fn stored(&mut self, name: &str, dtype: Dtype, dims: &[u64]) -> BuildResult<ValueId> {
        let sizes: Option<Vec<Dim>> =
            dims.iter().map(|dim| i64::try_from(*dim).ok().map(Dim::fixed)).collect();
        let sizes = sizes.ok_or_else(|| size_error(format!("tensor `{name}` is too large"), "64 bits"))?;
        if self.hint.is_none() {
            self.called(name);
        }
        self.constant(Type::new(dtype, sizes), Data::Stored(name.to_string()))
    }

    /// A constant; the data must be as long as the type says, or one element for all.
    pub fn constant(&mut self, ty: Type, data: Data) -> BuildResult<ValueId> {
        let known = match (&data, ty.fixed_dims()) {
            (Data::Ints(items), Some(dims)) => known_constant(&dims, items),
            _ => None,
        };
        let value = self.define(ty, known)?;
        self.graph.constants.push(Constant { value, data });
        Ok(value)
    }

    /// A scalar of a float type or, rounded towards zero, of an integer type.
    pub fn scalar(&mut self, dtype: Dtype, number: f64) -> BuildResult<ValueId> {
        #[expect(clippy::cast_possible_truncation, reason = "f32 is what constants hold; integers are cut")]
        let (float, integer) = (number as f32, number as i64);
        let data =
            if dtype.is_float() { Data::Floats(vec![float.to_bits()]) } else { Data::Ints(vec![integer]) };
        if dtype.integer_range().is_some_and(|(least, most)| !(least..=most).contains(&integer)) {
            return Err(size_error("a number that its type does not have", "numbers of the type"));
        }
        let key = (dtype, number.to_bits());
        if let Some(found) = self.scalars.get(&key) {
            return Ok(*found);
        }
        let hint = self.hint.take();
        let value = self.constant(Type::new(dtype, []), data)?;
        self.hint = hint;
        self.scalars.insert(key, value);
        Ok(value)
    }

    /// Integers along one axis.
    pub fn integers(&mut self, dtype: Dtype, numbers: &[i64]) -> BuildResult<ValueId> {
        let dims = [Dim::fixed(i64::try_from(numbers.len()).or_broken("a length fits 63 bits"))];
        self.constant(Type::new(dtype, dims), Data::Ints(numbers.to_vec()))
    }

    /// A result of the graph.
    pub fn output(&mut self, name: &str, value: ValueId) {
        self.graph.outputs.push(GraphOutput { name: name.to_string(), value });
    }

    /// Says that an output enters the next run as an input.
    pub fn state(&mut self, input: ValueId, output: usize) {
        self.graph.states.push(GraphState { input, output });
    }

    /// A primitive.
    pub fn emit(&mut self, op: Op, inputs: &[ValueId]) -> BuildResult<ValueId> {
        let types: Vec<&Type> = inputs.iter().map(|id| self.ty(*id)).collect();
        let ty = infer(&op, &types, &self.graph.axes)?;
        let operands: Vec<Option<&KnownElements>> = inputs.iter().map(|id| self.known(*id)).collect();
        let known = evaluate(&op, &operands, &ty, &self.graph.axes);
        if let Some(numbers) = known.as_ref().and_then(KnownElements::fixed) {
            return self.constant(ty, Data::Ints(numbers));
        }
        if let (Op::Convert(_), Some(Some(known)), true) = (&op, operands.first(), ty.dtype.is_float())
            && let Some(numbers) = known.fixed()
        {
            #[expect(clippy::cast_precision_loss, reason = "this is the conversion")]
            let patterns = numbers.iter().map(|number| (*number as f32).to_bits()).collect();
            return self.constant(ty, Data::Floats(patterns));
        }
        let output = self.define(ty, known)?;
        let inputs = inputs.iter().copied().map(Some).collect();
        self.graph.nodes.push(Node { op, inputs, outputs: vec![output] });
        Ok(output)
    }

    /// A rich operator: its types are those of its decomposition.
    pub fn rich(
        &mut self,
        rich: RichOp,
        inputs: &[Option<ValueId>],
        attrs: Attrs,
    ) -> BuildResult<Vec<ValueId>> {
        let types = rich.infer(self, inputs, &attrs)?;
        let hint = self.hint.take();
        let mut outputs = Vec::with_capacity(types.len());
        for (ty, known) in types {
            self.hint.clone_from(&hint);
            outputs.push(self.define(ty, known)?);
        }
        self.hint = None;
        self.graph.nodes.push(Node {
            op: Op::Rich(rich, attrs),
            inputs: inputs.to_vec(),
            outputs: outputs.clone(),
        });
        Ok(outputs)
    }

    /// Runs something and takes back all that it built.
    pub(crate) fn trial<T>(&mut self, run: impl FnOnce(&mut Builder) -> T) -> T {
        let hint = self.hint.take();
        let (values, nodes) = (self.graph.values.len(), self.graph.nodes.len());
        let (constants, axes) = (self.graph.constants.len(), self.graph.axes.len());
        let result = run(self);
        for value in self.graph.values.drain(values..) {
            self.names.remove(&value.name);
        }
        self.known.truncate(values);
        self.graph.nodes.truncate(nodes);
        self.graph.constants.truncate(constants);
        self.graph.axes.truncate(axes);
        self.scalars.retain(|_, id| id.index() < values);
        self.sizes.retain(|_, id| id.index() < values);
        self.hint = hint;
        result
    }

    /// Another name for a value, unless it is taken.
    pub fn rename(&mut self, value: ValueId, name: &str) {
        if name.is_empty() || self.names.contains(name) {
            return;
        }
        if let Some(value) = self.graph.values.get_mut(value.index()) {
            self.names.remove(&value.name);
            self.names.insert(name.to_string());
            value.name = name.to_string();
        }
    }

    /// The finished graph without what nothing needs.
    pub fn finish(self) -> Graph {
        crate::prune::prune(self.graph)
    }
}

fn known_constant(dims: &[i64], items: &[i64]) -> Option<KnownElements> {
    let dims: Option<Vec<usize>> = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    let dims = dims?;
    let count = dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim))?;
    if count > MOST_KNOWN {
        return None;
    }
    let items: Vec<Dim> = match items {
        [one] => vec![Dim::fixed(*one); count],
        all if all.len() == count => all.iter().map(|item| Dim::fixed(*item)).collect(),
        _ => return None,
    };
    Some(KnownElements { dims, items })
}

/// Primitives by name.
impl Builder {
    /// An elementwise operator of one operand.
    pub fn unary(&mut self, unary: Unary, x: ValueId) -> BuildResult<ValueId> {
        self.emit(Op::Unary(unary), &[x])
    }

    /// An elementwise operator of two operands.
    pub fn binary(&mut self, binary: Binary, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
        self.emit(Op::Binary(binary), &[x, y])
    }

    /// An elementwise operator with a scalar of the same type on the right.
    pub fn with(&mut self, binary: Binary, x: ValueId, number: f64) -> BuildResult<ValueId> {
        let scalar = self.scalar(self.dtype(x), number)?;
        self.binary(binary, x, scalar)
    }

    /// Sum.
    pub fn add(&mut self, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
        self.binary(Binary::Add, x, y)
    }

    /// Difference.
    pub fn sub(&mut self, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
        self.binary(Binary::Sub, x, y)
    }

    /// Product.
    pub fn mul(&mut self, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
        self.binary(Binary::Mul, x, y)
    }

    /// Quotient.
    pub fn div(&mut self, x: ValueId, y: ValueId) -> BuildResult<ValueId> {
        self.binary(Binary::Div, x, y)
    }

    /// One or the other.
    pub fn select(&mut self, condition: ValueId, yes: ValueId, no: ValueId) -> BuildResult<ValueId> {
        self.emit(Op::Select, &[condition, yes, no])
    }

    /// Another type; nothing if it has it.
    pub fn convert(&mut self, x: ValueId, dtype: Dtype) -> BuildResult<ValueId> {
        if self.dtype(x) == dtype { Ok(x) } else { self.emit(Op::Convert(dtype), &[x]) }
    }

    /// Folds axes, which may come in any order.
    pub fn reduce(&mut self, fold: Fold, x: ValueId, axes: &[usize], keep: bool) -> BuildResult<ValueId> {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        self.emit(Op::Reduce { fold, axes, keep }, &[x])
    }

    /// The mean over axes.
    pub fn mean(&mut self, x: ValueId, axes: &[usize], keep: bool) -> BuildResult<ValueId> {
        let sum = self.reduce(Fold::Sum, x, axes, keep)?;
        let dims: BuildResult<Vec<Dim>> = axes.iter().map(|axis| self.dim(x, *axis)).collect();
        let count = Dim::product(&dims?).ok_or_else(|| size_error("a mean of too many", "64 bits"))?;
        let count = self.number(count, self.dtype(x))?;
        self.div(sum, count)
    }

    /// A size as a scalar of any type.
    pub fn number(&mut self, size: Dim, dtype: Dtype) -> BuildResult<ValueId> {
        if let Some(number) = size.as_fixed() {
            #[expect(clippy::cast_precision_loss, reason = "sizes beyond 2^53 are refused elsewhere")]
            return self.scalar(dtype, number as f64);
        }
        let size = self.size(size)?;
        self.convert(size, dtype)
    }

    /// A size as an i64 scalar.
    pub fn size(&mut self, size: Dim) -> BuildResult<ValueId> {
        if let Some(found) = self.sizes.get(&size) {
            return Ok(*found);
        }
        let value = self.emit(Op::Size(size.clone()), &[])?;
        self.sizes.insert(size, value);
        Ok(value)
    }

    /// Sum of products.
    pub fn einsum(&mut self, spec: &str, inputs: &[ValueId]) -> BuildResult<ValueId> {
        self.emit(Op::Einsum(spec.to_string()), inputs)
    }

    /// Other sizes; nothing if they are these.
    pub fn reshape(&mut self, x: ValueId, dims: &[Dim]) -> BuildResult<ValueId> {
        if self.dims(x) == dims { Ok(x) } else { self.emit(Op::Reshape(dims.to_vec()), &[x]) }
    }

    /// Stretched to these sizes.
    pub fn broadcast(&mut self, x: ValueId, dims: &[Dim]) -> BuildResult<ValueId> {
        if self.dims(x) == dims { Ok(x) } else { self.emit(Op::Broadcast(dims.to_vec()), &[x]) }
    }

    /// Axes in another order; nothing if it is this one.
    pub fn transpose(&mut self, x: ValueId, order: &[usize]) -> BuildResult<ValueId> {
        if order.len() == self.rank(x) && order.is_sorted() && order.iter().copied().eq(0..order.len()) {
            return Ok(x);
        }
        self.emit(Op::Transpose(order.to_vec()), &[x])
    }

    /// Part of an axis.
    pub fn slice(
        &mut self,
        x: ValueId,
        axis: usize,
        start: Dim,
        size: Dim,
        step: i64,
    ) -> BuildResult<ValueId> {
        if start.is(0) && step == 1 && self.dim(x, axis)? == size {
            return Ok(x);
        }
        self.emit(Op::Slice { axis, start, size, step }, &[x])
    }

    /// One behind the other.
    pub fn concat(&mut self, axis: usize, parts: &[ValueId]) -> BuildResult<ValueId> {
        if let [one] = parts { Ok(*one) } else { self.emit(Op::Concat { axis }, parts) }
    }

    /// Elements before and behind an axis.
    pub fn pad(
        &mut self,
        x: ValueId,
        axis: usize,
        low: Dim,
        high: Dim,
        value: ValueId,
    ) -> BuildResult<ValueId> {
        if low.is(0) && high.is(0) { Ok(x) } else { self.emit(Op::Pad { axis, low, high }, &[x, value]) }
    }

    /// Slices by number.
    pub fn gather(&mut self, x: ValueId, axis: usize, indices: ValueId) -> BuildResult<ValueId> {
        self.emit(Op::Gather { axis }, &[x, indices])
    }

    /// The coordinate along an axis.
    pub fn iota(&mut self, dtype: Dtype, dims: &[Dim], axis: usize) -> BuildResult<ValueId> {
        self.emit(Op::Iota { dtype, dims: dims.to_vec(), axis }, &[])
    }

    /// A new axis of size 1.
    pub fn unsqueeze(&mut self, x: ValueId, axis: usize) -> BuildResult<ValueId> {
        let mut dims = self.dims(x).to_vec();
        dims.insert(axis.min(dims.len()), Dim::fixed(1));
        self.reshape(x, &dims)
    }

    /// A rich operator of one result.
    pub fn rich_one(&mut self, rich: RichOp, inputs: &[ValueId], attrs: Attrs) -> BuildResult<ValueId> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        let outputs = self.rich(rich, &inputs, attrs)?;
        outputs.first().copied().ok_or_else(|| {
            Box::new(Diagnostic::error("graph/operands", format!("`{}` has no result", rich.name())))
        })
    }
}
