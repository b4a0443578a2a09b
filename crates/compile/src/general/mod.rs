//! The general path: any graph of primitives with fixed sizes as one program of the TCP, kernel by kernel (paper sections V-B and V-C).
//!
//! | file | owns |
//! |---|---|
//! | [`kernel`] | the kernel level: values in HBM, moves, chains, contractions, reductions |
//! | [`view`] | strided looks at values |
//! | `form`, `contract`, `constants` | stage 2: a graph of primitives to kernels |
//! | [`elementwise`], [`words`] | elementwise primitives as steps on 32-bit words, and what a step gives |
//! | `merge` | chains that read one another as one |
//! | [`passes`](mod@passes) | steps as commands of the vector engine |
//! | [`tactic`], [`image`] | contractions by the explorer's tactics; their shapes seen from HBM |
//! | [`moves`] | loops over elements as transfers |
//! | `emit`, [`plan`](mod@plan) | the program |
//! | [`tensors`] | tensors as words |
//! | [`refusal`] | what is not lowered, and why |

pub mod elementwise;
pub mod image;
pub mod kernel;
pub mod moves;
pub mod passes;
pub mod plan;
pub mod refusal;
pub mod tactic;
pub mod tensors;
pub mod view;
pub mod words;

mod constants;
mod contract;
mod emit;
mod form;
mod merge;

pub use plan::{Planned, plan, share};
pub use refusal::Refusal;
