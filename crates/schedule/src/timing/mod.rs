//! The schedule of a compiled program (paper section V-C, stage 5): when each command runs on which unit,
//! what lies where and how long it lives, how far ahead weights are fetched, and how near all of it is to its
//! bound.
//!
//! The bound is the time of the busiest unit of any PE: a context of the tensor unit, or its DMA engine. No
//! order of the same commands is faster.

mod gaps;
mod listen;
mod live;

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_base::Span;
use tilewright_compile::Compiled;
use tilewright_compile::compiled::Outline;
use tilewright_compile::schedule_text::judge::prefetch;
use tilewright_compile::schedule_text::{Area, Command, Reason, Text, UNITS, percent};
use tilewright_machine::tcp::Tcp;
use tilewright_record::KeepLast;
use tilewright_tcp_isa::program::event::{PeId, Ticket, Unit};
use tilewright_tcp_isa::program::{Exec, Program, RegisterId, Transfer};
use tilewright_tcp_sim::{Detail, Observer, SimError, SimOptions, SimOutcome};

pub use gaps::{Blame, Split};
pub use tilewright_compile::schedule_text::EXPLAINED_PERCENT;

use listen::Listener;

/// Reasons that are told.
const REASONS: usize = 6;

/// A command of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Whose.
    pub pe: PeId,
    /// Who ran it.
    pub unit: Unit,
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
    pub told: Vec<Ticket>,
    /// What ran.
    pub ran: Ran,
}

/// An image as it ran, every size a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// On a context.
    Exec(Arc<Exec>),
    /// On the DMA engine.
    Transfer(Arc<Transfer>),
}

/// A run of a program, timed.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The program.
    pub name: &'static str,
    /// Commands in the order in which they were issued.
    pub commands: BTreeMap<Ticket, Timed>,
    /// From launch to finish.
    pub cycles: u64,
    /// Launch and finish, which no schedule changes.
    pub fixed_cycles: u64,
    /// Of each unit, the busiest PE.
    pub busy: BTreeMap<Unit, u64>,
    /// How the time of the first PE is made up.
    pub split: Split,
    /// What the busiest unit's PE waited for, longest first.
    pub blames: Vec<Blame>,
    /// Data memory of the first slice of the first PE, and other memories.
    pub areas: Vec<Area>,
    /// The first PE.
    pub first: PeId,
}

impl Schedule {
    /// The time of the busiest unit: no order of the same commands is faster.
    pub fn bound_cycles(&self) -> u64 {
        self.busy.values().copied().max().unwrap_or(0)
    }

    /// Time over bound in thousandths, launch and finish not counted.
    pub fn ratio_thousandths(&self) -> u64 {
        let spent = u128::from(self.cycles.saturating_sub(self.fixed_cycles)) * 1000;
        u64::try_from(spent.checked_div(u128::from(self.bound_cycles())).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// As its text has it.
    pub fn text(&self) -> Text {
        let commands: Vec<Command> =
            self.commands.iter().map(|(ticket, timed)| command(*ticket, timed)).collect();
        let busy = UNITS.map(|unit| self.busy.get(&unit).copied().unwrap_or(0));
        let Split { both, tensor_unit, dma, neither } = self.split;
        let all = both + tensor_unit + dma + neither;
        let reason = |blame: &Blame| Reason {
            cycles: blame.cycles,
            percent: percent(blame.cycles, self.cycles),
            before: blame.before.clone(),
            count: blame.count,
            on: blame.on.clone(),
        };
        let mut text = Text {
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
            text.reasons = self.blames.iter().take(REASONS).map(reason).collect();
        }
        text
    }
}

fn command(ticket: Ticket, timed: &Timed) -> Command {
    let Timed { pe, unit, issued, start, end, .. } = *timed;
    let mut after: Vec<Ticket> = timed.waited.iter().chain(&timed.told).copied().collect();
    after.sort_unstable();
    after.dedup();
    Command { ticket, issued, start, end, pe, unit, name: timed.name.clone(), after, span: Span::default() }
}

/// What a run is asked: registers as with this many tokens behind so many others.
pub fn longest(compiled: &Compiled, outline: &Outline) -> Vec<(RegisterId, i64)> {
    let most = compiled.plan.options.context.min(compiled.kernels.positions);
    let (past, count) = match outline.name {
        "prefill" => (0, compiled.most_tokens().min(most)),
        _ => (most.saturating_sub(1), 1),
    };
    let tokens = vec![0; usize::try_from(count).unwrap_or(1)];
    let Some(program) = compiled.program(outline.name) else { return Vec::new() };
    let sequences = vec![Some((past, 0)); usize::try_from(compiled.plan.options.batch).unwrap_or(1)];
    let inputs = match outline.name {
        "batch" => compiled.batch_inputs(&sequences),
        _ => compiled.inputs(past, &tokens),
    };
    inputs.map(|inputs| inputs.register_values(program)).unwrap_or_default()
}

/// Times a program of a model, with the longest context that it takes.
///
/// # Errors
/// A program that cannot be simulated.
pub fn schedule(machine: &Tcp, compiled: &Compiled, outline: &Outline) -> Result<Schedule, SimError> {
    let Some(program) = compiled.program(outline.name) else {
        return Err(SimError::Chips { chips: 0, most: 1 });
    };
    let values = longest(compiled, outline);
    let mut listener = Listener::default();
    let cycles = run(machine, program, &values, &mut listener)?.cycles;
    let commands = listener.commands;
    let first = program
        .queues
        .first()
        .map_or(PeId { chip: 0, pe: 0 }, |queue| PeId { chip: queue.chip, pe: queue.pe });
    let busy = busy(&commands);
    let fixed_cycles = machine.command.launch_cycles + machine.command.finish_cycles;
    Ok(Schedule {
        name: outline.name,
        cycles,
        fixed_cycles,
        split: gaps::split(&commands, first),
        blames: gaps::blames(&commands, first),
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
    judge: &mut dyn Observer,
) -> Result<SimOutcome, SimError> {
    let options = SimOptions { detail: Detail::Totals, check: false, ..SimOptions::default() };
    let prepared = tilewright_tcp_sim::PreparedSim::new(Arc::new(machine.clone()), Arc::new(program.clone()));
    prepared.simulate(values, &options, KeepLast::new(0), judge)
}

/// Of each unit the PE that is busiest.
fn busy(commands: &BTreeMap<Ticket, Timed>) -> BTreeMap<Unit, u64> {
    let mut by_pe: BTreeMap<(Unit, PeId), u64> = BTreeMap::new();
    for command in commands.values() {
        *by_pe.entry((command.unit, command.pe)).or_default() += command.end.saturating_sub(command.start);
    }
    let mut all: BTreeMap<Unit, u64> = BTreeMap::new();
    for ((unit, _), cycles) in by_pe {
        let most = all.entry(unit).or_default();
        *most = cycles.max(*most);
    }
    all
}
