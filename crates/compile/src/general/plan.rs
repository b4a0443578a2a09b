//! A general graph on the chip: kernels, their places in HBM, and one program (stages 3 to 5).
//!
//! Values of 32-bit words lie row-major over the slices of a PE: each slice's share is a block of whole flits, the blocks follow each other, so
//! that the elements of a value follow each other in HBM.

use std::collections::BTreeMap;

use tilewright_graph::{Fold, Graph, Store};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp::cost::Context;
use tilewright_tcp::kernels::chain::chain;
use tilewright_tcp::kernels::pass::{Run, Target, commit, exec, fetch_pairs, fetch_words, pass};
use tilewright_tcp::program::Count;
use tilewright_tcp::program::Program;
use tilewright_tcp::program::exec::{StepLoop, Stream, Switch, Transpose};
use tilewright_tcp::program::tensor::{Data, Place, Role, Tensor};
use tilewright_tcp::program::text::lowered_shape;
use tilewright_tcp::program::transfer::{Transfer, TransferIndex, TransferLoop};
use tilewright_tcp::program::vector::{Op, OpKind, Reduce, ReduceLimit, ReduceOp, Vector, Word};
use tilewright_tcp::vector::FLIT_WORDS;

use super::emit::{Block, Emitter, hbm};
use super::form::kernels;
use super::kernel::{Kernels, Sizes, Value, Work};
use super::merge::merged;
use super::passes::{Pass, passes};
use super::refusal::{Lowered, Refusal};
use super::tactic::{Tactic, tactics};
use super::view::signed;

/// Bytes of a word.
const WORD_BYTES: u64 = 4;
/// Words of a stream that each slice works on at once, at most.
const MOST_TILE_WORDS: u64 = 16_384;

/// A graph that is ready to run on a chip.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its kernels.
    pub kernels: Kernels,
    /// First byte of each value in HBM.
    pub places: Vec<u64>,
    /// Bytes of HBM that it takes.
    pub hbm_bytes: u64,
    /// Tactic of each contraction, by the number of its kernel.
    pub tactics: BTreeMap<usize, Tactic>,
    /// Transfers and commands of each kernel: how many came before it.
    pub commands: Vec<(usize, usize)>,
    /// All commands.
    pub program: Program,
}

/// Elements of each slice's share of a value.
pub fn share(machine: &Tcp, count: u64) -> u64 {
    count.div_ceil(machine.pe.slices.max(1)).next_multiple_of(FLIT_WORDS)
}

/// A graph of primitives as one program.
///
/// # Errors
/// The first node that is not lowered, and why.
pub fn plan(machine: &Tcp, graph: &Graph, store: &Store) -> Result<Planned, Refusal> {
    let kernels = merged(kernels(graph, store)?);
    let mut tactics_of: BTreeMap<Sizes, Vec<Tactic>> = BTreeMap::new();
    let mut chosen = BTreeMap::new();
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        let Work::Contract { sizes, .. } = kernel.work else { continue };
        let found = match tactics_of.get(&sizes) {
            Some(found) => found,
            None => {
                let found = tactics(machine, sizes, 1).map_err(|why| refusal(&kernels, number, why))?;
                tactics_of.entry(sizes).or_insert(found)
            }
        };
        if let Some(best) = found.first() {
            chosen.insert(number, best.clone());
        }
    }
    let mut planner = Planner { emitter: Emitter::new(machine), kernels: &kernels, places: Vec::new() };
    for value in &kernels.values {
        let bytes = share(machine, value.count()) * machine.pe.slices * value.element_bytes();
        let place = planner.emitter.room(bytes);
        planner.places.push(place);
    }
    let mut commands = Vec::new();
    for number in 0..kernels.kernels.len() {
        commands.push(planner.emitter.commands());
        planner.kernel(number, chosen.get(&number)).map_err(|why| refusal(&kernels, number, why))?;
    }
    let (places, hbm_bytes) = (planner.places, planner.emitter.taken_bytes());
    let mut program = planner.emitter.finish();
    program.tensors.extend(memory(hbm_bytes));
    Ok(Planned { kernels, places, hbm_bytes, tactics: chosen, commands, program })
}

/// All of HBM that is used, which the host clears and fills before a run.
fn memory(bytes: u64) -> Option<Tensor> {
    let words = bytes.div_ceil(WORD_BYTES).max(1);
    let axes = vec![("W".to_string(), words)];
    let (shape, map) = lowered_shape(&axes, &format!("| W^1[{words}]")).ok()?;
    Some(Tensor {
        name: "memory".to_string(),
        dtype: Dtype::I32,
        axes,
        role: Role::Input,
        place: Place::Hbm { chip: 0, base: 0 },
        shape,
        map,
        data: Data::None,
        span: tilewright_base::Span::default(),
    })
}

fn refusal(kernels: &Kernels, number: usize, why: String) -> Refusal {
    let kernel = &kernels.kernels[number];
    let node = kernel.results.first().map_or_else(String::new, |value| kernels.values[*value].name.clone());
    Refusal { node, op: kernel.name().to_string(), why }
}

struct Planner<'p> {
    emitter: Emitter<'p>,
    kernels: &'p Kernels,
    places: Vec<u64>,
}

impl Planner<'_> {
    fn value(&self, number: usize) -> &Value {
        &self.kernels.values[number]
    }

    fn machine(&self) -> &Tcp {
        self.emitter.machine
    }

    fn kernel(&mut self, number: usize, tactic: Option<&Tactic>) -> Lowered<()> {
        let kernel = &self.kernels.kernels[number];
        let to = *kernel.results.first().ok_or("a kernel without a result")?;
        match &kernel.work {
            Work::Move(parts) => {
                for part in parts {
                    let bytes = self.value(to).element_bytes();
                    let places = [self.places[part.from], self.places[to]];
                    self.emitter.part("move", part, bytes, places);
                }
                Ok(())
            }
            Work::Gather { from, table, around } => {
                self.gather(*from, *table, *around, to);
                Ok(())
            }
            Work::Scatter { base, table, rows, inner } => {
                self.scatter([*base, *table, *rows, to], *inner);
                Ok(())
            }
            Work::Chain { inputs, lines, streams } => {
                let made = passes(self.emitter.machine, inputs.len(), lines, streams);
                self.chain(inputs, streams, &kernel.results, &made.ok_or("a step that no unit does")?)
            }
            Work::Contract { a, b, sizes } => {
                let tactic = tactic.ok_or("no tactic")?;
                self.contract([*a, *b, to], *sizes, tactic)
            }
            Work::Reduce { from, fold, columns } => self.reduce(*from, to, *fold, *columns),
        }
    }

    /// Rows by a table of byte offsets: the table's loop is the outermost.
    fn rows(&mut self, name: &str, bytes: &IndexedRows, scatter: bool) {
        let machine = self.emitter.machine;
        let most = machine.tdma.packet_max_bytes;
        let (mut row, entries) = (0, machine.sequencer.entry_size_max);
        while row < bytes.rows {
            let rows = (bytes.rows - row).min(entries);
            let mut done = 0;
            while done < bytes.row_bytes {
                let packet = (bytes.row_bytes - done).min(most);
                let skip = |stride: i64| stride.saturating_mul(signed(row)).saturating_add(signed(done));
                let at = |base: u64, stride: i64, by_table: bool| {
                    hbm(base).step(if by_table { signed(done) } else { skip(stride) }).unwrap_or(hbm(base))
                };
                let looped = |size: u64, source: i64, target: i64| TransferLoop {
                    size: Count::Fixed(size),
                    source,
                    target,
                };
                let step = signed(bytes.row_bytes);
                let transfer = Transfer {
                    name: name.to_string(),
                    source: at(bytes.source, step, !scatter),
                    target: at(bytes.target, step, scatter),
                    loops: vec![
                        looped(rows, step, step),
                        looped(bytes.outer.0, bytes.outer.1, bytes.outer.2),
                    ],
                    packet,
                    index: Some(TransferIndex {
                        table: hbm(bytes.table + row * WORD_BYTES),
                        dtype: Dtype::I32,
                        scatter,
                    }),
                    span: tilewright_base::Span::default(),
                };
                self.emitter.transfer(transfer);
                done += packet;
            }
            row += rows;
        }
    }

    fn gather(&mut self, from: usize, table: usize, (outer, size, inner): (u64, u64, u64), to: usize) {
        let (rows, row_bytes) = (self.value(table).count(), inner * WORD_BYTES);
        let by = |rows: u64| signed(rows * row_bytes);
        let rows = IndexedRows {
            source: self.places[from],
            target: self.places[to],
            table: self.places[table],
            rows,
            row_bytes,
            outer: (outer, by(size), by(rows)),
        };
        self.rows("gather", &rows, false);
    }

    fn scatter(&mut self, [base, table, rows, to]: [usize; 4], inner: u64) {
        let bytes = self.value(to).count() * WORD_BYTES;
        let (source, target) = (hbm(self.places[base]), hbm(self.places[to]));
        let whole = super::moves::Bytes { source, target, loops: Vec::new(), inside: bytes };
        self.emitter.bytes("copy", &whole);
        let rows = IndexedRows {
            source: self.places[rows],
            target: self.places[to],
            table: self.places[table],
            rows: self.value(table).count(),
            row_bytes: inner * WORD_BYTES,
            outer: (1, 0, 0),
        };
        self.rows("scatter", &rows, true);
    }

    fn chain(
        &mut self,
        inputs: &[usize],
        streams: &[usize],
        results: &[usize],
        passes: &[Pass],
    ) -> Lowered<()> {
        let count = self.value(results[0]).count();
        let words = share(self.machine(), count);
        let rooms = Rooms::new(inputs.len(), streams, passes);
        let half = streams.iter().zip(results).filter(|(_, value)| self.value(**value).half).count() as u64;
        let room = self.machine().dm.capacity_bytes / WORD_BYTES / (rooms.most + half).max(1);
        let most = (room / FLIT_WORDS * FLIT_WORDS).min(MOST_TILE_WORDS);
        if most == 0 {
            return Err(format!("{} streams at once do not fit data memory", rooms.most));
        }
        let mut first = 0;
        while first < words {
            let tile = most.min(words - first);
            self.tile(&Tile { inputs, streams, results, passes, rooms: &rooms, words, first, tile });
            first += tile;
        }
        Ok(())
    }

    /// A tile of every slice's share: in, through the passes, out.
    fn tile(&mut self, tile: &Tile<'_>) {
        let slices = self.machine().pe.slices;
        let room = |at: u64| at * tile.tile * WORD_BYTES;
        let block = |place: u64, dm: u64, element_bytes: u64| Block {
            hbm: place + tile.first * element_bytes,
            dm,
            first_slice: 0,
            slices,
            pitch_bytes: tile.words * element_bytes,
            rows: 1,
            row_bytes: tile.tile * element_bytes,
            hbm_row_bytes: 0,
            dm_row_bytes: 0,
        };
        for (stream, value) in tile.inputs.iter().enumerate() {
            if let Some(at) = tile.rooms.of[stream] {
                self.emitter.slices("bring", true, &block(self.places[*value], room(at), WORD_BYTES));
            }
        }
        let at = |stream: usize| room(tile.rooms.of[stream].unwrap_or(0));
        for pass in tile.passes {
            self.pass(pass, at(pass.stream), pass.pair.map(at), tile.tile, (at(pass.result), None));
        }
        let mut spare = tile.rooms.most;
        for (stream, value) in tile.streams.iter().zip(tile.results) {
            let mut from = at(*stream);
            if self.value(*value).half {
                let to = room(spare);
                spare += 1;
                let plain = Pass { stream: 0, pair: None, vector: chain(Word::F32, Vec::new()), result: 0 };
                self.pass(&plain, from, None, tile.tile, (to, Some(Dtype::Bf16)));
                from = to;
            }
            let bytes = self.value(*value).element_bytes();
            self.emitter.slices("keep", false, &block(self.places[*value], from, bytes));
        }
    }

    fn pass(
        &mut self,
        pass: &Pass,
        from: u64,
        pair: Option<u64>,
        words: u64,
        (to, cast): (u64, Option<Dtype>),
    ) {
        self.emitter.exec(command(&pass.vector, from, pair, words, (to, cast)));
    }

    fn contract(&mut self, [a, b, to]: [usize; 3], sizes: Sizes, tactic: &Tactic) -> Lowered<()> {
        let Sizes { batch, rows, columns, summed } = sizes;
        let own =
            [(a, ["b", "m", "k"], [batch, rows, summed]), (b, ["b", "n", "k"], [batch, columns, summed])];
        let blocks = [0, 1, 2].map(|at| self.emitter.room(tactic.operands[at].image.bytes()));
        let chunk = tactic.chunk;
        let starts = |size: u64, by: u64| (0..size).step_by(usize::try_from(by.max(1)).unwrap_or(usize::MAX));
        let none = || "digits that do not make up an axis".to_string();
        for first in starts(batch, chunk.batch) {
            for row in starts(rows, chunk.rows) {
                for column in starts(columns, chunk.columns) {
                    let live = |size: u64, at: u64, by: u64| by.min(size - at);
                    let (live_batch, live_rows) =
                        (live(batch, first, chunk.batch), live(rows, row, chunk.rows));
                    let live_columns = live(columns, column, chunk.columns);
                    for (at, (value, letters, dims)) in own.iter().enumerate() {
                        let (skip, lives) = if at == 0 { (row, live_rows) } else { (column, live_columns) };
                        let placed = &tactic.operands[at];
                        let axes = placed.axes_of(*letters, *dims, [live_batch, lives, summed]);
                        let from = (first * dims[1] + skip) * summed;
                        let parts = placed.image.parts(*value, &axes, true).ok_or_else(none)?;
                        let base = self.places[*value] + from * 2;
                        for part in &parts {
                            self.emitter.part("lay", part, 2, [base, blocks[at]]);
                        }
                        self.whole("bring", true, blocks[at], placed);
                    }
                    let out = &tactic.operands[2];
                    let bytes = out.image.pitch * out.image.element_bytes;
                    self.emitter.clear("clear", out.base, bytes);
                    self.emitter.commands_of(&tactic.program, "contract");
                    self.whole("keep", false, blocks[2], out);
                    let axes = out.axes_of(
                        ["b", "m", "n"],
                        [batch, rows, columns],
                        [live_batch, live_rows, live_columns],
                    );
                    let base = self.places[to] + ((first * rows + row) * columns + column) * WORD_BYTES;
                    for part in out.image.parts(to, &axes, false).ok_or_else(none)? {
                        self.emitter.part("lay", &part.turned(), WORD_BYTES, [blocks[2], base]);
                    }
                }
            }
        }
        Ok(())
    }

    /// All of a block, to data memory or from there.
    fn whole(&mut self, name: &str, to_dm: bool, hbm: u64, placed: &super::tactic::Placed) {
        let bytes = placed.image.pitch * placed.image.element_bytes;
        let block = Block {
            hbm,
            dm: placed.base,
            first_slice: 0,
            slices: placed.image.slices,
            pitch_bytes: bytes,
            rows: 1,
            row_bytes: bytes,
            hbm_row_bytes: 0,
            dm_row_bytes: 0,
        };
        self.emitter.slices(name, to_dm, &block);
    }

    fn reduce(&mut self, from: usize, to: usize, fold: Fold, columns: u64) -> Lowered<()> {
        let machine = self.emitter.machine;
        let rows = self.value(to).count();
        let share = share(machine, rows);
        let float = self.value(from).dtype.is_float();
        // Rows start on whole granules, in HBM too.
        let granule_words = machine.tdma.alignment_bytes / WORD_BYTES;
        let pitch = columns.next_multiple_of(granule_words.max(1));
        let mut source = self.places[from];
        if pitch != columns {
            let staged = self.emitter.room(rows * pitch * WORD_BYTES);
            let loops = vec![(rows, signed(columns), signed(pitch)), (columns, 1, 1)];
            let part = super::kernel::Part { from, from_first: 0, to_first: 0, loops };
            self.emitter.part("pad", &part, WORD_BYTES, [source, staged]);
            source = staged;
        }
        let padded = columns.next_multiple_of(FLIT_WORDS);
        let row_words = padded + 1;
        let most = machine.dm.capacity_bytes / WORD_BYTES / row_words / FLIT_WORDS * FLIT_WORDS;
        if most == 0 {
            return Err(format!("rows of {columns} do not fit data memory"));
        }
        let mut first = 0;
        while first < share {
            let tile = most.min(share - first);
            let sums = tile * padded * WORD_BYTES;
            self.emitter.clear("clear", 0, sums);
            // Slices whose rows are all there, and the one where they end.
            let (whole, rest) = (rows / share, rows % share);
            let ends = [(0, whole, tile), (whole, 1, rest.saturating_sub(first).min(tile))];
            for (first_slice, slices, live) in ends.into_iter().filter(|(_, slices, live)| slices * live > 0)
            {
                let block = Block {
                    hbm: source + (first_slice * share + first) * pitch * WORD_BYTES,
                    dm: 0,
                    first_slice,
                    slices,
                    pitch_bytes: share * pitch * WORD_BYTES,
                    rows: live,
                    row_bytes: pitch * WORD_BYTES,
                    hbm_row_bytes: pitch * WORD_BYTES,
                    dm_row_bytes: padded * WORD_BYTES,
                };
                self.emitter.slices("bring", true, &block);
            }
            self.emitter.exec(reduction(fold, float, (tile, columns), sums));
            let block = Block {
                hbm: self.places[to] + first * WORD_BYTES,
                dm: sums,
                first_slice: 0,
                slices: machine.pe.slices,
                pitch_bytes: share * WORD_BYTES,
                rows: 1,
                row_bytes: tile * WORD_BYTES,
                hbm_row_bytes: 0,
                dm_row_bytes: 0,
            };
            self.emitter.slices("keep", false, &block);
            first += tile;
        }
        Ok(())
    }
}

/// Rows that a table names.
struct IndexedRows {
    source: u64,
    target: u64,
    table: u64,
    rows: u64,
    row_bytes: u64,
    /// A loop inside: size, bytes at the source and at the target.
    outer: (u64, i64, i64),
}

/// A tile of a chain.
struct Tile<'t> {
    inputs: &'t [usize],
    streams: &'t [usize],
    results: &'t [usize],
    passes: &'t [Pass],
    rooms: &'t Rooms,
    /// Words of each slice's share.
    words: u64,
    /// First of the tile.
    first: u64,
    /// Words of the tile.
    tile: u64,
}

/// Which room of data memory each stream has; those whose last reader ran give theirs to later ones.
struct Rooms {
    of: Vec<Option<u64>>,
    most: u64,
}

impl Rooms {
    fn new(inputs: usize, kept: &[usize], passes: &[Pass]) -> Rooms {
        let streams = passes.iter().map(|pass| pass.result + 1).max().unwrap_or(0).max(inputs);
        let mut last = vec![None; streams];
        for (at, pass) in passes.iter().enumerate() {
            last[pass.stream] = Some(at);
            if let Some(pair) = pass.pair {
                last[pair] = Some(at);
            }
        }
        kept.iter().for_each(|stream| last[*stream] = Some(passes.len()));
        let mut rooms = Rooms { of: vec![None; streams], most: 0 };
        let mut free: Vec<u64> = Vec::new();
        for stream in (0..inputs).filter(|stream| last[*stream].is_some()) {
            rooms.take(stream, &mut free);
        }
        for (at, pass) in passes.iter().enumerate() {
            rooms.take(pass.result, &mut free);
            let ended = (0..streams).filter(|stream| last[*stream] == Some(at));
            free.extend(ended.filter_map(|stream| rooms.of[stream]));
        }
        rooms
    }

    fn take(&mut self, stream: usize, free: &mut Vec<u64>) {
        let room = free.pop().unwrap_or_else(|| {
            self.most += 1;
            self.most - 1
        });
        self.of[stream] = Some(room);
    }
}

/// A command of the vector engine on words that lie side by side.
fn command(
    vector: &Vector,
    from: u64,
    pair: Option<u64>,
    words: u64,
    (to, cast): (u64, Option<Dtype>),
) -> tilewright_tcp::program::Exec {
    let dtype = match vector.input {
        Word::F32 => Dtype::F32,
        Word::I32 => Dtype::I32,
    };
    let run = Run { dtype, base: from, elements: words };
    let fetch = match pair {
        Some(second) => fetch_pairs(run, second),
        None => fetch_words(dtype, from, &[(words, 1)]),
    };
    let leaves = match tilewright_tcp::vector::output(vector) {
        Word::F32 => Dtype::F32,
        Word::I32 => Dtype::I32,
    };
    let target = Target { dtype: cast.unwrap_or(leaves), base: to };
    pass("chain", fetch, vector.clone(), words / FLIT_WORDS, target)
}

/// One word of each row.
fn reduction(fold: Fold, float: bool, (rows, columns): (u64, u64), to: u64) -> tilewright_tcp::program::Exec {
    let padded = columns.next_multiple_of(FLIT_WORDS);
    let halves = padded / tilewright_tcp::vector::HALF_WORDS;
    let op = match fold {
        Fold::Max => ReduceOp::Max,
        Fold::Min => ReduceOp::Min,
        Fold::Sum | Fold::Prod => ReduceOp::Add,
    };
    let step = |size: u64, summed: bool| StepLoop { size: Count::Fixed(size), summed };
    let limit = ReduceLimit {
        extent: Count::Fixed(columns),
        slices: Vec::new(),
        weights: vec![0, tilewright_tcp::vector::HALF_WORDS],
        element: 1,
    };
    let limits = if padded == columns { Vec::new() } else { vec![limit] };
    let reduce = Reduce { op, tree: true, steps: vec![step(rows, false), step(halves, true)], limits };
    let op = Op { kind: OpKind::Reduce(reduce), operands: Vec::new(), reversed: false, stash: false };
    let (word, dtype) = if float { (Word::F32, Dtype::F32) } else { (Word::I32, Dtype::I32) };
    let stream = Stream {
        fetch: fetch_words(dtype, 0, &[(rows, signed(padded)), (padded, 1)]),
        switch: Switch::default(),
        contract: None,
        vector: Some(chain(word, vec![op])),
        cast: None,
        // Each word comes in a flit of its own; two of them make a granule.
        transpose: Some(Transpose { rows: 2, columns: FLIT_WORDS, kept: 1 }),
        commit: commit(to, rows / 2, 2 * WORD_BYTES),
    };
    exec("reduce", Context::Main, stream)
}
