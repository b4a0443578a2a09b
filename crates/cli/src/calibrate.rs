//! `--calibrate FILE`: scales of integer activations from a text, a line of it at a time, instead of one for
//! each token as it passes.

use tilewright_compile::kernel::Kernels;
use tilewright_compile::reference;
use tilewright_compile::weights;
use tilewright_import::Model;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;

use crate::host::{Host, read_bytes};
use crate::outcome::Outcome;
use crate::run::refused;
use crate::target::ModelTarget;

/// Refuses a text for types that have no integer activations.
pub(crate) fn check(target: &ModelTarget) -> Result<(), Outcome> {
    let named = target.check()?;
    if target.calibrate.is_some() && named.dtype != Dtype::I8 && target.cache_type()? != Dtype::I8 {
        return Err(Outcome::usage(&format!(
            "--calibrate with --dtype {}: its activations are no integers\n  = allowed: int8, w8a8, w4a8, or \
             --cache int8\n  = instead: --dtype int8",
            named.name
        )));
    }
    Ok(())
}

/// Finds the tokenizer, once it is needed.
pub(crate) type FindTokenizer<'f> = dyn Fn(&dyn Host) -> Result<Tokenizer, Outcome> + 'f;

/// Kernels with the scales that a target's text gives, if it names one.
pub(crate) fn calibrated(
    machine: &Tcp,
    target: &ModelTarget,
    (model, tokenizer): (&Model, &FindTokenizer<'_>),
    kernels: Kernels,
    host: &mut dyn Host,
) -> Result<Kernels, Outcome> {
    let Some(path) = &target.calibrate else { return Ok(kernels) };
    let texts = texts(path, tokenizer, host)?;
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let options = target.options(machine, longest.max(1))?;
    let constant = |name: &str| weights::constant(&model.graph, &model.store, name);
    reference::calibrated(machine, &kernels, options, &constant, &texts).map_err(|error| refused(&error))
}

/// Tokens of the lines of a text.
pub(crate) fn texts(
    path: &str,
    tokenizer: &FindTokenizer<'_>,
    host: &mut dyn Host,
) -> Result<Vec<Vec<u64>>, Outcome> {
    let bytes = read_bytes(host, path).map_err(|why| Outcome::usage(&why))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Outcome::usage(&format!("`{path}`: not UTF-8\n  = allowed: a text, a line each")))?;
    let tokenizer = tokenizer(host)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let ids = |line| tokenizer.encode(line).map(|ids| ids.into_iter().map(u64::from).collect());
    let texts: Result<Vec<Vec<u64>>, _> = lines.map(ids).collect();
    texts.map_err(|error| Outcome::usage(&error.to_string()))
}
