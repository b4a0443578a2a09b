//! [`RadixMap`]: digits that carry a source position to a target position.

use smallvec::SmallVec;
use tilewright_base::invariant::OrBroken;

use crate::algebra::refine::{AxisCuts, DigitClash, refine};
use crate::problem::{Problem, Shape};
use crate::sizes::MAX_EXTENT;
use crate::syntax::ast::Terms;

/// One digit: `size` values, worth `from_stride` on the source and `to_stride` on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapDigit {
    /// Target axis.
    pub to_axis: u8,
    /// Weight on the target axis.
    pub to_stride: u64,
    /// Source axis.
    pub from_axis: u8,
    /// Weight on the source axis.
    pub from_stride: u64,
    /// Values.
    pub size: u64,
}

/// Target positions that repeat the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copies {
    /// Target axis.
    pub to_axis: u8,
    /// Distance between copies.
    pub to_stride: u64,
    /// How many.
    pub count: u64,
}

/// A mixed-radix map from positions on the source axes to positions on the target axes.
///
/// A position is live if every digit is below its size and the source is inside its extents; other target
/// positions are padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadixMap {
    /// Extents of the source axes.
    pub from: Terms<u64>,
    /// Capacities of the target axes, padding included.
    pub to: Terms<u64>,
    /// The digits; digits of size 1 are left out.
    pub digits: SmallVec<[MapDigit; 6]>,
    /// Copies on the target.
    pub copies: SmallVec<[Copies; 2]>,
}

/// The target axis that numbers slices.
pub const SLICE: u8 = 0;
/// The target axis that numbers elements within a slice.
pub const OFFSET: u8 = 1;

/// A shape needs more slices or elements than 32 bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl RadixMap {
    /// The map of a lowered shape: tensor axes, in the tensor's order, to `[slice, offset]`.
    pub fn of_shape(problem: &Problem, shape: &Shape) -> Result<RadixMap, TooLarge> {
        let axes = problem.tensor(shape.operand);
        let mut map = RadixMap::default();
        map.from.extend(axes.iter().map(|id| problem.axis(*id).extent_in[shape.operand as usize]));
        for (to_axis, side) in [(SLICE, &shape.inter), (OFFSET, &shape.intra)] {
            let mut weight = 1_u64;
            for digit in side.iter().rev() {
                match digit.axis.and_then(|id| axes.iter().position(|axis| *axis == id)) {
                    _ if digit.live == 1 => {}
                    Some(axis) => map.digits.push(MapDigit {
                        to_axis,
                        to_stride: weight,
                        from_axis: u8::try_from(axis).or_broken("an einsum has few axes"),
                        from_stride: digit.stride,
                        size: digit.live,
                    }),
                    None => map.copies.push(Copies { to_axis, to_stride: weight, count: digit.live }),
                }
                weight = weight.checked_mul(digit.slots).filter(|w| *w <= MAX_EXTENT).ok_or(TooLarge)?;
            }
            map.to.push(weight);
        }
        Ok(map)
    }

    /// Where a source position goes: the first copy of it.
    pub fn apply(&self, from: &[u64]) -> Terms<u64> {
        let mut to: Terms<u64> = self.to.iter().map(|_| 0).collect();
        for digit in &self.digits {
            let position = from[usize::from(digit.from_axis)];
            let value =
                self.stride_above(digit).map_or(position, |above| position % above) / digit.from_stride;
            to[usize::from(digit.to_axis)] += value * digit.to_stride;
        }
        to
    }

    /// The next larger stride on a digit's source axis. With padding on the source it is more than stride
    /// times size.
    fn stride_above(&self, digit: &MapDigit) -> Option<u64> {
        let same_axis = self.digits.iter().filter(|other| other.from_axis == digit.from_axis);
        same_axis.map(|other| other.from_stride).filter(|stride| *stride > digit.from_stride).min()
    }

    /// What is at a target position, or `None` for padding.
    pub fn source_of(&self, to: &[u64]) -> Option<Terms<u64>> {
        let mut rest: Terms<u64> = to.iter().copied().collect();
        let mut from: Terms<u64> = self.from.iter().map(|_| 0).collect();
        for step in self.descending() {
            let place = &mut rest[usize::from(step.to_axis)];
            let value = *place / step.to_stride;
            *place %= step.to_stride;
            if value >= step.size {
                return None;
            }
            if let Some((axis, stride)) = step.source {
                from[usize::from(axis)] += value * stride;
            }
        }
        let inside = from.iter().zip(&self.from).all(|(position, extent)| position < extent);
        (inside && rest.iter().all(|left| *left == 0)).then_some(from)
    }

    /// Digits and copies, target strides falling, as reading a target position wants them.
    pub(crate) fn descending(&self) -> SmallVec<[TargetStep; 8]> {
        let digits = self.digits.iter().map(|digit| TargetStep {
            to_axis: digit.to_axis,
            to_stride: digit.to_stride,
            size: digit.size,
            source: Some((digit.from_axis, digit.from_stride)),
        });
        let copies = self.copies.iter().map(|copies| TargetStep {
            to_axis: copies.to_axis,
            to_stride: copies.to_stride,
            size: copies.count,
            source: None,
        });
        let mut steps: SmallVec<[TargetStep; 8]> = digits.chain(copies).collect();
        steps.sort_unstable_by_key(|step| std::cmp::Reverse(step.to_stride));
        steps
    }

    /// The map the other way; of copies the first is taken, padding has no image.
    pub fn inverse(&self) -> RadixMap {
        let digits = self.digits.iter().map(|digit| MapDigit {
            to_axis: digit.from_axis,
            to_stride: digit.from_stride,
            from_axis: digit.to_axis,
            from_stride: digit.to_stride,
            size: digit.size,
        });
        RadixMap {
            from: self.to.clone(),
            to: self.from.clone(),
            digits: digits.collect(),
            copies: SmallVec::new(),
        }
    }

    /// First this map, then `next`, whose source axes are this map's target axes.
    ///
    /// Refused if the two cut the axis between them incompatibly, such as 5 x 3 against 3 x 5: no digit can
    /// then be carried over whole.
    pub fn then(&self, next: &RadixMap) -> Result<RadixMap, DigitClash> {
        let mut digits = SmallVec::new();
        for middle in (0..next.from.len()).filter_map(|axis| u8::try_from(axis).ok()) {
            let mut left: SmallVec<[MapDigit; 8]> =
                self.digits.iter().filter(|d| d.to_axis == middle).copied().collect();
            let mut right: SmallVec<[MapDigit; 8]> =
                next.digits.iter().filter(|d| d.from_axis == middle).copied().collect();
            left.sort_unstable_by_key(|digit| digit.to_stride);
            right.sort_unstable_by_key(|digit| digit.from_stride);
            let left_cuts = AxisCuts::whole(left.iter().map(|d| (d.to_stride, d.size)));
            let right_cuts = AxisCuts::whole(right.iter().map(|d| (d.from_stride, d.size)));
            for piece in refine(middle, &left_cuts, &right_cuts)? {
                let (l, r) = (&left[piece.left], &right[piece.right]);
                digits.push(MapDigit {
                    from_axis: l.from_axis,
                    from_stride: l.from_stride * piece.left_inner,
                    to_axis: r.to_axis,
                    to_stride: r.to_stride * piece.right_inner,
                    size: piece.size,
                });
            }
        }
        let mut map =
            RadixMap { from: self.from.clone(), to: next.to.clone(), digits, copies: next.copies.clone() };
        map.sort();
        Ok(map)
    }

    /// Joins digits that are neighbours on both sides and sorts them; two maps that place everything alike
    /// become equal.
    #[must_use]
    pub fn merged(&self) -> RadixMap {
        let mut map = self.clone();
        map.sort();
        let mut merged: SmallVec<[MapDigit; 6]> = SmallVec::new();
        for digit in map.digits.iter().rev() {
            match merged.last_mut() {
                Some(low)
                    if (low.to_axis, low.from_axis) == (digit.to_axis, digit.from_axis)
                        && digit.to_stride == low.to_stride * low.size
                        && digit.from_stride == low.from_stride * low.size =>
                {
                    low.size *= digit.size;
                }
                _ => merged.push(*digit),
            }
        }
        map.digits = merged;
        map.sort();
        map
    }

    /// Target axis, then target stride from large to small.
    fn sort(&mut self) {
        self.digits.sort_unstable_by_key(|digit| (digit.to_axis, std::cmp::Reverse(digit.to_stride)));
        self.copies.sort_unstable_by_key(|copies| (copies.to_axis, std::cmp::Reverse(copies.to_stride)));
    }

    /// Equal after renaming source axes: `H^1[4] Q^{16}[16] | ...` is the same placement as with K for Q.
    pub fn equal_up_to_relabelling(&self, other: &RadixMap) -> bool {
        self.relabelled() == other.relabelled()
    }

    /// Source axes renumbered in the order in which the target meets them.
    #[must_use]
    pub fn relabelled(&self) -> RadixMap {
        let mut map = self.merged();
        let mut order: Terms<u8> = Terms::new();
        let axes = (0..map.from.len()).filter_map(|axis| u8::try_from(axis).ok());
        for axis in map.digits.iter().map(|digit| digit.from_axis).chain(axes) {
            if !order.contains(&axis) {
                order.push(axis);
            }
        }
        for digit in &mut map.digits {
            let place =
                order.iter().position(|axis| *axis == digit.from_axis).or_broken("an order names every axis");
            digit.from_axis = u8::try_from(place).or_broken("an einsum has few axes");
        }
        map.from = order.iter().map(|axis| self.from[usize::from(*axis)]).collect();
        map.sort();
        map
    }

    /// Whether this map cuts every axis at least as finely as `coarse` and places everything alike.
    pub fn refines(&self, coarse: &RadixMap) -> bool {
        let cuts = |map: &RadixMap| -> Vec<(u8, u64)> {
            map.digits.iter().map(|digit| (digit.from_axis, digit.from_stride)).collect()
        };
        let fine = cuts(self);
        self.merged() == coarse.merged() && cuts(coarse).iter().all(|cut| fine.contains(cut))
    }
}

/// One step of reading a target position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetStep {
    pub(crate) to_axis: u8,
    pub(crate) to_stride: u64,
    pub(crate) size: u64,
    pub(crate) source: Option<(u8, u64)>,
}
