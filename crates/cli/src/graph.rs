//! Graphs that take arrays, compiled for `run` and `compile` alike: which options mean something to them, and
//! the choices that an effort finds.

use tilewright_base::Sources;
use tilewright_compile::divide::{DividedGraph, divided};
use tilewright_compile::general::refusal::{check_graph, refused_node};
use tilewright_compile::general::{Choice, Options, Refusal, four_bits, plan};
use tilewright_explore::Goal;
use tilewright_graph::{Graph, OpenSizes, TensorStore, bounded, primitives, wide_floats};
use tilewright_machine::Tcp;
use tilewright_schedule::tune::{GraphGoal, GraphWorth, TuneError, TunedGraph, tune_graph, watts, worth};

use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::progress::part;
use crate::quantise::{self, Calibration, QuantisedNote, rewritten};
use crate::target::ModelTarget;

/// What a graph is compiled for.
pub(crate) struct GraphRequest<'r> {
    pub(crate) target: &'r ModelTarget,
    /// How many choices are simulated, if that was said.
    pub(crate) effort: Option<u64>,
    pub(crate) goal: Goal,
    /// Whether programs are checked before they are used.
    pub(crate) checks: bool,
    /// Whether progress is shown.
    pub(crate) shows_progress: bool,
}

/// A compiled graph.
pub(crate) struct CompiledGraph {
    pub(crate) tuned: TunedGraph,
    /// What became of its contractions, if they are not all in bf16.
    pub(crate) note: Option<QuantisedNote>,
    /// Sizes that a run may have below those that it was compiled for.
    pub(crate) open: OpenSizes,
    /// How it is divided over chips; the plan is that of one part.
    pub(crate) divided: Option<DividedGraph>,
}

/// Primitives at the bounds of their sizes, or of one part of them.
struct Lowerable {
    graph: Graph,
    note: Option<QuantisedNote>,
    open: OpenSizes,
    divided: Option<DividedGraph>,
}

impl GraphRequest<'_> {
    /// Compiles a graph as it was read; inputs to find scales on, if it is to be in integers.
    pub(crate) fn compile(
        &self,
        machine: &Tcp,
        graph: &Graph,
        store: &TensorStore,
        calibration: Option<&Calibration>,
        host: &mut dyn Host,
    ) -> Result<CompiledGraph, Outcome> {
        let lowerable = self.lowerable(graph, store, calibration, host)?;
        self.planned(machine, lowerable, store, host)
    }

    /// Compiles primitives whose contractions have the types that are asked for.
    pub(crate) fn compile_primitives(
        &self,
        machine: &Tcp,
        graph: Graph,
        store: &TensorStore,
        host: &mut dyn Host,
    ) -> Result<CompiledGraph, Outcome> {
        check_graph(&graph).map_err(|refusal| not_lowered(&graph, &refusal))?;
        let (graph, open) = at_bounds(graph, host)?;
        self.planned(machine, Lowerable { graph, note: None, open, divided: None }, store, host)
    }

    fn planned(
        &self,
        machine: &Tcp,
        Lowerable { graph, note, open, divided }: Lowerable,
        store: &TensorStore,
        host: &mut dyn Host,
    ) -> Result<CompiledGraph, Outcome> {
        let (rule, effort) = (self.rule(machine)?, self.effort()?);
        self.progress(host, "compiling", None);
        let phase = format!("choosing with effort {effort}");
        let planned = |options: &Options| plan(machine, &graph, store, options);
        let aim = GraphGoal { effort, goal: self.goal };
        let tuned = tune_graph(machine, rule, aim, &planned, &mut |done, of| {
            self.progress(host, &phase, Some(part(done, of)));
        });
        self.progress(host, "", None);
        let tuned = tuned.map_err(|error| refused(&graph, &error))?;
        let note = note.map(|mut note| {
            note.add_weights(&four_bits(&tuned.planned.kernels));
            note
        });
        Ok(CompiledGraph { tuned, note, open, divided })
    }

    /// What each part of the compiler is worth for a graph.
    pub(crate) fn worth(
        &self,
        machine: &Tcp,
        graph: &Graph,
        store: &TensorStore,
        calibration: Option<&Calibration>,
        host: &mut dyn Host,
    ) -> Result<GraphWorth, Outcome> {
        let rule = self.rule(machine)?;
        let Lowerable { graph, .. } = self.lowerable(graph, store, calibration, host)?;
        let parts = Choice::ALL.into_iter().filter(|part| !rule.without.has(*part)).collect::<Vec<_>>();
        let planned = |options: &Options| plan(machine, &graph, store, options);
        let found = worth(machine, rule, &parts, &planned, &mut |done, of| {
            self.progress(host, "leaving parts out", Some(part(done, of)));
        });
        self.progress(host, "", None);
        found.map_err(|error| refused(&graph, &error))
    }

    /// How a graph is planned if no choice is looked for.
    fn rule(&self, machine: &Tcp) -> Result<Options, Outcome> {
        let (pes, without) = (self.target.general_pes(machine)?, self.target.without()?);
        Ok(Options { pes, without, check: self.checks, ..Options::default() })
    }

    /// The primitives of a graph as they are planned.
    fn lowerable(
        &self,
        graph: &Graph,
        store: &TensorStore,
        calibration: Option<&Calibration>,
        host: &mut dyn Host,
    ) -> Result<Lowerable, Outcome> {
        check_graph(graph).map_err(|refusal| not_lowered(graph, &refusal))?;
        let graph = primitives(graph).map_err(|complaint| {
            Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
        })?;
        check_graph(&graph).map_err(|refusal| not_lowered(&graph, &refusal))?;
        let wide = wide_floats(&graph).map_err(|complaint| {
            Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
        })?;
        let graph = wide.unwrap_or(graph);
        let (graph, note) = match rewritten(self.target, (&graph, store), calibration, host)? {
            Some((graph, note)) => (graph, Some(note)),
            None => (graph, None),
        };
        let (graph, open) = at_bounds(graph, host)?;
        let divided = match self.target.chips {
            1 => None,
            chips => Some(divided(&graph, chips).map_err(|complaint| {
                Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
            })?),
        };
        let graph = divided.as_ref().map_or(graph, |divided| divided.graph.clone());
        Ok(Lowerable { graph, note, open, divided })
    }

    fn progress(&self, host: &mut dyn Host, phase: &str, part: Option<f64>) {
        if self.shows_progress {
            host.progress(phase, part);
        }
    }

    /// The rule, unless more is asked for; goals other than time are found by simulation.
    fn effort(&self) -> Result<u64, Outcome> {
        match (self.effort, self.goal) {
            (Some(0), Goal::Energy | Goal::EnergyDelay) => Err(Outcome::usage(
                "--goal energy or edp with --effort 0, which evaluates no choice\n  = allowed: --effort 1 to \
                 9\n  \
                 = instead: leave --effort out",
            )),
            (Some(effort), _) => Ok(effort),
            (None, Goal::Time) => Ok(0),
            (None, _) => Ok(1),
        }
    }
}

/// A graph of primitives at the bounds of its axes, and which sizes are open.
pub(crate) fn at_bounds(graph: Graph, host: &dyn Host) -> Result<(Graph, OpenSizes), Outcome> {
    if graph.axes.is_empty() {
        return Ok((graph, OpenSizes::default()));
    }
    let made = bounded(&graph)
        .map_err(|complaint| Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour()))?;
    check_graph(&made.graph).map_err(|refusal| not_lowered(&made.graph, &refusal))?;
    Ok((made.graph, made.sizes))
}

/// Refuses options of a target that mean nothing to a graph that takes arrays.
pub(crate) fn check_target(target: &ModelTarget) -> Result<(), Outcome> {
    let rule = ModelTarget::default();
    refuse_given(&[
        ("--cache", target.cache != rule.cache, "no caches", "leave --cache out"),
        ("--context", target.context.is_some(), "the sizes of its inputs", "--dims for sizes that are open"),
        ("--solver", target.solver != rule.solver, "its own order", "leave --solver out"),
    ])?;
    if ![1, 2, 4, 8].contains(&target.chips) {
        let chips = target.chips;
        return Err(Outcome::usage(&format!(
            "--chips {chips}\n  = allowed: 1, 2, 4, 8\n  = instead: --chips 1"
        )));
    }
    quantise::check(target)
}

/// Refuses the first option that was given; each with what is allowed, and what to write instead.
pub(crate) fn refuse_given(options: &[(&str, bool, &str, &str)]) -> Result<(), Outcome> {
    refuse_given_with("a graph that takes arrays", options)
}

/// The same, for something else than a graph that takes arrays.
pub(crate) fn refuse_given_with(what: &str, options: &[(&str, bool, &str, &str)]) -> Result<(), Outcome> {
    match options.iter().find(|(_, given, ..)| *given) {
        None => Ok(()),
        Some((option, _, allowed, instead)) => Err(Outcome::usage(&format!(
            "{option} with {what}\n  = allowed: {allowed}\n  = instead: {instead}"
        ))),
    }
}

/// A graph that does not compile, or not so.
fn refused(graph: &Graph, error: &TuneError) -> Outcome {
    let instead = match error {
        TuneError::Graph(refusal) => return not_lowered(graph, refusal),
        TuneError::Power { least_milliwatts, .. } => {
            format!("--goal time@{}, fewer --pes or more --effort", watts(*least_milliwatts))
        }
        TuneError::Compile(_) | TuneError::Untimed | TuneError::Stopped => "--goal time".to_string(),
    };
    Outcome { code: FAILED, ..Outcome::usage(&format!("{error}\n  = instead: {instead}")) }
}

/// A node that is not lowered, with the nearest thing that is.
pub(crate) fn not_lowered(graph: &Graph, refusal: &Refusal) -> Outcome {
    let node = refused_node(graph, refusal);
    let interp = "`run --interp`, which computes every operator";
    let words = match node.nearest {
        None => format!("{node}\n  = instead: {interp}"),
        // The interpreter would compute nothing either.
        Some((allowed, instead)) if node.is_wrong => {
            format!("{node}\n  = allowed: {allowed}\n  = instead: {instead}")
        }
        Some((allowed, instead)) => {
            format!("{node}\n  = allowed: {allowed}\n  = instead: {instead}; or {interp}")
        }
    };
    Outcome { code: FAILED, ..Outcome::usage(&words) }
}
