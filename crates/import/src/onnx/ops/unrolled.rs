//! How much an importer writes out: steps of layers, and elements of constants that it computes.

use crate::error::ImportResult;
use crate::onnx::node::Call;

/// Steps of a layer, at most.
pub(super) const MOST_STEPS: i64 = 1024;
/// Values of a graph in which layers are unrolled, at most, and those that a step makes, at most.
const MOST_VALUES: usize = 1 << 20;
const STEP_VALUES: usize = 64;
/// Elements of all constants of a model that are computed, at most.
const MOST_COMPUTED: u64 = 1 << 26;

/// Refuses steps that are too many for a layer, or for the graph with what is in it.
pub(super) fn steps_fit(call: &Call<'_, '_>, steps: i64, directions: i64) -> ImportResult<()> {
    let made = call.reader.b.graph().values.len();
    let all = steps.checked_mul(directions).and_then(|all| usize::try_from(all).ok());
    let values = all.and_then(|all| all.checked_mul(STEP_VALUES)?.checked_add(made));
    if (1..=MOST_STEPS).contains(&steps) && values.is_some_and(|values| values <= MOST_VALUES) {
        return Ok(());
    }
    let count = if directions == 1 { String::new() } else { format!(" in {directions} directions") };
    Err(call
        .refuse(format!("{steps} steps{count}, which are written out"))
        .allowed(format!("1 to {MOST_STEPS} steps of a layer, {MOST_VALUES} values of the graph"))
        .instead("shorter sequences"))
}

/// Counts elements that are about to be computed.
pub(super) fn computed(call: &mut Call<'_, '_>, count: i64) -> ImportResult<()> {
    let before = call.reader.computed;
    let Some(all) = before.checked_add(count.unsigned_abs()).filter(|all| *all <= MOST_COMPUTED) else {
        return Err(call
            .refuse(format!("{count} elements to compute, besides {before} before"))
            .allowed(format!("{MOST_COMPUTED} of all constants that operators make")));
    };
    call.reader.computed = all;
    Ok(())
}
