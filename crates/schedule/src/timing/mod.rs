//! The schedule of a compiled program (paper section V-C, stage 5): when each command runs on which unit,
//! what lies where and how long it lives, how far ahead weights are fetched, and how near all of it is to its
//! bound.
//!
//! The bound is the time of the busiest unit of any PE: a context of the tensor unit, or its DMA engine. No
//! order of the same commands is faster.

mod listener;
mod live;
mod stalls;

use std::collections::BTreeMap;
use std::sync::Arc;
use tilewright_base::invariant::{Exact, OrBroken, to_index};

use tilewright_base::Span;
use tilewright_compile::Compiled;
use tilewright_compile::compiled::ProgramOutline;
use tilewright_compile::schedule_text::checker::prefetch;
use tilewright_compile::schedule_text::{
    LiveArea, ScheduleText, ScheduledCommand, StallReason, UNITS, percent,
};
use tilewright_machine::tcp::Tcp;
use tilewright_record::KeepLast;
use tilewright_tcp_isa::program::event::{ExecUnit, PeId, Ticket};
use tilewright_tcp_isa::program::{Exec, Program, RegisterId, Transfer};
use tilewright_tcp_sim::{Detail, Observer, SimError, SimOptions, SimOutcome};

pub use stalls::{MainStall, TimeSplit};
pub use tilewright_compile::schedule_text::EXPLAINED_PERCENT;

use listener::TimingListener;

/// Reasons that are reported.
const REASONS: usize = 6;

/// A command of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedCommand {
    /// Whose.
    pub pe: PeId,
    /// Who ran it.
    pub unit: ExecUnit,
    /// Its image.
    pub name: String,
    /// When the queue issued it.
    pub issued: u64,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// What its queue waited for before, since the command before it.
    pub waited: Vec<Ticket>,
    /// What its control core knew to be done when it pushed it, and its queue did not wait for.
    pub known_done: Vec<Ticket>,
    /// What ran.
    pub ran: ResolvedImage,
}

/// An image as it ran, every size a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedImage {
    /// On a context.
    Exec(Arc<Exec>),
    /// On the DMA engine.
    Transfer(Arc<Transfer>),
}

/// A run of a program, timed.
#[derive(Clone, Debug)]
pub struct TimedSchedule {
    /// The program.
    pub name: &'static str,
    /// Commands in the order in which they were issued.
    pub commands: BTreeMap<Ticket, TimedCommand>,
    /// From launch to finish.
    pub cycles: u64,
    /// Launch and finish, which no schedule changes.
    pub fixed_cycles: u64,
    /// Of each unit, the busiest PE.
    pub busy: BTreeMap<ExecUnit, u64>,
    /// How the time of the first PE is made up.
    pub split: TimeSplit,
    /// What the busiest unit's PE waited for, longest first.
    pub main_stalls: Vec<MainStall>,
    /// Data memory of the first slice of the first PE, and other memories.
    pub areas: Vec<LiveArea>,
    /// The first PE.
    pub first: PeId,
}

impl TimedSchedule {
    /// The time of the busiest unit: no order of the same commands is faster.
    pub fn bound_cycles(&self) -> u64 {
        self.busy.values().copied().max().unwrap_or(0)
    }

    /// Time over bound in thousandths, launch and finish not counted.
    pub fn ratio_thousandths(&self) -> u64 {
        let spent = u128::from(self.cycles.saturating_sub(self.fixed_cycles)) * 1000;
        u64::try_from(spent.checked_div(u128::from(self.bound_cycles())).unwrap_or(0))
            .or_broken("a ratio fits 64 bits")
    }

    /// As its text has it.
    pub fn text(&self) -> ScheduleText {
        let commands: Vec<ScheduledCommand> =
            self.commands.iter().map(|(ticket, timed)| command(*ticket, timed)).collect();
        let busy = UNITS.map(|unit| self.busy.get(&unit).copied().unwrap_or(0));
        let TimeSplit { both, tensor_unit, dma, neither } = self.split;
        let all = both + tensor_unit + dma + neither;
        let reason = |blame: &MainStall| StallReason {
            cycles: blame.cycles,
            percent: percent(blame.cycles, self.cycles),
            before: blame.before.clone(),
            count: blame.count,
            on: blame.on.clone(),
        };
        let mut text = ScheduleText {
            program: self.name.to_string(),
            cycles: self.cycles,
            fixed_cycles: self.fixed_cycles,
            busy,
            bound: self.bound_cycles(),
            ratio_thousandths: self.ratio_thousandths(),
            split: [both, tensor_unit, dma, neither].map(|part| percent(part, all)),
            reasons: Vec::new(),
            prefetch: prefetch(&commands, &self.areas, self.first),
            areas: self.areas.clone(),
            commands,
            spans: Vec::new(),
        };
        if text.is_explained() {
            text.reasons = self.main_stalls.iter().take(REASONS).map(reason).collect();
        }
        text
    }
}

fn command(ticket: Ticket, timed: &TimedCommand) -> ScheduledCommand {
    let TimedCommand { pe, unit, issued, start, end, .. } = *timed;
    let mut after: Vec<Ticket> = timed.waited.iter().chain(&timed.known_done).copied().collect();
    after.sort_unstable();
    after.dedup();
    ScheduledCommand {
        ticket,
        issued,
        start,
        end,
        pe,
        unit,
        name: timed.name.clone(),
        after,
        span: Span::default(),
    }
}

/// What a run is asked: registers as with this many tokens behind so many others.
pub fn longest(compiled: &Compiled, outline: &ProgramOutline) -> Vec<(RegisterId, i64)> {
    let most = compiled.plan.options.context.min(compiled.kernels.positions);
    let (past, count) = match outline.name {
        "prefill" => (0, compiled.most_tokens().min(most)),
        _ => (most.saturating_sub(1), 1),
    };
    let tokens = vec![0; to_index(count)];
    let Some(program) = compiled.program(outline.name) else { return Vec::new() };
    let sequences = vec![Some((past, 0)); to_index(compiled.plan.options.batch)];
    let inputs = match outline.name {
        "batch" => compiled.batch_inputs(&sequences),
        _ => compiled.inputs(past, &tokens),
    };
    inputs.map(|inputs| inputs.register_values(program)).or_broken("a model takes its longest run")
}

/// Times a program of a model, with the longest context that it takes.
///
/// # Errors
/// A program that cannot be simulated.
pub fn schedule(
    machine: &Tcp,
    compiled: &Compiled,
    outline: &ProgramOutline,
) -> Result<TimedSchedule, SimError> {
    let Some(program) = compiled.program(outline.name) else {
        return Err(SimError::Chips { chips: 0, most: 1 });
    };
    let values = longest(compiled, outline);
    let mut listener = TimingListener::default();
    let cycles = run(machine, program, &values, &mut listener)?.cycles;
    let commands = listener.commands;
    let first = program
        .queues
        .first()
        .map_or(PeId { chip: 0, pe: 0 }, |queue| PeId { chip: queue.chip, pe: queue.pe });
    let busy = busy(&commands);
    let fixed_cycles = machine.command.launch_cycles + machine.command.finish_cycles;
    Ok(TimedSchedule {
        name: outline.name,
        cycles,
        fixed_cycles,
        split: stalls::split(&commands, first),
        main_stalls: stalls::main_stalls(&commands, first),
        areas: live::areas(machine, compiled, outline, &commands, first),
        first,
        busy,
        commands,
    })
}

/// What a program takes with some registers set.
///
/// # Errors
/// A program that cannot be simulated.
pub fn simulated(
    machine: &Tcp,
    program: &Program,
    values: &[(RegisterId, i64)],
) -> Result<SimOutcome, SimError> {
    run(machine, program, values, &mut tilewright_tcp_sim::NoObserver)
}

fn run(
    machine: &Tcp,
    program: &Program,
    values: &[(RegisterId, i64)],
    checker: &mut dyn Observer,
) -> Result<SimOutcome, SimError> {
    let options = SimOptions { detail: Detail::Totals, check: false, ..SimOptions::default() };
    let prepared = tilewright_tcp_sim::PreparedSim::new(Arc::new(machine.clone()), Arc::new(program.clone()));
    prepared.simulate(values, &options, KeepLast::new(0), checker)
}

/// Of each unit the PE that is busiest.
fn busy(commands: &BTreeMap<Ticket, TimedCommand>) -> BTreeMap<ExecUnit, u64> {
    let mut by_pe: BTreeMap<(ExecUnit, PeId), u64> = BTreeMap::new();
    for command in commands.values() {
        *by_pe.entry((command.unit, command.pe)).or_default() += command.end.exact_sub(command.start);
    }
    let mut all: BTreeMap<ExecUnit, u64> = BTreeMap::new();
    for ((unit, _), cycles) in by_pe {
        let most = all.entry(unit).or_default();
        *most = cycles.max(*most);
    }
    all
}
