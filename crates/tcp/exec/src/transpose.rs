//! Transpose engine: tiles of rows x columns leave as columns, one to a flit (vISA book, transpose engine).

use tilewright_base::invariant::Exact;
use tilewright_tcp_isa::program::exec::Transpose;

use super::fault::{ExecProblem, divide, product};
use super::packets::{Packets, load_bits, store_bits};
use crate::limits::{MAX_SLICE, index};

/// Elements that the engine takes of a flit: 16 of 4 bits, 8 of any other size.
fn flit_elements(bits: u64) -> u64 {
    if bits == 4 { 16 } else { 8 }
}

/// Flits that leave.
pub(super) fn leaving(image: &Transpose, bits: u64, flits: u64) -> Result<u64, ExecProblem> {
    let tile_elements = product("elements of a tile", [image.rows, image.columns], MAX_SLICE)?;
    let tile_flits = divide("elements of a transposed tile", tile_elements, flit_elements(bits))?;
    if image.kept > image.columns || tile_flits == 0 {
        return Err(ExecProblem::Setting("a transposed tile keeps at most its columns, and has some"));
    }
    product("flits", [divide("flits", flits, tile_flits)?, image.kept], MAX_SLICE)
}

/// Transposes flits of elements of so many bits.
pub(super) fn transpose(image: &Transpose, bits: u64, flits: &Packets) -> Result<Packets, ExecProblem> {
    let flit_bytes = flits.packet_bytes;
    let leaving = leaving(image, bits, flits.count() as u64)?;
    if image.rows.exact_mul(bits).div_ceil(8) > flit_bytes as u64 {
        return Err(ExecProblem::TooLarge { what: "bytes of a transposed column", most: flit_bytes as u64 });
    }
    let taken = index(flit_elements(bits));
    let (rows, columns, kept) = (index(image.rows), index(image.columns), index(image.kept));
    let tile_flits = rows * columns / taken;
    let mut bytes = vec![0; index(leaving).exact_mul(flit_bytes)];
    let tiles = flits.bytes.chunks_exact(tile_flits * flit_bytes);
    for (tile, out) in tiles.zip(bytes.chunks_exact_mut((kept * flit_bytes).max(1))) {
        for (column, flit) in out.chunks_exact_mut(flit_bytes).enumerate() {
            for row in 0..rows {
                let element = row * columns + column;
                let source = &tile[element / taken * flit_bytes..][..flit_bytes];
                store_bits(flit, bits, row, load_bits(source, bits, element % taken));
            }
        }
    }
    Ok(Packets { bytes, extra: None, packet_bytes: flit_bytes })
}
