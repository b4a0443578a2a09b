//! The file of a language model that was compiled as any graph: both programs with a plan each, their
//! constants with every block once, and what inputs and results are for.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::Exact;
use tilewright_compile::general::Planned;
use tilewright_compile::general::interface::constants;
use tilewright_compile::general::sequence::Sequence;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::binary::{Bundle, pack_bundle};

use crate::PLAN;
use crate::graph_file::{CONSTANTS, GraphArtifact, check_places};
use crate::graph_plan::GraphPlan;
use crate::language_plan::{LanguagePlan, LanguageProgram};
use crate::language_roles::{RoleError, SequenceFacts, facts};
use crate::read::{ArtifactError, tokenizer};

/// The parts of a file. Constants and tokenizer are slices of it.
#[derive(Clone, Debug)]
pub struct LanguageArtifact<'f> {
    /// What it generates with.
    pub plan: LanguagePlan,
    /// Takes one token, if it has such a program.
    pub token: Option<GraphArtifact<'f>>,
    /// Takes several tokens, likewise.
    pub prompt: Option<GraphArtifact<'f>>,
    /// The section of the tokenizer, and its file.
    pub tokenizer: Option<(&'static str, &'f [u8])>,
    facts: SequenceFacts,
}

impl<'f> LanguageArtifact<'f> {
    /// Takes the sections of a file apart.
    pub(crate) fn of(bundle: Bundle<'f>) -> Result<LanguageArtifact<'f>, ArtifactError> {
        let plan = LanguagePlan::read(bundle.text(PLAN).ok_or(ArtifactError::Missing("plan"))?)?;
        let section = bundle.array(CONSTANTS).ok_or(ArtifactError::Missing("constants"))?;
        let mut plans = Vec::new();
        for program in LanguageProgram::ALL {
            let (name, text) = program.names();
            match (bundle.program(name), bundle.text(text)) {
                (Some(_), Some(text)) => plans.push((program, GraphPlan::read(text)?)),
                (None, None) => {}
                _ => return Err(RoleError::Programs.into()),
            }
        }
        if bundle.programs.len() != plans.len() {
            return Err(RoleError::Programs.into());
        }
        plans.iter().try_for_each(|(_, plan)| check_places(plan))?;
        let shown: Vec<(LanguageProgram, &GraphPlan)> =
            plans.iter().map(|(program, plan)| (*program, plan)).collect();
        let facts = facts(&plan, &shown)?;
        let constants = blocks(&plan, &shown, section)?;
        let tokenizer = tokenizer(&bundle);
        let mut programs = bundle.programs;
        let mut artifact = LanguageArtifact { plan, token: None, prompt: None, tokenizer, facts };
        for ((program, plan), constants) in plans.into_iter().zip(constants) {
            let at = programs.iter().position(|(name, _)| *name == program.names().0);
            let (_, text) = programs.swap_remove(at.ok_or(RoleError::Programs)?);
            let part = Some(GraphArtifact::of_parts(plan, constants, text));
            match program {
                LanguageProgram::Token => artifact.token = part,
                LanguageProgram::Prompt => artifact.prompt = part,
            }
        }
        Ok(artifact)
    }

    /// The plan that says for which machine it was compiled.
    pub fn target(&self) -> Result<&GraphPlan, ArtifactError> {
        let any = self.token.as_ref().or(self.prompt.as_ref());
        any.map(|graph| &graph.plan).ok_or(ArtifactError::Role(RoleError::Programs))
    }

    /// A text without tokens. Its state takes as much memory as that of the programs at first.
    pub fn sequence(&self) -> Sequence {
        Sequence::of_inputs(&self.facts.inputs, self.facts.logits)
    }

    /// Tokens that there are logits of.
    pub fn vocabulary(&self) -> u64 {
        self.facts.vocabulary
    }

    /// Tokens of a prompt that one run takes, at most.
    pub fn prompt_tokens(&self) -> u64 {
        self.facts.prompt_tokens
    }
}

/// Constants of a program, each behind its first byte in HBM.
type PlacedConstants<'f> = Vec<(u64, &'f [u8])>;

/// Where the bytes of constants are: of each program in its order, each constant with its place in HBM.
fn blocks<'f>(
    plan: &LanguagePlan,
    programs: &[(LanguageProgram, &GraphPlan)],
    section: &'f [u8],
) -> Result<Vec<PlacedConstants<'f>>, ArtifactError> {
    if plan.blocks.len() != programs.len() {
        return Err(RoleError::Programs.into());
    }
    let (mut end, mut known) = (0_u64, BTreeSet::new());
    let mut all = Vec::new();
    for (program, graph) in programs {
        let starts = plan.blocks_of(*program).ok_or(RoleError::Programs)?;
        if starts.len() != graph.constants.len() {
            return Err(ArtifactError::Constants);
        }
        let mut own = Vec::new();
        for (start, (base, bytes)) in starts.iter().zip(&graph.constants) {
            let behind = start.checked_add(*bytes).ok_or(ArtifactError::Constants)?;
            if *start == end {
                end = behind;
                known.insert((*start, *bytes));
            } else if !known.contains(&(*start, *bytes)) {
                return Err(ArtifactError::Constants);
            }
            let range = usize::try_from(*start).ok().zip(usize::try_from(behind).ok());
            let block = range.and_then(|(start, behind)| section.get(start..behind));
            own.push((*base, block.ok_or(ArtifactError::Constants)?));
        }
        all.push(own);
    }
    if end == section.len() as u64 { Ok(all) } else { Err(ArtifactError::Constants) }
}

/// What goes into a file.
pub struct LanguageContents<'c> {
    /// What it generates with, without blocks.
    pub plan: LanguagePlan,
    /// Its programs, each with a plan that has no constants yet.
    pub programs: Vec<(LanguageProgram, &'c Planned, GraphPlan)>,
    /// The section of a tokenizer (one of [`crate::TOKENIZERS`]) and its file.
    pub tokenizer: Option<(&'static str, &'c [u8])>,
}

/// A file as it is written.
#[derive(Clone, Debug)]
pub struct LanguageFile {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Bytes of constants that it holds.
    pub constants: u64,
    /// Bytes of constants that it does not hold again, since equal ones are there.
    pub shared: u64,
}

/// Constants one behind the other, with equal ones once.
#[derive(Default)]
struct BlockStore {
    bytes: Vec<u8>,
    /// Where blocks of a length begin.
    starts: BTreeMap<usize, Vec<usize>>,
    /// Bytes that were there already.
    shared: u64,
}

impl BlockStore {
    /// Where a block begins, which is added unless it is there.
    fn place(&mut self, block: &[u8]) -> u64 {
        let starts = self.starts.entry(block.len()).or_default();
        let found =
            starts.iter().find(|start| self.bytes.get(**start..).is_some_and(|at| at.starts_with(block)));
        if let Some(start) = found {
            self.shared = self.shared.exact_add(block.len() as u64);
            return *start as u64;
        }
        let start = self.bytes.len();
        starts.push(start);
        self.bytes.extend_from_slice(block);
        start as u64
    }
}

/// The bytes of a language model's file.
///
/// # Errors
/// Inputs and results that cannot be what the plan says.
pub fn write_language(contents: LanguageContents<'_>) -> Result<LanguageFile, ArtifactError> {
    let LanguageContents { mut plan, programs, tokenizer } = contents;
    let (mut store, mut plans) = (BlockStore::default(), Vec::new());
    for (program, planned, graph) in programs {
        let (mut places, mut starts) = (Vec::new(), Vec::new());
        for (base, constant) in constants(planned) {
            places.push((base, constant.len() as u64));
            starts.push(store.place(&constant));
        }
        plan.blocks.push((program, starts));
        plans.push((program, &planned.program, GraphPlan { constants: places, ..graph }));
    }
    let shown: Vec<(LanguageProgram, &GraphPlan)> =
        plans.iter().map(|(name, _, plan)| (*name, plan)).collect();
    shown.iter().try_for_each(|(_, plan)| check_places(plan))?;
    facts(&plan, &shown)?;
    blocks(&plan, &shown, &store.bytes)?;
    let (plan, texts): (String, Vec<String>) =
        (plan.to_string(), plans.iter().map(|(.., plan)| plan.to_string()).collect());
    let named = plans.iter().zip(&texts).map(|((program, ..), text)| (program.names().1, text.as_str()));
    let texts: Vec<(&str, &str)> = std::iter::once((PLAN, plan.as_str())).chain(named).collect();
    let programs: Vec<(&str, &Program)> =
        plans.iter().map(|(program, commands, _)| (program.names().0, *commands)).collect();
    let arrays: Vec<(&str, &[u8])> =
        std::iter::once((CONSTANTS, store.bytes.as_slice())).chain(tokenizer).collect();
    let bytes = pack_bundle(&programs, &arrays, &texts);
    Ok(LanguageFile { bytes, constants: store.bytes.len() as u64, shared: store.shared })
}
