//! `--dtype TYPES` and `--calibrate DIR` of graphs that take arrays: inputs that scales are found on, and
//! what is said of the result.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_compile::Named;
use tilewright_compile::general::FourBits;
use tilewright_compile::quantise::{
    Format, GraphTypes, QuantisedGraph, TypesError, check as check_rules, quantised, ranges, relative_error,
};
use tilewright_graph::{Dim, Graph, TensorStore};
use tilewright_import::onnx::{DeclaredInput, DeclaredSize};
use tilewright_reference::Tensor;

use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::run::args::TensorArgs;
use crate::run::{GivenSizes, InputArrays};
use crate::target::ModelTarget;

/// Sets of inputs of a folder, at most.
const MOST_SETS: usize = 1024;

/// Inputs that scales are found on.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    /// Each in the order of the graph's inputs.
    pub(crate) sets: Vec<Vec<Tensor>>,
    /// Where they are from.
    pub(crate) from: String,
}

/// What became of the contractions of a graph.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct QuantisedNote {
    /// The types, by name.
    dtype: String,
    /// Contractions in other types than bf16.
    contractions: usize,
    /// How many of them are in each type.
    by_type: BTreeMap<&'static str, usize>,
    /// Contractions that the engine takes.
    all_contractions: usize,
    /// What scales of computed values were found on.
    calibrated_on: String,
    /// What is said of contractions in another type than was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// How far a result is from that of the float32 interpreter.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OutputError {
    name: String,
    /// Root mean square of the difference, as part of that of float32; none where that is zero, or no float.
    relative_error: Option<f64>,
}

impl QuantisedNote {
    /// The types that contractions are in, with how many in each if there are several.
    pub(crate) fn types(&self) -> String {
        let one = |(name, count): (&&str, &usize)| match self.by_type.len() {
            1 => name.to_string(),
            _ => format!("{name} {count}"),
        };
        let all: Vec<String> = self.by_type.iter().map(one).collect();
        if all.is_empty() { "bf16".to_string() } else { all.join(", ") }
    }

    /// As people read it.
    pub(crate) fn words(&self) -> String {
        let QuantisedNote { contractions, all_contractions, calibrated_on, .. } = self;
        let notes: String = self.notes.iter().map(|note| format!("; {note}")).collect();
        format!(
            "{contractions} of {all_contractions} contractions, scales of computed values from \
             {calibrated_on}{notes}"
        )
    }

    /// Says of which contractions the weights of four bits lie in bytes.
    pub(crate) fn add_weights(&mut self, FourBits { in_bytes, .. }: &FourBits) {
        let lie = |name: &String| {
            format!("weights of `{name}` have four bits and lie in eight, since no tile takes them otherwise")
        };
        self.notes.extend(in_bytes.iter().map(lie));
    }
}

/// Errors of results against those of float32, by name.
pub(crate) fn errors(found: &[(String, Tensor)], wanted: &[(String, Tensor)]) -> Vec<OutputError> {
    let one = |((name, found), (_, wanted)): (&(String, Tensor), &(String, Tensor))| OutputError {
        name: name.clone(),
        relative_error: relative_error(found, wanted),
    };
    found.iter().zip(wanted).map(one).collect()
}

/// Errors in a line.
pub(crate) fn error_words(errors: &[OutputError]) -> String {
    let one = |error: &OutputError| match error.relative_error {
        Some(part) => format!("{} {:.3} %", error.name, 100.0 * part),
        None => format!("{} -", error.name),
    };
    let all: Vec<String> = errors.iter().map(one).collect();
    format!("error against float32 (root mean square, relative): {}\n", all.join(", "))
}

impl ModelTarget {
    /// Types of the contractions of a graph that takes arrays.
    pub(crate) fn graph_types(&self) -> Result<GraphTypes, Outcome> {
        GraphTypes::parse(&self.dtype).map_err(|error| self.refused_types(&error))
    }

    /// Whether contractions of a graph that takes arrays are in other types than bf16.
    pub(crate) fn is_quantised(&self) -> bool {
        GraphTypes::parse(&self.dtype).is_ok_and(|types| types.is_narrow())
    }

    /// Whether only a graph that takes arrays can have these types: what a language model has is checked
    /// before a file is read.
    pub(crate) fn is_for_graphs(&self) -> bool {
        self.is_quantised() && Named::find(&self.dtype).is_none()
    }

    fn refused_types(&self, error: &TypesError) -> Outcome {
        let instead = match error {
            TypesError::Base(_) => "--dtype int8",
            TypesError::OfClass { .. } => "--dtype int8,head=bf16",
            TypesError::NoConstant { .. } => "weights=w4a8, for all contractions with constants",
            TypesError::Nothing { .. } => "one of them, or leave the rule out",
        };
        Outcome::usage(&format!(
            "--dtype {}: {error}\n  = allowed: {}\n  = instead: {instead}",
            self.dtype,
            error.allowed()
        ))
    }
}

/// Refuses types that graphs are not compiled in, and a calibration that nothing needs.
pub(crate) fn check(target: &ModelTarget) -> Result<(), Outcome> {
    let types = target.graph_types()?;
    if target.calibrate.is_some() && !types.is_narrow() {
        let narrow = Format::ALL.map(Format::name).join(", ");
        return Err(Outcome::usage(&format!(
            "--calibrate with --dtype {}: its contractions are in bf16, which has no scales\n  \
             = allowed: {narrow}, w8a8\n  = instead: --dtype int8",
            target.dtype
        )));
    }
    Ok(())
}

/// What a graph asks for.
pub(crate) fn declared(graph: &Graph) -> Vec<DeclaredInput> {
    let size = |dim: &Dim| match dim.as_fixed().and_then(|n| u64::try_from(n).ok()) {
        Some(size) => DeclaredSize::Fixed(size),
        None => DeclaredSize::Named(dim.text(&graph.axes)),
    };
    let inputs = graph.inputs.iter().filter_map(|id| graph.value(*id));
    let one = |value: &tilewright_graph::Value| {
        let sizes = value.ty.dims.iter().map(size).collect();
        DeclaredInput { name: value.name.clone(), dtype: value.ty.dtype, sizes }
    };
    inputs.map(one).collect()
}

/// The sets of inputs of a folder: `DIR/0`, `DIR/1` and so on, or one that lies in it; each input is
/// `NAME.npy`.
pub(crate) fn calibration(folder: &str, graph: &Graph, host: &mut dyn Host) -> Result<Calibration, Outcome> {
    let inputs = declared(graph);
    let path = |folder: &str, name: &str| {
        Path::new(folder).join(format!("{name}.npy")).to_string_lossy().into_owned()
    };
    let is_set = |folder: &String, host: &dyn Host| {
        inputs.first().is_some_and(|input| host.read(Path::new(&path(folder, &input.name))).is_ok())
    };
    let numbered = (0..MOST_SETS).map(|number| Path::new(folder).join(number.to_string()));
    let numbered = numbered.map(|path| path.to_string_lossy().into_owned());
    let mut folders: Vec<String> = numbered.take_while(|folder| is_set(folder, &*host)).collect();
    if folders.is_empty() {
        folders.push(folder.to_string());
    }
    let mut sets = Vec::new();
    for folder in &folders {
        let named = inputs.iter().map(|input| format!("{}={}", input.name, path(folder, &input.name)));
        let args = TensorArgs { inputs: named.collect(), seed: None, output: None };
        let arrays = InputArrays::new(&args, GivenSizes::default(), &inputs, host).map_err(|refused| {
            let instead = "  = instead: DIR/NAME.npy for each input, or sets of them in DIR/0, DIR/1, ...\n";
            Outcome { stderr: format!("{}{instead}", refused.stderr), ..refused }
        })?;
        sets.push(arrays.of(graph)?);
    }
    let count = sets.len();
    let from = format!("{count} {} of `{folder}`", if count == 1 { "set" } else { "sets" });
    Ok(Calibration { sets, from })
}

/// What is said if a graph is to have narrow operands and nothing was given that scales can be found on.
pub(crate) fn no_calibration(target: &ModelTarget) -> Outcome {
    Outcome::usage(&format!(
        "--dtype {} without --calibrate: scales of computed values are found on inputs\n  \
         = allowed: --calibrate DIR, with DIR/NAME.npy for each input, or sets of them in DIR/0, DIR/1, \
         ...\n  \
         = instead: --calibrate DIR; or `run`, which finds them on the inputs that it is given",
        target.dtype
    ))
}

/// A graph of primitives with contractions in the types that are asked for, and what is said of it.
pub(crate) fn rewritten(
    target: &ModelTarget,
    (graph, store): (&Graph, &TensorStore),
    calibration: Option<&Calibration>,
    host: &dyn Host,
) -> Result<Option<(Graph, QuantisedNote)>, Outcome> {
    let types = target.graph_types()?;
    check_rules(graph, &types).map_err(|error| target.refused_types(&error))?;
    if !types.is_narrow() {
        return Ok(None);
    }
    let calibration = calibration.ok_or_else(|| no_calibration(target))?;
    let failed = |why: String| Outcome { code: FAILED, ..Outcome::usage(&why) };
    let ranges =
        ranges(graph, store, &types, &calibration.sets).map_err(|error| failed(error.to_string()))?;
    let made = quantised(graph, &types, &ranges)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let QuantisedGraph { graph, contractions, all_contractions, notes } = made;
    let calibrated_on = calibration.from.clone();
    let dtype = target.dtype.clone();
    let by_type: BTreeMap<&'static str, usize> =
        contractions.into_iter().map(|(format, count)| (format.name(), count)).collect();
    let contractions = by_type.values().sum();
    let note = QuantisedNote { dtype, contractions, by_type, all_contractions, calibrated_on, notes };
    Ok(Some((graph, note)))
}
