//! Reads of the contraction engine's register file as a closed form, for rows that lie in the order in which
//! the loops read them (vISA book, tensor register file; the rule is that of [`super::registers`], which
//! follows row by row).
//!
//! Loops that advance go on to the next rows; loops that repeat read the rows inside them again. A direct
//! mapped cache keeps what it was last given, so that of a block read again all rows hit if it fits, none if
//! it is twice as large as the cache, and in between those rows whose places were used once.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::capped::Capped;

/// A loop over steps, innermost first in a nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLoop {
    /// Iterations.
    pub size: u64,
    /// Goes on to other rows; reads the same ones again if not.
    pub advances: bool,
}

/// Reads of one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowReads {
    /// Rows that come from the array.
    pub missed: u64,
    /// Rows that the cache answers.
    pub hit: u64,
}

/// Follows a nest, innermost loop first, whose steps each read `row_bytes` and lie `stride_bytes` apart.
pub fn row_reads(
    machine: &Tcp,
    nest: impl IntoIterator<Item = RowLoop>,
    row_bytes: u64,
    stride_bytes: u64,
) -> RowReads {
    let unit = machine.trf.row_payload_bytes.max(1);
    let places = machine.trf.banks.capped_mul(machine.trf.cache_rows);
    let step_rows = row_bytes.div_ceil(unit).max(1);
    let (mut steps, mut missed, mut span) = (1_u64, step_rows, stride_bytes.max(1));
    for row in nest {
        steps = steps.capped_mul(row.size);
        if row.advances {
            let all = span.capped_mul(row.size);
            // Blocks that share a row, or fill less than one, miss only when a row is new.
            let cold = missed <= span.div_ceil(unit) && !span.is_multiple_of(unit);
            missed = if cold { all.div_ceil(unit) } else { missed.capped_mul(row.size) };
            span = all;
        } else {
            let rows = span.div_ceil(unit);
            let kept = if rows <= places { rows } else { (2 * places).saturating_sub(rows) };
            let again = missed.saturating_sub(kept);
            missed = missed.capped_add(again.capped_mul(row.size.saturating_sub(1)));
        }
    }
    RowReads { missed, hit: steps.capped_mul(step_rows).saturating_sub(missed) }
}
