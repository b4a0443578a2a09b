//! A general graph on the simulated chip, and what it took.

use std::path::Path;

use serde::Serialize;
use tilewright_base::Sources;
use tilewright_compile::general::bound::roofline_cycles;
use tilewright_compile::general::{self, Planned, tensors};
use tilewright_graph::primitives;
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_record::perfetto::Stream;
use tilewright_reference::Tensor;
use tilewright_runtime::graph::GraphDevice;
use tilewright_runtime::usage::Usage;
use tilewright_runtime::{Reading, ReadingError, ReadingOptions};

use super::inputs::InputArrays;
use super::outputs::{self, OutputJson};
use crate::host::Host;
use crate::machine::to_json;
use crate::outcome::{FAILED, OUR_FAULT, Outcome, io_cause};
use crate::run::args::RunArgs;
use crate::target::refused_programs;

/// A graph as one program of a chip; what is not lowered is refused with its node.
pub(super) fn planned(machine: &Tcp, model: &Model, pes: u64, host: &dyn Host) -> Result<Planned, Outcome> {
    let graph = primitives(&model.graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    let options = general::Options { pes, ..general::Options::default() };
    general::plan(machine, &graph, &model.store, &options).map_err(|refusal| Outcome {
        code: FAILED,
        ..Outcome::usage(&format!("{refusal}\n  = instead: --interp, which computes every operator"))
    })
}

/// Refuses options that mean nothing to a general graph.
fn fits(args: &RunArgs, machine: &Tcp) -> Result<(), Outcome> {
    let target = &args.target;
    target.general_pes(machine)?;
    let odd = [
        ("--chips", target.chips != 1),
        ("--dtype", target.dtype != "bf16"),
        ("--cache", target.cache != "bf16"),
        ("--calibrate", target.calibrate.is_some()),
        ("--context", target.context.is_some()),
        ("--effort", args.effort != 0),
    ];
    match odd.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Outcome::usage(&format!(
            "{option} with a graph that takes arrays\n  \
             = allowed: one chip, contractions in bf16\n  = instead: leave {option} out"
        ))),
    }
}

/// Runs a graph, and says what it gave and took.
pub(super) fn run(
    args: &RunArgs,
    model: &Model,
    given: &InputArrays,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let machine = args.target.machine(host)?;
    fits(args, &machine)?;
    let planned = planned(&machine, model, args.target.pes, host)?;
    let words = |input: &usize| {
        let value = &planned.kernels.values[*input];
        let tensor = given.named(&value.name)?;
        tensors::words(tensor).ok_or_else(|| {
            Outcome::usage(&format!(
                "input `{}` has an integer beyond 32 bits\n  = instead: --interp",
                value.name
            ))
        })
    };
    let inputs = planned.kernels.inputs.iter().map(words).collect::<Result<Vec<_>, _>>()?;
    let mut device = GraphDevice::new(&machine, planned).map_err(|error| match &error {
        ReadingError::Refused(complaints) => {
            refused_programs(&args.target.chip, &args.target.set, complaints)
        }
        _ => failed(&error),
    })?;
    let wanted = ReadingOptions {
        values: true,
        findings: true,
        trace: args.prompting.trace.is_some(),
        ..ReadingOptions::default()
    };
    let reading = match &args.prompting.trace {
        None => device.run(&inputs, &wanted, KeepLast::new(0)),
        Some(path) => {
            let unwritten = |error: &std::io::Error| Outcome::unwritten(path, error);
            let mut draft = host.draft(Path::new(path)).map_err(|error| unwritten(&error))?;
            let reading = device.run(&inputs, &wanted, Stream::new(&mut draft));
            if let Some(error) = reading.as_ref().err().and_then(|error| io_cause(error)) {
                return Err(unwritten(error));
            }
            draft.keep(host).map_err(|error| unwritten(&error))?;
            reading
        }
    };
    let reading = reading.map_err(|error| failed(&error))?;
    if let Some(finding) = reading.findings.first() {
        let words = format!("a compiled program is wrong: {}", finding.to_diagnostic().message);
        return Err(Outcome { code: OUR_FAULT, ..Outcome::usage(&words) });
    }
    let patterns = device.results().map_err(|error| failed(&error))?;
    let results = device.planned().kernels.results.iter().zip(&patterns);
    let results: Vec<(String, Tensor)> = results
        .map(|(result, words)| (result.name.clone(), tensors::tensor(result.dtype, &result.dims, words)))
        .collect();
    outputs::written(args, &results, host)?;
    Ok(Outcome::good(said(args, &machine, &device, &reading, &results)))
}

/// What `--json` prints.
#[derive(Serialize)]
struct ChipRunJson<'s> {
    outputs: Vec<OutputJson<'s>>,
    kernels: usize,
    cycles: u64,
    roofline_cycles: u64,
    mac_use: f64,
    hbm_use: f64,
    ms: f64,
    energy_mj: f64,
    energy_pj: f64,
    hbm_bytes: u64,
    transfers: u64,
    commands: u64,
}

fn said(
    args: &RunArgs,
    machine: &Tcp,
    device: &GraphDevice,
    reading: &Reading,
    results: &[(String, Tensor)],
) -> String {
    let mut usage = Usage::default();
    usage.add(&reading.outcome, 1);
    let (ms, energy_mj) = (usage.seconds(machine) * 1e3, usage.mj_per_token().unwrap_or(0.0));
    let (planned, pes) = (device.planned(), args.target.pes);
    let all = ChipRunJson {
        outputs: outputs::data(args, results),
        kernels: planned.kernels.kernels.len(),
        cycles: reading.outcome.cycles,
        roofline_cycles: roofline_cycles(machine, &planned.kernels, pes),
        mac_use: usage.mac_use(machine, pes, Dtype::Bf16),
        hbm_use: usage.hbm_use(machine, 1),
        ms,
        energy_mj,
        energy_pj: energy_mj * 1e9,
        hbm_bytes: planned.hbm_bytes,
        transfers: reading.outcome.transfers,
        commands: reading.outcome.execs,
    };
    if args.prompting.json {
        return to_json(&all);
    }
    let mut text = outputs::words(args, results);
    text += &format!(
        "{} kernels, {} cycles, {ms:.4} ms, {energy_mj:.4} mJ; {} transfers, {} commands, {} B of HBM\n",
        all.kernels, all.cycles, all.transfers, all.commands, all.hbm_bytes
    );
    let longest: Vec<String> = usage
        .longest()
        .iter()
        .take(6)
        .map(|(name, unit, used)| format!("{name} ({unit}) {} x {}", used.busy_cycles, used.runs))
        .collect();
    text += &format!("busy cycles: {}\n", longest.join(", "));
    text
}

fn failed(error: &ReadingError) -> Outcome {
    let words = match error {
        ReadingError::Refused(complaints) => {
            let first = complaints.first().map_or("", |complaint| &complaint.message);
            format!("the compiled program is refused: {first}")
        }
        other => other.to_string(),
    };
    Outcome { code: OUR_FAULT, ..Outcome::usage(&words) }
}
