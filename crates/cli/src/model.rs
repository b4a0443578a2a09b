//! Models and tokenizers by file name.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use tilewright_base::{SourceId, Sources};
use tilewright_graph::{StoredTensor, TensorStore, text};
use tilewright_import::tokenizer::vocabulary::Vocabulary;
use tilewright_import::tokenizer::{Tokenizer, json};
use tilewright_import::{Model, configs, gguf, hf, llama2c, onnx};

use crate::builtin::{FABLES, read_model_file};
use crate::host::{Host, read_text};
use crate::outcome::{BAD_INPUT, Outcome};

/// Reads a model by what its name ends in.
pub(crate) fn load(path: &str, dims: Option<&str>, host: &mut dyn Host) -> Result<Model, Outcome> {
    let axes = axes(dims.unwrap_or(""))?;
    let refused = |error: Box<tilewright_import::ImportError>| Outcome::usage(&error.to_string());
    if path.ends_with(".graph") || path == "-" {
        return graph_text(path, host);
    }
    own_sizes(path, dims)?;
    let host = &*host;
    let beside = |folder: &Path, name: &str| read_model_file(host, &folder.join(name)).ok().map(Arc::new);
    if path.ends_with(".bin") {
        return llama2c::read(path, &read(path, host)?).map_err(refused);
    }
    if path.ends_with(".gguf") {
        return gguf::read(path, &read(path, host)?).map_err(refused);
    }
    if path.ends_with(".onnx") {
        return load_onnx(path, axes, BTreeMap::new(), host);
    }
    if configs::names().contains(&path) {
        return configs::read(path).map_err(refused);
    }
    match read_model_file(host, &Path::new(path).join("config.json")) {
        Ok(_) => hf::read(&|name: &str| beside(Path::new(path), name)).map_err(|mut error| {
            error.file = Path::new(path).join(&error.file).display().to_string();
            refused(error)
        }),
        Err(error) => Err(Outcome::usage(&unknown(path, &error, host))),
    }
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

/// An ONNX model with bounds of axes, and inputs whose elements are known.
pub(crate) fn load_onnx(
    path: &str,
    axes: BTreeMap<String, (u64, u64)>,
    known: BTreeMap<String, StoredTensor>,
    host: &dyn Host,
) -> Result<Model, Outcome> {
    let bytes = read(path, host)?;
    let files = |name: &str| inside(Path::new(path), name, host);
    let options = onnx::OnnxOptions { beside: &files, axes, known, ..onnx::OnnxOptions::default() };
    onnx::read(path, &bytes, &options).map_err(|error| Outcome::usage(&error.to_string()))
}

/// Inputs that an ONNX model asks for, and the names of their axes.
pub(crate) fn onnx_inputs(
    path: &str,
    host: &dyn Host,
) -> Result<(Vec<onnx::DeclaredInput>, onnx::AxisNames), Outcome> {
    onnx::inputs(path, &read(path, host)?).map_err(|error| Outcome::usage(&error.to_string()))
}

/// A file in the folder of a model or below, links followed: in the folder that was named, or in the one
/// where the model really is. Caches of downloads have a link to each file, all to one folder.
fn inside(model: &Path, name: &str, host: &dyn Host) -> Result<Arc<Vec<u8>>, String> {
    let unread = |error: Error| format!("cannot be read: {error}");
    let here =
        |folder: &Path| if folder.as_os_str().is_empty() { Path::new(".").into() } else { folder.to_owned() };
    let folder = here(model.parent().unwrap_or(Path::new("")));
    let named = folder.join(name);
    let real = host.real_path(&named).map_err(unread)?;
    let own = host.real_path(&folder).map_err(unread)?;
    let model = host.real_path(model).map_err(unread)?;
    let homes = [own.as_path(), model.parent().unwrap_or(&own)];
    if !homes.iter().any(|home| real.starts_with(home)) {
        let (real, own) = (real.display(), own.display());
        return Err(format!("leads to `{real}`, outside the model's folder `{own}`"));
    }
    host.read(&named).map(Arc::new).map_err(unread)
}

/// Why a name that ends in nothing known is no model: nothing, a folder without a configuration, or a file of
/// another kind.
fn unknown(path: &str, config: &Error, host: &dyn Host) -> String {
    let what = match config.kind() {
        // Only whether it can be read is looked at: what is not there is told from a folder.
        ErrorKind::NotFound => match host.read(Path::new(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!(
                    "there is neither a file nor a folder `{path}`, nor a built-in configuration of that name"
                )
            }
            _ => format!("the folder `{path}` has no config.json"),
        },
        ErrorKind::NotADirectory => {
            format!("`{path}` is a file whose name ends in none of .bin, .gguf, .onnx and .graph")
        }
        _ => format!("cannot read `{path}/config.json`: {config}"),
    };
    format!(
        "{what}\n  = allowed: a file .bin (llama2.c), .gguf, .onnx or .graph, \
         a folder with config.json (Hugging Face), {FABLES}, which comes with tilewright, or {}",
        configs::names().join(", ")
    )
}

/// The same model with rich operators where its file has patterns of primitives: what the compiler takes.
pub(crate) fn recognised(model: Model) -> Model {
    Model { graph: tilewright_compile::recognise(&model.graph), ..model }
}

/// `batch=1,seq=1..512`: names of axes with their smallest and largest size; `..512` begins at 1.
pub(crate) fn axes(text: &str) -> Result<BTreeMap<String, (u64, u64)>, Outcome> {
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

pub(crate) fn read(path: &str, host: &dyn Host) -> Result<Arc<Vec<u8>>, Outcome> {
    let bytes = read_model_file(host, Path::new(path));
    bytes.map(Arc::new).map_err(|error| Outcome::usage(&format!("cannot read `{path}`: {error}")))
}

fn graph_text(path: &str, host: &mut dyn Host) -> Result<Model, Outcome> {
    let text = read_text(host, path).map_err(|why| Outcome::usage(&why))?;
    let mut sources = Sources::default();
    sources.add(path, text.clone());
    match text::read(&text, SourceId(0)) {
        Ok(graph) => Ok(Model { graph, store: TensorStore::default() }),
        Err(complaints) => Err(Outcome::refused(BAD_INPUT, &sources, &complaints, host.colour())),
    }
}

/// Names of tokenizers beside a model.
const BESIDE: [&str; 4] =
    ["tokenizer.json", "tokenizer.bin", "tok512.bin", "../llama2-tokenizer/tokenizer.bin"];

/// Where the tokenizer is: as named, in the model's own file, or beside it.
pub(crate) fn tokenizer_path(model: &str, named: Option<&str>, host: &dyn Host) -> Option<String> {
    if let Some(path) = named {
        return Some(path.to_string());
    }
    if model.ends_with(".gguf") {
        return Some(model.to_string());
    }
    let folder = home(model, host);
    let mut paths = BESIDE.iter().map(|name| folder.join(name).to_string_lossy().into_owned());
    paths.find(|path| read_model_file(host, Path::new(path)).is_ok())
}

/// The folder of a model: itself, or the one that its file is in.
fn home<'m>(model: &'m str, host: &dyn Host) -> &'m Path {
    if read_model_file(host, &Path::new(model).join("config.json")).is_ok() {
        Path::new(model)
    } else {
        Path::new(model).parent().unwrap_or(Path::new(""))
    }
}

/// Tokens that end a text, if the configuration of a folder of Hugging Face, or that beside an ONNX file,
/// says them.
pub(crate) fn ends(model: &str, host: &dyn Host) -> Result<Option<Vec<u32>>, Outcome> {
    let folder = home(model, host);
    if !model.ends_with(".onnx") && folder != Path::new(model) {
        return Ok(None);
    }
    let files = |name: &str| read_model_file(host, &folder.join(name)).ok().map(Arc::new);
    hf::ends(&files).map_err(|mut error| {
        error.file = folder.join(&error.file).display().to_string();
        Outcome::usage(&error.to_string())
    })
}

/// The tokenizer that is named, or one in the model's own file or beside it.
pub(crate) fn tokenizer(model: &str, named: Option<&str>, host: &dyn Host) -> Result<Tokenizer, Outcome> {
    let Some(path) = tokenizer_path(model, named, host) else {
        return Err(Outcome::usage(&format!(
            "no tokenizer lies beside `{model}`\n  = allowed: {}\n  = instead: --tokenizer FILE",
            BESIDE.join(", ")
        )));
    };
    let tokenizer = read_tokenizer(&path, &read(&path, host)?)?;
    Ok(match ends(model, host)? {
        Some(ends) => tokenizer.with_ends(ends),
        None => tokenizer,
    })
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

/// A tokenizer by what the name of its file ends in.
pub(crate) fn read_tokenizer(path: &str, bytes: &Arc<Vec<u8>>) -> Result<Tokenizer, Outcome> {
    if path.ends_with(".model") {
        return Err(Outcome::usage(&format!(
            "`{path}` is a model of SentencePiece, which is not read\n  \
             = allowed: tokenizer.json (Hugging Face), .gguf, or .bin (llama2.c)\n  \
             = instead: the same pieces in one of these"
        )));
    }
    let tokenizer = if path.ends_with(".json") {
        json::read(path, bytes)
    } else if path.ends_with(".gguf") {
        gguf::tokenizer(path, bytes)
    } else {
        Vocabulary::llama2c(path, bytes).map(Tokenizer::Vocabulary)
    };
    tokenizer.map_err(|error| Outcome::usage(&error.to_string()))
}
