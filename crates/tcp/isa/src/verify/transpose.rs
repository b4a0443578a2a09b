//! Transpose engine: tiles that it has (rule of [`crate::transpose`]).

use super::context::VerifyContext;
use super::types;
use crate::memory::payload_bits;
use crate::program::exec::{Stream, Transpose};
use crate::transpose::{TransposeError, TransposeStage as Tile, check as check_tile};

/// Elements that a flit holds on its way in: 16 of 4 bits, 8 of any other size (vISA book).
fn flit_elements(element_bits: u64) -> u64 {
    if element_bits == 4 { 16 } else { 8 }
}

/// The tile as the engine's own file describes it.
pub(super) fn tile(stream: &Stream, transpose: Transpose) -> Tile {
    let element_bits = payload_bits(types::leaves_transpose(stream));
    Tile {
        element_bits,
        rows: transpose.rows,
        columns: transpose.columns,
        output_rows: transpose.kept,
        flit_elements: flit_elements(element_bits),
        tiles: 1,
    }
}

pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream) {
    let Some(transpose) = stream.transpose else { return };
    let dtype = types::leaves_transpose(stream);
    let error = match check_tile(cx.machine, &tile(stream, transpose)) {
        Ok(()) if transpose.rows == 0 => Some("at least one row".to_owned()),
        Ok(()) => None,
        Err(TransposeError::Element(_)) => Some("elements of 4, 8, 16 or 32 bits".into()),
        Err(TransposeError::Rows { most, .. }) => Some(format!("{most} rows of {dtype}")),
        Err(TransposeError::Columns(_)) => {
            Some(format!("{:?} columns; 8 not of 4 bits", &*cx.machine.transpose.columns))
        }
    };
    if let Some(allowed) = error {
        cx.refuse(
            "tcp/transpose-tile",
            format!("tiles of {} x {} {dtype}", transpose.rows, transpose.columns),
            allowed,
            "smaller tiles, more of them".into(),
        );
    }
    if transpose.kept == 0 || transpose.kept > transpose.columns {
        cx.refuse(
            "tcp/transpose-kept",
            format!("{} of {} columns leave", transpose.kept, transpose.columns),
            format!("1 to {}", transpose.columns),
            "the columns that are no padding".into(),
        );
    }
}
