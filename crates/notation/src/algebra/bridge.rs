//! What must move to turn one lowered shape of a tensor into another (paper section II-B).
//!
//! A bridge is the composition of one shape's inverse with the other shape. Its digits say everything: a
//! digit that keeps its side and its weight stays where it is, one that changes sides crosses slices. How a
//! machine carries it out (commit order, transpose, network, DMA) is the engine's business.

use super::map::{Copies, MapDigit, OFFSET, RadixMap, SLICE};
use super::refine::DigitClash;

/// What kind of movement a bridge needs, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Movement {
    /// Both shapes place every element alike.
    Nothing,
    /// Elements stay in their slices; rows move, the innermost run stays contiguous.
    ReorderRows,
    /// Elements stay in their slices; the innermost run is broken up.
    Transpose,
    /// Elements change slices.
    Exchange,
    /// The shapes cut an axis incompatibly; only element-wise movement is left.
    Rebuild,
}

/// The movement between two shapes of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// What kind.
    pub movement: Movement,
    /// (slice, offset) to (slice, offset); `None` if the shapes clash.
    pub map: Option<RadixMap>,
    /// Slices that must talk to each other: the smallest aligned group that holds every moved slice digit.
    pub ring_slices: u64,
    /// Elements that stay contiguous on both sides.
    pub run_elements: u64,
    /// Where the shapes clash, if they do.
    pub clash: Option<DigitClash>,
}

impl Bridge {
    /// The bridge from one shape's map to another's.
    pub fn between(from: &RadixMap, to: &RadixMap) -> Bridge {
        let map = match from.inverse().then(to) {
            Ok(map) => map.merged(),
            Err(clash) => {
                let ring_slices = from.to[usize::from(SLICE)].max(to.to[usize::from(SLICE)]);
                return Bridge {
                    movement: Movement::Rebuild,
                    map: None,
                    ring_slices,
                    run_elements: 1,
                    clash: Some(clash),
                };
            }
        };
        let stays =
            |digit: &MapDigit| (digit.from_axis, digit.from_stride) == (digit.to_axis, digit.to_stride);
        let added = |side: u8| to.copies.iter().any(|c| c.to_axis == side && !from.copies.contains(c));
        // A slice that has a copy of everything along a digit already holds its part of it.
        let local = |digit: &MapDigit| {
            let covers = |c: &&Copies| {
                c.to_axis == SLICE
                    && c.to_stride <= digit.to_stride
                    && digit.to_stride * digit.size <= c.to_stride * c.count
            };
            digit.to_axis == SLICE && digit.from_axis == OFFSET && from.copies.iter().any(|c| covers(&c))
        };
        let run_elements = contiguous_run(&map);
        let innermost = map.to[usize::from(OFFSET)].min(map.from[usize::from(OFFSET)]);
        let crosses =
            map.digits.iter().any(|d| !stays(d) && !local(d) && (d.from_axis == SLICE || d.to_axis == SLICE));
        let movement = if crosses || added(SLICE) {
            Movement::Exchange
        } else if map.digits.iter().all(stays) && !added(OFFSET) {
            Movement::Nothing
        } else if run_elements > 1 || innermost <= 1 {
            Movement::ReorderRows
        } else {
            Movement::Transpose
        };
        let ring_slices = if movement == Movement::Exchange { ring(&map, from, to) } else { 1 };
        Bridge { movement, map: Some(map), ring_slices, run_elements, clash: None }
    }
}

/// Size of the innermost digit that is contiguous on both sides.
fn contiguous_run(map: &RadixMap) -> u64 {
    let innermost =
        |d: &&MapDigit| (d.from_axis, d.from_stride, d.to_axis, d.to_stride) == (OFFSET, 1, OFFSET, 1);
    map.digits.iter().find(innermost).map_or(1, |digit| digit.size)
}

/// One past the most significant slice digit that moves, in slices.
fn ring(map: &RadixMap, from: &RadixMap, to: &RadixMap) -> u64 {
    let mut ring = 1;
    for digit in &map.digits {
        if (digit.from_axis, digit.from_stride) == (digit.to_axis, digit.to_stride) {
            continue;
        }
        if digit.from_axis == SLICE {
            ring = ring.max(digit.from_stride * digit.size);
        }
        if digit.to_axis == SLICE {
            ring = ring.max(digit.to_stride * digit.size);
        }
    }
    let changed = to.copies.iter().filter(|c| c.to_axis == SLICE && !from.copies.contains(c));
    // Rings are cut in halves, so they come in powers of two.
    changed.map(|copies| copies.to_stride * copies.count).fold(ring, u64::max).next_power_of_two()
}
