//! The timeline of a program: when every command runs, what it waits for, and what the chips use meanwhile.
//!
//! Event-driven, one event for each thing that a control core, a command processor, a context or a DMA engine
//! does; how long a command takes alone is asked of its engine (`tilewright_tcp_cost::cycles::image`), once
//! for each image and register values. Values are computed elsewhere: a [`Observer`] is told what happens, in
//! order, as are the [`findings`].
//!
//! | file | owns |
//! |---|---|
//! | `simulate` | the loop over events |
//! | `arithmetic` | what cores compute and compare |
//! | `core` | the control core of a PE: steps, registers, messages |
//! | `processor` | the command processor: queue, loads, waits |
//! | `contexts` | executions: what may run side by side, and for how long |
//! | `engine` | the DMA engine of a PE |
//! | [`bandwidth`] | off-chip memory and links, shared fairly between transfers |
//! | `contention` | how a main command slows a sub command |
//! | `plan` | what an image costs, asked once |
//! | `prepared` | the same, asked once for many runs |
//! | `image_use` | what all runs of an image took |
//! | `trace` | tracks, counters, flows and energy of the record |
//! | [`checks`] | what must hold after every run |
//! | [`findings`] | races and other faults that the commands of a run do to each other |

mod arithmetic;
pub mod bandwidth;
pub mod checks;
mod contention;
mod contexts;
mod core;
mod engine;
mod error;
mod events;
pub mod findings;
mod image_use;
mod ledger;
mod observer;
mod outcome;
mod plan;
mod prepared;
mod processor;
mod simulate;
mod state;
mod touched;
mod trace;

pub use error::SimError;
pub use image_use::ImageUse;
pub use observer::{NoObserver, Observer};
pub use outcome::{
    BlockedCore, Detail, EngineUnit, EngineUse, QueueOverflow, RunEnd, SimOptions, SimOutcome, WaitReason,
};
pub use prepared::PreparedSim;
pub use simulate::simulate;
