//! Padding of a value whose elements become narrow: positions are added before and behind what lies inside,
//! so that rows and what lies in them begin at whole access units of HBM again.

use super::kernel::Part;
use super::view::{View, signed, strides};

/// Part of the positions of an axis that aligning it may add.
const MOST_MORE: u64 = 2;

/// A value with padding in other sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relaid {
    from: Vec<u64>,
    /// Sizes.
    pub(super) dims: Vec<u64>,
    /// Positions of each axis by which all moves back.
    shift: Vec<u64>,
}

impl Relaid {
    /// A value of some sizes, in which what lies inside has others and begins at a place, aligned to units of
    /// so many elements where that adds little.
    pub(super) fn new(from: &[u64], inside: &[u64], first: u64, unit: u64) -> Option<Relaid> {
        let low = places(from, first)?;
        let fits = |((all, own), low): ((&u64, &u64), &u64)| low + own <= *all;
        if from.len() != inside.len() || !from.iter().zip(inside).zip(&low).all(fits) {
            return None;
        }
        let (mut dims, mut shift, mut inner) = (from.to_vec(), vec![0; from.len()], 1);
        for axis in (0..from.len()).rev() {
            let high = from[axis] - low[axis] - inside[axis];
            let whole = |least: u64| {
                (least..least + unit).find(|at| (at * inner).is_multiple_of(unit)).unwrap_or(least)
            };
            let before = if low[axis] > 0 { whole(low[axis]) } else { 0 };
            let all = whole(before + inside[axis] + high);
            let is_padded = low[axis] + high > 0;
            if is_padded && all <= from[axis] + from[axis] / MOST_MORE {
                (dims[axis], shift[axis]) = (all, before - low[axis]);
            }
            inner *= dims[axis];
        }
        Some(Relaid { from: from.to_vec(), dims, shift })
    }

    /// Where an element lies now.
    fn place(&self, first: u64) -> Option<i64> {
        let places = places(&self.from, first)?;
        let steps = places.iter().zip(&self.shift).zip(strides(&self.dims));
        Some(steps.map(|((at, shift), step)| signed(at + shift) * step).sum())
    }

    /// How far a step of so many elements goes now; `None` if it is no step along one axis.
    fn step(&self, step: i64) -> Option<i64> {
        let axes = strides(&self.from).into_iter().zip(strides(&self.dims)).zip(&self.from);
        let mut whole = axes.filter(|((old, _), size)| **size > 1 && step % old == 0 && *old <= step);
        match step {
            0 => Some(0),
            1.. => whole.next().map(|((old, new), _)| step / old * new),
            _ => None,
        }
    }

    /// A move into it.
    pub(super) fn part(&self, part: &Part) -> Option<Part> {
        let loops = part
            .loops
            .iter()
            .map(|(size, from, to)| Some((*size, *from, if *size == 1 { *to } else { self.step(*to)? })));
        let to_first = self.place(u64::try_from(part.to_first).ok()?)?;
        Some(Part { to_first, loops: loops.collect::<Option<_>>()?, ..part.clone() })
    }

    /// A view of it.
    pub(super) fn view(&self, view: &View) -> Option<View> {
        let axes = view
            .axes
            .iter()
            .map(|(size, step)| Some((*size, if *size == 1 { 0 } else { self.step(*step)? })));
        let first = self.place(u64::try_from(view.first).ok()?)?;
        Some(View { value: view.value, first, axes: axes.collect::<Option<_>>()? })
    }
}

/// The position of an element on each axis.
fn places(dims: &[u64], element: u64) -> Option<Vec<u64>> {
    let (mut left, mut all) = (element, Vec::new());
    for step in strides(dims) {
        let step = u64::try_from(step).ok().filter(|step| *step > 0)?;
        all.push(left / step);
        left %= step;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_narrow_elements_begin_at_whole_units() {
        // An image of 112 x 112 with 64 channels and one position around: 116 + 1 pixels before it.
        let first = (114 + 1) * 64;
        let relaid = Relaid::new(&[8, 114, 114, 64], &[8, 112, 112, 64], first, 256).unwrap();
        assert_eq!(relaid.dims, [8, 114, 120, 64]);
        let part = Part {
            from: 0,
            from_first: 0,
            to_first: signed(first),
            loops: vec![(8, 802_816, 831_744), (112, 7168, 7296), (7168, 1, 1)],
        };
        let moved = relaid.part(&part).unwrap();
        assert_eq!(moved.to_first, (120 + 4) * 64);
        assert_eq!(moved.loops, [(8, 802_816, 114 * 120 * 64), (112, 7168, 7680), (7168, 1, 1)]);
        let view = View { value: 1, first: 64, axes: vec![(56, 14592), (56, 128), (64, 1)] };
        let seen = relaid.view(&view).unwrap();
        assert_eq!((seen.first, seen.axes), (4 * 64, vec![(56, 15360), (56, 128), (64, 1)]));
    }
}
