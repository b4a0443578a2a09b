//! `tilewright compile -o` and `tilewright exec` of language models whose programs are those of any graph.

use std::path::Path;
use std::sync::Arc;

use tilewright_artifact::{
    ArtifactError, GraphArtifact, GraphPlan, LanguageArtifact, LanguageContents, LanguagePlan,
    LanguageProgram, NamedRole, RoleError, write_language,
};
use tilewright_base::Severity;
use tilewright_base::invariant::OrBroken;
use tilewright_compile::general::interface::{GraphInterface, interface};
use tilewright_compile::general::plan::Planned;
use tilewright_compile::general::sequence::Sequence;
use tilewright_graph::{AxisChoice, Graph, InputRole, LanguageGraph};
use tilewright_import::Model;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_report::columns::thousands;
use tilewright_runtime::executable::ExecutableGraph;
use tilewright_runtime::session::{GraphSession, SessionPrograms};
use tilewright_tcp_isa::verify;
use tilewright_workbench::model::report::ModelFacts;

use super::args::{CompileArgs, ExecArgs};
use super::file::{takes_text, tokenizer, tokenizer_file, unreadable};
use super::general::{self, request};
use super::graph_file::{mapped_constant, same_machine};
use crate::graph::CompiledGraph;
use crate::host::{Host, refuse_overwrite};
use crate::language::{ProgramMaker, SequenceSizes, calibration, check};
use crate::mapped::Mapped;
use crate::model;
use crate::outcome::{FAILED, Outcome};
use crate::quantise::rewritten;
use crate::run::{RunTarget, check_file, check_prompt, generated, unready};
use crate::target::{ModelTarget, refused_programs};

/// Compiles such a model to the file that is asked for; `None` if none is, or the model is another.
pub(super) fn compiled(
    args: &CompileArgs,
    loaded: &(Model, Graph),
    host: &mut dyn Host,
) -> Result<Option<Outcome>, Outcome> {
    let Some(path) = args.program_file() else { return Ok(None) };
    let Some((graph, language)) = general::language(args, loaded, host)? else { return Ok(None) };
    check_options(args)?;
    let tokenizer = tokenizer_file(args, host)?;
    let (machine, fingerprint) = args.target.identified_machine(host)?;
    let sizes = SequenceSizes::compiled(&graph, &language, &args.target)?;
    let store = &loaded.0.store;
    let start = Sequence::new(&graph, &language);
    let own = |host: &dyn Host| model::tokenizer(&args.model, args.tokenizer.as_deref(), host);
    let calibration = calibration(&args.target, (&start, sizes.positions), &own, host)?;
    let narrow = rewritten(&args.target, (&graph, store), calibration.as_ref(), host)?;
    let maker = ProgramMaker {
        request: request(args)?,
        machine: &machine,
        language: &language,
        graph: narrow.as_ref().map_or(&graph, |(graph, _)| graph),
        store,
    };
    let token = sizes.token.as_ref().map(|sizes| FileProgram::new(&maker, args, sizes, host)).transpose()?;
    let prompt =
        sizes.prompt.as_ref().map(|sizes| FileProgram::new(&maker, args, sizes, host)).transpose()?;
    host.progress("packing weights", None);
    let made = LanguageProgram::ALL.into_iter().zip([&token, &prompt]);
    let made = made.filter_map(|(name, made)| Some((name, made.as_ref()?)));
    let programs = made.map(|(name, made)| (name, &made.planned, made.plan(args, fingerprint)));
    let contents = LanguageContents {
        plan: LanguagePlan {
            dtype: args.target.dtype.clone(),
            peak: if narrow.is_some() { Dtype::I8 } else { Dtype::Bf16 },
            pes: args.target.pes,
            context: sizes.context,
            positions: sizes.positions,
            ends: model::ends(&args.model, host)?,
            roles: roles(&graph, &language)?,
            logits: result_name(&graph, language.logits)?,
            blocks: Vec::new(),
        },
        programs: programs.collect(),
        tokenizer: tokenizer.as_ref().map(|(section, bytes)| (*section, bytes.as_slice())),
    };
    let file = write_language(contents).map_err(|error| unwritable(&error))?;
    host.write(Path::new(path), &file.bytes).map_err(|error| Outcome::unwritten(path, &error))?;
    let [bytes, constants, shared] = [file.bytes.len() as u64, file.constants, file.shared].map(thousands);
    Ok(Some(Outcome::good(format!(
        "wrote {path} ({bytes} bytes; {constants} B of constants, {shared} B less than its programs have)\n"
    ))))
}

/// Refuses options that mean nothing to a file of such a model.
fn check_options(args: &CompileArgs) -> Result<(), Outcome> {
    check(
        &args.target,
        &[
            ("--batch", args.batch.is_some(), "one text at a time", "leave --batch out"),
            ("--program beside -o", args.program.is_some(), "both programs in a file", "leave --program out"),
        ],
    )?;
    if args.target.context == Some(0) {
        return Err(Outcome::usage("--context 0\n  = allowed: 1 or more\n  = instead: leave it out"));
    }
    if args.target.is_quantised() && args.target.calibrate.is_none() {
        return Err(Outcome::usage(&format!(
            "--dtype {} without --calibrate: scales of computed values are found on texts\n  \
             = allowed: --calibrate FILE, a text, a line at a time\n  \
             = instead: --calibrate FILE; or `run`, which finds them on its prompt",
            args.target.dtype
        )));
    }
    Ok(())
}

/// A program that goes into a file.
struct FileProgram {
    planned: Planned,
    interface: GraphInterface,
}

impl FileProgram {
    fn new(
        maker: &ProgramMaker<'_>,
        args: &CompileArgs,
        sizes: &(AxisChoice, AxisChoice),
        host: &mut dyn Host,
    ) -> Result<FileProgram, Outcome> {
        let (graph, CompiledGraph { tuned, open, .. }) = maker.compiled(sizes, host)?;
        let planned = tuned.planned;
        if !args.no_check {
            let mut complaints = verify(maker.machine, &planned.program);
            complaints.retain(|complaint| complaint.severity == Severity::Error);
            if !complaints.is_empty() {
                return Err(refused_programs(&args.target.chip, &args.target.set, &complaints));
            }
        }
        let outside = interface(maker.machine, &planned, tuned.options.pes);
        let outside = outside.or_broken("a plan has a place for every result");
        let interface = GraphInterface { open, ..outside.with_empty_inputs(&graph) };
        Ok(FileProgram { planned, interface })
    }

    fn plan(&self, args: &CompileArgs, fingerprint: u64) -> GraphPlan {
        GraphPlan {
            chip: args.target.chip.clone(),
            set: args.target.set.clone(),
            machine: fingerprint,
            interface: self.interface.clone(),
            ..GraphPlan::default()
        }
    }
}

/// What each input of a graph is for, by the names of inputs and results.
fn roles(graph: &Graph, language: &LanguageGraph) -> Result<Vec<(String, NamedRole)>, Outcome> {
    let inputs = graph.inputs.iter().filter_map(|id| graph.value(*id)).zip(&language.roles);
    let named = inputs.map(|(value, role)| {
        let role = match role {
            InputRole::Tokens => NamedRole::Tokens,
            InputRole::Positions => NamedRole::Positions,
            InputRole::Mask => NamedRole::Mask,
            InputRole::State(output) => NamedRole::State(result_name(graph, *output)?),
        };
        Ok((value.name.clone(), role))
    });
    named.collect()
}

/// The name of a result of a graph.
fn result_name(graph: &Graph, number: usize) -> Result<String, Outcome> {
    let found = graph.outputs.get(number).map(|output| output.name.clone());
    found.ok_or_else(|| unwritable(&ArtifactError::Missing("result of this number")))
}

/// A model that no file is written of.
fn unwritable(error: &ArtifactError) -> Outcome {
    Outcome {
        code: FAILED,
        ..Outcome::usage(&format!(
            "no file is written of this model: {error}\n  = instead: `run`, which compiles it"
        ))
    }
}

/// Generates with a file.
pub(super) fn exec(
    args: &ExecArgs,
    artifact: &LanguageArtifact<'_>,
    file: &Arc<Mapped>,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    takes_text(args)?;
    check_file(&args.prompting.prompts)?;
    let wrong = |error: &ArtifactError| unreadable(&args.file, error);
    let (plan, of) = (&artifact.plan, artifact.target().map_err(|error| wrong(&error))?);
    let target = ModelTarget {
        chip: of.chip.clone(),
        set: of.set.clone(),
        dtype: plan.dtype.clone(),
        pes: plan.pes,
        context: Some(plan.context),
        ..ModelTarget::default()
    };
    let machine = same_machine(&args.file, of, &target, host)?;
    if plan.pes > machine.pes() {
        let error = RoleError::Count { what: "number of PEs", found: plan.pes };
        return Err(wrong(&error.into()));
    }
    let tokenizer = tokenizer(args, artifact.tokenizer, plan.ends.clone(), host)?;
    refuse_overwrite(host, args.prompting.trace.as_deref())?;
    let prompting = &args.prompting;
    let on = RunTarget { machine: &machine, target: &target, tokenizer: &tokenizer, prompting, page: None };
    let job = on.job()?;
    check_prompt(&job.prompt, (plan.context, plan.positions), artifact.vocabulary())?;
    let ready = |graph: &GraphArtifact<'_>| program(args, graph, (&machine, &target), file);
    let programs = SessionPrograms {
        prompt: artifact.prompt.as_ref().map(ready).transpose()?,
        prompt_tokens: artifact.prompt_tokens(),
        token: artifact.token.as_ref().map(ready).transpose()?,
        context: plan.context,
    };
    let facts = ModelFacts {
        model: of.interface.name.clone(),
        dtype: plan.dtype.clone(),
        peak: plan.peak,
        pes: plan.pes,
        chips: 1,
        context: plan.context,
    };
    let start = artifact.sequence();
    let has_state = start.has_state();
    let mut session = GraphSession::new(programs, start);
    let (said, _) = generated(&job, (&mut session, has_state), (&facts, artifact.vocabulary()), host)?;
    Ok(said)
}

/// A program of a file on its device, with its constants where the file has them.
fn program(
    args: &ExecArgs,
    graph: &GraphArtifact<'_>,
    (machine, target): (&Tcp, &ModelTarget),
    file: &Arc<Mapped>,
) -> Result<ExecutableGraph, Outcome> {
    let program = graph.program().map_err(|error| unreadable(&args.file, &error))?;
    let ready = ExecutableGraph::new(machine, graph.plan.interface.clone(), program);
    let mut ready = ready.map_err(|error| unready(target, error))?;
    for (base, bytes) in &graph.constants {
        let shared = mapped_constant(&args.file, bytes, file)?;
        ready.lend_constant(*base, &shared).map_err(|error| unready(target, error))?;
    }
    Ok(ready)
}
