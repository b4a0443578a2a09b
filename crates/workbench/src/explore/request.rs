//! One search from texts to its answer as data.

use serde_json::Value;
use tilewright_base::Diagnostic;
use tilewright_explore::neuron::NeuronTask;
use tilewright_explore::search::{SearchProgress, SearchResultOf};
use tilewright_explore::tcp::TcpTask;
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_machine::LoadedMachine;
use tilewright_neuron_isa::Chip;
use tilewright_num::RuleSet;
use tilewright_verify::VerifyLimits;

use super::display::{CandidateDisplay, LoweredText, Remedy};
use super::neuron::CoreTask;
use super::{assumed_energies, json, plot};
use crate::Refusal;
use crate::notation::{NotationInput, tcp_of};

/// What to search for, and how far.
#[derive(Clone, Copy, Debug)]
pub struct ExploreRequest {
    /// What is to be least.
    pub goal: Goal,
    /// How many of the best to keep.
    pub keep: usize,
    /// PEs fused into one.
    pub pes: u64,
    /// Which inputs start off the chip.
    pub from_hbm: [bool; 2],
    /// Candidates to look at, for spaces that are too large for an exact answer.
    pub evaluations: Option<u64>,
    /// Look at the whole space and draw it.
    pub plot: bool,
    /// How many of the best to run on the simulator.
    pub verify: VerifyLimits,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct ExploreAnswer {
    /// All of it as data, with the keys of `explore --json`.
    pub value: Value,
    /// Each of the best in sentences.
    pub explained: Vec<String>,
    /// Each of the best as texts, where it has any.
    pub lowered: Vec<Option<LoweredText>>,
    /// Performance against power, energy by component and a roofline, if they were asked for.
    pub svg: Option<String>,
}

/// Searches on a machine of either family. `progress` hears the part that is done, and ends the search with
/// `true`.
///
/// # Errors
/// An einsum that is not for this machine; a space in which nothing is legal.
pub fn explore(
    input: &NotationInput,
    loaded: &LoadedMachine,
    request: &ExploreRequest,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<ExploreAnswer, Box<Refusal>> {
    let problem = input.problem()?;
    if let Some(figures) = loaded.machine.neuron() {
        let chip = Chip::new(loaded.name.clone(), figures.clone());
        let asked = input.program.dtype.as_ref().map_or("bf16", |(name, _)| name.as_str());
        let dtype = RuleSet::NEURON.dtype(asked).ok_or_else(|| input.refused(vec![no_dtype(asked)]))?;
        let task = NeuronTask::new(&chip, dtype, &input.program, &problem)
            .map_err(|complaint| input.refused(vec![*complaint]))?;
        let shown = CoreTask { task, assumed: assumed_energies(loaded) };
        return answer(&shown, input, &loaded.name, request, progress);
    }
    let setup = input.setup(tcp_of(loaded)?, request.pes)?;
    let task = TcpTask::new(setup, &input.program, &problem)
        .map_err(|complaint| input.refused(vec![*complaint]))?
        .with_inputs_in_hbm(request.from_hbm);
    answer(&task, input, &loaded.name, request, progress)
}

fn no_dtype(asked: &str) -> Diagnostic {
    let allowed: Vec<&str> = NeuronTask::MULTIPLIED.iter().map(|dtype| dtype.name()).collect();
    Diagnostic::error("neuron/dtype", format!("`{asked}` is no element type of the tensor engine"))
        .allowed(allowed.join(", "))
        .instead("bf16")
}

fn answer<S: CandidateDisplay>(
    shown: &S,
    input: &NotationInput,
    chip: &str,
    request: &ExploreRequest,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<ExploreAnswer, Box<Refusal>> {
    let keep = request.keep.max(request.verify.candidates).max(1);
    let options = SearchOptions {
        goal: request.goal,
        keep,
        prune: !request.plot,
        cloud: request.plot,
        budget: request.evaluations,
        is_budget_held: true,
    };
    let found = search(shown.target(), &options, &mut |done: &SearchProgress, _| progress(part(done)));
    if found.kept.best().is_empty() {
        return Err(input.refused(vec![nothing(shown, &found)]));
    }
    let checks = shown.verify(&found, chip, request.verify, &mut || progress(1.0));
    Ok(ExploreAnswer {
        value: json::answer(shown, &found, &checks, request.goal, 0.0),
        explained: found.kept.best().iter().map(|one| shown.explain(&found, one)).collect(),
        lowered: found.kept.best().iter().map(|one| shown.lowered(&found, one, chip)).collect(),
        svg: request.plot.then(|| plot::file(shown, &found, false)),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a part for people")]
fn part(done: &SearchProgress) -> f64 {
    done.frames as f64 / done.of_frames.max(1) as f64
}

/// Why nothing is legal, and what would be.
fn nothing<S: CandidateDisplay>(shown: &S, found: &SearchResultOf<S::Target>) -> Diagnostic {
    if !found.complete {
        return Diagnostic::error("explore/stopped", "the search was stopped before it found anything")
            .allowed("searches that look at one legal candidate")
            .instead("more candidates to look at");
    }
    let what = format!("no {} of {} is legal on {}", shown.called(), shown.einsum(), shown.place());
    let complaint = Diagnostic::error("explore/nothing-legal", what);
    let Some(binding) = found.refused.binding() else { return complaint };
    let words: Vec<String> = shown.advice(binding).iter().map(remedy_words).collect();
    complaint
        .allowed(format!("{}: {} of {} needed", binding.reason.name(), binding.have, binding.need))
        .instead(words.join(", or "))
}

fn remedy_words(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Figures(figures) => {
            let sets: Vec<String> = figures.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("a machine with {}", sets.join(" and "))
        }
        Remedy::Pes(pes) => format!("{pes} fused PEs"),
        Remedy::Size(name, size) => format!("{name}={size}"),
        Remedy::Watts(watts) => format!("time@{watts:.3}"),
        Remedy::Words(words) => (*words).to_string(),
    }
}
