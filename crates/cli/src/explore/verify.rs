//! The best candidates run on the simulator: values against the definition of the einsum, cycles against the estimate.

use tilewright_explore::tcp::program::{Lowered, lowered, program_cycles};
use tilewright_explore::tcp::{Candidate, Found, Task, Told};
use tilewright_notation::syntax::ast::Operand;
use tilewright_record::KeepLast;
use tilewright_runtime::einsum::{Comparison, compare_run};
use tilewright_runtime::{Reading, Wanted, read};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_lower::Options;

use super::args::ExploreArgs;
use crate::host::Host;

/// Products that the comparison computes again.
const COMPARED_PRODUCTS: u64 = 1 << 22;

/// A candidate beside its simulation.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// Ticks of its program as estimated.
    pub(crate) estimated: u64,
    /// The same, simulated; or why there is none.
    pub(crate) simulated: Result<u64, String>,
    /// Values, where they were compared.
    pub(crate) values: Option<Comparison>,
    /// Findings of the run.
    pub(crate) findings: usize,
    /// It is no fault that it did not run.
    pub(crate) optional: bool,
}

impl Check {
    /// Before it runs.
    pub(crate) fn new(estimated: u64) -> Check {
        Check { estimated, simulated: Err("not run".to_string()), values: None, findings: 0, optional: false }
    }

    /// Part by which the simulation differs from the estimate.
    pub(crate) fn error(&self) -> Option<f64> {
        let simulated = *self.simulated.as_ref().ok()?;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        Some((simulated as f64 - self.estimated as f64) / (self.estimated.max(1) as f64))
    }

    /// It ran, within three parts in a hundred of the estimate, and all that was compared is equal.
    pub(crate) fn good(&self) -> bool {
        if self.optional && self.simulated.is_err() {
            return true;
        }
        let values = self.values.is_none_or(|values| values.different == 0);
        self.error().is_some_and(|error| error.abs() <= 0.03) && values && self.findings == 0
    }
}

/// Runs the first of the best.
pub(crate) fn verify(task: &Task<'_>, found: &Found, args: &ExploreArgs, host: &mut dyn Host) -> Vec<Check> {
    let options = Options { machine: args.target.chip.clone(), ..Options::default() };
    let mut checks = Vec::new();
    for candidate in found.kept.best().iter().take(args.verified()) {
        if host.interrupted() {
            break;
        }
        checks.extend(one(task, found, candidate, (&options, args.most_products())));
    }
    checks
}

fn one(
    task: &Task<'_>,
    found: &Found,
    candidate: &Candidate,
    (options, most_products): (&Options, u128),
) -> Option<Check> {
    let told = Told::new(task, found, candidate)?;
    let each = told.columns.part_cycles;
    let mut check = Check::new(program_cycles(task, each));
    match lowered(task, &told.framed, &candidate.choice, options) {
        Err(complaints) => {
            let words: Vec<&str> = complaints.iter().map(|complaint| complaint.message.as_str()).collect();
            check.simulated = Err(words.join("; "));
        }
        Ok(Lowered { program, .. }) => {
            let extents = told.framed.frame.extents.iter();
            let products = extents.fold(1_u128, |all, extent| all.saturating_mul(u128::from(*extent)));
            run_program(task, products <= most_products, &program, &mut check);
        }
    }
    Some(check)
}

/// Simulates a program and compares, values too if they are wanted.
pub(crate) fn run_program(task: &Task<'_>, values_too: bool, program: &Program, check: &mut Check) {
    let machine = task.setup.machine;
    let wanted = Wanted { values: values_too, findings: true, ..Wanted::default() };
    let mut files = |_: &_| Err(tilewright_runtime::ArrayError::Format("no file".to_string()));
    match read(machine, program, &mut files, &wanted, KeepLast::new(0)) {
        Err(error) => check.simulated = Err(error.to_string()),
        Ok(reading) => {
            check.simulated = Ok(reading.outcome.cycles);
            check.findings = reading.findings.len();
            check.values = wanted.values.then(|| values(machine, program, &reading)).flatten();
        }
    }
}

/// Results of all groups of PEs, or of the first, against the definition; none if some tensors are whole and others parts.
fn values(machine: &tilewright_machine::Tcp, program: &Program, reading: &Reading) -> Option<Comparison> {
    let of = |operand: Operand| {
        let first = format!("{}_pe0", operand.name());
        program.tensors.iter().find(|tensor| tensor.name == operand.name() || tensor.name == first)
    };
    let (in0, in1, out) = (of(Operand::In0)?, of(Operand::In1)?, of(Operand::Out)?);
    let axes = || [in0, in1, out].into_iter().flat_map(|tensor| &tensor.axes);
    if axes().any(|(name, extent)| axes().any(|(other, found)| other == name && found != extent)) {
        return None;
    }
    let mut files = |_: &_| Err(tilewright_runtime::ArrayError::Format("no file".to_string()));
    compare_run(machine, [in0, in1, out], reading, &mut files, COMPARED_PRODUCTS)
}
