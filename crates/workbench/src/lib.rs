//! What the command line and Python share: texts in, data out.
//!
//! - [`notation`]: an einsum with its shapes and tactic, checked, drawn and lowered;
//! - [`case_study`](mod@case_study): the paper's tables and figures of a model;
//! - [`bands`]: ranges of a program's time and energy over what is assumed of its machine;
//! - [`chip`]: machines by name, from a text, and varied;
//! - [`explore`]: a search with its candidates as people see them, as data and as pictures;
//! - [`model`]: language models read, compiled and generating;
//! - [`simulate`]: a program text run on its machine, whichever chip family it is of;
//! - [`readings`]: the readings of such a run as data; [`view`](mod@view): the run as the page shows it,
//!   with its [`memory_map`](mod@memory_map) or [`neuron_memory_map`](mod@neuron_memory_map);
//!   [`timeline_picture`](mod@timeline_picture): runs as lanes below each other, as one picture;
//!   [`graph_run`]: the run of a compiled graph, with its operators and kernels; [`model_run`]: those of a
//!   language model whose programs templates wrote;
//! - [`value_path`](mod@value_path): where an input of a compiled graph goes; [`compile_pictures`]: that and
//!   the candidates of a kernel as pictures.
//!
//! Nothing here reads a file or a clock, or knows how options are spelled.

pub mod bands;
mod byte_ranges;
pub mod case_study;
pub mod chip;
pub mod compile_pictures;
mod component_power;
pub mod explore;
pub mod graph_run;
pub mod memory_map;
pub mod model;
pub mod model_run;
pub mod neuron_memory_map;
pub mod notation;
pub mod readings;
mod refusal;
pub mod simulate;
pub mod timeline_picture;
pub mod value_path;
pub mod view;

pub use refusal::Refusal;
