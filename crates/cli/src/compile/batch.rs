//! `--batch N` of an ONNX graph that takes arrays: the bound of the open axis that its inputs begin with.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_compile::cluster::cluster;
use tilewright_compile::recognise;
use tilewright_import::Model;
use tilewright_import::onnx::DeclaredSize;

use super::args::CompileArgs;
use crate::host::Host;
use crate::model;
use crate::outcome::Outcome;

/// The model with its batch bounded; language models take `--batch` as it is.
pub(super) fn bounded(args: &CompileArgs, loaded: Model, host: &mut dyn Host) -> Result<Model, Outcome> {
    let Some(batch) = args.batch else { return Ok(loaded) };
    if !args.model.ends_with(".onnx") || cluster(&recognise(&loaded.graph)).is_ok() {
        return Ok(loaded);
    }
    let Some(axis) = axis(args, host)? else { return Ok(loaded) };
    if batch == 0 {
        return Err(Outcome::usage("--batch 0\n  = allowed: 1 and more"));
    }
    let mut axes = model::axes(args.dims.as_deref().unwrap_or(""))?;
    let (_, names) = model::onnx_inputs(&args.model, &BTreeSet::new(), host)?;
    if axes.keys().any(|asked| names.find(asked) == Some(axis.as_str())) {
        return Err(Outcome::usage(&format!(
            "--batch {batch} and --dims {axis}=...: both are sizes of the axis `{axis}`\n  \
             = allowed: one of them\n  \
             = instead: leave --batch out"
        )));
    }
    axes.insert(axis, (1, batch));
    model::load_onnx(&args.model, axes, BTreeMap::new(), BTreeSet::new(), host)
}

/// The open axis that the inputs of an ONNX graph begin with, if `--batch` asks for it.
pub(super) fn axis(args: &CompileArgs, host: &dyn Host) -> Result<Option<String>, Outcome> {
    let Some(batch) = args.batch else { return Ok(None) };
    let (inputs, _) = model::onnx_inputs(&args.model, &BTreeSet::new(), host)?;
    let leading = inputs.iter().filter_map(|input| match input.sizes.first() {
        Some(DeclaredSize::Named(name)) => Some(name.as_str()),
        _ => None,
    });
    let leading: BTreeSet<&str> = leading.collect();
    let refused = |why: &str, instead: String| {
        Outcome::usage(&format!(
            "--batch {batch}: {why}\n  = allowed: graphs whose inputs begin with one open axis\n  \
             = instead: {instead}"
        ))
    };
    let all: Vec<&str> = leading.into_iter().collect();
    match all.as_slice() {
        [] => Err(refused("no input begins with an open axis", "leave --batch out".to_string())),
        [axis] => Ok(Some((*axis).to_string())),
        several => {
            let sizes: Vec<String> = several.iter().map(|name| format!("{name}=..{batch}")).collect();
            let why = format!("inputs begin with {}", several.join(" and "));
            Err(refused(&why, format!("--dims {}", sizes.join(","))))
        }
    }
}
