//! Shards of a contraction over PEs, and the tiles of a shard in the order in which they are computed.

use super::super::kernel::Sizes;

/// PEs along batch, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grid {
    /// PEs along the batch.
    pub batch: u64,
    /// PEs along the rows of the result.
    pub rows: u64,
    /// PEs along the columns of the result.
    pub columns: u64,
}

impl Grid {
    /// All grids of so many PEs, a power of two.
    pub(super) fn all(pes: u64) -> Vec<Grid> {
        let powers = |most: u64| (0..=most.ilog2()).map(|log2| 1_u64 << log2);
        let two = |batch: u64| {
            powers(pes / batch).map(move |rows| Grid { batch, rows, columns: pes / batch / rows })
        };
        powers(pes.max(1)).flat_map(two).collect()
    }

    /// PEs of the grid.
    pub fn pes(&self) -> u64 {
        self.batch * self.rows * self.columns
    }
}

/// Positions `first..first + count` of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) count: u64,
}

/// How a contraction is cut: a grid of PEs, and sizes of the tiles of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// PEs.
    pub grid: Grid,
    /// Positions of the batch in a tile, each with all of its rows if there are several.
    pub planes: u64,
    /// Rows of a tile at each position of the batch.
    pub rows: u64,
    /// Columns of a tile.
    pub columns: u64,
    /// Rows of the shard stay in data memory while columns pass.
    pub resident: bool,
    /// Elements of the sum in a block; all of it if it is not cut.
    pub summed: u64,
}

/// A tile: positions of the batch, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// The first position of the batch.
    pub(super) batch: u64,
    /// How many there are.
    pub(super) planes: u64,
    /// Rows; those of several positions of the batch follow each other.
    pub(super) rows: Range,
    pub(super) columns: Range,
    /// The block of the sum.
    pub(super) summed: Range,
    /// Nothing is summed before it.
    pub(super) begins: bool,
    /// Nothing is summed behind it.
    pub(super) ends: bool,
    /// Number of its columns among those that come one after the other, over all of the batch.
    pub(super) strip: u64,
    /// Number of its strip among those of its position of the batch.
    pub(super) column_tile: u64,
    /// Number of its rows among the tiles of a strip.
    pub(super) row_tile: u64,
    /// Its strip is the first of its position of the batch: rows are not there yet.
    pub(super) brings_rows: bool,
    /// Its columns are not there yet.
    pub(super) brings_columns: bool,
}

impl Tile {
    /// Rows, columns and elements of the sum.
    pub(super) fn counts(&self) -> [u64; 3] {
        [self.rows.count, self.columns.count, self.summed.count]
    }

    /// A tile of so many positions of the batch, rows, columns and elements of the sum at the first place.
    pub(super) fn first(planes: u64, [rows, columns, summed]: [u64; 3]) -> Tile {
        let range = |count: u64| Range { first: 0, count };
        Tile {
            batch: 0,
            planes,
            rows: range(rows),
            columns: range(columns),
            summed: range(summed),
            begins: true,
            ends: true,
            strip: 0,
            column_tile: 0,
            row_tile: 0,
            brings_rows: true,
            brings_columns: true,
        }
    }
}

/// Part `at` of `parts` of an axis, cut at multiples of a granule.
fn part(size: u64, parts: u64, at: u64, granule: u64) -> Range {
    let granules = size.div_ceil(granule.max(1));
    let edge = |at: u64| (granules * at / parts * granule).min(size);
    Range { first: edge(at), count: edge(at + 1) - edge(at) }
}

fn pieces(range: Range, each: u64) -> impl Iterator<Item = Range> {
    let count = range.count.div_ceil(each.max(1));
    (0..count)
        .map(move |at| Range { first: range.first + at * each, count: each.min(range.count - at * each) })
}

impl Tiling {
    /// The tiles of a PE in order: strips of columns, in each of them tiles of rows, and of each the blocks
    /// of its sum.
    pub(super) fn tiles(&self, sizes: Sizes, pe: u64) -> Vec<Tile> {
        let Grid { rows, columns, batch } = self.grid;
        let at = [pe / (rows * columns), pe / columns % rows, pe % columns];
        let own = part(sizes.batch, batch, at[0], 1);
        let own_rows = part(sizes.rows, rows, at[1], self.rows);
        let own_columns = part(sizes.columns, columns, at[2], self.columns);
        let mut tiles: Vec<Tile> = Vec::new();
        let mut strips = 0;
        for Range { first: batch, count: planes } in pieces(own, self.planes) {
            for (column_tile, columns) in (0..).zip(pieces(own_columns, self.columns)) {
                for (row_tile, rows) in (0..).zip(pieces(own_rows, self.rows)) {
                    let rows = Range { count: rows.count * planes, ..rows };
                    for summed in pieces(Range { first: 0, count: sizes.summed }, self.summed) {
                        let brings_columns = row_tile == 0 || self.blocks(sizes) > 1;
                        strips += u64::from(brings_columns);
                        tiles.push(Tile {
                            batch,
                            planes,
                            rows,
                            columns,
                            summed,
                            begins: summed.first == 0,
                            ends: summed.first + summed.count == sizes.summed,
                            strip: strips - 1,
                            column_tile,
                            row_tile,
                            brings_rows: column_tile == 0 || !self.resident,
                            brings_columns,
                        });
                    }
                }
            }
        }
        tiles
    }

    /// Blocks of the sum.
    pub(super) fn blocks(&self, sizes: Sizes) -> u64 {
        sizes.summed.div_ceil(self.summed.max(1))
    }

    /// Whether the last block of the sum is shorter than the others.
    pub(super) fn ends_short(&self, sizes: Sizes) -> bool {
        !sizes.summed.is_multiple_of(self.summed.max(1))
    }

    /// Strips of columns that a shard has at most at a position of the batch.
    pub(super) fn column_tiles(&self, sizes: Sizes) -> u64 {
        sizes.columns.div_ceil(self.grid.columns).div_ceil(self.columns)
    }

    /// Tiles of rows that a shard has at most.
    pub(super) fn row_tiles(&self, sizes: Sizes) -> u64 {
        sizes.rows.div_ceil(self.rows).div_ceil(self.grid.rows)
    }
}
