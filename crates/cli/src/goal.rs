//! What is to be least, as `--goal` says it: one spelling for the explorer and the compiler.

use tilewright_explore::Goal;

use crate::outcome::Outcome;

/// A goal by its name.
pub(crate) fn goal(text: &str) -> Result<Goal, Outcome> {
    let watts = |text: &str| {
        let watts: f64 = text.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded first")]
        let milliwatts = (watts.clamp(0.0, 1e9) * 1000.0).round() as u64;
        (watts.is_finite() && milliwatts > 0).then_some(Goal::TimeBelow(milliwatts))
    };
    let goal = match text {
        "time" => Some(Goal::Time),
        "energy" => Some(Goal::Energy),
        "edp" => Some(Goal::EnergyDelay),
        other => other.strip_prefix("time@").and_then(watts),
    };
    goal.ok_or_else(|| {
        Outcome::usage(&format!(
            "--goal {text}\n  = allowed: time, energy, edp, time@WATTS with at least 0.001 W\n  = instead: --goal time@5"
        ))
    })
}
