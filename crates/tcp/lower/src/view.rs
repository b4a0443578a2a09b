//! Where a slice finds a tensor: every digit of every axis as a stride within its memory or from slice to
//! slice.
//!
//! A view starts as the map of a lowered shape. Moving data between slices, or through a register file, gives
//! the same tensor another view.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::OFFSET;
use tilewright_notation::problem::{AxisId, Digit, Problem};
use tilewright_notation::syntax::ast::Operand;

/// Where a step along a digit leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigitStep {
    /// So many elements on, in the same slice.
    Offset(u64),
    /// So many slices on.
    Slice(u64),
}

/// A digit of an axis and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ViewDigit {
    pub(super) axis: AxisId,
    pub(super) weight: u64,
    pub(super) size: u64,
    pub(super) at: DigitStep,
}

/// A tensor as the slices see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceView {
    /// Byte offset in every slice's memory.
    pub(super) base: u64,
    pub(super) digits: Vec<ViewDigit>,
}

impl SliceView {
    /// The view of a tensor in data memory.
    pub(super) fn of_map(problem: &Problem, operand: Operand, map: &RadixMap, base: u64) -> SliceView {
        let axes = problem.tensor(operand);
        let digits = map.digits.iter().filter_map(|digit| {
            let axis = *axes.get(usize::from(digit.from_axis))?;
            let at = if digit.to_axis == OFFSET {
                DigitStep::Offset(digit.to_stride)
            } else {
                DigitStep::Slice(digit.to_stride)
            };
            Some(ViewDigit { axis, weight: digit.from_stride, size: digit.size, at })
        });
        SliceView { base, digits: digits.collect() }.sliding(problem, operand)
    }

    /// The same with the loops over windows as digits of their own, next to those of what is stored.
    pub(super) fn sliding(mut self, problem: &Problem, operand: Operand) -> SliceView {
        for window in problem.windows_of(operand) {
            self.digits.retain(|digit| window.factor(digit.axis) == 0);
            let mut stored: Vec<ViewDigit> =
                self.digits.iter().copied().filter(|digit| digit.axis == window.axis).collect();
            stored.sort_by_key(|digit| digit.weight);
            let cuts: Vec<(u64, u64)> = stored.iter().map(|digit| (digit.weight, digit.size)).collect();
            // The check has refused windows that carry from digit to digit.
            for step in
                window.steps(problem, &cuts).or_broken("a legal window carries from no digit to the next")
            {
                let at = match step.digit.and_then(|digit| stored.get(digit)).map(|digit| digit.at) {
                    Some(DigitStep::Slice(stride)) => DigitStep::Slice(stride * step.times),
                    Some(DigitStep::Offset(stride)) => DigitStep::Offset(stride * step.times),
                    None => DigitStep::Offset(0),
                };
                self.digits.push(ViewDigit { axis: step.axis, weight: step.weight, size: step.size, at });
            }
        }
        self
    }

    pub(super) fn has(&self, axis: AxisId) -> bool {
        self.digits.iter().any(|digit| digit.axis == axis)
    }

    /// The digit that holds a weight of an axis.
    pub(super) fn digit(&self, axis: AxisId, weight: u64) -> Option<&ViewDigit> {
        let below = self.digits.iter().filter(|digit| digit.axis == axis && digit.weight <= weight);
        below.max_by_key(|digit| digit.weight)
    }

    /// Where a step of a loop leads; `None` if nothing changes.
    ///
    /// A digit whose weight is no multiple of the stored one was cut wrongly; that is a clash.
    pub(super) fn step(&self, piece: &LoopPiece) -> Result<Option<DigitStep>, CutMismatch> {
        if !self.has(piece.axis) {
            return Ok(None);
        }
        let clash = CutMismatch { axis: piece.axis, weight: piece.weight };
        let Some(digit) = self.digit(piece.axis, piece.weight) else {
            // The axis has one position here.
            return if piece.size == 1 { Ok(None) } else { Err(clash) };
        };
        if !piece.weight.is_multiple_of(digit.weight) {
            return Err(clash);
        }
        let inner = piece.weight / digit.weight;
        Ok(Some(match digit.at {
            DigitStep::Offset(stride) => DigitStep::Offset(stride * inner),
            DigitStep::Slice(stride) => DigitStep::Slice(stride * inner),
        }))
    }

    /// The stride within a slice; data on other slices is a clash.
    pub(super) fn stride(&self, piece: &LoopPiece) -> Result<Option<u64>, CutMismatch> {
        match self.step(piece)? {
            Some(DigitStep::Slice(_)) => Err(CutMismatch { axis: piece.axis, weight: piece.weight }),
            Some(DigitStep::Offset(stride)) => Ok(Some(stride)),
            None => Ok(None),
        }
    }

    /// Whether some iterations of a piece lie on other slices.
    pub(super) fn over_slices(&self, piece: &LoopPiece) -> bool {
        let end = piece.weight.exact_mul(piece.size);
        self.digits.iter().any(|digit| {
            let inside = digit.weight < end && piece.weight < digit.weight.exact_mul(digit.size);
            digit.axis == piece.axis && matches!(digit.at, DigitStep::Slice(_)) && inside
        })
    }

    /// Whether every iteration of a piece has a place of its own in this view.
    pub(super) fn has_room(&self, piece: &LoopPiece) -> bool {
        self.digit(piece.axis, piece.weight)
            .is_some_and(|digit| piece.weight * piece.size <= digit.weight * digit.size)
    }
}

/// Two views cut an axis at places that do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutMismatch {
    pub(super) axis: AxisId,
    pub(super) weight: u64,
}

/// A loop that every view steps through with one stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopPiece {
    pub(super) axis: AxisId,
    pub(super) weight: u64,
    pub(super) size: u64,
    /// The digit it was cut from.
    pub(super) digit: UncutDigit,
}

/// A digit of a tactic, before it was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UncutDigit {
    pub(super) weight: u64,
    pub(super) live: u64,
    pub(super) places: u64,
}

/// How many values of a digit are run through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigitValues {
    /// Those that hold data: loops in time.
    Live,
    /// All places: lanes and packets, which are there anyway.
    Places,
}

/// Cuts digits, outermost first, wherever a view cuts their axis.
pub(super) fn cut(digits: &[Digit], views: &[&SliceView], run: DigitValues) -> Vec<LoopPiece> {
    let mut pieces = Vec::new();
    for digit in digits {
        let Some(axis) = digit.axis else { continue };
        let whole = UncutDigit { weight: digit.stride, live: digit.live, places: digit.slots };
        let count = if run == DigitValues::Live { digit.live } else { digit.slots };
        if count > 1 {
            cut_one(axis, whole, count, views, &mut pieces);
        }
    }
    pieces
}

fn cut_one(axis: AxisId, whole: UncutDigit, count: u64, views: &[&SliceView], pieces: &mut Vec<LoopPiece>) {
    let end = whole.weight * count;
    let mut marks = vec![whole.weight];
    for digit in views.iter().flat_map(|view| &view.digits).filter(|digit| digit.axis == axis) {
        // Places past the live ones are idle: no digit of the axis lies there.
        if digit.weight > whole.weight && digit.weight < whole.weight * whole.live {
            marks.push(digit.weight);
        }
    }
    marks.sort_unstable();
    marks.dedup();
    for (index, weight) in marks.iter().enumerate().rev() {
        let above = marks.get(index + 1).copied().unwrap_or(end);
        pieces.push(LoopPiece { axis, weight: *weight, size: above.div_ceil(*weight), digit: whole });
    }
}

/// Whether views cut a digit where it cannot be cut: marks that do not divide one another, or an end that
/// runs past what may be run. Only the outermost digit of an axis may run past its end in time, where masks
/// tell padding from data.
pub(super) fn ragged(problem: &Problem, digits: &[Digit], views: &[&SliceView], run: DigitValues) -> bool {
    digits.iter().any(|digit| {
        let Some(axis) = digit.axis else { return false };
        let count = if run == DigitValues::Live { digit.live } else { digit.slots };
        let end = digit.stride * count;
        let mut marks = vec![digit.stride];
        let cuts = views.iter().flat_map(|view| &view.digits).filter(|other| other.axis == axis);
        let live_end = digit.stride * digit.live;
        marks.extend(
            cuts.map(|other| other.weight).filter(|weight| *weight > digit.stride && *weight < live_end),
        );
        marks.sort_unstable();
        let uneven = marks.windows(2).any(|pair| !pair[1].is_multiple_of(pair[0]));
        let past = marks.last().is_some_and(|last| !end.is_multiple_of(*last));
        let across = views.iter().filter_map(|view| view.digit(axis, digit.stride));
        let across = across.into_iter().any(|other| !digit.stride.is_multiple_of(other.weight));
        across || uneven || past && (run == DigitValues::Places || end < problem.axis(axis).extent)
    })
}

/// Iterations of nested pieces.
pub(super) fn steps(pieces: &[LoopPiece]) -> u64 {
    pieces.iter().fold(1, |all: u64, piece| all.exact_mul(piece.size))
}
