//! What is to be least, as `--goal` says it: one spelling for the explorer and the compiler.

use tilewright_explore::Goal;
use tilewright_workbench::explore::{GOALS, goal_named};

use crate::outcome::Outcome;

/// A goal by its name.
pub(crate) fn goal(text: &str) -> Result<Goal, Outcome> {
    goal_named(text).ok_or_else(|| {
        Outcome::usage(&format!("--goal {text}\n  = allowed: {GOALS}\n  = instead: --goal time@5"))
    })
}
