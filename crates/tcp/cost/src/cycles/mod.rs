//! How long the engines take: closed forms from a machine's figures and a small description of a stage to
//! cycles.
//!
//! One file for each engine, in the order in which data passes them; [`command`] puts the stages of a tensor
//! unit command together, [`dma`] and [`hbm`] time what moves between memories. Cycles are periods of the
//! chip's clock. Nothing here allocates but [`hbm::HbmChannels::new`]; counts from programs stop at
//! [`TOO_MANY`](tilewright_tcp_isa::capped::TOO_MANY) instead of wrapping, which is what a cost too large to
//! count reads. Whether a stage is legal is another question than how long it takes: where an engine has a
//! `check`, the cost of what it refuses is defined, but means nothing.

pub mod batches;
pub mod cast;
pub mod collect;
pub mod command;
pub mod commit;
pub mod contention;
pub mod contraction;
pub mod dma;
pub mod fetch;
pub mod hbm;
pub mod image;
pub mod load;
pub mod register_file_cache;
pub mod registers;
pub mod stage;
pub mod switch;
pub mod transpose;
pub mod vector;

pub use command::{CommandCycles, ContractionPace, command_cycles, worst_cycles};
pub use stage::{CommandStages, PipelineStage};
