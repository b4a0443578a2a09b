//! Constants that every slice keeps in data memory: gains of norms, and what integers of weights are worth.
//!
//! One block a slice: gains of all norms and their magnitudes, scales of combinations (those of the slice's own columns), scales of
//! projections (a part of them; switches bring all to everyone).

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::image::bytes;
use super::plan::Packed;

/// Places within a slice's block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    share: u64,
    norms: u64,
    /// Combinations, by kernel.
    combined: Vec<(usize, u64)>,
    /// Projections, by kernel: place of each fill, and words of a slice.
    projected: Vec<(usize, Vec<(u64, u64)>)>,
    /// Bytes of the block.
    pub bytes: u64,
    /// Where blocks begin in HBM, for the first slice of the first processing element.
    pub at: u64,
}

impl Constants {
    /// Lays the block out; scales only for integers.
    pub fn new(machine: &Tcp, share: u64, norms: u64, packed: &[(Packed, bool)], scaled: bool) -> Constants {
        let row = bytes(Dtype::F32, share);
        let mut all = Constants { share, norms, bytes: 2 * norms * row, ..Constants::default() };
        for (packed, combines) in packed.iter().filter(|_| scaled) {
            if *combines {
                all.combined.push((packed.kernel, all.bytes));
                all.bytes += row;
                continue;
            }
            let mut fills = Vec::new();
            for fill in &packed.fills {
                // Whole granules of two words, as many from each slice.
                let words = (fill.groups * machine.ce.lanes).div_ceil(2 * machine.pe.slices) * 2;
                fills.push((all.bytes, words));
                all.bytes += bytes(Dtype::F32, words);
            }
            all.projected.push((packed.kernel, fills));
        }
        all.bytes = all.bytes.next_multiple_of(64);
        all
    }

    /// Gains of a norm, or their magnitudes.
    pub fn gain(&self, norm: u64, magnitudes: bool) -> u64 {
        bytes(Dtype::F32, (norm + if magnitudes { self.norms } else { 0 }) * self.share)
    }

    /// Scales of a combination's columns.
    pub fn combined(&self, kernel: usize) -> u64 {
        self.combined.iter().find(|(index, _)| *index == kernel).map_or(0, |(_, at)| *at)
    }

    /// Scales of a projection's fill: place, and words of each slice.
    pub fn projected(&self, kernel: usize, fill: usize) -> (u64, u64) {
        let found = self.projected.iter().find(|(index, _)| *index == kernel);
        found.and_then(|(_, fills)| fills.get(fill)).copied().unwrap_or((0, 0))
    }
}
