//! What the queue of one processing element has done so far, which decides what its next commands are.

use super::exchange::Sent;

/// What commands of a queue leave to those behind them; every queue begins with nothing.
#[derive(Default)]
pub struct QueueState {
    /// Partial sums on their way to those who have the tokens.
    pub sent: Option<Sent>,
    /// By part of the rows, the transfer of own tokens to all others, as long as nobody waited for it.
    pub gathered: Vec<u8>,
    /// Pieces of fills that were asked for.
    pub asked_pieces: usize,
    /// Fills that were used.
    pub used_fills: usize,
    /// What a unit of what the last attention gave is worth, if integers are made of it and that was found
    /// beforehand.
    pub attended_unit: Option<f32>,
    /// Norms.
    pub norms: u64,
    /// Exchanges of sums.
    pub exchanges: u64,
    /// Exchanges of sums between chips.
    pub peer_exchanges: u64,
}
