//! The space: which tiles, blocks and orders are tried.
//!
//! Tiles are as large as the array takes, halves and quarters of it, or as large as makes all tiles equal. Blocks are powers of two, and
//! the whole axis.

use tilewright_notation::syntax::ast::Operand;

use super::point::{Choice, Copies, Drain, Frame, ORDERS, Plan, Side, Sums};
use super::task::Task;

/// Most blocks of an input that SBUF keeps.
pub const MOST_BUFFERS: u8 = 3;

/// All frames of a task, in a fixed order.
pub fn frames(task: &Task<'_>) -> Vec<Frame> {
    let tensor = &task.chip.neuron.tensor;
    let most = [tensor.stationary_free_max, tensor.moving_free_max, task.chip.neuron.sbuf.partitions];
    let mut frames = Vec::new();
    for stationary in [Operand::In0, Operand::In1] {
        let extents = task.extents(stationary);
        let [held, moving, summed] = [0, 1, 2].map(|side| tiles(extents[side], most[side]));
        for held in &held {
            for moving in &moving {
                for summed in &summed {
                    frames.push(Frame { stationary, tile: [*held, *moving, *summed] });
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

/// Orders that differ: of those that run the same loops in the same order once loops of one iteration are left out, the first.
pub fn is_canonical(plan: &Plan) -> bool {
    let long = |order: [Side; 3]| order.map(|side| (plan.cut(side).blocks() > 1).then_some(side));
    let same = |a: [Side; 3], b: [Side; 3]| long(a).iter().flatten().eq(long(b).iter().flatten());
    let at = usize::from(plan.choice.order);
    ORDERS.iter().take(at).all(|earlier| !same(*earlier, plan.order()))
}

/// What is tried for a block and an order: places of sums, copies, buffers and who drains, without those that change nothing.
pub fn variants(plan: &Plan) -> impl Iterator<Item = Choice> + use<> {
    let plan = *plan;
    let summed = plan.cut(Side::Summed);
    let sums: &[Sums] = if summed.blocks() > 1 { &[Sums::Psum, Sums::Sbuf] } else { &[Sums::Psum] };
    let copies: &[Copies] = if summed.block > 1 { &[Copies::Block, Copies::Tile] } else { &[Copies::Block] };
    let most = plan.loads(Side::Held).max(plan.loads(Side::Moving)).min(u64::from(MOST_BUFFERS));
    let most = u8::try_from(most).unwrap_or(MOST_BUFFERS);
    sums.iter().flat_map(move |sums| {
        // The Scalar engine does not add two tensors.
        let drains: &[Drain] =
            if *sums == Sums::Sbuf { &[Drain::Vector] } else { &[Drain::Vector, Drain::Scalar, Drain::Both] };
        copies.iter().flat_map(move |copies| {
            (1..=most).flat_map(move |buffers| {
                drains.iter().map(move |drain| Choice {
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
