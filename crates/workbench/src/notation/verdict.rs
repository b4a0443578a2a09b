//! The verdict as data.

use serde_json::{Value, json};
use tilewright_base::{Diagnostic, Sources};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{Operand, Program};
use tilewright_tcp_cost::{Setup, Verdict};

/// A verdict with everything that was worked out.
pub fn value(
    sources: &Sources,
    program: &Program,
    setup: &Setup<'_>,
    problem: &Problem,
    verdict: &Verdict,
    chip: &str,
) -> Value {
    let shapes: serde_json::Map<String, Value> = Operand::ALL
        .into_iter()
        .filter_map(|operand| {
            Some((operand.name().to_string(), Value::from(program.shape(operand)?.to_string())))
        })
        .collect();
    let footprints: Vec<Value> = verdict
        .footprints
        .iter()
        .map(|f| {
            json!({
                "operand": f.operand.name(), "memory": f.place.name(), "slices": f.slices,
                "bytes_per_slice": f.bytes_per_slice, "capacity_bytes": f.capacity_bytes,
            })
        })
        .collect();
    let sequences: serde_json::Map<String, Value> = verdict
        .sequences
        .iter()
        .map(|sequence| {
            let loops = sequence.pattern.loops.iter().map(|l| json!({"size": l.size, "stride": l.stride}));
            let loops: Vec<Value> = loops.collect();
            (sequence.operand.name().to_string(), json!({ "loops": loops, "entries": sequence.entries }))
        })
        .collect();
    json!({
        "legal": verdict.legal(),
        "chip": chip,
        "fused_pes": setup.fused_pes,
        "dtype": setup.dtype.name(),
        "einsum": program.einsum.to_string(),
        "sizes": problem.axes.iter().map(|a| (a.name.to_string(), Value::from(a.whole)))
            .collect::<serde_json::Map<_, _>>(),
        "shapes": shapes,
        "tactic": program.tactic.as_ref().map(ToString::to_string),
        "footprints": footprints,
        "engine": verdict.placed.as_ref().map(|placed| json!({
            "cycles": placed.engine_cycles(),
            "multiplier_use": placed.multiplier_use(setup, problem),
            "lanes": placed.lane_count(),
            "packet_elements": placed.packet_elements(),
            "tree_depth": placed.tree_depth(),
            "columns": placed.columns,
            "repeats": placed.repeats(),
        })),
        "reuse": verdict.reuse.as_ref().map(tilewright_notation::reuse::Reuse::count),
        "read_bytes": verdict.read_bytes,
        "ring_slices": verdict.delivery.map(|delivery| delivery.ring_slices),
        "sequences": sequences,
        "diagnostics": tilewright_base::json::diagnostics(sources, &verdict.diagnostics),
    })
}

/// Complaints alone.
pub fn refusal(sources: &Sources, complaints: &[Diagnostic]) -> Value {
    json!({ "legal": false, "diagnostics": tilewright_base::json::diagnostics(sources, complaints) })
}
