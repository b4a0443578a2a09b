//! Slice positions of a shape set against those of a tactic, piece by piece.
//!
//! Both number the same slices with power-of-two digits, so a common refinement always exists.

use arrayvec::ArrayVec;
use tilewright_base::Span;
use tilewright_notation::problem::{AxisId, Digit};

/// What a group of slice-number bits stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Part of an axis: the weight on its coordinate.
    Axis(AxisId, u64),
    /// Copies of the same data.
    Copies,
    /// Nothing: slices past the shape, or places kept idle.
    Idle,
}

/// One or more neighbouring bits of the slice number with one meaning on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Slices between neighbours along this piece.
    pub(super) weight: u64,
    /// Slices along it.
    pub(super) slices: u64,
    pub(super) tactic: (Meaning, Option<Span>),
    pub(super) shape: (Meaning, Option<Span>),
}

/// Bits of a slice number; a machine has far fewer slices.
const MAX_BITS: usize = 32;

type Bits = ArrayVec<(Meaning, Span), MAX_BITS>;

/// Sets the slice digits of a tactic and of a shape side by side, least significant first.
pub(super) fn pieces(tactic: &[Digit], shape: &[Digit]) -> ArrayVec<Piece, MAX_BITS> {
    let (t, s) = (bits(tactic), bits(shape));
    let mut pieces: ArrayVec<Piece, MAX_BITS> = ArrayVec::new();
    for bit in 0..t.len().max(s.len()) {
        let side = |bits: &Bits| bits.get(bit).map_or((Meaning::Idle, None), |(m, span)| (*m, Some(*span)));
        let (tactic, shape) = (side(&t), side(&s));
        match pieces.last_mut() {
            Some(piece)
                if follows(piece.tactic, tactic, piece.slices) && follows(piece.shape, shape, piece.slices) =>
            {
                piece.slices *= 2;
            }
            _ => pieces.push(Piece { weight: 1 << bit, slices: 2, tactic, shape }),
        }
    }
    pieces
}

/// Whether a bit continues a piece of so many slices.
fn follows(low: (Meaning, Option<Span>), high: (Meaning, Option<Span>), slices: u64) -> bool {
    low.1 == high.1
        && match (low.0, high.0) {
            (Meaning::Axis(a, weight), Meaning::Axis(b, above)) => a == b && above == weight * slices,
            (Meaning::Copies, Meaning::Copies) | (Meaning::Idle, Meaning::Idle) => true,
            _ => false,
        }
}

/// The meaning of each bit of the slice number, least significant first.
fn bits(inter: &[Digit]) -> Bits {
    let mut bits = Bits::new();
    for digit in inter.iter().rev() {
        for bit in 0..digit.slots.trailing_zeros() {
            let meaning = match digit.axis {
                // Bits that only idle places need.
                _ if (1_u64 << bit) >= digit.live => Meaning::Idle,
                Some(axis) => Meaning::Axis(axis, digit.stride << bit),
                None => Meaning::Copies,
            };
            if bits.try_push((meaning, digit.span)).is_err() {
                return bits;
            }
        }
    }
    bits
}
