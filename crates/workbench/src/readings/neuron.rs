//! A run of a NeuronCore program as data, with the keys that `tilewright nki --json` has.

use serde_json::{Map, Value, json};
use tilewright_neuron_isa::EngineKind;
use tilewright_neuron_sim::analysis::advice::advice;
use tilewright_neuron_sim::analysis::critical_path::{critical_path, idle_times};
use tilewright_neuron_sim::analysis::energy::energy;
use tilewright_neuron_sim::analysis::summary::summary;

use super::ReadingSelection;
use tilewright_neuron_isa::{Chip, NeuronProgram};
use tilewright_neuron_sim::ScheduledProgram;
use tilewright_neuron_sim::findings::NeuronFinding;

/// Lines of the critical path that are printed.
pub const MOST_LINES: usize = 8;

/// A run with all that its report is made of.
#[derive(Clone, Copy, Debug)]
pub struct NeuronReport<'a> {
    /// What it ran on.
    pub chip: &'a Chip,
    /// The program as it was recorded.
    pub recorded: &'a NeuronProgram,
    /// The program as it ran.
    pub run: &'a ScheduledProgram,
    /// What is wrong with it.
    pub findings: &'a [NeuronFinding],
}

/// The readings of a run that were asked for.
pub fn value(asked: ReadingSelection, report: &NeuronReport<'_>) -> Value {
    let mut top = Map::new();
    top.insert("chip".to_owned(), json!(report.chip.name));
    if asked.timeline {
        top.append(&mut timeline(report));
    }
    if asked.energy {
        let parts = energy(report.chip, report.run.program(report.recorded), &report.run.timeline);
        let parts = parts.iter().map(|part| (part.name.to_owned(), json!(part.joules)));
        top.insert("energy_j".to_owned(), Value::Object(parts.collect()));
    }
    if asked.findings {
        let findings = report.findings.iter().map(|one| {
            json!({
                "code": one.code,
                "severity": if one.error { "error" } else { "warning" },
                "line": one.source,
                "message": one.message,
                "allowed": one.allowed,
                "instead": one.instead,
            })
        });
        top.insert("findings".to_owned(), findings.collect());
    }
    Value::Object(top)
}

fn timeline(report: &NeuronReport<'_>) -> Map<String, Value> {
    let (program, timeline) = (report.run.program(report.recorded), &report.run.timeline);
    let figures = summary(report.chip, program, timeline);
    let mut waits: Map<String, Value> =
        EngineKind::ALL.iter().map(|engine| (engine.name().to_owned(), json!({}))).collect();
    for ((engine, why), time_ps) in idle_times(program, timeline) {
        waits[engine.name()][why.describe(program)] = json!(seconds(time_ps));
    }
    let engines: Map<String, Value> = EngineKind::ALL
        .iter()
        .zip(figures.engines)
        .map(|(engine, used)| {
            let used = json!({ "busy_s": seconds(used.busy_ps), "instructions": used.instructions });
            (engine.name().to_owned(), used)
        })
        .collect();
    let path = critical_path(program, timeline).into_iter().take(MOST_LINES).map(|share| {
        json!({
            "line": program.source(share.source),
            "engine": share.engine.name(),
            "time_s": seconds(share.time_ps),
            "instructions": share.count,
        })
    });
    let gains = advice(report.chip, program, timeline).into_iter().map(|one| {
        json!({
            "name": one.name,
            "line": program.source(one.source),
            "text": one.text,
            "at_most_s": seconds(one.at_most_ps),
        })
    });
    let members = json!({
        "time_us": figures.time_ps as f64 * 1e-6,
        "launch_us": figures.launch_ps as f64 * 1e-6,
        "engines": engines,
        "hbm_bytes": { "read": figures.hbm_read_bytes, "written": figures.hbm_written_bytes },
        "spill_bytes": { "saved": figures.spill_save_bytes, "reloaded": figures.spill_reload_bytes },
        "dma_bytes": figures.dma_bytes,
        "mfu": figures.utilisation.mfu,
        "hfu": figures.utilisation.hfu,
        "mbu": figures.utilisation.mbu,
        "bound_by": figures.bound_by.name(),
        "idle": waits,
        "critical_path": path.collect::<Vec<_>>(),
        "advice": gains.collect::<Vec<_>>(),
    });
    match members {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn seconds(ps: u64) -> f64 {
    ps as f64 * 1e-12
}
