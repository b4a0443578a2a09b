//! What candidates take at least.
//!
//! Every engine and queue is busy for the sum of what it has to do; before the tensor engine starts, a tile
//! of each input must have come, and after it ends, the last results must leave. Where an input has room for
//! one block only, the tensor engine waits while the next one comes.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::chip::{bytes_ps, hbm_ps};
use tilewright_neuron_isa::{EngineKind, Refusal};
use tilewright_neuron_sim::schedule::dma::{issue_interval_ps, queue_of, start_latency_ps};
use tilewright_neuron_sim::schedule::hop_ps;

use super::blocked_axis::BlockedAxis;
use super::cost_table::{CostTable, TileCosts};
use super::count::{CandidateTotals, LINES, energy_fj};
use super::instruction_cost::{DrainStep, InstructionCost, load, store};
use super::point::{BlockCopies, DrainEngine, MatmulAxis, NeuronFrame, TilingPlan};
use super::task::NeuronTask;
use crate::target::CostBound;

/// Times at both ends of a program, and of hops.
struct EdgeTimes {
    start_latency_ps: u64,
    hop_ps: u64,
    arrival_ps: u64,
}

impl EdgeTimes {
    fn new(task: &NeuronTask<'_>) -> EdgeTimes {
        EdgeTimes {
            start_latency_ps: start_latency_ps(task.chip),
            hop_ps: hop_ps(task.chip, EngineKind::Tensor, EngineKind::Vector),
            arrival_ps: hop_ps(task.chip, EngineKind::Dma, EngineKind::Tensor),
        }
    }

    /// From the end of the tensor engine, or of whoever drains, to results in HBM.
    fn tail_ps(&self, tiles: &TileCosts, store_ps: u64) -> u64 {
        let all = tiles.leave.iter().flatten().flatten().flatten();
        let leave = all.map(|facts| facts.busy_ps + facts.latency_ps);
        let last = [self.hop_ps, leave.min().unwrap_or(0), self.hop_ps, self.start_latency_ps, store_ps];
        last.into_iter().fold(0, u64::exact_add)
    }
}

fn least_matmul(tiles: &TileCosts) -> InstructionCost {
    let all = tiles.matmul.iter().flatten().flatten().map(|facts| facts[0]);
    all.min_by_key(|facts| facts.busy_ps).unwrap_or_default()
}

/// The bound of one candidate.
pub fn candidate(
    task: &NeuronTask<'_>,
    plan: &TilingPlan,
    table: &CostTable<'_>,
    totals: &CandidateTotals,
) -> CostBound {
    let ends = EdgeTimes::new(task);
    let chip = task.chip;
    let [held, moving] = [0, 1].map(|at| table.loads[at][0][0].first().dma.data_ps);
    let together = queue_of(chip, LINES[0]) == queue_of(chip, LINES[1]);
    let second = if together { issue_interval_ps(chip, held) } else { 0 };
    let head_ps = ends.start_latency_ps + ends.arrival_ps + (second + moving).max(held);
    let store_ps =
        table.stores.iter().flatten().filter(|facts| facts.dma.bytes > 0).map(|facts| facts.dma.data_ps);
    let store_ps = store_ps.min().unwrap_or(0);
    let tail_ps = ends.tail_ps(table.tiles, store_ps);
    let matmul = least_matmul(table.tiles);
    let tensor = head_ps + totals.tensor_ps + waits_ps(plan, table, &ends) + matmul.latency_ps + tail_ps;
    // The last copy of a queue only has to come; its queue need not wait for it.
    let after = ends.start_latency_ps + ends.arrival_ps + matmul.busy_ps + matmul.latency_ps + tail_ps;
    let queues = [0, 1].map(|at| {
        let longest = table.loads.iter().flat_map(|loads| loads.iter().flatten());
        let longest =
            longest.flat_map(|load| [load.main.dma.data_ps, load.short.map_or(0, |short| short.dma.data_ps)]);
        let longest = issue_interval_ps(chip, longest.max().unwrap_or(0));
        totals.load_queue_ps[at].saturating_sub(longest).exact_add(after)
    });
    let engines = totals.load_engines_ps / chip.neuron.dma.engines_per_core.max(1);
    let drain = match plan.choice.drain {
        _ if plan.adds() => totals.drain_ps[0],
        DrainEngine::Both if chip.neuron.access.vector_scalar_exclusive => {
            totals.drain_ps[0] + totals.drain_ps[1]
        }
        DrainEngine::Both => {
            let longest =
                table.tiles.leave.iter().flatten().flat_map(|facts| facts[DrainStep::Whole as usize]);
            let longest = longest.map(|facts| facts.busy_ps).max().unwrap_or(0);
            totals.drain_ps[0].max(totals.drain_ps[1]).saturating_sub(longest)
        }
        _ => totals.drain_ps[0].max(totals.drain_ps[1]),
    };
    let drain = head_ps
        + matmul.busy_ps
        + matmul.latency_ps
        + ends.hop_ps
        + drain
        + ends.hop_ps
        + ends.start_latency_ps
        + store_ps;
    let longest_store = table.stores.iter().flatten().map(|facts| facts.dma.data_ps).max().unwrap_or(0);
    let stores = totals.store_queue_ps.saturating_sub(issue_interval_ps(chip, longest_store));
    let stores = head_ps + matmul.busy_ps + matmul.latency_ps + tail_ps.saturating_sub(store_ps) + stores;
    let hbm = hbm_ps(chip, totals.hbm_read_bytes.exact_add(totals.hbm_written_bytes));
    let ticks =
        [tensor, queues[0], queues[1], engines + after, drain, stores, hbm].into_iter().max().unwrap_or(0);
    CostBound { ticks, energy_fj: energy_fj(totals.dynamic_fj(), table.tiles.idle_fj_per_ps, ticks) }
}

/// Time in which the tensor engine waits for blocks that can come only once the block before them has been
/// used.
fn waits_ps(plan: &TilingPlan, table: &CostTable<'_>, ends: &EdgeTimes) -> u64 {
    let mut most = 0;
    for (at, side) in [MatmulAxis::Held, MatmulAxis::Moving].into_iter().enumerate() {
        let loads = plan.loads(side);
        if plan.buffers(side) > 1 || loads < 2 {
            continue;
        }
        let summed = plan.cut(MatmulAxis::Summed);
        let all = table.loads[at].iter().flatten().filter(|load| load.copies > 0 || load.short.is_some());
        let data = all.map(|load| load.first().dma.data_ps).min().unwrap_or(0);
        let longest =
            table.tiles.matmul.iter().flatten().flatten().map(|facts| facts[0].busy_ps).max().unwrap_or(0);
        // Single tiles may come while the last run still reads those behind them.
        let ahead = match plan.choice.copies {
            BlockCopies::Block if summed.counts()[1] == 0 => 0,
            _ => longest.exact_mul(summed.block.min(summed.tiles()) - 1),
        };
        let gap = (ends.hop_ps + ends.start_latency_ps + data + ends.arrival_ps).saturating_sub(ahead);
        most = most.max(gap.exact_mul(loads - 1));
    }
    most
}

/// The bound of all candidates of a frame: every product, each input read once, each result written once.
///
/// # Errors
/// What the engine refuses.
pub fn frame(task: &NeuronTask<'_>, frame: &NeuronFrame, tiles: &TileCosts) -> Result<CostBound, Refusal> {
    let ends = EdgeTimes::new(task);
    let extents = task.extents(frame.stationary);
    let cut = |side: MatmulAxis| BlockedAxis {
        extent: extents[side as usize],
        tile: frame.tile[side as usize],
        block: 1,
    };
    let [held, moving, summed] = MatmulAxis::ALL.map(cut);
    let (mut tensor_ps, mut fj) = (0_u64, 0.0);
    let mut add = |facts: &InstructionCost, count: u64| {
        #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
        let count = count as f64;
        fj += facts.fj.iter().sum::<f64>() * count;
    };
    for (h, rows) in held.counts().into_iter().enumerate() {
        for (m, columns) in moving.counts().into_iter().enumerate() {
            let results = rows.exact_mul(columns).exact_mul(task.batch);
            for (s, deep) in summed.counts().into_iter().enumerate() {
                let facts = &tiles.matmul[h][m][s][0];
                tensor_ps = tensor_ps.exact_add(facts.busy_ps.exact_mul(results.exact_mul(deep)));
                add(facts, results.exact_mul(deep));
            }
            let [vector, scalar] = &tiles.leave[h][m][DrainStep::Whole as usize];
            let total = |facts: &InstructionCost| facts.fj.iter().sum::<f64>();
            add(if total(vector) < total(scalar) { vector } else { scalar }, results);
        }
    }
    let mut bytes = [0_u64; 2];
    for free in [&held, &moving] {
        for (short, deep) in summed.counts().into_iter().enumerate().filter(|(_, deep)| *deep > 0) {
            let facts = load(task, [summed.size(short == 1), deep, free.extent], free.extent, free.extent)?;
            bytes[0] = bytes[0].exact_add(facts.hbm_read_bytes.exact_mul(task.batch));
            add(&facts, task.batch);
        }
    }
    for (short, rows) in held.counts().into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
        let facts = store(task, [held.size(short == 1), moving.extent], moving.extent)?;
        let count = rows.exact_mul(task.batch);
        bytes[1] = bytes[1].exact_add(facts.hbm_written_bytes.exact_mul(count));
        add(&facts, count);
    }
    let dma = &task.chip.neuron.dma;
    let head_ps = ends.start_latency_ps + ends.arrival_ps;
    let tail_ps = least_matmul(tiles).latency_ps + ends.tail_ps(tiles, 0);
    let lanes_ps = bytes_ps(bytes[0] / dma.engines_per_core.max(1), dma.achieved_bytes_per_s);
    let hbm_ps = hbm_ps(task.chip, bytes[0].exact_add(bytes[1]));
    let ticks = (head_ps + tensor_ps.max(lanes_ps) + tail_ps).max(hbm_ps);
    Ok(CostBound { ticks, energy_fj: energy_fj(fj, tiles.idle_fj_per_ps, ticks) })
}
