//! Models and tokenizers by the names of their files: the one reader of the command line and of Python.
//!
//! Who asks has the files ([`ModelFiles`]); the model `fables` comes with the library and reads as a folder
//! of that name where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tilewright_base::nearest::near;
use tilewright_base::{Diagnostic, SourceId, Sources};
use tilewright_graph::{StoredTensor, TensorStore, text};
use tilewright_import::tokenizer::vocabulary::Vocabulary;
use tilewright_import::tokenizer::{Tokenizer, json};
use tilewright_import::{ImportError, Model, configs, gguf, hf, llama2c, onnx};

use crate::Refusal;

/// The name of the model that comes with the library.
pub const FABLES: &str = "fables";

/// Files of that model, in Hugging Face's layout.
const FABLES_FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../../../../models/fables/config.json")),
    ("model.safetensors", include_bytes!("../../../../models/fables/model.safetensors")),
    ("tokenizer.json", include_bytes!("../../../../models/fables/tokenizer.json")),
];

/// Names of tokenizers beside a model.
pub const TOKENIZERS_BESIDE: [&str; 4] =
    ["tokenizer.json", "tokenizer.bin", "tok512.bin", "../llama2-tokenizer/tokenizer.bin"];

/// Files as whoever asks has them.
pub trait ModelFiles {
    /// All bytes of a file.
    ///
    /// # Errors
    /// What reading gives.
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>>;

    /// Where a path leads once links are followed.
    ///
    /// # Errors
    /// If nothing is there.
    fn real_path(&self, path: &Path) -> std::io::Result<PathBuf>;
}

/// Smallest and largest sizes of open axes by name.
pub type AxisBounds = BTreeMap<String, (u64, u64)>;

/// A file of a model: as whoever asks has it, or else of the model that comes with the library.
///
/// # Errors
/// What reading gives where neither has it.
pub fn read_model_file(files: &dyn ModelFiles, path: &Path) -> Result<Vec<u8>, Error> {
    let own = || {
        let name = path.strip_prefix(FABLES).ok()?.to_str()?;
        FABLES_FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| bytes.to_vec())
    };
    match files.read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => own().ok_or(error),
        read => read,
    }
}

/// Reads a model by what its name ends in: `.bin` (llama2.c), `.gguf`, `.onnx`, `.graph` (a text), a folder
/// of Hugging Face, or a built-in configuration. `axes` bounds open axes of an ONNX model.
///
/// # Errors
/// Files that are not there or do not hold what they say, or no such model.
pub fn read_model(path: &str, axes: AxisBounds, files: &dyn ModelFiles) -> Result<Model, Box<Refusal>> {
    let beside = |name: &str| read_model_file(files, &Path::new(path).join(name)).ok().map(Arc::new);
    let read = if path.ends_with(".graph") {
        return graph_text(path, &String::from_utf8_lossy(&whole(path, files)?));
    } else if path.ends_with(".onnx") {
        return read_onnx(path, axes, BTreeMap::new(), BTreeSet::new(), files);
    } else if path.ends_with(".bin") {
        llama2c::read(path, &whole(path, files)?)
    } else if path.ends_with(".gguf") {
        gguf::read(path, &whole(path, files)?)
    } else if configs::names().contains(&path) {
        configs::read(path)
    } else {
        read_model_file(files, &Path::new(path).join("config.json"))
            .map_err(|error| unknown(path, &error, files))?;
        hf::read(&beside).map_err(|error| in_folder(Path::new(path), error))
    };
    read.map_err(|error| import_refused(&error))
}

/// The graph of a text.
///
/// # Errors
/// A text that is none.
pub fn graph_text(path: &str, text: &str) -> Result<Model, Box<Refusal>> {
    let mut sources = Sources::default();
    sources.add(path, text.to_string());
    match text::read(text, SourceId(0)) {
        Ok(graph) => Ok(Model { graph, store: TensorStore::default() }),
        Err(diagnostics) => Err(Box::new(Refusal { sources, diagnostics })),
    }
}

/// An ONNX model with bounds of axes, inputs whose elements are known, and inputs that are `given` although
/// the file has elements for them.
///
/// # Errors
/// A file that is not there or does not hold what it says.
pub fn read_onnx(
    path: &str,
    axes: AxisBounds,
    known: BTreeMap<String, StoredTensor>,
    given: BTreeSet<String>,
    files: &dyn ModelFiles,
) -> Result<Model, Box<Refusal>> {
    let bytes = whole(path, files)?;
    let beside = |name: &str| inside(Path::new(path), name, files);
    let options = onnx::OnnxOptions { beside: &beside, axes, known, given, ..onnx::OnnxOptions::default() };
    onnx::read(path, &bytes, &options).map_err(|error| import_refused(&error))
}

/// Inputs that an ONNX model asks for, with those that are `given` although it has elements for them, and the
/// names of their axes.
///
/// # Errors
/// A file that is not there or is no such model.
pub fn onnx_inputs(
    path: &str,
    given: &BTreeSet<String>,
    files: &dyn ModelFiles,
) -> Result<(Vec<onnx::DeclaredInput>, onnx::AxisNames), Box<Refusal>> {
    onnx::inputs(path, &whole(path, files)?, given).map_err(|error| import_refused(&error))
}

/// A file in the folder of a model or below, links followed: in the folder that was named, or in the one
/// where the model really is. Caches of downloads have a link to each file, all to one folder.
fn inside(model: &Path, name: &str, files: &dyn ModelFiles) -> Result<Arc<Vec<u8>>, String> {
    let unread = |error: Error| format!("cannot be read: {error}");
    let here =
        |folder: &Path| if folder.as_os_str().is_empty() { Path::new(".").into() } else { folder.to_owned() };
    let folder = here(model.parent().unwrap_or(Path::new("")));
    let named = folder.join(name);
    let real = files.real_path(&named).map_err(unread)?;
    let own = files.real_path(&folder).map_err(unread)?;
    let model = files.real_path(model).map_err(unread)?;
    let homes = [own.as_path(), model.parent().unwrap_or(&own)];
    if !homes.iter().any(|home| real.starts_with(home)) {
        let (real, own) = (real.display(), own.display());
        return Err(format!("leads to `{real}`, outside the model's folder `{own}`"));
    }
    files.read(&named).map(Arc::new).map_err(unread)
}

/// Why a name that ends in nothing known is no model: nothing, a folder without a configuration, or a file of
/// another kind.
fn unknown(path: &str, config: &Error, files: &dyn ModelFiles) -> Box<Refusal> {
    let mut instead = None;
    let what = match config.kind() {
        // Only whether it can be read is looked at: this tells nothing there from a folder.
        ErrorKind::NotFound => match files.read(Path::new(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let names = configs::names().into_iter().chain([FABLES]);
                instead = near(path, names).map(str::to_owned);
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
    let allowed = format!(
        "a file .bin (llama2.c), .gguf, .onnx or .graph, a folder with config.json (Hugging Face), \
         {FABLES}, which comes with tilewright, or {}",
        configs::names().join(", ")
    );
    let complaint = Diagnostic::error("model/unreadable", what).allowed(allowed);
    refused(match instead {
        Some(instead) => complaint.instead(instead),
        None => complaint,
    })
}

/// All bytes of a file of a model.
///
/// # Errors
/// A file that cannot be read.
pub fn whole(path: &str, files: &dyn ModelFiles) -> Result<Arc<Vec<u8>>, Box<Refusal>> {
    let unread = |error: Error| {
        refused(Diagnostic::error("model/unreadable", format!("cannot read `{path}`: {error}")))
    };
    read_model_file(files, Path::new(path)).map(Arc::new).map_err(unread)
}

/// Where the tokenizer of a model is: in its own file, or beside it.
pub fn tokenizer_path(model: &str, files: &dyn ModelFiles) -> Option<String> {
    if model.ends_with(".gguf") {
        return Some(model.to_string());
    }
    if configs::names().contains(&model) {
        return None;
    }
    let folder = home(model, files);
    let mut paths = TOKENIZERS_BESIDE.iter().map(|name| folder.join(name).to_string_lossy().into_owned());
    paths.find(|path| read_model_file(files, Path::new(path)).is_ok())
}

/// The tokenizer of a file, with the tokens that end a text of a model.
///
/// # Errors
/// A file that is not there or holds no tokenizer.
pub fn read_tokenizer_of(model: &str, path: &str, files: &dyn ModelFiles) -> Result<Tokenizer, Box<Refusal>> {
    let tokenizer = read_tokenizer(path, &whole(path, files)?)?;
    Ok(match ends(model, files)? {
        Some(ends) => tokenizer.with_ends(ends),
        None => tokenizer,
    })
}

/// A tokenizer by what the name of its file ends in.
///
/// # Errors
/// Bytes that are none.
pub fn read_tokenizer(path: &str, bytes: &Arc<Vec<u8>>) -> Result<Tokenizer, Box<Refusal>> {
    if path.ends_with(".model") {
        let what = format!("`{path}` is a model of SentencePiece, which is not read");
        return Err(refused(
            Diagnostic::error("model/tokenizer", what)
                .allowed("tokenizer.json (Hugging Face), .gguf, or .bin (llama2.c)")
                .instead("the same pieces in one of these"),
        ));
    }
    let tokenizer = if path.ends_with(".json") {
        json::read(path, bytes)
    } else if path.ends_with(".gguf") {
        gguf::tokenizer(path, bytes)
    } else {
        Vocabulary::llama2c(path, bytes).map(Tokenizer::Vocabulary)
    };
    tokenizer.map_err(|error| import_refused(&error))
}

/// Tokens that end a text, if the configuration of a folder of Hugging Face, or that beside an ONNX file,
/// says them.
///
/// # Errors
/// A configuration that says what it must not.
pub fn ends(model: &str, files: &dyn ModelFiles) -> Result<Option<Vec<u32>>, Box<Refusal>> {
    let folder = home(model, files);
    if !model.ends_with(".onnx") && folder != Path::new(model) {
        return Ok(None);
    }
    let beside = |name: &str| read_model_file(files, &folder.join(name)).ok().map(Arc::new);
    hf::ends(&beside).map_err(|error| import_refused(&in_folder(folder, error)))
}

/// The folder of a model: itself, or the one that its file is in.
fn home<'m>(model: &'m str, files: &dyn ModelFiles) -> &'m Path {
    if read_model_file(files, &Path::new(model).join("config.json")).is_ok() {
        Path::new(model)
    } else {
        Path::new(model).parent().unwrap_or(Path::new(""))
    }
}

fn in_folder(folder: &Path, mut error: Box<ImportError>) -> Box<ImportError> {
    error.file = folder.join(&error.file).display().to_string();
    error
}

fn import_refused(error: &ImportError) -> Box<Refusal> {
    refused(Diagnostic::error("model/import", error.to_string()))
}

fn refused(complaint: Diagnostic) -> Box<Refusal> {
    Box::new(Refusal::plain(complaint))
}
