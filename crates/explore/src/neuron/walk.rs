//! The NeuronCore as a target of the search: all tilings of a frame with their bounds, then their times, those with the least bounds first.

use tilewright_neuron_isa::Refusal as EngineRefusal;

use super::bound;
use super::count::{Totals, energy_fj};
use super::cut::Cut;
use super::point::{Choice, Copies, Drain, Frame, ORDERS, Plan, Side, Sums};
use super::room::check;
use super::space;
use super::table::{InputLoads, Stores, Table, Tiles, input_loads, stores};
use super::task::Task;
use super::timing::picoseconds;
use crate::refusal::{Reason, Refusal, Refusals};
use crate::search::Seen;
use crate::target::{Bound, Pick, Target};

/// Picoseconds of a second.
const PS_PER_S: u64 = 1_000_000_000_000;

impl Target for Task<'_> {
    type Frame = Frame;
    type Choice = Choice;

    fn ticks_per_s(&self) -> u64 {
        PS_PER_S
    }

    fn frames(&self, refused: &mut Refusals) -> Vec<Frame> {
        let mut frames = space::frames(self);
        frames.retain(|frame| {
            let legal = Tiles::new(self, frame).is_ok();
            if !legal {
                refused.add(Refusal { reason: Reason::Instruction, need: 1, have: 0 });
            }
            legal
        });
        frames
    }

    fn bound(&self, frame: &Frame) -> Bound {
        let bound = Tiles::new(self, frame).and_then(|tiles| bound::frame(self, frame, &tiles));
        bound.unwrap_or(Bound { ticks: 0, energy_fj: 0 })
    }

    fn walk(&self, frame: &Frame, seen: &mut Seen<'_, Choice>) {
        let Ok(transfers) = Transfers::new(self, frame) else {
            return seen.refuse(Refusal { reason: Reason::Instruction, need: 1, have: 0 }, 1);
        };
        let mut bounded = Vec::new();
        every(self, frame, &mut |plan| match check(self, plan) {
            Err(refusal) => seen.refuse(refusal, 1),
            Ok(_) => {
                let Some(table) = transfers.table(&plan.choice) else { return };
                let totals = Totals::new(self.chip, plan, &table);
                bounded.push((
                    bound::candidate(self, plan, &table, &totals),
                    (totals.dynamic_fj(), totals.hbm_bytes()),
                    plan.choice,
                ));
            }
        });
        let goal = seen.goal();
        let key = |bound: &Bound| goal.value(bound.ticks, bound.energy_fj);
        bounded.sort_by_key(|(bound, _, choice)| (key(bound), choice.code()));
        for (bound, (dynamic_fj, hbm_bytes), choice) in &bounded {
            if seen.enough() {
                return;
            }
            if seen.excludes(*bound) {
                continue;
            }
            let plan = Plan::new(self, frame, choice);
            let (Some(table), Ok(room)) = (transfers.table(choice), check(self, &plan)) else { continue };
            let ticks = picoseconds(self.chip, &plan, &table, room.slots, *hbm_bytes);
            seen.add(ticks, energy_fj(*dynamic_fj, table.tiles.idle_fj_per_ps, ticks), *choice);
        }
    }
}

/// Shows every tiling of a frame, those that do not fit included.
pub fn every(task: &Task<'_>, frame: &Frame, visit: &mut dyn FnMut(&Plan)) {
    let extents = task.extents(frame.stationary);
    let blocks = Side::ALL
        .map(|side| space::blocks(extents[side as usize].div_ceil(frame.tile[side as usize].max(1))));
    for summed in blocks[2].iter().rev() {
        for held in blocks[0].iter().rev() {
            for moving in blocks[1].iter().rev() {
                for order in 0..u8::try_from(ORDERS.len()).unwrap_or(0) {
                    let choice = Choice {
                        block: [*held, *moving, *summed],
                        order,
                        sums: Sums::Psum,
                        copies: Copies::Block,
                        buffers: 1,
                        drain: Drain::Vector,
                    };
                    let plan = Plan::new(task, frame, &choice);
                    if space::is_canonical(&plan) {
                        space::variants(&plan).for_each(|choice| visit(&Plan { choice, ..plan }));
                    }
                }
            }
        }
    }
}

/// What the transfers of all blocks of a frame take.
pub struct Transfers {
    tiles: Tiles,
    blocks: [Vec<u64>; 3],
    /// By input, way of copying, block along its own side, block along the sum.
    loads: [[Vec<InputLoads>; 2]; 2],
    stores: Vec<Stores>,
}

impl Transfers {
    /// Asks the engine.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn new(task: &Task<'_>, frame: &Frame) -> Result<Transfers, EngineRefusal> {
        let extents = task.extents(frame.stationary);
        let cut = |side: Side, block: u64| Cut {
            extent: extents[side as usize],
            tile: frame.tile[side as usize],
            block,
        };
        let blocks = Side::ALL.map(|side| space::blocks(cut(side, 1).tiles()));
        let mut loads: [[Vec<InputLoads>; 2]; 2] = Default::default();
        for (at, side) in [Side::Held, Side::Moving].into_iter().enumerate() {
            for (how, copies) in [Copies::Block, Copies::Tile].into_iter().enumerate() {
                for own in &blocks[at] {
                    for deep in &blocks[2] {
                        let (own, deep) = (cut(side, *own), cut(Side::Summed, *deep));
                        loads[at][how].push(input_loads(task, &own, &deep, copies)?);
                    }
                }
            }
        }
        let stores: Result<Vec<Stores>, EngineRefusal> = blocks[1]
            .iter()
            .map(|block| stores(task, &cut(Side::Held, 1), &cut(Side::Moving, *block)))
            .collect();
        Ok(Transfers { tiles: Tiles::new(task, frame)?, blocks, loads, stores: stores? })
    }

    /// What a candidate's instructions take; none if its blocks are not of this space.
    pub fn table(&self, choice: &Choice) -> Option<Table<'_>> {
        let place = |side: Side| {
            let wanted = choice.block[side as usize];
            self.blocks[side as usize].iter().position(|block| *block == wanted)
        };
        let (held, moving, deep) = (place(Side::Held)?, place(Side::Moving)?, place(Side::Summed)?);
        let how = choice.copies as usize;
        let load = |at: usize, own: usize| self.loads[at][how].get(own * self.blocks[2].len() + deep);
        Some(Table {
            tiles: &self.tiles,
            loads: [load(0, held)?, load(1, moving)?],
            stores: self.stores.get(moving)?,
        })
    }
}
