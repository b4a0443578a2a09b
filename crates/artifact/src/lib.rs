//! A compiled model or graph as a file: its programs, its packed weights, and what whoever runs it must know.
//!
//! Sections of a model in the container (`tilewright_ir::binary`, which has the layout, the version and the
//! checksums): programs `tcp/decode`, `tcp/prefill` and `tcp/clear`, and `tcp/batch` if it is for several
//! sequences; the array `hbm`, the bytes of HBM from address 0 to the last weight, which all programs share,
//! and `hbm1`,
//! `hbm2` ... for further chips; the texts `plan` ([`plan`]) and `graph` (the model without weights), from
//! which sizes and places follow; the array `tokenizer.json` or `tokenizer.bin`, if there is one.
//!
//! Sections of a graph that no template takes: the program `tcp/graph`; the array `constants`, one constant
//! behind the other; the text `plan` ([`graph_plan`]), which says where constants, inputs and results lie.
//!
//! Sections of a language model that no template takes: the programs `tcp/decode` and `tcp/prefill`, or one
//! of them; the array `constants`, with each block once that both programs have; the text `plan`
//! ([`language_plan`]), and `plan.decode` and `plan.prefill`, each the plan of a graph; a tokenizer.
//! The first line of the plan says which of them a file is, and in which version.
//!
//! - [`write()`], [`write_graph`], [`write_language`]: the bytes of a file;
//! - [`CompiledFile::read`]: any bytes to a file's parts or to what is wrong with them; nothing of it is
//!   copied;
//! - [`pack_hbm`]: weights as the chips hold them.

mod graph_file;
pub mod graph_plan;
mod language_file;
pub mod language_plan;
mod language_roles;
mod pack;
pub mod plan;
mod read;
mod write;

use tilewright_compile::Compiled;
use tilewright_ir::binary::{self, Section, SectionKind};
use tilewright_tcp_isa::program::Program;

pub use graph_file::{GraphArtifact, write_graph};
pub use graph_plan::GraphPlan;
pub use language_file::{LanguageArtifact, LanguageContents, LanguageFile, write_language};
pub use language_plan::{LanguagePlan, LanguageProgram, NamedRole};
pub use language_roles::RoleError;
pub use pack::{PackError, pack_hbm};
pub use plan::{Plan, PlanError};
pub use read::{Artifact, ArtifactError, CompiledFile};
pub use write::{Contents, write};

const HBM: &str = "hbm";
const PLAN: &str = "plan";
const GRAPH: &str = "graph";

/// Sections that a tokenizer may be in; each is called as the file that it was.
pub const TOKENIZERS: [&str; 2] = ["tokenizer.json", "tokenizer.bin"];

/// Programs of a compiled model in the order of their sections; the last is there only for several sequences.
const PROGRAMS: [&str; 4] = ["decode", "prefill", "clear", "batch"];

/// The programs that a model has, with their names.
pub fn programs(compiled: &Compiled) -> impl Iterator<Item = (&'static str, &Program)> {
    PROGRAMS.into_iter().filter_map(|name| Some((name, compiled.program(name)?)))
}

/// The section that a tokenizer's file goes to, by what its name ends in.
pub fn tokenizer_section(path: &str) -> Option<&'static str> {
    let ending = |name: &&str| path.rsplit('.').next() == name.rsplit('.').next();
    TOKENIZERS.into_iter().find(ending)
}

/// Whether a file is that of a compiled model or graph, not of a program alone: whether it has a plan.
pub fn is_compiled(file: &[u8]) -> bool {
    let is_plan = |section: &Section<'_>| section.kind == SectionKind::Text && section.name == PLAN;
    binary::read(file).is_ok_and(|sections| sections.iter().any(is_plan))
}

/// The section with the HBM of a chip.
fn hbm_section(chip: u64) -> String {
    if chip == 0 { HBM.to_string() } else { format!("{HBM}{chip}") }
}
