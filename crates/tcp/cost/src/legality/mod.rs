//! Whether lowered shapes and a tactic can run on a machine: the paper's rules, one file each.
//!
//! | rule | file |
//! |---|---|
//! | digits form a mixed radix | `tilewright_notation::radix` |
//! | slices | [`slices`] |
//! | capacities of DM, TRF, VRF | [`capacity`] |
//! | coverage, roles of digits, lanes, packet, accumulators | `tilewright_notation::radix`, [`roles`] |
//! | operands where the tactic needs them | [`supply`] |
//! | windows within a slice | [`windows`] |
//! | sequencer entries | [`sequences`] |
//! | where the output may go | [`output`] |
//! | banks | [`sequences`] |

mod capacity;
pub mod memory;
mod output;
mod roles;
mod sequences;
mod slice_pieces;
mod slices;
mod supply;
mod verdict;
mod windows;

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::radix;
use tilewright_notation::reuse::Reuse;
use tilewright_notation::syntax::ast::Operand;

pub use verdict::{AddressLoops, Delivery, FreedSlices, SliceReduction, Verdict};

use crate::placed_tactic::PlacedTactic;
use crate::setup::Setup;

/// Checks everything that is given; shapes and tactic may be left out.
pub fn check(setup: &Setup<'_>, problem: &Problem) -> Verdict {
    check_placement(setup, problem, radix::check(problem))
}

/// What [`check`] does for a problem whose digits were checked before: `digits` is what `radix::check` said
/// of them.
pub fn check_placement(setup: &Setup<'_>, problem: &Problem, digits: Vec<Diagnostic>) -> Verdict {
    let mut verdict = Verdict { diagnostics: digits, ..Verdict::default() };
    slices::check(setup, problem, &mut verdict);
    capacity::check(setup, problem, &mut verdict);
    windows::check(problem, &mut verdict);
    if !verdict.legal() {
        return verdict;
    }
    let Some(tactic) = &problem.tactic else { return verdict };
    let multicast = supply::check(problem, &tactic.parallel, &mut verdict);
    if commits_directly(problem, &mut verdict) {
        output::check(problem, &tactic.parallel, &mut verdict);
    }
    if !problem.contracts_two() {
        roles::check_one_input(problem, tactic, &mut verdict);
        return verdict;
    }
    let placed = PlacedTactic::new(setup, problem, tactic);
    roles::check(setup, problem, &placed, &mut verdict);
    sequences::check(setup, problem, &placed, &mut verdict);
    verdict.reuse =
        Some(Reuse::of_stream(problem, problem.streamed(), &multicast, &placed.time, &placed.lanes));
    verdict.placed = Some(placed);
    verdict
}

/// Whether the output's shape is what the slices commit. It is not if PEs exchange parts of the result first,
/// which only partial sums over PEs make them do.
fn commits_directly(problem: &Problem, verdict: &mut Verdict) -> bool {
    let narrower =
        |id: &AxisId| problem.axis(*id).extent_in[Operand::Out as usize] < problem.axis(*id).extent;
    let Some(axis) = problem.tensor(Operand::Out).iter().find(|id| narrower(id)) else { return true };
    let partial = problem.axis_ids().any(|id| problem.contracted(id) && problem.axis(id).pes > 1);
    if !partial {
        let name = problem.axis(*axis).name;
        verdict.diagnostics.push(
            Diagnostic::error(
                "tcp/pes",
                format!("the output splits axis `{name}` over PEs and no input does"),
            )
            .at(problem.axis(*axis).span, "every PE computes all of it")
            .allowed("a split that an input has, or partial sums over PEs to be scattered")
            .instead(format!("`{name}` with the same subscript in the input that has it")),
        );
    }
    false
}
