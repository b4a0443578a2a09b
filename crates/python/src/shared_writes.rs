//! Bytes of shared HBM that several programs of a launch write while nothing orders them: whether they write
//! the same values is known only here, where the values are.

use std::collections::BTreeMap;

use tilewright_neuron_exec::Tile;
use tilewright_neuron_isa::written_elements::{differs, last_writes};
use tilewright_neuron_isa::{MemorySpace, TensorRegion, TensorView};

use crate::session::Session;

/// Writes of one tensor that are looked through before another is made.
const MAX_WRITES: usize = 4096;

/// A write of a program, which has met the others so often before.
struct ProgramWrite {
    program: u32,
    barrier: u32,
    region: TensorRegion,
    view: TensorView,
}

/// Where the programs of a launch wrote, by tensor.
#[derive(Default)]
pub(crate) struct SharedWrites(BTreeMap<u32, Vec<ProgramWrite>>);

/// What a place held that others wrote, before it is written again.
pub(crate) struct BytesBefore {
    bytes: Vec<u8>,
    /// Elements that others wrote.
    marked: Vec<bool>,
}

impl Session {
    /// What a place of shared HBM holds, if another program wrote there with nothing in between.
    pub(crate) fn before_write(&mut self, to: &Tile) -> Option<BytesBefore> {
        if !self.values || self.programs < 2 || to.storage.memory != MemorySpace::SharedHbm {
            return None;
        }
        let region = TensorRegion::of(to)?;
        let (program, barrier) = (self.current_program, self.current_barrier);
        let writes = self.shared_writes.0.entry(region.storage).or_default();
        let theirs = |one: &&ProgramWrite| {
            one.program != program && one.barrier == barrier && one.region.overlaps(&region)
        };
        let others: Vec<&TensorView> = writes.iter().filter(theirs).map(|one| &one.view).collect();
        let marked: Vec<bool> = if others.is_empty() {
            Vec::new()
        } else {
            last_writes(&to.view, others.into_iter()).iter().map(Option::is_some).collect()
        };
        let same =
            |one: &ProgramWrite| (one.program, one.barrier) == (program, barrier) && one.view == to.view;
        if writes.len() < MAX_WRITES && !writes.last().is_some_and(same) {
            writes.push(ProgramWrite { program, barrier, region, view: to.view.clone() });
        }
        let any = marked.iter().any(|&marked| marked);
        any.then(|| BytesBefore { bytes: to.packed(&to.storage.lock()), marked })
    }

    /// Marks the last instruction if it put other values over those of another program.
    pub(crate) fn after_write(&mut self, to: &Tile, before: Option<BytesBefore>) {
        let Some(before) = before else { return };
        let differs = differs(&before.marked, &before.bytes, &to.packed(&to.storage.lock()));
        if let Some(last) = self.program.instructions.last_mut().filter(|_| differs) {
            last.other_values = true;
        }
    }
}
