//! Transpose engine: flits fill a buffer of rows, columns leave one a cycle (vISA book, transpose engine).
//!
//! Tiles as wide as one buffer use the two in turn, so one tile fills while another leaves; wider tiles take
//! both buffers and alternate between filling and leaving.

use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::transpose::{TransposeStage, tile_flits};

/// Cycles from the first flit in to the last row out.
pub fn stream_cycles(machine: &Tcp, transpose: &TransposeStage) -> u64 {
    let Some(more_tiles) = transpose.tiles.checked_sub(1) else { return 0 };
    let (fill, leave) = (tile_flits(transpose), transpose.output_rows);
    let tile_cycles = fill.capped_add(leave);
    if fills_while_leaving(machine, transpose) {
        tile_cycles.capped_add(more_tiles.capped_mul(fill.max(leave)))
    } else {
        transpose.tiles.capped_mul(tile_cycles)
    }
}

/// Whether a tile fills one buffer while another leaves the other.
pub fn fills_while_leaving(machine: &Tcp, transpose: &TransposeStage) -> bool {
    transpose.columns <= machine.transpose.buffer_columns
}
