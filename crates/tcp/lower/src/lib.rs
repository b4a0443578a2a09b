//! From low-level einsum to a command program: the lowering of the paper's section V-D.
//!
//! Inputs lie in data memory as their shapes say, or are brought there from off-chip memory. The stationary
//! operand is loaded into the register files, the streamed one is fetched past it through the switch, sums
//! over slices are added by the vector engine, and results are committed to the output's shape. Where one
//! command cannot do it, commands are put before or after: a copy that brings an operand into each slice's
//! own memory, or a bridge from the order in which sums leave to the order in which the output lies.
//!
//! | file | decides |
//! |---|---|
//! | `view` | where a slice finds a tensor; loops cut so that every view has one stride for each |
//! | `supply` | which slices an operand comes from, and the topology that brings it |
//! | `packet` | the elements that meet in one step, and their padding |
//! | `registers` | the layout of the register files and their load |
//! | `margin` | copies with zeros before the start of a window |
//! | `halo` | what each slice looks at, of a window that loops over slices move |
//! | `shift` | windows that the feed unit shifts over, instead of fetching each |
//! | `dense` | copies within a slice, to memory in which an axis is not cut |
//! | `drain`, `direct` | the order in which sums leave, and whether it can be written as it is |
//! | `between` | sums over slices |
//! | `groups` | the same program on several groups of PEs |
//! | `exchange`, `gather` | sums over groups of PEs, and parts that all of them want |
//! | `whole` | inputs of which every group has a copy and needs a part |
//! | [`off_chip`] | inputs that start in off-chip memory |
//! | `limits`, `loops` | masks and sequencer entries |
//! | `dynamic` | control registers for axes whose size is known only at run time |
//! | `build`, `contract`, `ending` | the commands, one after the other |
//! | `commands` | register images from loops with numbers |
//! | `options`, `refusal`, `words` | what lowering takes and says; words and parts of flits |
//!
//! Beside it, [`kernels`] holds layers of models written as programs by hand: norms, activations, attention.

mod build;
mod commands;
mod contract;
mod dense;
mod direct;
mod drain;
mod dynamic;
mod exchange;
mod gather;
mod groups;
mod halo;
mod inter_slice;
pub mod kernels;
mod limits;
mod loops;
mod margin;
mod no_lowering;
pub mod off_chip;
mod options;
mod packet;
mod registers;
mod replicated;
mod shape_text;
mod shift;
mod sums_to_output;
mod supply;
mod view;
mod write_widths;

use tilewright_base::{Diagnostic, Severity};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::groups::PeGroups;
use tilewright_tcp_cost::legality::{Verdict, check};
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorPlace};

pub use self::options::LowerOptions;

use self::build::ContractionBuilder;
use self::exchange::SumExchange;
use self::gather::OutputGather;
use self::groups::{GroupCollectives, GroupedEinsum};
use self::replicated::ReplicatedInputs;

/// The program of a contraction that `check` calls legal.
pub fn lower(
    setup: &Setup<'_>,
    problem: &Problem,
    verdict: &Verdict,
    options: &LowerOptions,
) -> Result<Program, Box<Diagnostic>> {
    let program = on_chip(setup, problem, verdict, options)?;
    if options.from_hbm == [false; 2] {
        Ok(program)
    } else {
        off_chip::bring(setup, problem, options.from_hbm, program)
    }
}

/// The program for inputs in data memory, on all groups of PEs.
fn on_chip(
    setup: &Setup<'_>,
    problem: &Problem,
    verdict: &Verdict,
    options: &LowerOptions,
) -> Result<Program, Box<Diagnostic>> {
    let groups = PeGroups::new(problem);
    if groups.count(problem) <= 1 {
        return Ok(ContractionBuilder::new(setup, problem, verdict, options)?.program()?.0);
    }
    let replicated_inputs = ReplicatedInputs::new(setup, problem, &groups, options.from_hbm)?;
    let parted = replicated::parted(problem)?;
    let inputs = parted.as_ref().unwrap_or(problem);
    let part = gather::ungathered(inputs, &groups)?;
    let unscattered = exchange::unscattered(part.as_ref().unwrap_or(inputs), &groups)?;
    let computed = unscattered.as_ref().or(part.as_ref()).or(parted.as_ref());
    if let Some(refused) =
        computed.into_iter().flat_map(|problem| check(setup, problem).diagnostics).find(is_error)
    {
        return Err(Box::new(refused));
    }
    let computed = computed.unwrap_or(problem);
    let mut builder = ContractionBuilder::new(setup, computed, verdict, options)?;
    // What DMA carries between groups is written before, padding too.
    // Loops that registers count write no more than there is.
    let dynamic = problem.axes.iter().any(|axis| axis.dynamic && axis.pes <= 1);
    builder.clears_out = part.as_ref().is_some_and(|part| dynamic || !gather::filled(part))
        || groups.team(problem) > 1 && (dynamic || !exchange::filled(computed));
    builder.before_bytes = Operand::ALL.map(|operand| replicated_inputs.before_bytes(operand));
    let splits = builder.dynamic.splits.clone();
    let (program, free_byte) = builder.program()?;
    let collectives = collectives(setup, (problem, part.as_ref()), &groups, &program, free_byte)?;
    GroupedEinsum {
        setup,
        problem,
        groups: &groups,
        collectives,
        replicated_inputs,
        splits,
        from_hbm: options.from_hbm,
    }
    .program(program)
}

/// What groups do with what the einsum of one of them computed: first teams add parts of sums, then parts of
/// the output are gathered.
fn collectives(
    setup: &Setup<'_>,
    (problem, part): (&Problem, Option<&Problem>),
    groups: &PeGroups,
    program: &Program,
    free_byte: u64,
) -> Result<GroupCollectives, Box<Diagnostic>> {
    let Some(Tensor { place: TensorPlace::Dm { base, .. }, .. }) = program.tensors.last() else {
        return Ok(GroupCollectives::default());
    };
    let sums = SumExchange::new(setup, part.unwrap_or(problem), groups, *base, free_byte)?;
    let (base, free_byte) =
        sums.as_ref().map_or((*base, free_byte), |sums| (sums.result_base, sums.end_byte()));
    let parts = match part {
        Some(part) => OutputGather::new(setup, (problem, part), groups, base, free_byte)?,
        None => None,
    };
    Ok(GroupCollectives { sums, parts })
}

fn is_error(found: &Diagnostic) -> bool {
    found.severity == Severity::Error
}

/// Adds to the verdict on a whole einsum (three shapes and a tactic) what only lowering finds: registers,
/// masks and drain orders that no command has.
pub fn confirm(setup: &Setup<'_>, problem: &Problem, verdict: &mut Verdict) {
    let whole = Operand::ALL.iter().all(|operand| problem.shape(*operand).is_some());
    if !whole || verdict.placed.is_none() || !verdict.legal() {
        return;
    }
    if let Err(refused) = lower(setup, problem, verdict, &LowerOptions::default()) {
        verdict.diagnostics.push(*refused);
    }
}
