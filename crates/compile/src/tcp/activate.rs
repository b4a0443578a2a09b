//! Elementwise ends of projected rows, which combinations contract next.

use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_lower::kernels::activation::{gated_chain, gelu_chain};

use super::build::Build;
use super::image::{bytes, commit, fetch_pairs, fetch_words, flits, main, n, through};
use crate::CompileError;
use crate::kernel::{Activation, Kernel};

/// Rows of an activation.
pub(super) fn activate(
    build: &mut Build<'_>,
    activation: Activation,
    index: usize,
) -> Result<(), CompileError> {
    let next =
        build.kernels.kernels.iter().skip(index).position(|kernel| matches!(kernel, Kernel::Combine { .. }));
    let next = next.or_broken("a combination takes what an activation gives");
    let packed = build.packed(index + next)?;
    let (row, rows) = (packed.row, build.registers.rows);
    // Integers need the greatest of a row first, unless it is known.
    let unit = build.unit_into(packed.kernel).filter(|_| packed.dtype == Dtype::I8);
    let (dtype, place) = match packed.dtype {
        Dtype::I8 if unit.is_none() => (build.between(), build.at.active_floats),
        dtype => (dtype, build.at.active),
    };
    let cast = (dtype != Dtype::F32).then_some(dtype);
    let from = build.at.rows;
    let per_flit = bytes(dtype, 8);
    let to = commit(Memory::Dm, place, &[(rows, bytes(dtype, row)), (n(flits(row)), per_flit)], per_flit);
    let stream = match activation {
        Activation::GatedSilu => {
            let loops = [(rows, 2 * row), (n(flits(row)), 8), (n(2), 0), (n(8), 1)];
            let second = from + bytes(build.between(), row);
            through(fetch_pairs(build.between(), from, second, &loops), gated_chain(unit), cast, to)
        }
        Activation::Gelu => {
            let loops = [(rows, row), (n(row), 1)];
            through(fetch_words(build.between(), from, &loops), gelu_chain(unit), cast, to)
        }
    };
    build.emit.exec(main("activate", stream));
    Ok(())
}
