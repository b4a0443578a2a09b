//! Candidates of the TCP, lowered and run on the simulator.

use tilewright_explore::tcp::program::{LoweredCandidate, lowered, program_cycles};
use tilewright_explore::tcp::{TcpCandidate, TcpReport, TcpSearchResult, TcpTask};
use tilewright_machine::Tcp;
use tilewright_notation::syntax::ast::Operand;
use tilewright_record::KeepLast;
use tilewright_runtime::einsum::{ValueComparison, compare_run};
use tilewright_runtime::{Array, ArrayError, Reading, ReadingOptions, read};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::Tensor;
use tilewright_tcp_lower::LowerOptions;

use crate::{CandidateCheck, VerifyError, VerifyLimits};

/// Products that the comparison computes again.
const COMPARED_PRODUCTS: u64 = 1 << 22;

/// Runs the first of the best, on a machine of a name, until `stop` says so.
pub fn verify(
    task: &TcpTask<'_>,
    found: &TcpSearchResult,
    machine: &str,
    limits: VerifyLimits,
    stop: &mut dyn FnMut() -> bool,
) -> Vec<CandidateCheck> {
    let options = LowerOptions { machine: machine.to_string(), ..LowerOptions::default() };
    let best = found.kept.best().iter().take(limits.candidates).take_while(|_| !stop());
    best.filter_map(|candidate| one(task, found, candidate, (&options, limits.products))).collect()
}

fn one(
    task: &TcpTask<'_>,
    found: &TcpSearchResult,
    candidate: &TcpCandidate,
    (options, most_products): (&LowerOptions, u128),
) -> Option<CandidateCheck> {
    let told = TcpReport::new(task, found, candidate)?;
    let estimated = program_cycles(task, told.columns.part_cycles);
    Some(match lowered(task, &told.framed, &candidate.choice, options) {
        Err(complaints) => CandidateCheck::not_run(estimated, VerifyError::Lower(complaints)),
        Ok(LoweredCandidate { program, .. }) => {
            let extents = told.framed.frame.extents.iter();
            let products = extents.fold(1_u128, |all, extent| all.saturating_mul(u128::from(*extent)));
            run_program(task, &program, estimated, products <= most_products)
        }
    })
}

/// Simulates a program of an einsum and compares: its cycles with an estimate, and its values if that is
/// wanted.
pub fn run_program(
    task: &TcpTask<'_>,
    program: &Program,
    estimated: u64,
    with_values: bool,
) -> CandidateCheck {
    let machine = task.setup.machine;
    let wanted = ReadingOptions { values: with_values, findings: true, ..ReadingOptions::default() };
    match read(machine, program, &mut no_files, &wanted, KeepLast::new(0)) {
        Err(error) => CandidateCheck::not_run(estimated, error.into()),
        Ok(reading) => CandidateCheck {
            estimated,
            simulated: Ok(reading.outcome.cycles),
            values: with_values.then(|| values(machine, program, &reading)).flatten(),
            findings: reading.findings.len(),
        },
    }
}

/// Elements of these programs are drawn from seeds.
fn no_files(_: &Tensor) -> Result<Array, ArrayError> {
    Err(ArrayError::Format("no file".to_string()))
}

/// Results of all groups of PEs, or of the first, against the definition; none if some tensors are whole and
/// others parts.
fn values(machine: &Tcp, program: &Program, reading: &Reading) -> Option<ValueComparison> {
    let of = |operand: Operand| {
        let first = format!("{}_pe0", operand.name());
        program.tensors.iter().find(|tensor| tensor.name == operand.name() || tensor.name == first)
    };
    let (in0, in1, out) = (of(Operand::In0)?, of(Operand::In1)?, of(Operand::Out)?);
    let axes = || [in0, in1, out].into_iter().flat_map(|tensor| &tensor.axes);
    if axes().any(|(name, extent)| axes().any(|(other, found)| other == name && found != extent)) {
        return None;
    }
    compare_run(machine, [in0, in1, out], reading, &mut no_files, COMPARED_PRODUCTS)
}
