//! From shapes and a placed tactic to the loop table.
//!
//! Each digit of the tactic is cut wherever a shape cuts its axis, so that every piece has one stride in every memory. What was
//! legal can always be cut so; what cannot be is reported with the axis. Windows are left to the command programs of [`crate::lower`].

use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{OFFSET, SLICE};
use tilewright_notation::algebra::refine::Clash;
use tilewright_notation::problem::{AxisId, Digit, Problem};
use tilewright_notation::syntax::ast::Operand;

use super::table::{Row, SliceRow, Step, Table};
use crate::placed::Placed;

/// The maps of the memories that a contraction works on.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'a> {
    /// The streamed operand in data memory.
    pub stream: &'a RadixMap,
    /// The stationary operand in the register files.
    pub trf: &'a RadixMap,
    /// The output in data memory.
    pub out: &'a RadixMap,
}

/// Builds the table of a legal contraction.
pub fn lower(problem: &Problem, placed: &Placed, maps: &Maps<'_>) -> Result<Table, Clash> {
    if let Some(window) = problem.windows.first() {
        return Err(Clash { axis: window.axis.0, left: 1, right: 1 });
    }
    let lowering = Lowering { problem, maps };
    let slices = slice_rows(&placed.parallel);
    let packet = lowering.rows(&placed.packet)?;
    let contracted = |row: &&Row| problem.contracted(row.axis);
    let span = slices.iter().fold(1_u64, |all, row| all.saturating_mul(row.slots));
    Ok(Table {
        tree_rows: packet.iter().rev().take_while(contracted).count(),
        stream_kept: kept_bits(problem, maps.stream, problem.streamed(), &slices, span),
        out_kept: kept_bits(problem, maps.out, Operand::Out, &slices, span),
        slices,
        time: lowering.rows(&placed.time)?,
        lanes: lowering.rows(&placed.lanes)?,
        packet,
        extents: problem.axes.iter().map(|axis| axis.extent).collect(),
    })
}

/// Digits of the slice number with their weights.
fn slice_rows(parallel: &[Digit]) -> Vec<SliceRow> {
    let mut slice_weight = 1;
    let mut rows = Vec::new();
    for digit in parallel.iter().rev() {
        if let Some(axis) = digit.axis {
            rows.push(SliceRow {
                slice_weight,
                live: digit.live,
                slots: digit.slots,
                axis,
                weight: digit.stride,
            });
        }
        slice_weight *= digit.slots;
    }
    rows
}

/// Bits of a slice number that an operand's own slice shares: those of its axes, and those over which it has copies.
fn kept_bits(problem: &Problem, map: &RadixMap, operand: Operand, slices: &[SliceRow], span: u64) -> u64 {
    let mut kept = 0;
    for row in slices.iter().filter(|row| problem.has(operand, row.axis)) {
        kept |= (row.slots - 1) * row.slice_weight;
    }
    if operand != Operand::Out {
        for copies in map.copies.iter().filter(|copies| copies.to_axis == SLICE) {
            kept |= (copies.count - 1) * copies.to_stride;
        }
    }
    kept & (span.next_power_of_two() - 1)
}

struct Lowering<'a> {
    problem: &'a Problem,
    maps: &'a Maps<'a>,
}

impl Lowering<'_> {
    fn rows(&self, digits: &[Digit]) -> Result<Vec<Row>, Clash> {
        let mut rows = Vec::new();
        for digit in digits.iter().filter(|digit| digit.live > 1) {
            let Some(axis) = digit.axis else { continue };
            let mut cuts = self.cuts(axis, digit);
            while let Some(cut) = cuts.pop() {
                rows.push(self.row(axis, digit, cut)?);
            }
        }
        Ok(rows)
    }

    /// Pieces `(weight, size)` of a digit, innermost first.
    fn cuts(&self, axis: AxisId, digit: &Digit) -> Vec<(u64, u64)> {
        let end = digit.stride.saturating_mul(digit.live);
        let mut marks = vec![digit.stride];
        for operand in Operand::ALL {
            let Some((index, map)) = self.side(operand, axis) else { continue };
            let strides =
                map.digits.iter().filter(|d| usize::from(d.from_axis) == index).map(|d| d.from_stride);
            marks.extend(strides.filter(|stride| (digit.stride + 1..end).contains(stride)));
        }
        marks.sort_unstable();
        marks.dedup();
        let sizes = marks.iter().zip(marks[1..].iter().chain([&end]));
        sizes.map(|(low, high)| (*low, high.div_ceil(*low))).collect()
    }

    fn row(&self, axis: AxisId, digit: &Digit, (weight, size): (u64, u64)) -> Result<Row, Clash> {
        let step = |operand| self.step(operand, axis, weight, digit.live);
        let trf = match step(self.problem.stationary)? {
            Some(Step::Offset(stride)) => Some(stride),
            // What the register files lack on this slice was refused as unsupplied.
            Some(Step::Slice(_)) => return Err(Clash { axis: axis.0, left: weight, right: size }),
            None => None,
        };
        let stream = step(self.problem.streamed())?;
        Ok(Row { size, axis, weight, stream, trf, out: step(Operand::Out)? })
    }

    /// The index of an axis among an operand's axes, and the operand's map; `None` if it lacks the axis.
    fn side(&self, operand: Operand, axis: AxisId) -> Option<(usize, &RadixMap)> {
        let index = self.problem.tensor(operand).iter().position(|id| *id == axis)?;
        let map = match operand {
            Operand::Out => self.maps.out,
            _ if operand == self.problem.stationary => self.maps.trf,
            _ => self.maps.stream,
        };
        Some((index, map))
    }

    fn step(&self, operand: Operand, axis: AxisId, weight: u64, live: u64) -> Result<Option<Step>, Clash> {
        let Some((index, map)) = self.side(operand, axis) else { return Ok(None) };
        let of_axis = map.digits.iter().filter(|d| usize::from(d.from_axis) == index);
        let stored = of_axis.filter(|d| d.from_stride <= weight).max_by_key(|d| d.from_stride);
        let clash = Clash { axis: axis.0, left: weight, right: live };
        let stored = stored.ok_or(clash)?;
        if !weight.is_multiple_of(stored.from_stride) {
            return Err(clash);
        }
        let stride = stored.to_stride * (weight / stored.from_stride);
        Ok(Some(if stored.to_axis == OFFSET { Step::Offset(stride) } else { Step::Slice(stride) }))
    }
}
