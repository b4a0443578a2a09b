//! The bytes of a compiled model's file.

use tilewright_compile::Compiled;
use tilewright_graph::Graph;
use tilewright_tcp_isa::program::binary::pack_bundle;

use crate::plan::Plan;
use crate::{GRAPH, PLAN, hbm_section, programs};

/// What goes into a file.
pub struct Contents<'c> {
    /// The programs.
    pub compiled: &'c Compiled,
    /// What they follow from.
    pub plan: &'c Plan,
    /// The model without weights.
    pub graph: &'c Graph,
    /// HBM of each chip, from its first byte on.
    pub hbm: &'c [Vec<u8>],
    /// The section of a tokenizer (one of [`crate::TOKENIZERS`]) and its file.
    pub tokenizer: Option<(&'static str, &'c [u8])>,
}

/// The bytes of a file.
pub fn write(contents: &Contents<'_>) -> Vec<u8> {
    let programs: Vec<_> = programs(contents.compiled).collect();
    let names: Vec<String> = (0..).zip(contents.hbm).map(|(chip, _)| hbm_section(chip)).collect();
    let hbm = names.iter().map(String::as_str).zip(contents.hbm.iter().map(Vec::as_slice));
    let arrays: Vec<(&str, &[u8])> = hbm.chain(contents.tokenizer).collect();
    let (plan, graph) = (contents.plan.to_string(), tilewright_graph::text::print(contents.graph));
    pack_bundle(&programs, &arrays, &[(PLAN, &plan), (GRAPH, &graph)])
}
