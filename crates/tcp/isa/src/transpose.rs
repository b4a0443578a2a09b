//! The transpose engine's tiles: which it takes, and the flits that fill one (vISA book, transpose engine).

use crate::capped::Capped;
use tilewright_machine::tcp::Tcp;

/// What a command transposes on each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeStage {
    /// Bits of an element.
    pub element_bits: u64,
    /// Rows of a tile that enter.
    pub rows: u64,
    /// Columns of a tile that enter, padding included.
    pub columns: u64,
    /// Columns that leave, as rows, without those that are padding.
    pub output_rows: u64,
    /// Elements that a flit holds on its way in: 16 of 4 bits, 8 of any other size (vISA book).
    pub flit_elements: u64,
    /// Tiles.
    pub tiles: u64,
}

/// Why a tile cannot be transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransposeError {
    /// The engine has no elements of so many bits.
    Element(u64),
    /// More rows than a tile of such elements has.
    Rows {
        /// Requested rows.
        rows: u64,
        /// Rows that a tile has.
        most: u64,
    },
    /// The engine has no tiles of so many columns of such elements.
    Columns(u64),
}

/// Flits that fill a tile.
pub fn tile_flits(transpose: &TransposeStage) -> u64 {
    transpose.rows.capped_mul(transpose.columns).div_ceil(transpose.flit_elements.max(1))
}

/// Whether the engine takes such tiles.
pub fn check(machine: &Tcp, transpose: &TransposeStage) -> Result<(), TransposeError> {
    let (bits, rows, columns) = (transpose.element_bits, transpose.rows, transpose.columns);
    let most = match bits {
        4 => machine.transpose.rows_4bit_max,
        8 => machine.transpose.rows_8bit_max,
        16 => machine.transpose.rows_16bit_max,
        32 => machine.transpose.rows_32bit_max,
        _ => return Err(TransposeError::Element(bits)),
    };
    if rows > most {
        return Err(TransposeError::Rows { rows, most });
    }
    // A flit of 4-bit elements fills 16 columns, so half a buffer is no tile of theirs.
    let too_narrow = bits == 4 && columns < machine.transpose.buffer_columns;
    if too_narrow || !machine.transpose.columns.contains(&columns) {
        return Err(TransposeError::Columns(columns));
    }
    Ok(())
}
