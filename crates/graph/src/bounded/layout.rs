//! Where the elements of an open axis lie in an axis of fixed size.
//!
//! An axis is a list of digits, outermost first. A digit has a bound, and of its positions those below its
//! run-time size hold elements; what lies behind them is padding. One digit is an axis whose elements come
//! first; several are axes that a reshape merged, each with padding of its own.

use std::collections::VecDeque;

use crate::dim::Dim;

/// What is known of the padding of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// Nothing.
    Unknown,
    /// It is zero, of either sign.
    Zero,
    /// Elements are the same at every position of the digit, so that there is no padding: a broadcast.
    Same,
}

/// A part of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digit {
    /// Its run-time size.
    pub(super) dim: Dim,
    /// What lies behind.
    pub(super) padding: Padding,
}

impl Digit {
    /// A digit; a fixed size has no padding, so that nothing is known of it.
    pub(super) fn new(dim: Dim, padding: Padding) -> Digit {
        let padding = if dim.as_fixed().is_some() { Padding::Unknown } else { padding };
        Digit { dim, padding }
    }

    /// Whether its size is given when the graph runs.
    pub(super) fn is_open(&self) -> bool {
        self.dim.as_fixed().is_none()
    }

    /// Whether its padding is zero.
    pub(super) fn has_zeros(&self) -> bool {
        self.padding == Padding::Zero
    }

    /// An outer part of this size, and the rest. The rest of a digit with padding must be a number: only then
    /// do the elements of the outer part lie a fixed distance apart.
    fn split(&self, outer: &Dim) -> Option<(Digit, Digit)> {
        let inner = self.dim.divided(outer)?;
        let (is_same, is_fixed) = (self.padding == Padding::Same, inner.as_fixed().is_some());
        if !is_same && !is_fixed {
            return None;
        }
        Some((Digit::new(outer.clone(), self.padding), Digit::new(inner, self.padding)))
    }
}

/// An axis of this size whose elements come first.
pub(super) fn plain(dim: &Dim, padding: Padding) -> Vec<Digit> {
    if dim.is(1) { Vec::new() } else { vec![Digit::new(dim.clone(), padding)] }
}

/// The same digits with as few of them as say the same: a fixed size behind another digit is part of it.
/// `None` if sizes become too large.
pub(super) fn merged(digits: impl IntoIterator<Item = Digit>) -> Option<Vec<Digit>> {
    let mut all: Vec<Digit> = Vec::new();
    for digit in digits {
        match all.last_mut() {
            _ if digit.dim.is(1) => {}
            Some(last) if !digit.is_open() && last.padding != Padding::Same => {
                last.dim = last.dim.times(&digit.dim)?;
            }
            _ => all.push(digit),
        }
    }
    Some(all)
}

/// Two axes that meet element by element, cut into digits of the same sizes; `None` if their elements lie
/// differently.
pub(super) fn aligned(left: &[Digit], right: &[Digit]) -> Option<Vec<(Digit, Digit)>> {
    let mut left: VecDeque<Digit> = left.iter().cloned().collect();
    let mut right: VecDeque<Digit> = right.iter().cloned().collect();
    let mut pairs = Vec::new();
    loop {
        match (left.pop_front(), right.pop_front()) {
            (None, None) => return Some(pairs),
            (Some(x), Some(y)) if x.dim == y.dim => pairs.push((x, y)),
            (Some(x), Some(y)) => {
                if let Some((head, rest)) = x.split(&y.dim) {
                    left.push_front(rest);
                    pairs.push((head, y));
                } else {
                    let (head, rest) = y.split(&x.dim)?;
                    right.push_front(rest);
                    pairs.push((x, head));
                }
            }
            _ => return None,
        }
    }
}

/// The axes of a reshaped tensor; `None` if a new axis would begin inside of a digit with padding.
pub(super) fn reshaped(axes: &[Vec<Digit>], dims: &[Dim]) -> Option<Vec<Vec<Digit>>> {
    let mut digits: VecDeque<Digit> = merged(axes.iter().flatten().cloned())?.into();
    let mut all = Vec::with_capacity(dims.len());
    for dim in dims {
        all.push(taken(&mut digits, dim)?);
    }
    digits.is_empty().then_some(all)
}

/// Digits from the front that make up an axis of this size.
fn taken(digits: &mut VecDeque<Digit>, dim: &Dim) -> Option<Vec<Digit>> {
    let (mut rest, mut own) = (dim.clone(), Vec::new());
    while !rest.is(1) {
        let digit = digits.pop_front()?;
        if let Some(left) = rest.divided(&digit.dim) {
            rest = left;
            own.push(digit);
        } else {
            let (head, tail) = digit.split(&rest)?;
            own.push(head);
            digits.push_front(tail);
            break;
        }
    }
    merged(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::AxisId;

    fn axis(number: u32) -> Dim {
        Dim::axis(AxisId(number))
    }

    fn times(dim: &Dim, number: i64) -> Dim {
        dim.times(&Dim::fixed(number)).unwrap()
    }

    fn axes(dims: &[Dim]) -> Vec<Vec<Digit>> {
        dims.iter().map(|dim| plain(dim, Padding::Zero)).collect()
    }

    fn sizes(axes: &[Vec<Digit>]) -> Vec<Vec<Dim>> {
        axes.iter().map(|axis| axis.iter().map(|digit| digit.dim.clone()).collect()).collect()
    }

    #[test]
    fn heads_split_and_merge_around_open_sizes() {
        let (b, s) = (axis(0), axis(1));
        let rows = axes(&[b.clone(), s.clone(), 96.into()]);
        let heads = reshaped(&rows, &[b.clone(), s.clone(), 12.into(), 8.into()]).unwrap();
        assert_eq!(sizes(&heads), [vec![b.clone()], vec![s.clone()], vec![12.into()], vec![8.into()]]);
        let flat = reshaped(&rows, &[b.times(&s).unwrap(), 96.into()]).unwrap();
        assert_eq!(sizes(&flat), [vec![b.clone(), s.clone()], vec![96.into()]]);
        assert_eq!(reshaped(&flat, &[b.clone(), s.clone(), 96.into()]).unwrap().len(), 3);
        let more = s.plus(&1.into()).unwrap();
        let rows = axes(&[b.clone(), more.clone(), 96.into()]);
        assert!(reshaped(&rows, &[b, more, 4.into(), 24.into()]).is_some());
    }

    #[test]
    fn an_axis_that_begins_inside_of_padding_is_refused() {
        let (b, s) = (axis(0), axis(1));
        let product = b.times(&s).unwrap();
        assert!(reshaped(&axes(&[product]), &[b.clone(), s]).is_none());
        assert!(reshaped(&axes(&[b.clone(), 4.into()]), &[2.into(), times(&b, 2)]).is_none());
        assert!(reshaped(&axes(&[4.into(), b.clone()]), &[2.into(), times(&b, 2)]).is_some());
    }

    #[test]
    fn what_is_the_same_everywhere_lies_as_anything_does() {
        let (b, s) = (axis(0), axis(1));
        let product = b.times(&s).unwrap();
        let pair = [Digit::new(b.clone(), Padding::Zero), Digit::new(s, Padding::Zero)];
        let same = [Digit::new(product.clone(), Padding::Same)];
        assert_eq!(aligned(&pair, &same).unwrap().len(), 2);
        assert!(aligned(&pair, &plain(&product, Padding::Zero)).is_none());
        let prefix = plain(&times(&b, 4), Padding::Zero);
        let apart = [Digit::new(b, Padding::Same), Digit::new(4.into(), Padding::Unknown)];
        assert_eq!(aligned(&prefix, &apart).unwrap().len(), 2);
    }
}
