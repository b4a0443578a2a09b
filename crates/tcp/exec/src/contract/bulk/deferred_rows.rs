//! Products of few rows of the stream with register file loads that were not carried out: their bytes are met
//! where they lie.

use super::DigitOffsets;
use super::product::{SliceProduct, is_run};
use crate::limits::index;
use crate::state::{LoadedRows, SliceLoads};
use crate::values::SingleRow;

impl SliceProduct<'_> {
    /// All results; `None` where the register file has to be looked at.
    pub(super) fn run_loads(&self, loads: SliceLoads<'_>) -> Option<Vec<u32>> {
        let mut words = vec![0; index(self.layout.plan.words())];
        for batch in &self.layout.batch {
            for column in 0..self.layout.columns().1 {
                let singles = self.singles(&self.stream_operand(batch, column))?;
                let rows = self.loaded_rows(batch, column, loads)?;
                self.meet(batch, column, &singles, &rows, &mut words)?;
            }
        }
        Some(words)
    }

    /// Rows that one product asks for.
    fn loaded_rows<'l>(
        &self,
        batch: &DigitOffsets,
        column: usize,
        loads: SliceLoads<'l>,
    ) -> Option<LoadedRows<'l>> {
        let (layout, plan) = (self.layout, &self.layout.plan);
        let elements = layout.unit(column);
        if !is_run(elements) {
            return None;
        }
        let size = self.trf_type.size_bytes(1);
        let first = usize::try_from(batch.trf + elements.first()?).ok()?.checked_mul(size)?;
        let start = index(plan.image.base).checked_add(first)?;
        loads.rows((plan.lanes, plan.lane_bytes), start, (layout.trf_rows.len(), layout.k() * size))
    }

    /// Puts the results of one product where they leave.
    fn meet(
        &self,
        batch: &DigitOffsets,
        column: usize,
        singles: &[SingleRow],
        rows: &LoadedRows<'_>,
        words: &mut [u32],
    ) -> Option<()> {
        let (layout, dtype) = (self.layout, self.stream_type);
        let lane_rows = layout.trf_rows.len();
        let lane_bytes = lane_rows * layout.k() * self.trf_type.size_bytes(1);
        let mut sums = Vec::new();
        for (row, single) in singles.iter().enumerate() {
            match rows {
                // Zeros times finite values are what results were made of.
                LoadedRows::Zeros => {}
                LoadedRows::Joined(bytes) => {
                    if let Some(place) = self.joined_place(batch, column, row, words) {
                        single.sums(dtype, bytes, place).then_some(())?;
                        continue;
                    }
                    sums.resize(layout.rows_b(), 0);
                    single.sums(dtype, bytes, &mut sums).then_some(())?;
                    let by_lane: Vec<u32> = (0..layout.rows_b())
                        .map(|at| sums[at % lane_rows * layout.plan.lanes + at / lane_rows])
                        .collect();
                    self.drain_row(batch, column, row, &by_lane, words);
                }
                LoadedRows::ByLane(bytes, step) => {
                    sums.resize(layout.rows_b(), 0);
                    for (lane, sums) in sums.chunks_exact_mut(lane_rows.max(1)).enumerate() {
                        let rows = bytes.get(lane * step..lane * step + lane_bytes)?;
                        single.sums(dtype, rows, sums).then_some(())?;
                    }
                    self.drain_row(batch, column, row, &sums, words);
                }
            }
        }
        Some(())
    }

    /// Where the results of one row of the stream leave, if they leave row after row of the register files,
    /// lane after lane.
    fn joined_place<'w>(
        &self,
        batch: &DigitOffsets,
        column: usize,
        row: usize,
        words: &'w mut [u32],
    ) -> Option<&'w mut [u32]> {
        let (layout, plan) = (self.layout, &self.layout.plan);
        let joined = layout.columns().0;
        let stream_row = layout.stream_rows.get(row / joined)?;
        let block = plan.block_words();
        let word = |lane: usize| plan.word_of(lane, column + row % joined);
        let ordered = block == plan.lanes
            && (0..plan.lanes).all(|lane| word(lane) == lane)
            && layout.trf_rows.iter().enumerate().all(|(at, trf_row)| trf_row.result == at);
        let first = (batch.result + stream_row.result) * block;
        words.get_mut(first..first + layout.rows_b()).filter(|_| ordered)
    }
}
