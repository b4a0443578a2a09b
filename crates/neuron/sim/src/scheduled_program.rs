//! A run of a recorded program: what the compiler leaves of it, and when its instructions run.

use tilewright_neuron_isa::{Chip, NeuronProgram};

use crate::compiler::compiled;
use crate::schedule::{Timeline, schedule};

/// A recorded program as the compiler leaves it, if it changes anything, and when it runs.
#[derive(Clone, Debug)]
pub struct ScheduledProgram {
    /// The program as the compiler leaves it; none if it runs as recorded.
    pub compiled: Option<NeuronProgram>,
    /// When its instructions run.
    pub timeline: Timeline,
}

impl ScheduledProgram {
    /// Compiles and schedules a recorded program.
    pub fn of(chip: &Chip, recorded: &NeuronProgram) -> ScheduledProgram {
        let compiled = compiled(chip, recorded);
        let timeline = schedule(chip, compiled.as_ref().unwrap_or(recorded));
        ScheduledProgram { compiled, timeline }
    }

    /// The program that runs.
    pub fn program<'a>(&'a self, recorded: &'a NeuronProgram) -> &'a NeuronProgram {
        self.compiled.as_ref().unwrap_or(recorded)
    }
}
