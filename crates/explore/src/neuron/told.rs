//! Everything there is to say about one candidate: time and energy by engine, traffic, reuse, room, use of the array.

use super::bound;
use super::count::Totals;
use super::facts::{IDLE, PARTS};
use super::plain::Asked;
use super::point::{Plan, Side};
use super::room::Room;
use super::task::Task;
use super::{Candidate, Found};
use crate::axes::Class;
use crate::goal::milliwatts;
use crate::target::Target;
use tilewright_notation::syntax::ast::Operand;

/// A candidate in full.
#[derive(Clone, Debug)]
pub struct Told {
    /// The candidate.
    pub candidate: Candidate,
    /// Its loops.
    pub plan: Plan,
    /// What it takes of SBUF and PSUM.
    pub room: Room,
    /// Sums over its instructions.
    pub totals: Totals,
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

impl Told {
    /// Says all about a candidate of a search; `None` if it is none.
    pub fn new(task: &Task<'_>, found: &Found, candidate: &Candidate) -> Option<Told> {
        let plan = Plan::new(task, found.frame(candidate)?, &candidate.choice);
        Told::of(task, &plan, candidate)
    }

    /// The same for loops that are known.
    pub fn of(task: &Task<'_>, plan: &Plan, candidate: &Candidate) -> Option<Told> {
        let asked = Asked::new(task, plan)?;
        let table = asked.table();
        let totals = Totals::new(task.chip, plan, &table);
        let mut energy_fj = totals.fj;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (ticks, macs) = (candidate.ticks as f64, task.macs() as f64);
        energy_fj[IDLE] = table.tiles.idle_fj_per_ps * ticks;
        let tensor = &task.chip.neuron.tensor;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let could = (tensor.rows * tensor.columns) as f64 * tensor.clock_hz as f64 * ticks * 1e-12;
        let reuse = [Side::Moving, Side::Held].map(|other| {
            let side = if other == Side::Moving { Side::Held } else { Side::Moving };
            let pairs = plan.cut(side).blocks().saturating_mul(plan.cut(Side::Summed).blocks()).max(1);
            let times = (plan.loads(side) / plan.batch.max(1) / pairs).max(1);
            #[expect(clippy::cast_precision_loss, reason = "figures for people")]
            let reuse = plan.cut(other).extent as f64 / times as f64;
            reuse
        });
        let reuse = if plan.frame.stationary == Operand::In0 { reuse } else { [reuse[1], reuse[0]] };
        Some(Told {
            candidate: *candidate,
            plan: *plan,
            room: Room::of(task, plan),
            totals,
            energy_fj,
            bound_ps: bound::candidate(task, plan, &table, &totals).ticks,
            milliwatts: milliwatts(task.ticks_per_s(), candidate.ticks, candidate.energy_fj),
            utilisation: macs / could.max(1.0),
            reuse,
        })
    }

    /// How in0, in1 and the output lie in HBM: axes, outermost first.
    pub fn layouts(&self, task: &Task<'_>) -> [String; 3] {
        let [batch, free0, free1, summed] =
            [Class::Batch, Class::Free0, Class::Free1, Class::Contracted].map(|class| task.names(class));
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
pub fn side_name(side: Side) -> &'static str {
    match side {
        Side::Held => "held",
        Side::Moving => "moving",
        Side::Summed => "sum",
    }
}
