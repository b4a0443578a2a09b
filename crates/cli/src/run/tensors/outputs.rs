//! Outputs of a graph: as files, as lines for people, as data.

use std::path::Path;

use serde::Serialize;
use tilewright_graph::Dtype;
use tilewright_num::{Dtype as Pattern, FloatRule, MiniFloat, RuleSet, encode, int_pattern};
use tilewright_reference::{Elements, Tensor};
use tilewright_runtime::{Array, npy};

use crate::host::{Host, OutputFile, refuse_collisions};
use crate::machine::to_json;
use crate::outcome::Outcome;
use crate::run::args::{PromptArgs, TensorArgs};
use crate::sim::array_paths;

/// Elements of an output that are printed for people.
const SHOWN: usize = 8;

/// An output as `--json` prints it.
#[derive(Serialize)]
pub(super) struct OutputJson<'s> {
    name: &'s str,
    dtype: &'static str,
    shape: &'s [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    values: ElementsJson<'s>,
}

/// Elements in row-major order.
#[derive(Serialize)]
#[serde(untagged)]
enum ElementsJson<'s> {
    Floats(&'s [f32]),
    Ints(&'s [i64]),
}

/// Writes every output, if a folder is named.
pub(super) fn written(
    args: &TensorArgs,
    results: &[(String, Tensor)],
    host: &mut dyn Host,
) -> Result<(), Outcome> {
    let Some(folder) = &args.output else { return Ok(()) };
    let made = host.create_folder(Path::new(folder));
    made.map_err(|error| Outcome::usage(&format!("cannot make `{folder}`: {error}")))?;
    let paths = array_paths(folder, results.iter().map(|(name, _)| name.as_str()));
    for ((_, tensor), path) in results.iter().zip(paths) {
        let done = host.write(Path::new(&path), &bytes(tensor));
        done.map_err(|error| Outcome::unwritten(&path, &error))?;
    }
    Ok(())
}

/// Refuses files of a run, before it begins, that it has read or would write twice.
pub(super) fn check_files<'n>(
    (args, prompting, html): (&TensorArgs, &PromptArgs, Option<&str>),
    names: impl Iterator<Item = &'n str> + Clone,
    host: &dyn Host,
) -> Result<(), Outcome> {
    let options =
        [OutputFile::of_option("--trace", prompting.trace.as_deref()), OutputFile::of_option("--html", html)];
    let arrays = args.output.as_ref().map(|folder| array_paths(folder, names.clone())).unwrap_or_default();
    let arrays = arrays.into_iter().zip(names);
    let arrays = arrays.map(|(path, name)| OutputFile { path, by: format!("output `{name}`") });
    refuse_collisions(host, options.into_iter().flatten().chain(arrays))
}

/// An array file.
fn bytes(tensor: &Tensor) -> Vec<u8> {
    let extents: Vec<u64> = tensor.dims.iter().map(|dim| *dim as u64).collect();
    match (&tensor.elements, tensor.dtype) {
        (Elements::Floats(values), Dtype::F16) => {
            let rule = FloatRule::ieee(MiniFloat::F16);
            let half = |value: &f32| encode(&RuleSet::TCP, rule, value.to_bits());
            let patterns = values.iter().map(half).collect();
            npy::write(&Array { dtype: Pattern::F16, extents, patterns }, &RuleSet::TCP)
        }
        // Array files have no shorter floats than these two.
        (Elements::Floats(values), _) => {
            let patterns = values.iter().map(|value| value.to_bits()).collect();
            npy::write(&Array { dtype: Pattern::F32, extents, patterns }, &RuleSet::TCP)
        }
        (Elements::Ints(values), Dtype::Bool) => npy::write_bools(&extents, values),
        (Elements::Ints(values), Dtype::I64) => npy::write_ints(&extents, values),
        (Elements::Ints(values), dtype) => {
            let dtype = match dtype {
                Dtype::U4 | Dtype::U8 => Pattern::U8,
                Dtype::I4 | Dtype::I8 => Pattern::I8,
                _ => Pattern::I32,
            };
            let patterns = values.iter().map(|value| int_pattern(dtype, *value)).collect();
            npy::write(&Array { dtype, extents, patterns }, &RuleSet::TCP)
        }
    }
}

/// All outputs as lines.
pub(super) fn words(args: &TensorArgs, results: &[(String, Tensor)]) -> String {
    let mut text = String::new();
    let paths =
        args.output.as_ref().map(|folder| array_paths(folder, results.iter().map(|(name, _)| name.as_str())));
    for (at, (name, tensor)) in results.iter().enumerate() {
        let (shown, more) = (tensor.len().min(SHOWN), tensor.len() > SHOWN);
        let values: Vec<String> = match &tensor.elements {
            Elements::Floats(values) => values[..shown].iter().map(f32::to_string).collect(),
            Elements::Ints(values) => values[..shown].iter().map(i64::to_string).collect(),
        };
        let rest = if more { ", ..." } else { "" };
        text += &format!("{name}: {} = [{}{rest}]\n", tensor.ty(), values.join(", "));
        if let Some(path) = paths.as_ref().and_then(|paths| paths.get(at)) {
            text += &format!("  {path}\n");
        }
    }
    text
}

/// All outputs as data.
pub(super) fn data<'s>(args: &TensorArgs, results: &'s [(String, Tensor)]) -> Vec<OutputJson<'s>> {
    let paths =
        args.output.as_ref().map(|folder| array_paths(folder, results.iter().map(|(name, _)| name.as_str())));
    let one = |(at, (name, tensor)): (usize, &'s (String, Tensor))| OutputJson {
        name,
        dtype: tensor.dtype.name(),
        shape: &tensor.dims,
        file: paths.as_ref().and_then(|paths| paths.get(at).cloned()),
        values: match &tensor.elements {
            Elements::Floats(values) => ElementsJson::Floats(values),
            Elements::Ints(values) => ElementsJson::Ints(values),
        },
    };
    results.iter().enumerate().map(one).collect()
}

/// What a run without a chip says.
pub(super) fn said(args: &TensorArgs, json: bool, results: &[(String, Tensor)]) -> String {
    #[derive(Serialize)]
    struct OutputsJson<'s> {
        outputs: Vec<OutputJson<'s>>,
    }
    if json { to_json(&OutputsJson { outputs: data(args, results) }) } else { words(args, results) }
}
