//! Rows of `b` in panels: so many columns of the output side by side, word after word of k, so that a kernel
//! loads one vector for each word.

use super::shape::ContractError;
use super::simd_path::MAX_TILE_COLUMNS;
use super::words::{OperandWord, RowReader};

/// Bytes of a cache line of most hosts, and of the widest vector.
const LINE_BYTES: usize = 64;

/// All panels of an operand; the last one is filled with zeros.
#[derive(Clone, Debug)]
pub(super) struct Panels<W: OperandWord> {
    words: Vec<W>,
    /// Where the first panel begins: at a cache line, since a vector across two of them takes twice as long.
    first: usize,
    ranges: Vec<W::Range>,
    /// Columns of a panel.
    pub(super) columns: usize,
    /// Words of a row.
    pub(super) row_words: usize,
}

impl<W: OperandWord> Panels<W> {
    /// Packs rows of `row_bytes` each.
    pub(super) fn pack(
        reader: &RowReader,
        bytes: &[u8],
        row_bytes: usize,
        columns: usize,
        row_words: usize,
    ) -> Result<Self, ContractError> {
        let panels = (bytes.len() / row_bytes).div_ceil(columns);
        let panel_words = columns.checked_mul(row_words).ok_or(ContractError::TooLarge)?;
        let all_words = panel_words.checked_mul(panels).ok_or(ContractError::TooLarge)?;
        let mut words = vec![W::default(); all_words.checked_add(LINE_BYTES).ok_or(ContractError::TooLarge)?];
        let first = words.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        let mut ranges = Vec::with_capacity(panels);
        for (panel, rows) in
            words[first..].chunks_exact_mut(panel_words).zip(bytes.chunks(columns * row_bytes))
        {
            pack_rows(reader, rows, row_bytes, columns, panel);
            ranges.push(W::range(panel));
        }
        Ok(Self { words, first, ranges, columns, row_words })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The range of a panel, and `count` words of each of its columns from word `first` on.
    pub(super) fn block(&self, panel: usize, first: usize, count: usize) -> (W::Range, &[W]) {
        let start = self.first + (panel * self.row_words + first) * self.columns;
        (self.ranges[panel], &self.words[start..][..count * self.columns])
    }
}

/// Words that are transposed from rows to lines at a time, so that both sides stay in the nearest cache.
const TURNED_WORDS: usize = 64;

fn pack_rows<W: OperandWord>(
    reader: &RowReader,
    rows: &[u8],
    row_bytes: usize,
    columns: usize,
    panel: &mut [W],
) {
    let mut block = [W::default(); TURNED_WORDS * MAX_TILE_COLUMNS];
    for (index, part) in panel.chunks_mut(TURNED_WORDS * columns).enumerate() {
        let words = part.len() / columns;
        let block = &mut block[..words * columns];
        block.fill(W::default());
        for (row, words) in rows.chunks_exact(row_bytes).zip(block.chunks_exact_mut(words)) {
            reader.read(row, index * TURNED_WORDS, words);
        }
        for (word, line) in part.chunks_exact_mut(columns).enumerate() {
            for (column, place) in line.iter_mut().enumerate() {
                *place = block[column * words + word];
            }
        }
    }
}
