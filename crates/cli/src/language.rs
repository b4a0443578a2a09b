//! Language models of any shape, whose programs are those of [any graph](crate::graph): which options mean
//! something to them, how many tokens their programs take, and the programs, for `run` and `compile` alike.

use tilewright_base::Sources;
use tilewright_compile::general::sequence::Sequence;
use tilewright_graph::{AxisChoice, Graph, LanguageGraph, TensorStore, sized};
use tilewright_machine::Tcp;
use tilewright_report::columns::counted;

use crate::calibrate::{FindTokenizer, texts};
use crate::graph::{CompiledGraph, GraphRequest, refuse_given_with};
use crate::host::Host;
use crate::outcome::{FAILED, Outcome};
use crate::quantise::{self, Calibration};
use crate::run::positions;
use crate::target::ModelTarget;

/// Tokens of a prompt that one run takes, at most.
pub(crate) const MOST_PROMPT_TOKENS: u64 = 256;

/// Refuses options that mean nothing to such a model: those of its target, and others.
pub(crate) fn check(target: &ModelTarget, others: &[(&str, bool, &str, &str)]) -> Result<(), Outcome> {
    let rule = ModelTarget::default();
    let mut options = vec![
        ("--chips", target.chips != rule.chips, "one chip", "--pes, for more PEs of it"),
        ("--cache", target.cache != rule.cache, "caches of the types that it has", "leave --cache out"),
        ("--solver", target.solver != rule.solver, "its own order", "leave --solver out"),
    ];
    options.extend(others);
    refuse_given_with("a language model whose programs templates do not write", &options)?;
    quantise::check(target)
}

/// What such a model takes for the texts that scales are found on, if they are asked for.
pub(crate) fn calibration(
    target: &ModelTarget,
    (start, positions): (&Sequence, u64),
    tokenizer: &FindTokenizer<'_>,
    host: &mut dyn Host,
) -> Result<Option<Calibration>, Outcome> {
    let Some(path) = target.calibrate.as_deref() else { return Ok(None) };
    let texts = texts(path, tokenizer, host)?;
    if let Some(long) = texts.iter().find(|text| text.is_empty() || text.len() as u64 > positions) {
        return Err(Outcome::usage(&format!(
            "a line of `{path}` has {} tokens\n  = allowed: 1 to {positions}, the positions of the model\n  \
             = instead: shorter lines",
            long.len()
        )));
    }
    if texts.is_empty() {
        return Err(Outcome::usage(&format!(
            "`{path}` has no line\n  = allowed: a text, a line each\n  = instead: some text"
        )));
    }
    let from = format!("{} of `{path}`", counted(texts.len() as u64, "line"));
    Ok(Some(Calibration { sets: texts.iter().map(|text| start.arrays(text)).collect(), from }))
}

/// How many tokens programs take, and how many lie before them.
pub(crate) struct SequenceSizes {
    pub(crate) context: u64,
    /// Positions that the model has.
    pub(crate) positions: u64,
    pub(crate) prompt_tokens: u64,
    /// Of the program for prompts: tokens of a run, and tokens before them.
    pub(crate) prompt: Option<(AxisChoice, AxisChoice)>,
    /// Of the program for single tokens.
    pub(crate) token: Option<(AxisChoice, AxisChoice)>,
}

impl SequenceSizes {
    /// For any prompt of a context.
    pub(crate) fn compiled(
        graph: &Graph,
        language: &LanguageGraph,
        target: &ModelTarget,
    ) -> Result<SequenceSizes, Outcome> {
        let positions = language_positions(graph, language);
        target.check_context(positions)?;
        let context = target.context.unwrap_or(positions.min(MOST_PROMPT_TOKENS));
        Ok(SequenceSizes::new(language, (context, positions), (context, false)))
    }

    /// Prompts of so many tokens, and whether all of them are, in one run.
    pub(crate) fn new(
        language: &LanguageGraph,
        (context, positions): (u64, u64),
        (found, is_whole): (u64, bool),
    ) -> SequenceSizes {
        let past = |most: u64| language.past.as_ref().map_or(0, |(_, bound)| most.min(*bound));
        let behind = AxisChoice::Within(0, past(context.saturating_sub(1)));
        if !language.has_state() {
            // Every run takes the whole text again.
            let prompt = Some((AxisChoice::Within(1, context), AxisChoice::Fixed(0)));
            return SequenceSizes { context, positions, prompt_tokens: found.max(1), prompt, token: None };
        }
        let token = Some((AxisChoice::Fixed(1), behind.clone()));
        if language.seq.0.is_none() {
            return SequenceSizes { context, positions, prompt_tokens: language.seq.1, prompt: None, token };
        }
        let prompt_tokens = found.min(MOST_PROMPT_TOKENS);
        let prompt = match is_whole {
            true => (AxisChoice::Fixed(found), AxisChoice::Fixed(0)),
            false => (AxisChoice::Within(1, prompt_tokens), behind),
        };
        SequenceSizes { context, positions, prompt_tokens, prompt: Some(prompt), token }
    }
}

/// What people should know of the times.
pub(crate) fn program_words(has_state: bool) -> String {
    let state = match has_state {
        true => "state goes through the host between runs, which is in no time above",
        false => "the graph keeps no state: every run takes the whole text",
    };
    format!("{:<12}kernel by kernel, without templates; {state}\n", "programs")
}

/// Positions that a model has: tokens of a run, or all that may lie before one, and that.
pub(crate) fn language_positions(graph: &Graph, language: &LanguageGraph) -> u64 {
    let before = language.past.as_ref().map_or(0, |(_, most)| most.saturating_add(1));
    positions(graph).max(before)
}

/// Makes programs of one graph at several sizes.
pub(crate) struct ProgramMaker<'m> {
    pub(crate) request: GraphRequest<'m>,
    pub(crate) machine: &'m Tcp,
    pub(crate) language: &'m LanguageGraph,
    pub(crate) graph: &'m Graph,
    pub(crate) store: &'m TensorStore,
}

impl ProgramMaker<'_> {
    /// The graph at its sizes, and what it was compiled to.
    pub(crate) fn compiled(
        &self,
        (seq, past): &(AxisChoice, AxisChoice),
        host: &mut dyn Host,
    ) -> Result<(Graph, CompiledGraph), Outcome> {
        let graph = sized(self.graph, &self.language.axes(seq, past)).map_err(|complaint| {
            Outcome::refused(FAILED, &Sources::default(), &[*complaint], host.colour())
        })?;
        let made = self.request.compile_primitives(self.machine, graph.clone(), self.store, host)?;
        Ok((graph, made))
    }
}
