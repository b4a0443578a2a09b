//! `tilewright study model`: one question about any configuration, answered by simulated programs.

use tilewright_base::Sources;
use tilewright_compile::{Mixed, Options};
use tilewright_import::{Model, configs};
use tilewright_study::bands::BandScope;
use tilewright_study::question::{Question, answer, text};
use tilewright_study::{StudySetup, applied_latency};

use super::args::ModelArgs;
use super::dtype_of;
use crate::chip::load_chip;
use crate::host::read_text;
use crate::machine::to_json;
use crate::outcome::FAILED;
use crate::{Host, Outcome};

/// Answers it.
pub(crate) fn ask(args: &ModelArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let loaded = load_chip(&mut Sources::default(), &args.chip, &args.set, host)?;
    let Some(machine) = loaded.machine.tcp() else {
        let chip = &args.chip;
        let text = format!("`{chip}` is no TCP\n  = allowed: tcp, or a file whose base is tcp");
        return Err(Outcome::usage(&text));
    };
    let dtype = dtype_of(&args.dtype)?;
    let (model, is_configuration) = load(&args.model, host)?;
    let question = Question { batch: args.batch, input: args.input, output: args.output };
    let options = Options {
        dtype,
        mixed: Mixed::default(),
        cache: dtype,
        context: args.input + args.output,
        pes: args.pes,
        chips: args.chips,
        batch: 1,
    };
    let setting = StudySetup {
        machine,
        chip: args.chip.clone(),
        graph: &model.graph,
        name: args.model.clone(),
        is_configuration,
        options,
        scales: args.scales.into(),
        papers: false,
        latency: applied_latency(&loaded),
        figures: Vec::new(),
        ends: Vec::new(),
        bands: BandScope::Nothing,
        brief: true,
    };
    let mut say = |what: &str| {
        if !args.json {
            host.progress(what, None);
        }
    };
    let found = answer(&setting, question, &mut say);
    host.progress("", None);
    let found = found.map_err(|error| Outcome { code: FAILED, ..Outcome::usage(&error.to_string()) })?;
    Ok(Outcome::good(if args.json { to_json(&found) } else { text(&found) }))
}

/// The model, and whether it is a configuration without weights.
fn load(name: &str, host: &mut dyn Host) -> Result<(Model, bool), Outcome> {
    if !name.ends_with("config.json") {
        return Ok((crate::model::load(name, None, host)?, configs::names().contains(&name)));
    }
    let text = read_text(host, name).map_err(|why| Outcome::usage(&why))?;
    let model = configs::read_text(name, &text).map_err(|error| Outcome::usage(&error.to_string()))?;
    Ok((model, true))
}
