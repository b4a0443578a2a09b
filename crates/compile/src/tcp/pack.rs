//! Weights as bytes in HBM, in the order in which slices and lanes take them.

use rayon::prelude::*;
use tilewright_base::invariant::{Exact, OrBroken, broken, to_index};
use tilewright_num::{Dtype, RuleSet, encode_slice};

use super::mixed::greatest;
use super::plan::{Fill, Packed, Plan, gain, weights_of};
use super::rows::UNIT;
use super::sizes::Features;
use crate::CompileError;
use crate::kernel::{Kernel, Kernels, Norm, WeightMatrix};
use crate::weights::Matrix;

/// Gives constants by name.
pub type Constants<'c> = dyn Fn(&str) -> Result<Matrix, CompileError> + Sync + 'c;

/// Writes everything that a model keeps in HBM: `write` takes a chip, an address and bytes. Every chip has
/// all tables, and its own weights.
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
    write: &mut dyn FnMut(u64, u64, &[u8]),
) -> Result<(), CompileError> {
    let mut written = WrittenRanges::default();
    let mut write = |chip: u64, at: u64, bytes: &[u8]| {
        written.add(chip, at, bytes.len() as u64);
        write(chip, at, bytes);
    };
    tables(kernels, plan, constants, &mut |at, bytes| {
        (0..plan.options.chips).for_each(|chip| write(chip, at, bytes));
    })?;
    let mut blocks = Blocks::new(plan, slices);
    blocks.norms(kernels, constants)?;
    if parts.len() != plan.packed.len() {
        broken(format_args!("{} weights are packed in {} parts", plan.packed.len(), parts.len()));
    }
    for (packed, first) in plan.packed.iter().zip(parts) {
        pack_weight(kernels, plan, (packed, first), lanes, constants, &mut blocks, &mut write)?;
    }
    let of_chip = to_index(plan.constants.bytes * slices * plan.options.pes).max(1);
    for (chip, bytes) in (0..).zip(blocks.bytes.chunks(of_chip)) {
        write(chip, plan.constants.at, bytes);
    }
    written.check(plan.end);
    Ok(())
}

/// Writes one weight, and what belongs to its columns to the constants.
fn pack_weight(
    kernels: &Kernels,
    plan: &Plan,
    (packed, first): (&Packed, &[u64]),
    lanes: u64,
    constants: &Constants<'_>,
    blocks: &mut Blocks<'_>,
    write: &mut dyn FnMut(u64, u64, &[u8]),
) -> Result<(), CompileError> {
    let kernel = kernels.kernels.get(packed.kernel).or_broken("a packed weight is of a kernel");
    let weights = weights_of(kernel).or_broken("the kernel of a packed weight has weights");
    let combines = matches!(kernel, Kernel::Combine { .. });
    packed.check_sizes(plan, &weights, combines, lanes);
    let matrices: Result<Vec<Matrix>, CompileError> =
        weights.iter().map(|weight| constants(&weight.name)).collect();
    let matrices = matrices?;
    let biases: Result<Vec<Option<Matrix>>, CompileError> =
        weights.iter().map(|weight| weight.bias.as_deref().map(constants).transpose()).collect();
    let biases = biases?;
    let most = greatest(packed.held);
    let scales: Vec<Vec<f32>> = matrices.iter().map(|matrix| row_scales(matrix, most)).collect();
    let first = if combines { &[0] } else { first };
    for pe in 0..plan.options.all_pes() {
        let source = Source {
            plan,
            packed,
            weights: &weights,
            matrices: &matrices,
            scales: &scales,
            biases: &biases,
            first,
            combines,
            lanes,
            pe,
        };
        if plan.options.scaled() {
            blocks.scales(&source);
        }
        if packed.biased {
            blocks.biases(&source);
        }
        let home = plan.options.home(pe);
        for fill in &packed.fills {
            let bytes = source.fill(fill);
            let wanted = packed.slices.exact_mul(fill.slice_bytes);
            if bytes.len() as u64 != wanted {
                broken(format_args!("{} bytes of weights for a tile of {wanted}", bytes.len()));
            }
            write(home.chip, fill.at + home.pe * fill.pe_bytes, &bytes);
        }
    }
    Ok(())
}

/// Bytes of HBM that were written, by chip.
#[derive(Default)]
struct WrittenRanges(Vec<(u64, u64, u64)>);

impl WrittenRanges {
    fn add(&mut self, chip: u64, at: u64, bytes: u64) {
        match self.0.last_mut() {
            Some((of, _, end)) if *of == chip && *end == at => *end = at.exact_add(bytes),
            _ if bytes > 0 => self.0.push((chip, at, at.exact_add(bytes))),
            _ => {}
        }
    }

    /// Ends the run if anything was written twice or behind the end of the plan.
    fn check(mut self, end: u64) {
        self.0.sort_unstable();
        for pair in self.0.windows(2) {
            let [(chip, start, stop), (next_chip, next, _)] = [pair[0], pair[1]];
            if chip == next_chip && next < stop {
                broken(format_args!("HBM of chip {chip} is packed twice from {next:#x}, and {start:#x} on"));
            }
        }
        if let Some((chip, _, stop)) = self.0.iter().find(|(_, _, stop)| *stop > end) {
            broken(format_args!("HBM of chip {chip} is packed to {stop:#x}, and its plan ends at {end:#x}"));
        }
    }
}

impl Packed {
    /// Ends the run if weights of a kernel do not have the sizes that they are packed for.
    fn check_sizes(&self, plan: &Plan, weights: &[WeightMatrix], combines: bool, lanes: u64) {
        let contracted = weights.iter().map(|weight| weight.columns.stored()).max().unwrap_or(0);
        let rows = weights.iter().map(|weight| weight.rows.stored()).fold(0, u64::exact_add);
        let (share, slices) = (plan.features.share, plan.features.slices);
        let fits = if combines {
            self.row >= contracted && self.columns == share && slices.exact_mul(share) >= rows
        } else {
            self.row == share && slices.exact_mul(share) >= contracted && self.columns >= rows
        };
        let mut next_group = 0;
        let in_order = self.fills.iter().all(|fill| {
            let follows = fill.first == next_group;
            next_group = fill.first.exact_add(fill.groups);
            follows
        });
        let biased = weights.iter().any(|weight| weight.bias.is_some());
        let whole = in_order && next_group == self.columns.div_ceil(lanes.max(1));
        if !fits || !whole || self.slices != slices || self.biased != biased {
            broken(format_args!("the weights of kernel {} have other sizes than their plan", self.kernel));
        }
    }
}

/// Rows by token and by position, and angles: the same on every chip.
fn tables(
    kernels: &Kernels,
    plan: &Plan,
    constants: &Constants<'_>,
    write: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), CompileError> {
    for kernel in &kernels.kernels {
        match kernel {
            Kernel::Embed { table, places, .. } => {
                embedding(plan, &constants(table)?, write);
                if !places.is_empty() {
                    let tables: Result<Vec<Matrix>, CompileError> =
                        places.iter().map(|name| constants(name)).collect();
                    by_position(plan, kernels.positions, &tables?, write);
                }
            }
            Kernel::Rotate { tables: Some((cos, sin)), cache: 0, .. } => {
                angles(plan, &constants(cos)?, &constants(sin)?, write);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Appends values as bf16.
fn push_bf16(line: &mut Vec<u8>, values: &[f32]) {
    let first = line.len();
    line.resize(first + 2 * values.len(), 0);
    // A float goes to a float: there is nothing to refuse.
    let done = encode_slice(&RuleSet::TCP, Dtype::Bf16, values, &mut line[first..]);
    debug_assert!(done.is_ok(), "bf16 takes floats");
}

/// What an integer of each row is worth: the greatest of its weights is the greatest there is.
fn row_scales(matrix: &Matrix, greatest: f32) -> Vec<f32> {
    let columns = to_index(matrix.columns).max(1);
    let most = |row: &[f32]| row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    matrix.elements.chunks(columns).map(|row| most(row) / greatest).collect()
}

/// The nearest integer.
fn quantised(value: f32, scale: f32, greatest: f32) -> i8 {
    #[expect(clippy::cast_possible_truncation, reason = "within the numbers of i8")]
    let integer = (value / scale).round().clamp(-greatest, greatest) as i8;
    if scale > 0.0 { integer } else { 0 }
}

fn embedding(plan: &Plan, table: &Matrix, write: &mut dyn FnMut(u64, &[u8])) {
    let width = plan.embedding_row / 2;
    let (mut line, mut values) = (Vec::new(), Vec::new());
    for row in 0..table.rows {
        values.clear();
        values.extend((0..width).map(|column| table.at(row, column)));
        line.clear();
        push_bf16(&mut line, &values);
        write(plan.embedding + row * plan.embedding_row, &line);
    }
}

/// Sums of what is added by position, each rounded once.
fn by_position(plan: &Plan, positions: u64, tables: &[Matrix], write: &mut dyn FnMut(u64, &[u8])) {
    let width = plan.embedding_row / 2;
    for row in 0..positions {
        let sum = |column: u64| {
            tables
                .iter()
                .fold(0.0, |sum, table| sum + table.at(if table.rows == 1 { 0 } else { row }, column))
        };
        let mut line = Vec::new();
        push_bf16(&mut line, &(0..width).map(sum).collect::<Vec<f32>>());
        write(plan.places + row * plan.embedding_row, &line);
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
        let bytes = plan.constants.bytes * slices * plan.options.all_pes();
        Blocks { plan, slices, bytes: vec![0; to_index(bytes)] }
    }

    fn put(&mut self, pe: u64, slice: u64, place: u64, value: f32) {
        let block_bytes = self.plan.constants.bytes;
        if place.exact_add(4) > block_bytes {
            broken(format_args!("a constant at {place} of a block of {block_bytes} B"));
        }
        let at = to_index((pe * self.slices + slice) * block_bytes + place);
        let word = self.bytes.get_mut(at..at + 4).or_broken("a slice has its block of constants");
        word.copy_from_slice(&value.to_le_bytes());
    }

    /// Gains and biases of all norms, which must be those of the kernels.
    fn norms(&mut self, kernels: &Kernels, constants: &Constants<'_>) -> Result<(), CompileError> {
        let plan = self.plan;
        if !kernels.kernels.iter().filter_map(gain).eq(plan.norms.iter().cloned()) {
            broken(format_args!("the plan has other norms than the kernels"));
        }
        for (index, (gain, bias)) in (0..).zip(&plan.norms) {
            self.gain(index, &constants(gain)?);
            if let Some(bias) = bias {
                self.norm_bias(index, &constants(bias)?);
            }
        }
        if kernels.kernels.iter().any(|kernel| matches!(kernel, Kernel::Norm { norm: Norm::Layer, .. })) {
            self.ones();
        }
        Ok(())
    }

    /// A word for each column of a norm, in all slices.
    fn by_column(&mut self, place: u64, value: impl Fn(u64) -> f32) {
        let Features { share, band_slices, .. } = self.plan.features;
        for pe in 0..self.plan.options.all_pes() {
            for slice in 0..self.slices {
                for at in 0..share {
                    self.put(pe, slice, place + 4 * at, value(slice % band_slices * share + at));
                }
            }
        }
    }

    fn gain(&mut self, index: u64, gain: &Matrix) {
        let constants = self.plan.constants.clone();
        self.by_column(constants.gain(index, false), |column| gain.at(0, column));
        self.by_column(constants.gain(index, true), |column| gain.at(0, column).abs());
    }

    fn norm_bias(&mut self, index: u64, bias: &Matrix) {
        self.by_column(self.plan.constants.norm_bias(index), |column| bias.at(0, column));
    }

    fn ones(&mut self) {
        let width = self.plan.features.width;
        self.by_column(self.plan.constants.ones(), |column| if column < width { 1.0 } else { 0.0 });
    }

    /// What integers of a weight's columns are worth, over the unit of activations if they are integers too.
    fn scales(&mut self, source: &Source<'_>) {
        let (constants, kernel) = (self.plan.constants.clone(), source.packed.kernel);
        let places = |fill| constants.projected(kernel, fill);
        let unit = if source.packed.dtype == Dtype::I8 { UNIT } else { 1.0 };
        let place = if source.combines { constants.combined(kernel) } else { 0 };
        self.weight(source, place, places, |slice, column| source.scale(slice, column) / unit);
    }

    /// What is added to a weight's columns.
    fn biases(&mut self, source: &Source<'_>) {
        let (constants, kernel) = (self.plan.constants.clone(), source.packed.kernel);
        let combined = constants.combined_bias(kernel);
        let place =
            if source.combines { combined.or_broken("a combination with a bias has its place") } else { 0 };
        let places =
            |fill| constants.projected_bias(kernel, fill).or_broken("a tile with a bias has its place");
        self.weight(source, place, places, |slice, column| source.bias(slice, column));
    }

    /// A word for each column of a weight.
    fn weight(
        &mut self,
        source: &Source<'_>,
        combined: u64,
        projected: impl Fn(usize) -> (u64, u64),
        value: impl Fn(u64, u64) -> f32,
    ) {
        if source.combines {
            for slice in 0..self.slices {
                for column in 0..self.plan.features.share {
                    let of_band = slice % self.plan.features.band_slices;
                    self.put(source.pe, slice, combined + 4 * column, value(of_band, column));
                }
            }
            return;
        }
        for (index, fill) in source.packed.fills.iter().enumerate() {
            let (place, words) = projected(index);
            for column in 0..fill.groups * source.lanes {
                let (slice, at) = (column / words.max(1), column % words.max(1));
                let word = value(0, fill.first * source.lanes + column);
                self.put(source.pe, slice, place + 4 * at, word);
            }
        }
    }
}

struct Source<'s> {
    plan: &'s Plan,
    packed: &'s Packed,
    weights: &'s [WeightMatrix],
    matrices: &'s [Matrix],
    scales: &'s [Vec<f32>],
    biases: &'s [Option<Matrix>],
    first: &'s [u64],
    combines: bool,
    lanes: u64,
    pe: u64,
}

impl Source<'_> {
    /// Slice after slice, in the order of the fill; in each the rows of its columns.
    fn fill(&self, fill: &Fill) -> Vec<u8> {
        let slices: Vec<u64> = fill.slices_in_order(self.packed.slices).collect();
        let parts: Vec<Vec<u8>> = slices.into_par_iter().map(|slice| self.slice(fill, slice)).collect();
        parts.concat()
    }

    fn slice(&self, fill: &Fill, slice: u64) -> Vec<u8> {
        let columns = fill.first * self.lanes..(fill.first + fill.groups) * self.lanes;
        let (mut line, mut elements) = (Vec::new(), Vec::new());
        let held = self.packed.held;
        for column in columns {
            elements.clear();
            self.push_elements(&mut elements, slice, column);
            if held.is_float() {
                push_bf16(&mut line, &elements);
                continue;
            }
            let scale = self.scale(slice, column);
            let integer = |element: &f32| quantised(*element, scale, greatest(held)).to_le_bytes()[0];
            let integers = elements.iter().map(integer);
            if held == Dtype::I4 {
                // Two of four bits in a byte, the first in the low half; rows are whole eights.
                let integers: Vec<u8> = integers.collect();
                line.extend(
                    integers.chunks(2).map(|two| two.iter().rev().fold(0, |byte, i| byte << 4 | i & 0xF)),
                );
            } else {
                line.extend(integers);
            }
        }
        line
    }

    /// What an integer of a column is worth.
    fn scale(&self, slice: u64, column: u64) -> f32 {
        let Some((part, row)) = self.row(slice, column) else { return 0.0 };
        let scales = self.scales.get(part).map_or(&[][..], Vec::as_slice);
        *scales.get(to_index(row)).or_broken("a row of a weight has its scale")
    }

    /// What is added to a column.
    fn bias(&self, slice: u64, column: u64) -> f32 {
        let Some((part, row)) = self.row(slice, column) else { return 0.0 };
        self.biases.get(part).and_then(Option::as_ref).map_or(0.0, |bias| bias.at(0, row))
    }

    /// The matrix and the row of it that a column comes from.
    fn row(&self, slice: u64, column: u64) -> Option<(usize, u64)> {
        let column = if self.combines { slice * self.plan.features.share + column } else { column };
        let part = self.first.iter().rposition(|first| *first <= column);
        let part = part.or_broken("the first part of a weight begins with its first column");
        let weight = self.weights.get(part).or_broken("a part of a weight has its matrix");
        let row = weight.rows.source(self.pe, column - self.first[part]);
        row.map(|row| (part, row))
    }

    /// Appends the weights of a column of the result, for all places of the contracted axis that a slice has.
    fn push_elements(&self, elements: &mut Vec<f32>, slice: u64, column: u64) {
        let count = self.packed.row;
        let first = if self.combines { 0 } else { slice * self.plan.features.share };
        let Some((part, row)) = self.row(slice, column) else {
            return elements.resize(elements.len() + to_index(count), 0.0);
        };
        let (weight, matrix) = (&self.weights[part], &self.matrices[part]);
        let element =
            |at: u64| weight.columns.source(self.pe, at).map_or(0.0, |column| matrix.at(row, column));
        elements.extend((first..first + count).map(element));
    }
}
