//! The same map compiled for speed: coordinate to (slice, offset) and back without a division.
//!
//! Divisions by digit strides become multiplications by a 64-bit reciprocal, exact for every 32-bit number.

use smallvec::SmallVec;

use super::map::RadixMap;

/// Where an element lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementPlace {
    /// Slice number.
    pub slice: u32,
    /// Element within the slice.
    pub offset: u32,
}

/// Exact division of 32-bit numbers by a constant.
#[derive(Clone, Copy, Debug)]
struct Reciprocal {
    /// ceil(2^64 / divisor), or 0 for the divisor 1.
    magic: u64,
}

impl Reciprocal {
    fn new(divisor: u32) -> Reciprocal {
        Reciprocal { magic: if divisor <= 1 { 0 } else { u64::MAX / u64::from(divisor) + 1 } }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the quotient of a 32-bit number has 32 bits")]
    fn divide(self, value: u32) -> u32 {
        if self.magic == 0 {
            return value;
        }
        ((u128::from(self.magic) * u128::from(value)) >> 64) as u32
    }
}

/// A digit on the way to a place.
#[derive(Clone, Copy, Debug)]
struct ForwardDigit {
    stride: Reciprocal,
    size: u32,
    by_size: Reciprocal,
    /// Weight in the slice number and in the offset; one of them is zero.
    slice_weight: u32,
    offset_weight: u32,
    axis: u8,
    /// No digit of the axis is above this one, so the quotient is below `size` already.
    top: bool,
}

/// A digit on the way back.
#[derive(Clone, Copy, Debug)]
struct BackwardDigit {
    weight: u32,
    by_weight: Reciprocal,
    size: u32,
    /// Weight on the coordinate; zero for copies.
    stride: u32,
    axis: u8,
    in_slice: bool,
}

/// A lowered shape compiled for bulk use.
#[derive(Clone, Debug)]
pub struct PlaceMap {
    forward: SmallVec<[ForwardDigit; 8]>,
    backward: SmallVec<[BackwardDigit; 8]>,
    extents: SmallVec<[u32; 8]>,
}

impl PlaceMap {
    /// Compiles the map of a lowered shape. `None` if a number needs more than 32 bits, which
    /// [`RadixMap::of_shape`] never gives.
    pub fn new(map: &RadixMap) -> Option<PlaceMap> {
        let narrow = |value: u64| u32::try_from(value).ok();
        let mut compiled =
            PlaceMap { forward: SmallVec::new(), backward: SmallVec::new(), extents: SmallVec::new() };
        for extent in &map.from {
            compiled.extents.push(narrow(*extent)?);
        }
        for digit in &map.digits {
            let (stride, size, weight) =
                (narrow(digit.from_stride)?, narrow(digit.size)?, narrow(digit.to_stride)?);
            let above = map
                .digits
                .iter()
                .any(|d| d.from_axis == digit.from_axis && d.from_stride > digit.from_stride);
            compiled.forward.push(ForwardDigit {
                stride: Reciprocal::new(stride),
                size,
                by_size: Reciprocal::new(size),
                slice_weight: if digit.to_axis == super::map::SLICE { weight } else { 0 },
                offset_weight: if digit.to_axis == super::map::SLICE { 0 } else { weight },
                axis: digit.from_axis,
                top: !above,
            });
        }
        for step in map.descending() {
            let weight = narrow(step.to_stride)?;
            let (axis, stride) = step.source.unwrap_or((0, 0));
            compiled.backward.push(BackwardDigit {
                weight,
                by_weight: Reciprocal::new(weight),
                size: narrow(step.size)?,
                stride: narrow(stride)?,
                axis,
                in_slice: step.to_axis == super::map::SLICE,
            });
        }
        Some(compiled)
    }

    /// Where a coordinate lives (its first copy). Coordinates past the extents give places of no meaning.
    #[inline]
    pub fn place(&self, coordinate: &[u32]) -> ElementPlace {
        let mut place = ElementPlace { slice: 0, offset: 0 };
        for digit in &self.forward {
            let quotient = digit.stride.divide(coordinate.get(usize::from(digit.axis)).copied().unwrap_or(0));
            let value = if digit.top {
                quotient
            } else {
                quotient.wrapping_sub(digit.by_size.divide(quotient).wrapping_mul(digit.size))
            };
            place.slice = place.slice.wrapping_add(value.wrapping_mul(digit.slice_weight));
            place.offset = place.offset.wrapping_add(value.wrapping_mul(digit.offset_weight));
        }
        place
    }

    /// What lives at a place: writes the coordinate and returns true, or returns false for padding.
    #[inline]
    pub fn coordinate(&self, place: ElementPlace, coordinate: &mut [u32]) -> bool {
        coordinate.fill(0);
        let (mut slice, mut offset) = (place.slice, place.offset);
        let mut live = true;
        for digit in &self.backward {
            let rest = if digit.in_slice { &mut slice } else { &mut offset };
            let value = digit.by_weight.divide(*rest);
            *rest -= value * digit.weight;
            live &= value < digit.size;
            if let Some(position) = coordinate.get_mut(usize::from(digit.axis)) {
                *position = position.wrapping_add(value.wrapping_mul(digit.stride));
            }
        }
        live &= slice == 0 && offset == 0;
        live && coordinate.iter().zip(&self.extents).all(|(position, extent)| position < extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_exactly() {
        for divisor in [1_u32, 2, 3, 5, 7, 64, 65, 641, 65_535, 65_537, 1 << 31, u32::MAX] {
            let reciprocal = Reciprocal::new(divisor);
            for value in [0, 1, divisor - 1, divisor, divisor.saturating_add(1), u32::MAX - 1, u32::MAX] {
                assert_eq!(reciprocal.divide(value), value / divisor, "{value}/{divisor}");
            }
        }
    }
}
