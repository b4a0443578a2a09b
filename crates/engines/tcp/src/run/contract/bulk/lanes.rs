//! Small products of bf16 with all lanes side by side: rows of the register files are too short for kernels that go along them, but lanes
//! meet the same elements of the stream, so that the tree of one is the tree of all.
//!
//! Floats go this way only while nothing can be subnormal (see `values::range`); what may be is left to others.

use tilewright_num::Dtype;

use super::product::{Product, is_run};
use super::{Layout, Place};
use crate::program::exec::ContractOp;
use crate::run::index;
use crate::values::{Path, sum_word};

/// Lanes that are taken side by side.
const LANES: usize = 8;
/// Most neighbours of the tree.
const MAX_TREE: usize = 32;
/// Elements of a lane's rows that one product asks for, up to which it is small.
const SMALL_ELEMENTS: usize = 1 << 9;

/// An element of every lane.
type Side = [f32; LANES];

impl Layout<'_> {
    /// Whether products are small ones.
    pub(super) fn is_small(&self) -> bool {
        let plan = &self.plan;
        plan.lanes == LANES
            && (plan.dtype, plan.image.dtype) == (Dtype::Bf16, Dtype::Bf16)
            && plan.image.op == ContractOp::Add
            && plan.tree <= MAX_TREE
            && self.k().saturating_mul(self.trf_rows.len()) <= SMALL_ELEMENTS
    }
}

impl Product<'_> {
    /// All results; `None` if they have to be found in another way.
    pub(super) fn side_by_side(&self) -> Option<Vec<u32>> {
        let layout = self.layout;
        let mut words = vec![0; index(layout.plan.words())];
        let mut rows = Vec::new();
        let mut all = Vec::new();
        let part = layout.plan.reads().part;
        for lane in 0..LANES {
            all.push(layout.plan.lane_part(self.trf.bytes, lane, &part)?);
        }
        let path = Path::best();
        if !path.exact_products(&self.stream, &all) {
            return None;
        }
        for batch in &layout.batch {
            for column in 0..layout.columns().1 {
                rows.clear();
                for half in self.stream_operand(batch, column).as_chunks().0 {
                    rows.push(value(*half));
                }
                for trf_row in &layout.trf_rows {
                    self.small(batch, trf_row, column, &rows, &mut words)?;
                }
            }
        }
        Some(words)
    }

    /// A row of every lane with all rows of the stream.
    fn small(
        &self,
        batch: &Place,
        trf_row: &Place,
        column: usize,
        rows: &[f32],
        words: &mut [u32],
    ) -> Option<()> {
        let (layout, plan) = (self.layout, &self.layout.plan);
        let elements = layout.unit(column);
        if !is_run(elements) {
            return None;
        }
        let (joined, k) = (layout.columns().0, layout.k().max(1));
        let mut sums = [[0.0; LANES]; super::few::FEW_ROWS];
        for (step, rows_at) in layout.summed.iter().zip((0..).step_by(plan.tree)) {
            let first = batch.trf + trf_row.trf + step.trf + elements.first()?;
            let sides = self.sides(usize::try_from(first).ok()?, elements.len())?;
            for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(k)) {
                let tree = tree(&sides[..plan.tree], &row[rows_at..rows_at + plan.tree]);
                add(sum, &tree);
            }
        }
        for (row, sum) in sums.iter().enumerate().take(layout.rows_a()) {
            let stream_row = layout.stream_rows.get(row / joined)?;
            let result = (batch.result + stream_row.result + trf_row.result) * plan.block_words();
            for (lane, sum) in sum.iter().enumerate() {
                words[result + plan.word_of(lane, column + row % joined)] = sum_word(*sum);
            }
        }
        Some(())
    }

    /// So many elements of all lanes from one on, and zeros behind them; `None` where the register file ends before.
    fn sides(&self, first: usize, count: usize) -> Option<[Side; MAX_TREE]> {
        let plan = &self.layout.plan;
        let range = first.checked_mul(2)?..first.checked_add(count)?.checked_mul(2)?;
        let mut lanes = [&[][..]; LANES];
        for (lane, halves) in lanes.iter_mut().enumerate() {
            *halves = plan.lane(self.trf.bytes, lane).get(range.clone())?.as_chunks::<2>().0;
        }
        let mut sides = [[0.0; LANES]; MAX_TREE];
        for (at, side) in sides.iter_mut().enumerate().take(count) {
            for (value, lane) in side.iter_mut().zip(&lanes) {
                *value = self::value(lane[at]);
            }
        }
        Some(sides)
    }
}

fn value(half: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(half)) << 16)
}

/// Products of the elements of all lanes with those of a row, neighbours added level by level.
fn tree(sides: &[Side], row: &[f32]) -> Side {
    let mut sums = [[0.0; LANES]; MAX_TREE];
    for ((sum, side), value) in sums.iter_mut().zip(sides).zip(row) {
        *sum = side.map(|element| element * value);
    }
    let mut left = sides.len();
    while left > 1 {
        left /= 2;
        for at in 0..left {
            let mut sum = sums[2 * at];
            add(&mut sum, &sums[2 * at + 1]);
            sums[at] = sum;
        }
    }
    sums[0]
}

fn add(sums: &mut Side, others: &Side) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}
