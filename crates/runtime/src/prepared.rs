//! A program that was verified once and runs many times.

use std::sync::Arc;

use tilewright_base::Diagnostic;
use tilewright_machine::tcp::Tcp;
use tilewright_record::{KeepLast, Sink};
use tilewright_tcp_isa::program::{Program, RegisterId};
use tilewright_tcp_sim as sim;

use crate::Device;
use crate::listener::{self, InitialMemory};
use crate::readings::{Reading, ReadingError, ReadingOptions, accepted};
use crate::value_dependence::ValueDependence;

/// A legal program of a machine, with what its images cost once somebody asked. May be shared between
/// threads.
#[derive(Debug)]
pub struct Prepared {
    sim: sim::PreparedSim,
    decides: ValueDependence,
    complaints: Vec<Diagnostic>,
}

impl Prepared {
    /// Verifies a program; later runs do not verify it again.
    ///
    /// # Errors
    /// [`ReadingError::Refused`] with all complaints.
    pub fn new(machine: &Tcp, program: impl Into<Arc<Program>>) -> Result<Prepared, ReadingError> {
        Prepared::shared(Arc::new(machine.clone()), program)
    }

    /// [`Prepared::new`] with a machine that many programs share.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn shared(machine: Arc<Tcp>, program: impl Into<Arc<Program>>) -> Result<Prepared, ReadingError> {
        let program = program.into();
        let complaints = accepted(&machine, &program)?;
        let decides = ValueDependence::of(&program);
        Ok(Prepared { sim: sim::PreparedSim::new(machine, program), decides, complaints })
    }

    /// The machine.
    pub fn machine(&self) -> &Arc<Tcp> {
        self.sim.machine()
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        self.sim.program()
    }

    /// What the verifier said of it, none of it an error.
    pub fn complaints(&self) -> &[Diagnostic] {
        &self.complaints
    }

    /// The register of a name.
    pub fn register(&self, name: &str) -> Option<RegisterId> {
        let at = self.program().registers.iter().position(|register| register.name == name)?;
        u32::try_from(at).ok().map(RegisterId)
    }

    /// Timeline, energy and, if wanted, findings, without a device: [`ReadingOptions::values`] is not looked
    /// at.
    ///
    /// # Errors
    /// As [`Device::run`]; a program whose timeline depends on values needs a device.
    pub fn time<S: Sink + Send>(
        &self,
        registers: &[(RegisterId, i64)],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ReadingError> {
        let decides = ValueDependence { time: false, places: false, grants: false };
        let wanted = ReadingOptions { values: false, ..wanted.clone() };
        let mut nothing = Device::new(self.machine(), 0);
        self.listen(decides, registers, &wanted, nothing.state_mut(), sink)
    }

    /// A run on a device's memories.
    pub(crate) fn run<S: Sink + Send>(
        &self,
        registers: &[(RegisterId, i64)],
        wanted: &ReadingOptions,
        state: &mut tilewright_tcp_exec::MemoryState,
        sink: S,
    ) -> Result<Reading, ReadingError> {
        self.listen(self.decides, registers, wanted, state, sink)
    }

    fn listen<S: Sink + Send>(
        &self,
        decides: ValueDependence,
        registers: &[(RegisterId, i64)],
        wanted: &ReadingOptions,
        state: &mut tilewright_tcp_exec::MemoryState,
        sink: S,
    ) -> Result<Reading, ReadingError> {
        let (machine, program) = (self.machine(), self.program());
        let what = listener::ObservedRun { machine, program, decides, wanted, before: InitialMemory::Inputs };
        listener::run(
            &what,
            state,
            |options, checker| self.sim.simulate(registers, options, sink, checker),
            |options, checker| self.sim.simulate(registers, options, KeepLast::new(0), checker),
        )
    }
}
