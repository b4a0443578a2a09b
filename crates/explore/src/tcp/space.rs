//! The space: which frames there are, and which choices each leaves open.
//!
//! Slices along an axis are powers of two. A command is repeated for parts of an axis only where one
//! command's operands would not fit the register files or data memory; then for as few parts as fit, or twice
//! as many along one axis.

use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_isa::program::exec::Drain;

use crate::cost_math::CostMath;
use crate::refusal::{CandidateRefusal, RefusalCounts, RefusalReason};
use crate::tcp::cost::{access_bytes, valid_bytes};
use crate::tcp::nest::FrameContext;
use crate::tcp::point::{AxisRole, LoopNest, ORDERS, StreamSupply, TcpFrame, TimeLoop};
use crate::tcp::task::{AxisClass, MAX_AXES, TcpTask};

/// Widths of fetches, or of writes, that a machine may have.
pub const MOST_WIDTHS: usize = 8;
/// Most parts along one axis, as a power of two.
const PARTS_LOG2: u8 = 16;

/// All frames of a task, in a fixed order.
pub fn frames(task: &TcpTask<'_>) -> Vec<TcpFrame> {
    frames_and_misses(task, &mut RefusalCounts::default())
}

/// All frames of a task in a fixed order; splits that fit in no number of parts are counted as refused,
/// with what the smallest part lacks.
pub fn frames_and_misses(task: &TcpTask<'_>, refused: &mut RefusalCounts) -> Vec<TcpFrame> {
    let mut frames = Vec::new();
    for stationary in [Operand::In1, Operand::In0] {
        let mut slices_log2 = [0_u8; MAX_AXES];
        splits(task, 0, task.setup.slices().max(1).ilog2(), &mut slices_log2, &mut |slices_log2| {
            parted(task, stationary, slices_log2, &mut frames, refused);
        });
    }
    frames
}

fn splits(
    task: &TcpTask<'_>,
    axis: usize,
    left: u32,
    slices_log2: &mut [u8; MAX_AXES],
    visit: &mut dyn FnMut(&[u8; MAX_AXES]),
) {
    let Some(extent) = task.axes.get(axis).map(|axis| axis.extent) else { return visit(slices_log2) };
    let most = left.min(extent.next_power_of_two().ilog2());
    for log2 in 0..=most {
        slices_log2[axis] = u8::try_from(log2).unwrap_or(u8::MAX);
        splits(task, axis + 1, left - log2, slices_log2, visit);
    }
    slices_log2[axis] = 0;
}

/// Frames with as few parts as fit.
fn parted(
    task: &TcpTask<'_>,
    stationary: Operand,
    slices_log2: &[u8; MAX_AXES],
    frames: &mut Vec<TcpFrame>,
    refused: &mut RefusalCounts,
) {
    let whole = frame(task, stationary, slices_log2, [0; MAX_AXES]);
    if fits(task, &whole).is_ok() {
        frames.push(whole);
        return;
    }
    let mut minimal: Vec<[u8; MAX_AXES]> = Vec::new();
    cuts(task, &whole, 0, &mut [0; MAX_AXES], &mut minimal);
    if minimal.is_empty() {
        let smallest = smallest_part(task, &whole);
        if let Err(refusal) = fits(task, &smallest) {
            refused.add(refusal);
        }
    }
    let mut all = minimal.clone();
    for cut in &minimal {
        for axis in 0..task.axes.len() {
            let mut more = *cut;
            more[axis] += 1;
            if is_cut(task, axis) && more[axis] <= most_log2(&whole, axis) && !all.contains(&more) {
                all.push(more);
            }
        }
    }
    frames.extend(all.iter().map(|cut| frame(task, stationary, slices_log2, *cut)));
}

/// Whether commands may be repeated for parts of an axis: not of a sum, nor of one whose size is known only
/// at run time.
fn is_cut(task: &TcpTask<'_>, axis: usize) -> bool {
    task.axes[axis].class != AxisClass::Contracted && !task.axes[axis].dynamic
}

fn most_log2(whole: &TcpFrame, axis: usize) -> u8 {
    let share = whole.extents[axis] >> whole.slices_log2[axis];
    u8::try_from(share.max(1).ilog2()).unwrap_or(u8::MAX).min(PARTS_LOG2)
}

/// Cuts that fit and of which no part of the cut can be left out.
fn cuts(
    task: &TcpTask<'_>,
    whole: &TcpFrame,
    axis: usize,
    cut: &mut [u8; MAX_AXES],
    minimal: &mut Vec<[u8; MAX_AXES]>,
) {
    if axis == task.axes.len() {
        let covered = minimal.iter().any(|less| less.iter().zip(&*cut).all(|(a, b)| a <= b));
        if !covered && fits(task, &frame(task, whole.stationary, &whole.slices_log2, *cut)).is_ok() {
            minimal.push(*cut);
        }
        return;
    }
    let most = if is_cut(task, axis) { most_log2(whole, axis) } else { 0 };
    for log2 in 0..=most {
        cut[axis] = log2;
        cuts(task, whole, axis + 1, cut, minimal);
    }
    cut[axis] = 0;
}

fn frame(
    task: &TcpTask<'_>,
    stationary: Operand,
    slices_log2: &[u8; MAX_AXES],
    cut: [u8; MAX_AXES],
) -> TcpFrame {
    let (mut parts, mut extents) = ([1; MAX_AXES], [1; MAX_AXES]);
    for (index, axis) in task.axes.iter().enumerate() {
        parts[index] = 1 << cut[index];
        extents[index] = axis.extent.div_ceil(parts[index]);
    }
    TcpFrame { stationary, parts, slices_log2: *slices_log2, extents }
}

/// As many parts along every axis that is not summed as there may be.
fn smallest_part(task: &TcpTask<'_>, whole: &TcpFrame) -> TcpFrame {
    let mut cut = [0; MAX_AXES];
    for (axis, log2) in cut.iter_mut().enumerate().take(task.axes.len()) {
        if is_cut(task, axis) {
            *log2 = most_log2(whole, axis);
        }
    }
    frame(task, whole.stationary, &whole.slices_log2, cut)
}

/// Whether the least that a slice must hold fits its memories.
fn fits(task: &TcpTask<'_>, frame: &TcpFrame) -> Result<(), CandidateRefusal> {
    let framed = FrameContext::new(task, frame);
    let machine = task.setup.machine;
    let bytes = |elements: u64| elements.times_cost(task.setup.element_bits()).div_ceil(8);
    let [batch, held, streamed, summed] = AxisRole::ALL.map(|role| framed.positions(role));
    let held_bytes = bytes(batch.times_cost(held).times_cost(summed));
    let ring = framed.slices(AxisRole::Held);
    let streamed_bytes = bytes(batch.times_cost(streamed).times_cost(summed)) / ring;
    let results = batch.times_cost(held).times_cost(streamed).times_cost(4);
    let registers = machine.ce.lanes * machine.trf_lane_payload_bytes();
    if held_bytes > registers {
        return Err(CandidateRefusal { reason: RefusalReason::Registers, need: held_bytes, have: registers });
    }
    let need = held_bytes.plus_cost(streamed_bytes).plus_cost(results);
    let have = machine.dm.capacity_bytes;
    if need > have { Err(CandidateRefusal { reason: RefusalReason::DataMemory, need, have }) } else { Ok(()) }
}

/// Lanes to try.
pub fn lanes(setup: &Setup<'_>) -> impl Iterator<Item = u64> + use<> {
    powers(setup.machine.ce.lanes)
}

/// Rows in a packet to try.
pub fn columns(setup: &Setup<'_>, framed: &FrameContext) -> impl Iterator<Item = u64> + use<> {
    powers(setup.machine.ce.outputs_per_lane.min(framed.share(AxisRole::Streamed)))
}

/// Summed elements of a packet to try: powers of two that are whole words of the fetch unit, up to the first
/// that takes the whole sum; and the sum itself, where nothing else is in the packet.
pub fn trees(setup: &Setup<'_>, framed: &FrameContext, columns: u64) -> impl Iterator<Item = u64> + use<> {
    let word = (setup.machine.fetch.packet_granule_bytes * 8 / setup.element_bits()).max(1);
    let (share, most) = (framed.share(AxisRole::Summed), setup.packet_elements() / columns);
    let exact = share.next_multiple_of(word);
    let exact = (columns == 1 && exact <= most && !exact.is_power_of_two()).then_some(exact);
    let first = word.next_power_of_two();
    let powers = std::iter::successors(Some(first), move |tree| (*tree < share).then_some(tree * 2));
    powers.take_while(move |tree| *tree <= most).chain(exact)
}

/// Repeats to try: powers of two, and all that there are.
pub fn repeats(framed: &FrameContext, lanes: u64) -> impl Iterator<Item = u64> + use<> {
    let most = framed.share(AxisRole::Held).div_ceil(lanes);
    powers(most).chain((!most.is_power_of_two()).then_some(most))
}

/// Ways to bring the stream.
pub fn supplies(framed: &FrameContext) -> &'static [StreamSupply] {
    if framed.slices(AxisRole::Held) == 1 {
        &[StreamSupply::Own]
    } else if framed.slices(AxisRole::Summed) > 1 {
        &[StreamSupply::Own, StreamSupply::RingInner]
    } else {
        &[StreamSupply::Own, StreamSupply::RingOuter, StreamSupply::RingInner]
    }
}

/// Whether no other choice has the same loops: those of one iteration come first, in the order of their
/// kinds, and passes directly around the repeats are repeats.
pub fn is_canonical(nest: &LoopNest, order: u8, supply: StreamSupply) -> bool {
    let turns = ORDERS[usize::from(order)];
    if turns[3] == TimeLoop::Passes && nest.passes > 1 && !rings_inside(nest, supply) {
        return false;
    }
    let mut rank_before = 0;
    let mut long = false;
    for turn in turns {
        if nest.turn(turn, supply) > 1 {
            long = true;
        } else if long || (turn as u8) < rank_before {
            return false;
        } else {
            rank_before = turn as u8 + 1;
        }
    }
    true
}

/// Whether slices of a ring take turns inside all loops but the repeats.
pub fn rings_inside(nest: &LoopNest, supply: StreamSupply) -> bool {
    supply == StreamSupply::RingInner && nest.ring > 1
}

/// Bytes of a packet that lie together, widest first: all of it, or less for shapes that cut it.
pub fn fetch_widths(setup: &Setup<'_>, nest: &LoopNest) -> impl Iterator<Item = u64> + use<> {
    let bits = setup.element_bits();
    let (packet, tree) = (nest.columns * nest.tree * bits / 8, nest.tree * bits / 8);
    let widest = access_bytes(setup, packet, packet);
    // Runs that the padding cuts, and those that nothing comes between, are no narrower.
    let whole = nest.tree_padded || nest.streamed_elements() == nest.tree;
    let granule = setup.machine.fetch.packet_granule_bytes;
    let narrower = powers(widest).filter(move |width| {
        *width >= granule && *width < widest && *width < tree && tree.is_multiple_of(*width) && !whole
    });
    std::iter::once(widest).chain(narrower)
}

/// Orders in which sums may leave: one lane of one column in turn, or rows of one sum, are less than the
/// commit unit writes.
pub fn drains(nest: &LoopNest) -> impl Iterator<Item = Drain> + use<> {
    let interleaved = (nest.lanes > 1 || nest.columns == 1).then_some(Drain::Interleaved);
    let sequential = (nest.columns > 1).then_some(Drain::Sequential);
    interleaved.into_iter().chain(sequential)
}

/// Bytes that the commit unit may write at once, widest first: whole parts of what leaves in a cycle.
pub fn commit_widths(setup: &Setup<'_>, nest: &LoopNest, drain: Drain) -> impl Iterator<Item = u64> + use<> {
    let valid = valid_bytes(setup, nest, drain);
    let widths = &setup.machine.commit.main_widths_bytes;
    let fits = |width: &u64| valid.is_multiple_of(*width);
    // What leaves in a cycle is written as it is where no width divides it.
    let widest = widths.iter().copied().filter(fits).max().unwrap_or(valid);
    let next = {
        let mut narrower = [0; MOST_WIDTHS];
        widths.iter().copied().filter(fits).zip(&mut narrower).for_each(|(width, slot)| *slot = width);
        move |width: &u64| narrower.into_iter().filter(|other| *other > 0 && other < width).max()
    };
    std::iter::successors(Some(widest), next)
}

/// Powers of two up to a limit.
fn powers(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |power| power.checked_mul(2)).take_while(move |power| *power <= most)
}
