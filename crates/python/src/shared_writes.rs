//! Bytes of shared HBM that several programs of a launch write while nothing orders them: whether they write
//! the same values is known only here, where the values are.

use std::collections::BTreeMap;

use tilewright_neuron_exec::Tile;
use tilewright_neuron_isa::{MemorySpace, TensorRegion};

use crate::session::Session;

/// Writes of one tensor that are looked through before another is made.
const MAX_WRITES: usize = 4096;

/// Where the programs of a launch wrote, by tensor: program, barriers before it, place.
#[derive(Default)]
pub(crate) struct SharedWrites(BTreeMap<u32, Vec<(u32, u32, TensorRegion)>>);

/// What a place held that others wrote, before it is written again.
pub(crate) struct BytesBefore {
    bytes: Vec<u8>,
    others: Vec<TensorRegion>,
}

/// Whether an element lies in a region without gaps.
fn holds(region: &TensorRegion, byte: u64) -> bool {
    let (row, byte) = match region.pitch_bytes {
        0 => (0, byte),
        pitch => (byte / pitch, byte % pitch),
    };
    !region.sparse
        && (region.rows.0..region.rows.1).contains(&row)
        && (region.bytes.0..region.bytes.1).contains(&byte)
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
        let others: Vec<TensorRegion> = writes
            .iter()
            .filter(|(other, passed, place)| {
                *other != program && *passed == barrier && place.overlaps(&region)
            })
            .map(|&(_, _, place)| place)
            .collect();
        let known = writes.last().is_some_and(|last| *last == (program, barrier, region));
        if writes.len() < MAX_WRITES && !known {
            writes.push((program, barrier, region));
        }
        if others.is_empty() {
            return None;
        }
        Some(BytesBefore { bytes: to.packed(&to.storage.lock()), others })
    }

    /// Marks the last instruction if it put other values over those of another program.
    pub(crate) fn after_write(&mut self, to: &Tile, before: Option<BytesBefore>) {
        let Some(before) = before else { return };
        let after = to.packed(&to.storage.lock());
        let size = to.view.dtype.size_bytes(1).max(1);
        let offsets = to.view.offsets();
        let elements = before.bytes.chunks(size).zip(after.chunks(size)).zip(offsets.iter());
        let differs = elements.into_iter().any(|((was, is), &offset)| {
            let byte = u64::try_from(offset).unwrap_or(u64::MAX).saturating_mul(size as u64);
            was != is && before.others.iter().any(|place| holds(place, byte))
        });
        if let Some(last) = self.program.instructions.last_mut().filter(|_| differs) {
            last.other_values = true;
        }
    }
}
