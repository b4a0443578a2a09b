//! The same space without cleverness: every choice of a frame, one after the other, each asked every
//! question. The reference that the search is compared with.

use tilewright_base::invariant::OrBroken;
use tilewright_tcp_cost::energy::energy_fj;

use crate::cost_math::CostMath;
use crate::refusal::CandidateRefusal;
use crate::tcp::cost::{CandidateCommands, columns};
use crate::tcp::events::{counts, energy};
use crate::tcp::legality::{check_banks, check_loading, check_sizes};
use crate::tcp::nest::FrameContext;
use crate::tcp::operand_transfers::{TransferMemo, brought};
use crate::tcp::point::{LoadContext, LoopNest, ORDERS, TcpChoice};
use crate::tcp::space;
use crate::tcp::task::TcpTask;

/// Takes a choice with its cycles and energy, or why it is refused.
pub type TcpChoiceVisitor<'a> = dyn FnMut(&TcpChoice, Result<(u64, u64), CandidateRefusal>) + 'a;

/// Calls `visit` with every choice of a frame and its cycles and energy, or why it is refused.
pub fn every_choice(task: &TcpTask<'_>, framed: &FrameContext, visit: &mut TcpChoiceVisitor<'_>) {
    let setup = &task.setup;
    let mut all = ExhaustiveWalk { task, framed, memo: TransferMemo::new(), visit };
    for lanes in space::lanes(setup) {
        for columns in space::columns(setup, framed) {
            for tree in space::trees(setup, framed, columns) {
                for repeats in space::repeats(framed, lanes) {
                    for supply in space::supplies(framed) {
                        let choice =
                            TcpChoice { lanes, columns, tree, repeats, supply: *supply, ..TcpChoice::open() };
                        all.in_every_order(choice);
                    }
                }
            }
        }
    }
}

/// What goes through all choices.
struct ExhaustiveWalk<'a, 'v> {
    task: &'a TcpTask<'a>,
    framed: &'a FrameContext,
    /// Transfers are asked about once each; they are the slow part.
    memo: TransferMemo,
    visit: &'a mut TcpChoiceVisitor<'v>,
}

impl ExhaustiveWalk<'_, '_> {
    fn in_every_order(&mut self, choice: TcpChoice) {
        let nest = match self.framed.nest(&choice) {
            Ok(nest) => nest,
            Err(refusal) => return (self.visit)(&choice, Err(refusal)),
        };
        let orders = 0..u8::try_from(ORDERS.len()).or_broken("orders have numbers of a byte");
        for order in orders.filter(|order| space::is_canonical(&nest, *order, choice.supply)) {
            for drain in space::drains(&nest) {
                self.in_every_width(&nest, TcpChoice { order, drain, ..choice });
            }
        }
    }

    fn in_every_width(&mut self, nest: &LoopNest, choice: TcpChoice) {
        let setup = &self.task.setup;
        for fetch_bytes in space::fetch_widths(setup, nest) {
            for commit_bytes in space::commit_widths(setup, nest, choice.drain) {
                for loading in [LoadContext::Main, LoadContext::Sub] {
                    let choice = TcpChoice { fetch_bytes, commit_bytes, loading, ..choice };
                    let evaluated = evaluate(self.task, self.framed, &choice, &mut self.memo);
                    (self.visit)(&choice, evaluated);
                }
            }
        }
    }
}

/// Cycles and energy of one candidate.
///
/// # Errors
/// The first rule that it breaks.
pub fn evaluate(
    task: &TcpTask<'_>,
    framed: &FrameContext,
    choice: &TcpChoice,
    memo: &mut TransferMemo,
) -> Result<(u64, u64), CandidateRefusal> {
    let setup = &task.setup;
    let nest = framed.nest(choice)?;
    check_sizes(setup, &nest, choice.supply)?;
    let commands = CandidateCommands::new(setup, &nest, choice)?;
    check_banks(setup, &nest, choice)?;
    check_loading(&nest, choice.loading)?;
    let brought = brought(task, framed, &nest, memo)?;
    let (frame, parts) = (&framed.frame, framed.frame.commands());
    let cycles = columns(setup, &commands, parts, (&brought, brought.all_cycles(task, frame))).cycles;
    let parts_fj = energy(setup, &counts(setup, &nest, choice, &commands), cycles, parts);
    let brought_fj = energy_fj(setup.machine, &brought.all_counts(task, frame));
    Ok((cycles, parts_fj.iter().chain(&brought_fj).fold(0, |all: u64, part| all.plus_cost(*part))))
}
