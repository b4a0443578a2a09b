//! Constants of slices: gains and biases of norms, what integers of weights are worth, biases of weights.
//!
//! One block a slice: for centred norms a one for each real column; then window after window, from each norm
//! to the next: its gains and their magnitudes, its biases, and what belongs to columns of the weights behind
//! it: for a combination those of the slice's own columns, for a projection a part of all of them, which
//! switches bring to everyone. Data memory keeps the whole block, or, if it has better uses for its bytes,
//! two windows in turns, each on its way from HBM while the one before it is in use.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::image::bytes;
use super::plan::Packed;

/// Norms of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Norms {
    /// Indices of their kernels.
    pub kernels: Vec<usize>,
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

/// What is in use from a norm to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its first byte in the block.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Places within a slice's block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    share: u64,
    /// Gains by norm; their magnitudes, and biases, follow each.
    gains: Vec<u64>,
    scales: ByColumn,
    biases: ByColumn,
    /// Windows in the order of their use.
    pub windows: Vec<Window>,
    /// Bytes before the first: always at hand.
    pub common_bytes: u64,
    /// Bytes of the block.
    pub bytes: u64,
    /// Where blocks begin in HBM, for the first slice of the first processing element.
    pub at: u64,
}

/// What windows begin at multiples of.
const GRANULE: u64 = 64;

impl Constants {
    /// Lays the block out for weights, those of combinations marked; scales only for integers.
    pub fn new(
        machine: &Tcp,
        share: u64,
        norms: &Norms,
        packed: &[(Packed, bool)],
        scaled: bool,
    ) -> Constants {
        let row = bytes(Dtype::F32, share);
        let common_bytes = if norms.centred { row.next_multiple_of(GRANULE) } else { 0 };
        let mut all = Constants { share, common_bytes, bytes: common_bytes, ..Constants::default() };
        let firsts = norms.kernels.iter().enumerate().map(|(at, kernel)| if at == 0 { 0 } else { *kernel });
        let firsts: Vec<usize> = firsts.collect();
        for (at, first) in firsts.iter().enumerate() {
            let end = firsts.get(at + 1).copied().unwrap_or(usize::MAX);
            let start = all.bytes;
            all.gains.push(start);
            all.bytes += row * if norms.centred { 3 } else { 2 };
            for (packed, combines) in packed.iter().filter(|(of, _)| (*first..end).contains(&of.kernel)) {
                all.weight(machine, packed, *combines, scaled);
            }
            all.bytes = all.bytes.next_multiple_of(GRANULE);
            all.windows.push(Window { start, bytes: all.bytes - start });
        }
        all
    }

    /// What belongs to a weight.
    fn weight(&mut self, machine: &Tcp, packed: &Packed, combines: bool, scaled: bool) {
        if scaled {
            let taken = self.by_column(machine, packed, combines);
            self.scales.join(taken);
        }
        if packed.biased {
            let taken = self.by_column(machine, packed, combines);
            self.biases.join(taken);
        }
    }

    /// Bytes of the longest window.
    pub fn window_bytes(&self) -> u64 {
        self.windows.iter().map(|window| window.bytes).max().unwrap_or(0)
    }

    /// The window that has a place of the block, and its index.
    pub fn window(&self, place: u64) -> Option<(u64, Window)> {
        let found = self.windows.partition_point(|window| window.start <= place).checked_sub(1)?;
        Some((found as u64, *self.windows.get(found)?))
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

    fn norm(&self, norm: u64, row: u64) -> u64 {
        let gains = self.gains.get(to_index(norm)).or_broken("a norm has its gains among the constants");
        gains + bytes(Dtype::F32, row * self.share)
    }

    /// Gains of a norm, or their magnitudes.
    pub fn gain(&self, norm: u64, magnitudes: bool) -> u64 {
        self.norm(norm, u64::from(magnitudes))
    }

    /// A one for each column that there is, a zero for padding.
    pub fn ones(&self) -> u64 {
        0
    }

    /// Biases of a centred norm.
    pub fn norm_bias(&self, norm: u64) -> u64 {
        self.norm(norm, 2)
    }

    /// Scales of a combination's columns.
    pub fn combined(&self, kernel: usize) -> u64 {
        self.scales.combined(kernel).or_broken("a combination with scales has their place")
    }

    /// Scales of a projection's fill: place, and words of each slice.
    pub fn projected(&self, kernel: usize, fill: usize) -> (u64, u64) {
        self.scales.projected(kernel, fill).or_broken("a tile with scales has their place")
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
