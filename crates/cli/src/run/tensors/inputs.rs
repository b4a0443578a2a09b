//! Inputs of a graph: what it asks for, arrays of files, and arrays drawn from a seed.

use std::collections::BTreeMap;
use std::path::Path;

use tilewright_base::{Diagnostic, Sources};
use tilewright_graph::{Axis, Dtype, Graph, StoredTensor, out_of_bounds};
use tilewright_import::Model;
use tilewright_import::onnx::{AxisNames, DeclaredInput, DeclaredSize};
use tilewright_num::{Dtype as Pattern, RuleSet, int_value};
use tilewright_reference::{Elements, Tensor};
use tilewright_runtime::{Array, ArrayError, npy};

use crate::host::Host;
use crate::model;
use crate::outcome::{BAD_INPUT, Outcome};
use crate::quantise::declared;
use crate::run::args::{RunArgs, TensorArgs};

/// Elements that a seed draws for all inputs together, at most: 1 GiB of them.
const MOST_DRAWN: u64 = 1 << 28;

/// What a graph asks for.
pub(super) enum RequiredInputs {
    /// An ONNX file, which is read once sizes are known, and the names of its axes.
    Onnx(Vec<DeclaredInput>, AxisNames),
    /// A graph that has been read.
    Graph(Box<Model>, Vec<DeclaredInput>),
}

impl RequiredInputs {
    pub(super) fn of(args: &RunArgs, host: &mut dyn Host) -> Result<RequiredInputs, Outcome> {
        if args.model.ends_with(".onnx") {
            let (inputs, names) = model::onnx_inputs(&args.model, &args.tensors.given(), host)?;
            return Ok(RequiredInputs::Onnx(inputs, names));
        }
        if !args.model.ends_with(".graph") {
            return Err(Outcome::usage(&format!(
                "`{}` takes no arrays\n  = allowed: files .onnx and .graph\n  = instead: --prompt TEXT",
                args.model
            )));
        }
        let model = model::load(&args.model, args.dims.as_deref(), host)?;
        let declared = declared(&model.graph);
        Ok(RequiredInputs::Graph(Box::new(model), declared))
    }

    /// What is asked for.
    pub(super) fn inputs(&self) -> &[DeclaredInput] {
        match self {
            RequiredInputs::Onnx(inputs, _) | RequiredInputs::Graph(_, inputs) => inputs,
        }
    }

    /// Sizes that were asked for, by the names of their axes in the graph; names that no axis has stay as
    /// they are, for the importer to refuse.
    pub(super) fn sizes(&self, dims: Option<&str>) -> Result<GivenSizes, Outcome> {
        let asked = model::axes(dims.unwrap_or(""))?;
        let names = match self {
            RequiredInputs::Onnx(_, names) => names,
            RequiredInputs::Graph(model, _) => return GivenSizes::of(asked, &model.graph.axes, "the graph"),
        };
        let mut sizes = GivenSizes::default();
        for (asked, (least, most)) in asked {
            let name = names.find(&asked).map_or(asked.clone(), str::to_string);
            if least == most {
                sizes.fixed.insert(name, most);
            } else {
                sizes.bounds.insert(name, (least, most));
            }
        }
        Ok(sizes)
    }

    /// The model with the sizes of its inputs. Integers that shapes follow from become constants where
    /// nothing else does.
    pub(super) fn model(
        self,
        args: &RunArgs,
        given: &InputArrays,
        host: &mut dyn Host,
    ) -> Result<Model, Outcome> {
        match self {
            RequiredInputs::Graph(model, _) => Ok(*model),
            RequiredInputs::Onnx(..) => {
                let axes = given.axes.iter().map(|(name, size)| (name.clone(), (*size, *size)));
                let mut axes: BTreeMap<String, (u64, u64)> = axes.collect();
                axes.extend(given.bounds.clone());
                let names = || args.tensors.given();
                let plain = model::load_onnx(&args.model, axes.clone(), BTreeMap::new(), names(), host);
                match plain {
                    Ok(model) => Ok(model),
                    Err(refused) => {
                        let known = given.known();
                        if known.is_empty() {
                            return Err(refused);
                        }
                        model::load_onnx(&args.model, axes, known, names(), host)
                    }
                }
            }
        }
    }
}

/// Sizes of axes that are known before arrays are.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenSizes {
    /// Sizes that were given.
    pub(crate) fixed: BTreeMap<String, u64>,
    /// Smallest and largest size of axes that stay open; the largest is that of what is drawn.
    pub(crate) bounds: BTreeMap<String, (u64, u64)>,
}

impl GivenSizes {
    /// Sizes that were asked for of a graph whose axes have bounds already.
    pub(crate) fn of(
        asked: BTreeMap<String, (u64, u64)>,
        axes: &[Axis],
        graph: &str,
    ) -> Result<GivenSizes, Outcome> {
        let known: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        for (name, (least, most)) in &asked {
            if known.contains(&name.as_str()) && least == most {
                continue;
            }
            let asked = if least == most { most.to_string() } else { format!("{least}..{most}") };
            let allowed = match known.as_slice() {
                [] => format!("none: all sizes of {graph} are fixed"),
                known => format!("a number for {}", known.join(", ")),
            };
            return Err(Outcome::usage(&format!(
                "--dims {name}={asked}\n  = allowed: {allowed}\n  = instead: leave it out"
            )));
        }
        let fixed = asked.into_iter().map(|(name, (size, _))| (name, size)).collect();
        let bounds = axes.iter().map(|axis| (axis.name.clone(), (axis.least, axis.most))).collect();
        Ok(GivenSizes { fixed, bounds })
    }
}

/// Arrays by name, and the sizes that they give to axes.
pub(crate) struct InputArrays {
    tensors: BTreeMap<String, Tensor>,
    axes: BTreeMap<String, u64>,
    /// Of axes that stay open.
    bounds: BTreeMap<String, (u64, u64)>,
    /// What is told of arrays that are not taken as they are.
    pub(crate) notes: String,
}

impl InputArrays {
    /// Reads arrays of files, and draws what is left; sizes that are named may be fixed before.
    pub(crate) fn new(
        args: &TensorArgs,
        sizes: GivenSizes,
        inputs: &[DeclaredInput],
        host: &mut dyn Host,
    ) -> Result<InputArrays, Outcome> {
        let mut files = BTreeMap::new();
        for written in &args.inputs {
            let Some((name, file)) = written.split_once('=') else {
                return Err(Outcome::usage(&format!(
                    "--input {written}\n  = allowed: NAME=FILE.npy\n  = instead: {}",
                    wanted(inputs)
                )));
            };
            if !inputs.iter().any(|input| input.name == name) || files.insert(name, file).is_some() {
                return Err(Outcome::usage(&format!(
                    "--input {written}: an input that the graph has not, or that was given before\n  \
                     = allowed: {}",
                    listed(inputs)
                )));
            }
        }
        let GivenSizes { fixed: axes, bounds } = sizes;
        let mut given = InputArrays { tensors: BTreeMap::new(), axes, bounds, notes: String::new() };
        for input in inputs {
            if let Some(file) = files.get(input.name.as_str()) {
                let (tensor, rounded) = read(input, file, host)?;
                if rounded > 0 {
                    let what = format!("{rounded} elements of `{file}` are rounded from float64 to float32");
                    given.notes += &format!("warning: input `{}`: {what}\n", input.name);
                }
                given.bind(input, &tensor, file, host.colour())?;
                given.tensors.insert(input.name.clone(), tensor);
            }
        }
        given.draw(args, inputs)?;
        given.stay_within(inputs, host.colour())?;
        Ok(given)
    }

    /// Refuses sizes out of the bounds of axes that stay open.
    fn stay_within(&self, inputs: &[DeclaredInput], colour: bool) -> Result<(), Outcome> {
        for input in inputs {
            let Some(tensor) = self.tensors.get(&input.name) else { continue };
            for (size, found) in input.sizes.iter().zip(&tensor.dims) {
                let DeclaredSize::Named(name) = size else { continue };
                let Some((least, most)) = self.bounds.get(name).copied() else { continue };
                let axis = Axis { name: name.clone(), least, most };
                if let Some(complaint) = out_of_bounds(&input.name, &axis, *found as u64) {
                    return Err(Outcome::refused(BAD_INPUT, &Sources::default(), &[complaint], colour));
                }
            }
        }
        Ok(())
    }

    /// What is left: drawn, or asked for.
    fn draw(&mut self, args: &TensorArgs, inputs: &[DeclaredInput]) -> Result<(), Outcome> {
        let missing = inputs.iter().enumerate().filter(|(_, input)| !self.tensors.contains_key(&input.name));
        let missing: Vec<(usize, &DeclaredInput)> = missing.collect();
        let Some(seed) = args.seed else {
            return match missing.first() {
                None => Ok(()),
                Some((_, first)) => Err(Outcome::usage(&format!(
                    "input `{}` is not given\n  = allowed: {}\n  = instead: {}, or --seed N to draw it; \
                     --prompt TEXT with a language model",
                    first.name,
                    listed(inputs),
                    wanted(inputs)
                ))),
            };
        };
        // Nothing is drawn before all sizes are known and small enough.
        let sizes = missing.iter().map(|(_, input)| self.sizes(input)).collect::<Result<Vec<_>, _>>()?;
        let elements = |dims: &Vec<u64>| dims.iter().fold(1_u64, |all, size| all.saturating_mul(*size));
        let total = sizes.iter().map(elements).fold(0_u64, u64::saturating_add);
        if total > MOST_DRAWN {
            return Err(Outcome::usage(&format!(
                "--seed with inputs of {total} elements\n  = allowed: {MOST_DRAWN}\n  \
                 = instead: smaller sizes in --dims, or --input NAME=FILE.npy"
            )));
        }
        for ((at, input), dims) in missing.into_iter().zip(sizes) {
            let tensor = drawn(input.dtype, &dims, seed.wrapping_add(at as u64));
            let large = || Outcome::usage(&format!("input `{}` has too many elements", input.name));
            self.tensors.insert(input.name.clone(), tensor.ok_or_else(large)?);
        }
        Ok(())
    }

    /// Sizes of an input that is drawn.
    fn sizes(&self, input: &DeclaredInput) -> Result<Vec<u64>, Outcome> {
        let size = |size: &DeclaredSize| match size {
            DeclaredSize::Fixed(size) => Ok(*size),
            DeclaredSize::Named(axis) => self.size(axis).ok_or_else(|| {
                Outcome::usage(&format!(
                    "the size `{axis}` of input `{}` is open\n  = allowed: a number\n  = instead: --dims \
                     {axis}=1",
                    input.name
                ))
            }),
        };
        input.sizes.iter().map(size).collect()
    }

    /// The size of an axis: as arrays have it or as it was given, or else its bound.
    fn size(&self, axis: &str) -> Option<u64> {
        self.axes.get(axis).copied().or_else(|| self.bounds.get(axis).map(|(_, most)| *most))
    }

    /// Compares an array with what is asked for; named sizes are what it has.
    fn bind(
        &mut self,
        input: &DeclaredInput,
        tensor: &Tensor,
        file: &str,
        colour: bool,
    ) -> Result<(), Outcome> {
        let found = || {
            Outcome::usage(&format!(
                "`{file}` has sizes {:?}\n  = allowed: {}",
                tensor.dims,
                listed(std::slice::from_ref(input))
            ))
        };
        if tensor.dims.len() != input.sizes.len() {
            return Err(found());
        }
        for (size, found_size) in input.sizes.iter().zip(&tensor.dims) {
            let found_size = *found_size as u64;
            let fits = match size {
                DeclaredSize::Fixed(size) => *size == found_size,
                DeclaredSize::Named(axis) => {
                    let known = *self.axes.entry(axis.clone()).or_insert(found_size);
                    if known != found_size {
                        return Err(two_sizes(&input.name, axis, (found_size, known), colour));
                    }
                    true
                }
            };
            if !fits {
                return Err(found());
            }
        }
        Ok(())
    }

    /// Integers of one axis at most, by name.
    fn known(&self) -> BTreeMap<String, StoredTensor> {
        let stored = |(name, tensor): (&String, &Tensor)| {
            let Elements::Ints(values) = &tensor.elements else { return None };
            let dims: Vec<u64> = tensor.dims.iter().map(|dim| *dim as u64).collect();
            let bytes: Vec<u8> = match tensor.dtype {
                Dtype::I64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                Dtype::I32 => {
                    let words = values.iter().filter_map(|value| i32::try_from(*value).ok());
                    words.flat_map(i32::to_le_bytes).collect()
                }
                Dtype::Bool => values.iter().map(|value| u8::from(*value != 0)).collect(),
                _ => return None,
            };
            Some((name.clone(), StoredTensor::owned(tensor.dtype, &dims, bytes)?))
        };
        self.tensors.iter().filter(|(_, tensor)| tensor.dims.len() <= 1).filter_map(stored).collect()
    }

    /// The array of a name, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The array of a name.
    pub(super) fn named(&self, name: &str) -> Result<&Tensor, Outcome> {
        self.tensors.get(name).ok_or_else(|| Outcome::usage(&format!("input `{name}` is not given")))
    }

    /// Arrays in the order of a graph's inputs.
    pub(crate) fn of(&self, graph: &Graph) -> Result<Vec<Tensor>, Outcome> {
        let names = graph.inputs.iter().filter_map(|id| graph.value(*id)).map(|value| &value.name);
        names.map(|name| self.named(name).cloned()).collect()
    }
}

/// What is said of an array with another size of an axis than was given, or than an array before it has.
fn two_sizes(input: &str, axis: &str, (found, known): (u64, u64), colour: bool) -> Outcome {
    let what = format!("input `{input}` has {found} along `{axis}`, which is {known}");
    let complaint = Diagnostic::error("graph/bounds", what)
        .allowed(format!("one size of `{axis}` in all inputs"))
        .instead("arrays that agree");
    Outcome::refused(BAD_INPUT, &Sources::default(), &[complaint], colour)
}

/// Inputs as a graph declares them: `x: f32[1, n]`.
fn listed(inputs: &[DeclaredInput]) -> String {
    let one = |input: &DeclaredInput| {
        let sizes: Vec<String> = input.sizes.iter().map(spelled).collect();
        format!("{}: {}[{}]", input.name, input.dtype, sizes.join(", "))
    };
    let all: Vec<String> = inputs.iter().map(one).collect();
    if all.is_empty() { "no input".to_string() } else { all.join("; ") }
}

fn spelled(size: &DeclaredSize) -> String {
    match size {
        DeclaredSize::Fixed(size) => size.to_string(),
        DeclaredSize::Named(axis) => axis.clone(),
    }
}

/// Options that give all inputs.
fn wanted(inputs: &[DeclaredInput]) -> String {
    let options: Vec<String> =
        inputs.iter().map(|input| format!("--input {0}={0}.npy", input.name)).collect();
    if options.is_empty() { "no --input".to_string() } else { options.join(" ") }
}

/// An array of a file, and how many of its elements were rounded.
fn read(input: &DeclaredInput, file: &str, host: &mut dyn Host) -> Result<(Tensor, u64), Outcome> {
    let unread = |why: String| Outcome::usage(&format!("input `{}`: `{file}`: {why}", input.name));
    let not_taken = |why: ArrayError| match why {
        ArrayError::Type { found, .. } => {
            let (wanted, numpy) = (input.dtype, numpy_name(input.dtype));
            unread(format!(
                "elements are {found}, which do not become {wanted}\n  = allowed: {}\n  \
                 = instead: x.astype('{numpy}') before numpy.save",
                if wanted.is_float() { "floats" } else { "integers and bools" }
            ))
        }
        other => unread(other.to_string()),
    };
    let bytes = host.read(Path::new(file)).map_err(|error| unread(error.to_string()))?;
    let lengths = |extents: &[u64]| -> Vec<usize> {
        extents.iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect()
    };
    if input.dtype.is_float() {
        let array = npy::read(&bytes, Pattern::F32, &RuleSet::TCP).map_err(not_taken)?;
        let floats = array.patterns.iter().map(|pattern| f32::from_bits(*pattern)).collect();
        let rounded = npy::rounded_elements(&bytes);
        return Ok((Tensor::floats(input.dtype, &lengths(&array.extents), floats), rounded));
    }
    let (extents, values) = npy::read_ints(&bytes).map_err(not_taken)?;
    let (least, most) = input.dtype.integer_range().unwrap_or((0, 0));
    let outside =
        values.iter().position(|value| input.dtype != Dtype::Bool && !(least..=most).contains(value));
    if let Some(at) = outside {
        return Err(unread(format!("element {at} is {}, which is outside {}", values[at], input.dtype)));
    }
    Ok((Tensor::ints(input.dtype, &lengths(&extents), values), 0))
}

/// A type of NumPy that holds what an input of a type takes.
fn numpy_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I64 => "int64",
        Dtype::I32 => "int32",
        Dtype::I8 | Dtype::I4 => "int8",
        Dtype::U8 | Dtype::U4 => "uint8",
        Dtype::Bool => "bool",
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 => "float32",
    }
}

/// Elements drawn as [`Array::random`] does, in the type that holds them.
fn drawn(dtype: Dtype, dims: &[u64], seed: u64) -> Option<Tensor> {
    let pattern = match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 => Pattern::F32,
        Dtype::I4 => Pattern::I4,
        Dtype::U4 | Dtype::U8 | Dtype::Bool => Pattern::U8,
        Dtype::I8 => Pattern::I8,
        Dtype::I32 | Dtype::I64 => Pattern::I32,
    };
    let array = Array::random(&RuleSet::TCP, pattern, dims, seed)?;
    let dims: Option<Vec<usize>> = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    let dims = dims?;
    if dtype.is_float() {
        let floats = array.patterns.iter().map(|pattern| f32::from_bits(*pattern)).collect();
        return Some(Tensor::floats(dtype, &dims, floats));
    }
    let odd = i64::from(dtype == Dtype::Bool);
    let whole = |value: &u32| {
        let value = int_value(pattern, *value);
        if odd == 1 { value & odd } else { value }
    };
    Some(Tensor::ints(dtype, &dims, array.patterns.iter().map(whole).collect()))
}
