//! What was executed, as data: instructions with their engine, cost, source line and the memory they touch.

use smallvec::SmallVec;

use crate::Tile;
use crate::function::Function;
use crate::pattern::{View, as_u64};
use crate::storage::Storage;

/// An engine with its own in-order stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// Tensor: the systolic array.
    Tensor,
    /// Vector.
    Vector,
    /// Scalar.
    Scalar,
    /// GpSimd.
    Gpsimd,
    /// DMA engines and their queues.
    Dma,
    /// Sync: registers, semaphores, triggers.
    Sync,
}

impl EngineKind {
    /// Every engine, in the order of reports.
    pub const ALL: [EngineKind; 6] = [
        EngineKind::Tensor,
        EngineKind::Vector,
        EngineKind::Scalar,
        EngineKind::Gpsimd,
        EngineKind::Dma,
        EngineKind::Sync,
    ];

    /// Its name in kernels and reports.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Tensor => "tensor",
            EngineKind::Vector => "vector",
            EngineKind::Scalar => "scalar",
            EngineKind::Gpsimd => "gpsimd",
            EngineKind::Dma => "dma",
            EngineKind::Sync => "sync",
        }
    }

    /// The engine of that name.
    pub fn from_name(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.into_iter().find(|engine| engine.name() == name)
    }
}

/// How long an instruction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time until the engine can start its next instruction.
    pub busy_ps: u64,
    /// Time from then until the result can be read.
    pub latency_ps: u64,
}

/// How a transfer spreads over DMA engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaShape {
    /// Engines that move a part.
    pub engines: u32,
    /// Time of the data phase on each of them.
    pub data_ps: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Contiguous runs.
    pub descriptors: u64,
    /// GpSimd makes the descriptors, and triggers the transfer itself.
    pub software: bool,
}

/// Bytes of one tensor that an instruction touches: rows of a pitch, and bytes within a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of the tensor.
    pub storage: u32,
    /// Number of the tile, if leading dimensions number tiles.
    pub tile: u32,
    /// Bytes from row to row; partitions are rows. Zero: one row.
    pub pitch_bytes: u64,
    /// First row and the one after the last.
    pub rows: (u64, u64),
    /// First byte of a row and the one after the last.
    pub bytes: (u64, u64),
}

impl Region {
    /// What a tile touches; `None` if it touches nothing.
    pub fn of(tile: &Tile) -> Option<Region> {
        let size = as_u64(tile.view.dtype.size_bytes(1));
        let (least, most) = tile.view.extent()?;
        let (least, most) = (u64::try_from(least).ok()? * size, (u64::try_from(most).ok()? + 1) * size);
        let storage = &tile.storage;
        if storage.memory.on_chip() {
            return Some(on_chip(storage, least, most, &tile.view, size));
        }
        let flat =
            Region { storage: storage.id, tile: 0, pitch_bytes: 0, rows: (0, 1), bytes: (least, most) };
        if tile.view.gather.is_some() {
            return Some(flat);
        }
        let outer =
            tile.view.dims.iter().filter(|dim| dim.size > 1).max_by_key(|dim| dim.stride.unsigned_abs());
        let Some(outer) = outer else { return Some(flat) };
        let pitch = as_u64(outer.stride.unsigned_abs()) * size;
        let inner = (most - least).saturating_sub(pitch.saturating_mul(as_u64(outer.size - 1)));
        if pitch == 0 || least % pitch + inner > pitch {
            return Some(flat);
        }
        let row = least / pitch;
        let bytes = (least % pitch, least % pitch + inner);
        Some(Region { pitch_bytes: pitch, rows: (row, row + as_u64(outer.size)), bytes, ..flat })
    }

    /// True if they share a byte.
    pub fn overlaps(&self, other: &Region) -> bool {
        let meet = |a: (u64, u64), b: (u64, u64)| a.0 < b.1 && b.0 < a.1;
        if self.storage != other.storage || self.tile != other.tile {
            return false;
        }
        if self.pitch_bytes == other.pitch_bytes {
            return meet(self.rows, other.rows) && meet(self.bytes, other.bytes);
        }
        meet(self.span(), other.span())
    }

    /// True if every byte of `other` is in it.
    pub fn covers(&self, other: &Region) -> bool {
        let within = |a: (u64, u64), b: (u64, u64)| a.0 <= b.0 && b.1 <= a.1;
        self.storage == other.storage
            && self.tile == other.tile
            && self.pitch_bytes == other.pitch_bytes
            && within(self.rows, other.rows)
            && within(self.bytes, other.bytes)
    }

    /// First byte and the one after the last, over all rows.
    fn span(&self) -> (u64, u64) {
        let last = self.rows.1.saturating_sub(1);
        let at = |row: u64, byte: u64| row.saturating_mul(self.pitch_bytes).saturating_add(byte);
        (at(self.rows.0, self.bytes.0), at(last, self.bytes.1))
    }
}

fn on_chip(storage: &Storage, least: u64, most: u64, view: &View, size: u64) -> Region {
    let pitch = storage.partition_bytes().max(1);
    let tile_bytes = pitch.saturating_mul(as_u64(storage.partitions())).max(1);
    let tile = least / tile_bytes;
    let (row, byte) = (least % tile_bytes / pitch, least % pitch);
    let (rows, bytes) = if view.gather.is_some() {
        ((row, (most - 1) % tile_bytes / pitch + 1), (0, pitch))
    } else {
        let reach =
            view.dims.iter().skip(1).map(|dim| {
                as_u64(dim.size.saturating_sub(1)).saturating_mul(as_u64(dim.stride.unsigned_abs()))
            });
        let inner = reach.fold(1_u64, u64::saturating_add).saturating_mul(size);
        let rows = (most - least).saturating_sub(inner) / pitch + 1;
        ((row, row + rows), (byte, byte.saturating_add(inner)))
    };
    Region {
        storage: storage.id,
        tile: u32::try_from(tile).unwrap_or(u32::MAX),
        pitch_bytes: pitch,
        rows,
        bytes,
    }
}

/// A rank's part of a collective: with whom it meets, and on which links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The ranks that meet, itself among them, rising.
    pub members: Vec<u32>,
    /// Links that it uses, and how long it keeps each of them.
    pub links: Vec<(u32, u64)>,
    /// How often this core has met these ranks before.
    pub number: u32,
    /// When the last of them comes and the links are free; 0 as long as that is not known.
    pub start_ps: u64,
}

/// An executed instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Name in `nki.isa`.
    pub opcode: &'static str,
    /// Engine that executes it.
    pub engine: EngineKind,
    /// How long it takes.
    pub cost: Cost,
    /// What it reads.
    pub reads: SmallVec<[Region; 3]>,
    /// What it writes.
    pub writes: SmallVec<[Region; 1]>,
    /// Those of its reads that say where operands lie, by the sequencer and not by lanes.
    pub offsets: Option<Box<[Region]>>,
    /// Bytes read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes written to HBM.
    pub hbm_written_bytes: u64,
    /// Multiplications with addition on the tensor engine.
    pub macs: u64,
    /// Bits of an operand of the tensor engine; 0 on other engines.
    pub operand_bits: u32,
    /// Its operands are block-scaled (MXFP8, MXFP4).
    pub block_scaled: bool,
    /// MATMUL instructions that a product of the tensor engine is.
    pub passes: u8,
    /// A product of the tensor engine that takes all passes of its type: no transpose, nothing of zeros and ones.
    pub full_rows: bool,
    /// Cells of the systolic array that it runs on, as bits; 0 for all of them.
    pub cells: u16,
    /// How a transfer spreads.
    pub dma: Option<DmaShape>,
    /// Function tables that the Scalar engine needs.
    pub table: Option<Function>,
    /// True if bytes were read that nobody wrote.
    pub uninitialised: bool,
    /// True if a value lies where the table of its function does not reach.
    pub outside_table: bool,
    /// What it computes, for the compiler.
    pub form: crate::compiler::Form,
    /// What it computes besides its operands, as a number; 0 if that is not known.
    pub digest: u64,
    /// What it takes on the Scalar engine, if it may as well run there.
    pub on_scalar: Option<Cost>,
    /// The same of the GpSimd engine.
    pub on_gpsimd: Option<Cost>,
    /// A Vector instruction in a fast mode, for which it borrows GpSimd's port of SBUF.
    pub borrows_port: bool,
    /// Another instruction does its work.
    pub merged: bool,
    /// With whom it meets, if it is a collective.
    pub exchange: Option<Box<Exchange>>,
    /// Line, in the program's table.
    pub source: u32,
    /// Program of the launch grid, or core.
    pub program: u32,
    /// How often the cores have met before it.
    pub meeting: u32,
}

impl Instruction {
    /// An instruction that writes and reads these tiles.
    pub fn new(
        opcode: &'static str,
        engine: EngineKind,
        cost: Cost,
        writes: &[&Tile],
        reads: &[&Tile],
    ) -> Instruction {
        let indices = writes.iter().chain(reads).filter_map(|tile| Some(tile.view.index.as_ref()?.region));
        // Those of a transfer are read where its descriptors are made.
        let picked = writes.iter().chain(reads).filter(|_| engine != EngineKind::Dma);
        let picked = picked.filter_map(|tile| tile.view.picked_by.as_deref()).flatten().copied();
        let offsets: Vec<Region> = picked.collect();
        let sources = reads.iter().filter_map(|tile| Region::of(tile));
        Instruction {
            opcode,
            engine,
            cost,
            reads: sources.chain(indices).chain(offsets.iter().copied()).collect(),
            writes: writes.iter().filter_map(|tile| Region::of(tile)).collect(),
            offsets: (!offsets.is_empty()).then(|| offsets.into()),
            hbm_read_bytes: 0,
            hbm_written_bytes: 0,
            macs: 0,
            operand_bits: 0,
            block_scaled: false,
            passes: 1,
            full_rows: false,
            cells: 0,
            dma: None,
            table: None,
            uninitialised: false,
            outside_table: false,
            form: crate::compiler::Form::Other,
            digest: 0,
            on_scalar: None,
            on_gpsimd: None,
            borrows_port: false,
            merged: false,
            exchange: None,
            source: 0,
            program: 0,
            meeting: 0,
        }
    }

    /// The same, with what it computes: the form, and a digest of operators and of how operands lie.
    #[must_use]
    pub fn computing(mut self, form: crate::compiler::Form, tiles: &[&Tile], words: &[u64]) -> Instruction {
        self.form = form;
        self.digest = digest(self.opcode, tiles, words);
        self
    }

    /// The same, with what reading its operands showed.
    #[must_use]
    pub fn reading(mut self, uninitialised: bool) -> Instruction {
        self.uninitialised |= uninitialised;
        self
    }
}

/// A number for what an instruction computes: a hash of its name, its operands' patterns and its other operands, word by word; 0 for
/// patterns that are no loops.
fn digest(opcode: &str, tiles: &[&Tile], words: &[u64]) -> u64 {
    // Odd, half of its bits set: a word changes all that lie above its own bits, the shift brings them down again.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    if tiles.iter().any(|tile| tile.view.gather.is_some()) {
        return 0;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| {
        hash = (hash ^ word).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    };
    for name in opcode.as_bytes().chunks(8) {
        add(name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    words.iter().copied().for_each(&mut add);
    for tile in tiles {
        add(tile.view.dtype as u64);
        for dim in &tile.view.dims {
            add(as_u64(dim.size));
            add(dim.stride.cast_unsigned() as u64);
        }
    }
    hash | 1
}

/// A tensor that the program used, for capacity and findings.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Number of the tensor.
    pub storage: u32,
    /// Where it lives.
    pub memory: crate::Memory,
    /// Bytes of a partition that one of its tiles takes; of the whole in HBM.
    pub partition_bytes: u64,
    /// Tiles.
    pub tiles: u32,
    /// Name that the kernel gave.
    pub name: String,
    /// Line, in the program's table.
    pub source: u32,
    /// Where the kernel wants each tile: start partition and byte; empty if it leaves that to the compiler.
    pub places: Vec<(u32, u64)>,
    /// Partitions of a tile.
    pub partitions: u32,
    /// Instructions executed before it was made.
    pub made_at: usize,
}

/// A recorded run.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Instructions in order of execution.
    pub instructions: Vec<Instruction>,
    /// Tensors in order of allocation.
    pub allocations: Vec<Allocation>,
    /// Lines, as `file:line`.
    pub sources: Vec<String>,
    /// Cores that run the programs of the launch side by side; programs of other launches follow each other on one.
    pub cores: u32,
    /// The kernel asks for its own order of instructions.
    pub in_order: bool,
    /// The compiler of the first dialect may change it.
    pub compiled: bool,
}

impl Program {
    /// The core that an instruction runs on.
    pub fn core(&self, instruction: &Instruction) -> u32 {
        if self.cores > 1 { instruction.program % self.cores } else { 0 }
    }

    /// Bytes read from and written to HBM.
    pub fn hbm_bytes(&self) -> (u64, u64) {
        self.instructions.iter().fold((0_u64, 0_u64), |(read, written), instruction| {
            (
                read.saturating_add(instruction.hbm_read_bytes),
                written.saturating_add(instruction.hbm_written_bytes),
            )
        })
    }

    /// The text of a line.
    pub fn source(&self, index: u32) -> &str {
        self.sources.get(index as usize).map_or("?", String::as_str)
    }
}
