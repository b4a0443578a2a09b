//! `tilewright study`: arguments of the studies, and their results as text, JSON or files.

mod accuracy;
pub(crate) mod args;
mod question;

use std::ffi::OsString;

use std::path::Path;

use tilewright_base::Sources;
use tilewright_compile::{Mixed, Options};
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_num::Dtype;
use tilewright_study::bands::{BandScope, figure_ends};
use tilewright_study::published::{PublishedComparison, StudyFailed};
use tilewright_study::rows::PublishedRow;
use tilewright_study::{Study, StudySetup, applied_latency, files, power, published, rows, study, text};

use crate::builtin::lay_down_published;
use crate::chip::load_chip;
use crate::host::read_text;
use crate::machine::to_json;
use crate::outcome::FAILED;
use crate::{Host, Outcome, nki};
use args::{LlamaArgs, PublishedArgs};

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
    let dtype = dtype_of(&args.dtype)?;
    let scope = match (args.bands, args.brief) {
        (true, _) => BandScope::Everything,
        (false, true) => BandScope::Nothing,
        (false, false) => BandScope::Table2,
    };
    let study = measured(&loaded, machine, args, (dtype, scope), host)?;
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

/// Measures a model on a chip.
fn measured(
    loaded: &LoadedMachine,
    machine: &Tcp,
    args: &LlamaArgs,
    (dtype, bands): (Dtype, BandScope),
    host: &mut dyn Host,
) -> Result<Study, Outcome> {
    let model = crate::model::load(&args.model, None, host)?;
    let options = Options {
        dtype,
        mixed: Mixed::default(),
        cache: dtype,
        context: 2048,
        pes: args.pes,
        chips: args.chips,
        batch: 1,
    };
    let setting = StudySetup {
        machine,
        chip: args.chip.clone(),
        graph: &model.graph,
        name: args.model.clone(),
        is_configuration: tilewright_import::configs::names().contains(&args.model.as_str()),
        options,
        scales: args.scales.into(),
        papers: args.is_papers() && dtype == Dtype::I8,
        latency: applied_latency(loaded),
        figures: power::figures(loaded),
        ends: if bands == BandScope::Nothing { Vec::new() } else { figure_ends(loaded) },
        bands,
        brief: args.brief,
    };
    let found = {
        let mut say = |what: &str| {
            if !args.json {
                host.progress(what, None);
            }
        };
        study(&setting, &mut say)
    };
    host.progress("", None);
    found.map_err(|error| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) })
}

/// Published rows of a chip beside ours.
pub(crate) fn published(args: &PublishedArgs, host: &mut dyn Host) -> Outcome {
    if args.chip == TCP {
        tcp_rows(args, host).unwrap_or_else(|outcome| outcome)
    } else {
        neuron_rows(args, None, host)
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
            study = Some(measured(&loaded, machine, &LlamaArgs::brief(), (Dtype::I8, bands), host));
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

/// A question about a model.
pub(crate) fn model(args: &args::ModelArgs, host: &mut dyn Host) -> Outcome {
    question::ask(args, host).unwrap_or_else(|outcome| outcome)
}

/// The page of accuracy.
pub(crate) fn accuracy(args: &args::AccuracyArgs, host: &mut dyn Host) -> Outcome {
    accuracy::page(args, host).unwrap_or_else(|outcome| outcome)
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
