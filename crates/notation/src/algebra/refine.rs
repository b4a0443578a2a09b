//! Common refinement of two ways to cut one axis into digits.
//!
//! The vISA book states the limit: buffer and stream must decompose an axis compatibly; 5 x 3 against 3 x 5
//! of a 15-axis has no common refinement.

use smallvec::SmallVec;

/// Two digits that cannot be cut into common pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigitClash {
    /// The axis between the two.
    pub axis: u8,
    /// Size or stride on the left.
    pub left: u64,
    /// Size or stride on the right.
    pub right: u64,
}

/// A piece that lies within one digit of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonPiece {
    /// Index of the left digit.
    pub left: usize,
    /// Index of the right digit.
    pub right: usize,
    /// Product of the pieces below it within the left digit.
    pub left_inner: u64,
    /// The same within the right digit.
    pub right_inner: u64,
    /// Values of the piece.
    pub size: u64,
}

/// One way to cut an axis.
#[derive(Clone, Debug, Default)]
pub struct AxisCuts {
    /// `(stride, size)` of each digit, strides rising.
    pub digits: SmallVec<[(u64, u64); 8]>,
    /// The last digit reaches the end of the axis.
    pub reaches_end: bool,
}

impl AxisCuts {
    /// Digits that reach the end of the axis.
    pub fn whole(digits: impl Iterator<Item = (u64, u64)>) -> AxisCuts {
        AxisCuts { digits: digits.collect(), reaches_end: true }
    }
}

/// Cuts two lists of `(stride, size)`, strides rising, into common pieces.
///
/// The last digit of a side that reaches the end of the axis may end anywhere: a ragged end is padding, and
/// the pieces then round up.
pub fn refine(axis: u8, left: &AxisCuts, right: &AxisCuts) -> Result<SmallVec<[CommonPiece; 8]>, DigitClash> {
    let mut pieces = SmallVec::new();
    let (mut l, mut r) = (CutCursor::new(left), CutCursor::new(right));
    while let (Some((left_stride, left_size)), Some((right_stride, right_size))) = (l.current(), r.current())
    {
        let clash = DigitClash { axis, left: left_size, right: right_size };
        if left_stride != right_stride {
            return Err(DigitClash { left: left_stride, right: right_stride, ..clash });
        }
        let size = left_size.min(right_size);
        let cuts = |size_of: u64, ragged: bool| size_of.is_multiple_of(size) || ragged;
        if !cuts(left_size, l.is_ragged()) || !cuts(right_size, r.is_ragged()) {
            return Err(clash);
        }
        if size > 1 {
            let piece = CommonPiece {
                left: l.index,
                right: r.index,
                left_inner: l.inner,
                right_inner: r.inner,
                size,
            };
            pieces.push(piece);
        }
        l.take(size);
        r.take(size);
    }
    Ok(pieces)
}

struct CutCursor<'a> {
    digits: &'a [(u64, u64)],
    reaches_end: bool,
    index: usize,
    /// Part of the current digit that was taken.
    inner: u64,
}

impl<'a> CutCursor<'a> {
    fn new(cuts: &'a AxisCuts) -> CutCursor<'a> {
        CutCursor { digits: &cuts.digits, reaches_end: cuts.reaches_end, index: 0, inner: 1 }
    }

    /// Stride and remaining size of the current digit.
    fn current(&self) -> Option<(u64, u64)> {
        self.digits.get(self.index).map(|(stride, size)| (stride * self.inner, size.div_ceil(self.inner)))
    }

    fn is_ragged(&self) -> bool {
        self.reaches_end && self.index + 1 == self.digits.len()
    }

    fn take(&mut self, size: u64) {
        self.inner *= size;
        if self.digits[self.index].1.div_ceil(self.inner) <= 1 {
            self.index += 1;
            self.inner = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(left: &[(u64, u64)], right: &[(u64, u64)]) -> Result<Vec<u64>, DigitClash> {
        let whole = |digits: &[(u64, u64)]| AxisCuts::whole(digits.iter().copied());
        refine(0, &whole(left), &whole(right)).map(|pieces| pieces.iter().map(|piece| piece.size).collect())
    }

    #[test]
    fn a_digit_below_the_top_is_never_ragged() {
        let inner = AxisCuts { digits: [(1, 6)].into_iter().collect(), reaches_end: false };
        let stored = AxisCuts::whole([(1, 4), (4, 6)].into_iter());
        assert_eq!(refine(0, &inner, &stored), Err(DigitClash { axis: 0, left: 6, right: 4 }));
    }

    #[test]
    fn pieces_end_where_either_side_ends() {
        assert_eq!(sizes(&[(1, 16), (16, 4)], &[(1, 8), (8, 8)]), Ok(vec![8, 2, 4]));
        assert_eq!(sizes(&[(1, 64)], &[(1, 64)]), Ok(vec![64]));
    }

    #[test]
    fn five_by_three_against_three_by_five_clashes() {
        let clash = DigitClash { axis: 0, left: 3, right: 5 };
        assert_eq!(sizes(&[(1, 3), (3, 5)], &[(1, 5), (5, 3)]), Err(clash));
    }

    #[test]
    fn a_ragged_end_rounds_up() {
        assert_eq!(sizes(&[(1, 512), (512, 22)], &[(1, 11008)]), Ok(vec![512, 22]));
    }
}
