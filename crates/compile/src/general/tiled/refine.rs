//! What the transfers of a tile take, from the transfers themselves: requests, networks of data memory,
//! access units and rows of HBM, as the cost of a transfer has them.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::transfer_cost;

use super::super::kernel::Sizes;
use super::super::moves::{hbm_cycles, once_from_hbm};
use super::epilogue::Input;
use super::grid::{Tile, Tiling};
use super::lines::Windows;
use super::tile::{TileProgram, WORD_BYTES};
use super::traffic::{Place, operand_place, result_place, row_place, vector_place};

/// Cycles of the engine for rows, for columns with what is brought beside each strip of them, for results,
/// and for what is brought beside each tile, if all PEs move as much; `None` if digits do not make up an
/// axis.
pub(super) fn transfer_cycles(
    machine: &Tcp,
    sizes: Sizes,
    (tiling, fused): (Tiling, u64),
    (program, windows): (&TileProgram, Option<&Windows>),
    tile: &Tile,
) -> Option<[u64; 4]> {
    let of =
        |place: Place<'_>, to_dm: bool| cycles(machine, (tiling.grid.pes() * fused, fused), &place, to_dm);
    let rows = of(program.rows_place(sizes, tile, windows), true)?;
    let mut columns = of(operand_place(sizes, tile, &program.operands[1], 1), true)?;
    let (mut stored, mut beside) = (0, 0);
    for (operand, placed) in program.finish.operands.iter().zip(&program.vectors) {
        let one = of(vector_place(sizes, tile, operand.input, placed), true)?;
        if operand.input == Input::Rows {
            beside += one;
        } else {
            // Those of all strips come at once.
            columns += one / tiling.column_tiles(sizes).max(1);
        }
    }
    for _ in &program.finish.brought {
        let place = result_place(sizes, tile, program.result(WORD_BYTES), WORD_BYTES);
        beside += of(place.through(windows), true)?;
    }
    for one in &program.finish.stored {
        let bytes = one.element_bytes();
        let place = match (one.narrow, &program.row_values) {
            (true, Some(placed)) => row_place(sizes, tile, placed),
            _ => result_place(sizes, tile, program.result(bytes), bytes).stored(windows),
        };
        stored += of(place, false)?;
    }
    Some([rows, columns, stored, beside])
}

/// Cycles of one engine, or of those of a group, or of HBM if all PEs ask for as much.
fn cycles(machine: &Tcp, (sharing, fused): (u64, u64), place: &Place<'_>, to_dm: bool) -> Option<u64> {
    let mut all = 0;
    let parts = place.transfers(machine, "part", to_dm)?;
    let alone =
        |transfer| if fused == 1 { once_from_hbm(machine, transfer, sharing) } else { vec![transfer] };
    for transfer in parts.into_iter().flat_map(alone) {
        let cost = transfer_cost(machine, &transfer)?;
        let startup = machine.tdma.startup_cycles;
        let alone = cost.cycles.total_cycles.saturating_sub(startup) / fused;
        all += alone.max(hbm_cycles(&cost) * sharing / fused) + startup;
    }
    Some(all)
}
