//! Constants that every slice keeps in data memory: gains and biases of norms, what integers of weights are worth, biases of weights.
//!
//! One block a slice: gains of all norms and their magnitudes; for centred norms a one for each real column, and biases; then what
//! belongs to columns of weights: for a combination those of the slice's own columns, for a projection a part of all of them, which
//! switches bring to everyone.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::image::bytes;
use super::plan::Packed;

/// What norms of a model keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Norms {
    /// How many there are.
    pub count: u64,
    /// Whether they subtract the mean first.
    pub centred: bool,
}

/// Words for columns of weights, by kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ByColumn {
    /// Combinations.
    combined: Vec<(usize, u64)>,
    /// Projections: place of each fill, and words of a slice.
    projected: Vec<(usize, Vec<(u64, u64)>)>,
}

/// Places within a slice's block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    share: u64,
    norms: u64,
    scales: ByColumn,
    biases: ByColumn,
    /// Bytes of the block.
    pub bytes: u64,
    /// Where blocks begin in HBM, for the first slice of the first processing element.
    pub at: u64,
}

impl Constants {
    /// Lays the block out for weights, those of combinations marked; scales only for integers.
    pub fn new(
        machine: &Tcp,
        share: u64,
        norms: Norms,
        packed: &[(Packed, bool)],
        scaled: bool,
    ) -> Constants {
        let rows = if norms.centred { 3 * norms.count + 1 } else { 2 * norms.count };
        let row = bytes(Dtype::F32, share);
        let mut all = Constants { share, norms: norms.count, bytes: rows * row, ..Constants::default() };
        for (packed, combines) in packed {
            if scaled {
                let taken = all.by_column(machine, packed, *combines);
                all.scales.join(taken);
            }
            if packed.biased {
                let taken = all.by_column(machine, packed, *combines);
                all.biases.join(taken);
            }
        }
        all.bytes = all.bytes.next_multiple_of(64);
        all
    }

    /// Words for the columns of one weight.
    fn by_column(&mut self, machine: &Tcp, packed: &Packed, combines: bool) -> ByColumn {
        let mut taken = ByColumn::default();
        if combines {
            taken.combined.push((packed.kernel, self.bytes));
            self.bytes += bytes(Dtype::F32, self.share);
            return taken;
        }
        let mut fills = Vec::new();
        for fill in &packed.fills {
            // Whole granules of two words, as many from each slice.
            let words = (fill.groups * machine.ce.lanes).div_ceil(2 * machine.pe.slices) * 2;
            fills.push((self.bytes, words));
            self.bytes += bytes(Dtype::F32, words);
        }
        taken.projected.push((packed.kernel, fills));
        taken
    }

    /// Gains of a norm, or their magnitudes.
    pub fn gain(&self, norm: u64, magnitudes: bool) -> u64 {
        bytes(Dtype::F32, (norm + if magnitudes { self.norms } else { 0 }) * self.share)
    }

    /// A one for each column that there is, a zero for padding.
    pub fn ones(&self) -> u64 {
        bytes(Dtype::F32, 2 * self.norms * self.share)
    }

    /// Biases of a centred norm.
    pub fn norm_bias(&self, norm: u64) -> u64 {
        bytes(Dtype::F32, (2 * self.norms + 1 + norm) * self.share)
    }

    /// Scales of a combination's columns.
    pub fn combined(&self, kernel: usize) -> u64 {
        self.scales.combined(kernel).unwrap_or(0)
    }

    /// Scales of a projection's fill: place, and words of each slice.
    pub fn projected(&self, kernel: usize, fill: usize) -> (u64, u64) {
        self.scales.projected(kernel, fill).unwrap_or((0, 0))
    }

    /// Biases of a combination's columns, if it has any.
    pub fn combined_bias(&self, kernel: usize) -> Option<u64> {
        self.biases.combined(kernel)
    }

    /// Biases of a projection's fill, if it has any: place, and words of each slice.
    pub fn projected_bias(&self, kernel: usize, fill: usize) -> Option<(u64, u64)> {
        self.biases.projected(kernel, fill)
    }
}

impl ByColumn {
    fn join(&mut self, other: ByColumn) {
        self.combined.extend(other.combined);
        self.projected.extend(other.projected);
    }

    fn combined(&self, kernel: usize) -> Option<u64> {
        self.combined.iter().find(|(index, _)| *index == kernel).map(|(_, at)| *at)
    }

    fn projected(&self, kernel: usize, fill: usize) -> Option<(u64, u64)> {
        let found = self.projected.iter().find(|(index, _)| *index == kernel);
        found.and_then(|(_, fills)| fills.get(fill)).copied()
    }
}
