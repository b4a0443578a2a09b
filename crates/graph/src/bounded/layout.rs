//! Where the elements of an open axis lie in an axis of fixed size.
//!
//! An axis is a list of digits, outermost first. A digit has a bound, and of its positions those below its
//! run-time size hold elements; what lies behind them is padding. One digit is an axis whose elements come
//! first; several are axes that a reshape merged, each with padding of its own.

use std::collections::VecDeque;

use crate::dim::Dim;

/// What is known of the padding of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Nothing.
    Unknown,
    /// It is zero, of either sign.
    Zero,
    /// Elements are the same at every position of the digit, so that there is no padding: a broadcast.
    Same,
}

/// A part of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digit {
    /// Its run-time size.
    pub dim: Dim,
    /// What lies behind.
    pub padding: Padding,
}

impl Digit {
    /// A digit; a fixed size has no padding, so that nothing is known of it.
    pub fn new(dim: Dim, padding: Padding) -> Digit {
        let padding = if dim.as_fixed().is_some() { Padding::Unknown } else { padding };
        Digit { dim, padding }
    }

    /// Whether its size is given when the graph runs.
    pub fn is_open(&self) -> bool {
        self.dim.as_fixed().is_none()
    }

    /// Whether its padding is zero.
    pub fn has_zeros(&self) -> bool {
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
pub fn plain(dim: &Dim, padding: Padding) -> Vec<Digit> {
    if dim.is(1) { Vec::new() } else { vec![Digit::new(dim.clone(), padding)] }
}

/// The same digits with as few of them as say the same: a fixed size behind another digit is part of it.
/// `None` if sizes become too large.
pub fn merged(digits: impl IntoIterator<Item = Digit>) -> Option<Vec<Digit>> {
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
pub fn aligned(left: &[Digit], right: &[Digit]) -> Option<Vec<(Digit, Digit)>> {
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
pub fn reshaped(axes: &[Vec<Digit>], dims: &[Dim]) -> Option<Vec<Vec<Digit>>> {
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
