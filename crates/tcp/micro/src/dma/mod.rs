//! Transfers between memories, request by request: the reference of the closed forms of DMA and HBM.
//!
//! Written from the vISA book (memory performance, DMA engine) and the machine file alone; it shares no code
//! with the closed forms. An engine cuts packets into requests and keeps a window of them in flight
//! ([`engine`]); a channel has a command queue, banks with one open row each, and column commands that keep
//! their distance ([`channel`]); addresses are taken apart bit by bit ([`address`]).
//!
//! The book says that a channel transfers from open rows while another bank switches its row, and prices
//! transfers whose every request switches rows at one switch a request, although eight banks of each channel
//! take part: interleaving "cannot hide the row-conflict cost within each channel". Both hold if a channel
//! switches one row at a time ([`RowSwitches::OneAtATime`]), which is what is simulated unless the other
//! reading is asked for. Refresh and the efficiency that stands for it are not simulated, nor is the start of
//! a command.

mod address;
mod channel;
mod engine;
pub mod gap;
mod requests;
pub mod sample;

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::transfer::Transfer;

use crate::command::MicroError;
use channel::Channel;
use engine::{DataNetworks, Engine};
use requests::requests;

/// Requests that all engines together may make.
pub const REQUESTS_MAX: u64 = 1 << 20;
/// Periods of the memory's command clock after which a simulation gives up.
const TICKS_MAX: u64 = 1 << 26;

/// How many rows a channel may switch at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowSwitches {
    /// One in the channel, beside transfers from open rows.
    #[default]
    OneAtATime,
    /// One in each bank.
    EachBank,
}

/// What came of a set of transfers that start together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaOutcome {
    /// Chip cycles from the first request to the last write, rounded up.
    pub cycles: u64,
    /// Units of HBM that were read or written.
    pub accesses: u64,
    /// Rows that were opened.
    pub row_switches: u64,
}

/// Where an access belongs: engine and request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    engine: usize,
    request: usize,
}

/// Runs one transfer on each engine, all from the same cycle on.
pub fn run_transfers(
    machine: &Tcp,
    transfers: &[Transfer],
    switches: RowSwitches,
) -> Result<DmaOutcome, MicroError> {
    let mut engines = Vec::new();
    let mut requested = 0_u64;
    for (index, transfer) in transfers.iter().enumerate() {
        let list = requests(machine, transfer, REQUESTS_MAX - requested)?;
        requested += list.len() as u64;
        engines.push(Engine::new(machine, index, list));
    }
    let mut channels: Vec<Channel> =
        (0..machine.hbm_channels()).map(|_| Channel::new(machine, switches)).collect();
    let mut networks = DataNetworks::new(machine);
    let (chip_hz, tick_hz) = (u128::from(machine.chip.clock_hz), u128::from(machine.hbm.timing_clock_hz));
    let mut cycle = 0_u64;
    for tick in 0..TICKS_MAX {
        while u128::from(cycle) * tick_hz <= u128::from(tick) * chip_hz {
            networks.step(cycle, &mut engines);
            let first = to_index(cycle) % engines.len().max(1);
            for turn in 0..engines.len() {
                let engine = (first + turn) % engines.len();
                engines[engine].step(machine, &mut channels, &mut networks);
            }
            cycle += 1;
        }
        for channel in &mut channels {
            for done in channel.step(tick) {
                engines[done.engine].access_done(done.request, &mut networks);
            }
        }
        if engines.iter().all(Engine::is_done) {
            return Ok(DmaOutcome {
                cycles: cycle.max(networks.busy_until()),
                accesses: channels.iter().map(|c| c.served).sum(),
                row_switches: channels.iter().map(|c| c.switched).sum(),
            });
        }
    }
    Err(MicroError::Stuck(cycle))
}
