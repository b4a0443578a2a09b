//! The NeuronCore as a target of the search: all tilings of a frame with their bounds, then their times,
//! those with the least bounds first.

use tilewright_base::invariant::OrBroken;
use tilewright_neuron_isa::Refusal as EngineRefusal;

use super::blocked_axis::BlockedAxis;
use super::bound;
use super::cost_table::{CostTable, InputLoads, RowStores, TileCosts, input_loads, stores};
use super::count::{CandidateTotals, energy_fj};
use super::memory_use::check;
use super::point::{
    BlockCopies, DrainEngine, MatmulAxis, NeuronChoice, NeuronFrame, ORDERS, PartialSums, TilingPlan,
};
use super::space;
use super::task::NeuronTask;
use super::timing::picoseconds;
use crate::refusal::{CandidateRefusal, RefusalCounts, RefusalReason};
use crate::search::FrameVisitor;
use crate::target::{CostBound, SearchTarget, TargetChoice};

/// Picoseconds of a second.
const PS_PER_S: u64 = 1_000_000_000_000;

impl SearchTarget for NeuronTask<'_> {
    type Frame = NeuronFrame;
    type Choice = NeuronChoice;

    fn ticks_per_s(&self) -> u64 {
        PS_PER_S
    }

    fn frames(&self, refused: &mut RefusalCounts) -> Vec<NeuronFrame> {
        let mut frames = space::frames(self);
        frames.retain(|frame| {
            let legal = TileCosts::new(self, frame).is_ok();
            if !legal {
                refused.add(CandidateRefusal { reason: RefusalReason::Instruction, need: 1, have: 0 });
            }
            legal
        });
        frames
    }

    fn bound(&self, frame: &NeuronFrame) -> CostBound {
        let bound = TileCosts::new(self, frame).and_then(|tiles| bound::frame(self, frame, &tiles));
        bound.unwrap_or(CostBound { ticks: 0, energy_fj: 0 })
    }

    fn walk(&self, frame: &NeuronFrame, seen: &mut FrameVisitor<'_, NeuronChoice>) {
        let Ok(transfers) = FrameTransfers::new(self, frame) else {
            return seen.refuse(CandidateRefusal { reason: RefusalReason::Instruction, need: 1, have: 0 }, 1);
        };
        let mut bounded = Vec::new();
        every(self, frame, &mut |plan| match check(self, plan) {
            Err(refusal) => seen.refuse(refusal, 1),
            Ok(_) => {
                let Some(table) = transfers.table(&plan.choice) else { return };
                let totals = CandidateTotals::new(self.chip, plan, &table);
                bounded.push((
                    bound::candidate(self, plan, &table, &totals),
                    (totals.dynamic_fj(), totals.hbm_bytes()),
                    plan.choice,
                ));
            }
        });
        let goal = seen.goal();
        let key = |bound: &CostBound| goal.value(bound.ticks, bound.energy_fj);
        bounded.sort_by_key(|(bound, _, choice)| (key(bound), choice.code()));
        for (bound, (dynamic_fj, hbm_bytes), choice) in &bounded {
            if seen.enough() {
                return;
            }
            if seen.excludes(*bound) {
                continue;
            }
            let plan = TilingPlan::new(self, frame, choice);
            let (Some(table), Ok(room)) = (transfers.table(choice), check(self, &plan)) else { continue };
            let ticks = picoseconds(self.chip, &plan, &table, room.slots, *hbm_bytes);
            seen.add(ticks, energy_fj(*dynamic_fj, table.tiles.idle_fj_per_ps, ticks), *choice);
        }
    }
}

/// Shows every tiling of a frame, those that do not fit included.
pub fn every(task: &NeuronTask<'_>, frame: &NeuronFrame, visit: &mut dyn FnMut(&TilingPlan)) {
    let extents = task.extents(frame.stationary);
    let blocks = MatmulAxis::ALL
        .map(|side| space::blocks(extents[side as usize].div_ceil(frame.tile[side as usize].max(1))));
    for summed in blocks[2].iter().rev() {
        for held in blocks[0].iter().rev() {
            for moving in blocks[1].iter().rev() {
                for order in 0..u8::try_from(ORDERS.len()).or_broken("orders have numbers of a byte") {
                    let choice = NeuronChoice {
                        block: [*held, *moving, *summed],
                        order,
                        sums: PartialSums::Psum,
                        copies: BlockCopies::Block,
                        buffers: 1,
                        drain: DrainEngine::Vector,
                    };
                    let plan = TilingPlan::new(task, frame, &choice);
                    if space::is_canonical(&plan) {
                        space::variants(&plan).for_each(|choice| visit(&TilingPlan { choice, ..plan }));
                    }
                }
            }
        }
    }
}

/// What the transfers of all blocks of a frame take.
pub struct FrameTransfers {
    tiles: TileCosts,
    blocks: [Vec<u64>; 3],
    /// By input, way of copying, block along its own side, block along the sum.
    loads: [[Vec<InputLoads>; 2]; 2],
    stores: Vec<RowStores>,
}

impl FrameTransfers {
    /// Asks the engine.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn new(task: &NeuronTask<'_>, frame: &NeuronFrame) -> Result<FrameTransfers, EngineRefusal> {
        let extents = task.extents(frame.stationary);
        let cut = |side: MatmulAxis, block: u64| BlockedAxis {
            extent: extents[side as usize],
            tile: frame.tile[side as usize],
            block,
        };
        let blocks = MatmulAxis::ALL.map(|side| space::blocks(cut(side, 1).tiles()));
        let mut loads: [[Vec<InputLoads>; 2]; 2] = Default::default();
        for (at, side) in [MatmulAxis::Held, MatmulAxis::Moving].into_iter().enumerate() {
            for (how, copies) in [BlockCopies::Block, BlockCopies::Tile].into_iter().enumerate() {
                for own in &blocks[at] {
                    for deep in &blocks[2] {
                        let (own, deep) = (cut(side, *own), cut(MatmulAxis::Summed, *deep));
                        loads[at][how].push(input_loads(task, &own, &deep, copies)?);
                    }
                }
            }
        }
        let stores: Result<Vec<RowStores>, EngineRefusal> = blocks[1]
            .iter()
            .map(|block| stores(task, &cut(MatmulAxis::Held, 1), &cut(MatmulAxis::Moving, *block)))
            .collect();
        Ok(FrameTransfers { tiles: TileCosts::new(task, frame)?, blocks, loads, stores: stores? })
    }

    /// What a candidate's instructions take; none if its blocks are not of this space.
    pub fn table(&self, choice: &NeuronChoice) -> Option<CostTable<'_>> {
        let place = |side: MatmulAxis| {
            let wanted = choice.block[side as usize];
            self.blocks[side as usize].iter().position(|block| *block == wanted)
        };
        let (held, moving, deep) =
            (place(MatmulAxis::Held)?, place(MatmulAxis::Moving)?, place(MatmulAxis::Summed)?);
        let how = choice.copies as usize;
        let load = |at: usize, own: usize| self.loads[at][how].get(own * self.blocks[2].len() + deep);
        Some(CostTable {
            tiles: &self.tiles,
            loads: [load(0, held)?, load(1, moving)?],
            stores: self.stores.get(moving)?,
        })
    }
}
