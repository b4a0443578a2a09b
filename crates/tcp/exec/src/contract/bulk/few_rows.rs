//! Products of few rows of the stream, for which the register files are read as they lie.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::ContractOp;

use super::product::{SliceProduct, is_run};
use super::{DigitOffsets, ProductLayout};
use crate::values::{SimdPath, SingleRow};

/// Rows of the stream that meet the register files one after the other.
pub(super) const FEW_ROWS: usize = 4;

impl ProductLayout<'_> {
    /// Whether the stream has few rows to be summed.
    pub(super) fn is_few(&self) -> bool {
        self.plan.image.op == ContractOp::Add && (1..=FEW_ROWS).contains(&self.rows_a())
    }
}

impl SliceProduct<'_> {
    /// Puts the results of one product where they leave; false, and some may be wrong, if they have to be
    /// found in another way.
    pub(super) fn few(&self, batch: &DigitOffsets, column: usize, a: &[u8], words: &mut [u32]) -> bool {
        let (layout, dtype) = (self.layout, self.stream_type);
        let paired = matches!((dtype, self.trf_type), (Dtype::Bf16, Dtype::Bf16) | (Dtype::I8, Dtype::I8));
        if !paired || !layout.is_few() {
            return false;
        }
        let Some(singles) = self.singles(a) else { return false };
        let mut sums = vec![0; layout.rows_b()];
        let gathered = if self.lane_rows(batch, column, 0).is_some() {
            Vec::new()
        } else {
            self.trf_operand(batch, column)
        };
        for (row, single) in singles.iter().enumerate() {
            let found = if gathered.is_empty() {
                let lanes = sums.chunks_exact_mut(layout.trf_rows.len().max(1)).enumerate();
                lanes.into_iter().all(|(lane, sums)| {
                    self.lane_rows(batch, column, lane).is_some_and(|rows| single.sums(dtype, rows, sums))
                })
            } else {
                single.sums(dtype, &gathered, &mut sums)
            };
            if !found {
                return false;
            }
            self.drain_row(batch, column, row, &sums, words);
        }
        true
    }

    /// Rows of the stream, ready to meet others.
    pub(super) fn singles(&self, a: &[u8]) -> Option<Vec<SingleRow>> {
        let single =
            |row: &[u8]| SingleRow::new(SimdPath::best(), self.stream_type, self.layout.plan.tree, row);
        a.chunks_exact((a.len() / self.layout.rows_a()).max(1)).map(single).collect()
    }

    /// All rows of a lane, if they follow each other inside the register file.
    fn lane_rows(&self, batch: &DigitOffsets, column: usize, lane: usize) -> Option<&[u8]> {
        let (layout, elements) = (self.layout, self.layout.unit(column));
        if !layout.trf_rows_in_order || !is_run(elements) {
            return None;
        }
        let size = self.trf_type.size_bytes(1);
        let start = usize::try_from(batch.trf + elements.first()?).ok()?.checked_mul(size)?;
        let length = layout.trf_rows.len() * layout.k() * size;
        layout.plan.lane(self.trf.bytes, lane).get(start..start.checked_add(length)?)
    }

    /// Puts the sums of one row of the stream where they leave: lane after lane, for each row of the register
    /// files.
    pub(super) fn drain_row(
        &self,
        batch: &DigitOffsets,
        column: usize,
        row: usize,
        sums: &[u32],
        words: &mut [u32],
    ) {
        let (layout, plan) = (self.layout, &self.layout.plan);
        let joined = layout.columns().0;
        let Some(stream_row) = layout.stream_rows.get(row / joined) else { return };
        let (count, block) = (layout.trf_rows.len(), plan.block_words());
        for lane in 0..plan.lanes {
            let word = plan.word_of(lane, column + row % joined);
            let first = (batch.result + stream_row.result) * block + word;
            for (trf_row, sum) in layout.trf_rows.iter().zip(&sums[lane * count..]) {
                words[first + trf_row.result * block] = *sum;
            }
        }
    }
}
