//! Many accesses of one tensor, kept by the part of it that they touch, so that a new one is compared with few.

use std::collections::BTreeMap;

use super::depend::Access;
use super::tiles::TileFacts;
use crate::program::Region;

/// Parts along either direction.
const PARTS: u64 = 64;
/// Parts that an access may cover before it is kept apart.
const MOST: u64 = 512;

/// Accesses by part.
pub(crate) struct Pages {
    pitch_bytes: u64,
    rows: u64,
    row_bytes: u64,
    parts: BTreeMap<(u64, u64), Vec<(Access, bool)>>,
    wide: Vec<(Access, bool)>,
}

impl Pages {
    /// Parts of a tensor with the row pitch of one of its accesses.
    pub(crate) fn new(facts: &TileFacts, like: &Region) -> Pages {
        let all = facts.bytes.saturating_mul(if facts.memory.on_chip() { facts.partitions } else { 1 });
        let pitch_bytes = like.pitch_bytes;
        let row_bytes = if pitch_bytes == 0 { all.max(1) } else { pitch_bytes };
        let rows = all.div_ceil(row_bytes).max(1);
        Pages { pitch_bytes, rows, row_bytes, parts: BTreeMap::new(), wide: Vec::new() }
    }

    /// The parts that a region covers; none if there are too many, or if its rows are others.
    fn cover(&self, region: &Region) -> Option<((u64, u64), (u64, u64))> {
        if region.pitch_bytes != self.pitch_bytes {
            return None;
        }
        let part = |at: u64, size: u64| at.min(size) / size.div_ceil(PARTS).max(1);
        let last = |range: (u64, u64)| range.1.saturating_sub(1).max(range.0);
        let rows = (part(region.rows.0, self.rows), part(last(region.rows), self.rows));
        let bytes = (part(region.bytes.0, self.row_bytes), part(last(region.bytes), self.row_bytes));
        let count = (rows.1 - rows.0 + 1) * (bytes.1 - bytes.0 + 1);
        (count <= MOST).then_some((rows, bytes))
    }

    /// Adds an access; those that a write covers are no longer waited for.
    pub(crate) fn add(&mut self, access: Access, writes: bool) {
        let region = access.region;
        match self.cover(&region) {
            None => {
                prune(&mut self.wide, &region, writes, access);
                self.wide.push((access, writes));
            }
            Some((rows, bytes)) => {
                for row in rows.0..=rows.1 {
                    for byte in bytes.0..=bytes.1 {
                        let part = self.parts.entry((row, byte)).or_default();
                        prune(part, &region, writes, access);
                        part.push((access, writes));
                    }
                }
            }
        }
    }

    /// Calls `visit(access, it wrote)` for every access that may meet a region; some of them twice.
    pub(crate) fn meet(&self, region: &Region, mut visit: impl FnMut(&Access, bool)) {
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

    /// The latest access of each engine, in the order of the program.
    pub(crate) fn last(&self) -> impl Iterator<Item = u32> {
        let mut latest: BTreeMap<crate::EngineKind, u32> = BTreeMap::new();
        let mut transfers = Vec::new();
        for (access, _) in self.parts.values().flatten().chain(&self.wide) {
            if access.engine == crate::EngineKind::Dma {
                transfers.push(access.node);
            } else {
                let node = latest.entry(access.engine).or_insert(access.node);
                *node = (*node).max(access.node);
            }
        }
        transfers.sort_unstable();
        transfers.dedup();
        latest.into_values().chain(transfers)
    }
}

fn prune(list: &mut Vec<(Access, bool)>, region: &Region, writes: bool, by: Access) {
    if writes {
        list.retain(|(earlier, _)| !region.covers(&earlier.region));
    } else {
        list.retain(|(earlier, wrote)| {
            *wrote
                || earlier.engine != by.engine
                || by.engine == crate::EngineKind::Dma
                || !region.covers(&earlier.region)
        });
    }
}
