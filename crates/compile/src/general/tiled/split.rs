//! How a tile is spread over the slices of a PE, or of PEs that are fused: rows, columns and the sum, each
//! over a power of two of them.
//!
//! What several slices need, transfers bring to each of them, or to one of a ring of the switch engine which
//! passes it on. A ring is as slow as it is long; a copy takes time of the DMA engine.

use tilewright_base::invariant::OrBroken;

/// Powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Split {
    /// PEs whose slices work together.
    pub(super) fused: u64,
    /// Slices with columns of their own.
    pub(super) columns_log2: u8,
    /// Slices with a part of the sum of their own.
    pub(super) summed_log2: u8,
    /// Slices with other columns to which a ring passes rows on; the rest have copies.
    pub(super) rows_ring_log2: u8,
    /// Slices with other rows to which a ring passes columns on; the rest have copies.
    pub(super) columns_ring_log2: u8,
    /// What windows look at comes once, and is fetched window by window.
    pub(super) patches: bool,
}

/// Slices over rows, columns and the sum, the sum over neighbours; rings of rows and of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) summed: u64,
    pub(super) rows_ring: u64,
    pub(super) columns_ring: u64,
}

impl Split {
    /// All splits over so many PEs together, of so many slices each: rings are all that need the same, a half
    /// or a quarter of it, or none.
    pub(super) fn all(fused: u64, slices: u64) -> Vec<Split> {
        let most = log2(fused * slices);
        let mut all = Vec::new();
        for columns_log2 in 0..=most {
            for summed_log2 in 0..=most - columns_log2 {
                for rows_ring_log2 in rings(columns_log2) {
                    for columns_ring_log2 in rings(most - columns_log2 - summed_log2) {
                        let rings = (rows_ring_log2, columns_ring_log2);
                        let one = Split::new(fused, columns_log2, summed_log2, rings);
                        if fused == 1 || one.crosses(slices) {
                            all.push(one);
                        }
                    }
                }
            }
        }
        all
    }

    fn new(
        fused: u64,
        columns_log2: u8,
        summed_log2: u8,
        (rows_ring_log2, columns_ring_log2): (u8, u8),
    ) -> Split {
        Split { fused, columns_log2, summed_log2, rows_ring_log2, columns_ring_log2, patches: false }
    }

    /// All splits of a PE whose slices fetch windows from what they look at: slices have whole sums.
    pub(super) fn all_of_patches(slices: u64) -> Vec<Split> {
        let whole = Split::all(1, slices).into_iter().filter(|one| one.summed_log2 == 0);
        whole.map(|one| Split { patches: true, ..one }).collect()
    }

    /// Whether a ring or a sum goes from one PE to the next: without that, PEs work as well one by one.
    fn crosses(self, slices: u64) -> bool {
        let inside = log2(slices);
        let rows = self.rows_ring_log2 > 0 && self.rows_ring_log2 + self.summed_log2 > inside;
        let around = self.columns_ring_log2 + self.columns_log2 + self.summed_log2;
        rows || self.summed_log2 > inside || self.columns_ring_log2 > 0 && around > inside
    }

    /// The same in slices.
    pub(super) fn over(self, slices: u64) -> Spread {
        Spread {
            rows: 1 << (log2(slices) - self.columns_log2 - self.summed_log2),
            columns: 1 << self.columns_log2,
            summed: 1 << self.summed_log2,
            rows_ring: 1 << self.rows_ring_log2,
            columns_ring: 1 << self.columns_ring_log2,
        }
    }
}

impl Spread {
    /// Slices.
    pub(super) fn slices(&self) -> u64 {
        self.rows * self.columns * self.summed
    }

    /// Copies of rows that transfers bring.
    pub(super) fn row_copies(&self) -> u64 {
        self.columns / self.rows_ring
    }

    /// Copies of columns that transfers bring.
    pub(super) fn column_copies(&self) -> u64 {
        self.rows / self.columns_ring
    }
}

fn rings(log2: u8) -> impl Iterator<Item = u8> {
    (0..=log2).filter(move |ring| *ring == 0 || ring + 2 >= log2)
}

fn log2(slices: u64) -> u8 {
    u8::try_from(slices.max(1).ilog2()).or_broken("a logarithm of 64 bits is below 64")
}
