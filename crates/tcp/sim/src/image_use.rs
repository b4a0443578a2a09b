//! What all runs of each image took: a row an image, so that it grows with the program and not with the run.

use std::sync::Arc;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_tcp_cost::cycles::PipelineStage;
use tilewright_tcp_cost::cycles::image::Delay;
use tilewright_tcp_cost::energy::COMPONENTS;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::event::ExecUnit;

use crate::plan::{ExecPlan, PlanCache, TransferPlan};

/// All runs of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The image.
    pub name: Arc<str>,
    /// Who runs it.
    pub unit: ExecUnit,
    /// How often it ran to its end.
    pub runs: u64,
    /// When the first run began.
    pub first_cycles: u64,
    /// When the last run ended.
    pub last_cycles: u64,
    /// From start to end, over all runs.
    pub busy_cycles: u128,
    /// What all runs took if each takes as long as it may where the closed form is optimistic: at least
    /// [`busy_cycles`](ImageUse::busy_cycles).
    pub worst_cycles: u128,
    /// Why it may take longer, for the first run that may.
    pub delay: Option<Delay>,
    /// Of all runs, without what slices and chips take in any case.
    pub energy_fj: u128,
    /// The same by component, in the order of reports.
    pub component_fj: [u128; COMPONENTS],
    /// The slowest stage of the longest run, and its cycles; transfers have none.
    pub slowest: Option<(PipelineStage, u64)>,
    longest_cycles: u64,
}

/// The rows of a program: its executions, then its transfers.
#[derive(Debug)]
pub(crate) struct ImageUses {
    execs: usize,
    rows: Vec<ImageUse>,
}

impl ImageUses {
    pub(crate) fn new(program: &Program, plans: &PlanCache) -> ImageUses {
        let units = program.execs.iter().map(|exec| ExecUnit::of(exec.context));
        let execs = plans.exec_names().zip(units).map(|(name, unit)| row(name, unit));
        let transfers = plans.transfer_names().map(|name| row(name, ExecUnit::Dma));
        ImageUses { execs: program.execs.len(), rows: execs.chain(transfers).collect() }
    }

    /// An execution ended.
    pub(crate) fn exec(&mut self, plan: &ExecPlan, start_cycles: u64, end_cycles: u64) {
        let row =
            self.rows.get_mut(plan.image as usize).or_broken("an execution has an image of the program");
        let longer = plan.longest_cycles.total_cycles.saturating_sub(plan.cycles.total_cycles);
        row.worst_cycles = row.worst_cycles.exact_add(u128::from(longer));
        row.delay = row.delay.or(plan.longest_cycles.delay);
        if row.ran(start_cycles, end_cycles, &plan.energy_fj) {
            let stage = plan.cycles.binding;
            row.slowest = Some((stage, plan.cycles.stage_cycles(stage)));
        }
    }

    /// A transfer ended.
    pub(crate) fn transfer(&mut self, plan: &TransferPlan, start_cycles: u64, end_cycles: u64) {
        let row = self.rows.get_mut(self.execs.exact_add(plan.image as usize));
        let row = row.or_broken("a transfer has an image of the program");
        row.ran(start_cycles, end_cycles, &plan.energy_fj);
    }

    /// Those that ran, by their first start.
    pub(crate) fn finish(self) -> Vec<ImageUse> {
        let mut rows: Vec<ImageUse> = self.rows.into_iter().filter(|row| row.runs > 0).collect();
        rows.sort_by_key(|row| row.first_cycles);
        rows
    }
}

impl ImageUse {
    /// Adds a run; whether it is the longest until now.
    fn ran(&mut self, start_cycles: u64, end_cycles: u64, energy_fj: &[u64; COMPONENTS]) -> bool {
        let cycles = end_cycles.exact_sub(start_cycles);
        let longest = self.runs == 0 || cycles > self.longest_cycles;
        self.runs = self.runs.exact_add(1);
        self.first_cycles = self.first_cycles.min(start_cycles);
        self.last_cycles = self.last_cycles.max(end_cycles);
        self.busy_cycles = self.busy_cycles.exact_add(u128::from(cycles));
        self.worst_cycles = self.worst_cycles.exact_add(u128::from(cycles));
        for (sum, part) in self.component_fj.iter_mut().zip(energy_fj) {
            *sum = sum.exact_add(u128::from(*part));
            self.energy_fj = self.energy_fj.exact_add(u128::from(*part));
        }
        self.longest_cycles = self.longest_cycles.max(cycles);
        longest
    }
}

fn row(name: &Arc<str>, unit: ExecUnit) -> ImageUse {
    ImageUse {
        name: name.clone(),
        unit,
        runs: 0,
        first_cycles: u64::MAX,
        last_cycles: 0,
        busy_cycles: 0,
        worst_cycles: 0,
        delay: None,
        energy_fj: 0,
        component_fj: [0; COMPONENTS],
        slowest: None,
        longest_cycles: 0,
    }
}
