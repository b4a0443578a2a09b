//! Models and tokenizers by file name.

use std::path::Path;
use std::sync::Arc;

use tilewright_base::{SourceId, Sources};
use tilewright_graph::{Store, text};
use tilewright_import::tokenizer::Tokenizer;
use tilewright_import::tokenizer::pieces::Pieces;
use tilewright_import::{Model, llama2c};

use crate::host::{Host, read_text};
use crate::outcome::{BAD_INPUT, Outcome};

/// Reads a model by what its name ends in.
pub(crate) fn load(path: &str, host: &mut dyn Host) -> Result<Model, Outcome> {
    let refused = |error: Box<tilewright_import::ImportError>| Outcome::usage(&error.to_string());
    if path.ends_with(".graph") || path == "-" {
        return graph_text(path, host);
    }
    if path.ends_with(".bin") {
        return llama2c::read(path, &read(path, host)?).map_err(refused);
    }
    Err(Outcome::usage(&format!(
        "`{path}` is no kind of model that is known\n  = allowed: a llama2.c checkpoint (.bin), a graph text (.graph)"
    )))
}

fn read(path: &str, host: &dyn Host) -> Result<Arc<Vec<u8>>, Outcome> {
    let bytes = host.read(Path::new(path));
    bytes.map(Arc::new).map_err(|error| Outcome::usage(&format!("cannot read `{path}`: {error}")))
}

fn graph_text(path: &str, host: &mut dyn Host) -> Result<Model, Outcome> {
    let text = read_text(host, path).map_err(|why| Outcome::usage(&why))?;
    let mut sources = Sources::default();
    sources.add(path, text.clone());
    match text::read(&text, SourceId(0)) {
        Ok(graph) => Ok(Model { graph, store: Store::default() }),
        Err(complaints) => Err(Outcome::refused(BAD_INPUT, &sources, &complaints, host.colour())),
    }
}

/// Names of tokenizers beside a model.
const BESIDE: [&str; 4] =
    ["tokenizer.bin", "tok512.bin", "../llama2-tokenizer/tokenizer.bin", "tokenizer.json"];

/// The tokenizer that is named, or one beside the model.
pub(crate) fn tokenizer(model: &str, named: Option<&str>, host: &dyn Host) -> Result<Tokenizer, Outcome> {
    let folder = Path::new(model).parent().unwrap_or(Path::new(""));
    let beside = || {
        let paths = BESIDE.iter().map(|name| folder.join(name).to_string_lossy().into_owned());
        paths.into_iter().find_map(|path| host.read(Path::new(&path)).ok().map(|bytes| (path, bytes)))
    };
    let found = match named {
        Some(path) => Some((path.to_string(), read(path, host)?.to_vec())),
        None => beside(),
    };
    let Some((path, bytes)) = found else {
        return Err(Outcome::usage(&format!(
            "no tokenizer lies beside `{model}`\n  = allowed: {}\n  = instead: --tokenizer FILE",
            BESIDE.join(", ")
        )));
    };
    let pieces = Pieces::llama2c(&path, &bytes).map_err(|error| Outcome::usage(&error.to_string()))?;
    Ok(Tokenizer::Pieces(pieces))
}
