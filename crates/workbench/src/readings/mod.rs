//! The readings of a run as data, one file for each chip family.

pub mod neuron;
pub mod tcp;

/// Which of the four readings are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingSelection {
    /// Outputs.
    pub values: bool,
    /// When what ran, and how busy engines were.
    pub timeline: bool,
    /// Energy by component.
    pub energy: bool,
    /// What is wrong.
    pub findings: bool,
}

impl ReadingSelection {
    /// All four.
    pub const ALL: ReadingSelection =
        ReadingSelection { values: true, timeline: true, energy: true, findings: true };
}
