//! `tilewright explore`: the best lowered shapes and tactics of an einsum, found, verified and told.

pub(crate) mod args;
mod between;
mod json;
mod plot;
mod results;
mod sweep;
mod table;
mod verify;

use std::path::Path;

use serde_json::Value;
use tilewright_explore::tcp::explain::explain;
use tilewright_explore::tcp::neighbours::Neighbours;
use tilewright_explore::tcp::{Found, Task, Told};
use tilewright_explore::{Goal, Options, search};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Program;
use tilewright_report::columns::thousands;

use crate::args::{NotationArgs, TargetArgs};
use crate::host::Host;
use crate::notation::gather;
use crate::outcome::{BAD_INPUT, FAILED, GOOD, Outcome};
use args::ExploreArgs;
use sweep::Setting;

/// Candidates that are put between given neighbours.
const BETWEEN: usize = 512;

pub(crate) fn run(args: &ExploreArgs, host: &mut dyn Host) -> Outcome {
    explore(args, host).unwrap_or_else(|refusal| refusal)
}

/// What one search says.
pub(crate) struct Answer {
    text: String,
    value: Value,
    code: u8,
}

fn explore(args: &ExploreArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let goal = goal(&args.goal)?;
    // From now on Ctrl-C asks for the best so far.
    host.interrupted();
    let settings = sweep::settings(args.dims.as_deref(), &args.target.set)?;
    if let ([setting], None) = (settings.as_slice(), args.folder()) {
        let answer = one(args, setting, goal, host)?;
        let stdout = if args.json { pretty(&answer.value) } else { answer.text };
        return Ok(Outcome { code: answer.code, ..Outcome::good(stdout) });
    }
    results::all(args, &settings, goal, host)
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Searches for one setting, verifies, and says what was found.
fn one(args: &ExploreArgs, setting: &Setting, goal: Goal, host: &mut dyn Host) -> Result<Answer, Outcome> {
    let mut gathered = gather::read(&notation_args(args, setting), host)?;
    let target = TargetArgs { set: setting.set.clone(), ..args.target.clone() };
    let (_, tcp) = gather::target(&mut gathered.sources, &target, host)?;
    let setup = gather::setup(&gathered, &tcp, args.target.pes)?;
    let colour = host.colour();
    let refused = |complaints: &[_]| Outcome::refused(BAD_INPUT, &gathered.sources, complaints, colour);
    let problem = Problem::new(&gathered.program).map_err(|complaints| refused(&complaints))?;
    let task = Task::new(setup, &gathered.program, &problem).map_err(|complaint| refused(&[*complaint]))?;
    let neighbours = neighbours(&gathered.program);
    let (found, seconds) = searched(&task, goal, args, &neighbours, host);
    if found.kept.best().is_empty() {
        let why = if found.complete {
            table::nothing(&task, &found)
        } else {
            "stopped before anything was found".to_string()
        };
        return Err(Outcome { code: FAILED, ..Outcome::usage(&why) });
    }
    if neighbours.any() {
        return between::answer(args, &task, &found, &neighbours, goal, seconds);
    }
    let checks = verify::verify(&task, &found, args, host);
    let mut text = table::answer(&task, &found, args, &checks, goal, seconds);
    if let Some(number) = args.explain {
        text.push_str(&explained(&task, &found, number)?);
    }
    if let Some(path) = &args.plot {
        write(path, &plot::file(&task, &found, path.ends_with(".html")), host)?;
        text.push_str(&format!("drawn     {path}\n"));
    }
    let code = if checks.iter().all(verify::Check::good) { GOOD } else { FAILED };
    Ok(Answer { text, value: json::answer(&task, &found, &checks, seconds), code })
}

/// The search with its progress, and how long it took.
fn searched(
    task: &Task<'_>,
    goal: Goal,
    args: &ExploreArgs,
    neighbours: &Neighbours,
    host: &mut dyn Host,
) -> (Found, f64) {
    let keep = args.keep.max(args.explain.unwrap_or(0)).max(if neighbours.any() { BETWEEN } else { 1 });
    let options =
        Options { goal, keep, prune: args.plot.is_none(), cloud: args.plot.is_some(), budget: None };
    let started = host.seconds();
    let found = search(task, &options, &mut |progress, kept| {
        let seconds = host.seconds() - started;
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let (rate, part) = (
            progress.evaluated as f64 / seconds.max(1e-3) / 1e6,
            progress.frames as f64 / progress.of_frames.max(1) as f64,
        );
        let best = kept
            .best()
            .first()
            .map_or(String::new(), |best| format!(", best {} cycles", thousands(best.ticks)));
        host.progress(&format!(
            "{:.0} % of {} frames, {rate:.1} M candidates a second, {:.0} s left{best}",
            100.0 * part,
            progress.of_frames,
            seconds / part.max(1e-3) - seconds
        ));
        host.interrupted()
            || args.budget.is_some_and(|most| seconds > most)
            || args.evaluations.is_some_and(|most| progress.evaluated >= most)
    });
    host.progress("");
    (found, host.seconds() - started)
}

fn write(path: &str, text: &str, host: &mut dyn Host) -> Result<(), Outcome> {
    let failed = |error| Outcome::usage(&format!("cannot write `{path}`: {error}"));
    host.write(Path::new(path), text.as_bytes()).map_err(failed)
}

fn explained(task: &Task<'_>, found: &Found, number: usize) -> Result<String, Outcome> {
    let best = found.kept.best();
    let candidate = number.checked_sub(1).and_then(|at| best.get(at)).ok_or_else(|| {
        Outcome::usage(&format!(
            "--explain {number}\n  = allowed: 1 to {}, the candidates that were kept\n  = instead: --explain 1",
            best.len()
        ))
    })?;
    let words = Told::new(task, found, candidate).map(|told| explain(task, &told)).unwrap_or_default();
    Ok(format!("explained #{number}\n{words}"))
}

fn neighbours(program: &Program) -> Neighbours {
    Neighbours { in0: program.in0.clone(), in1: program.in1.clone(), out: program.out.clone() }
}

fn notation_args(args: &ExploreArgs, setting: &Setting) -> NotationArgs {
    NotationArgs {
        einsum: args.einsum.clone(),
        dims: setting.dims.clone(),
        in0: args.in0.clone(),
        in1: args.in1.clone(),
        out: args.out_shape().cloned(),
        tactic: None,
        stationary: None,
        dtype: args.dtype.clone(),
        target: args.target.clone(),
    }
}

fn goal(text: &str) -> Result<Goal, Outcome> {
    let watts = |text: &str| {
        let watts: f64 = text.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded first")]
        let milliwatts = (watts.clamp(0.0, 1e9) * 1000.0).round() as u64;
        watts.is_finite().then_some(Goal::TimeBelow(milliwatts))
    };
    let goal = match text {
        "time" => Some(Goal::Time),
        "energy" => Some(Goal::Energy),
        "edp" => Some(Goal::EnergyDelay),
        other => other.strip_prefix("time@").and_then(watts),
    };
    goal.ok_or_else(|| {
        Outcome::usage(&format!(
            "--goal {text}\n  = allowed: time, energy, edp, time@WATTS\n  = instead: --goal time@5"
        ))
    })
}
