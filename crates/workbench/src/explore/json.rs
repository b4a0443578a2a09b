//! What was found, as data.

use serde_json::{Map, Value, json};
use tilewright_explore::Goal;
use tilewright_explore::refusal::RefusalReason;
use tilewright_explore::search::SearchResultOf;
use tilewright_verify::CandidateCheck;

use super::display::{CandidateDisplay, CandidateOf};

/// One search.
pub fn answer<S: CandidateDisplay>(
    shown: &S,
    found: &SearchResultOf<S::Target>,
    checks: &[CandidateCheck],
    goal: Goal,
    seconds: f64,
) -> Value {
    let refused: Map<String, Value> = RefusalReason::ALL
        .iter()
        .filter(|reason| found.refused.count(**reason) > 0)
        .map(|reason| (reason.name().to_string(), json!(found.refused.count(*reason))))
        .collect();
    let report = |candidate: &CandidateOf<S::Target>| shown.look(found, candidate, 0).map(|look| look.value);
    let mut best = found.kept.best().first().and_then(report).unwrap_or(Value::Null);
    if let (Some(best), Some(bound)) = (best.as_object_mut(), &found.bound) {
        let (unit, least) = shown.time_value(bound.ticks);
        best.insert("bound".to_string(), json!({ unit: least, "energy_pj": bound.energy_fj / 1000 }));
        best.insert("proved".to_string(), json!(found.complete));
        best.insert("gap".to_string(), json!(found.gap(goal)));
    }
    json!({
        "einsum": shown.einsum(),
        "dims": Value::Object(shown.sizes().into_iter().map(|(name, size)| (name, json!(size))).collect()),
        "evaluated": found.evaluated,
        "seconds": seconds,
        "legal": found.legal,
        "refused": refused,
        "excluded": { "frames": found.excluded_frames, "sets": found.excluded_sets,
            "of_frames": found.frames.len() },
        "complete": found.complete,
        "best": best,
        "candidates": found.kept.best().iter().filter_map(report).collect::<Vec<_>>(),
        "pareto": found.kept.front().iter().filter_map(report).collect::<Vec<_>>(),
        "verified": checks.iter().map(|check| checked(shown.time_value(0).0, check)).collect::<Vec<_>>(),
    })
}

/// A verification; times are of that unit.
pub fn checked(unit: &str, check: &CandidateCheck) -> Value {
    let (simulated, refused) = match &check.simulated {
        Ok(ticks) => (json!(ticks), Value::Null),
        Err(why) => (Value::Null, json!(why.to_string())),
    };
    json!({
        format!("estimated_{unit}"): check.estimated,
        format!("simulated_{unit}"): simulated,
        "refused": refused,
        "findings": check.findings,
        "results_compared": check.values.map(|values| values.compared),
        "results_different": check.values.map(|values| values.different),
    })
}
