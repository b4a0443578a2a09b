//! What tells padding from data: limits of the fetch unit's mask.
//!
//! A position past the extent of its axis, or past the live values of a padded digit, holds nothing that may
//! count; nor does a position to which loops move a window past what is stored.

use tilewright_notation::problem::{AxisId, Digit, Problem};
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Limit, SliceDigit};
use tilewright_tcp_isa::program::{Count, RegisterId};

use super::dynamic::{DynamicAxes, PositionEnd};
use super::view::{DigitStep, LoopPiece, SliceView, UncutDigit, ViewDigit};

/// A fetch of rows over a view, masked where rows run into padding.
pub(super) struct MaskedFetch<'a> {
    pub(super) operand: Operand,
    pub(super) view: &'a SliceView,
    pub(super) rows: &'a [FetchLoop],
    /// Digits over slices that count towards positions and are not the view's own.
    pub(super) over_slices: &'a [ViewDigit],
    pub(super) packet: u64,
    pub(super) dtype: Dtype,
    pub(super) zero_point: Option<i64>,
}

/// A loop of a fetch: the piece it runs, if it is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchLoop {
    pub(super) piece: Option<LoopPiece>,
    pub(super) size: u64,
    /// The register that counts its iterations, of which `size` is the most.
    pub(super) by: Option<RegisterId>,
    pub(super) stride: u64,
    /// Iterations that count; the rest is padding.
    pub(super) live: u64,
    /// The stored axis of a window along which it steps, from its first position on.
    pub(super) along: Option<AxisId>,
}

impl FetchLoop {
    /// A loop over a whole piece.
    pub(super) fn of(piece: LoopPiece, stride: u64) -> FetchLoop {
        FetchLoop { piece: Some(piece), size: piece.size, by: None, stride, live: piece.size, along: None }
    }

    /// A loop that counts no axis, of which some iterations are live.
    pub(super) fn plain(size: u64, stride: u64, live: u64) -> FetchLoop {
        FetchLoop { piece: None, size, by: None, stride, live, along: None }
    }
}

/// The limits of a fetch that runs these loops over a view.
pub(super) fn limits(
    problem: &Problem,
    dynamic: &DynamicAxes,
    fetched: &MaskedFetch<'_>,
    parallel: &[Digit],
) -> Vec<Limit> {
    let (operand, rows) = (fetched.operand, fetched.rows);
    let digits = || fetched.view.digits.iter().chain(fetched.over_slices);
    let mut limits = Vec::new();
    for axis in &problem.read_axes(operand) {
        // A window with positions before its start is read from a copy that has them, or shifted over from
        // its first position on.
        let shifted = rows.iter().any(|row| row.along == Some(*axis));
        let before = problem.window(*axis).filter(|_| !shifted).map_or(0, |window| window.before);
        let extent = problem.axis(*axis).extent_in[operand as usize] + before;
        let weight_of = |piece: LoopPiece| match problem.window(*axis) {
            Some(window) => window.factor(piece.axis) * piece.weight,
            None if piece.axis == *axis => piece.weight,
            None => 0,
        };
        let of_axis = |row: &FetchLoop| match row.along {
            Some(along) => u64::from(along == *axis),
            None => row.piece.map_or(0, weight_of),
        };
        let on_slices = digits().filter(|digit| digit.axis == *axis).filter_map(slice_digit);
        let end = dynamic.extent(*axis).unwrap_or(PositionEnd { least: extent, count: Count::Fixed(extent) });
        push(&mut limits, end, on_slices.collect(), rows, of_axis);
    }
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.live < row.size) {
        let mut weights = vec![0; rows.len()];
        weights[index] = 1;
        limits.push(Limit { extent: Count::Fixed(row.live), slices: Vec::new(), weights });
    }
    padded_digits(rows, &mut limits);
    idle_slices(problem, operand, rows.len(), parallel, &mut limits);
    let mut distinct: Vec<Limit> = Vec::new();
    for limit in limits {
        if !distinct.contains(&limit) {
            distinct.push(limit);
        }
    }
    distinct
}

/// Adds a limit if positions can reach it.
fn push(
    limits: &mut Vec<Limit>,
    end: PositionEnd,
    slices: Vec<SliceDigit>,
    rows: &[FetchLoop],
    weight: impl Fn(&FetchLoop) -> u64,
) {
    let weights: Vec<u64> = rows.iter().map(weight).collect();
    let in_loops: u64 = rows.iter().zip(&weights).map(|(row, weight)| (row.size - 1) * weight).sum();
    let on_slices: u64 = slices.iter().map(|digit| (digit.size - 1) * digit.weight).sum();
    if in_loops + on_slices >= end.least {
        limits.push(Limit { extent: end.count, slices, weights });
    }
}

fn slice_digit(digit: &ViewDigit) -> Option<SliceDigit> {
    match digit.at {
        DigitStep::Slice(stride) => {
            Some(SliceDigit { stride, size: digit.size.next_power_of_two(), weight: digit.weight })
        }
        DigitStep::Offset(_) => None,
    }
}

/// Digits that run through more values than are live.
fn padded_digits(rows: &[FetchLoop], limits: &mut Vec<Limit>) {
    let key = |row: &FetchLoop| row.piece.map(|piece| (piece.axis, piece.digit));
    let mut seen: Vec<(_, UncutDigit)> = Vec::new();
    for row in rows {
        let Some(whole) = key(row) else { continue };
        if seen.contains(&whole) {
            continue;
        }
        seen.push(whole);
        let weight = |other: &FetchLoop| match other.piece {
            Some(piece) if key(other) == Some(whole) => piece.weight / whole.1.weight,
            _ => 0,
        };
        let end = PositionEnd { least: whole.1.live, count: Count::Fixed(whole.1.live) };
        push(limits, end, Vec::new(), rows, weight);
    }
}

/// Idle slices of a sum must add nothing.
fn idle_slices(
    problem: &Problem,
    operand: Operand,
    loops: usize,
    parallel: &[Digit],
    limits: &mut Vec<Limit>,
) {
    let mut stride = 1;
    for digit in parallel.iter().rev() {
        let summed = digit.axis.is_some_and(|axis| problem.contracted(axis) && problem.has(operand, axis));
        if summed && digit.live < digit.slots {
            let slices = vec![SliceDigit { stride, size: digit.slots, weight: 1 }];
            limits.push(Limit { extent: Count::Fixed(digit.live), slices, weights: vec![0; loops] });
        }
        stride *= digit.slots;
    }
}
