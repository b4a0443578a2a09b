//! Weights as bytes in HBM, in the order in which slices and lanes take them.

use rayon::prelude::*;
use tilewright_num::{Dtype, RuleSet, convert};

use super::plan::{Fill, Packed, Plan, weights_of};
use super::rows::UNIT;
use crate::CompileError;
use crate::kernel::{Kernel, Kernels, Weight};
use crate::weights::Matrix;

/// Gives constants by name.
pub type Constants<'c> = dyn Fn(&str) -> Result<Matrix, CompileError> + Sync + 'c;

/// Writes everything that a model keeps in HBM: `write` takes an address and bytes.
///
/// # Errors
/// A constant that cannot be had.
pub fn pack(
    kernels: &Kernels,
    plan: &Plan,
    lanes: u64,
    slices: u64,
    parts: &[Vec<u64>],
    constants: &Constants<'_>,
    write: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), CompileError> {
    for kernel in &kernels.kernels {
        match kernel {
            Kernel::Embed { table, .. } => embedding(plan, &constants(table)?, write),
            Kernel::Rotate { tables: Some((cos, sin)), cache: 0, .. } => {
                angles(plan, &constants(cos)?, &constants(sin)?, write);
            }
            _ => {}
        }
    }
    let mut blocks = Blocks::new(plan, slices);
    for (index, name) in plan.norms.iter().enumerate() {
        blocks.gain(index as u64, &constants(name)?);
    }
    for (packed, first) in plan.packed.iter().zip(parts) {
        let Some(kernel) = kernels.kernels.get(packed.kernel) else { continue };
        let Some(weights) = weights_of(kernel) else { continue };
        let matrices: Result<Vec<Matrix>, CompileError> =
            weights.iter().map(|weight| constants(&weight.name)).collect();
        let matrices = matrices?;
        let scales: Vec<Vec<f32>> = matrices.iter().map(row_scales).collect();
        let combines = matches!(kernel, Kernel::Combine { .. });
        let first = if combines { vec![0] } else { first.clone() };
        for pe in 0..plan.options.pes {
            let first = first.clone();
            let source = Source {
                plan,
                packed,
                weights: &weights,
                matrices: &matrices,
                scales: &scales,
                first,
                combines,
                lanes,
                pe,
            };
            if plan.options.dtype == Dtype::I8 {
                blocks.scales(&source);
            }
            for fill in &packed.fills {
                write(fill.at + pe * fill.pe_bytes, &source.fill(fill));
            }
        }
    }
    write(plan.constants.at, &blocks.bytes);
    Ok(())
}

fn bf16(value: f32) -> [u8; 2] {
    let pattern = convert(&RuleSet::TCP, Dtype::F32, Dtype::Bf16, value.to_bits()).unwrap_or(0);
    let [a, b, ..] = pattern.to_le_bytes();
    [a, b]
}

/// What an integer of each row is worth: the greatest of its weights is 127.
fn row_scales(matrix: &Matrix) -> Vec<f32> {
    let columns = usize::try_from(matrix.columns).unwrap_or(1).max(1);
    let most = |row: &[f32]| row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    matrix.elements.chunks(columns).map(|row| most(row) / UNIT).collect()
}

/// The nearest integer of eight bits.
fn quantised(value: f32, scale: f32) -> i8 {
    #[expect(clippy::cast_possible_truncation, reason = "within the numbers of i8")]
    let integer = (value / scale).round().clamp(-UNIT, UNIT) as i8;
    if scale > 0.0 { integer } else { 0 }
}

fn embedding(plan: &Plan, table: &Matrix, write: &mut dyn FnMut(u64, &[u8])) {
    let width = plan.embedding_row / 2;
    for row in 0..table.rows {
        let line: Vec<u8> = (0..width).flat_map(|column| bf16(table.at(row, column))).collect();
        write(plan.embedding + row * plan.embedding_row, &line);
    }
}

fn angles(plan: &Plan, cos: &Matrix, sin: &Matrix, write: &mut dyn FnMut(u64, &[u8])) {
    let half = plan.angles_row / 12;
    for row in 0..cos.rows.min(sin.rows) {
        let sines = (0..half).map(|at| sin.at(row, at));
        let words = sines.clone().chain((0..half).map(|at| cos.at(row, at))).chain(sines.map(|sine| -sine));
        let line: Vec<u8> = words.flat_map(f32::to_le_bytes).collect();
        write(plan.angles + row * plan.angles_row, &line);
    }
}

/// Constants of all slices of all processing elements.
struct Blocks<'p> {
    plan: &'p Plan,
    slices: u64,
    bytes: Vec<u8>,
}

impl Blocks<'_> {
    fn new(plan: &Plan, slices: u64) -> Blocks<'_> {
        let bytes = plan.constants.bytes * slices * plan.options.pes;
        Blocks { plan, slices, bytes: vec![0; usize::try_from(bytes).unwrap_or(0)] }
    }

    fn put(&mut self, pe: u64, slice: u64, place: u64, value: f32) {
        let at = (pe * self.slices + slice) * self.plan.constants.bytes + place;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(word) = self.bytes.get_mut(at..at.saturating_add(4)) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn gain(&mut self, index: u64, gain: &Matrix) {
        let (share, constants) = (self.plan.features.share, self.plan.constants.clone());
        for pe in 0..self.plan.options.pes {
            for slice in 0..self.slices {
                for at in 0..share {
                    let value = gain.at(0, slice * share + at);
                    self.put(pe, slice, constants.gain(index, false) + 4 * at, value);
                    self.put(pe, slice, constants.gain(index, true) + 4 * at, value.abs());
                }
            }
        }
    }

    /// What integers of a weight's columns are worth, over the unit of activations.
    fn scales(&mut self, source: &Source<'_>) {
        let (constants, packed) = (self.plan.constants.clone(), source.packed);
        if source.combines {
            for slice in 0..self.slices {
                for column in 0..self.plan.features.share {
                    let worth = source.scale(slice, column) / UNIT;
                    self.put(source.pe, slice, constants.combined(packed.kernel) + 4 * column, worth);
                }
            }
            return;
        }
        for (index, fill) in packed.fills.iter().enumerate() {
            let (place, words) = constants.projected(packed.kernel, index);
            for column in 0..fill.groups * source.lanes {
                let (slice, at) = (column / words.max(1), column % words.max(1));
                let worth = source.scale(0, fill.first * source.lanes + column) / UNIT;
                self.put(source.pe, slice, place + 4 * at, worth);
            }
        }
    }
}

struct Source<'s> {
    plan: &'s Plan,
    packed: &'s Packed,
    weights: &'s [Weight],
    matrices: &'s [Matrix],
    scales: &'s [Vec<f32>],
    first: Vec<u64>,
    combines: bool,
    lanes: u64,
    pe: u64,
}

impl Source<'_> {
    /// Slice after slice, in each the rows of its columns.
    fn fill(&self, fill: &Fill) -> Vec<u8> {
        let slices: Vec<u64> = (0..self.packed.slices).collect();
        let parts: Vec<Vec<u8>> = slices.into_par_iter().map(|slice| self.slice(fill, slice)).collect();
        parts.concat()
    }

    fn slice(&self, fill: &Fill, slice: u64) -> Vec<u8> {
        let columns = fill.first * self.lanes..(fill.first + fill.groups) * self.lanes;
        let mut line = Vec::new();
        let integers = self.plan.options.dtype == Dtype::I8;
        for column in columns {
            let scale = if integers { self.scale(slice, column) } else { 1.0 };
            for at in 0..self.packed.row {
                let element = self.element(slice, column, at);
                if integers {
                    line.push(quantised(element, scale).to_le_bytes()[0]);
                } else {
                    line.extend(bf16(element));
                }
            }
        }
        line
    }

    /// What an integer of a column is worth: the greatest of all its weights is 127.
    fn scale(&self, slice: u64, column: u64) -> f32 {
        let (column, _) =
            if self.combines { (slice * self.plan.features.share + column, 0) } else { (column, 0) };
        let part = self.first.iter().rposition(|first| *first <= column).unwrap_or(0);
        let Some(weight) = self.weights.get(part) else { return 0.0 };
        let row = weight.rows.source(self.pe, column - self.first.get(part).copied().unwrap_or(0));
        let Some(row) = row else { return 0.0 };
        let scales = self.scales.get(part).map_or(&[][..], Vec::as_slice);
        usize::try_from(row).ok().and_then(|row| scales.get(row)).copied().unwrap_or(0.0)
    }

    /// The weight of a column of the result and a place of the contracted axis.
    fn element(&self, slice: u64, column: u64, at: u64) -> f32 {
        let share = self.plan.features.share;
        let (column, at) =
            if self.combines { (slice * share + column, at) } else { (column, slice * share + at) };
        let part = self.first.iter().rposition(|first| *first <= column).unwrap_or(0);
        let (Some(weight), Some(matrix)) = (self.weights.get(part), self.matrices.get(part)) else {
            return 0.0;
        };
        let row = column - self.first.get(part).copied().unwrap_or(0);
        match (weight.rows.source(self.pe, row), weight.columns.source(self.pe, at)) {
            (Some(row), Some(at)) => matrix.at(row, at),
            _ => 0.0,
        }
    }
}
