//! The space: which tiles, blocks and orders are tried.
//!
//! Tiles are as large as the array takes, halves and quarters of it, or as large as makes all tiles equal.
//! Blocks are powers of two, and the whole axis.

use tilewright_notation::syntax::ast::Operand;

use super::point::{
    BlockCopies, DrainEngine, MatmulAxis, NeuronChoice, NeuronFrame, ORDERS, PartialSums, TilingPlan,
};
use super::task::NeuronTask;

/// Most blocks of an input that SBUF keeps.
pub const MOST_BUFFERS: u8 = 3;

/// All frames of a task, in a fixed order.
pub fn frames(task: &NeuronTask<'_>) -> Vec<NeuronFrame> {
    let tensor = &task.chip.neuron.tensor;
    let most = [tensor.stationary_free_max, tensor.moving_free_max, task.chip.neuron.sbuf.partitions];
    let mut frames = Vec::new();
    for stationary in [Operand::In0, Operand::In1] {
        let extents = task.extents(stationary);
        let [held, moving, summed] = [0, 1, 2].map(|side| tiles(extents[side], most[side]));
        for held in &held {
            for moving in &moving {
                for summed in &summed {
                    frames.push(NeuronFrame { stationary, tile: [*held, *moving, *summed] });
                }
            }
        }
    }
    frames
}

/// Tiles to try along an axis, largest first.
fn tiles(extent: u64, most: u64) -> Vec<u64> {
    let widest = extent.min(most).max(1);
    let mut sizes = vec![widest, extent.div_ceil(extent.div_ceil(widest).max(1)).max(1)];
    sizes.extend([most / 2, most / 4].into_iter().filter(|size| *size > 0 && *size < widest));
    sizes.dedup();
    sizes
}

/// Blocks to try along an axis of so many tiles.
pub fn blocks(tiles: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(2));
    let mut sizes: Vec<u64> = powers.take_while(|power| *power < tiles).collect();
    sizes.push(tiles);
    sizes
}

/// Orders that differ: of those that run the same loops in the same order once loops of one iteration are
/// left out, the first.
pub fn is_canonical(plan: &TilingPlan) -> bool {
    let long = |order: [MatmulAxis; 3]| order.map(|side| (plan.cut(side).blocks() > 1).then_some(side));
    let same = |a: [MatmulAxis; 3], b: [MatmulAxis; 3]| long(a).iter().flatten().eq(long(b).iter().flatten());
    let at = usize::from(plan.choice.order);
    ORDERS.iter().take(at).all(|earlier| !same(*earlier, plan.order()))
}

/// What is tried for a block and an order: places of sums, copies, buffers and who drains, without those that
/// change nothing.
pub fn variants(plan: &TilingPlan) -> impl Iterator<Item = NeuronChoice> + use<> {
    let plan = *plan;
    let summed = plan.cut(MatmulAxis::Summed);
    let sums: &[PartialSums] =
        if summed.blocks() > 1 { &[PartialSums::Psum, PartialSums::Sbuf] } else { &[PartialSums::Psum] };
    let copies: &[BlockCopies] =
        if summed.block > 1 { &[BlockCopies::Block, BlockCopies::Tile] } else { &[BlockCopies::Block] };
    let most = plan.loads(MatmulAxis::Held).max(plan.loads(MatmulAxis::Moving)).min(u64::from(MOST_BUFFERS));
    let most = u8::try_from(most).unwrap_or(MOST_BUFFERS);
    sums.iter().flat_map(move |sums| {
        // The Scalar engine does not add two tensors.
        let drains: &[DrainEngine] = if *sums == PartialSums::Sbuf {
            &[DrainEngine::Vector]
        } else {
            &[DrainEngine::Vector, DrainEngine::Scalar, DrainEngine::Both]
        };
        copies.iter().flat_map(move |copies| {
            (1..=most).flat_map(move |buffers| {
                drains.iter().map(move |drain| NeuronChoice {
                    sums: *sums,
                    copies: *copies,
                    buffers,
                    drain: *drain,
                    ..plan.choice
                })
            })
        })
    })
}
