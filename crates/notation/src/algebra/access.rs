//! Access patterns: the (size, stride) loops that a sequencer runs over one slice's memory.
//!
//! The same object describes fetch, commit and DMA on every chip of this family: a base and nested
//! loops. Neighbouring loops `(n1:s1)(n2:s2)` are one loop `(n1*n2:s2)` iff `s1 = n2*s2` (vISA book).

use std::fmt;

use smallvec::SmallVec;

use super::RadixMap;
use super::map::OFFSET;
use super::refine::{AxisCuts, DigitClash, refine};
use super::unrolled::unrolled;
use crate::problem::{Digit, Problem};
use crate::syntax::ast::{Operand, Terms};

/// One loop of a sequencer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessLoop {
    /// Iterations.
    pub size: u64,
    /// Elements between iterations; 0 repeats.
    pub stride: u64,
    /// `size` is the most; the real one sits in a control register at run time.
    pub dynamic: bool,
}

impl AccessLoop {
    /// A loop whose size is known.
    pub fn new(size: u64, stride: u64) -> AccessLoop {
        AccessLoop { size, stride, dynamic: false }
    }
}

/// Loops from outermost to innermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPattern {
    /// The loops.
    pub loops: SmallVec<[AccessLoop; 4]>,
}

impl AccessPattern {
    /// The loops over `operand`'s part of a slice when the digits of `order`, outermost first, run.
    ///
    /// Digits of axes that the tensor lacks repeat (stride 0); digits that the shape spreads over slices take
    /// no part in the address and are left out, as other slices serve them.
    pub fn of_loops<'a>(
        problem: &Problem,
        operand: Operand,
        map: &RadixMap,
        order: impl Iterator<Item = &'a Digit>,
    ) -> Result<AccessPattern, DigitClash> {
        let mut pattern = AccessPattern::default();
        for_each_loop(problem, operand, map, order, |access| pattern.loops.push(access))?;
        Ok(pattern)
    }

    /// The same loops, neighbours joined where they can be: [`AccessPattern::merged`] of them.
    pub fn of_loops_merged<'a>(
        problem: &Problem,
        operand: Operand,
        map: &RadixMap,
        order: impl Iterator<Item = &'a Digit>,
    ) -> Result<AccessPattern, DigitClash> {
        let mut pattern = AccessPattern::default();
        for_each_loop(problem, operand, map, order, |access| pattern.push_merged(access))?;
        Ok(pattern)
    }

    /// Neighbours joined where they can be; the result runs the same addresses in the same order.
    ///
    /// A dynamic loop joins what is inside it, never what is outside: memory is laid out for its largest
    /// size.
    #[must_use]
    pub fn merged(&self) -> AccessPattern {
        let mut merged = AccessPattern::default();
        self.loops.iter().for_each(|access| merged.push_merged(*access));
        merged
    }

    fn push_merged(&mut self, inner: AccessLoop) {
        match self.loops.last_mut() {
            _ if inner.size <= 1 => {}
            Some(outer) if !inner.dynamic && outer.stride == inner.size.saturating_mul(inner.stride) => {
                outer.size = outer.size.saturating_mul(inner.size);
                outer.stride = inner.stride;
            }
            _ => self.loops.push(inner),
        }
    }

    /// Times that an address is formed.
    pub fn steps(&self) -> u64 {
        self.loops.iter().fold(1, |steps, access| steps.saturating_mul(access.size))
    }

    /// Every offset in order; meant for small patterns and for tests.
    pub fn offsets(&self) -> Vec<u64> {
        let mut offsets = vec![0];
        for access in &self.loops {
            offsets = offsets
                .iter()
                .flat_map(|base| (0..access.size).map(move |step| base + step * access.stride))
                .collect();
        }
        offsets
    }
}

impl fmt::Display for AccessPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.loops.is_empty() {
            return f.write_str("(1:0)");
        }
        for access in &self.loops {
            write!(f, "({}{}:{})", if access.dynamic { "<=" } else { "" }, access.size, access.stride)?;
        }
        Ok(())
    }
}

/// Calls `visit` with the loop of every piece of every digit.
fn for_each_loop<'a>(
    problem: &Problem,
    operand: Operand,
    map: &RadixMap,
    order: impl Iterator<Item = &'a Digit>,
    mut visit: impl FnMut(AccessLoop),
) -> Result<(), DigitClash> {
    let unrolled = unrolled(problem, operand, map)?;
    let (map, axes) = unrolled.as_ref().map_or((map, problem.tensor(operand)), |all| (&all.map, &all.axes));
    for digit in order.filter(|digit| digit.live > 1) {
        let dynamic = digit.axis.is_some_and(|id| {
            let axis = problem.axis(id);
            axis.dynamic && digit.stride.saturating_mul(digit.live) >= axis.extent
        });
        let axis = digit.axis.and_then(|id| axes.iter().position(|axis| *axis == id));
        let Some(axis) = axis.and_then(|index| u8::try_from(index).ok()) else {
            visit(AccessLoop { size: digit.live, stride: 0, dynamic });
            continue;
        };
        if let Some((size, stride)) = one_piece(axis, digit, map) {
            if let Some(stride) = stride {
                visit(AccessLoop { size, stride, dynamic });
            }
            continue;
        }
        // The outermost piece is the one whose size may fall short at run time.
        for (index, (size, stride)) in pieces_of(axis, digit, map)?.iter().rev().enumerate() {
            if let Some(stride) = *stride {
                visit(AccessLoop { size: *size, stride, dynamic: dynamic && index == 0 });
            }
        }
    }
    Ok(())
}

/// The common case without a search: the digit lies wholly within one stored digit and divides it.
fn one_piece(axis: u8, digit: &Digit, map: &RadixMap) -> Option<(u64, Option<u64>)> {
    let stored = map.digits.iter().find(|d| {
        d.from_axis == axis && d.from_stride <= digit.stride && digit.stride < d.from_stride * d.size
    })?;
    let inner = digit.stride / stored.from_stride;
    let divides = digit.stride.is_multiple_of(stored.from_stride)
        && stored.size.is_multiple_of(inner)
        && (stored.size / inner).is_multiple_of(digit.live);
    divides.then(|| (digit.live, (stored.to_axis == OFFSET).then_some(stored.to_stride * inner)))
}

/// The pieces of one loop digit, innermost first: size, and stride in the slice's memory unless it is spread
/// over slices.
fn pieces_of(axis: u8, digit: &Digit, map: &RadixMap) -> Result<Terms<(u64, Option<u64>)>, DigitClash> {
    let mut stored: SmallVec<[_; 8]> = map.digits.iter().filter(|d| d.from_axis == axis).copied().collect();
    stored.sort_unstable_by_key(|d| d.from_stride);
    // The part of the axis below the digit is skipped, the part above never reached.
    let below = Digit { axis: None, stride: 1, live: digit.stride, slots: digit.stride, ..*digit };
    let cuts = AxisCuts {
        digits: [below, *digit].iter().filter(|d| d.live > 1).map(|d| (d.stride, d.live)).collect(),
        reaches_end: digit.stride.saturating_mul(digit.live) >= map.from[usize::from(axis)],
    };
    let stored_cuts = AxisCuts::whole(stored.iter().map(|d| (d.from_stride, d.size)));
    let mut pieces = Terms::new();
    for piece in refine(axis, &cuts, &stored_cuts)? {
        if cuts.digits[piece.left].0 * piece.left_inner < digit.stride {
            continue;
        }
        let at = &stored[piece.right];
        let stride = (at.to_axis == OFFSET).then_some(at.to_stride * piece.right_inner);
        pieces.push((piece.size, stride));
    }
    Ok(pieces)
}
