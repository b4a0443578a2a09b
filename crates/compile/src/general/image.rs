//! Where a lowered shape has its elements, seen from HBM: one slice's part after the other, as it lies in data memory.

use tilewright_notation::algebra::map::{OFFSET, RadixMap, SLICE};

use super::kernel::Part;
use super::view::signed;

/// The data memories of neighbouring slices as one block of HBM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Slices.
    pub slices: u64,
    /// Elements from one slice to the next.
    pub pitch: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    map: RadixMap,
}

/// Loops over part of an axis: first position and place, then size, stride of positions and stride of places.
#[derive(Clone, Debug)]
struct Stretch {
    position: u64,
    place: u64,
    loops: Vec<(u64, u64, u64)>,
}

impl Image {
    /// The block of a shape; slices are padded to whole granules of so many bytes.
    pub fn new(map: &RadixMap, element_bytes: u64, granule_bytes: u64) -> Option<Image> {
        let (slices, elements) = (*map.to.first()?, *map.to.get(1)?);
        let bytes = elements.checked_mul(element_bytes)?.checked_next_multiple_of(granule_bytes)?;
        Some(Image { slices, pitch: bytes / element_bytes, element_bytes, map: map.clone() })
    }

    /// Bytes of the block.
    pub fn bytes(&self) -> u64 {
        self.slices.saturating_mul(self.pitch).saturating_mul(self.element_bytes)
    }

    fn place(&self, axis: u8, stride: u64) -> u64 {
        if axis == SLICE { stride * self.pitch } else { stride }
    }

    /// How elements of a value come here, by stride and live positions of each axis of the shape; without copies, or with all of them.
    /// `None` if digits do not make up an axis.
    pub fn parts(&self, from: usize, axes: &[(i64, u64)], copies: bool) -> Option<Vec<Part>> {
        let mut all = vec![Part { from, from_first: 0, to_first: 0, loops: Vec::new() }];
        for (axis, extent) in self.map.from.iter().enumerate() {
            let (stride, live) = *axes.get(axis)?;
            let extent = live.min(*extent);
            let mut digits: Vec<(u64, u64)> = Vec::new();
            let own = self.map.digits.iter().filter(|digit| usize::from(digit.from_axis) == axis);
            own.for_each(|digit| {
                digits.push((digit.from_stride, self.place(digit.to_axis, digit.to_stride)))
            });
            digits.sort_unstable_by_key(|digit| std::cmp::Reverse(digit.0));
            let stretches = stretches(&digits, extent)?;
            let longer = |part: &Part| -> Vec<Part> {
                let one = |stretch: &Stretch| {
                    let mut part = part.clone();
                    part.from_first += signed(stretch.position) * stride;
                    part.to_first += signed(stretch.place);
                    let loops = stretch.loops.iter();
                    part.loops.extend(loops.map(|(size, by, to)| (*size, signed(*by) * stride, signed(*to))));
                    part
                };
                stretches.iter().map(one).collect()
            };
            all = all.iter().flat_map(longer).collect();
        }
        for copy in self.map.copies.iter().filter(|_| copies) {
            let to = signed(self.place(copy.to_axis, copy.to_stride));
            all.iter_mut().for_each(|part| part.loops.insert(0, (copy.count, 0, to)));
        }
        debug_assert!(self.map.digits.iter().all(|digit| digit.to_axis <= OFFSET));
        Some(all)
    }
}

/// An axis of so many positions by digits of falling weight: whole turns of the first, and what is left in another stretch.
fn stretches(digits: &[(u64, u64)], extent: u64) -> Option<Vec<Stretch>> {
    let Some(((weight, to), rest)) = digits.split_first() else {
        return (extent <= 1).then(|| vec![Stretch { position: 0, place: 0, loops: Vec::new() }]);
    };
    let (whole, left) = (extent / weight, extent % weight);
    let mut all = Vec::new();
    if whole > 0 {
        for mut stretch in stretches(rest, *weight)? {
            stretch.loops.insert(0, (whole, *weight, *to));
            all.push(stretch);
        }
    }
    if left > 0 {
        for mut stretch in stretches(rest, left)? {
            stretch.position += whole * weight;
            stretch.place += whole * to;
            all.push(stretch);
        }
    }
    Some(all)
}
