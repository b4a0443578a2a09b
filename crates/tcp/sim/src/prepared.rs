//! A program that runs many times: what its images cost is asked once for all runs.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;
use tilewright_tcp_isa::program::{Program, RegisterId};

use crate::plan::Plans;
use crate::simulate::{Run, run};
use crate::{Judge, Options, Outcome, SimError};

/// A machine, a program, and what earlier runs asked of the engines. Every run gives what [`crate::simulate`] gives.
#[derive(Debug)]
pub struct Prepared {
    machine: Arc<Tcp>,
    program: Arc<Program>,
    plans: Mutex<Plans>,
}

impl Prepared {
    /// Nothing is asked before the first run.
    pub fn new(machine: Arc<Tcp>, program: Arc<Program>) -> Prepared {
        let plans = Mutex::new(Plans::new(&program));
        Prepared { machine, program, plans }
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
        options: &Options,
        sink: S,
        judge: &mut dyn Judge,
    ) -> Result<Outcome, SimError> {
        let what = Run { machine: &self.machine, program: &self.program, registers, options };
        let mut plans = match self.plans.try_lock() {
            Ok(plans) => plans,
            // Plans are whole between any two steps of a run.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Someone else runs it at this moment.
            Err(TryLockError::WouldBlock) => return run(&what, &mut Plans::new(&self.program), sink, judge),
        };
        plans.trim();
        run(&what, &mut plans, sink, judge)
    }
}
