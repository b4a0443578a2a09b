//! Contraction engine (paper section IV-C; feed unit, register file walk, drains from the vISA book).
//!
//! Flits become packets, each packet meets the register files for so many steps, the tree combines
//! neighbours, accumulators take the steps in, and results leave in groups. Accumulators start at +0 (sums)
//! or below everything (maxima).
//!
//! - `feed`: in-flit transposes, packing, the shifting window of convolutions;
//! - `plan`: what the loops of an image mean, checked once for all slices;
//! - [`literal`]: step by step, lane by lane: the definition;
//! - [`bulk`]: the same through the kernels of [`crate::values`], bit for bit, wherever the loops nest.

pub mod bulk;
mod digits;
mod feed;
pub mod literal;
mod plan;
mod register_file;

pub use plan::ContractionPlan;
pub use register_file::RegisterFileView;

use tilewright_num::Dtype;

use super::fault::ExecProblem;
use super::packets::Packets;
use super::state::{LaneReads, SliceLoads};
use crate::limits::ExecMode;
use bulk::ProductLayout;

/// Words of the flits that leave, for the flits that arrive on one slice.
///
/// # Errors
/// Counts that do not fit one another, types that are not contracted, more steps than a command may have.
pub fn contract(
    plan: &ContractionPlan<'_>,
    flits: Packets,
    trf: RegisterFileView<'_>,
) -> Result<Vec<u32>, ExecProblem> {
    let packets = plan.feed(flits)?;
    GroupContraction::new(*plan, ExecMode::Bulk).words(&packets, trf)
}

/// A contraction on all slices of a command.
pub(super) struct GroupContraction<'a> {
    pub(super) plan: ContractionPlan<'a>,
    layout: Option<ProductLayout<'a>>,
}

impl<'a> GroupContraction<'a> {
    pub(super) fn new(plan: ContractionPlan<'a>, mode: ExecMode) -> GroupContraction<'a> {
        let layout = match mode {
            ExecMode::Literal => None,
            ExecMode::Bulk => ProductLayout::new(plan),
        };
        GroupContraction { plan, layout }
    }

    /// Whether register file loads may be met where their bytes lie.
    pub(super) fn takes_loads(&self) -> bool {
        self.layout.as_ref().is_some_and(ProductLayout::takes_loads)
    }

    /// Whether packets of integers meet the register file with nothing but zeros.
    pub(super) fn gives_zeros(&self, packets: &Packets) -> bool {
        let plain = self.plan.dtype == Dtype::I8 && packets.extra.is_none();
        plain && self.takes_loads() && packets.bytes.iter().all(|byte| *byte == 0)
    }

    /// What is looked at of the register file; `None` where loads of it are met where their bytes lie.
    pub(super) fn reads(&self) -> Option<LaneReads> {
        (!self.takes_loads()).then(|| self.plan.reads())
    }

    /// [`Self::words`] with loads of the register file that were not carried out; `None` where the register
    /// file has to be looked at.
    pub(super) fn words_of_loads(&self, packets: &Packets, loads: SliceLoads<'_>) -> Option<Vec<u32>> {
        self.layout.as_ref()?.contract_loads(packets, loads)
    }

    /// Words of the flits that leave a slice, for packets from [`ContractionPlan::feed`].
    pub(super) fn words(
        &self,
        packets: &Packets,
        trf: RegisterFileView<'_>,
    ) -> Result<Vec<u32>, ExecProblem> {
        let bulk = self.layout.as_ref().map_or(Ok(None), |layout| layout.contract(packets, trf));
        match bulk? {
            Some(words) => Ok(words),
            None => literal::contract(&self.plan, packets, trf),
        }
    }
}
