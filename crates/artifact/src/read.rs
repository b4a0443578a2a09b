//! Any bytes to the parts of a compiled file, or to what is wrong with them.

use thiserror::Error;
use tilewright_base::SourceId;
use tilewright_compile::cluster::cluster;
use tilewright_compile::general::interface::PortError;
use tilewright_compile::kernel::Kernels;
use tilewright_compile::{CompileError, Compiled};
use tilewright_graph::Graph;
use tilewright_tcp_isa::program::binary::{Bundle, UnpackError, unpack_bundle};
use tilewright_tcp_isa::program::text as commands;

use crate::graph_file::GraphArtifact;
use crate::language_file::LanguageArtifact;
use crate::language_roles::RoleError;
use crate::plan::{Plan, PlanError};
use crate::{GRAPH, PLAN, TOKENIZERS, hbm_section, programs};

/// The parts of a file. Weights and tokenizer are slices of it.
#[derive(Clone, Debug)]
pub struct Artifact<'f> {
    /// What the programs follow from.
    pub plan: Plan,
    /// The model without weights.
    pub graph: Graph,
    /// HBM of each chip, from its first byte on.
    pub hbm: Vec<&'f [u8]>,
    /// The section of the tokenizer, and its file.
    pub tokenizer: Option<(&'static str, &'f [u8])>,
    bundle: Bundle<'f>,
}

/// Why bytes are no compiled model that this release runs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArtifactError {
    /// The container: cut off, changed, or of another version.
    #[error(transparent)]
    Container(#[from] UnpackError),
    /// A section that every compiled model has.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// The section `plan`.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A program that does not follow from the plan.
    #[error(
        "its program `{program}` is not the one that its plan leads to: another release wrote it\n  \
         = instead: compile the model again"
    )]
    Program {
        /// Its name.
        program: &'static str,
    },
    /// An input or a result of a graph.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Constants of a graph.
    #[error("its constants are not those that its plan has places for")]
    Constants,
    /// What inputs and results of a language model's programs are for.
    #[error(transparent)]
    Role(#[from] RoleError),
}

/// A file, by what it is of.
#[derive(Clone, Debug)]
pub enum CompiledFile<'f> {
    /// A model that takes tokens, whose programs templates wrote.
    Model(Box<Artifact<'f>>),
    /// One whose programs were compiled as those of any graph.
    Language(Box<LanguageArtifact<'f>>),
    /// A graph that takes arrays.
    Graph(Box<GraphArtifact<'f>>),
}

impl<'f> CompiledFile<'f> {
    /// Takes a file apart. Sizes in it are bounded by its own, and checksums are compared, before anything is
    /// used.
    ///
    /// # Errors
    /// Bytes that are no such file.
    pub fn read(file: &'f [u8]) -> Result<CompiledFile<'f>, ArtifactError> {
        let bundle = unpack_bundle(file)?;
        let first = bundle.text(PLAN).and_then(|plan| plan.lines().next());
        if first.is_some_and(|first| first.starts_with("graph ")) {
            return Ok(CompiledFile::Graph(Box::new(GraphArtifact::of(bundle)?)));
        }
        if first.is_some_and(|first| first.starts_with("language ")) {
            return Ok(CompiledFile::Language(Box::new(LanguageArtifact::of(bundle)?)));
        }
        Ok(CompiledFile::Model(Box::new(Artifact::of(bundle)?)))
    }
}

/// The section of a tokenizer, and its file.
pub(crate) fn tokenizer<'f>(bundle: &Bundle<'f>) -> Option<(&'static str, &'f [u8])> {
    TOKENIZERS.into_iter().find_map(|name| Some((name, bundle.array(name)?)))
}

impl<'f> Artifact<'f> {
    /// Takes the file of a model apart, as [`CompiledFile::read`] does.
    ///
    /// # Errors
    /// Bytes that are no such file.
    pub fn read(file: &'f [u8]) -> Result<Artifact<'f>, ArtifactError> {
        Artifact::of(unpack_bundle(file)?)
    }

    fn of(bundle: Bundle<'f>) -> Result<Artifact<'f>, ArtifactError> {
        let plan = Plan::read(bundle.text(PLAN).ok_or(ArtifactError::Missing("plan"))?)?;
        let graph = bundle.text(GRAPH).ok_or(ArtifactError::Missing("graph"))?;
        let graph = tilewright_graph::text::read(graph, SourceId(0))
            .map_err(|_| ArtifactError::Missing("graph that reads"))?;
        let hbm: Option<Vec<&[u8]>> = (0..plan.chips).map(|chip| bundle.array(&hbm_section(chip))).collect();
        let hbm = hbm.ok_or(ArtifactError::Missing("weights"))?;
        let tokenizer = tokenizer(&bundle);
        Ok(Artifact { plan, graph, hbm, tokenizer, bundle })
    }

    /// The kernels of its graph, with the scales that the plan has.
    ///
    /// # Errors
    /// A graph that no kernels are made of.
    pub fn kernels(&self) -> Result<Kernels, CompileError> {
        let Plan { amax, ranges, .. } = self.plan.clone();
        Ok(Kernels { amax, ranges, ..cluster(&self.graph)? })
    }

    /// Whether its programs are those that were compiled from its plan: only then is the plan theirs.
    ///
    /// # Errors
    /// A program that is missing or another.
    pub fn check_programs(&self, compiled: &Compiled) -> Result<(), ArtifactError> {
        for (program, wanted) in programs(compiled) {
            let found = self.bundle.program(program);
            let found = found.and_then(|text| commands::read(text, SourceId(0)).ok());
            if found.is_none_or(|found| commands::print(&found) != commands::print(wanted)) {
                return Err(ArtifactError::Program { program });
            }
        }
        Ok(())
    }
}
