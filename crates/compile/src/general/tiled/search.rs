//! Which grid of PEs, tile and split over slices takes least, with transfers beside commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;

use super::super::emit::dm_bytes;
use super::super::kernel::{Sizes, Strides};
use super::blocks::block_sizes;
use super::chain_passes::ChainPasses;
use super::epilogue::{Epilogue, Input};
use super::grid::{Grid, Tile, Tiling};
use super::lines::Windows;
use super::patch::Patch;
use super::pipeline::Pipeline;
use super::refine::transfer_cycles;
use super::rooms::{BUFFERS, Rooms};
use super::split::Split;
use super::tile::{Behind, Estimate, TileProgram, TileShape, WORD_BYTES, estimate};
use super::traffic::{Moved, Runs};

/// Candidates whose commands are made, the best by closed forms first, until one can be had.
const TRIES: usize = 48;
/// Part of the engine's cycles that a contraction takes besides, where others would use it meanwhile.
const ENGINE_SHARE: u64 = 8;
/// Candidates that are compared by what their transfers take.
const REFINED: usize = 8;
/// Tiles of a PE beyond which a candidate is not looked at: each is some commands.
const MOST_TILES: u64 = 512;
/// Tiles of a PE up to which their sums may be cut into blocks.
const FEW_TILES: u64 = 2;
/// Positions along an axis at whose multiples shards are cut besides: results of so many columns are whole
/// access units of HBM.
const ALIGNED: u64 = 64;
/// Candidates whose least is more than this part above the best so far are not looked at.
const NEAR: u64 = 8;
/// Positions of the batch in a tile at most, as a power of two.
const MOST_PLANES_LOG2: u32 = 4;
/// Steps of a control core around a message.
const MESSAGE_STEPS: u64 = 4;

/// A contraction in tiles over several PEs.
#[derive(Clone, Debug)]
pub struct TiledContraction {
    /// The contraction.
    pub sizes: Sizes,
    /// How it is cut.
    pub tiling: Tiling,
    /// Estimated cycles.
    pub cycles: u64,
    /// How a tile is spread over slices.
    pub(super) split: Split,
    /// Buffers in data memory.
    pub(super) rooms: Rooms,
    /// Commands by rows, columns and elements of the sum of a tile.
    pub(super) programs: BTreeMap<[u64; 3], TileProgram>,
    /// The windows that rows are positions of; sizes then count padding of lines.
    pub(in super::super) windows: Option<Windows>,
    /// Tilings that were compared by what their transfers take, itself among them.
    pub compared: Vec<ComparedTiling>,
}

/// A tiling that was weighed for a contraction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedTiling {
    /// How it cuts the contraction, in words.
    pub words: String,
    /// Estimated cycles.
    pub cycles: u64,
}

impl std::fmt::Display for TiledContraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = words(self.sizes, self.tiling, self.split, self.windows.as_ref());
        write!(f, "{words}, {} cycles", self.cycles)
    }
}

/// How a contraction is cut over PEs, tiles and slices.
fn words(sizes: Sizes, tiling: Tiling, split: Split, windows: Option<&Windows>) -> String {
    let Tiling { grid, planes, rows, columns, resident, summed } = tiling;
    let planes = if planes == 1 { String::new() } else { format!("{planes}x") };
    let stays = if resident { ", rows stay" } else { "" };
    let blocks = match tiling.blocks(sizes) {
        1 => String::new(),
        blocks => format!(", sums in {blocks} blocks of {summed}"),
    };
    let Split { fused, columns_log2, summed_log2, rows_ring_log2, columns_ring_log2, patches } = split;
    let [by_columns, by_sum, rows_ring, columns_ring] =
        [columns_log2, summed_log2, rows_ring_log2, columns_ring_log2].map(|log2| 1_u64 << log2);
    let pes = if fused == 1 { "PEs".to_string() } else { format!("groups of {fused} PEs") };
    let lines = match windows {
        Some(windows) => {
            let once = if patches { " that come once" } else { "" };
            format!(" in lines of {} of {}{once}", windows.rows().live(), windows.rows().padded())
        }
        None => String::new(),
    };
    format!(
        "{}x{}x{} {pes}, tiles of {planes}{rows}x{columns}{lines}{stays}{blocks}, slices {by_columns} by \
         columns and {by_sum} by the sum, rings of {rows_ring} for rows and {columns_ring} for columns",
        grid.batch, grid.rows, grid.columns
    )
}

#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) tiling: Tiling,
    pub(super) split: Split,
    pub(super) cycles: u64,
}

pub(super) struct Search<'m> {
    pub(super) machine: &'m Tcp,
    pub(super) sizes: Sizes,
    /// PEs that are fused, if cost does not decide.
    fused: Option<u64>,
    pub(super) epilogue: Option<&'m Epilogue>,
    pub(super) windows: Option<&'m Windows>,
    /// Sums are kept besides.
    pub(super) whole: bool,
    pub(super) known: &'m mut KnownTiles,
    /// Candidates that take more at least are not looked at.
    limit: u64,
    /// Rows or columns are there when the contraction begins.
    warm: [bool; 2],
    /// One in so many cycles of the engine counts besides.
    scarce: Option<u64>,
    /// Sums may be cut into blocks.
    blocks: bool,
}

/// Positions of the batch in a tile, rows of each, columns, and elements of the sum.
type Extent = [u64; 4];

/// What was found out about tiles of a contraction with what runs on them, whatever they may use.
#[derive(Debug, Default)]
pub(super) struct KnownTiles {
    estimates: BTreeMap<(Extent, Split), Option<Arc<Estimate>>>,
    pub(super) passes: ChainPasses,
}

/// What a contraction in tiles may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Room {
    /// PEs.
    pub(in super::super) pes: u64,
    /// PEs that are fused, if cost does not decide.
    pub(in super::super) fused: Option<u64>,
    /// Rows or columns are brought while others compute.
    pub(in super::super) warm: [bool; 2],
    /// One in so many cycles of the engine counts besides, since all wait for it.
    pub(in super::super) scarce: Option<u64>,
    /// The best are compared by what their transfers take.
    pub(in super::super) refined: bool,
    /// Sums may be cut into blocks, which are brought one ahead.
    pub(in super::super) blocks: bool,
}

/// The tiled contraction that takes least on so many PEs, fused by cost or so many at once, with the chain
/// behind it and rows through windows; sums may be kept besides.
///
/// # Errors
/// Why there is none.
pub(super) fn candidate(
    machine: &Tcp,
    sizes: Sizes,
    room: Room,
    (epilogue, windows): Behind<'_>,
    whole: bool,
    known: &mut KnownTiles,
) -> Result<TiledContraction, String> {
    let sizes = windows.map_or(sizes, |windows| windows.padded(sizes));
    let granule = machine.tdma.alignment_bytes;
    let element_bytes = sizes.operands.element_bytes();
    let granules = [0, 1].map(|operand| granule * sizes.numbers(operand));
    if !granules.iter().all(|granule| (sizes.summed * element_bytes).is_multiple_of(*granule)) {
        return Err(format!("rows of {} elements are no whole granules of {granule} B", sizes.summed));
    }
    let begins = |(one, granule): (&Strides, u64)| {
        [one.first, one.batch, one.own].iter().all(|step| (step * element_bytes).is_multiple_of(granule))
    };
    if !sizes.strides.iter().zip(granules).all(begins) {
        return Err(format!("rows that do not begin at whole granules of {granule} B"));
    }
    if !(sizes.columns * WORD_BYTES).is_multiple_of(granule) {
        return Err(format!("results of {} columns are no whole granules of {granule} B", sizes.columns));
    }
    let mut search = Search::new(machine, sizes, room, (epilogue, windows), whole, known);
    let mut all = search.candidates(room.pes);
    all.sort_by_key(|candidate| candidate.cycles);
    let mut why = "no tile is legal".to_string();
    let compared = if room.refined { REFINED } else { 1 };
    let mut best: Option<TiledContraction> = None;
    let mut refined: Vec<ComparedTiling> = Vec::new();
    for candidate in all.into_iter().take(TRIES) {
        if refined.len() == compared {
            break;
        }
        match search.tiled(candidate) {
            Ok((one, compared)) => {
                refined.push(compared);
                if best.as_ref().is_none_or(|best| one.cycles < best.cycles) {
                    best = Some(one);
                }
            }
            Err(refused) => why = refused,
        }
    }
    best.map(|best| TiledContraction { compared: refined, ..best }).ok_or(why)
}

/// Sizes of tiles along an axis: powers of two, all of a shard, and the same with whole access units of
/// results.
fn tile_sizes(shard: u64, least: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(least), |size| size.checked_mul(2));
    let mut all: Vec<u64> = powers.take_while(|size| *size < shard).collect();
    all.extend((2..=4).map(|parts| shard.div_ceil(parts).next_multiple_of(least)));
    all.extend([shard, shard.next_multiple_of(ALIGNED)]);
    all.sort_unstable();
    all.dedup();
    all
}

impl<'m> Search<'m> {
    pub(super) fn new(
        machine: &'m Tcp,
        sizes: Sizes,
        room: Room,
        (epilogue, windows): Behind<'m>,
        whole: bool,
        known: &'m mut KnownTiles,
    ) -> Search<'m> {
        let Room { fused, warm, scarce, blocks, .. } = room;
        let limit = u64::MAX;
        Search { machine, sizes, fused, epilogue, windows, whole, known, limit, warm, scarce, blocks }
    }

    /// A candidate with its commands, compared by what its transfers take.
    ///
    /// # Errors
    /// Why there are no commands.
    pub(super) fn tiled(
        &mut self,
        candidate: Candidate,
    ) -> Result<(TiledContraction, ComparedTiling), String> {
        let (programs, rooms) = self.made(&candidate)?;
        let Candidate { tiling, split, .. } = candidate;
        let cycles = self.refined(&candidate, &programs);
        let sizes = self.sizes;
        let compared = ComparedTiling { words: words(sizes, tiling, split, self.windows), cycles };
        let (windows, none) = (self.windows.cloned(), Vec::new());
        let one = TiledContraction { sizes, tiling, cycles, split, rooms, programs, windows, compared: none };
        Ok((one, compared))
    }
}

impl Search<'_> {
    fn candidates(&mut self, pes: u64) -> Vec<Candidate> {
        let Sizes { batch, rows, columns, .. } = self.sizes;
        let mut all = Vec::new();
        for fused in self.fusions(pes) {
            for grid in Grid::all(pes / fused) {
                let cut = self.has_rows() && grid.columns > 1;
                if cut || grid.batch > batch || grid.rows > rows || grid.columns > columns {
                    continue;
                }
                let shard = [rows.div_ceil(grid.rows), columns.div_ceil(grid.columns)];
                for tile_rows in tile_sizes(shard[0], 16) {
                    if !tile_rows.is_multiple_of(self.line()) {
                        continue;
                    }
                    let sizes = if self.has_rows() { vec![columns] } else { tile_sizes(shard[1], 32) };
                    for tile_columns in sizes {
                        for planes in self.planes(grid, tile_rows) {
                            for block in self.blocks(planes, fused) {
                                let tile = [planes, tile_rows, tile_columns, block];
                                self.of_tile((grid, fused), tile, &mut all);
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// Elements of the sum that a tile may have at once.
    fn blocks(&self, planes: u64, fused: u64) -> Vec<u64> {
        let whole = !self.blocks || planes > 1 || fused > 1 || self.windows.is_some() || self.has_rows();
        if whole { vec![self.sizes.summed] } else { block_sizes(self.sizes) }
    }

    /// Positions of the batch that a tile may have: as many on each PE, all their rows one after the other.
    fn planes(&self, grid: Grid, tile_rows: u64) -> Vec<u64> {
        let Sizes { batch, rows, .. } = self.sizes;
        let Strides { batch: stride, own, .. } = self.sizes.strides[0];
        let whole = tile_rows == rows && grid.rows == 1 && stride == rows * own;
        let apart =
            self.windows.is_some() || self.epilogue.is_some_and(|one| one.inputs.contains(&Input::Plane));
        let share = batch / grid.batch;
        let powers = (0..=MOST_PLANES_LOG2).map(|log2| 1_u64 << log2);
        let fits = |planes: &u64| *planes == 1 || share.is_multiple_of(*planes) && *planes <= share;
        if whole && !apart && batch.is_multiple_of(grid.batch) {
            powers.filter(fits).collect()
        } else {
            vec![1]
        }
    }

    /// Rows that tiles have a multiple of.
    fn line(&self) -> u64 {
        self.windows.map_or(1, |windows| windows.rows().padded())
    }

    /// Rows that are brought and stored, of so many with padding.
    fn live_rows(&self, rows: u64) -> u64 {
        self.windows.map_or(rows, |windows| rows / windows.rows().padded() * windows.rows().live())
    }

    /// Whether slices must have whole rows.
    fn has_rows(&self) -> bool {
        self.epilogue.is_some_and(Epilogue::has_rows)
    }

    /// Numbers of PEs that the chip fuses and that make up all that are used.
    fn fusions(&self, pes: u64) -> Vec<u64> {
        let chip = &self.machine.chip;
        let fits = |fused: &u64| {
            fused.is_power_of_two()
                && pes.is_multiple_of(*fused)
                && chip.pes_per_cluster.is_multiple_of(*fused)
        };
        // Transfers of windows are not cut by PE.
        if self.windows.is_some() {
            return vec![1];
        }
        let all: Vec<u64> = chip.fused_pes.iter().copied().filter(fits).collect();
        match self.fused.filter(|fused| all.contains(fused)) {
            Some(fused) => vec![fused],
            None => all,
        }
    }

    fn of_tile(&mut self, (grid, fused): (Grid, u64), tile: Extent, all: &mut Vec<Candidate>) {
        let [planes, rows, columns, summed] = tile;
        let blocks = self.sizes.summed.div_ceil(summed);
        let positions = self.sizes.batch.div_ceil(grid.batch).div_ceil(planes);
        let shares = [positions, self.sizes.rows.div_ceil(grid.rows)];
        let strips = self.sizes.columns.div_ceil(grid.columns).div_ceil(columns);
        let tiles = shares[0] * shares[1].div_ceil(rows) * strips * blocks;
        // Blocks are for sums of which a PE has few.
        if tiles > MOST_TILES || blocks > 1 && tiles > blocks * FEW_TILES {
            return;
        }
        // With one strip of columns rows stay or not, all the same; blocks of a sum never stay.
        let resident: &[bool] = match (strips, blocks) {
            (1, 1) => &[true],
            (_, 1) => &[true, false],
            _ => &[false],
        };
        let tiling = |resident: &bool| Tiling { grid, planes, rows, columns, resident: *resident, summed };
        let tilings: Vec<Tiling> = resident.iter().map(tiling).collect();
        let mut cut: Vec<Option<Vec<Tile>>> = vec![None; tilings.len()];
        for split in self.splits(fused) {
            if self.least(grid, tile, split).is_none_or(|least| least * tiles > self.limit) {
                continue;
            }
            let Some(estimate) = self.estimated(tile, split) else { continue };
            for (tiling, cut) in tilings.iter().copied().zip(&mut cut) {
                let rooms = self.roomy(estimate.rooms.clone(), tiling);
                if rooms.bytes() <= dm_bytes(self.machine) {
                    let cut = cut.get_or_insert_with(|| self.last_tiles(tiling));
                    let cycles = self.time(tiling, cut, fused, &estimate);
                    self.limit = self.limit.min(cycles + cycles / NEAR);
                    all.push(Candidate { tiling, split, cycles });
                }
            }
        }
    }

    /// How a tile may be spread over slices.
    pub(super) fn splits(&self, fused: u64) -> Vec<Split> {
        let slices = self.machine.pe.slices;
        let looks = self.windows.is_some_and(Windows::looks);
        let mut all = if looks { Split::all_of_patches(slices) } else { Vec::new() };
        all.extend(Split::all(fused, slices));
        all
    }

    /// Cycles that a tile takes at least: products, and operands that transfers bring, if rows come once.
    fn least(&self, grid: Grid, tile: Extent, split: Split) -> Option<u64> {
        let machine = self.machine;
        let sizes = self.of_sizes(tile);
        let Sizes { rows, columns, summed, .. } = sizes;
        let shape = TileShape::new(machine, sizes, split, (self.epilogue, self.windows))?;
        let strips = match self.sizes.summed.div_ceil(summed) {
            1 => self.sizes.columns.div_ceil(grid.columns).div_ceil(columns),
            _ => 1,
        };
        let row_bytes = summed * self.sizes.operands.element_bytes();
        let brought = match shape.patch {
            Some(patch) => patch.lines_for(rows) * patch.brought() * self.sizes.operands.element_bytes(),
            None => self.live_rows(rows) * row_bytes,
        };
        let bytes = brought * shape.over.row_copies() / strips.max(1);
        let engines = machine.tdma.bandwidth_bytes_per_cycle * split.fused;
        Some(shape.least_cycles(machine).max(bytes / engines))
    }

    /// Sizes of a tile.
    fn of_sizes(&self, [planes, rows, columns, summed]: Extent) -> Sizes {
        Sizes { batch: planes, rows: planes * rows, columns, summed, ..self.sizes }
    }

    pub(super) fn estimated(&mut self, tile: Extent, split: Split) -> Option<Arc<Estimate>> {
        let (sizes, key) = (self.of_sizes(tile), (tile, split));
        let blocks = sizes.summed < self.sizes.summed;
        let (machine, behind) = (self.machine, ((self.epilogue, self.windows), blocks));
        let KnownTiles { estimates, passes } = &mut *self.known;
        let make = || estimate(machine, sizes, split, behind, passes).map(Arc::new);
        estimates.entry(key).or_insert_with(make).clone()
    }

    /// With as many buffers for tiles of rows as a tiling needs, and others for blocks that are short.
    pub(super) fn roomy(&self, rooms: Rooms, tiling: Tiling) -> Rooms {
        let sizes = self.sizes;
        let rooms = rooms.with_strips(self.machine, tiling.column_tiles(sizes));
        if tiling.resident {
            rooms.with_rows(self.machine, tiling.row_tiles(sizes) + 1)
        } else if tiling.blocks(sizes) > 1 && tiling.ends_short(sizes) {
            rooms.with_short_blocks(self.machine)
        } else {
            rooms.with_rows(self.machine, BUFFERS)
        }
    }

    /// What the transfers of a tile take: rows, columns, results, and what is brought beside sums.
    fn moved(&self, tiling: Tiling, estimate: &Estimate) -> [Moved; 4] {
        let Sizes { rows, columns, .. } = self.sizes;
        let summed = tiling.summed;
        let unit = self.machine.hbm.access_bytes;
        let tile_rows = tiling.rows.min(rows) * tiling.planes;
        let tile_columns = tiling.columns.min(columns);
        let element_bytes = self.sizes.operands.element_bytes();
        let summed_bytes = estimate.summed * element_bytes;
        let operand = |operand: usize, count: u64| {
            let Strides { first, batch, own } = self.sizes.strides[operand];
            let steps = [first, batch, own, estimate.summed];
            let numbers = self.sizes.numbers(operand);
            let unit = unit * numbers;
            Runs {
                bytes: count * summed * element_bytes / numbers * estimate.copies[operand],
                run_bytes: summed_bytes / numbers,
                aligned: steps.iter().all(|step| (step * element_bytes).is_multiple_of(unit)),
                written: false,
            }
        };
        let live_rows = self.live_rows(tile_rows);
        // Rows that lie one after the other on both sides come at once.
        let at_once = if self.sizes.strides[0].own == summed { estimate.rows_at_once } else { 1 };
        let first = match self.windows {
            Some(_) if estimate.patch.is_some() => self.patches(estimate, tile_rows),
            Some(windows) => {
                let run_bytes = summed_bytes.min(windows.run() * element_bytes);
                let aligned = run_bytes.is_multiple_of(unit) && windows.begins_at(unit / element_bytes);
                let run = Runs { run_bytes, aligned, ..operand(0, live_rows) };
                let most = if windows.looks() { 1 } else { windows.rows().live() };
                run.joined(at_once.min(most), unit)
            }
            None => operand(0, tile_rows).joined(at_once.min(tile_rows), unit),
        };
        let share = estimate.run_columns.min(tile_columns);
        // Whole rows of a slice follow each other.
        let rows_together = if estimate.run_columns == columns { estimate.run_rows } else { 1 };
        // Tiles beside each other begin and end at whole units.
        let edges = |bytes: u64| tile_columns == columns || (tile_columns * bytes).is_multiple_of(unit);
        let wide = |element_bytes: u64, written: bool| Runs {
            bytes: live_rows * tile_columns * element_bytes,
            run_bytes: share * rows_together * element_bytes,
            aligned: (share * rows_together * element_bytes).is_multiple_of(unit)
                && (columns * rows_together * element_bytes).is_multiple_of(unit)
                && edges(element_bytes),
            written,
        };
        let stored = estimate.stored.iter().map(|bytes| wide(*bytes, true).moved(self.machine));
        let beside = (0..estimate.brought).map(|_| wide(WORD_BYTES, false).moved(self.machine));
        let blocks = self.windows.map_or(1, |windows| windows.rows().blocks(tiling.rows.min(rows)));
        let [rows, columns] = [first.moved(self.machine), operand(1, tile_columns).moved(self.machine)];
        let engine_cycles = rows.engine_cycles + (blocks - 1) * self.machine.tdma.startup_cycles;
        [Moved { engine_cycles, ..rows }, columns, stored.sum(), beside.sum()]
    }

    /// What transfers bring of what windows look at.
    fn patches(&self, estimate: &Estimate, rows: u64) -> Runs {
        let element_bytes = self.sizes.operands.element_bytes();
        let of = |patch: Patch| (patch.lines_for(rows) * estimate.copies[0], patch.brought() * element_bytes);
        let (lines, run_bytes) = estimate.patch.map_or((0, 1), of);
        let unit = self.machine.hbm.access_bytes / element_bytes;
        let aligned = match (estimate.patch, self.windows) {
            (Some(patch), Some(windows)) => patch.ahead() > 0 || windows.begins_at(unit),
            _ => false,
        };
        Runs { bytes: lines * run_bytes, run_bytes, aligned, written: false }
    }

    /// Cycles of the PE that has most to do: one engine moves tiles, the tensor unit multiplies, both in
    /// order.
    pub(super) fn time(&self, tiling: Tiling, tiles: &[Tile], fused: u64, estimate: &Estimate) -> u64 {
        let machine = self.machine;
        let sharing = tiling.grid.pes();
        let cycles = self.moved(tiling, estimate).map(|one| one.cycles(machine, sharing, fused));
        self.time_with(tiles, fused, estimate, cycles)
    }

    /// Tiles of the last PE, which has as many as any.
    pub(super) fn last_tiles(&self, tiling: Tiling) -> Vec<Tile> {
        tiling.tiles(self.sizes, tiling.grid.pes() - 1)
    }

    /// The same with what transfers of candidates that can be had take.
    pub(super) fn refined(
        &mut self,
        candidate: &Candidate,
        programs: &BTreeMap<[u64; 3], TileProgram>,
    ) -> u64 {
        let Candidate { tiling, split, cycles } = *candidate;
        let first = tiling.tiles(self.sizes, 0).first().copied();
        let found = first.and_then(|tile| {
            let program = programs.get(&tile.counts())?;
            transfer_cycles(self.machine, self.sizes, (tiling, split.fused), (program, self.windows), &tile)
        });
        let tile = [tiling.planes, tiling.rows, tiling.columns, tiling.summed];
        let estimate = self.estimated(tile, split);
        match (found, estimate) {
            (Some(found), Some(estimate)) => {
                self.time_with(&self.last_tiles(tiling), split.fused, &estimate, found)
            }
            _ => cycles,
        }
    }

    fn time_with(&self, tiles: &[Tile], fused: u64, estimate: &Estimate, cycles: [u64; 4]) -> u64 {
        let machine = self.machine;
        let all: u64 = tiles.iter().map(|tile| Self::transfer_cycles(tile, cycles)).sum();
        let cold = |at: usize| if self.warm[at] { 0 } else { cycles[at] };
        let cycles = [cold(0), cold(1), cycles[2], cycles[3]];
        let start = machine.command.launch_cycles;
        // Engines and executions of a group wait for messages.
        let message =
            if fused == 1 { 0 } else { MESSAGE_STEPS * machine.queue.push_cycles + self.doorbell() };
        let mut clock = Pipeline {
            engine: start,
            unit: start,
            sub: start,
            ready: start,
            ends: Vec::new(),
            cycles,
            message,
        };
        clock.load(tiles, 0);
        for at in 0..tiles.len() {
            clock.run(tiles, at, estimate);
            if at > 0 {
                clock.store(tiles, at - 1);
            }
            clock.load(tiles, at + 1);
        }
        if let Some(last) = tiles.len().checked_sub(1) {
            clock.store(tiles, last);
        }
        // Others need the engine too.
        let shared = match (self.scarce, self.warm) {
            (Some(each), _) => all / each,
            (None, [false, false]) => 0,
            (None, _) => all / ENGINE_SHARE,
        };
        clock.engine.max(clock.unit).max(all) + shared + machine.command.finish_cycles
    }

    /// What the transfers of a tile take one after the other.
    fn transfer_cycles(tile: &Tile, [rows, columns, stored, beside]: [u64; 4]) -> u64 {
        let rows = if tile.brings_rows { rows } else { 0 };
        let columns = if tile.brings_columns { columns } else { 0 };
        rows + columns + if tile.ends { stored + beside } else { 0 }
    }

    fn doorbell(&self) -> u64 {
        let cycles = u128::from(self.machine.noc.doorbell_ns) * u128::from(self.machine.chip.clock_hz);
        u64::try_from(cycles / 1_000_000_000).or_broken("cycles of a message fit 64 bits")
    }
}
