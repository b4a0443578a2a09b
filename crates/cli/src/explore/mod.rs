//! `tilewright explore`: the best lowered shapes and tactics of an einsum, found, verified and told.

pub(crate) mod args;
mod table;
mod verify;

use tilewright_explore::{Found, Goal, Options, Task, search};
use tilewright_notation::problem::Problem;

use crate::args::NotationArgs;
use crate::host::Host;
use crate::notation::gather;
use crate::outcome::{BAD_INPUT, FAILED, Outcome};
use args::ExploreArgs;

pub(crate) fn run(args: &ExploreArgs, host: &mut dyn Host) -> Outcome {
    explore(args, host).unwrap_or_else(|refusal| refusal)
}

fn explore(args: &ExploreArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let goal = goal(&args.goal)?;
    let mut gathered = gather::read(&notation_args(args), host)?;
    let (_, tcp) = gather::target(&mut gathered.sources, &args.target, host)?;
    let setup = gather::setup(&gathered, &tcp, args.target.pes)?;
    let colour = host.colour();
    let refused = |complaints: &[_]| Outcome::refused(BAD_INPUT, &gathered.sources, complaints, colour);
    let problem = Problem::new(&gathered.program).map_err(|complaints| refused(&complaints))?;
    let task = Task::new(setup, &gathered.program, &problem).map_err(|complaint| refused(&[*complaint]))?;
    let options = Options { goal, keep: args.keep, prune: true };
    let started = host.seconds();
    let found = search(&task, &options, &mut |_, _| host.interrupted());
    let seconds = host.seconds() - started;
    if found.kept.best().is_empty() {
        return Err(Outcome { code: FAILED, ..Outcome::usage(&table::nothing(&task, &found)) });
    }
    let checks = verify::verify(&task, &found, args, host);
    let code = if checks.iter().all(verify::Check::good) { crate::outcome::GOOD } else { FAILED };
    Ok(Outcome { code, ..Outcome::good(table::answer(&task, &found, &checks, goal, seconds)) })
}

fn notation_args(args: &ExploreArgs) -> NotationArgs {
    NotationArgs {
        einsum: args.einsum.clone(),
        dims: args.dims.clone(),
        in0: None,
        in1: None,
        out: None,
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

/// The frame of a candidate.
fn framed(task: &Task<'_>, found: &Found, frame: u32) -> Option<tilewright_explore::nest::Framed> {
    let frame = found.frames.get(usize::try_from(frame).ok()?)?;
    Some(tilewright_explore::nest::Framed::new(task, frame))
}
