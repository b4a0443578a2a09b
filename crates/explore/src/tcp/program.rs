//! From a candidate to the program that runs it: spelled, checked and lowered by the engine, with the load on
//! the context that the candidate chose. What a program takes besides its commands is counted here.

use tilewright_base::{Diagnostic, SourceId};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::{ast, parser};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::control::{Command, Queue, StepKind};
use tilewright_tcp_isa::program::exec::{Context, ExecBody};
pub use tilewright_tcp_lower::LowerOptions;
use tilewright_tcp_lower::lower;

use crate::cost_math::CostMath;
use crate::tcp::nest::FrameContext;
use crate::tcp::point::{LoadContext, TcpChoice};
use crate::tcp::spell::spell;
use crate::tcp::task::TcpTask;

/// A candidate that the engine has accepted.
#[derive(Clone, Debug)]
pub struct LoweredCandidate {
    /// Shapes and tactic as they are written.
    pub text: ast::Program,
    /// The commands.
    pub program: Program,
}

/// Spells, checks and lowers one command of a candidate.
///
/// # Errors
/// What the engine complains about; the closed forms should have refused it first.
pub fn lowered(
    task: &TcpTask<'_>,
    framed: &FrameContext,
    choice: &TcpChoice,
    options: &LowerOptions,
) -> Result<LoweredCandidate, Vec<Diagnostic>> {
    let wrong = |what: &str| vec![Diagnostic::error("explore/spelling", what.to_string())];
    let spelled = spell(task, framed, choice).ok_or_else(|| wrong("this candidate is refused"))?;
    let text = parser::program(&spelled.to_string(), SourceId(0)).map_err(|complaint| vec![*complaint])?;
    let problem = Problem::new(&text)?;
    let verdict = tilewright_tcp_cost::check(&task.setup, &problem);
    if !verdict.legal() {
        return Err(verdict.diagnostics);
    }
    let mut program =
        lower(&task.setup, &problem, &verdict, &LowerOptions { from_hbm: task.from_hbm, ..options.clone() })
            .map_err(|refused| vec![*refused])?;
    as_chosen(task.setup.machine, choice, &mut program);
    Ok(LoweredCandidate { text, program })
}

/// What shapes and tactic do not say: who loads, and how wide results are written.
pub fn as_chosen(machine: &Tcp, choice: &TcpChoice, program: &mut Program) {
    if choice.loading == LoadContext::Main {
        load_on_main(machine, program);
    }
    for exec in program.execs.iter_mut().filter(|exec| exec.name == "contract") {
        if let ExecBody::Stream(stream) = &mut exec.body {
            stream.commit.width = stream.commit.width.min(choice.commit_bytes);
        }
    }
}

/// The main context loads as wide as rows allow.
fn load_on_main(machine: &Tcp, program: &mut Program) {
    let at =
        program.execs.iter().position(|exec| exec.name == "load_registers" && exec.context == Context::Sub);
    let Some(at) = at else { return };
    let load = &mut program.execs[at];
    load.context = Context::Main;
    if let ExecBody::Stream(stream) = &mut load.body {
        let widths = machine.commit.main_widths_bytes.iter().copied();
        let bytes = stream.commit.bytes;
        stream.commit.width = widths.filter(|width| bytes.is_multiple_of(*width)).max().unwrap_or(bytes);
    }
    for queue in &mut program.queues {
        on_main(queue, at);
    }
}

/// The execution behind the load of this image.
fn on_main(queue: &mut Queue, at: usize) {
    let mut loaded = None;
    for step in &mut queue.steps {
        match &mut step.kind {
            StepKind::Push(Command::Load(image)) => loaded = usize::try_from(image.0).ok(),
            StepKind::Push(Command::Exec { context, .. }) if loaded == Some(at) => *context = Context::Main,
            _ => {}
        }
    }
}

/// Cycles of a task's program whose transfers and commands take so many, one after the other: launch, the
/// pushes before the first of them starts, the commands, the end. All later pushes are done while commands
/// run.
pub fn program_cycles(task: &TcpTask<'_>, commands_cycles: u64) -> u64 {
    let machine = task.setup.machine;
    // A transfer starts at once; a command takes its image and its start.
    let first = if task.from_hbm == [false; 2] { 2 } else { 1 };
    let pushes = machine.queue.push_cycles.times_cost(first);
    [machine.command.launch_cycles, pushes, commands_cycles, machine.command.finish_cycles]
        .into_iter()
        .fold(0, u64::plus_cost)
}
