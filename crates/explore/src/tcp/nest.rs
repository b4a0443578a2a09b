//! From a frame and a choice to loop sizes: shares of slices, rounding up, and what does not come out (paper
//! section II-A).

use tilewright_notation::syntax::ast::Operand;

use crate::cost_math::CostMath;
use crate::refusal::{CandidateRefusal, RefusalReason};
use crate::tcp::point::{AxisRole, LoopNest, StreamSupply, TcpChoice, TcpFrame};
use crate::tcp::task::{MAX_AXES, TcpTask};

/// A frame with what all of its choices share.
#[derive(Clone, Copy, Debug)]
pub struct FrameContext {
    /// The frame.
    pub frame: TcpFrame,
    roles: [RoleShare; 4],
    /// Role of each axis.
    axis_roles: [AxisRole; MAX_AXES],
    dynamic: [bool; MAX_AXES],
    axes: usize,
}

/// The axes of one role on one slice.
#[derive(Clone, Copy, Debug, Default)]
struct RoleShare {
    /// The axis that is cut further.
    inner: Option<usize>,
    /// Positions of the other axes together.
    outer: u64,
    /// Positions of the inner axis.
    share: u64,
    slices: u64,
}

impl FrameContext {
    /// Gathers what a frame settles.
    pub fn new(task: &TcpTask<'_>, frame: &TcpFrame) -> FrameContext {
        let roles = AxisRole::ALL.map(|role| {
            let inner = frame.inner_axis(task, role);
            let others = (0..task.axes.len()).filter(|index| Some(*index) != inner);
            let outer = others
                .filter(|index| frame.role(task.axes[*index].class) == role)
                .fold(1_u64, |all, index| all.times_cost(frame.share(index)));
            let share = inner.map_or(1, |index| frame.share(index));
            RoleShare { inner, outer, share, slices: frame.role_slices(task, role) }
        });
        let (mut axis_roles, mut dynamic) = ([AxisRole::Batch; MAX_AXES], [false; MAX_AXES]);
        for ((role, dynamic), axis) in axis_roles.iter_mut().zip(&mut dynamic).zip(&task.axes) {
            (*role, *dynamic) = (frame.role(axis.class), axis.dynamic);
        }
        FrameContext { frame: *frame, roles, axis_roles, dynamic, axes: task.axes.len() }
    }

    fn part(&self, role: AxisRole) -> &RoleShare {
        &self.roles[role as usize]
    }

    /// Positions of a role's innermost axis on one slice.
    pub fn share(&self, role: AxisRole) -> u64 {
        self.part(role).share
    }

    /// Positions of all axes of a role on one slice.
    pub fn positions(&self, role: AxisRole) -> u64 {
        self.part(role).outer.times_cost(self.part(role).share)
    }

    /// The axis of a role that is cut into lanes, repeats, columns or packets.
    pub fn inner(&self, role: AxisRole) -> Option<usize> {
        self.part(role).inner
    }

    /// Slices along a role.
    pub fn slices(&self, role: AxisRole) -> u64 {
        self.part(role).slices
    }

    /// The role of an axis.
    pub fn role(&self, axis: usize) -> AxisRole {
        self.axis_roles[axis]
    }

    /// The operand in the register files.
    pub fn stationary(&self) -> Operand {
        self.frame.stationary
    }

    /// Sizes of all loops.
    ///
    /// # Errors
    /// Lanes, columns, repeats or rings that the axes do not fill, and slices of which half would be idle.
    pub fn nest(&self, choice: &TcpChoice) -> Result<LoopNest, CandidateRefusal> {
        let [batch, held, streamed, summed] = &self.roles;
        let ring = if choice.supply == StreamSupply::Own { 1 } else { held.slices };
        refuse(RefusalReason::Lanes, choice.lanes, held.share)?;
        refuse(RefusalReason::Repeats, choice.repeats, held.share.div_ceil(choice.lanes))?;
        refuse(RefusalReason::Columns, choice.columns, streamed.share)?;
        // One element of a sum leaves a packet nothing that lies side by side.
        refuse(RefusalReason::Packet, 2, summed.share)?;
        let rest = held.share.div_ceil(choice.lanes * choice.repeats);
        let rows = streamed.share.div_ceil(choice.columns * ring);
        let chunks = summed.share.div_ceil(choice.tree);
        let mut nest = LoopNest {
            batch: batch.outer.times_cost(batch.share),
            passes: held.outer.times_cost(rest),
            rows: streamed.outer.times_cost(rows),
            ring,
            chunks: summed.outer.times_cost(chunks),
            repeats: choice.repeats,
            lanes: choice.lanes,
            columns: choice.columns,
            tree: choice.tree,
            share: [1; MAX_AXES],
            live: [1; MAX_AXES],
            held_slices: held.slices,
            streamed_slices: streamed.slices,
            summed_slices: summed.slices,
            slices: self.roles.iter().fold(1, |all, part| all * part.slices),
            live_slices: 1,
            live_groups: 1,
            tree_padded: chunks == 1 && choice.tree > summed.share,
            held_padded: chunks == 1 && choice.tree > summed.share,
            streamed_padded: chunks == 1 && choice.tree > summed.share,
        };
        for axis in 0..self.axes {
            let inner = self.part(self.axis_roles[axis]).inner == Some(axis);
            nest.share[axis] = match self.axis_roles[axis] {
                AxisRole::Held if inner => rest * choice.lanes * choice.repeats,
                AxisRole::Streamed if inner => rows * choice.columns * ring,
                AxisRole::Summed if inner && chunks > 1 => chunks * choice.tree,
                _ => self.frame.share(axis),
            };
            self.settle(axis, &mut nest)?;
            if self.dynamic[axis] && inner {
                self.in_time(axis, choice, ring, &nest)?;
            }
        }
        self.whole_ring(ring, rows * choice.columns, &nest)?;
        Ok(nest)
    }

    /// Slices of one axis that work, and whether it has padding.
    fn settle(&self, axis: usize, nest: &mut LoopNest) -> Result<(), CandidateRefusal> {
        let (extent, slices) = (self.frame.extents[axis], 1_u64 << self.frame.slices_log2[axis]);
        let share = nest.share[axis];
        nest.live[axis] = extent.div_ceil(share);
        if nest.live[axis] * 2 <= slices && slices > 1 {
            return Err(CandidateRefusal {
                reason: RefusalReason::IdleSlices,
                need: slices / 2 + 1,
                have: nest.live[axis],
            });
        }
        nest.live_slices *= nest.live[axis];
        if self.axis_roles[axis] != AxisRole::Summed {
            nest.live_groups *= nest.live[axis];
        }
        if share.times_cost(slices) > extent {
            nest.held_padded |= self.axis_roles[axis] != AxisRole::Streamed;
            nest.streamed_padded |= self.axis_roles[axis] != AxisRole::Held;
        }
        Ok(())
    }

    /// The outermost digit of an axis whose size is known only at run time is a loop that a register counts.
    fn in_time(
        &self,
        axis: usize,
        choice: &TcpChoice,
        ring: u64,
        nest: &LoopNest,
    ) -> Result<(), CandidateRefusal> {
        let inside = match self.axis_roles[axis] {
            AxisRole::Held => choice.lanes,
            AxisRole::Streamed => choice.columns,
            AxisRole::Summed => choice.tree,
            AxisRole::Batch => 1,
        };
        let on_ring = self.axis_roles[axis] == AxisRole::Streamed && ring > 1;
        let on_slices = self.frame.slices_log2[axis] > 0;
        let in_time = nest.share[axis] > inside && !on_ring && !on_slices;
        if in_time {
            Ok(())
        } else {
            Err(CandidateRefusal { reason: RefusalReason::Dynamic, need: 1, have: 0 })
        }
    }

    /// Every slice of a ring has rows of its own, or the ring would stop for nothing.
    fn whole_ring(&self, ring: u64, ring_rows: u64, nest: &LoopNest) -> Result<(), CandidateRefusal> {
        let part = self.part(AxisRole::Streamed);
        let Some(axis) = part.inner.filter(|axis| self.frame.slices_log2[*axis] == 0) else {
            return if ring > 1 && part.inner.is_none() {
                Err(CandidateRefusal { reason: RefusalReason::Ring, need: ring, have: 1 })
            } else {
                Ok(())
            };
        };
        let filled = self.frame.extents[axis].div_ceil(ring_rows);
        if ring > 1 && filled < ring {
            return Err(CandidateRefusal { reason: RefusalReason::Ring, need: ring, have: filled });
        }
        debug_assert!(nest.share[axis] >= self.frame.extents[axis], "shares cover the axis");
        Ok(())
    }
}

fn refuse(reason: RefusalReason, need: u64, have: u64) -> Result<(), CandidateRefusal> {
    if need > have { Err(CandidateRefusal { reason, need, have }) } else { Ok(()) }
}
