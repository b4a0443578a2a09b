//! The schedule of a compiled program (paper section V-C, stage 5): when each command runs on which unit, what lies where and how long it lives,
//! how far ahead weights are fetched, and how near all of it is to its bound.
//!
//! The bound is the time of the busiest unit of any PE: a context of the tensor unit, or its DMA engine. No order of the same commands is
//! faster.

mod gaps;
mod live;
mod print;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tilewright_compile::Compiled;
use tilewright_compile::compiled::Outline;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_sim::{Detail, Judge, Options, Outcome, SimError};
use tilewright_tcp::program::event::{Event, Image, PeId, Ticket, Unit};
use tilewright_tcp::program::transfer::Address;
use tilewright_tcp::program::{Program, RegisterId};

pub use gaps::{Blame, Split};
pub use live::Area;

use crate::model::registers;

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
}

/// A weight that was fetched: how long it lay ready before it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Cycles from the end of the transfer to the start of the load; negative cannot be.
    pub ready_cycles: u64,
    /// Fills that were under way or ready then.
    pub fills: u64,
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
    /// Weights of the first PE.
    pub ahead: Vec<Ahead>,
    /// Data memory of the first slice of the first PE, and other memories.
    pub areas: Vec<Area>,
}

/// Above this much of the bound a report says why.
pub const EXPLAINED_PERCENT: u64 = 115;

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
    inputs.map(|inputs| registers(program, &inputs)).unwrap_or_default()
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
        ahead: gaps::ahead(&commands, first),
        areas: live::areas(machine, compiled, outline, &values, &commands, first),
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
) -> Result<Outcome, SimError> {
    run(machine, program, values, &mut tilewright_sim::NoJudge)
}

fn run(
    machine: &Tcp,
    program: &Program,
    values: &[(RegisterId, i64)],
    judge: &mut dyn Judge,
) -> Result<Outcome, SimError> {
    let options = Options { detail: Detail::Totals, check: false, ..Options::default() };
    let prepared = tilewright_sim::Prepared::new(Arc::new(machine.clone()), Arc::new(program.clone()));
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

#[derive(Default)]
struct Listener {
    commands: BTreeMap<Ticket, Timed>,
    waited: BTreeMap<PeId, Vec<Ticket>>,
}

impl Judge for Listener {
    fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match *event {
            Event::Issue { ticket, pe, unit, image, at_cycles, .. } => {
                let name = match image {
                    Image::Exec(exec) => exec.name.clone(),
                    Image::Transfer(transfer) => transfer.name.clone(),
                };
                let waited = self.waited.remove(&pe).unwrap_or_default();
                let timed =
                    Timed { pe, unit, name, issued: at_cycles, start: at_cycles, end: at_cycles, waited };
                self.commands.insert(ticket, timed);
            }
            Event::Start { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.start = at_cycles;
                }
            }
            Event::Done { ticket, at_cycles } => {
                if let Some(command) = self.commands.get_mut(&ticket) {
                    command.end = at_cycles;
                }
            }
            Event::Waited { pe, ticket } => self.waited.entry(pe).or_default().push(ticket),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn read(&mut self, _address: Address, _dtype: Dtype) -> Option<i64> {
        None
    }
}
