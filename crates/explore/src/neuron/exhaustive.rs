//! The same space without cleverness: every tiling, one after the other, each timed. The reference that the
//! search is compared with.

use super::cost_table::{CostTable, InputLoads, RowStores, TileCosts, input_loads, stores};
use super::count::{CandidateTotals, energy_fj};
use super::memory_use::check;
use super::point::{MatmulAxis, NeuronChoice, NeuronFrame, TilingPlan};
use super::task::NeuronTask;
use super::timing::picoseconds;
use super::walk::{FrameTransfers, every};
use crate::refusal::{CandidateRefusal, RefusalReason};

/// Takes a choice with its picoseconds and energy, or why it is refused.
pub type NeuronChoiceVisitor<'a> = dyn FnMut(&NeuronChoice, Result<(u64, u64), CandidateRefusal>) + 'a;

/// Calls `visit` with every choice of a frame and its time and energy, or why it is refused.
pub fn every_choice(task: &NeuronTask<'_>, frame: &NeuronFrame, visit: &mut NeuronChoiceVisitor<'_>) {
    let refused = CandidateRefusal { reason: RefusalReason::Instruction, need: 1, have: 0 };
    let transfers = FrameTransfers::new(task, frame).ok();
    every(task, frame, &mut |plan| {
        let evaluated = check(task, plan).and_then(|room| {
            let table = transfers.as_ref().and_then(|transfers| transfers.table(&plan.choice));
            Ok(timed(task, plan, &table.ok_or(refused)?, room.slots))
        });
        visit(&plan.choice, evaluated);
    });
}

fn timed(task: &NeuronTask<'_>, plan: &TilingPlan, table: &CostTable<'_>, slots: u64) -> (u64, u64) {
    let totals = CandidateTotals::new(task.chip, plan, table);
    let ticks = picoseconds(task.chip, plan, table, slots, totals.hbm_bytes());
    (ticks, energy_fj(totals.dynamic_fj(), table.tiles.idle_fj_per_ps, ticks))
}

/// What the instructions of one candidate take.
#[derive(Clone, Debug)]
pub struct CandidateCosts {
    tiles: TileCosts,
    loads: [InputLoads; 2],
    stores: RowStores,
}

impl CandidateCosts {
    /// Asks the engine; none if it refuses.
    pub fn new(task: &NeuronTask<'_>, plan: &TilingPlan) -> Option<CandidateCosts> {
        let load = |side: MatmulAxis| {
            input_loads(task, plan.cut(side), plan.cut(MatmulAxis::Summed), plan.choice.copies).ok()
        };
        Some(CandidateCosts {
            tiles: TileCosts::new(task, &plan.frame).ok()?,
            loads: [load(MatmulAxis::Held)?, load(MatmulAxis::Moving)?],
            stores: stores(task, plan.cut(MatmulAxis::Held), plan.cut(MatmulAxis::Moving)).ok()?,
        })
    }

    /// As the cost asks for it.
    pub fn table(&self) -> CostTable<'_> {
        CostTable { tiles: &self.tiles, loads: [&self.loads[0], &self.loads[1]], stores: &self.stores }
    }
}

/// Picoseconds and energy of one candidate.
///
/// # Errors
/// The first rule that it breaks.
pub fn evaluate(task: &NeuronTask<'_>, plan: &TilingPlan) -> Result<(u64, u64), CandidateRefusal> {
    let room = check(task, plan)?;
    let refused = CandidateRefusal { reason: RefusalReason::Instruction, need: 1, have: 0 };
    let asked = CandidateCosts::new(task, plan).ok_or(refused)?;
    Ok(timed(task, plan, &asked.table(), room.slots))
}
