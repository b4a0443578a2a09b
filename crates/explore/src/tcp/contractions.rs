//! Contractions of a task's candidates by themselves: what one takes without the overhead of its command and
//! beside the load of its register files, as the paper's figures 14 and 15 show tactics. Stages, events and
//! energies are those that the search uses; nothing is counted anew.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_tcp_cost::cycles::{PipelineStage, command_cycles};
use tilewright_tcp_cost::energy::energy_fj;

use crate::cost_math::CostMath;
use crate::refusal::CandidateRefusal;
use crate::tcp::cost::{CandidateCommands, StageCycles, bridges, columns};
use crate::tcp::events::{cycle_fj, of_contraction};
use crate::tcp::legality::{check_banks, check_loading, check_sizes};
use crate::tcp::nest::FrameContext;
use crate::tcp::operand_transfers::OperandTransfers;
use crate::tcp::point::{LoadContext, LoopNest, ORDERS, TcpChoice, TcpFrame};
use crate::tcp::space;
use crate::tcp::task::TcpTask;

/// What a contraction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionCost {
    /// Cycles of its slowest stage.
    pub slowest_cycles: u64,
    /// Cycles from its first fetch to its last write: the slowest stage, and what does not overlap with it.
    pub cycles: u64,
    /// Events, and clock and leakage of the group's slices for these cycles.
    pub energy_fj: u64,
}

/// Calls `visit` with every legal contraction that covers the task in one command on all slices: results are
/// written as wide as they can be, the sub context loads where it may.
pub fn every_contraction(
    task: &TcpTask<'_>,
    visit: &mut dyn FnMut(&FrameContext, &TcpChoice, &ContractionCost),
) {
    let all = task.setup.slices();
    let whole = |frame: &&TcpFrame| frame.commands() == 1 && frame.slices() == all;
    for frame in space::frames(task).iter().filter(whole) {
        let framed = FrameContext::new(task, frame);
        every_choice(task, &framed, &mut |choice| {
            if let Ok(cost) = cost(task, &framed, choice) {
                visit(&framed, choice, &cost);
            }
        });
    }
}

fn every_choice(task: &TcpTask<'_>, framed: &FrameContext, visit: &mut dyn FnMut(&TcpChoice)) {
    let setup = &task.setup;
    for lanes in space::lanes(setup) {
        for columns in space::columns(setup, framed) {
            for tree in space::trees(setup, framed, columns) {
                for repeats in space::repeats(framed, lanes) {
                    for supply in space::supplies(framed) {
                        let choice =
                            TcpChoice { lanes, columns, tree, repeats, supply: *supply, ..TcpChoice::open() };
                        if let Ok(nest) = framed.nest(&choice)
                            && !bridges(&nest)
                            && check_sizes(setup, &nest, *supply).is_ok()
                        {
                            in_every_order(task, &nest, choice, visit);
                        }
                    }
                }
            }
        }
    }
}

fn in_every_order(task: &TcpTask<'_>, nest: &LoopNest, choice: TcpChoice, visit: &mut dyn FnMut(&TcpChoice)) {
    let setup = &task.setup;
    let orders = 0..u8::try_from(ORDERS.len()).or_broken("orders have numbers of a byte");
    let loads = [LoadContext::Sub, LoadContext::Main];
    let Some(loading) = loads.into_iter().find(|loading| check_loading(nest, *loading).is_ok()) else {
        return;
    };
    for order in orders.filter(|order| space::is_canonical(nest, *order, choice.supply)) {
        for drain in space::drains(nest) {
            let Some(commit_bytes) = space::commit_widths(setup, nest, drain).max() else { continue };
            for fetch_bytes in space::fetch_widths(setup, nest) {
                visit(&TcpChoice { order, drain, fetch_bytes, commit_bytes, loading, ..choice });
            }
        }
    }
}

/// What the contraction of a candidate takes.
///
/// # Errors
/// The first rule that it breaks.
pub fn cost(
    task: &TcpTask<'_>,
    framed: &FrameContext,
    choice: &TcpChoice,
) -> Result<ContractionCost, CandidateRefusal> {
    let setup = &task.setup;
    let nest = framed.nest(choice)?;
    check_sizes(setup, &nest, choice.supply)?;
    let commands = CandidateCommands::new(setup, &nest, choice)?;
    check_banks(setup, &nest, choice)?;
    check_loading(&nest, choice.loading)?;
    let taken = command_cycles(setup.machine, &commands.contract);
    let slowest = |stage: PipelineStage| taken.stream_cycles[stage as usize];
    let cycles = taken.total_cycles.exact_sub(taken.overhead_cycles);
    let events = energy_fj(setup.machine, &of_contraction(setup, &nest, choice, &commands));
    let events_fj = events.iter().fold(0, |all: u64, part| all.plus_cost(*part));
    Ok(ContractionCost {
        slowest_cycles: slowest(taken.binding),
        cycles,
        energy_fj: events_fj.plus_cost(cycle_fj(setup).times_cost(cycles)),
    })
}

/// Cycles of a contraction's stages.
///
/// # Errors
/// More open sums than the accumulators hold.
pub fn stages(
    task: &TcpTask<'_>,
    framed: &FrameContext,
    choice: &TcpChoice,
) -> Result<StageCycles, CandidateRefusal> {
    let commands = CandidateCommands::new(&task.setup, &framed.nest(choice)?, choice)?;
    Ok(columns(&task.setup, &commands, 1, (&OperandTransfers::default(), 0)))
}
