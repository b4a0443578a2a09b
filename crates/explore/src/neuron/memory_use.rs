//! What a candidate takes of SBUF and PSUM (NKI architecture guide, data movement): blocks of both inputs,
//! rows of results on their way out, sums that wait in SBUF; and banks of PSUM for open sums.

use super::point::{MatmulAxis, PartialSums, TilingPlan};
use super::task::NeuronTask;
use crate::refusal::{CandidateRefusal, RefusalReason};
use tilewright_base::invariant::Exact;

/// Bytes of a sum.
pub const SUM_BYTES: u64 = 4;
/// Rows of results that are on their way out at once.
pub const ROWS_OUT: u64 = 2;

/// Bytes of each partition of SBUF, by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Blocks of the stationary operand.
    pub held_bytes: u64,
    /// Blocks of the moving operand.
    pub moving_bytes: u64,
    /// Results on their way out.
    pub out_bytes: u64,
    /// Sums that wait for the next block.
    pub sums_bytes: u64,
    /// Banks of PSUM that one tile of results takes.
    pub tile_banks: u64,
    /// Tiles of results that PSUM has room for.
    pub slots: u64,
}

impl MemoryUse {
    /// What a candidate takes.
    pub fn of(task: &NeuronTask<'_>, plan: &TilingPlan) -> MemoryUse {
        let (input, output) = task.element_bytes();
        let psum = &task.chip.neuron.psum;
        let deep = plan.cut(MatmulAxis::Summed).block.min(plan.cut(MatmulAxis::Summed).tiles());
        let block = |side: MatmulAxis| {
            let columns = plan.cut(side).widest_block();
            columns.exact_mul(deep).exact_mul(input).exact_mul(plan.buffers(side))
        };
        let row = plan.cut(MatmulAxis::Moving).widest_block();
        let rows = plan.cut(MatmulAxis::Held).block.min(plan.cut(MatmulAxis::Held).tiles());
        let waiting = if plan.adds() { plan.open_blocks().exact_mul(rows) } else { 0 };
        let tile_bytes = plan.cut(MatmulAxis::Moving).size(false).exact_mul(SUM_BYTES);
        let tile_banks = tile_bytes.div_ceil(psum.bank_bytes.max(1)).max(1);
        MemoryUse {
            held_bytes: block(MatmulAxis::Held),
            moving_bytes: block(MatmulAxis::Moving),
            out_bytes: row.exact_mul(output).exact_mul(ROWS_OUT),
            sums_bytes: row.exact_mul(SUM_BYTES).exact_mul(waiting),
            tile_banks,
            slots: psum.banks / tile_banks,
        }
    }

    /// Bytes of each partition of SBUF.
    pub fn sbuf_bytes(&self) -> u64 {
        [self.held_bytes, self.moving_bytes, self.out_bytes, self.sums_bytes]
            .into_iter()
            .fold(0, u64::exact_add)
    }
}

/// Whether a candidate fits.
///
/// # Errors
/// The memory that is too small.
pub fn check(task: &NeuronTask<'_>, plan: &TilingPlan) -> Result<MemoryUse, CandidateRefusal> {
    let room = MemoryUse::of(task, plan);
    let banks = task.chip.neuron.psum.banks;
    let open = if plan.choice.sums == PartialSums::Psum { plan.open_tiles_in_psum() } else { 1 };
    let need = open.exact_mul(room.tile_banks);
    if need > banks {
        return Err(CandidateRefusal { reason: RefusalReason::Psum, need, have: banks });
    }
    let (need, have) = (room.sbuf_bytes(), task.chip.sbuf_usable_bytes());
    if need > have {
        return Err(CandidateRefusal { reason: RefusalReason::Sbuf, need, have });
    }
    Ok(room)
}

impl TilingPlan {
    /// Tiles of results that must stay in PSUM at once where it adds over blocks; one otherwise.
    fn open_tiles_in_psum(&self) -> u64 {
        if self.cut(MatmulAxis::Summed).blocks() > 1 { self.open_tiles() } else { 1 }
    }
}
