//! `tilewright explore`: the best lowered shapes and tactics of an einsum, found, verified and told.

pub(crate) mod args;
mod neighbours;
mod results;
mod sweep;
mod table;

use std::path::Path;
use tilewright_base::invariant::OrBroken;

use serde_json::Value;
use tilewright_base::Sources;
use tilewright_explore::neuron::NeuronTask;
use tilewright_explore::search::SearchResultOf;
use tilewright_explore::tcp::neighbours::NeighbourShapes;
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_neuron_isa::Chip;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Program;
use tilewright_num::Dtype;
use tilewright_verify::CandidateCheck;
use tilewright_workbench::explore::display::CandidateDisplay;
use tilewright_workbench::explore::neuron::CoreTask;
use tilewright_workbench::explore::{assumed_energies, json, plot};

use crate::args::NotationArgs;
use crate::chip::load_chip;
use crate::goal::goal;
use crate::host::Host;
use crate::notation::gather;
use crate::outcome::{BAD_INPUT, FAILED, GOOD, Outcome};
use args::ExploreArgs;
use sweep::SweepPoint;

/// Candidates that are put between given neighbours.
const BETWEEN: usize = 512;

pub(crate) fn run(args: &ExploreArgs, host: &mut dyn Host) -> Outcome {
    explore(args, host).unwrap_or_else(|refusal| refusal)
}

/// What one search says.
pub(crate) struct SearchAnswer {
    text: String,
    value: Value,
    code: u8,
}

fn explore(args: &ExploreArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let goal = goal(&args.goal)?;
    allowed(args)?;
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

/// What no search could answer is refused before there is one.
fn allowed(args: &ExploreArgs) -> Result<(), Outcome> {
    if args.keep == 0 {
        return Err(Outcome::usage("--keep 0\n  = allowed: 1 or more\n  = instead: --keep 1"));
    }
    if args.explain == Some(0) {
        return Err(Outcome::usage(
            "--explain 0\n  = allowed: 1 or more, 1 for the best\n  = instead: --explain 1",
        ));
    }
    if let Some(seconds) = args.budget.filter(|seconds| !seconds.is_finite() || *seconds <= 0.0) {
        return Err(Outcome::usage(&format!(
            "--budget {seconds}\n  = allowed: seconds, more than 0\n  = instead: --budget 10"
        )));
    }
    if args.evaluations == Some(0) {
        return Err(Outcome::usage(
            "--evaluations 0\n  = allowed: 1 or more\n  = instead: --evaluations 100000",
        ));
    }
    match &args.plot {
        Some(path) if !path.ends_with(".svg") && !path.ends_with(".html") => Err(Outcome::usage(&format!(
            "--plot {path}\n  = allowed: a file that ends in .svg or .html\n  = instead: --plot {path}.svg"
        ))),
        _ => Ok(()),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).or_broken("a JSON value prints") + "\n"
}

/// Searches for one setting, verifies, and says what was found.
fn one(
    args: &ExploreArgs,
    setting: &SweepPoint,
    goal: Goal,
    host: &mut dyn Host,
) -> Result<SearchAnswer, Outcome> {
    let from_hbm = crate::memories::from_hbm(&args.from)?;
    let mut gathered = gather::read(&notation_args(args, setting), host)?;
    let loaded = load_chip(&mut gathered.sources, &args.target.chip, &setting.set, host)?;
    let colour = host.colour();
    let refused =
        |sources: &Sources, complaints: &[_]| Outcome::refused(BAD_INPUT, sources, complaints, colour);
    let problem =
        Problem::new(&gathered.program).map_err(|complaints| refused(&gathered.sources, &complaints))?;
    let neighbours = neighbours(&gathered.program);
    if let Some(figures) = loaded.machine.neuron() {
        let chip = Chip::new(loaded.name.clone(), figures.clone());
        let dtype = core_dtype(&gathered.program)?;
        let task = NeuronTask::new(&chip, dtype, &gathered.program, &problem)
            .map_err(|complaint| refused(&gathered.sources, &[*complaint]))?;
        no_shapes(&neighbours)?;
        no_data_memory(&args.from)?;
        no_pes(args.target.pes, &args.target.chip)?;
        let shown = CoreTask { task, assumed: assumed_energies(&loaded) };
        return searched_and_told(&shown, args, setting, goal, host);
    }
    let tcp = gather::tcp(&loaded, &args.target)?;
    let setup = gather::setup(&gathered, &tcp, args.target.pes)?;
    let task = tilewright_explore::tcp::TcpTask::new(setup, &gathered.program, &problem)
        .map_err(|complaint| refused(&gathered.sources, &[*complaint]))?
        .with_inputs_in_hbm(from_hbm);
    if neighbours.any() {
        let (found, seconds) = searched(&task, goal, args, BETWEEN, host);
        something(&task, &found)?;
        return neighbours::answer(args, &task, &found, &neighbours, goal, seconds);
    }
    searched_and_told(&task, args, setting, goal, host)
}

fn something<S: CandidateDisplay>(shown: &S, found: &SearchResultOf<S::Target>) -> Result<(), Outcome> {
    if !found.kept.best().is_empty() {
        return Ok(());
    }
    let why = if found.complete {
        table::nothing(shown, found)
    } else {
        "stopped before anything was found".to_string()
    };
    Err(Outcome { code: FAILED, ..Outcome::usage(&why) })
}

fn searched_and_told<S: CandidateDisplay>(
    shown: &S,
    args: &ExploreArgs,
    setting: &SweepPoint,
    goal: Goal,
    host: &mut dyn Host,
) -> Result<SearchAnswer, Outcome> {
    let until = args.budget.map(|budget| host.seconds() + budget);
    let (found, seconds) = searched(shown, goal, args, 1, host);
    something(shown, &found)?;
    let checks = shown.verify(&found, &args.target.chip, args.limits(), &mut || {
        host.interrupted() || until.is_some_and(|until| host.seconds() > until)
    });
    let mut text = table::answer(shown, &found, args, &checks, goal, seconds);
    if let Some(number) = args.explain {
        text.push_str(&explained(shown, &found, number)?);
    }
    if let Some(path) = args.plot.as_ref().map(|path| setting.file(path)) {
        let path = path.as_str();
        write(path, &plot::file(shown, &found, path.ends_with(".html")), host)?;
        text.push_str(&format!("drawn     {path}\n"));
    }
    let code = if checks.iter().all(CandidateCheck::good) { GOOD } else { FAILED };
    Ok(SearchAnswer { text, value: json::answer(shown, &found, &checks, goal, seconds), code })
}

/// The element type on a NeuronCore: as asked, as the file says, or bfloat16.
fn core_dtype(program: &Program) -> Result<Dtype, Outcome> {
    let asked = program.dtype.as_ref().map_or("bf16", |(name, _)| name.as_str());
    tilewright_num::RuleSet::NEURON.dtype(asked).ok_or_else(|| {
        let allowed: Vec<&str> = NeuronTask::MULTIPLIED.iter().map(|dtype| dtype.name()).collect();
        Outcome::usage(&format!(
            "--dtype {asked} is no element type\n  = allowed: {}\n  = instead: --dtype bf16",
            allowed.join(", ")
        ))
    })
}

/// Lowered shapes speak of slices, of which a NeuronCore has none.
fn no_shapes(neighbours: &NeighbourShapes) -> Result<(), Outcome> {
    if neighbours.any() {
        return Err(Outcome::usage(
            "--in0, --in1 and --out with a lowered shape, on a machine without slices\n  \
             = allowed: operands that start in HBM\n  = instead: leave them out",
        ));
    }
    Ok(())
}

/// Inputs of a NeuronCore start in HBM.
fn no_data_memory(from: &[String]) -> Result<(), Outcome> {
    match from.iter().find(|text| text.ends_with("dm")) {
        None => Ok(()),
        Some(text) => Err(Outcome::usage(&format!(
            "--from {text}, on a machine without data memory\n  = allowed: hbm\n  = instead: leave it out"
        ))),
    }
}

/// A NeuronCore has no PEs that could be fused.
fn no_pes(pes: u64, chip: &str) -> Result<(), Outcome> {
    if pes == 1 {
        return Ok(());
    }
    Err(Outcome::usage(&format!(
        "--pes {pes} with --chip {chip}: PEs are fused on the TCP, and a search here is for one \
         NeuronCore\n  \
         = allowed: --pes on machines of architecture tcp\n  = instead: leave it out, or --chip tcp"
    )))
}

/// The search with its progress, and how long it took.
fn searched<S: CandidateDisplay>(
    shown: &S,
    goal: Goal,
    args: &ExploreArgs,
    least_kept: usize,
    host: &mut dyn Host,
) -> (SearchResultOf<S::Target>, f64) {
    let keep = args.keep.max(args.explain.unwrap_or(0)).max(args.verified()).max(least_kept);
    let options = SearchOptions {
        goal,
        keep,
        prune: args.plot.is_none(),
        cloud: args.plot.is_some(),
        budget: args.evaluations,
        is_budget_held: true,
    };
    let started = host.seconds();
    let found = search(shown.target(), &options, &mut |progress, kept| {
        let seconds = host.seconds() - started;
        #[expect(clippy::cast_precision_loss, reason = "a part for people")]
        let part = progress.frames as f64 / progress.of_frames.max(1) as f64;
        if !args.json {
            let rate = table::per_second(progress.evaluated, seconds);
            let best = kept.best().first();
            let best = best.map_or(String::new(), |best| format!(", best {}", shown.time(best.ticks)));
            let phase = format!("{} frames, {rate} candidates a second{best}", progress.of_frames);
            host.progress(&phase, Some(part));
        }
        host.interrupted() || args.budget.is_some_and(|most| seconds > most)
    });
    host.progress("", None);
    (found, host.seconds() - started)
}

fn write(path: &str, text: &str, host: &mut dyn Host) -> Result<(), Outcome> {
    let failed = |error| Outcome::unwritten(path, &error);
    host.write(Path::new(path), text.as_bytes()).map_err(failed)
}

fn explained<S: CandidateDisplay>(
    shown: &S,
    found: &SearchResultOf<S::Target>,
    number: usize,
) -> Result<String, Outcome> {
    let best = found.kept.best();
    let candidate = number.checked_sub(1).and_then(|at| best.get(at)).ok_or_else(|| {
        Outcome::usage(&format!(
            "--explain {number}\n  = allowed: 1 to {}, the candidates that were kept\n  = instead: --explain \
             1",
            best.len()
        ))
    })?;
    let words = shown.explain(found, candidate);
    Ok(format!("explained #{number}\n{words}"))
}

fn neighbours(program: &Program) -> NeighbourShapes {
    NeighbourShapes { in0: program.in0.clone(), in1: program.in1.clone(), out: program.out.clone() }
}

fn notation_args(args: &ExploreArgs, setting: &SweepPoint) -> NotationArgs {
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
