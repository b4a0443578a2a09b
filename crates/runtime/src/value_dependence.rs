//! What values decide besides the outputs: programs whose time or whose accesses are not known without them.

use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::control::{Step, StepKind};
use tilewright_tcp_isa::program::exec::ExecBody;

use crate::readings::ReadingOptions;

/// What values decide in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueDependence {
    /// [`time`].
    pub time: bool,
    /// [`places`].
    pub places: bool,
    /// [`grants`].
    pub grants: bool,
}

impl ValueDependence {
    /// What they decide in this one.
    pub fn of(program: &Program) -> ValueDependence {
        ValueDependence { time: time(program), places: places(program), grants: grants(program) }
    }

    /// Whether values have to be computed for what is wanted.
    pub fn computed(self, wanted: &ReadingOptions) -> bool {
        wanted.values || self.time || self.grants || (wanted.findings && self.places)
    }
}

/// Whether a control core reads the device: what it does next depends on the value.
pub fn time(program: &Program) -> bool {
    program.queues.iter().any(|queue| reads(&queue.steps))
}

/// Whether tables hold addresses: where they lead is known only when they are read.
pub fn places(program: &Program) -> bool {
    let table = |body: &ExecBody| matches!(body, ExecBody::Stream(stream) if stream.fetch.indirect.is_some());
    program.execs.iter().any(|exec| table(&exec.body))
        || program.transfers.iter().any(|transfer| transfer.index.is_some())
}

/// Whether rows that tables name may lie outside of what is granted: a run ends at the first that does.
pub fn grants(program: &Program) -> bool {
    !program.grants.is_empty() && program.transfers.iter().any(|transfer| transfer.index.is_some())
}

fn reads(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Read { .. } => true,
        StepKind::For { body, .. } | StepKind::While { body, .. } => reads(body),
        StepKind::If { then, otherwise, .. } => reads(then) || reads(otherwise),
        _ => false,
    })
}
