//! Weights as bytes in HBM, in the order in which slices and lanes take them.

use rayon::prelude::*;
use tilewright_num::{Dtype, RuleSet, convert};

use super::image::bytes;
use super::plan::{Fill, Packed, Plan, weights_of};
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
    for (index, name) in plan.norms.iter().enumerate() {
        gain(plan, index as u64, &constants(name)?, write);
    }
    for (packed, first) in plan.packed.iter().zip(parts) {
        let Some(kernel) = kernels.kernels.get(packed.kernel) else { continue };
        let Some(weights) = weights_of(kernel) else { continue };
        let matrices: Result<Vec<Matrix>, CompileError> =
            weights.iter().map(|weight| constants(&weight.name)).collect();
        let matrices = matrices?;
        let combines = matches!(kernel, Kernel::Combine { .. });
        let first = if combines { vec![0] } else { first.clone() };
        for pe in 0..plan.options.pes {
            let first = first.clone();
            let source =
                Source { plan, packed, weights: &weights, matrices: &matrices, first, combines, lanes, pe };
            for fill in &packed.fills {
                write(fill.at + pe * fill.pe_bytes, &source.fill(fill));
            }
        }
    }
    Ok(())
}

fn bf16(value: f32) -> [u8; 2] {
    let pattern = convert(&RuleSet::TCP, Dtype::F32, Dtype::Bf16, value.to_bits()).unwrap_or(0);
    let [a, b, ..] = pattern.to_le_bytes();
    [a, b]
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

fn gain(plan: &Plan, index: u64, gain: &Matrix, write: &mut dyn FnMut(u64, &[u8])) {
    let share = plan.features.share;
    let row = bytes(Dtype::F32, share);
    for slice in 0..plan.features.slices {
        let words = (0..share).map(|at| gain.at(0, slice * share + at));
        let line: Vec<u8> = words.flat_map(f32::to_le_bytes).collect();
        write(plan.gains + (slice * plan.norms.len() as u64 + index) * row, &line);
    }
}

struct Source<'s> {
    plan: &'s Plan,
    packed: &'s Packed,
    weights: &'s [Weight],
    matrices: &'s [Matrix],
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
        for column in columns {
            for at in 0..self.packed.row {
                line.extend(bf16(self.element(slice, column, at)));
            }
        }
        line
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
