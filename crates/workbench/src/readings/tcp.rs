//! A run of a TCP program as data.

use serde_json::{Map, Value, json};
use tilewright_base::invariant::OrBroken;
use tilewright_runtime::Reading;
use tilewright_tcp_cost::energy::Component;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_sim::{ImageUse, RunEnd};

use super::ReadingSelection;

/// The readings of a run that were asked for.
pub fn value(asked: ReadingSelection, program: &Program, reading: &Reading) -> Value {
    let outcome = &reading.outcome;
    let mut top = Map::new();
    let mut put = |name: &str, value: Value| top.insert(name.to_string(), value);
    put("machine", json!(program.machine));
    let ended = match outcome.ended {
        RunEnd::Finished => "finished",
        RunEnd::Deadlock(_) => "deadlock",
        RunEnd::Stopped => "stopped",
    };
    put("ended", json!(ended));
    if asked.timeline {
        put("cycles", json!(outcome.cycles));
        put("commands", json!(outcome.commands));
        let utilisation: Map<String, Value> = outcome
            .utilisation
            .iter()
            .map(|used| (used.engine.name().to_string(), json!(ratio(used.ppm()))))
            .collect();
        put("utilisation", Value::Object(utilisation));
        put("images", Value::Array(outcome.images.iter().map(image).collect()));
        let counts = outcome.counts.named().into_iter().map(|(name, count)| (name.to_string(), json!(count)));
        put("counts", Value::Object(counts.collect()));
    }
    if asked.energy {
        put("energy_pj", json!(picojoules(outcome.energy_fj.iter().sum())));
        let parts = Component::ALL.iter().zip(&outcome.energy_fj);
        let parts: Map<String, Value> =
            parts.map(|(part, fj)| (part.name().to_string(), json!(picojoules(*fj)))).collect();
        put("energy_by_component_pj", Value::Object(parts));
    }
    if asked.findings {
        put("findings", serde_json::to_value(&reading.findings).unwrap_or(Value::Null));
    }
    if asked.values {
        let outputs: Vec<Value> = reading
            .outputs
            .iter()
            .map(|(name, array)| {
                json!({
                    "name": name,
                    "dtype": array.dtype.name(),
                    "extents": array.extents,
                    "checksum": format!("{:016x}", array.checksum()),
                })
            })
            .collect();
        put("outputs", Value::Array(outputs));
    }
    Value::Object(top)
}

/// All runs of one image.
fn image(image: &ImageUse) -> Value {
    json!({
        "name": &*image.name,
        "unit": image.unit.name(),
        "runs": image.runs,
        "first_start_cycle": image.first_cycles,
        "last_end_cycle": image.last_cycles,
        "busy_cycles": u64::try_from(image.busy_cycles).or_broken("cycles of a run fit 64 bits"),
        "worst_cycles": u64::try_from(image.worst_cycles).or_broken("cycles of a run fit 64 bits"),
        "slowest_stage": image.slowest.map(|(stage, _)| stage.name()),
        "slowest_stage_cycles": image.slowest.map(|(_, cycles)| cycles),
        "energy_pj": picojoules(image.energy_fj),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(ppm: u64) -> f64 {
    ppm as f64 / 1e6
}

/// Femtojoules as picojoules, for people.
#[expect(clippy::cast_precision_loss, reason = "a sum for people; the record keeps it exactly")]
pub fn picojoules(fj: u128) -> f64 {
    fj as f64 / 1e3
}
