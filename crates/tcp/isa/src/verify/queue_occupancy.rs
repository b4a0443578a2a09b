//! Room in the command queue: how many entries may be waiting when a command is pushed without a look (paper
//! section V-A: 64 entries).

use tilewright_base::Span;

use crate::capped::{Capped, TOO_MANY};
use crate::program::Step;
use crate::program::control::{ControlExpr, ControlOperand, StepKind};

/// The first step that may push into a full queue, with the entries that may be there.
pub(super) fn first_overflow(steps: &[Step], entries: u64) -> Option<(Span, u64)> {
    let mut room = QueueOccupancy { entries, waiting: 0, overflow: None };
    room.walk(steps, 0);
    room.overflow
}

/// Loops and branches inside one another that any reader of programs follows.
pub const MAX_NESTING: usize = 16;

struct QueueOccupancy {
    entries: u64,
    waiting: u64,
    overflow: Option<(Span, u64)>,
}

impl QueueOccupancy {
    fn walk(&mut self, steps: &[Step], depth: usize) {
        if depth > MAX_NESTING {
            return;
        }
        for step in steps {
            match &step.kind {
                // Waits for room, so there is one entry at least for it.
                StepKind::Push(_) => self.waiting = (self.waiting + 1).min(self.entries),
                StepKind::PushUnchecked(_) => self.push(step.span, 1),
                StepKind::Sync | StepKind::Read { .. } => self.waiting = 0,
                StepKind::For { from, to, body, .. } => {
                    self.repeat(body, trips(*from, *to), depth);
                }
                StepKind::While { body, .. } => self.repeat(body, None, depth),
                StepKind::If { then, otherwise, .. } => {
                    let before = self.waiting;
                    self.walk(then, depth + 1);
                    let after = std::mem::replace(&mut self.waiting, before);
                    self.walk(otherwise, depth + 1);
                    self.waiting = self.waiting.max(after);
                }
                StepKind::Set(..)
                | StepKind::Await { .. }
                | StepKind::Post { .. }
                | StepKind::Receive { .. } => {}
            }
        }
    }

    fn push(&mut self, span: Span, count: u64) {
        self.waiting = self.waiting.capped_add(count);
        if self.waiting > self.entries && self.overflow.is_none() {
            self.overflow = Some((span, self.waiting));
        }
    }

    /// A body that runs `trips` times, or any number.
    fn repeat(&mut self, body: &[Step], trips: Option<u64>, depth: usize) {
        let before = self.waiting;
        self.walk(body, depth + 1);
        let grown = self.waiting.saturating_sub(before);
        let more = trips.map_or(TOO_MANY, |trips| trips.saturating_sub(1));
        if grown == 0 || more == 0 || empties(body) {
            // A body that empties the queue starts its next iteration as it left the last.
            if empties(body) && more > 0 {
                self.walk(body, depth + 1);
            }
            return;
        }
        let unchecked = first_unchecked(body, 0);
        match unchecked {
            Some(span) => self.push(span, grown.capped_mul(more)),
            None => self.waiting = self.waiting.capped_add(grown.capped_mul(more)).min(self.entries),
        }
    }
}

fn trips(from: ControlExpr, to: ControlExpr) -> Option<u64> {
    match (from, to) {
        (
            ControlExpr::Operand(ControlOperand::Number(from)),
            ControlExpr::Operand(ControlOperand::Number(to)),
        ) => Some(if to > from { to.abs_diff(from) } else { 0 }),
        _ => None,
    }
}

fn empties(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step.kind, StepKind::Sync | StepKind::Read { .. }))
}

fn first_unchecked(steps: &[Step], depth: usize) -> Option<Span> {
    if depth > MAX_NESTING {
        return None;
    }
    steps.iter().find_map(|step| match &step.kind {
        StepKind::PushUnchecked(_) => Some(step.span),
        StepKind::For { body, .. } | StepKind::While { body, .. } => first_unchecked(body, depth + 1),
        StepKind::If { then, otherwise, .. } => {
            first_unchecked(then, depth + 1).or_else(|| first_unchecked(otherwise, depth + 1))
        }
        _ => None,
    })
}
