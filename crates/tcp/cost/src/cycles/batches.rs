//! What waits for a whole batch: sums leave when their group is complete, rows of a transposed tile when the
//! tile is full.
//!
//! Stages between two such points run at the pace of the slowest of them. Along each path through a command
//! one part runs from its first batch to its last, and of the parts before and after it one batch shows; the
//! longest path is the command's. Parts and batches are those of the vISA book; that the rule is a lower
//! bound and how close it is was found by simulation by the cycle.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::transpose::{TransposeStage, tile_flits};

use super::stage::{CommandStages, PipelineStage};
use super::transpose;
use tilewright_tcp_isa::capped::Capped;

/// Cycles of all stages with everything that overlaps, latencies left out: at least those of the slowest
/// stage.
///
/// `stream_cycles` are those of each stage, in the order of [`PipelineStage::ALL`].
pub fn overlapped_cycles(
    machine: &Tcp,
    command: &CommandStages,
    stream_cycles: &[u64; PipelineStage::ALL.len()],
) -> u64 {
    let parts = SectionCycles::new(command, stream_cycles);
    let (first, last) = match &command.transpose {
        Some(tile) if tile.tiles > 0 => with_tiles(machine, &parts, tile),
        _ => {
            let front = BatchCycles::new(parts.front, parts.groups);
            return paced_cycles(front, BatchCycles::new(parts.middle.max(parts.back), parts.groups));
        }
    };
    stream_cycles.iter().copied().fold(first.max(last), u64::max)
}

/// The slowest stage of what comes before or behind the sums: in all, and for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCycles {
    all_cycles: u64,
    group_cycles: u64,
}

impl BatchCycles {
    /// So long in all, in so many groups.
    pub fn new(all_cycles: u64, groups: u64) -> BatchCycles {
        BatchCycles { all_cycles, group_cycles: share(all_cycles, groups) }
    }
}

/// Groups alone: the path that ends with all sums after the first group, and the one that begins with all
/// groups.
pub fn paced_cycles(front: BatchCycles, behind: BatchCycles) -> u64 {
    let first = front.group_cycles.capped_add(behind.all_cycles);
    first.max(front.all_cycles.capped_add(behind.group_cycles))
}

/// Cycles that tiles as large as both buffers take when their neighbours never run ahead: they fill at the
/// pace of what comes before, and leave at the pace of what follows. Queues of unknown size hide a part of
/// it, and [`overlapped_cycles`] all of it.
pub fn alternating_cycles(
    machine: &Tcp,
    command: &CommandStages,
    stream_cycles: &[u64; PipelineStage::ALL.len()],
) -> u64 {
    let parts = SectionCycles::new(command, stream_cycles);
    match &command.transpose {
        Some(tile) if tile.tiles > 0 && !transpose::fills_while_leaving(machine, tile) => {
            let (fill, leave) = parts.tile_cycles(tile);
            let tile_cycles = fill.capped_add(leave);
            let all = parts.first_group().capped_add(tile.tiles.capped_mul(tile_cycles));
            let of_last_group = tile.tiles.div_ceil(parts.groups.max(1)).capped_mul(tile_cycles);
            all.max(parts.front.capped_add(of_last_group))
        }
        _ => 0,
    }
}

/// The slowest stage of each part between two points where batches wait.
struct SectionCycles {
    /// Up to the sums; nothing without a contraction.
    front: u64,
    /// From the sums to the tiles.
    middle: u64,
    /// From the tiles on.
    back: u64,
    groups: u64,
}

impl SectionCycles {
    fn new(command: &CommandStages, stream_cycles: &[u64; PipelineStage::ALL.len()]) -> SectionCycles {
        let slowest =
            |stages: &[PipelineStage]| stages.iter().map(|&s| stream_cycles[s as usize]).fold(0, u64::max);
        let arriving = slowest(&[
            PipelineStage::Fetch,
            PipelineStage::Switch,
            PipelineStage::Collect,
            PipelineStage::Contraction,
        ]);
        let computing = slowest(&[PipelineStage::Drain, PipelineStage::Vector, PipelineStage::Cast]);
        let back = slowest(&[PipelineStage::Commit, PipelineStage::Load]);
        match command.contraction.map_or(0, |contraction| contraction.groups) {
            0 => SectionCycles { front: 0, middle: arriving.max(computing), back, groups: 0 },
            groups => SectionCycles { front: arriving, middle: computing, back, groups },
        }
    }

    fn first_group(&self) -> u64 {
        share(self.front, self.groups)
    }

    /// Cycles in which a tile fills and leaves.
    fn tile_cycles(&self, tile: &TransposeStage) -> (u64, u64) {
        let fill = tile_flits(tile).max(share(self.middle, tile.tiles));
        (fill, tile.output_rows.max(share(self.back, tile.tiles)))
    }
}

/// The path that ends with all tiles after the first group, and the one that begins with all groups.
fn with_tiles(machine: &Tcp, parts: &SectionCycles, tile: &TransposeStage) -> (u64, u64) {
    let (fill, leave) = parts.tile_cycles(tile);
    let filling = tile_flits(tile);
    let middle = parts.middle.max(tile.tiles.capped_mul(filling));
    let behind = middle
        .capped_add(leave)
        .max(fill.capped_add(tile.tiles.capped_mul(leave)))
        .max(transpose::stream_cycles(machine, tile));
    // The last group fills this many tiles, which pass after its sums.
    let group_tiles = share(tile.tiles, parts.groups);
    let overlap = transpose::fills_while_leaving(machine, tile);
    let alone = if overlap { filling.max(tile.output_rows) } else { filling.capped_add(tile.output_rows) };
    let group_leave = group_tiles.capped_mul(alone.max(leave));
    let group_behind = share(middle, parts.groups).capped_add(leave).max(group_leave);
    (parts.first_group().capped_add(behind), parts.front.capped_add(group_behind))
}

/// What one of so many batches has of a part; without batches nothing waits for one.
fn share(part: u64, batches: u64) -> u64 {
    part.checked_div(batches).unwrap_or(0)
}
