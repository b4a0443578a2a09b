//! Whether the commit unit can write sums straight to the output's shape: flits contiguous, strides whole words, and a place of its
//! own for every step.

use super::drain::{FlitLoop, Leaving};
use super::dynamic::Dynamic;
use super::loops::Turn;
use super::view::{At, View};

/// A commit that needs no bridge.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    /// Loops over flits, strides in bytes.
    pub(super) loops: Vec<Turn>,
    /// Bytes of a flit that are kept.
    pub(super) bytes: u64,
}

/// The direct commit, if there is one; loops in `scattered` run over slices and write nothing twice.
pub(super) fn direct(
    leaving: &Leaving,
    out: &View,
    word_bytes: u64,
    granule: u64,
    scattered: &[usize],
    dynamic: &Dynamic,
) -> Option<Direct> {
    let mut expected = 1;
    for (piece, size) in leaving.within.iter().rev().filter(|(_, size)| *size > 1) {
        let whole = *size == piece.size && piece.digit.live == piece.digit.places;
        let contiguous = matches!(out.step(piece), Ok(Some(At::Offset(stride))) if stride == expected);
        if !(contiguous && whole && out.has_room(piece)) {
            return None;
        }
        expected *= size;
    }
    if !expected.is_multiple_of(leaving.valid) {
        return None;
    }
    let bytes = leaving.valid * word_bytes;
    if !bytes.is_multiple_of(granule) {
        return None;
    }
    let mut loops = Vec::new();
    for (index, (flit, size)) in leaving.flits.iter().enumerate() {
        if scattered.contains(&index) {
            continue;
        }
        let (stride_bytes, by) = match flit {
            FlitLoop::Chunks => (bytes, None),
            FlitLoop::Piece(piece) => {
                let Ok(Some(At::Offset(stride))) = out.step(piece) else { return None };
                // Lanes and columns past the live ones would write where the digit above writes.
                let past = piece.weight * piece.size > piece.digit.weight * piece.digit.live;
                if *size != piece.size || past || !out.has_room(piece) {
                    return None;
                }
                (stride * word_bytes, dynamic.steps(piece))
            }
        };
        if !stride_bytes.is_multiple_of(granule) {
            return None;
        }
        loops.push(Turn { size: *size, by, stride: stride_bytes });
    }
    out.base.is_multiple_of(granule).then_some(Direct { loops, bytes })
}
