//! Slice positions of a shape set against those of a tactic, piece by piece.
//!
//! Both number the same slices with power-of-two digits, so a common refinement always exists.

use smallvec::SmallVec;
use tilewright_base::Span;
use tilewright_notation::problem::{AxisId, Digit, Problem};
use tilewright_notation::radix::superscript;

/// What a group of slice-number bits stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceBits {
    /// Part of an axis: the weight on its coordinate.
    Axis(AxisId, u64),
    /// Copies of the same data.
    Copies,
    /// Nothing: slices past the shape, or places kept idle.
    Idle,
}

impl SlicePiece {
    /// A meaning of this piece in the words of the notation.
    pub(super) fn say(&self, problem: &Problem, meaning: SliceBits) -> String {
        match meaning {
            SliceBits::Axis(axis, weight) => {
                format!("{}^{}[{}]", problem.axis(axis).name, superscript(weight), self.slices)
            }
            SliceBits::Copies => format!("_[{}]", self.slices),
            SliceBits::Idle => "nothing".to_string(),
        }
    }
}

/// One or more neighbouring bits of the slice number with one meaning on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlicePiece {
    /// Slices between neighbours along this piece.
    pub(super) weight: u64,
    /// Slices along it.
    pub(super) slices: u64,
    pub(super) tactic: (SliceBits, Option<Span>),
    pub(super) shape: (SliceBits, Option<Span>),
}

/// Pieces of a slice number, least significant first.
pub(super) type SlicePieces = SmallVec<[SlicePiece; 4]>;

/// Sets the slice digits of a tactic and of a shape side by side.
pub(super) fn pieces(tactic: &[Digit], shape: &[Digit]) -> SlicePieces {
    let bits = |inter: &[Digit]| inter.iter().map(|digit| digit.slots.trailing_zeros()).sum::<u32>();
    let mut pieces = SlicePieces::new();
    for bit in 0..bits(tactic).max(bits(shape)) {
        let (tactic, shape) = (meaning_of_bit(tactic, bit), meaning_of_bit(shape, bit));
        match pieces.last_mut() {
            Some(piece)
                if follows(piece.tactic, tactic, piece.slices)
                    && follows(piece.shape, shape, piece.slices) =>
            {
                piece.slices *= 2;
            }
            _ => pieces.push(SlicePiece { weight: 1 << bit, slices: 2, tactic, shape }),
        }
    }
    pieces
}

/// Whether a bit continues a piece of so many slices.
fn follows(low: (SliceBits, Option<Span>), high: (SliceBits, Option<Span>), slices: u64) -> bool {
    low.1 == high.1
        && match (low.0, high.0) {
            (SliceBits::Axis(a, weight), SliceBits::Axis(b, above)) => a == b && above == weight * slices,
            (SliceBits::Copies, SliceBits::Copies) | (SliceBits::Idle, SliceBits::Idle) => true,
            _ => false,
        }
}

/// What a bit of the slice number stands for, and the digit that it belongs to.
fn meaning_of_bit(inter: &[Digit], mut bit: u32) -> (SliceBits, Option<Span>) {
    for digit in inter.iter().rev() {
        let bits = digit.slots.trailing_zeros();
        if bit < bits {
            let meaning = match digit.axis {
                // Bits that only idle places need.
                _ if (1_u64 << bit) >= digit.live => SliceBits::Idle,
                Some(axis) => SliceBits::Axis(axis, digit.stride << bit),
                None => SliceBits::Copies,
            };
            return (meaning, Some(digit.span));
        }
        bit -= bits;
    }
    (SliceBits::Idle, None)
}
