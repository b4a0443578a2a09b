//! Executions: which may run side by side, on how many PEs, and for how long (vISA book, contexts).
//!
//! A context runs one command at a time. Two contexts do not share the vector engine or a half of the
//! register file; a command that writes a switch bitmap starts when sub and DMA are idle and stalls them
//! while it writes; one that holds a bank too long keeps DMA still to its end. A fused command has its
//! context on all PEs of its group.

use tilewright_base::Span;
use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_record::Sink;
use tilewright_tcp_cost::cycles::PipelineStage;
use tilewright_tcp_isa::program::event::{CommandImage, ExecUnit, PeId, RunEvent};

use crate::SimError;
use crate::contention::FULL_Q32;
use crate::events::EventKind;
use crate::outcome::{EngineUnit, WaitReason};
use crate::plan::ExecPlan;
use crate::state::{ActiveExec, World, small};

const MAIN: usize = 0;
const SUB: usize = 1;

/// The engines that stages belong to.
const STAGES: [(PipelineStage, EngineUnit); 9] = [
    (PipelineStage::Fetch, EngineUnit::Fetch),
    (PipelineStage::Switch, EngineUnit::Switch),
    (PipelineStage::Contraction, EngineUnit::Contraction),
    (PipelineStage::Vector, EngineUnit::Vector),
    (PipelineStage::Commit, EngineUnit::Commit),
    (PipelineStage::Load, EngineUnit::Commit),
    (PipelineStage::Collect, EngineUnit::Collect),
    (PipelineStage::Cast, EngineUnit::Cast),
    (PipelineStage::Transpose, EngineUnit::Transpose),
];

/// Busy cycles of each engine in one command.
pub(crate) fn engine_cycles(plan: &ExecPlan) -> impl Iterator<Item = (EngineUnit, u64)> {
    let cycles = plan.cycles;
    let busy = STAGES.into_iter().map(move |(stage, engine)| (engine, cycles.stage_cycles(stage)));
    busy.filter(|(_, cycles)| *cycles > 0)
}

impl<S: Sink> World<'_, '_, S> {
    /// Starts what is loaded, if nothing stands in its way.
    pub(crate) fn start_exec(
        &mut self,
        pe: usize,
        context: usize,
        id: u8,
        (received, span): (u64, Span),
    ) -> Result<bool, SimError> {
        let Some(plan) = self.pes[pe].loaded[context].clone() else {
            return Err(SimError::NothingLoaded { span });
        };
        let group = self.group(pe, plan.exec.pes, span)?;
        if !group.clone().all(|at| self.may_start(at, context, &plan)) {
            return Ok(false);
        }
        let (ticket, owner, at_cycles) = (self.ticket(), self.pes[pe].id, self.now);
        let unit = ExecUnit::of(plan.exec.context);
        self.tell(&RunEvent::Issue {
            ticket,
            pe: owner,
            unit,
            id,
            image: CommandImage::Exec(&plan.exec),
            received,
            span,
            at_cycles,
        });
        self.tell(&RunEvent::Start { ticket, at_cycles });
        let bitmap_cycles = plan.occupies.bitmap_cycles;
        for at in group {
            let held = &mut self.pes[at];
            held.used = true;
            held.owner[context] = Some(small(pe));
            held.bank_accesses = held.bank_accesses.exact_add(plan.occupies.bank_accesses);
            if bitmap_cycles > 0 {
                let until = self.now.exact_add(bitmap_cycles);
                held.bitmap_until = until;
                self.events.plan(until, EventKind::Bitmap(small(at)));
            }
        }
        let state = &mut self.pes[pe];
        state.execs[usize::from(id)].start(ticket);
        state.outstanding += 1;
        state.generation = state.generation.wrapping_add(1);
        let generation = state.generation;
        let waits = std::mem::take(&mut state.waits);
        let (left_q32, pes) = (u128::from(plan.cycles.total_cycles) << 32, plan.exec.pes);
        self.pes[pe].running[context] = Some(ActiveExec {
            plan,
            ticket,
            id,
            started: self.now,
            left_q32,
            speed_q32: None,
            updated: self.now,
            generation,
            waits,
            power: 0,
        });
        if context == MAIN {
            self.set_speed(pe, MAIN, FULL_Q32)?;
            self.slow_subs(pe, pes)?;
        } else {
            self.slow_sub(pe)?;
        }
        self.slow_dma(pe, pes)?;
        Ok(true)
    }

    /// The PEs of a group, by index.
    fn group(&self, pe: usize, pes: u64, span: Span) -> Result<std::ops::Range<usize>, SimError> {
        let PeId { chip, pe: first } = self.pes[pe].id;
        let chip_figures = &self.machine.chip;
        let cluster = chip_figures.pes_per_cluster.max(1);
        let legal = chip_figures.fused_pes.contains(&pes)
            && first.is_multiple_of(pes)
            && first % cluster + pes <= cluster;
        let count = usize::try_from(pes).ok().filter(|count| legal && pe + count <= self.pes.len());
        match count {
            Some(count) => Ok(pe..pe + count),
            None => Err(SimError::Group { pe: PeId { chip, pe: first }, pes, span }),
        }
    }

    /// Nothing on this PE keeps the command from starting.
    fn may_start(&self, pe: usize, context: usize, plan: &ExecPlan) -> bool {
        let state = &self.pes[pe];
        let dma_idle = state.sending.is_none();
        let held = state.bank_accesses.exact_add(plan.occupies.bank_accesses);
        let bitmap = plan.occupies.bitmap_cycles > 0;
        let written = self.now >= state.bitmap_until;
        let beside = state.owner[1 - context].and_then(|owner| {
            self.pes.get(owner as usize).and_then(|owner| owner.running[1 - context].as_ref())
        });
        state.owner[context].is_none()
            && !beside.is_some_and(|other| other.plan.occupies.clashes(&plan.occupies))
            && (written || (context == MAIN && !bitmap))
            && (!bitmap || (dma_idle && state.owner[1 - context].is_none()))
            && (held < self.machine.starvation_accesses() || dma_idle)
    }

    /// The main contexts of a group changed: subs beside them may run slower or faster.
    fn slow_subs(&mut self, pe: usize, pes: u64) -> Result<(), SimError> {
        let last = pe.exact_add(to_index(pes));
        for at in pe..last.min(self.pes.len()) {
            if let Some(owner) = self.pes[at].owner[SUB] {
                self.slow_sub(owner as usize)?;
            }
        }
        Ok(())
    }

    /// Commands of a group changed: DMA behind them gets more or less of the banks.
    fn slow_dma(&mut self, pe: usize, pes: u64) -> Result<(), SimError> {
        let last = pe.exact_add(to_index(pes));
        (pe..last.min(self.pes.len())).try_for_each(|at| self.leave_banks(at))
    }

    /// The speed of a sub command: that of the slowest PE of its group. Commands use no port or bank before
    /// their overhead is over.
    pub(crate) fn slow_sub(&mut self, pe: usize) -> Result<(), SimError> {
        let Some(running) = &self.pes[pe].running[SUB] else { return Ok(()) };
        let (sub, sub_from) = (running.plan.clone(), first_access(running));
        let last = pe.exact_add(to_index(sub.exec.pes));
        let (mut speed, mut later) = (FULL_Q32, None);
        for at in pe..last.min(self.pes.len()) {
            let main = self.pes[at].owner[MAIN].and_then(|owner| self.pes.get(owner as usize));
            let Some(main) = main.and_then(|owner| owner.running[MAIN].as_ref()) else { continue };
            let beside = self.plans.speeds.of(self.machine, &sub, &main.plan);
            if beside == FULL_Q32 {
                continue;
            }
            let (from, until) = (first_access(main).max(sub_from), last_access(main));
            let change = if from > self.now { from } else { until };
            if from <= self.now && self.now < until {
                speed = speed.min(beside);
            }
            if change > self.now {
                later = later.into_iter().chain([change]).min();
            }
        }
        if let Some(from) = later {
            self.events.plan(from, EventKind::Contends(small(pe)));
        }
        self.set_speed(pe, SUB, speed)?;
        self.slow_dma(pe, sub.exec.pes)
    }

    /// Plans the end of an execution anew, if its speed changes.
    fn set_speed(&mut self, pe: usize, context: usize, speed_q32: u64) -> Result<(), SimError> {
        let now = self.now;
        let state = &mut self.pes[pe];
        let Some(running) = &mut state.running[context] else { return Ok(()) };
        if running.speed_q32 == Some(speed_q32) {
            return Ok(());
        }
        let passed = u128::from(now - running.updated) * u128::from(running.speed_q32.unwrap_or(0));
        running.left_q32 = running.left_q32.saturating_sub(passed);
        (running.updated, running.speed_q32) = (now, Some(speed_q32));
        state.generation = state.generation.wrapping_add(1);
        running.generation = state.generation;
        let cycles = match speed_q32 {
            // It stalls until the command beside it ends.
            0 => None,
            // The common case, and exact.
            FULL_Q32 => Some(running.left_q32.div_ceil(u128::from(FULL_Q32))),
            _ => Some(running.left_q32.div_ceil(u128::from(speed_q32))),
        };
        let generation = running.generation;
        let full = self.trace.power_of(running.plan.all_fj(), running.plan.cycles.total_cycles);
        let power = u64::try_from((u128::from(full) * u128::from(speed_q32)) >> 32)
            .or_broken("power below full speed");
        let before = std::mem::replace(&mut running.power, power);
        self.trace.power(state.id.chip, now, before, power)?;
        let Some(cycles) = cycles else { return Ok(()) };
        let at = self.after(u64::try_from(cycles).map_err(|_| SimError::TooLong)?)?;
        let slot = if context == MAIN { 0 } else { 1 };
        self.events.plan(at, EventKind::ExecDone(small(pe), slot, generation));
        Ok(())
    }

    /// An execution ended.
    pub(crate) fn exec_done(&mut self, pe: usize, context: usize) -> Result<(), SimError> {
        let Some(running) = self.pes[pe].running[context].take() else { return Ok(()) };
        self.release(pe, context, &running)?;
        if context == MAIN {
            self.slow_subs(pe, running.plan.exec.pes)?;
        }
        self.slow_dma(pe, running.plan.exec.pes)?;
        self.pes[pe].execs[usize::from(running.id)].busy = false;
        self.wake_core(pe, WaitReason::Command { transfer: false, id: running.id });
        self.sums.execs += 1;
        self.sums.counts.add(&running.plan.counts, 1);
        self.images.exec(&running.plan, running.started, self.now);
        self.sums.ledger.exec(&running.plan, self.now - running.started);
        self.tell(&RunEvent::Done { ticket: running.ticket, at_cycles: self.now });
        self.command_done(pe);
        let last = pe.exact_add(to_index(running.plan.exec.pes));
        self.pump_chip(pe)?;
        for at in pe..last.min(self.pes.len()) {
            self.start_transfer(at)?;
        }
        Ok(())
    }

    /// Frees the PEs of an execution, and records it on each.
    fn release(&mut self, pe: usize, context: usize, running: &ActiveExec) -> Result<(), SimError> {
        let chip = self.pes[pe].id.chip;
        self.trace.power(chip, self.now, running.power, 0)?;
        let last = pe.exact_add(to_index(running.plan.exec.pes));
        let lasted = self.now - running.started;
        let unit = if context == MAIN { EngineUnit::Main } else { EngineUnit::Sub };
        for at in pe..last.min(self.pes.len()) {
            let state = &mut self.pes[at];
            state.owner[context] = None;
            state.bank_accesses = state.bank_accesses.exact_sub(running.plan.occupies.bank_accesses);
            state.busy[unit as usize] = state.busy[unit as usize].exact_add(lasted);
            for (engine, cycles) in engine_cycles(&running.plan) {
                state.busy[engine as usize] = state.busy[engine as usize].exact_add(cycles);
            }
            let grew = state.touched.join(&running.plan.touched);
            self.sums.ledger.holds(self.machine, state.id, &state.touched, self.now);
            self.trace.exec(at, at == pe, context, running, self.now)?;
            if grew {
                self.trace.memory(self.machine, at, self.now, self.pes[at].touched)?;
            }
        }
        Ok(())
    }
}

/// When an execution is done with ports and banks, but for what drains.
pub(crate) fn last_access(running: &ActiveExec) -> u64 {
    let cycles = &running.plan.cycles;
    first_access(running).exact_add(cycles.stage_cycles(cycles.binding))
}

/// When an execution first uses a port or a bank.
pub(crate) fn first_access(running: &ActiveExec) -> u64 {
    running.started.exact_add(running.plan.cycles.overhead_cycles)
}
