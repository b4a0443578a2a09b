//! `tilewright run` of a language model of any shape: programs of its graph as [any graph](crate::graph) has
//! them, one for the prompt and one for single tokens, where no template takes it or templates are left out.

use tilewright_base::Sources;
use tilewright_base::invariant::OrBroken;
use tilewright_compile::general::plan::Planned;
use tilewright_compile::general::sequence::Sequence;
use tilewright_explore::Goal;
use tilewright_graph::{AxisChoice, Graph, LanguageGraph, NoLanguage, primitives};
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
use super::reference::vocabulary;
use super::{RunTarget, check_prompt};
use crate::graph::{CompiledGraph, GraphRequest};
use crate::host::Host;
use crate::language::{
    MOST_PROMPT_TOKENS, ProgramMaker, SequenceSizes, calibration, check, language_positions, program_words,
};
use crate::outcome::{FAILED, Outcome};
use crate::quantise::{Calibration, rewritten};
use crate::target::{ModelTarget, refused_programs};

/// Compiles the graph of a language model as it was read, and generates with it.
pub(super) fn run(
    args: &RunArgs,
    on: &RunTarget<'_>,
    model: &Model,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    check(&args.target, &[second_prompt(&args.prompting.prompts)])?;
    let complained = |complaint: Box<tilewright_base::Diagnostic>, host: &dyn Host| {
        Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
    };
    let graph = primitives(&model.graph).map_err(|complaint| complained(complaint, &*host))?;
    let language = LanguageGraph::of(&graph).map_err(|why| no_language(&args.model, &why))?;
    let job = on.job()?;
    let sizes = sizes_of_run(&graph, &language, &job, args)?;
    let start = Sequence::new(&graph, &language);
    let own = |_: &dyn Host| Ok(on.tokenizer.clone());
    let calibration = calibration(&args.target, (&start, sizes.positions), &own, host)?;
    let calibration = calibration.unwrap_or_else(|| Calibration {
        sets: vec![start.arrays(&wide(&job.prompt))],
        from: "the prompt of this run alone".to_string(),
    });
    let rewritten = rewritten(&args.target, (&graph, &model.store), Some(&calibration), host)?;
    let (narrow, note) = rewritten.map_or((None, None), |(graph, note)| (Some(graph), Some(note)));
    let request = GraphRequest {
        target: &args.target,
        effort: Some(args.effort),
        goal: Goal::Time,
        checks: true,
        shows_progress: !args.prompting.json,
    };
    let graph_of_programs = narrow.as_ref().unwrap_or(&graph);
    let (machine, store, language) = (on.machine, &model.store, &language);
    let maker = ProgramMaker { request, machine, language, graph: graph_of_programs, store };
    let job = ModelJob { page: on.page.map(|path| ModelPage { path, graph: &model.graph }), ..job };
    let prompt = sizes.prompt.as_ref().map(|sizes| program(&maker, sizes, host)).transpose()?;
    let token = sizes.token.as_ref().map(|sizes| program(&maker, sizes, host)).transpose()?;
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
    let on_device = (&mut session, language.has_state());
    let (said, generation) = generated(&job, on_device, (&facts, vocabulary(&graph)), host)?;
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

/// Refuses several prompts: such a model has one text at a time.
fn second_prompt(prompts: &[String]) -> (&'static str, bool, &'static str, &'static str) {
    ("a second --prompt", prompts.len() > 1, "one", "a run for each prompt")
}

/// Sizes of programs for the prompt of a run and the tokens that are asked for.
fn sizes_of_run(
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
    check_prompt(&job.prompt, (context, positions), vocabulary(graph))?;
    Ok(SequenceSizes::new(language, (context, positions), (found, found <= MOST_PROMPT_TOKENS)))
}

/// The program of a graph at its sizes on a device, and its plan.
fn program(
    maker: &ProgramMaker<'_>,
    sizes: &(AxisChoice, AxisChoice),
    host: &mut dyn Host,
) -> Result<(ExecutableGraph, Planned), Outcome> {
    let (_, CompiledGraph { tuned, open, .. }) = maker.compiled(sizes, host)?;
    let target = maker.request.target;
    let made = executable(maker.machine, &tuned.planned, tuned.options.pes);
    let made = made.map_err(|error| unready(target, error))?;
    Ok((made.with_open(open), tuned.planned))
}

/// A program that a machine or a device refuses.
pub(crate) fn unready(target: &ModelTarget, error: ReadingError) -> Outcome {
    match &error {
        ReadingError::Refused(complaints) => refused_programs(&target.chip, &target.set, complaints),
        _ => failed(&ModelError::Reading(error)),
    }
}

/// Generates with programs that are on their devices, and says what it took.
pub(crate) fn generated(
    job: &ModelJob<'_>,
    (session, has_state): (&mut GraphSession, bool),
    (facts, vocabulary): (&ModelFacts, u64),
    host: &mut dyn Host,
) -> Result<(Outcome, Generation), Outcome> {
    let (generation, shown) = job.generated(session, host)?;
    let traced = job.traced(
        &mut |stream| {
            session.rewind_run();
            let wanted = ReadingOptions { values: true, trace: true, ..ReadingOptions::default() };
            session.feed(&generation.last, &wanted, stream).map(|_| ())
        },
        host,
    )?;
    let said = job.reported(facts, vocabulary, (&generation, &shown), traced);
    let stdout = match job.prompting.json {
        true => said.stdout,
        false => said.stdout + &program_words(has_state),
    };
    Ok((Outcome { stdout, ..said }, generation))
}

/// Refuses prompts beside the first of a model that is compiled.
pub(crate) fn check_file(prompts: &[String]) -> Result<(), Outcome> {
    check(&ModelTarget::default(), &[second_prompt(prompts)])
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
