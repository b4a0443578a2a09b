//! A program that runs many times: what its images cost is asked once for all runs.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;
use tilewright_tcp_isa::program::{Program, RegisterId};

use crate::plan::PlanCache;
use crate::simulate::{RunSetup, run};
use crate::{Observer, SimError, SimOptions, SimOutcome};

/// A machine, a program, and what earlier runs asked of the engines. Every run gives what [`crate::simulate`]
/// gives.
#[derive(Debug)]
pub struct PreparedSim {
    machine: Arc<Tcp>,
    program: Arc<Program>,
    plans: Mutex<PlanCache>,
}

impl PreparedSim {
    /// Nothing is asked before the first run.
    pub fn new(machine: Arc<Tcp>, program: Arc<Program>) -> PreparedSim {
        let plans = Mutex::new(PlanCache::new(&program));
        PreparedSim { machine, program, plans }
    }

    /// The machine.
    pub fn machine(&self) -> &Arc<Tcp> {
        &self.machine
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Runs the program; some registers of all PEs start with other values than it says.
    ///
    /// # Errors
    /// As [`crate::simulate`]; a value outside of its register's range.
    pub fn simulate<S: Sink>(
        &self,
        registers: &[(RegisterId, i64)],
        options: &SimOptions,
        sink: S,
        observer: &mut dyn Observer,
    ) -> Result<SimOutcome, SimError> {
        let what = RunSetup { machine: &self.machine, program: &self.program, registers, options };
        let mut plans = match self.plans.try_lock() {
            Ok(plans) => plans,
            // Plans are whole between any two steps of a run.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Someone else runs it at this moment.
            Err(TryLockError::WouldBlock) => {
                return run(&what, &mut PlanCache::new(&self.program), sink, observer);
            }
        };
        plans.trim();
        run(&what, &mut plans, sink, observer)
    }
}
