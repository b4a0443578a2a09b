//! Contraction engine (paper section IV-C; feed unit, register file walk, drains from the vISA book).
//!
//! Flits become packets, each packet meets the register files for so many steps, the tree combines neighbours, accumulators take the
//! steps in, and results leave in groups. Accumulators start at +0 (sums) or below everything (maxima).
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

pub use plan::Plan;
pub use register_file::RegisterFile;

use tilewright_num::Dtype;

use super::fault::Problem;
use super::packets::Packets;
use super::state::{Kept, Reads};
use crate::limits::Way;
use bulk::Layout;

/// Words of the flits that leave, for the flits that arrive on one slice.
///
/// # Errors
/// Counts that do not fit one another, types that are not contracted, more steps than a command may have.
pub fn contract(plan: &Plan<'_>, flits: Packets, trf: RegisterFile<'_>) -> Result<Vec<u32>, Problem> {
    let packets = plan.feed(flits)?;
    Contraction::new(*plan, Way::Bulk).words(&packets, trf)
}

/// A contraction on all slices of a command.
pub(super) struct Contraction<'a> {
    pub(super) plan: Plan<'a>,
    layout: Option<Layout<'a>>,
}

impl<'a> Contraction<'a> {
    pub(super) fn new(plan: Plan<'a>, way: Way) -> Contraction<'a> {
        let layout = match way {
            Way::Literal => None,
            Way::Bulk => Layout::new(plan),
        };
        Contraction { plan, layout }
    }

    /// Whether register file loads may be met where their bytes lie.
    pub(super) fn takes_loads(&self) -> bool {
        self.layout.as_ref().is_some_and(Layout::takes_loads)
    }

    /// Whether packets of integers meet the register file with nothing but zeros.
    pub(super) fn gives_zeros(&self, packets: &Packets) -> bool {
        let plain = self.plan.dtype == Dtype::I8 && packets.extra.is_none();
        plain && self.takes_loads() && packets.bytes.iter().all(|byte| *byte == 0)
    }

    /// What is looked at of the register file; `None` where loads of it are met where their bytes lie.
    pub(super) fn reads(&self) -> Option<Reads> {
        (!self.takes_loads()).then(|| self.plan.reads())
    }

    /// [`Self::words`] with loads of the register file that were not carried out; `None` where the register file has to be looked at.
    pub(super) fn words_of_loads(&self, packets: &Packets, loads: Kept<'_>) -> Option<Vec<u32>> {
        self.layout.as_ref()?.contract_loads(packets, loads)
    }

    /// Words of the flits that leave a slice, for packets from [`Plan::feed`].
    pub(super) fn words(&self, packets: &Packets, trf: RegisterFile<'_>) -> Result<Vec<u32>, Problem> {
        let bulk = self.layout.as_ref().map_or(Ok(None), |layout| layout.contract(packets, trf));
        match bulk? {
            Some(words) => Ok(words),
            None => literal::contract(&self.plan, packets, trf),
        }
    }
}
