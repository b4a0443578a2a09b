//! Models and tokenizers by file name.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tilewright_graph::StoredTensor;
use tilewright_import::tokenizer::Tokenizer;
use tilewright_import::{Model, configs, onnx};
use tilewright_tcp_isa::program::binary;
use tilewright_workbench::Refusal;
use tilewright_workbench::model::files::{self, AxisBounds, FABLES, ModelFiles, TOKENIZERS_BESIDE};

use crate::host::{Host, read_text};
use crate::outcome::{BAD_INPUT, Outcome};

/// Files of a host.
struct HostFiles<'h>(&'h dyn Host);

impl ModelFiles for HostFiles<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        self.0.read(path)
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Error> {
        self.0.real_path(path)
    }
}

/// What is refused, as words of the command line: about files alone, or with the lines that it is about.
fn outcome(refusal: &Refusal, colour: bool) -> Outcome {
    match refusal.diagnostics.as_slice() {
        [complaint] if complaint.code.starts_with("model/") => {
            let part = |name: &str, words: &Option<String>| {
                words.as_ref().map_or(String::new(), |words| format!("\n  = {name}: {words}"))
            };
            let (allowed, instead) =
                (part("allowed", &complaint.allowed), part("instead", &complaint.instead));
            Outcome::usage(&format!("{}{allowed}{instead}", complaint.message))
        }
        complaints => Outcome::refused(BAD_INPUT, &refusal.sources, complaints, colour),
    }
}

/// Reads a model by what its name ends in; `-` is the text of a graph on standard input.
pub(crate) fn load(path: &str, dims: Option<&str>, host: &mut dyn Host) -> Result<Model, Outcome> {
    let axes = axes(dims.unwrap_or(""))?;
    if path.ends_with(".graph") || path == "-" {
        let text = read_text(host, path).map_err(|why| Outcome::usage(&why))?;
        return files::graph_text(path, &text).map_err(|refusal| outcome(&refusal, host.colour()));
    }
    own_sizes(path, dims)?;
    files::read_model(path, axes, &HostFiles(host)).map_err(|refusal| outcome(&refusal, host.colour()))
}

/// Refuses bounds of axes for a file that is no ONNX model: they would change nothing.
pub(crate) fn own_sizes(path: &str, dims: Option<&str>) -> Result<(), Outcome> {
    if dims.is_none() || path.ends_with(".onnx") {
        return Ok(());
    }
    Err(Outcome::usage(&format!(
        "--dims with `{path}`, whose sizes are its own\n  = allowed: an ONNX model (.onnx)\n  \
         = instead: leave it out; --context bounds what a language model takes"
    )))
}

/// Whether a name is that of a model: a configuration, a folder with one, or a file by what its name ends in
/// and what it does not begin with.
pub(crate) fn is_model(path: &str, host: &dyn Host) -> bool {
    let files = HostFiles(host);
    let begins_as_program = |bytes: &[u8]| binary::is_binary(bytes);
    configs::names().contains(&path)
        || [".gguf", ".onnx", ".graph"].iter().any(|end| path.ends_with(end))
        || path.ends_with(".bin") && !host.read(Path::new(path)).is_ok_and(|bytes| begins_as_program(&bytes))
        || files::read_model_file(&files, &Path::new(path).join("config.json")).is_ok()
}

/// An ONNX model with bounds of axes, inputs whose elements are known, and inputs that are `given` although
/// the file has elements for them.
pub(crate) fn load_onnx(
    path: &str,
    axes: AxisBounds,
    known: BTreeMap<String, StoredTensor>,
    given: BTreeSet<String>,
    host: &dyn Host,
) -> Result<Model, Outcome> {
    let read = files::read_onnx(path, axes, known, given, &HostFiles(host));
    read.map_err(|refusal| outcome(&refusal, host.colour()))
}

/// Inputs that an ONNX model asks for, with those that are `given` although it has elements for them, and the
/// names of their axes.
pub(crate) fn onnx_inputs(
    path: &str,
    given: &BTreeSet<String>,
    host: &dyn Host,
) -> Result<(Vec<onnx::DeclaredInput>, onnx::AxisNames), Outcome> {
    files::onnx_inputs(path, given, &HostFiles(host)).map_err(|refusal| outcome(&refusal, host.colour()))
}

/// The same model with rich operators where its file has patterns of primitives: what the compiler takes.
pub(crate) fn recognised(model: Model) -> Model {
    Model { graph: tilewright_compile::recognise(&model.graph), ..model }
}

/// `batch=1,seq=1..512`: names of axes with their smallest and largest size; `..512` begins at 1.
pub(crate) fn axes(text: &str) -> Result<AxisBounds, Outcome> {
    let mut axes = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let bounds = part.split_once('=').and_then(|(name, sizes)| {
            let (least, most) = sizes.split_once("..").unwrap_or((sizes, sizes));
            let least = if least.trim().is_empty() { Some(1) } else { least.trim().parse().ok() };
            let bounds: (u64, u64) = (least?, most.trim().parse().ok()?);
            (bounds.0 <= bounds.1).then(|| (name.trim().to_string(), bounds))
        });
        let Some((name, bounds)) = bounds else {
            return Err(Outcome::usage(&format!(
                "--dims `{part}` names no axis with its size\n  \
                 = allowed: batch=1,seq=1..512, the smaller size first"
            )));
        };
        axes.insert(name, bounds);
    }
    Ok(axes)
}

/// All bytes of a file of a model.
pub(crate) fn read(path: &str, host: &dyn Host) -> Result<Arc<Vec<u8>>, Outcome> {
    files::whole(path, &HostFiles(host)).map_err(|refusal| outcome(&refusal, host.colour()))
}

/// Where the tokenizer is: as named, in the model's own file, or beside it.
pub(crate) fn tokenizer_path(model: &str, named: Option<&str>, host: &dyn Host) -> Option<String> {
    match named {
        Some(path) => Some(path.to_string()),
        None => files::tokenizer_path(model, &HostFiles(host)),
    }
}

/// Tokens that end a text of a model, if its configuration says them.
pub(crate) fn ends(model: &str, host: &dyn Host) -> Result<Option<Vec<u32>>, Outcome> {
    files::ends(model, &HostFiles(host)).map_err(|refusal| outcome(&refusal, host.colour()))
}

/// The tokenizer that is named, or one in the model's own file or beside it.
pub(crate) fn tokenizer(model: &str, named: Option<&str>, host: &dyn Host) -> Result<Tokenizer, Outcome> {
    let Some(path) = tokenizer_path(model, named, host) else {
        return Err(Outcome::usage(&format!(
            "no tokenizer lies beside `{model}`\n  = allowed: {}\n  = instead: --tokenizer FILE",
            TOKENIZERS_BESIDE.join(", ")
        )));
    };
    files::read_tokenizer_of(model, &path, &HostFiles(host))
        .map_err(|refusal| outcome(&refusal, host.colour()))
}

/// Refuses to generate with a configuration that has sizes alone.
pub(crate) fn with_weights(path: &str) -> Result<(), Outcome> {
    if !configs::names().contains(&path) {
        return Ok(());
    }
    Err(Outcome::usage(&format!(
        "`{path}` is a built-in configuration without weights, for timing\n  = allowed: a model with \
         weights\n  \
         = instead: tilewright compile {path} --dtype int8 --pes 8, or tilewright run {FABLES} --prompt TEXT"
    )))
}

/// Refuses to write a file of a configuration that has sizes alone, before it is compiled.
pub(crate) fn weights_to_write(path: &str) -> Result<(), Outcome> {
    if !configs::names().contains(&path) {
        return Ok(());
    }
    Err(Outcome::usage(&format!(
        "-o with `{path}`, a built-in configuration without weights\n  = allowed: a model with weights\n  \
         = instead: leave -o out, or --emit commands for its programs"
    )))
}

/// A tokenizer by what the name of its file ends in.
pub(crate) fn read_tokenizer(path: &str, bytes: &Arc<Vec<u8>>) -> Result<Tokenizer, Outcome> {
    files::read_tokenizer(path, bytes).map_err(|refusal| outcome(&refusal, false))
}
