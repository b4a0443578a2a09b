//! The same space without cleverness: every tiling in turn, each timed. The judge of the search.

use super::count::{Totals, energy_fj};
use super::point::{Choice, Frame, Plan, Side};
use super::room::check;
use super::table::{InputLoads, Stores, Table, Tiles, input_loads, stores};
use super::task::Task;
use super::timing::picoseconds;
use super::walk::{Transfers, every};
use crate::refusal::{Reason, Refusal};

/// Takes a choice with its picoseconds and energy, or why it is refused.
pub type Visit<'a> = dyn FnMut(&Choice, Result<(u64, u64), Refusal>) + 'a;

/// Calls `visit` with every choice of a frame and its time and energy, or why it is refused.
pub fn every_choice(task: &Task<'_>, frame: &Frame, visit: &mut Visit<'_>) {
    let refused = Refusal { reason: Reason::Instruction, need: 1, have: 0 };
    let transfers = Transfers::new(task, frame).ok();
    every(task, frame, &mut |plan| {
        let judged = check(task, plan).and_then(|room| {
            let table = transfers.as_ref().and_then(|transfers| transfers.table(&plan.choice));
            Ok(timed(task, plan, &table.ok_or(refused)?, room.slots))
        });
        visit(&plan.choice, judged);
    });
}

fn timed(task: &Task<'_>, plan: &Plan, table: &Table<'_>, slots: u64) -> (u64, u64) {
    let totals = Totals::new(task.chip, plan, table);
    let ticks = picoseconds(task.chip, plan, table, slots, totals.hbm_bytes());
    (ticks, energy_fj(totals.dynamic_fj(), table.tiles.idle_fj_per_ps, ticks))
}

/// What the instructions of one candidate take.
#[derive(Clone, Debug)]
pub struct Asked {
    tiles: Tiles,
    loads: [InputLoads; 2],
    stores: Stores,
}

impl Asked {
    /// Asks the engine; none if it refuses.
    pub fn new(task: &Task<'_>, plan: &Plan) -> Option<Asked> {
        let load =
            |side: Side| input_loads(task, plan.cut(side), plan.cut(Side::Summed), plan.choice.copies).ok();
        Some(Asked {
            tiles: Tiles::new(task, &plan.frame).ok()?,
            loads: [load(Side::Held)?, load(Side::Moving)?],
            stores: stores(task, plan.cut(Side::Held), plan.cut(Side::Moving)).ok()?,
        })
    }

    /// As the cost asks for it.
    pub fn table(&self) -> Table<'_> {
        Table { tiles: &self.tiles, loads: [&self.loads[0], &self.loads[1]], stores: &self.stores }
    }
}

/// Picoseconds and energy of one candidate.
///
/// # Errors
/// The first rule that it breaks.
pub fn judge(task: &Task<'_>, plan: &Plan) -> Result<(u64, u64), Refusal> {
    let room = check(task, plan)?;
    let refused = Refusal { reason: Reason::Instruction, need: 1, have: 0 };
    let asked = Asked::new(task, plan).ok_or(refused)?;
    Ok(timed(task, plan, &asked.table(), room.slots))
}
