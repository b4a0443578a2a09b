//! Whether the commit unit can write sums straight to the output's shape: flits contiguous, strides whole
//! words, and a place of its own for every step.

use super::drain::{DrainLayout, FlitLoop};
use super::dynamic::DynamicAxes;
use super::loops::SequencerLoop;
use super::view::{DigitStep, SliceView};

/// A commit that needs no bridge.
#[derive(Clone, Debug)]
pub(super) struct DirectCommit {
    /// Loops over flits, strides in bytes.
    pub(super) loops: Vec<SequencerLoop>,
    /// Bytes of a flit that are kept.
    pub(super) bytes: u64,
}

/// The direct commit, if there is one; loops in `scattered` run over slices and write nothing twice.
pub(super) fn direct(
    leaving: &DrainLayout,
    out: &SliceView,
    word_bytes: u64,
    granule: u64,
    scattered: &[usize],
    dynamic: &DynamicAxes,
) -> Option<DirectCommit> {
    let mut expected = 1;
    for (piece, size) in leaving.within.iter().rev().filter(|(_, size)| *size > 1) {
        let whole = *size == piece.size && piece.digit.live == piece.digit.places;
        let contiguous = matches!(out.step(piece), Ok(Some(DigitStep::Offset(stride))) if stride == expected);
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
                let Ok(Some(DigitStep::Offset(stride))) = out.step(piece) else { return None };
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
        loops.push(SequencerLoop { size: *size, by, stride: stride_bytes });
    }
    out.base.is_multiple_of(granule).then_some(DirectCommit { loops, bytes })
}
