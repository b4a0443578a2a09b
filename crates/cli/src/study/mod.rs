//! `tilewright study`: the models beside what others measured.

use std::ffi::OsString;

use std::path::Path;

use tilewright_base::Sources;
use tilewright_compile::Options;
use tilewright_num::Dtype;

use crate::args::{LlamaArgs, PublishedArgs};
use crate::chip::load_chip;
use crate::machine::to_json;
use crate::outcome::FAILED;
use crate::{Host, Outcome, model, nki};

mod llama;
mod measure;
mod pictures;

/// The case study of the paper's section VI.
pub(crate) fn llama(args: &LlamaArgs, host: &mut dyn Host) -> Outcome {
    case(args, host).unwrap_or_else(|outcome| outcome)
}

fn case(args: &LlamaArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let loaded = load_chip(&mut sources, &args.chip, &args.set, host)?;
    let Some(machine) = loaded.machine.tcp() else {
        return Err(Outcome::usage(&format!(
            "`{}` is no TCP\n  = allowed: tcp, or a file whose base is tcp",
            args.chip
        )));
    };
    let dtype = match args.dtype.as_str() {
        "int8" | "i8" => Dtype::I8,
        "bf16" => Dtype::Bf16,
        other => {
            return Err(Outcome::usage(&format!("--dtype {other} is not known\n  = allowed: int8, bf16")));
        }
    };
    let found = model::load(&args.model, None, host)?;
    let options = Options { dtype, cache: dtype, context: 2048, pes: args.pes, batch: 1 };
    let setting = llama::Setting {
        machine,
        chip: args.chip.clone(),
        graph: &found.graph,
        name: args.model.clone(),
        options,
        brief: args.brief,
    };
    let study = {
        let mut say = |what: &str| host.progress(what);
        llama::study(&setting, &mut say)
    };
    let study = study.map_err(|error| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) })?;
    host.progress("");
    if let Some(folder) = &args.out {
        host.create_folder(Path::new(folder))
            .map_err(|error| Outcome::usage(&format!("cannot make `{folder}`: {error}")))?;
        let files = [
            ("study.json", to_json(&study)),
            ("study.html", pictures::page(&study)),
            ("figures.svg", pictures::figures(&study)),
        ];
        for (name, text) in files {
            let path = Path::new(folder).join(name);
            host.write(&path, text.as_bytes())
                .map_err(|error| Outcome::usage(&format!("cannot write `{}`: {error}", path.display())))?;
        }
    }
    Ok(Outcome::good(if args.json { to_json(&study) } else { llama::print(&study) }))
}

/// Rows of Neuron chips run in the Python package, as kernels do.
pub(crate) fn published(args: &PublishedArgs, host: &mut dyn Host) -> Outcome {
    let mut all: Vec<OsString> = vec!["--chip".into(), args.chip.as_str().into()];
    let texts = [("--group", args.group.as_ref().map(OsString::from))];
    let paths = [("--rows", args.rows.clone()), ("--kernels", args.kernels.clone())];
    for (name, value) in texts.into_iter().chain(paths) {
        if let Some(value) = value {
            all.extend([name.into(), value]);
        }
    }
    if args.json {
        all.push("--json".into());
    }
    nki::module("tilewright.nki.published", &all, host)
}
