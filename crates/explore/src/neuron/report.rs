//! Everything there is to say about one candidate: time and energy by engine, traffic, reuse, room, use of
//! the array.

use super::bound;
use super::count::CandidateTotals;
use super::exhaustive::CandidateCosts;
use super::instruction_cost::{IDLE, PARTS};
use super::memory_use::MemoryUse;
use super::point::{MatmulAxis, TilingPlan};
use super::task::NeuronTask;
use super::{NeuronCandidate, NeuronSearchResult};
use crate::axes::AxisClass;
use crate::goal::milliwatts;
use crate::target::SearchTarget;
use tilewright_base::invariant::Exact;
use tilewright_notation::syntax::ast::Operand;

/// A candidate in full.
#[derive(Clone, Debug)]
pub struct NeuronReport {
    /// The candidate.
    pub candidate: NeuronCandidate,
    /// Its loops.
    pub plan: TilingPlan,
    /// What it takes of SBUF and PSUM.
    pub room: MemoryUse,
    /// Sums over its instructions.
    pub totals: CandidateTotals,
    /// Energy by component, in fJ.
    pub energy_fj: [f64; PARTS],
    /// What every candidate with the same instructions takes at least, in ps.
    pub bound_ps: u64,
    /// Average power of the core, in mW.
    pub milliwatts: u64,
    /// Part of the products that the array could do in this time which the einsum asks for.
    pub utilisation: f64,
    /// Times that a byte read from HBM is multiplied: of in0, of in1.
    pub reuse: [f64; 2],
}

impl NeuronReport {
    /// Says all about a candidate of a search; `None` if it is none.
    pub fn new(
        task: &NeuronTask<'_>,
        found: &NeuronSearchResult,
        candidate: &NeuronCandidate,
    ) -> Option<NeuronReport> {
        let plan = TilingPlan::new(task, found.frame(candidate)?, &candidate.choice);
        NeuronReport::of(task, &plan, candidate)
    }

    /// Report of a candidate whose tiling plan is made already; `None` if it has no cost.
    pub fn of(task: &NeuronTask<'_>, plan: &TilingPlan, candidate: &NeuronCandidate) -> Option<NeuronReport> {
        let asked = CandidateCosts::new(task, plan)?;
        let table = asked.table();
        let totals = CandidateTotals::new(task.chip, plan, &table);
        let mut energy_fj = totals.fj;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (ticks, macs) = (candidate.ticks as f64, task.macs() as f64);
        energy_fj[IDLE] = table.tiles.idle_fj_per_ps * ticks;
        let tensor = &task.chip.neuron.tensor;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let could = (tensor.rows * tensor.columns) as f64 * tensor.clock_hz as f64 * ticks * 1e-12;
        let reuse = [MatmulAxis::Moving, MatmulAxis::Held].map(|other| {
            let side = if other == MatmulAxis::Moving { MatmulAxis::Held } else { MatmulAxis::Moving };
            let pairs = plan.cut(side).blocks().exact_mul(plan.cut(MatmulAxis::Summed).blocks()).max(1);
            let times = (plan.loads(side) / plan.batch.max(1) / pairs).max(1);
            #[expect(clippy::cast_precision_loss, reason = "figures for people")]
            let reuse = plan.cut(other).extent as f64 / times as f64;
            reuse
        });
        let reuse = if plan.frame.stationary == Operand::In0 { reuse } else { [reuse[1], reuse[0]] };
        Some(NeuronReport {
            candidate: *candidate,
            plan: *plan,
            room: MemoryUse::of(task, plan),
            totals,
            energy_fj,
            bound_ps: bound::candidate(task, plan, &table, &totals).ticks,
            milliwatts: milliwatts(task.ticks_per_s(), candidate.ticks, candidate.energy_fj),
            utilisation: macs / could.max(1.0),
            reuse,
        })
    }

    /// How in0, in1 and the output lie in HBM: axes, outermost first.
    pub fn layouts(&self, task: &NeuronTask<'_>) -> [String; 3] {
        let [batch, free0, free1, summed] =
            [AxisClass::Batch, AxisClass::Free0, AxisClass::Free1, AxisClass::Contracted]
                .map(|class| task.names(class));
        let (rows, columns) =
            if self.plan.frame.stationary == Operand::In0 { (&free0, &free1) } else { (&free1, &free0) };
        [
            format!("{batch}{summed}{free0}"),
            format!("{batch}{summed}{free1}"),
            format!("{batch}{rows}{columns}"),
        ]
    }

    /// The tiling in one line: tiles x blocks of each side, order, and the rest.
    pub fn tiling(&self) -> String {
        let [held, moving, summed] = self.plan.cuts;
        let loops: Vec<&str> = self.plan.order().iter().map(|side| side_name(*side)).collect();
        format!(
            "{} stationary, tiles {}x{}x{}, blocks {}x{}x{}, loops {}",
            self.plan.frame.stationary.name(),
            held.tile,
            moving.tile,
            summed.tile,
            held.block,
            moving.block,
            summed.block,
            loops.join(" ")
        )
    }
}

/// A side in one word.
pub fn side_name(side: MatmulAxis) -> &'static str {
    match side {
        MatmulAxis::Held => "held",
        MatmulAxis::Moving => "moving",
        MatmulAxis::Summed => "sum",
    }
}
