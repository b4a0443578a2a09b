//! What was found, as data.

use serde_json::{Map, Value, json};
use tilewright_explore::refusal::Reason;
use tilewright_explore::tcp::{Candidate, Found, Task, Told};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp::energy::Component;

use super::verify::Check;

/// One search.
pub(crate) fn answer(task: &Task<'_>, found: &Found, checks: &[Check], seconds: f64) -> Value {
    let refused: Map<String, Value> = Reason::ALL
        .iter()
        .filter(|reason| found.refused.count(**reason) > 0)
        .map(|reason| (reason.name().to_string(), json!(found.refused.count(*reason))))
        .collect();
    let told = |candidate: &Candidate| Told::new(task, found, candidate).map(|told| one(&told));
    let mut best = found.kept.best().first().and_then(told).unwrap_or(Value::Null);
    if let (Some(best), Some(bound)) = (best.as_object_mut(), &found.bound) {
        best.insert(
            "bound".to_string(),
            json!({ "cycles": bound.ticks, "energy_pj": bound.energy_fj / 1000 }),
        );
        best.insert("proved".to_string(), json!(found.complete));
    }
    json!({
        "einsum": task.program.einsum.to_string(),
        "dims": dims(task),
        "evaluated": found.evaluated,
        "seconds": seconds,
        "legal": found.legal,
        "refused": refused,
        "excluded": { "frames": found.excluded_frames, "sets": found.excluded_sets, "of_frames": found.frames.len() },
        "complete": found.complete,
        "best": best,
        "candidates": found.kept.best().iter().filter_map(told).collect::<Vec<_>>(),
        "pareto": found.kept.front().iter().filter_map(told).collect::<Vec<_>>(),
        "verified": checks.iter().map(checked).collect::<Vec<_>>(),
    })
}

/// Sizes of the axes.
fn dims(task: &Task<'_>) -> Value {
    Value::Object(task.axes.iter().map(|axis| (axis.name.to_string(), json!(axis.extent))).collect())
}

fn one(told: &Told) -> Value {
    let columns = &told.columns;
    let shape = |operand| told.program.shape(operand).map(ToString::to_string);
    let energy: Map<String, Value> = Component::ALL
        .iter()
        .zip(told.energy_fj)
        .filter(|(_, fj)| *fj > 0)
        .map(|(component, fj)| (component.name().to_string(), json!(fj / 1000)))
        .collect();
    let traffic: Map<String, Value> = told
        .counts
        .named()
        .into_iter()
        .filter(|(name, count)| *count > 0 && *name != "macs_useful")
        .map(|(name, count)| (name.to_string(), json!(count)))
        .collect();
    json!({
        "tactic": told.program.tactic.as_ref().map(ToString::to_string),
        "stationary": told.framed.stationary().name(),
        "shapes": { "in0": shape(Operand::In0), "in1": shape(Operand::In1), "out": shape(Operand::Out) },
        "commands": told.framed.frame.commands(),
        "cycles": told.candidate.ticks,
        "energy_pj": told.candidate.energy_fj / 1000,
        "milliwatts": told.milliwatts,
        "utilisation": told.utilisation,
        "columns": {
            "mac": columns.mac, "stream": columns.stream, "drain": columns.drain, "vector": columns.vector,
            "commit": columns.commit, "load": columns.load, "fill": columns.fill,
        },
        "energy_pj_by_component": energy,
        "events_of_one_command": traffic,
        "reuse": { "streamed": told.stream_reuse, "held": told.held_reuse },
        "data_memory_bytes": told.data_memory_bytes,
    })
}

/// A verification.
pub(crate) fn checked(check: &Check) -> Value {
    let (simulated, refused) = match &check.simulated {
        Ok(cycles) => (json!(cycles), Value::Null),
        Err(why) => (Value::Null, json!(why)),
    };
    json!({
        "estimated_cycles": check.estimated,
        "simulated_cycles": simulated,
        "refused": refused,
        "findings": check.findings,
        "results_compared": check.values.map(|values| values.compared),
        "results_different": check.values.map(|values| values.different),
    })
}
