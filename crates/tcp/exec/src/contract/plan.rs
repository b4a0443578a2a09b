//! What the registers of the contraction engine ask for, checked once for all slices.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_num::{Dtype, RuleSet};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::{Contract, Drain};

use crate::fault::{ExecProblem, divide, product};
use crate::limits::{MAX_SLICE, index, reach};
use crate::packets::{bytes_from, flight_elements};
use crate::state::LaneReads;
use crate::values::ContractError;
use crate::walk::{check_span, pairs};

/// A checked image.
#[derive(Clone, Copy, Debug)]
pub struct ContractionPlan<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) image: &'a Contract,
    /// Type of the stream.
    pub(super) dtype: Dtype,
    pub(super) flit_bytes: usize,
    /// 32-bit words of a flit.
    pub(super) flit_words: usize,
    /// Flits of the feed unit's buffer.
    pub(super) buffer_flits: u64,
    /// Bytes and elements of a packet.
    pub(super) packet_bytes: usize,
    pub(super) width: usize,
    /// Elements of a packet that meet the register file; the others are inactive and add nothing.
    pub(super) active: usize,
    pub(super) lanes: usize,
    /// Bytes of a lane's part of the register file.
    pub(super) lane_bytes: usize,
    pub(super) tree: usize,
    /// Results of a lane in a step that survive.
    pub(super) columns: usize,
    pub(super) steps: u64,
    pub(super) repeats: u64,
    /// Steps that survive: results are as many times lanes times columns.
    pub(super) survivors: u64,
}

impl<'a> ContractionPlan<'a> {
    /// Checks an image for a stream of type `dtype`.
    ///
    /// # Errors
    /// Counts that do not fit one another, types that are not contracted.
    pub fn new(
        machine: &Tcp,
        rules: &'a RuleSet,
        image: &'a Contract,
        dtype: Dtype,
    ) -> Result<ContractionPlan<'a>, ExecProblem> {
        check_types(dtype, image.dtype)?;
        let flit_bytes = index(machine.network.flit_bytes);
        let packet_bytes = index(image.flits.capped_mul(machine.network.flit_bytes));
        if image.flits == 0 || packet_bytes as u64 > machine.ce.packet_bytes {
            return Err(ExecProblem::Setting("a packet of the contraction engine is one or two flits"));
        }
        if image.lanes == 0 || !machine.ce.lanes.is_multiple_of(image.lanes) {
            return Err(ExecProblem::Setting("lanes in use are a divisor of all lanes"));
        }
        let width = flight_elements(dtype, packet_bytes);
        if !image.tree.is_power_of_two() || image.tree > width as u64 {
            let (asked_elements, largest_elements) = (index(image.tree), width);
            return Err(ContractError::Tree { asked_elements, largest_elements }.into());
        }
        let sizes = || image.steps.iter().map(|step| step.size.fixed());
        let steps = product("steps", sizes(), MAX_SLICE)?;
        let repeats = image.repeats.fixed();
        divide("steps", steps, repeats.max(u64::from(steps == 0)))?;
        let walked =
            product("register file elements", image.loops.iter().map(|row| row.size.fixed()), u64::MAX)?;
        check_span(&pairs(&image.loops))?;
        let active = if steps == 0 { width as u64 } else { divide("register file elements", walked, steps)? };
        if active == 0 || active > width as u64 {
            return Err(ExecProblem::Setting(
                "a step meets more register file elements than a packet has, or none",
            ));
        }
        let surviving = image.steps.iter().filter(|step| !step.summed).map(|step| step.size.fixed());
        let survivors = if steps == 0 { 0 } else { product("results", surviving, MAX_SLICE)? };
        let plan = ContractionPlan {
            rules,
            image,
            dtype,
            flit_bytes,
            flit_words: flit_bytes / 4,
            buffer_flits: machine.ce.flit_buffer_bytes / machine.network.flit_bytes,
            packet_bytes,
            width,
            active: index(active),
            lanes: index(image.lanes),
            lane_bytes: index(machine.ce.lanes * machine.trf_lane_payload_bytes() / image.lanes),
            tree: index(image.tree),
            columns: index(active.div_ceil(image.tree)).min(index(machine.ce.outputs_per_lane)),
            steps,
            repeats,
            survivors,
        };
        if plan.lanes > plan.flit_words {
            return Err(ExecProblem::Setting("a flit of results has no room for so many lanes"));
        }
        product("words of results", [survivors, plan.block_words() as u64], MAX_SLICE)?;
        Ok(plan)
    }

    /// Words that leave on each slice.
    pub(crate) fn words(&self) -> u64 {
        self.survivors.exact_mul(self.block_words() as u64)
    }

    /// Words that one surviving step gives.
    pub(super) fn block_words(&self) -> usize {
        let flits = match self.image.drain {
            Drain::Interleaved => self.columns,
            Drain::Sequential => self.lanes * self.columns.div_ceil(self.flit_words),
        };
        flits * self.flit_words
    }

    /// Where among them the result of a lane and column is: interleaved, a flit holds one column of all
    /// lanes; sequential, eight columns of one lane.
    pub(super) fn word_of(&self, lane: usize, column: usize) -> usize {
        match self.image.drain {
            Drain::Interleaved => column * self.flit_words + lane,
            Drain::Sequential => {
                let chunk = lane * self.columns.div_ceil(self.flit_words) + column / self.flit_words;
                chunk * self.flit_words + column % self.flit_words
            }
        }
    }

    /// Bytes of every lane from the first that a step may look at to the last.
    pub(super) fn reads(&self) -> LaneReads {
        let (low, high) = reach(self.image.loops.iter().map(|row| (row.size.fixed(), row.stride)));
        let bits = u128::from(payload_bits(self.image.dtype));
        let lane_bytes = self.lane_bytes as u128;
        let byte = |element: i64, more: u128| {
            let from_base = u128::from(element.max(0).unsigned_abs()) * bits / 8;
            let end = u128::from(self.image.base) + from_base + more;
            usize::try_from(end.min(lane_bytes)).or_broken("bytes of a lane")
        };
        // Before the base there is nothing to be read.
        let part = byte(low, 0)..byte(high.exact_add(1), 1);
        LaneReads { lanes: self.lanes, lane_bytes: self.lane_bytes, part }
    }

    /// A lane's part of a register file plane, from the base on.
    pub(super) fn lane<'t>(&self, plane: &'t [u8], lane: usize) -> &'t [u8] {
        let start = lane * self.lane_bytes;
        // A register file that was never written has no bytes, and a base outside has none behind it.
        let part = bytes_from(plane, start);
        bytes_from(&part[..part.len().min(self.lane_bytes)], index(self.image.base))
    }
}

/// Pairs of types that the engine multiplies.
fn check_types(a: Dtype, b: Dtype) -> Result<(), ExecProblem> {
    use Dtype::{Bf16, F8E4M3Fn, F8E5M2, I4, I5, I8, I9};
    match (a, b) {
        (I4 | I5, I4 | I5) | (I8 | I9, I8 | I9) => Ok(()),
        (F8E4M3Fn, F8E4M3Fn) | (F8E5M2, F8E5M2) | (Bf16, Bf16) => Ok(()),
        _ => Err(ContractError::Dtypes { a, b }.into()),
    }
}
