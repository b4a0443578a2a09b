//! `tilewright study`: arguments of the studies, and their results as text, JSON or files.

mod accuracy;
pub(crate) mod args;
mod question;

use std::ffi::OsString;

use std::path::Path;

use tilewright_base::Sources;
use tilewright_compile::{Mixed, Options};
use tilewright_import::{Model, configs};
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_num::Dtype;
use tilewright_study::bands::{BandScope, figure_ends};
use tilewright_study::published::{PublishedComparison, StudyFailed};
use tilewright_study::rows::PublishedRow;
use tilewright_study::{
    MeasureError, Study, StudySetup, applied_latency, files, power, published, rows, study, text,
};

use crate::builtin::lay_down_published;
use crate::chip::load_chip;
use crate::host::read_text;
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, FAILED};
use crate::{Host, Outcome, nki};
use args::{ModelArgs, PublishedArgs, StudyArgs, StudyCommand};

/// A study of a model, or of published rows.
pub(crate) fn run(args: &StudyArgs, host: &mut dyn Host) -> Outcome {
    let found = match &args.command {
        None => model(&args.model, host),
        Some(StudyCommand::Published(args)) => Ok(published(args, host)),
        Some(StudyCommand::Accuracy(args)) => accuracy::page(args, host),
        Some(StudyCommand::Model(args)) => {
            let rest = if args.rest.is_empty() { "MODEL".to_string() } else { args.rest.join(" ") };
            Err(retired(&format!("model {rest}"), &rest))
        }
    };
    found.unwrap_or_else(|outcome| outcome)
}

/// Another spelling of a study of a model than the one that there is.
fn retired(asked: &str, instead: &str) -> Outcome {
    Outcome::usage(&format!(
        "`study {asked}`: a model stands for itself\n  \
         = allowed: study MODEL, study published, study accuracy\n  = instead: tilewright study {instead}"
    ))
}

/// A model: one question, or the case study.
fn model(args: &ModelArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    if let Some(other) = &args.retired_model {
        return Err(retired(&format!("{} --model {other}", args.name()), other));
    }
    let loaded = load_chip(&mut Sources::default(), &args.chip, &args.set, host)?;
    let Some(machine) = loaded.machine.tcp() else {
        let chip = &args.chip;
        let text = format!("`{chip}` is no TCP\n  = allowed: tcp, or a file whose base is tcp");
        return Err(Outcome::usage(&text));
    };
    match args.question() {
        Some(question) => question::ask(&loaded, machine, args, question, host),
        None => case(&loaded, machine, args, host),
    }
}

/// The case study of the paper's section VI.
fn case(
    loaded: &LoadedMachine,
    machine: &Tcp,
    args: &ModelArgs,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let scope = match (args.bands, args.brief) {
        (true, _) => BandScope::Everything,
        (false, true) => BandScope::Nothing,
        (false, false) => BandScope::Table2,
    };
    let study = measured(loaded, machine, args, scope, host)?;
    if let Some(folder) = &args.out {
        host.create_folder(Path::new(folder))
            .map_err(|error| Outcome::usage(&format!("cannot make `{folder}`: {error}")))?;
        let data = ("study.json".to_string(), to_json(&study).into_bytes());
        for (name, bytes) in [data].into_iter().chain(files(machine, &study)) {
            let path = Path::new(folder).join(name);
            host.write(&path, &bytes).map_err(|error| Outcome::unwritten(&path.to_string_lossy(), &error))?;
        }
    }
    Ok(Outcome::good(if args.json { to_json(&study) } else { text::print(&study) }))
}

/// The type of weights and activations.
fn dtype_of(name: &str) -> Result<Dtype, Outcome> {
    match name {
        "int8" | "i8" => Ok(Dtype::I8),
        "bf16" => Ok(Dtype::Bf16),
        other => Err(Outcome::usage(&format!("--dtype {other} is not known\n  = allowed: int8, bf16"))),
    }
}

/// A model, and whether it is a configuration without weights.
fn load_model(name: &str, host: &mut dyn Host) -> Result<(Model, bool), Outcome> {
    if !name.ends_with("config.json") {
        return Ok((crate::model::load(name, None, host)?, configs::names().contains(&name)));
    }
    let text = read_text(host, name).map_err(|why| Outcome::usage(&why))?;
    let model = configs::read_text(name, &text).map_err(|error| Outcome::usage(&error.to_string()))?;
    Ok((model, true))
}

/// What a model is measured with.
struct ModelSetup<'s> {
    loaded: &'s LoadedMachine,
    machine: &'s Tcp,
    args: &'s ModelArgs,
    context: u64,
    bands: BandScope,
}

/// Sets a study up and runs it, telling how far it is.
fn with_setup<T>(
    setup: &ModelSetup<'_>,
    host: &mut dyn Host,
    work: impl FnOnce(&StudySetup<'_>, &mut dyn FnMut(&str)) -> Result<T, MeasureError>,
) -> Result<T, Outcome> {
    let (args, loaded, bands) = (setup.args, setup.loaded, setup.bands);
    let dtype = dtype_of(&args.dtype)?;
    let (model, is_configuration) = load_model(args.name(), host)?;
    let options = Options {
        dtype,
        mixed: Mixed::default(),
        cache: dtype,
        context: setup.context,
        pes: args.pes,
        chips: args.chips,
        batch: 1,
    };
    let setting = StudySetup {
        machine: setup.machine,
        chip: args.chip.clone(),
        graph: &model.graph,
        name: args.name().to_string(),
        is_configuration,
        options,
        scales: args.scales.into(),
        papers: args.is_papers() && dtype == Dtype::I8,
        latency: applied_latency(loaded),
        figures: power::figures(loaded),
        ends: if bands == BandScope::Nothing { Vec::new() } else { figure_ends(loaded) },
        bands,
        brief: args.brief,
        stop: None,
    };
    let found = {
        let mut say = |what: &str| {
            if !args.json {
                host.progress(what, None);
            }
        };
        work(&setting, &mut say)
    };
    host.progress("", None);
    found.map_err(|error| {
        let is_asked = matches!(&error, MeasureError::Compile(error) if error.is_of_request());
        Outcome { code: if is_asked { BAD_INPUT } else { FAILED }, ..Outcome::usage(&error.to_string()) }
    })
}

/// The case study of a model on a chip.
fn measured(
    loaded: &LoadedMachine,
    machine: &Tcp,
    args: &ModelArgs,
    bands: BandScope,
    host: &mut dyn Host,
) -> Result<Study, Outcome> {
    let setup = ModelSetup { loaded, machine, args, context: 2048, bands };
    with_setup(&setup, host, study)
}

/// Published rows of a chip beside ours.
fn published(args: &PublishedArgs, host: &mut dyn Host) -> Outcome {
    if args.chip == TCP {
        tcp_rows(args, host).unwrap_or_else(|outcome| outcome)
    } else {
        // A name that no machine has is refused before Python is looked for.
        match load_chip(&mut Sources::default(), &args.chip, &[], host) {
            Ok(_) => neuron_rows(args, None, host),
            Err(outcome) => outcome,
        }
    }
}

/// The chip whose rows are compared here.
const TCP: &str = "tcp";

/// Rows of the TCP: from simulated programs and from rules.
fn tcp_rows(args: &PublishedArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let text = match &args.rows {
        Some(path) => read_text(host, &path.to_string_lossy()).map_err(|why| Outcome::usage(&why))?,
        None => rows::FILE.to_string(),
    };
    let all = rows::read(&text).map_err(|why| Outcome::usage(&format!("the rows cannot be read: {why}")))?;
    let rows = rows::of_chip(&all, TCP, args.group.as_deref());
    if rows.is_empty() {
        return Err(Outcome::usage(
            "there is no such row for tcp\n  = allowed: groups of bench/published.toml",
        ));
    }
    let (compared, _) = compare_tcp(&rows, BandScope::Nothing, host)?;
    Ok(Outcome::good(if args.json { to_json(&compared) } else { published::text(&compared) }))
}

/// Rows of the TCP beside ours, and the study that some of them needed.
fn compare_tcp(
    rows: &[&PublishedRow],
    bands: BandScope,
    host: &mut dyn Host,
) -> Result<(PublishedComparison, Option<Study>), Outcome> {
    let loaded = load_chip(&mut Sources::default(), TCP, &[], host)?;
    let Some(machine) = loaded.machine.tcp() else { return Err(Outcome::usage("`tcp` is no TCP")) };
    let mut study = None;
    let mut table2 = |name: &str| {
        if study.is_none() {
            study = Some(measured(&loaded, machine, &ModelArgs::brief(), bands, host));
        }
        match &study {
            Some(Ok(study)) => Ok(study.table2_value(name)),
            Some(Err(outcome)) => Err(StudyFailed(outcome.stderr.clone())),
            None => Ok(None),
        }
    };
    let mut ours = published::OwnResults { loaded: &loaded, machine, table2: &mut table2 };
    let compared =
        published::compare(TCP, rows, &mut ours).map_err(|error| Outcome::usage(&error.to_string()))?;
    Ok((compared, study.and_then(Result::ok)))
}

/// Where a checkout has its published rows.
const ROWS_PATH: &str = "bench/published.toml";

/// Rows of Neuron chips run in the Python package, as kernels do; data goes to a file if there is one.
fn neuron_rows(args: &PublishedArgs, out: Option<&Path>, host: &mut dyn Host) -> Outcome {
    let mut all: Vec<OsString> = vec!["--chip".into(), args.chip.as_str().into()];
    let texts = [("--group", args.group.as_ref().map(OsString::from))];
    let (mut rows, mut kernels) = (args.rows.clone(), args.kernels.clone());
    // Outside of a checkout, what comes with the binary.
    if rows.is_none() && host.read(Path::new(ROWS_PATH)).is_err() {
        match lay_down_published(host, rows::FILE) {
            Ok((file, folder)) => {
                rows = Some(file.into());
                kernels = kernels.or_else(|| Some(folder.into()));
            }
            Err(error) => return Outcome::unwritten(ROWS_PATH, &error),
        }
    }
    let paths = [("--rows", rows), ("--kernels", kernels), ("--out", out.map(OsString::from))];
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
