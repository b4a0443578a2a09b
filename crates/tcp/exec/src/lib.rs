//! The values reading of single commands: what one tensor unit command or one transfer does to the memories,
//! bit for bit.
//!
//! Units follow their registers literally, in the order in which data passes them (paper section IV; vISA
//! book). A command reads everything before it writes anything; whether commands disturb each other is for
//! the findings to say. Slices are computed in parallel, and no result depends on the number of threads.
//!
//! | file | owns |
//! |---|---|
//! | [`state`] | all memories of a program's chips, page tables, placement of tensors |
//! | [`fault`] | why a command could not be run |
//! | `walk` | the loop sequencer, followed address by address |
//! | `limits` | how a command is followed, and how much of it is held at once |
//! | `byte_runs` | runs of bytes that match on both sides of a copy |
//! | `parallel` | slices shared between host threads |
//! | `packets` | what is in flight on one slice: bytes, and the extra bits of i5 and i9 |
//! | `stage_data` | what passes from one engine to the next on a slice |
//! | `stream` | the engines of one command in order |
//! | `equal_slices` | slices on which a command does the same |
//! | `copy` | commands that only move bytes within slices |
//! | `fetch`, `switch`, `collect` | from data memory to flits |
//! | [`contract`] | the contraction engine, literally and in bulk |
//! | [`values`] | sums of products as bulk kernels of the host, bit for bit the same |
//! | [`vector`] | the vector engine's chain and the reducer between slices |
//! | `output_stages`, `cast`, `convert`, `transpose`, `commit` | from results to memory; fills and short loads |
//! | `transfer` | DMA |

mod byte_runs;
mod cast;
mod collect;
mod commit;
pub mod contract;
mod convert;
mod copy;
mod equal_slices;
pub mod fault;
mod fetch;
#[doc(hidden)]
pub mod inside;
mod limits;
mod output_stages;
pub mod packets;
mod parallel;
mod stage_data;
pub mod state;
mod stream;
mod switch;
mod transfer;
mod transpose;
pub mod values;
pub mod vector;
mod walk;

pub use fault::{ExecFault, ExecProblem, ExecStage};
pub use limits::{MAX_GROUP_BYTES, MAX_SLICE, rules};
pub use state::MemoryState;
pub use transfer::{transfer, transfer_within};

use limits::ExecMode;
use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::ExecBody;

/// Runs one tensor unit command of the group that starts at a PE. Every size in the image is a number.
///
/// # Errors
/// A command whose units do not fit one another, or that writes where no memory is. Nothing is written then.
pub fn exec(machine: &Tcp, state: &mut MemoryState, pe: PeId, exec: &Exec) -> Result<(), ExecFault> {
    exec_in(machine, state, pe, exec, ExecMode::Bulk)
}

/// [`exec`] as registers say it, element by element and flit by flit: the definition that [`exec`] is
/// compared with.
///
/// # Errors
/// As [`exec`].
pub fn exec_literally(
    machine: &Tcp,
    state: &mut MemoryState,
    pe: PeId,
    exec: &Exec,
) -> Result<(), ExecFault> {
    exec_in(machine, state, pe, exec, ExecMode::Literal)
}

fn exec_in(
    machine: &Tcp,
    state: &mut MemoryState,
    pe: PeId,
    exec: &Exec,
    mode: ExecMode,
) -> Result<(), ExecFault> {
    let group = state.group(pe, exec.pes)?;
    match &exec.body {
        ExecBody::Stream(image) => stream::run(machine, state, group, image, mode),
        ExecBody::Fill(fill) => commit::fill(state, group, fill),
        ExecBody::Short(short) => commit::short(state, group, short),
    }
}
