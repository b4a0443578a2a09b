//! `tilewright run` of a language model of any shape: programs of its graph as [any graph](crate::graph) has
//! them, one for the prompt and one for single tokens, where no template takes it or templates are left out.

use tilewright_base::Sources;
use tilewright_base::invariant::OrBroken;
use tilewright_compile::general::plan::Planned;
use tilewright_compile::general::sequence::Sequence;
use tilewright_explore::Goal;
use tilewright_graph::{AxisChoice, Graph, LanguageGraph, NoLanguage, TensorStore, primitives, sized};
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_record::KeepAll;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_runtime::generate::{Generation, LanguageDevice};
use tilewright_runtime::graph::executable;
use tilewright_runtime::model::{ModelError, Phase};
use tilewright_runtime::session::{GraphSession, SessionPrograms};
use tilewright_runtime::{ReadingError, ReadingOptions};
use tilewright_view::RunView;
use tilewright_workbench::graph_run::view_of_graph_run;
use tilewright_workbench::model::report::ModelFacts;
use tilewright_workbench::model_run::title;

use super::args::RunArgs;
use super::device::{ModelJob, failed, wide};
use super::page::ModelPage;
use super::reference::{positions, vocabulary};
use super::{RunTarget, check_room};
use crate::graph::{CompiledGraph, GraphRequest, refuse_given_with};
use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::quantise::{self, Calibration, rewritten};
use crate::target::{ModelTarget, refused_programs};

/// Tokens of a prompt that one run takes, at most.
const MOST_PROMPT_TOKENS: u64 = 256;

/// Compiles the graph of a language model as it was read, and generates with it.
pub(super) fn run(
    args: &RunArgs,
    on: &RunTarget<'_>,
    model: &Model,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    check(&args.target, &args.prompting.prompts)?;
    let complained = |complaint: Box<tilewright_base::Diagnostic>, host: &dyn Host| {
        Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
    };
    let graph = primitives(&model.graph).map_err(|complaint| complained(complaint, &*host))?;
    let language = LanguageGraph::of(&graph).map_err(|why| no_language(&args.model, &why))?;
    let job = on.job()?;
    let sizes = SequenceSizes::of_run(&graph, &language, &job, args)?;
    super::vocabulary::check(&job.prompt, vocabulary(&graph))?;
    let start = Sequence::new(&graph, &language);
    let calibration = Calibration {
        sets: vec![start.arrays(&wide(&job.prompt))],
        from: "the prompt of this run alone".to_string(),
    };
    let rewritten = rewritten(&args.target, (&graph, &model.store), Some(&calibration), host)?;
    let (narrow, note) = rewritten.map_or((None, None), |(graph, note)| (Some(graph), Some(note)));
    let maker = ProgramMaker {
        args,
        machine: on.machine,
        language: &language,
        graph: narrow.as_ref().unwrap_or(&graph),
        store: &model.store,
    };
    let job = ModelJob { page: on.page.map(|path| ModelPage { path, graph: &model.graph }), ..job };
    let prompt = sizes.prompt.as_ref().map(|(seq, past)| maker.make(seq, past, host)).transpose()?;
    let token = sizes.token.as_ref().map(|(seq, past)| maker.make(seq, past, host)).transpose()?;
    let (prompt, prompt_plan) = prompt.unzip();
    let (token, token_plan) = token.unzip();
    let programs =
        SessionPrograms { prompt, token, prompt_tokens: sizes.prompt_tokens, context: sizes.context };
    let facts = ModelFacts {
        model: graph.name.clone(),
        dtype: args.target.dtype.clone(),
        peak: if note.is_some() { Dtype::I8 } else { Dtype::Bf16 },
        pes: args.target.pes,
        chips: 1,
        context: sizes.context,
    };
    let mut session = GraphSession::new(programs, start);
    let (generation, shown) = job.generated(&mut session, host)?;
    let traced = job.traced(
        &mut |stream| {
            session.rewind_run();
            let wanted = ReadingOptions { values: true, trace: true, ..ReadingOptions::default() };
            session.feed(&generation.last, &wanted, stream).map(|_| ())
        },
        host,
    )?;
    let said = job.reported(&facts, vocabulary(&graph), (&generation, &shown), traced);
    let stdout = match args.prompting.json {
        true => said.stdout,
        false => said.stdout + &sizes.words(&language),
    };
    let said = Outcome { stdout, ..said };
    if on.page.is_none() {
        return Ok(said);
    }
    let plans = [prompt_plan, token_plan];
    let runs = recorded((on.machine, &model.graph), &mut session, (&wide(&job.prompt), &generation), &plans);
    job.with_page(said, runs.map_err(|error| failed(&error))?, host)
}

/// What a page shows of a generation: the run of the first tokens of its prompt, and of its last token.
fn recorded(
    (machine, graph): (&Tcp, &Graph),
    session: &mut GraphSession,
    (prompt, generation): (&[u64], &Generation),
    plans: &[Option<Planned>; 2],
) -> Result<Vec<RunView>, ModelError> {
    let run = |session: &mut GraphSession, tokens: &[u64]| {
        let (before, phase) = (LanguageDevice::seen(session), session.phase(tokens.len()));
        let wanted = ReadingOptions { values: true, findings: true, trace: true, ..Default::default() };
        let reading = session.feed(tokens, &wanted, KeepAll::default())?;
        let plan = plans[usize::from(phase == Phase::Decode)].as_ref();
        let plan = plan.or_broken("the program that ran has a plan");
        let shown = view_of_graph_run(machine, graph, plan, reading);
        let name = title(&plan.kernels.name, before, tokens.len() as u64);
        Ok::<RunView, ModelError>(RunView { name, ..shown })
    };
    let last = match generation.decode.runs {
        0 => None,
        _ => {
            session.rewind_run();
            Some(run(session, &generation.last)?)
        }
    };
    session.restart();
    let most = usize::try_from(LanguageDevice::most_tokens(session)).unwrap_or(usize::MAX);
    let first = run(session, &prompt[..most.max(1).min(prompt.len())])?;
    Ok(std::iter::once(first).chain(last).collect())
}

/// Options that mean nothing to such a model.
fn check(target: &ModelTarget, prompts: &[String]) -> Result<(), Outcome> {
    let rule = ModelTarget::default();
    let calibrate = target.calibrate.is_some();
    let options = [
        ("--chips", target.chips != rule.chips, "one chip", "--pes, for more PEs of it"),
        ("--cache", target.cache != rule.cache, "caches of the types that it has", "leave --cache out"),
        ("--solver", target.solver != rule.solver, "its own order", "leave --solver out"),
        ("--calibrate", calibrate, "the prompt, on which scales are found", "leave --calibrate out"),
        ("a second --prompt", prompts.len() > 1, "one", "a run for each prompt"),
    ];
    refuse_given_with("a language model whose programs templates do not write", &options)?;
    quantise::check(target)
}

/// A graph that a prompt means nothing to.
fn no_language(path: &str, why: &NoLanguage) -> Outcome {
    Outcome::usage(&format!(
        "`{path}` generates no text: {why}\n  \
         = allowed: inputs tokens or input_ids, positions or position_ids, attention_mask and state \
         (past_x with an output present_x), and an output logits\n  \
         = instead: tilewright run {path} --input NAME=FILE.npy, for any graph that takes arrays"
    ))
}

/// How many tokens programs take, and how many lie before them.
pub(crate) struct SequenceSizes {
    context: u64,
    prompt_tokens: u64,
    /// Of the program for prompts: tokens of a run, and tokens before them.
    pub(crate) prompt: Option<(AxisChoice, AxisChoice)>,
    /// Of the program for single tokens.
    pub(crate) token: Option<(AxisChoice, AxisChoice)>,
}

impl SequenceSizes {
    /// For the prompt of a run and the tokens that are asked for.
    fn of_run(
        graph: &Graph,
        language: &LanguageGraph,
        job: &ModelJob<'_>,
        args: &RunArgs,
    ) -> Result<SequenceSizes, Outcome> {
        let found = job.prompt.len() as u64;
        let needed = found.saturating_add(u64::from(args.prompting.max_tokens()));
        let positions = language_positions(graph, language);
        args.target.check_context(positions)?;
        let context = args.target.context.unwrap_or(needed).min(positions);
        check_room(&job.prompt, context, positions)?;
        Ok(SequenceSizes::new(language, context, (found, found <= MOST_PROMPT_TOKENS)))
    }

    /// For any prompt of a context.
    pub(crate) fn compiled(
        graph: &Graph,
        language: &LanguageGraph,
        target: &ModelTarget,
    ) -> Result<SequenceSizes, Outcome> {
        let positions = language_positions(graph, language);
        target.check_context(positions)?;
        let context = target.context.unwrap_or(positions.min(MOST_PROMPT_TOKENS));
        Ok(SequenceSizes::new(language, context, (context, false)))
    }

    /// Prompts of so many tokens, and whether all of them are, in one run.
    fn new(language: &LanguageGraph, context: u64, (found, is_whole): (u64, bool)) -> SequenceSizes {
        let past = |most: u64| language.past.as_ref().map_or(0, |(_, bound)| most.min(*bound));
        let behind = AxisChoice::Within(0, past(context.saturating_sub(1)));
        if !language.has_state() {
            // Every run takes the whole text again.
            let prompt = Some((AxisChoice::Within(1, context), AxisChoice::Fixed(0)));
            return SequenceSizes { context, prompt_tokens: found.max(1), prompt, token: None };
        }
        let token = Some((AxisChoice::Fixed(1), behind.clone()));
        if language.seq.0.is_none() {
            return SequenceSizes { context, prompt_tokens: language.seq.1, prompt: None, token };
        }
        let prompt_tokens = found.min(MOST_PROMPT_TOKENS);
        let prompt = match is_whole {
            true => (AxisChoice::Fixed(found), AxisChoice::Fixed(0)),
            false => (AxisChoice::Within(1, prompt_tokens), behind),
        };
        SequenceSizes { context, prompt_tokens, prompt: Some(prompt), token }
    }

    /// What people should know of the times.
    fn words(&self, language: &LanguageGraph) -> String {
        let state = match language.has_state() {
            true => "state goes through the host between runs, which is in no time above",
            false => "the graph keeps no state: every run takes the whole text",
        };
        format!("{:<12}kernel by kernel, without templates; {state}\n", "programs")
    }
}

/// Positions that a model has: tokens of a run, or all that may lie before one, and that.
fn language_positions(graph: &Graph, language: &LanguageGraph) -> u64 {
    let before = language.past.as_ref().map_or(0, |(_, most)| most.saturating_add(1));
    positions(graph).max(before)
}

/// Makes programs of one graph at several sizes.
struct ProgramMaker<'m> {
    args: &'m RunArgs,
    machine: &'m Tcp,
    language: &'m LanguageGraph,
    graph: &'m Graph,
    store: &'m TensorStore,
}

impl ProgramMaker<'_> {
    fn make(
        &self,
        seq: &AxisChoice,
        past: &AxisChoice,
        host: &mut dyn Host,
    ) -> Result<(ExecutableGraph, Planned), Outcome> {
        let (target, machine) = (&self.args.target, self.machine);
        let graph = sized(self.graph, &self.language.axes(seq, past)).map_err(|complaint| {
            Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
        })?;
        let request = GraphRequest {
            target,
            effort: Some(self.args.effort),
            goal: Goal::Time,
            checks: true,
            shows_progress: !self.args.prompting.json,
        };
        let CompiledGraph { tuned, open, .. } =
            request.compile_primitives(machine, graph, self.store, host)?;
        let made = executable(machine, &tuned.planned, tuned.options.pes).map_err(|error| match &error {
            ReadingError::Refused(complaints) => refused_programs(&target.chip, &target.set, complaints),
            _ => failed(&ModelError::Reading(error)),
        })?;
        Ok((made.with_open(open), tuned.planned))
    }
}
