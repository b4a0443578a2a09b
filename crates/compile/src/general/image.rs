//! Where a lowered shape has its elements, seen from HBM: one slice's part after the other, as it lies in
//! data memory.

use tilewright_notation::algebra::map::{RadixMap, SLICE};

use super::kernel::Part;
use super::view::signed;

/// The data memories of neighbouring slices as one block of HBM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Slices.
    pub slices: u64,
    /// Elements from one slice to the next.
    pub pitch: u64,
    map: RadixMap,
}

/// A digit of an axis: what it is worth, and how far one step of it is at both ends.
pub(super) type Digit = (u64, [i64; 2]);

/// Loops over part of an axis: first places at both ends, then size and strides at both ends.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) first: [i64; 2],
    pub(super) loops: Vec<(u64, [i64; 2])>,
}

impl Image {
    /// The block of a shape; slices are padded to whole granules of so many elements.
    pub fn new(map: &RadixMap, granule: u64) -> Option<Image> {
        let (slices, elements) = (*map.to.first()?, *map.to.get(1)?);
        let pitch = elements.checked_next_multiple_of(granule.max(1))?;
        Some(Image { slices, pitch, map: map.clone() })
    }

    /// Elements of the block, padding included.
    pub fn elements(&self) -> u64 {
        self.slices.saturating_mul(self.pitch)
    }

    fn place(&self, axis: u8, stride: u64) -> i64 {
        signed(if axis == SLICE { stride * self.pitch } else { stride })
    }

    /// Digits of an axis with the places of one step, most significant first.
    fn digits(&self, axis: usize) -> Vec<(u64, i64)> {
        let own = self.map.digits.iter().filter(|digit| usize::from(digit.from_axis) == axis);
        let mut digits: Vec<(u64, i64)> =
            own.map(|digit| (digit.from_stride, self.place(digit.to_axis, digit.to_stride))).collect();
        digits.sort_unstable_by_key(|digit| std::cmp::Reverse(digit.0));
        digits
    }

    fn extent(&self, axis: usize) -> u64 {
        self.map.from.get(axis).copied().unwrap_or(1)
    }

    /// How elements of a row-major value come here, by stride and live positions of each axis of the shape;
    /// without copies, or to all of them. `None` if digits do not make up an axis.
    pub fn parts(&self, from: usize, axes: &[(i64, u64)], copies: bool) -> Option<Vec<Part>> {
        self.parts_by(from, copies, |axis, digits| {
            let (stride, live) = *axes.get(axis)?;
            stretches(&even(digits, stride), live.min(self.extent(axis)))
        })
    }

    /// The same with the loops over each axis of the shape by a function of its number and its digits.
    pub(super) fn parts_by(
        &self,
        from: usize,
        copies: bool,
        stretches: impl Fn(usize, &[(u64, i64)]) -> Option<Vec<Stretch>>,
    ) -> Option<Vec<Part>> {
        let mut all = vec![Part { from, from_first: 0, to_first: 0, loops: Vec::new() }];
        for axis in 0..self.map.from.len() {
            all = longer(&all, &stretches(axis, &self.digits(axis))?);
        }
        self.copied(&mut all, copies);
        Some(all)
    }

    /// How elements of this block come straight to another: for each axis of this shape the one of the other
    /// that counts the same, if there is one. `None` if digits of one cut across those of the other.
    pub fn parts_to(
        &self,
        from: usize,
        other: &Image,
        axes: &[(Option<usize>, Option<usize>)],
    ) -> Option<Vec<Part>> {
        let mut all = vec![Part { from, from_first: 0, to_first: 0, loops: Vec::new() }];
        for (own, its) in axes {
            let of = |image: &Image, axis: Option<usize>| {
                axis.map_or((Vec::new(), 1), |at| (image.digits(at), image.extent(at)))
            };
            let ((a, extent), (b, other_extent)) = (of(self, *own), of(other, *its));
            if extent != other_extent {
                return None;
            }
            all = longer(&all, &stretches(&common(&a, &b)?, extent)?);
        }
        other.copied(&mut all, true);
        Some(all)
    }

    fn copied(&self, parts: &mut [Part], copies: bool) {
        for copy in self.map.copies.iter().filter(|_| copies) {
            let to = self.place(copy.to_axis, copy.to_stride);
            parts.iter_mut().for_each(|part| part.loops.insert(0, (copy.count, 0, to)));
        }
    }
}

/// Every part with every stretch of one more axis.
fn longer(parts: &[Part], stretches: &[Stretch]) -> Vec<Part> {
    let one = |part: &Part, stretch: &Stretch| {
        let mut part = part.clone();
        part.from_first += stretch.first[0];
        part.to_first += stretch.first[1];
        part.loops.extend(stretch.loops.iter().map(|(size, [from, to])| (*size, *from, *to)));
        part
    };
    parts.iter().flat_map(|part| stretches.iter().map(move |stretch| one(part, stretch))).collect()
}

/// Digits of an axis whose positions are so far apart at the other end.
pub(super) fn even(digits: &[(u64, i64)], stride: i64) -> Vec<Digit> {
    digits.iter().map(|(weight, to)| (*weight, [signed(*weight) * stride, *to])).collect()
}

/// Digits that are finer than those of both shapes; `None` if weights do not divide one another.
pub(super) fn common(a: &[(u64, i64)], b: &[(u64, i64)]) -> Option<Vec<Digit>> {
    let mut weights: Vec<u64> = a.iter().chain(b).map(|digit| digit.0).collect();
    weights.sort_unstable_by(|x, y| y.cmp(x));
    weights.dedup();
    let step = |digits: &[(u64, i64)], weight: u64| {
        let (own, place) = *digits.iter().find(|digit| digit.0 <= weight)?;
        weight.is_multiple_of(own).then(|| signed(weight / own) * place)
    };
    let nested = weights.windows(2).all(|pair| pair[0].is_multiple_of(pair[1]));
    let digits = weights.iter().map(|weight| Some((*weight, [step(a, *weight)?, step(b, *weight)?])));
    if nested { digits.collect() } else { None }
}

/// An axis of so many positions by digits of falling weight: whole turns of the first, and what is left in
/// another stretch.
pub(super) fn stretches(digits: &[Digit], extent: u64) -> Option<Vec<Stretch>> {
    let Some(((weight, steps), rest)) = digits.split_first() else {
        return (extent <= 1).then(|| vec![Stretch { first: [0; 2], loops: Vec::new() }]);
    };
    let (whole, left) = (extent / weight, extent % weight);
    let mut all = Vec::new();
    if whole > 0 {
        for mut stretch in stretches(rest, *weight)? {
            stretch.loops.insert(0, (whole, *steps));
            all.push(stretch);
        }
    }
    if left > 0 {
        for mut stretch in stretches(rest, left)? {
            stretch.first = [0, 1].map(|at| stretch.first[at] + signed(whole) * steps[at]);
            all.push(stretch);
        }
    }
    Some(all)
}

/// Positions `start..end` of an axis by digits of falling weight: what is left of a turn of the first, whole
/// turns, and what the last begins.
pub(super) fn stretches_of(digits: &[Digit], start: u64, end: u64) -> Option<Vec<Stretch>> {
    let Some(((weight, steps), rest)) = digits.split_first() else {
        return (start == 0 && end == 1).then(|| vec![Stretch { first: [0; 2], loops: Vec::new() }]);
    };
    if start >= end {
        return Some(Vec::new());
    }
    let moved = |turns: u64, mut all: Vec<Stretch>| {
        for stretch in &mut all {
            stretch.first = [0, 1].map(|at| stretch.first[at] + signed(turns) * steps[at]);
        }
        all
    };
    let (first, last) = (start / weight, end / weight);
    if first == last {
        return Some(moved(first, stretches_of(rest, start % weight, end % weight)?));
    }
    let mut all = Vec::new();
    if !start.is_multiple_of(*weight) {
        all.extend(moved(first, stretches_of(rest, start % weight, *weight)?));
    }
    let whole = start.div_ceil(*weight);
    if last > whole {
        let mut inner = stretches_of(rest, 0, *weight)?;
        inner.iter_mut().for_each(|stretch| stretch.loops.insert(0, (last - whole, *steps)));
        all.extend(moved(whole, inner));
    }
    if !end.is_multiple_of(*weight) {
        all.extend(moved(last, stretches_of(rest, 0, end % weight)?));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stretches_are_all_positions_once(
            sizes in proptest::collection::vec(1..5_u64, 1..4), ends in (0..100_u64, 0..100_u64),
        ) {
            let all: u64 = sizes.iter().product();
            let (start, end) = (ends.0.min(ends.1).min(all), ends.0.max(ends.1).min(all));
            let mut weight = all;
            let digits: Vec<Digit> = sizes.iter().map(|size| {
                weight /= size;
                (weight, [signed(weight), 3 * signed(weight)])
            }).collect();
            let mut found = Vec::new();
            for stretch in stretches_of(&digits, start, end).unwrap() {
                let mut places = vec![stretch.first];
                for (size, steps) in stretch.loops {
                    let walk = |from: [i64; 2]| {
                        (0..signed(size)).map(move |at| [from[0] + at * steps[0], from[1] + at * steps[1]])
                    };
                    places = places.into_iter().flat_map(walk).collect();
                }
                found.extend(places);
            }
            found.sort_unstable();
            let wanted: Vec<[i64; 2]> = (start..end).map(|at| [signed(at), 3 * signed(at)]).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
