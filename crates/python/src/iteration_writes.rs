//! Bytes of HBM that iterations of an `affine_range` leave with different values: which of them stays depends
//! on the order of the iterations, which the kernel says does not matter. Iterations that leave the same
//! values are no mistake, whatever they had written there in between; neither are sums that all add to.

use std::collections::{BTreeMap, VecDeque};

use tilewright_neuron_exec::Tile;
use tilewright_neuron_isa::written_elements::{differs, last_writes};
use tilewright_neuron_isa::{TensorRegion, TensorView};

use crate::loops::{Carried, Dependence, LoopNest, RunningLoop, carrying, updates};
use crate::session::Session;

/// Writes of one tensor that are looked through before another is made: the newest.
const MAX_WRITES: usize = 1024;
/// Bytes of places that are kept until their iteration ends; beyond it they are compared at once.
const MAX_KEPT_BYTES: usize = 1 << 28;

/// A write in loops, one of which is independent.
struct LoopWrite {
    view: TensorView,
    at: usize,
    nest: LoopNest,
}

/// Writes of a tensor, oldest first; their regions, which all later writes are held against, lie together.
#[derive(Default)]
struct TensorWrites {
    regions: VecDeque<TensorRegion>,
    writes: VecDeque<LoopWrite>,
}

impl TensorWrites {
    /// Forgets what a write hides: all that is in its region, or has its very view.
    fn hide(&mut self, region: &TensorRegion, view: &TensorView) {
        let hides = |(one, write): (&TensorRegion, &LoopWrite)| {
            (!region.sparse && region.covers(one)) || (region == one && write.view == *view)
        };
        let hidden: Vec<bool> = self.regions.iter().zip(&self.writes).map(hides).collect();
        let mut flags = hidden.iter();
        self.regions.retain(|_| flags.next() != Some(&true));
        let mut flags = hidden.iter();
        self.writes.retain(|_| flags.next() != Some(&true));
    }

    fn push(&mut self, region: TensorRegion, write: LoopWrite) {
        if self.writes.len() >= MAX_WRITES {
            self.regions.pop_front();
            self.writes.pop_front();
        }
        self.regions.push_back(region);
        self.writes.push_back(write);
    }
}

/// A write to HBM in independent loops that is about to be made.
pub(crate) struct PendingWrite {
    region: TensorRegion,
    /// Earlier writes of its tensor may touch the same bytes.
    near: bool,
    overwrite: Option<Overwrite>,
}

/// A place that an earlier iteration wrote and this one writes too.
struct Overwrite {
    program: u32,
    tile: Tile,
    before: Vec<u8>,
    /// Elements that the earlier iteration wrote last.
    marked: Vec<bool>,
    later: usize,
    earlier: usize,
    carrier: RunningLoop,
    from: u64,
}

/// Writes to HBM in independent loops, and what iterations that run now wrote over.
#[derive(Default)]
pub(crate) struct IterationWrites {
    writes: BTreeMap<(u32, u32), TensorWrites>,
    overwrites: Vec<Overwrite>,
    kept_bytes: usize,
}

impl IterationWrites {
    /// Forgets a program whose loops are over.
    pub(crate) fn forget(&mut self, program: u32) {
        self.writes.retain(|key, _| key.0 != program);
    }

    /// What iterations that are over wrote over; those of the loops in `running` go on.
    fn ended(&mut self, program: u32, running: &LoopNest) -> Vec<Overwrite> {
        let goes_on = |one: &Overwrite| {
            let same = |other: &RunningLoop| {
                (other.number, other.iteration) == (one.carrier.number, one.carrier.iteration)
            };
            one.program != program || running.iter().any(same)
        };
        let (kept, ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.overwrites).into_iter().partition(goes_on);
        self.overwrites = kept;
        self.kept_bytes = self.overwrites.iter().map(|one| one.before.len()).sum();
        ended
    }
}

/// What a write is about to put over what an earlier iteration of an independent loop left.
fn overwrite(program: u32, to: &Tile, nest: &LoopNest, near: &[&LoopWrite]) -> Option<Overwrite> {
    let carried = |write: &LoopWrite| carrying(&write.nest, nest).filter(|(carrier, _)| carrier.affine);
    if !near.iter().any(|write| carried(write).is_some()) {
        return None;
    }
    let last = last_writes(&to.view, near.iter().map(|write| &write.view));
    let of = |number: &Option<usize>| {
        let write = near.get((*number)?)?;
        carried(write).map(|(carrier, from)| (write.at, carrier, from))
    };
    let (earlier, carrier, from) = last.iter().filter_map(of).next()?;
    let marked: Vec<bool> = last
        .iter()
        .map(|number| of(number).is_some_and(|(_, other, _)| other.number == carrier.number))
        .collect();
    let before = to.packed(&to.storage.lock());
    Some(Overwrite { program, tile: to.clone(), before, marked, later: 0, earlier, carrier, from })
}

impl Session {
    /// What a place of HBM holds before it is written in an independent loop.
    pub(crate) fn before_iteration_write(&mut self, to: &Tile) -> Option<PendingWrite> {
        if !self.values || to.storage.memory.on_chip() || self.loops.running.is_empty() {
            return None;
        }
        let program = self.current_program;
        let nest = self.loops.running.get(&program).filter(|nest| nest.iter().any(|one| one.affine))?;
        let region = TensorRegion::of(to)?;
        let known = self.iteration_writes.writes.get(&(program, region.storage));
        let near: Vec<&LoopWrite> = known
            .iter()
            .flat_map(|known| known.regions.iter().zip(&known.writes))
            .filter(|(one, _)| one.overlaps(&region))
            .map(|(_, write)| write)
            .collect();
        let overwrite = overwrite(program, to, nest, &near);
        Some(PendingWrite { region, near: !near.is_empty(), overwrite })
    }

    /// Notes a write that was recorded last; what it wrote over is compared when its iteration ends.
    pub(crate) fn after_iteration_write(&mut self, to: &Tile, pending: Option<PendingWrite>) {
        let Some(PendingWrite { region, near, overwrite }) = pending else { return };
        let program = self.current_program;
        let (Some(nest), Some(last)) = (self.loops.running.get(&program), self.program.instructions.last())
        else {
            return;
        };
        let at = self.program.instructions.len() - 1;
        let adds = updates(last, &region);
        let writes = self.iteration_writes.writes.entry((program, region.storage)).or_default();
        if near {
            writes.hide(&region, &to.view);
        }
        writes.push(region, LoopWrite { view: to.view.clone(), at, nest: nest.clone() });
        let Some(overwrite) = overwrite.filter(|_| !adds) else { return };
        let overwrite = Overwrite { later: at, ..overwrite };
        let kept = &mut self.iteration_writes;
        if kept.kept_bytes.saturating_add(overwrite.before.len()) > MAX_KEPT_BYTES {
            self.compare_iterations(vec![overwrite]);
        } else {
            kept.kept_bytes += overwrite.before.len();
            kept.overwrites.push(overwrite);
        }
    }

    /// Compares what iterations that are over left with what earlier ones had left.
    pub(crate) fn end_iterations(&mut self) {
        if self.iteration_writes.overwrites.is_empty() {
            return;
        }
        let none = LoopNest::new();
        let running = self.loops.running.get(&self.current_program).unwrap_or(&none);
        let ended = self.iteration_writes.ended(self.current_program, running);
        self.compare_iterations(ended);
    }

    fn compare_iterations(&mut self, ended: Vec<Overwrite>) {
        for one in ended {
            let now = one.tile.packed(&one.tile.storage.lock());
            if differs(&one.marked, &one.before, &now) {
                let carried: Carried = (Dependence::WritesOther, one.earlier, one.carrier, one.from);
                self.report_carried(one.later, carried);
            }
        }
    }
}
