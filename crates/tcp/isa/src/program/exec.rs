//! One tensor unit command: what every engine's registers hold while it runs (paper section IV; vISA book,
//! engines in order).
//!
//! All slices of the group run the same image. A stream is a sequence of packets on every slice; packets are
//! cut into flits by collect, and everything behind collect counts flits. Element strides count elements of
//! the unit's own type, commit strides bytes.

use tilewright_base::Span;
use tilewright_num::Dtype;

use super::Count;
use super::vector::Vector;

pub use super::loops::{Loop, SliceDigit, StepLoop, iterations};
use crate::switch::Topology;

/// A register image and the context that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// Its name.
    pub name: String,
    /// Context that runs the image.
    pub context: Context,
    /// PEs whose slices work as one group; fusion changes from command to command.
    pub pes: u64,
    /// Kind of command, with its registers.
    pub body: ExecBody,
    /// Source span of the statement.
    pub span: Span,
}

/// The execution contexts of a slice (vISA book): they run side by side, each its own commands in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// Has every engine.
    #[default]
    Main,
    /// Lacks the contraction engine; narrower fetch and commit.
    Sub,
}

/// The three kinds of tensor unit command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecBody {
    /// From data memory through the engines into a memory.
    Stream(Box<Stream>),
    /// The same words everywhere (sub context).
    Fill(Fill),
    /// Contiguous bytes of data memory into a register file, without the engines.
    Short(ShortLoad),
}

/// Engines in the order in which data passes them; `None` is bypassed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Fetch unit.
    pub fetch: Fetch,
    /// Switch engine.
    pub switch: Switch,
    /// Contraction engine.
    pub contract: Option<Contract>,
    /// Vector engine.
    pub vector: Option<Vector>,
    /// Cast engine: i32 to i4, i8, i16; f32 to f8e4m3, f8e5m2, bf16.
    pub cast: Option<Dtype>,
    /// Transpose engine.
    pub transpose: Option<Transpose>,
    /// Commit unit.
    pub commit: Commit,
}

/// Fetch unit: the sequence of all element addresses, cut into packets of `packet` elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Type in data memory.
    pub dtype: Dtype,
    /// Byte offset of the first element in every slice's data memory.
    pub base: u64,
    /// Interleaved fetch: the loop (of size 2) whose second iteration starts from another base. Main context
    /// only.
    pub interleave: Option<Interleave>,
    /// Outermost first, packet loops included.
    pub loops: Vec<Loop>,
    /// Elements of a packet.
    pub packet: u64,
    /// A loop whose addresses come from a table.
    pub indirect: Option<Indirect>,
    /// Elements past any of these are replaced by zero.
    pub limits: Vec<Limit>,
    /// Table lookup: 256 patterns of the given type, indexed by the byte read (f4e2m1 pairs: two results a
    /// byte, low nibble first).
    pub lookup: Option<Lookup>,
    /// Type after the cast.
    pub cast: Option<Dtype>,
    /// Subtracted from i4 (gives i5) or i8 (gives i9).
    pub zero_point: Option<i64>,
}

impl Fetch {
    /// Type that leaves the adapter.
    pub fn leaves(&self) -> Dtype {
        let read = self.lookup.as_ref().map_or(self.dtype, |lookup| lookup.dtype);
        let cast = self.cast.unwrap_or(read);
        match (self.zero_point, cast) {
            (Some(_), Dtype::I4) => Dtype::I5,
            (Some(_), Dtype::I8) => Dtype::I9,
            _ => cast,
        }
    }
}

/// The second tensor of an interleaved fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    /// Index into the loops; its own stride is not used.
    pub at_loop: usize,
    /// Byte offset of the second tensor.
    pub base: u64,
}

/// Indirect addressing: iteration `i` of a loop starts `table[i] * stride` elements from the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indirect {
    /// Index into the loops.
    pub at_loop: usize,
    /// Byte offset of the table of i32 in the slice's data memory.
    pub table: u64,
}

/// A table lookup while fetching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Type of the results.
    pub dtype: Dtype,
    /// One pattern for each byte (each nibble of f4e2m1).
    pub patterns: Vec<u32>,
}

/// Where a position, counted over slices and loops, must stay below an extent: how padding is distinguished
/// from data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Live below it.
    pub extent: Count,
    /// Digits of the slice number that count.
    pub slices: Vec<SliceDigit>,
    /// The weight of an iteration of each loop, in the order of the loops.
    pub weights: Vec<u64>,
}

/// Switch engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Topology by which packets move between slices.
    pub topology: Topology,
    /// For a custom topology: for each slice of a ring, the slices of the ring whose packets it keeps.
    pub sources: Vec<Vec<u16>>,
}

/// Contraction engine: each packet meets a register file packet on every lane, for every step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Sum or maximum of products.
    pub op: ContractOp,
    /// Flits joined into a packet: 1 or 2.
    pub flits: u64,
    /// In-flit transpose before packing.
    pub transpose: Option<FlitTranspose>,
    /// Convolution: the packet is a window that shifts over three flits.
    pub shift: Option<Shift>,
    /// Steps for which a packet is held.
    pub repeats: Count,
    /// Lanes in use: 1, 2, 4 or 8.
    pub lanes: u64,
    /// Register file type.
    pub dtype: Dtype,
    /// Byte offset in every lane's part of the register file.
    pub base: u64,
    /// Register file addresses, step loops then packet loops, in elements.
    pub loops: Vec<Loop>,
    /// Neighbours that the tree sums: a power of two.
    pub tree: u64,
    /// The loops of all steps, outermost first: each survives or is summed.
    pub steps: Vec<StepLoop>,
    /// The order in which sums leave.
    pub drain: Drain,
}

/// What the tree and the accumulators do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContractOp {
    /// Add products.
    #[default]
    Add,
    /// The maximum of the products.
    Max,
}

/// The order in which sums leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// One column of all lanes in a cycle; lanes that are not in use waste the bus.
    #[default]
    Interleaved,
    /// Columns of one lane in a cycle, lane after lane.
    Sequential,
}

/// Rows and columns of an in-flit transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlitTranspose {
    /// Rows that enter.
    pub rows: u64,
    /// Columns that enter.
    pub columns: u64,
}

/// Convolution mode of the feed unit: a window of one packet over a buffer of three flits. The first `shifts`
/// steps of every `shifts` look at elements `initial`, `initial + stride`, ... of the buffer, then `pop` new
/// flits enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// First element of the window; negative looks at zeros before the row.
    pub initial: i64,
    /// Elements between windows.
    pub stride: u64,
    /// Windows before new flits are loaded.
    pub shifts: u64,
    /// Flits loaded then.
    pub pop: u64,
}

/// Transpose engine: tiles of `rows` x `columns` elements become `columns` flits of `rows` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// Rows that enter.
    pub rows: u64,
    /// Columns that enter, padding included.
    pub columns: u64,
    /// Columns that leave as rows; the rest is padding.
    pub kept: u64,
}

/// Commit unit: the first `bytes` of every flit go to the next address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Into which memory.
    pub memory: Memory,
    /// Byte offset of the first write.
    pub base: u64,
    /// One step a flit, strides in bytes.
    pub loops: Vec<Loop>,
    /// Valid prefix of a flit.
    pub bytes: u64,
    /// Bytes of a write; the sub context has one width.
    pub width: u64,
    /// f32 to bf16 on the way; `bytes` counts what is written.
    pub to_bf16: bool,
    /// Negative values become zero; only with `to_bf16`.
    pub relu: bool,
    /// Slices of the group that write, as ranges `first..end`; empty means all.
    pub slices: Vec<(u64, u64)>,
}

/// A memory of every slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Data memory.
    Dm,
    /// The contraction engine's register file, cut into so many lanes: lane `n` starts at `n * payload /
    /// lanes`.
    Trf {
        /// Lanes.
        lanes: u64,
    },
    /// The vector engine's register file.
    Vrf,
}

/// Writes one 8-byte word to every address of the commit unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The word, first byte lowest.
    pub word: u64,
    /// Where; every step writes `bytes` of repeated words.
    pub commit: Commit,
}

/// A direct load of contiguous bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortLoad {
    /// Byte offset in data memory.
    pub from: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The register file.
    pub memory: Memory,
    /// Byte offset in it.
    pub base: u64,
}
