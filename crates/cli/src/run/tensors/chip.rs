//! A general graph on the simulated chip, compiled now or before, and what it took.

use std::path::Path;

use serde::Serialize;
use tilewright_base::{Diagnostic, Sources};
use tilewright_compile::general::interface::{GraphInterface, Port};
use tilewright_compile::general::plan::Planned;
use tilewright_compile::general::run_sizes::RunSizes;
use tilewright_compile::general::tensors;
use tilewright_explore::Goal;
use tilewright_graph::{Graph, IndexInput};
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::perfetto::{self, Stream};
use tilewright_record::{KeepAll, KeepLast};
use tilewright_reference::Tensor;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_runtime::graph::executable_over_chips;
use tilewright_runtime::usage::Usage;
use tilewright_runtime::{Reading, ReadingError, ReadingOptions};
use tilewright_tcp_sim::findings::Finding;
use tilewright_view::{PageRuns, page};
use tilewright_workbench::graph_run::view_of_graph_run;

use super::findings::{self, OutsideIndices};
use super::inputs::InputArrays;
use super::interpreted;
use super::outputs::{self, OutputJson};
use crate::graph::{CompiledGraph, GraphRequest, check_target};
use crate::host::Host;
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, OUR_FAULT, Outcome, io_cause, rendered};
use crate::quantise::{self, Calibration, OutputError, QuantisedNote};
use crate::run::args::{PromptArgs, RunArgs, TensorArgs};
use crate::target::refused_programs;

/// Compiles a graph, runs it, and says what it gave and took.
pub(super) fn run(
    args: &RunArgs,
    model: &Model,
    given: &InputArrays,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let machine = args.target.machine(host)?;
    let request = GraphRequest {
        target: &args.target,
        effort: Some(args.effort),
        goal: Goal::Time,
        checks: true,
        shows_progress: !args.prompting.json,
    };
    args.target.check_arrays()?;
    check_target(&args.target)?;
    let calibration = match &args.target.calibrate {
        Some(folder) => quantise::calibration(folder, &model.graph, host)?,
        None => Calibration {
            sets: vec![given.of(&model.graph)?],
            from: "the inputs of this run alone".to_string(),
        },
    };
    let compiled = request.compile(&machine, &model.graph, &model.store, Some(&calibration), host)?;
    let CompiledGraph { tuned, note, open, divided } = compiled;
    let quantised = match note {
        Some(note) => Some(QuantisedRun { note, float32: interpreted(model, given, host)? }),
        None => None,
    };
    let job = GraphJob {
        machine: &machine,
        chip: &args.target.chip,
        set: &args.target.set,
        tensors: &args.tensors,
        prompting: &args.prompting,
        quantised: quantised.as_ref(),
        indices: &[],
        page: args.html.as_deref().map(|path| GraphPage {
            path,
            graph: &model.graph,
            planned: &tuned.planned,
        }),
    };
    let graph = executable_over_chips(&machine, &tuned.planned, tuned.options.pes, divided.as_ref());
    let graph = graph.map_err(|error| job.failed(&error))?;
    let outside = OutsideIndices::of(model, given)?;
    let outcome = job.run(graph.with_open(open), given, host)?;
    Ok(outside.reported(outcome, host.colour()))
}

/// A compiled graph that is run once on a chip, and what is wanted of the run.
pub(crate) struct GraphJob<'j> {
    pub(crate) machine: &'j Tcp,
    /// The chip's name.
    pub(crate) chip: &'j str,
    /// Figures of the chip that were changed.
    pub(crate) set: &'j [String],
    pub(crate) tensors: &'j TensorArgs,
    pub(crate) prompting: &'j PromptArgs,
    /// What its contractions in int8 are compared with, if it has some.
    pub(crate) quantised: Option<&'j QuantisedRun>,
    /// Inputs whose elements are looked at as indices, where the graph is not there.
    pub(crate) indices: &'j [IndexInput],
    /// The page that is written of the run, if one is.
    pub(crate) page: Option<GraphPage<'j>>,
}

/// Where the page of a run goes, and what it shows besides the run.
pub(crate) struct GraphPage<'j> {
    path: &'j str,
    graph: &'j Graph,
    planned: &'j Planned,
}

/// A graph with contractions in int8, and what float32 gives.
pub(crate) struct QuantisedRun {
    note: QuantisedNote,
    float32: Vec<(String, Tensor)>,
}

impl GraphJob<'_> {
    /// Refuses files of a run, before a graph is loaded, that were read or would be written twice.
    pub(crate) fn check_files(&self, graph: &GraphInterface, host: &dyn Host) -> Result<(), Outcome> {
        let names = graph.results.iter().map(|port| port.name.as_str());
        let page = self.page.as_ref().map(|page| page.path);
        outputs::check_files((self.tensors, self.prompting, page), names, host)
    }

    /// Runs a graph whose constants are on the device, and says what it gave and took.
    pub(crate) fn run(
        &self,
        mut graph: ExecutableGraph,
        given: &InputArrays,
        host: &mut dyn Host,
    ) -> Result<Outcome, Outcome> {
        let open = graph.interface().open.clone();
        let sizes = RunSizes::new(&open, &|name| given.find(name));
        let sizes = sizes.map_err(|complaint| {
            Outcome::refused(BAD_INPUT, &Sources::default(), &[*complaint], host.colour())
        })?;
        let words = |port: &Port| {
            let words = match sizes.size_words(port) {
                Some(words) => words,
                None => sizes.padded(port, words(port, given)?),
            };
            match graph.interface().integer_beyond(port, &words) {
                Some(integer) => Err(beyond(port, integer, graph.interface().most_integer)),
                None => Ok(words),
            }
        };
        let inputs = graph.interface().inputs.iter().map(words);
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let reading = self.read(&mut graph, &inputs, host)?;
        if let Some(finding) = reading.findings.iter().find(|finding| finding.certain) {
            let words = format!("a compiled program is wrong: {}", finding.to_diagnostic().message);
            return Err(Outcome { code: OUR_FAULT, ..Outcome::usage(&words) });
        }
        let mut stderr = doubts(&reading, host.colour());
        let patterns = graph.results().map_err(|error| self.failed(&error))?;
        let results = graph.interface().results.iter().zip(&patterns).enumerate();
        let results: Vec<(String, Tensor)> =
            results.map(|(at, (port, words))| (port.name.clone(), sizes.result(at, port, words))).collect();
        outputs::written(self.tensors, &results, host)?;
        stderr += &findings::ends(&results);
        let mut text = self.said(graph.interface(), &reading, &results);
        if let Some(page) = &self.page {
            page.write(self.machine, reading, host)?;
            if !self.prompting.json {
                text += &format!("page        {} (opens without a network)\n", page.path);
            }
        }
        let outside = OutsideIndices::of_words(self.indices, &graph.interface().inputs, &inputs);
        Ok(outside.reported(Outcome { stderr, ..Outcome::good(text) }, host.colour()))
    }

    /// One run, with a trace if one is wanted.
    fn read(
        &self,
        graph: &mut ExecutableGraph,
        inputs: &[Vec<u32>],
        host: &mut dyn Host,
    ) -> Result<Reading, Outcome> {
        let trace = self.prompting.trace.as_deref();
        let wanted = ReadingOptions {
            values: true,
            findings: true,
            trace: trace.is_some() || self.page.is_some(),
            ..ReadingOptions::default()
        };
        if self.page.is_some() {
            return self.read_all(graph, inputs, &wanted, host);
        }
        let Some(path) = trace else {
            return graph.run(inputs, &wanted, KeepLast::new(0)).map_err(|error| self.failed(&error));
        };
        let unwritten = |error: &std::io::Error| Outcome::unwritten(path, error);
        let mut draft = host.draft(Path::new(path)).map_err(|error| unwritten(&error))?;
        let reading = graph.run(inputs, &wanted, Stream::new(&mut draft));
        let reading =
            reading.map_err(|error| io_cause(&error).map_or_else(|| self.failed(&error), unwritten))?;
        draft.keep(host).map_err(|error| unwritten(&error))?;
        Ok(reading)
    }

    /// One run with all that happened in it; the trace, if one is wanted, is written from that.
    fn read_all(
        &self,
        graph: &mut ExecutableGraph,
        inputs: &[Vec<u32>],
        wanted: &ReadingOptions,
        host: &mut dyn Host,
    ) -> Result<Reading, Outcome> {
        let reading = graph.run(inputs, wanted, KeepAll::default()).map_err(|error| self.failed(&error))?;
        let Some(path) = self.prompting.trace.as_deref() else { return Ok(reading) };
        let unwritten = |error: &std::io::Error| Outcome::unwritten(path, error);
        let mut draft = host.draft(Path::new(path)).map_err(|error| unwritten(&error))?;
        perfetto::write(&reading.outcome.record, &mut draft).map_err(|error| {
            io_cause(&error).map_or_else(|| Outcome::usage(&error.to_string()), unwritten)
        })?;
        draft.keep(host).map_err(|error| unwritten(&error))?;
        Ok(reading)
    }

    /// What is said of a graph that does not run.
    pub(crate) fn failed(&self, error: &ReadingError) -> Outcome {
        match error {
            ReadingError::Refused(complaints) => refused_programs(self.chip, self.set, complaints),
            other => Outcome { code: OUR_FAULT, ..Outcome::usage(&other.to_string()) },
        }
    }

    fn said(&self, graph: &GraphInterface, reading: &Reading, results: &[(String, Tensor)]) -> String {
        let mut usage = Usage::default();
        usage.add(&reading.outcome, 1);
        let (ms, energy_mj) = (usage.seconds(self.machine) * 1e3, usage.mj_per_token().unwrap_or(0.0));
        let quantised = self
            .quantised
            .map(|run| QuantisedJson { note: &run.note, errors: quantise::errors(results, &run.float32) });
        let peak = if quantised.is_some() { Dtype::I8 } else { Dtype::Bf16 };
        let all = ChipRunJson {
            outputs: outputs::data(self.tensors, results),
            kernels: graph.kernels,
            cycles: reading.outcome.cycles,
            roofline_cycles: graph.roofline_cycles,
            chips: (graph.chips() > 1).then(|| graph.chips()),
            mac_use: usage.mac_use(self.machine, graph.pes * graph.chips(), peak),
            hbm_use: usage.hbm_use(self.machine, graph.chips()),
            ms,
            energy_mj,
            energy_pj: energy_mj * 1e9,
            hbm_bytes: graph.hbm_bytes,
            transfers: reading.outcome.transfers,
            commands: reading.outcome.execs,
            quantised,
        };
        if self.prompting.json {
            return to_json(&all);
        }
        let mut text = outputs::words(self.tensors, results);
        let counted = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        text += &format!(
            "{}, {} cycles, {ms:.4} ms, {energy_mj:.4} mJ; {}, {}, {} B of HBM\n",
            counted(all.kernels, "kernel"),
            all.cycles,
            counted(all.transfers, "transfer"),
            counted(all.commands, "command"),
            all.hbm_bytes
        );
        text += &chip_words(graph);
        if let Some(quantised) = &all.quantised {
            text += &format!("{}: {}\n", quantised.note.types(), quantised.note.words());
            text += &quantise::error_words(&quantised.errors);
        }
        let longest: Vec<String> = usage
            .longest()
            .iter()
            .take(6)
            .map(|(name, unit, used)| format!("{name} ({unit}) {} x {}", used.busy_cycles, used.runs))
            .collect();
        text += &format!("busy cycles: {}\n", longest.join(", "));
        text
    }
}

/// How chips share a graph, if there are several.
fn chip_words(graph: &GraphInterface) -> String {
    let chips = graph.chips();
    let first = graph.inputs.iter().find_map(|port| Some((port, port.division?)));
    let Some((port, division)) = first.filter(|_| chips > 1) else { return String::new() };
    let positions = port.dims.get(division.axis).copied().unwrap_or_default();
    let each = positions / chips;
    format!(
        "{chips} chips, each with {each} of {positions} positions of axis {} of `{}` and all constants; \
         cycles of the slowest, energy and counts of all, bytes of HBM of each\n",
        division.axis, port.name
    )
}

impl GraphPage<'_> {
    fn write(&self, machine: &Tcp, reading: Reading, host: &mut dyn Host) -> Result<(), Outcome> {
        let runs = vec![view_of_graph_run(machine, self.graph, self.planned, reading)];
        let text = page(&PageRuns { runs, ..PageRuns::default() });
        host.write(Path::new(self.path), text.as_bytes())
            .map_err(|error| Outcome::unwritten(self.path, &error))
    }
}

/// Refuses an integer of an input that the program computes with.
fn beyond(port: &Port, integer: i32, most: Option<u64>) -> Outcome {
    let most = most.unwrap_or_default();
    Outcome::usage(&format!(
        "input `{}` has {integer}, of which the program could compute integers beyond 32 bits\n  = allowed: \
         -{most} to {most}\n  = instead: --interp",
        port.name
    ))
}

/// An input as words of the chip.
fn words(port: &Port, given: &InputArrays) -> Result<Vec<u32>, Outcome> {
    tensors::words(given.named(&port.name)?).ok_or_else(|| {
        Outcome::usage(&format!("input `{}` has an integer beyond 32 bits\n  = instead: --interp", port.name))
    })
}

/// Findings that are shown, at most.
const MOST_DOUBTS: usize = 3;

/// Warnings of a run: what may be, not what is wrong.
fn doubts(reading: &Reading, colour: bool) -> String {
    let all: Vec<Diagnostic> = reading.findings.iter().map(Finding::to_diagnostic).collect();
    let mut text = rendered(&Sources::default(), all.get(..MOST_DOUBTS).unwrap_or(&all), colour);
    if all.len() > MOST_DOUBTS {
        text += &format!("and {} warnings more\n", all.len() - MOST_DOUBTS);
    }
    text
}

/// What `--json` prints.
#[derive(Serialize)]
struct ChipRunJson<'s> {
    outputs: Vec<OutputJson<'s>>,
    kernels: u64,
    cycles: u64,
    roofline_cycles: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    chips: Option<u64>,
    mac_use: f64,
    hbm_use: f64,
    ms: f64,
    energy_mj: f64,
    energy_pj: f64,
    hbm_bytes: u64,
    transfers: u64,
    commands: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantised: Option<QuantisedJson<'s>>,
}

/// What `--json` says of contractions in other types than bf16.
#[derive(Serialize)]
struct QuantisedJson<'s> {
    #[serde(flatten)]
    note: &'s QuantisedNote,
    errors: Vec<OutputError>,
}
