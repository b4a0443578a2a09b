//! Candidates between given neighbours: operands that lie as their producers left them, results as their
//! consumer wants them.
//!
//! A given shape takes the place of the candidate's own. The engine then puts commands before and after the
//! contraction where they are needed: copies through the switch, and bridges. What they take is counted, and
//! so are transfers of inputs that start in off-chip memory.

use std::fmt;

use tilewright_base::invariant::OrBroken;
use tilewright_base::{Diagnostic, SourceId};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{self, LoweredShape};
use tilewright_notation::syntax::parser;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_cost::energy::{counts, energy_fj};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_lower::{LowerOptions, lower};

use crate::cost_math::CostMath;
use crate::goal::Goal;
use crate::tcp::events::cycle_fj;
use crate::tcp::nest::FrameContext;
use crate::tcp::operand_transfers::of_program;
use crate::tcp::program::as_chosen;
use crate::tcp::spell::spell;
use crate::tcp::task::TcpTask;
use crate::tcp::{TcpCandidate, TcpSearchResult};

/// Shapes that are given.
#[derive(Clone, Debug, Default)]
pub struct NeighbourShapes {
    /// Where in0 lies.
    pub in0: Option<LoweredShape>,
    /// Where in1 lies.
    pub in1: Option<LoweredShape>,
    /// Where results are wanted.
    pub out: Option<LoweredShape>,
}

impl NeighbourShapes {
    /// Whether any is given.
    pub fn any(&self) -> bool {
        self.in0.is_some() || self.in1.is_some() || self.out.is_some()
    }
}

/// A candidate with its bridges.
#[derive(Clone, Debug)]
pub struct BridgedCandidate {
    /// The candidate, as it was without neighbours.
    pub candidate: TcpCandidate,
    /// Cycles of all commands.
    pub cycles: u64,
    /// Energy of all commands, and of the group's slices meanwhile.
    pub energy_fj: u64,
    /// Name and cycles of each command.
    pub commands: Vec<(String, u64)>,
    /// Shapes and tactic.
    pub text: ast::Program,
    /// The commands.
    pub program: Program,
}

/// What became of the candidates that a search kept.
#[derive(Clone, Debug, Default)]
pub struct FitResult {
    /// Those that fit, best first.
    pub fitting: Vec<BridgedCandidate>,
    /// Candidates that were asked about.
    pub asked: u64,
    /// Why the first one that does not fit does not.
    pub complaint: Option<BridgeError>,
}

/// Why a candidate does not fit between its neighbours.
#[derive(Clone, Debug)]
pub enum BridgeError {
    /// The einsum runs in parts, and given shapes hold all of it.
    Parts,
    /// The candidate's own shapes and tactic have no spelling.
    Unspelled,
    /// The engine refuses it with the given shapes.
    Refused(Box<Diagnostic>),
}

impl BridgeError {
    fn first(all: Vec<Diagnostic>) -> BridgeError {
        BridgeError::Refused(Box::new(all.into_iter().next().or_broken("a refusal has a diagnostic")))
    }
}

impl fmt::Display for BridgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BridgeError::Parts => f.write_str("the einsum runs in parts, and given shapes hold all of it"),
            BridgeError::Unspelled => f.write_str("refused"),
            BridgeError::Refused(diagnostic) => f.write_str(&diagnostic.message),
        }
    }
}

/// Puts the kept candidates of a search between neighbours.
pub fn fit(
    task: &TcpTask<'_>,
    found: &TcpSearchResult,
    neighbours: &NeighbourShapes,
    goal: Goal,
    options: &LowerOptions,
) -> FitResult {
    let mut fitted = FitResult::default();
    let mut seen: Vec<(u32, u64)> = Vec::new();
    for candidate in found.kept.best().iter().chain(found.kept.front()) {
        let number = (candidate.frame, candidate.choice.code());
        if seen.contains(&number) {
            continue;
        }
        seen.push(number);
        fitted.asked += 1;
        match bridged(task, found, candidate, neighbours, options) {
            Ok(bridged) => fitted.fitting.push(bridged),
            Err(complaint) => {
                fitted.complaint.get_or_insert(complaint);
            }
        }
    }
    fitted.fitting.sort_by_key(|one| (goal.value(one.cycles, one.energy_fj), one.cycles, one.energy_fj));
    fitted
}

fn bridged(
    task: &TcpTask<'_>,
    found: &TcpSearchResult,
    candidate: &TcpCandidate,
    neighbours: &NeighbourShapes,
    options: &LowerOptions,
) -> Result<BridgedCandidate, BridgeError> {
    let frame = found.frame(candidate).or_broken("a candidate names a frame of its search");
    if frame.commands() > 1 {
        return Err(BridgeError::Parts);
    }
    let mut spelled =
        spell(task, &FrameContext::new(task, frame), &candidate.choice).ok_or(BridgeError::Unspelled)?;
    spelled.in0 = neighbours.in0.clone().or(spelled.in0);
    spelled.in1 = neighbours.in1.clone().or(spelled.in1);
    spelled.out = neighbours.out.clone().or(spelled.out);
    let text = parser::program(&spelled.to_string(), SourceId(0)).map_err(BridgeError::Refused)?;
    let problem = Problem::new(&text).map_err(BridgeError::first)?;
    let verdict = tilewright_tcp_cost::check(&task.setup, &problem);
    if !verdict.legal() {
        return Err(BridgeError::first(verdict.diagnostics));
    }
    let options = LowerOptions { from_hbm: task.from_hbm, ..options.clone() };
    let mut program = lower(&task.setup, &problem, &verdict, &options).map_err(BridgeError::Refused)?;
    as_chosen(task.setup.machine, &candidate.choice, &mut program);
    let machine = task.setup.machine;
    let (waits, mut events) = of_program(machine, &program);
    program.execs.iter().for_each(|exec| events.add(&counts(machine, exec), 1));
    let transfers = (waits > 0).then(|| ("from HBM".to_string(), waits));
    let execs = program.execs.iter().map(|exec| (exec.name.clone(), exec_cycles(machine, exec).total_cycles));
    let commands: Vec<(String, u64)> = transfers.into_iter().chain(execs).collect();
    let cycles = commands.iter().fold(0, |all: u64, (_, cycles)| all.plus_cost(*cycles));
    let events_fj = energy_fj(machine, &events).iter().fold(0, |all: u64, part| all.plus_cost(*part));
    let energy_fj = events_fj.plus_cost(cycle_fj(&task.setup).times_cost(cycles));
    Ok(BridgedCandidate { candidate: *candidate, cycles, energy_fj, commands, text, program })
}
