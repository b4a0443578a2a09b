//! Many accesses of one tensor, kept by the part of it that they touch, so that a new one is compared with
//! few.

use std::collections::BTreeMap;

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::program::TensorRegion;

use super::dependences::TileAccess;

/// Parts that an access may cover before it is kept apart.
const MAX_PAGES: u64 = 512;

/// Accesses to one tensor, bucketed by region, so that a new one is compared with few.
pub(crate) struct AccessPages {
    pitch_bytes: u64,
    /// Rows and bytes of a row that a part has.
    grain: (u64, u64),
    parts: BTreeMap<(u64, u64), Vec<(TileAccess, bool)>>,
    wide: Vec<(TileAccess, bool)>,
}

impl AccessPages {
    /// Parts with the row pitch and the size of one of the accesses.
    pub(crate) fn new(like: &TensorRegion) -> AccessPages {
        let size = |range: (u64, u64)| range.1.exact_sub(range.0).max(1);
        let grain = (size(like.rows), size(like.bytes));
        AccessPages { pitch_bytes: like.pitch_bytes, grain, parts: BTreeMap::new(), wide: Vec::new() }
    }

    /// The parts that a region covers; none if there are too many, or if its rows are others.
    fn cover(&self, region: &TensorRegion) -> Option<((u64, u64), (u64, u64))> {
        if region.pitch_bytes != self.pitch_bytes {
            return None;
        }
        let last = |range: (u64, u64)| range.1.exact_sub(1).max(range.0);
        let rows = (region.rows.0 / self.grain.0, last(region.rows) / self.grain.0);
        let bytes = (region.bytes.0 / self.grain.1, last(region.bytes) / self.grain.1);
        let count = (rows.1 - rows.0 + 1).checked_mul(bytes.1 - bytes.0 + 1);
        count.is_some_and(|count| count <= MAX_PAGES).then_some((rows, bytes))
    }

    /// Adds an access; those that a write covers are no longer waited for.
    pub(crate) fn add(&mut self, access: TileAccess, writes: bool, window: u32) {
        let region = access.region;
        match self.cover(&region) {
            None => {
                prune(&mut self.wide, writes, access, window);
                self.wide.push((access, writes));
            }
            Some((rows, bytes)) => {
                for row in rows.0..=rows.1 {
                    for byte in bytes.0..=bytes.1 {
                        let part = self.parts.entry((row, byte)).or_default();
                        prune(part, writes, access, window);
                        part.push((access, writes));
                    }
                }
            }
        }
    }

    /// Calls `visit(access, it wrote)` for every access that may meet a region; some of them twice.
    pub(crate) fn visit_overlapping(&self, region: &TensorRegion, mut visit: impl FnMut(&TileAccess, bool)) {
        self.wide.iter().for_each(|(access, wrote)| visit(access, *wrote));
        match self.cover(region) {
            None => self.parts.values().flatten().for_each(|(access, wrote)| visit(access, *wrote)),
            Some((rows, bytes)) => {
                for row in rows.0..=rows.1 {
                    for (_, part) in self.parts.range((row, bytes.0)..=(row, bytes.1)) {
                        part.iter().for_each(|(access, wrote)| visit(access, *wrote));
                    }
                }
            }
        }
    }

    /// All that are kept, each once.
    pub(crate) fn last(&self) -> Vec<u32> {
        let all = self.parts.values().flatten().chain(&self.wide);
        let mut nodes: Vec<u32> = all.map(|(access, _)| access.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

fn prune(list: &mut Vec<(TileAccess, bool)>, writes: bool, by: TileAccess, window: u32) {
    if writes {
        list.retain(|(earlier, _)| !by.region.covers(&earlier.region));
    } else if TileAccess::many(list.len()) {
        list.retain(|(earlier, wrote)| *wrote || !by.outlasts(earlier, window));
    }
}
