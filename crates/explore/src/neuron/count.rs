//! How many instructions of each kind a candidate has, and what they take together: busy time of each engine,
//! queue time, bytes, energy.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::Chip;
use tilewright_neuron_sim::schedule::dma::{issue_interval_ps, queue_of};

use super::blocked_axis::BlockedAxis;
use super::cost_table::{CostTable, InputLoads, kind};
use super::instruction_cost::{DrainStep, IDLE, InstructionCost, PARTS};
use super::point::{DrainEngine, MatmulAxis, TilingPlan};

/// Line of a load of the stationary operand, of the moving one, and of stores: each may have a queue of its
/// own.
pub const LINES: [u32; 3] = [0, 1, 2];

/// Sums over all instructions of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CandidateTotals {
    /// The tensor engine.
    pub tensor_ps: u64,
    /// Engines that take results out of PSUM: Vector and Scalar.
    pub drain_ps: [u64; 2],
    /// Queues of loads: copies a fixed time apart.
    pub load_queue_ps: [u64; 2],
    /// The queue of stores.
    pub store_queue_ps: u64,
    /// DMA engines, loads: time of all engines together.
    pub load_engines_ps: u64,
    /// Bytes read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM.
    pub hbm_written_bytes: u64,
    /// Matmul instructions.
    pub matmuls: u64,
    /// Tiles that leave PSUM.
    pub leaves: u64,
    /// Copies from HBM: of the stationary operand, of the moving one.
    pub load_copies: [u64; 2],
    /// Copies to HBM.
    pub store_copies: u64,
    /// Contiguous runs of all copies.
    pub descriptors: u64,
    /// Energy by component, without what the core takes whatever it does.
    pub fj: [f64; PARTS],
}

impl CandidateTotals {
    /// Counts all instructions of a candidate.
    pub fn new(chip: &Chip, plan: &TilingPlan, table: &CostTable<'_>) -> CandidateTotals {
        let mut totals = CandidateTotals::default();
        totals.tiles(plan, table);
        for (at, side) in [MatmulAxis::Held, MatmulAxis::Moving].into_iter().enumerate() {
            totals.loads(chip, plan, (at, side), table.loads[at]);
        }
        totals.stores(chip, plan, table);
        totals
    }

    /// Bytes that HBM reads and writes.
    pub fn hbm_bytes(&self) -> u64 {
        self.hbm_read_bytes.exact_add(self.hbm_written_bytes)
    }

    /// Energy without the idle part.
    pub fn dynamic_fj(&self) -> f64 {
        self.fj.iter().take(IDLE).sum()
    }

    fn energy(&mut self, facts: &InstructionCost, count: f64) {
        for (sum, part) in self.fj.iter_mut().zip(facts.fj) {
            *sum += part * count;
        }
    }

    fn tiles(&mut self, plan: &TilingPlan, table: &CostTable<'_>) {
        let [held, moving, summed] = plan.cuts;
        let blocks = if plan.adds() { summed.blocks() } else { 1 };
        // A sum begins with a short tile only where the last block is one.
        let begins_short = plan.adds()
            && summed.block_tiles(summed.blocks() - 1) == 1
            && summed.is_short(summed.blocks() - 1, 0);
        for (h, rows) in held.counts().into_iter().enumerate() {
            for (m, columns) in moving.counts().into_iter().enumerate() {
                let results = rows.exact_mul(columns).exact_mul(plan.batch);
                if results == 0 {
                    continue;
                }
                for (s, deep) in summed.counts().into_iter().enumerate() {
                    let firsts =
                        if s == 1 { u64::from(begins_short) } else { blocks - u64::from(begins_short) };
                    let firsts = results.exact_mul(firsts.min(deep));
                    let all = results.exact_mul(deep);
                    let facts = &table.tiles.matmul[h][m][s];
                    self.tensor_ps = self.tensor_ps.exact_add(facts[0].busy_ps.exact_mul(all));
                    self.matmuls = self.matmuls.exact_add(all);
                    self.energy(&facts[0], real(firsts));
                    self.energy(&facts[1], real(all - firsts));
                }
                self.leaves(plan, table, (h, m), results);
            }
        }
    }

    fn leaves(&mut self, plan: &TilingPlan, table: &CostTable<'_>, (h, m): (usize, usize), results: u64) {
        let facts = &table.tiles.leave[h][m];
        if plan.adds() {
            let middle = plan.cut(MatmulAxis::Summed).blocks() - 2;
            for (how, times) in [(DrainStep::First, 1), (DrainStep::Add, middle), (DrainStep::Last, 1)] {
                let count = results.exact_mul(times);
                let one = &facts[how as usize][0];
                self.drain_ps[0] = self.drain_ps[0].exact_add(one.busy_ps.exact_mul(count));
                self.leaves = self.leaves.exact_add(count);
                self.energy(one, real(count));
            }
            return;
        }
        let [vector, scalar] = &facts[DrainStep::Whole as usize];
        let parts = match plan.choice.drain {
            DrainEngine::Vector => [1.0, 0.0],
            DrainEngine::Scalar => [0.0, 1.0],
            DrainEngine::Both => [0.5, 0.5],
        };
        self.leaves = self.leaves.exact_add(results);
        for (at, one) in [vector, scalar].into_iter().enumerate() {
            self.energy(one, real(results) * parts[at]);
            let busy = if parts[at] < 1.0 { one.busy_ps / 2 } else { one.busy_ps };
            let busy = if parts[at] > 0.0 { busy.exact_mul(results) } else { 0 };
            self.drain_ps[at] = self.drain_ps[at].exact_add(busy);
        }
    }

    fn loads(&mut self, chip: &Chip, plan: &TilingPlan, (at, side): (usize, MatmulAxis), loads: &InputLoads) {
        let (free, summed) = (plan.cut(side), plan.cut(MatmulAxis::Summed));
        let pairs = free.blocks().exact_mul(summed.blocks()).max(1);
        let times = plan.loads(side) / pairs;
        let queue = queue_of(chip, LINES[at]);
        let engines = chip.neuron.dma.engines_per_core.max(1);
        for (free_block, free_count) in free.kinds() {
            for (summed_block, summed_count) in summed.kinds() {
                let block = &loads[kind(free, free_block)][kind(summed, summed_block)];
                let blocks = times.exact_mul(free_count).exact_mul(summed_count);
                for (facts, copies) in [(Some(&block.main), block.copies), (block.short.as_ref(), 1)] {
                    let Some(facts) = facts.filter(|_| copies > 0) else { continue };
                    let count = blocks.exact_mul(copies);
                    let apart = issue_interval_ps(chip, facts.dma.data_ps).exact_mul(count);
                    self.load_queue_ps[queue.min(1)] = self.load_queue_ps[queue.min(1)].exact_add(apart);
                    let used = u64::from(facts.dma.engines).min(engines);
                    let data = facts.dma.data_ps.exact_mul(used).exact_mul(count);
                    self.load_engines_ps = self.load_engines_ps.exact_add(data);
                    self.hbm_read_bytes =
                        self.hbm_read_bytes.exact_add(facts.hbm_read_bytes.exact_mul(count));
                    self.load_copies[at] = self.load_copies[at].exact_add(count);
                    self.descriptors = self.descriptors.exact_add(facts.dma.descriptors.exact_mul(count));
                    self.energy(facts, real(count));
                }
            }
        }
    }

    fn stores(&mut self, chip: &Chip, plan: &TilingPlan, table: &CostTable<'_>) {
        let moving: &BlockedAxis = plan.cut(MatmulAxis::Moving);
        for (short, rows) in plan.cut(MatmulAxis::Held).counts().into_iter().enumerate() {
            for (block, blocks) in moving.kinds() {
                let count = rows.exact_mul(blocks).exact_mul(plan.batch);
                let facts = &table.stores[short][kind(moving, block)];
                if count == 0 {
                    continue;
                }
                let apart = issue_interval_ps(chip, facts.dma.data_ps).exact_mul(count);
                self.store_queue_ps = self.store_queue_ps.exact_add(apart);
                self.hbm_written_bytes =
                    self.hbm_written_bytes.exact_add(facts.hbm_written_bytes.exact_mul(count));
                self.store_copies = self.store_copies.exact_add(count);
                self.descriptors = self.descriptors.exact_add(facts.dma.descriptors.exact_mul(count));
                self.energy(facts, real(count));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

/// Energy as the search compares it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
pub fn whole_fj(fj: f64) -> u64 {
    fj.round() as u64
}

/// Energy of a candidate that takes so long.
#[expect(clippy::cast_precision_loss, reason = "times below 2^53 ps, which is two hours")]
pub fn energy_fj(dynamic_fj: f64, idle_fj_per_ps: f64, ticks: u64) -> u64 {
    whole_fj(dynamic_fj + idle_fj_per_ps * ticks as f64)
}
