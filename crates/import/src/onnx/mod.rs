//! ONNX models to graphs: operators of opset 13 to 23 on tensors, and those of 7 to 27 that have the same
//! rules. Branches, loops and recurrent layers are written out.
//!
//! A named size becomes an axis. Integer operators that compute shapes run while the graph is built and fold
//! away. An operator that is not known is refused with its node and what is near.

mod attributes;
mod axes;
mod bodies;
mod declared;
mod node;
mod ops;
pub mod proto;
pub mod tensor;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message as _;
use tilewright_graph::{Builder, Data, Dim, Dtype, StoredTensor, TensorStore, Type, ValueId};

pub use axes::AxisNames;

use crate::Model;
use crate::error::{ImportError, ImportResult};

/// What an importer may be told.
pub struct OnnxOptions<'o> {
    /// Inputs whose elements are known: they become constants.
    pub known: BTreeMap<String, StoredTensor>,
    /// Inputs that runs are given although the file has elements for them, which are passed over.
    pub given: BTreeSet<String>,
    /// Largest size of a named axis that `axes` does not name.
    pub most: u64,
    /// Smallest and largest size of axes by name; equal ones fix a size.
    pub axes: BTreeMap<String, (u64, u64)>,
    /// Files beside the model.
    pub beside: &'o tensor::ExternalData<'o>,
}

impl Default for OnnxOptions<'_> {
    fn default() -> Self {
        OnnxOptions {
            known: BTreeMap::new(),
            given: BTreeSet::new(),
            most: 4096,
            axes: BTreeMap::new(),
            beside: &tensor::no_external_data,
        }
    }
}

/// Integers up to which a constant is written into the graph, so that shapes can be computed from it.
const MOST_INLINE_INTS: u64 = 1024;
/// The same for floats.
const MOST_INLINE_FLOATS: u64 = 16;

/// Reads a model; `file` is its name for complaints.
///
/// # Errors
/// If the file is no model, or has operators or types that are not known.
pub fn read(file: &str, bytes: &[u8], options: &OnnxOptions<'_>) -> ImportResult<Model> {
    let model = proto::ModelProto::decode(bytes)
        .map_err(|error| ImportError::new(file, format!("not an ONNX model: {error}")))?;
    let opset = model.opsets.iter().find(|opset| is_onnx(&opset.domain)).map_or(13, |opset| opset.version);
    let graph = model.graph.ok_or_else(|| ImportError::new(file, "an ONNX model without a graph"))?;
    let mut reader = OnnxReader {
        file,
        opset,
        b: Builder::new(if graph.name.is_empty() { "onnx" } else { &graph.name }),
        store: TensorStore::default(),
        values: BTreeMap::new(),
        bodies: bodies::Bodies::default(),
        computed: 0,
        has_chosen_sizes: !options.known.is_empty()
            || options.axes.values().any(|(least, most)| least == most),
    };
    reader.graph(graph, options)?;
    Ok(Model { graph: reader.b.finish(), store: reader.store })
}

/// An input as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredInput {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its sizes, outermost first.
    pub sizes: Vec<DeclaredSize>,
}

/// A size that a file declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredSize {
    /// A number.
    Fixed(u64),
    /// An axis by name; those without one are called after their input.
    Named(String),
}

/// Inputs that a file asks for, in its order: those that it has no elements for itself, and those that are
/// `given` all the same; and the names of their axes.
///
/// # Errors
/// If the file is no model, or an input has a type that is not known.
pub fn inputs(
    file: &str,
    bytes: &[u8],
    given: &BTreeSet<String>,
) -> ImportResult<(Vec<DeclaredInput>, AxisNames)> {
    let model = proto::ModelProto::decode(bytes)
        .map_err(|error| ImportError::new(file, format!("not an ONNX model: {error}")))?;
    let graph = model.graph.ok_or_else(|| ImportError::new(file, "an ONNX model without a graph"))?;
    let names = AxisNames::of(asked(&graph, given));
    let all: ImportResult<Vec<_>> = asked(&graph, given).map(|input| declared(file, input, &names)).collect();
    Ok((all?, names))
}

/// Inputs that a graph has no elements for itself, and those that are given all the same.
fn asked<'g>(
    graph: &'g proto::GraphProto,
    given: &BTreeSet<String>,
) -> impl Iterator<Item = &'g proto::ValueInfoProto> {
    let own = graph.initializers.iter().map(|tensor| tensor.name.as_str());
    let own: BTreeSet<&str> = own.filter(|name| !given.contains(*name)).collect();
    graph.inputs.iter().filter(move |input| !own.contains(input.name.as_str()))
}

fn declared(file: &str, input: &proto::ValueInfoProto, names: &AxisNames) -> ImportResult<DeclaredInput> {
    let about = |what: &str| ImportError::about(file, format!("input `{}`", input.name), what);
    let tensor = input.ty.as_ref().and_then(|ty| ty.tensor.as_ref());
    let tensor = tensor.ok_or_else(|| about("is no tensor").allowed("tensors"))?;
    let dtype = tensor::known_type(tensor.element.into()).map_err(|what| {
        about(&what).allowed(tensor::types_text()).instead("the model exported with one of them")
    })?;
    let shape =
        tensor.shape.as_ref().ok_or_else(|| about("has no shape").allowed("sizes or names of axes"))?;
    let size = |(at, dim): (usize, &proto::DimensionProto)| match names.of_size(&input.name, at, dim) {
        Some(name) => DeclaredSize::Named(name.to_string()),
        None => DeclaredSize::Fixed(dim.value.and_then(|size| u64::try_from(size).ok()).unwrap_or(0)),
    };
    let sizes = shape.dims.iter().enumerate().map(size).collect();
    Ok(DeclaredInput { name: input.name.clone(), dtype, sizes })
}

/// Every operator that is known.
pub fn operators() -> &'static [&'static str] {
    ops::NAMES
}

fn is_onnx(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// A model on its way to a graph.
pub(crate) struct OnnxReader<'r> {
    pub(crate) file: &'r str,
    pub(crate) opset: i64,
    pub(crate) b: Builder,
    pub(crate) store: TensorStore,
    values: BTreeMap<String, ValueId>,
    /// Whether sizes may be those of a request.
    has_chosen_sizes: bool,
    bodies: bodies::Bodies,
    /// Elements of constants that operators made so far.
    pub(crate) computed: u64,
}

impl OnnxReader<'_> {
    fn graph(&mut self, graph: proto::GraphProto, options: &OnnxOptions<'_>) -> ImportResult<()> {
        let names = AxisNames::of(asked(&graph, &options.given));
        let bounds = bounds(self.file, &names, options)?;
        // A file with the elements of many tensors is read once.
        let read: RefCell<BTreeMap<String, Arc<Vec<u8>>>> = RefCell::default();
        let beside = |name: &str| {
            if let Some(bytes) = read.borrow().get(name) {
                return Ok(Arc::clone(bytes));
            }
            let bytes = (options.beside)(name)?;
            read.borrow_mut().insert(name.to_string(), Arc::clone(&bytes));
            Ok(bytes)
        };
        let is_given = |name: &String| {
            options.given.contains(name) && graph.inputs.iter().any(|input| input.name == *name)
        };
        for tensor in graph.initializers {
            let name = tensor.name.clone();
            if is_given(&name) {
                continue;
            }
            let stored = tensor::stored(self.file, tensor, &beside)?;
            let id = self.tensor(&name, stored)?;
            self.define(format!("tensor `{name}`"), &name, id)?;
        }
        let own: BTreeSet<String> = self.values.keys().cloned().collect();
        for input in graph.inputs.iter().filter(|input| !own.contains(&input.name)) {
            let id = match options.known.get(&input.name) {
                Some(stored) => self.tensor(&input.name, stored.clone())?,
                None => self.input(input, &names, &bounds, options.most)?,
            };
            self.define(format!("input `{}`", input.name), &input.name, id)?;
        }
        for node in &graph.nodes {
            self.node(node)?;
        }
        for output in &graph.outputs {
            let id = self.values.get(&output.name).copied();
            let id = id
                .ok_or_else(|| ImportError::about(self.file, &output.name, "an output that no node gives"))?;
            self.check_declared("output", output, id)?;
            self.b.output(&output.name, id);
        }
        for value in &graph.values {
            if let Some(id) = self.values.get(&value.name).copied() {
                self.check_declared("value", value, id)?;
            }
        }
        self.states();
        Ok(())
    }

    /// Gives a value its name, which nothing may have had before.
    fn define(&mut self, item: String, name: &str, id: ValueId) -> ImportResult<()> {
        if self.values.insert(name.to_string(), id).is_none() {
            self.bodies.defined.push(name.to_string());
            return Ok(());
        }
        Err(ImportError::about(self.file, item, "is there twice").allowed("every name defined once"))
    }

    fn graph_error<T>(&self, item: &str, built: tilewright_graph::BuildResult<T>) -> ImportResult<T> {
        built.map_err(|complaint| ImportError::graph(self.file, format!("`{item}`"), &complaint))
    }

    /// A constant: small ones in the graph, others in the store.
    pub(crate) fn tensor(&mut self, name: &str, stored: StoredTensor) -> ImportResult<ValueId> {
        let count = stored.dims.iter().fold(1_u64, |count, dim| count.saturating_mul(*dim));
        let dims: Vec<Dim> =
            stored.dims.iter().map(|dim| Dim::fixed(i64::try_from(*dim).unwrap_or(i64::MAX))).collect();
        let ty = Type::new(stored.dtype, dims);
        let words = || stored.bytes().as_chunks::<4>().0.iter();
        let data = match stored.dtype {
            _ if count == 0 => None,
            Dtype::F32 if count <= MOST_INLINE_FLOATS => {
                Some(Data::Floats(words().map(|word| u32::from_le_bytes(*word)).collect()))
            }
            Dtype::I32 if count <= MOST_INLINE_INTS => {
                Some(Data::Ints(words().map(|word| i64::from(i32::from_le_bytes(*word))).collect()))
            }
            Dtype::I64 if count <= MOST_INLINE_INTS => {
                let words = stored.bytes().as_chunks::<8>().0.iter();
                Some(Data::Ints(words.map(|word| i64::from_le_bytes(*word)).collect()))
            }
            Dtype::Bool if count <= MOST_INLINE_INTS => {
                Some(Data::Ints(stored.bytes().iter().map(|byte| i64::from(*byte != 0)).collect()))
            }
            _ => None,
        };
        let built = match data {
            Some(data) => self.b.called(name).constant(ty, data),
            None if count == 0 && !stored.dtype.is_float() => {
                self.b.called(name).constant(ty, Data::Ints(Vec::new()))
            }
            None if count == 0 => self.b.called(name).constant(ty, Data::Floats(Vec::new())),
            None => {
                let name = if self.store.tensors.contains_key(name) {
                    format!("{name}.{}", self.store.tensors.len())
                } else {
                    name.to_string()
                };
                let built = self.b.stored(&name, stored.dtype, &stored.dims);
                self.store.tensors.insert(name, stored);
                built
            }
        };
        self.graph_error(name, built)
    }

    fn input(
        &mut self,
        input: &proto::ValueInfoProto,
        names: &AxisNames,
        bounds: &AxisBounds,
        most: u64,
    ) -> ImportResult<ValueId> {
        let declared = declared(self.file, input, names)?;
        let mut dims = Vec::new();
        for size in &declared.sizes {
            dims.push(match size {
                DeclaredSize::Fixed(size) => Dim::fixed(i64::try_from(*size).unwrap_or(i64::MAX)),
                DeclaredSize::Named(name) => self.axis(name, &input.name, bounds.get(name).copied(), most),
            });
        }
        let built = self.b.input(&input.name, Type::new(declared.dtype, dims));
        self.graph_error(&input.name, built)
    }

    /// An axis of an input, with the bounds that were asked for; what is past may be empty.
    fn axis(&mut self, name: &str, input: &str, bounds: Option<(u64, u64)>, most: u64) -> Dim {
        let may_be_empty = [name, input].iter().any(|name| name.to_lowercase().contains("past"));
        match bounds.unwrap_or((u64::from(!may_be_empty), most)) {
            (least, most) if least == most => Dim::fixed(i64::try_from(most).unwrap_or(i64::MAX)),
            (least, most) => self.b.axis(name, least, most),
        }
    }

    /// Joins caches of one type and as many axes: `past_x` and `present_x`, `past_key_values.0.key` and
    /// `present.0.key`.
    fn states(&mut self) {
        let graph = self.b.graph();
        let mut found = Vec::new();
        for input in &graph.inputs {
            let Some(value) = graph.value(*input) else { continue };
            let Some(rest) =
                value.name.strip_prefix("past_key_values").or_else(|| value.name.strip_prefix("past"))
            else {
                continue;
            };
            let outputs =
                ["present", "present_key_values"].map(|prefix| graph.output(&format!("{prefix}{rest}")));
            let fits = |output: &usize| {
                let given = graph.outputs.get(*output).and_then(|output| graph.value(output.value));
                given.is_some_and(|given| {
                    given.ty.dtype == value.ty.dtype && given.ty.dims.len() == value.ty.dims.len()
                })
            };
            if let Some(output) = outputs.into_iter().flatten().find(fits) {
                found.push((*input, output));
            }
        }
        found.into_iter().for_each(|(input, output)| self.b.state(input, output));
    }
}

/// Smallest and largest size of axes, by their names in the graph.
type AxisBounds = BTreeMap<String, (u64, u64)>;

/// The bounds that were asked for. Those of axes that no input has are refused: they would change nothing.
fn bounds(file: &str, names: &AxisNames, options: &OnnxOptions<'_>) -> ImportResult<AxisBounds> {
    let mut all = AxisBounds::new();
    for (asked, bounds) in &options.axes {
        let Some(name) = names.find(asked) else {
            let known: Vec<&str> = names.all().into_iter().collect();
            let known = if known.is_empty() { "none: all sizes are fixed".into() } else { known.join(", ") };
            return Err(ImportError::about(file, format!("axis `{asked}`"), "is of no input").allowed(known));
        };
        if all.insert(name.to_string(), *bounds).is_some_and(|before| before != *bounds) {
            let twice = ImportError::about(file, format!("axis `{asked}`"), "is given with two sizes");
            return Err(twice.allowed("one size, or one range, of each axis"));
        }
    }
    Ok(all)
}
