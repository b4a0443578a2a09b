//! Bands of slices: a prompt's tokens dealt out over parts of the slices of a processing element.
//!
//! Columns of a narrow model that are dealt out over all slices leave most of a packet empty, and every slice
//! has partial sums of all results to give away: the contraction engine waits for them (paper section IV-C,
//! drain). Each band has all columns of its tokens, and all weights, so that a slice has fewer tokens, and
//! more of a packet. The reducer between slices takes neighbours, and rings of the switch are neighbours too:
//! bands are slices in a row. Weights come from HBM once for each band, since a ring of all slices would take
//! longer.
//!
//! Programs of single tokens use the first band alone; what the others have of a token is zero for them.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::exec::{Context, ExecBody, Fill, Memory};

use super::build::{Build, Mode};
use super::image::{bytes, commit, n};
use super::plan::Options;
use super::sizes::Features;
use crate::kernel::Kernels;

/// Bands that a model can have, as many as are asked for at most: several processing elements deal tokens out
/// among them.
pub fn bands(machine: &Tcp, kernels: &Kernels, options: &Options, asked: u64) -> u64 {
    if options.all_pes() > 1 || options.batch > 1 || kernels.pools() {
        return 1;
    }
    let width = kernels.values.first().map_or(0, |value| value.width);
    Features::most_bands(machine, options.dtype, width).min(asked.max(1))
}

impl Build<'_> {
    /// Bands that have tokens of their own: prompts alone deal them out.
    pub fn bands(&self) -> u64 {
        if self.mode == Mode::Prefill { self.plan.features.bands } else { 1 }
    }

    /// Slices of a band.
    pub fn band_slices(&self) -> u64 {
        self.machine.pe.slices / self.bands().max(1)
    }

    /// Slices that have columns of the residual.
    pub fn with_columns(&self) -> Vec<(u64, u64)> {
        self.columns_from(0, self.bands(), self.band_slices())
    }

    /// The same for some bands of so many slices.
    fn columns_from(&self, first: u64, bands: u64, slices: u64) -> Vec<(u64, u64)> {
        (first..bands).map(|band| (band * slices, band * slices + self.plan.features.slices)).collect()
    }

    /// Zeros for the columns that other bands than the first have of a single token, since its sums are those
    /// of all slices.
    pub(super) fn forget_bands(&mut self) {
        let Features { share, bands, band_slices, .. } = self.plan.features;
        if self.mode != Mode::Decode || bands == 1 {
            return;
        }
        let flit = self.machine.network.flit_bytes;
        let loops = [(n(bytes(Dtype::F32, share).div_ceil(flit)), flit)];
        let mut commit = commit(Memory::Dm, self.at.x, &loops, flit);
        commit.width = self.machine.commit.sub_width_bytes;
        commit.slices = self.columns_from(1, bands, band_slices);
        let (name, context) = ("forget".to_string(), Context::Sub);
        let body = ExecBody::Fill(Fill { word: 0, commit });
        self.emit.exec(Exec { name, context, pes: 1, body, span: Span::default() });
    }
}
