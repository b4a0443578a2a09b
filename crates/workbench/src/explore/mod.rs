//! Searches as people see them: candidates, tables of data, pictures, for whichever chip family.

pub mod display;
pub mod json;
pub mod neuron;
pub mod plot;
mod request;
mod tcp;

pub use request::{ExploreAnswer, ExploreRequest, explore};

use tilewright_explore::Goal;
use tilewright_machine::LoadedMachine;

/// Goals that there are, in words.
pub const GOALS: &str = "time, energy, edp, time@WATTS with at least 0.001 W";

/// A goal by its name, of [`GOALS`].
pub fn goal_named(text: &str) -> Option<Goal> {
    let watts = |text: &str| {
        let watts: f64 = text.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded first")]
        let milliwatts = (watts.clamp(0.0, 1e9) * 1000.0).round() as u64;
        (watts.is_finite() && milliwatts > 0).then_some(Goal::TimeBelow(milliwatts))
    };
    match text {
        "time" => Some(Goal::Time),
        "energy" => Some(Goal::Energy),
        "edp" => Some(Goal::EnergyDelay),
        other => other.strip_prefix("time@").and_then(watts),
    }
}

/// Figures of energy that are assumptions.
pub fn assumed_energies(loaded: &LoadedMachine) -> Vec<String> {
    let energies = loaded.assumptions().into_iter().filter(|figure| figure.section == "energy");
    energies.map(|figure| format!("{}.{}", figure.section, figure.key)).collect()
}
