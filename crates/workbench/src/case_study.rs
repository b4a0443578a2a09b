//! The case study of a model on a TCP, as data and as text.

use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tilewright_base::Diagnostic;
use tilewright_compile::{Mixed, Options};
use tilewright_import::configs;
use tilewright_machine::LoadedMachine;
use tilewright_num::Dtype;
use tilewright_study::bands::{BandScope, figure_ends};
use tilewright_study::{PUBLISHED_SETTING, Scales, StudySetup, applied_latency, power, study, text};

use crate::Refusal;
use crate::model::files::ModelFiles;
use crate::model::load;
use crate::notation::tcp_of;

/// What is studied.
#[derive(Clone, Copy, Debug)]
pub struct StudyRequest<'a> {
    /// A built-in configuration, or a model by its path.
    pub model: &'a str,
    /// Eight-bit integers, or bfloat16.
    pub is_int8: bool,
    /// PEs of a chip.
    pub pes: u64,
    /// Chips that share the weights.
    pub chips: u64,
    /// Table II alone, and what its passes show.
    pub brief: bool,
    /// The machine is the paper's, unchanged: published values stand beside ours.
    pub is_papers_machine: bool,
}

/// Measures; ends before its next program once `stop` is set.
///
/// # Errors
/// Machines without slices, models that do not compile.
pub fn case_study(
    loaded: &LoadedMachine,
    request: &StudyRequest<'_>,
    files: &dyn ModelFiles,
    stop: &AtomicBool,
) -> Result<(Value, String), Box<Refusal>> {
    let machine = tcp_of(loaded)?;
    let model = load(request.model, files)?.model;
    let dtype = if request.is_int8 { Dtype::I8 } else { Dtype::Bf16 };
    let (pes, chips) = (request.pes, request.chips);
    let is_published = request.is_int8 && PUBLISHED_SETTING.covers(request.model, pes, chips);
    let setup = StudySetup {
        machine,
        chip: loaded.name.clone(),
        graph: &model.graph,
        name: request.model.to_string(),
        is_configuration: configs::names().contains(&request.model),
        options: Options {
            dtype,
            mixed: Mixed::default(),
            cache: dtype,
            context: 2048,
            pes,
            chips,
            batch: 1,
        },
        scales: Scales::Tensor,
        papers: is_published && request.is_papers_machine,
        latency: applied_latency(loaded),
        figures: power::figures(loaded),
        ends: if request.brief { Vec::new() } else { figure_ends(loaded) },
        bands: if request.brief { BandScope::Nothing } else { BandScope::Table2 },
        brief: request.brief,
        stop: Some(stop),
    };
    let found = study(&setup, &mut |_| ())
        .map_err(|error| Box::new(Refusal::plain(Diagnostic::error("study/measure", error.to_string()))))?;
    Ok((serde_json::to_value(&found).unwrap_or(Value::Null), text::print(&found)))
}
