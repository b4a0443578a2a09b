//! Tiled contractions: a producer of candidates that takes any single contraction over several PEs (stage 3).
//!
//! A candidate shards batch, rows and columns over a grid of PEs and cuts each shard into tiles that pass
//! data memory one after the other: operands come straight from row-major HBM, results go straight back,
//! transfers run beside commands. The operand with the columns is held in the register files while tiles of
//! rows stream past it.
//!
//! | file | owns |
//! |---|---|
//! | `grid` | shards over PEs, and the tiles of a shard in order |
//! | `split` | how a tile is spread over slices |
//! | `tile` | one tile's lowered shapes, commands and cycles |
//! | `epilogue` | the chain, and the kernels by rows behind it, that run on tiles before they are stored |
//! | `finish` | its commands |
//! | `stages` | how it becomes commands |
//! | `chain_passes` | passes of its first chain, each made once in a search |
//! | `lines` | rows that are positions of windows, taken from the value that windows look at |
//! | `patch` | windows that slices fetch from one copy of what they look at |
//! | `blocks` | sums in blocks of time |
//! | `rooms` | buffers in data memory |
//! | `exchange` | sums that slices trade, so that rows are long |
//! | `traffic` | tiles as transfers, and their cycles before there are any |
//! | `programs` | commands of the tiles of a candidate |
//! | `search` | which grid, tile and split over slices takes least, overlap included |
//! | `pipeline` | the tiles of a PE in time |
//! | `memo` | searches of contractions, each made once for all plans of a graph |
//! | `refine` | what the transfers of a tile take, from the transfers themselves |
//! | `resident` | results of tiles that stay in data memory for others |
//! | `emit` | the chosen candidate as queues of commands |

mod blocks;
mod chain_passes;
mod emit;
mod empty;
mod epilogue;
mod exchange;
mod finish;
mod grid;
mod lines;
mod memo;
mod patch;
mod pipeline;
mod programs;
mod refine;
mod resident;
mod rooms;
mod search;
mod split;
mod stages;
mod tile;
mod traffic;

pub(super) use emit::Operands;
pub(super) use epilogue::{Epilogue, Input, Joined, Uses};
pub use grid::{Grid, Tiling};
pub(super) use lines::{Padding, Windows};
pub(super) use memo::TileSearches;
pub(super) use resident::{FoundBeside, LeftResult, ResidentTiles, TileRoom};
pub(super) use search::Room;
pub use search::{ComparedTiling, TiledContraction};
