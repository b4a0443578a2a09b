//! One tile of a contraction on one PE: lowered shapes, its two commands, and their cycles.
//!
//! The operand with the columns is held: lanes are neighbouring columns, so that sums leave as runs of the
//! result's rows. The sum is dealt out over neighbouring slices; the reducer adds their parts in the same
//! command and deals out rows, so that each slice keeps its share of them (paper section II-B, E3; vISA book,
//! inter-slice reducer).

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_isa::contraction::{drain_capacity, full_packet_elements};
use tilewright_tcp_isa::program::exec::{Contract, Drain, Exec, Limit, Memory, Stream, Switch};
use tilewright_tcp_isa::program::text::lowered_shape;
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;
use tilewright_tcp_isa::program::vector::{Op, ReduceOp, ReduceOutput, Vector, Word};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::super::image::Image;
use super::super::kernel::{Packing, Sizes};
use super::super::tactic::{Placed, multiplied};
use super::chain_passes::ChainPasses;
use super::empty::{Empty, Holes};
use super::epilogue::Epilogue;
use super::exchange::{Exchange, ring};
use super::finish::{Finish, Operand, Placement, Stored};
use super::grid::Tile;
use super::lines::Windows;
use super::patch::Patch;
use super::rooms::Rooms;
use super::split::{Split, Spread};
use super::traffic::{Place, operand_place};
use crate::tcp::image::{chain, commit, contraction, copy, fetch, fetch_words, main, n, nest, steps};

/// Bytes of a sum.
pub(super) const WORD_BYTES: u64 = 4;

/// What runs on tiles, and the windows that rows are positions of.
pub(super) type Behind<'b> = (Option<&'b Epilogue>, Option<&'b Windows>);

/// What every slice has of a tile, with what fills it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileShape {
    /// Positions of the batch, all their rows, columns and the sum that are not padding.
    pub(super) live: Sizes,
    /// Slices.
    pub(super) over: Spread,
    /// Rows of a slice before the reducer deals them out.
    pub(super) rows: u64,
    /// Columns of a slice.
    pub(super) columns: u64,
    /// Slices that exchange sums.
    pub(super) ring: u64,
    /// Elements of a slice's part of the sum.
    pub(super) summed: u64,
    /// Elements of a packet.
    packet: u64,
    /// Positions of a line of windows, alone and with padding; none if rows are no positions of windows.
    pub(super) line: Option<[u64; 2]>,
    /// What a slice has of the value that windows look at, if it comes once.
    pub(super) patch: Option<Patch>,
    /// Slices of a ring have blocks of rows, which transfers bring as long runs; else each in turn has one.
    pub(super) blocks: bool,
}

/// What a tile takes, by closed forms alone.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    pub(super) load_cycles: u64,
    pub(super) contract_cycles: u64,
    /// Cycles that adding sums of a block to those before it takes.
    pub(super) add_cycles: u64,
    /// What it takes of data memory.
    pub(super) rooms: Rooms,
    /// Copies of rows and of columns that transfers bring.
    pub(super) copies: [u64; 2],
    /// Elements of a row or column that a slice takes at once.
    pub(super) summed: u64,
    /// Rows of an operand that lie in a slice as they lie in HBM, if they do there.
    pub(super) rows_at_once: u64,
    /// Cycles of the main and of the sub context behind the contraction.
    pub(super) finish_cycles: [u64; 2],
    /// Both need the vector engine, so that the next contraction waits for them.
    pub(super) serial: bool,
    /// Values that are brought beside the sums.
    pub(super) brought: u64,
    /// Bytes of an element of each value that is written.
    pub(super) stored: Vec<u64>,
    /// Columns of a row that a slice gives at once.
    pub(super) run_columns: u64,
    /// Rows of a slice that follow each other.
    pub(super) run_rows: u64,
    /// What a slice has of the value that windows look at, if it comes once.
    pub(super) patch: Option<Patch>,
}

/// A tile with its commands.
#[derive(Clone, Debug)]
pub(super) struct TileProgram {
    shape: TileShape,
    /// Operands; places of slices are those of the address space.
    pub(super) operands: [Placed; 2],
    /// Results in words, in elements of two bytes and in those of one.
    results: [Placed; 3],
    /// Places that no transfer fills, of rows and of columns.
    pub(super) empty: [Empty; 2],
    /// Places of rows that are padding of lines.
    pub(super) holes: Holes,
    /// What slices exchange before results are stored.
    pub(super) exchange: Exchange,
    /// The chain behind the contraction.
    pub(super) finish: Finish,
    /// How operands of the vector register file lie in data memory.
    pub(super) vectors: Vec<Placed>,
    /// How values of one element a row lie.
    pub(super) row_values: Option<Placed>,
}

impl TileShape {
    /// The share of every slice before an epilogue; `None` if register files or accumulators cannot hold it.
    pub(super) fn new(
        machine: &Tcp,
        live: Sizes,
        split: Split,
        (epilogue, windows): Behind<'_>,
    ) -> Option<TileShape> {
        let over = split.over(split.fused * machine.pe.slices);
        let full = full_packet_elements(machine, multiplied(live.operands));
        let flit = machine.network.flit_bytes / live.operands.element_bytes();
        let share = live.summed.div_ceil(over.summed);
        // Windows are fetched in whole packets of their runs.
        let cuts = |windows: &Windows| split.patches && !windows.run().is_multiple_of(full);
        let packet = if share <= flit || windows.is_some_and(cuts) { flit } else { full };
        let columns = live.columns.div_ceil(over.columns);
        let columns = columns.next_multiple_of(machine.ce.lanes * over.columns_ring);
        let ring = if epilogue.is_some_and(Epilogue::has_rows) {
            over.columns
        } else {
            ring(machine, columns * least_bytes(epilogue), over.columns)
        };
        // Powers of two: what the largest divides, all divide.
        let turns = (over.summed * ring).max(over.rows_ring);
        let planes = live.batch;
        let exact = live.rows.is_multiple_of(over.rows * turns);
        if planes > 1 && !(exact && over.column_copies().is_multiple_of(planes)) {
            return None;
        }
        let line = windows.map(|windows| [windows.rows().live(), windows.rows().padded()]);
        let rows = live.rows.div_ceil(over.rows).next_multiple_of(turns);
        let rows = match line {
            // Parts of slices are whole lines, or lines are whole parts.
            Some([_, padded]) if rows > padded => rows.next_multiple_of(padded * over.summed * ring),
            Some(_) => rows.next_power_of_two(),
            None => rows,
        };
        let rows = rows.next_multiple_of(turns);
        let unit = machine.hbm.access_bytes / live.operands.element_bytes();
        let patch = if split.patches {
            let found = Patch::new(windows?.geometry(unit)?, rows / over.rows_ring, packet)?;
            Some(found).filter(|patch| patch.divides(live.rows) && over.summed == 1)
        } else {
            None
        };
        let is_masked = live.runs.is_none() || patch.is_some_and(|patch| patch.has_runs(live.runs));
        if split.patches != patch.is_some() || !is_masked {
            return None;
        }
        let summed = share.next_multiple_of(packet);
        let own = rows / over.rows_ring;
        let cut = |[_, padded]: [u64; 2]| !own.is_multiple_of(padded) && !padded.is_multiple_of(own);
        let blocks = patch.is_some()
            || over.summed == 1 && !live.summed.is_multiple_of(unit) && !line.is_some_and(cut);
        let shape = TileShape { live, over, rows, columns, ring, summed, packet, line, patch, blocks };
        shape.fits(machine).then_some(shape)
    }

    fn fits(&self, machine: &Tcp) -> bool {
        let lanes = machine.ce.lanes;
        let held = self.columns / lanes * self.summed * self.operand_bytes();
        let open = self.columns / lanes * self.over.rows_ring;
        let capacity = drain_capacity(machine, Drain::Interleaved, lanes, 1);
        let most = machine.sequencer.entry_size_max;
        held <= machine.trf_lane_payload_bytes()
            && (self.packets() == 1 || open <= capacity)
            && self.rows <= most
            && self.columns * self.summed <= most * self.packet
    }

    /// Cycles of the contraction at least: products of each lane, and flits of the ring.
    pub(super) fn least_cycles(&self, machine: &Tcp) -> u64 {
        let products = self.rows * self.packets() * (self.columns / machine.ce.lanes);
        let flits =
            self.rows / self.over.rows_ring * self.summed * self.operand_bytes() / machine.network.flit_bytes;
        let ring = if self.over.rows_ring > 1 { self.over.rows_ring * self.over.summed } else { 1 };
        products.max(flits * ring)
    }

    /// Columns that are not padding.
    pub(super) fn live_columns(&self) -> u64 {
        self.live.columns
    }

    /// The type of what is multiplied.
    fn multiplied(&self) -> Dtype {
        multiplied(self.live.operands)
    }

    /// Bytes of an operand's element.
    pub(super) fn operand_bytes(&self) -> u64 {
        self.live.operands.element_bytes()
    }

    /// Bytes of so many numbers of the operand with the columns in memory.
    pub(super) fn held_bytes(&self, elements: u64) -> u64 {
        elements * self.operand_bytes() / self.live.held.numbers()
    }

    /// Words of sums.
    pub(super) fn sum_word(&self) -> Word {
        if self.live.operands == Packing::Byte { Word::I32 } else { Word::F32 }
    }

    fn packets(&self) -> u64 {
        self.summed / self.packet
    }

    /// Rows of a slice behind the reducer.
    pub(super) fn kept_rows(&self) -> u64 {
        self.rows / self.over.summed
    }

    /// Bytes that each slice has of rows, columns and sums.
    pub(super) fn slice_bytes(&self) -> [u64; 3] {
        let windows = self.rows / self.over.rows_ring * self.summed;
        [
            self.patch.map_or(windows, |patch| patch.elements()) * self.operand_bytes(),
            self.held_bytes(self.columns / self.over.columns_ring * self.summed),
            self.kept_rows() * self.columns * WORD_BYTES,
        ]
    }

    /// Columns from data memory to the register files: one to each lane in turn.
    pub(super) fn load(&self, machine: &Tcp, from: u64) -> Exec {
        let over = &self.over;
        let own = self.columns / over.columns_ring;
        let (lanes, flit) = (machine.ce.lanes, machine.network.flit_bytes);
        let row = self.summed * self.operand_bytes();
        let is_widened = self.live.held != self.live.operands;
        // Words pass the cast engine, which makes bytes of a flit of them.
        let piece = if is_widened { FLIT_WORDS } else { flit / self.operand_bytes() };
        let kept = piece * self.operand_bytes();
        let fetch = if is_widened {
            fetch_words(Dtype::I4, from, &[(n(own), self.summed), (n(self.summed), 1)])
        } else {
            let walk = [(n(own), self.summed), (n(self.summed / piece), piece), (n(piece), 1)];
            fetch(self.multiplied(), from, &walk, piece)
        };
        let lane = machine.trf_lane_payload_bytes();
        let mut to = vec![(n(own / lanes), row), (n(lanes), lane), (n(row / kept), kept)];
        let mut switch = Switch::default();
        if over.columns_ring > 1 {
            to.push((n(over.columns_ring), own / lanes * row));
            let ring = Ring { slice1: over.columns_ring, slice0: over.columns * over.summed };
            switch.topology = Topology::Broadcast1(ring);
        }
        let commit = commit(Memory::Trf { lanes }, 0, &to, kept);
        let name = if is_widened { "widen_columns" } else { "load_columns" };
        let cast = is_widened.then(|| self.multiplied());
        main(name, Stream { switch, cast, ..copy(fetch, commit) })
    }

    /// The contraction of all rows with the columns that are held, and the first units of what follows.
    pub(super) fn contract(&self, machine: &Tcp, finish: &Finish, from: u64, to: u64) -> Exec {
        let turns = self.over.rows_ring;
        let own = self.rows / turns;
        let groups = self.columns / machine.ce.lanes;
        let packets = self.packets();
        let loops = match self.patch {
            Some(patch) => patch.walk(self.packet).map(|(size, stride)| (n(size), stride)).to_vec(),
            None => vec![(n(own), self.summed), (n(packets), self.packet), (n(self.packet), 1)],
        };
        let from = from + self.patch.map_or(0, |patch| patch.ahead()) * self.operand_bytes();
        let mut fetch = fetch(self.multiplied(), from, &loops, self.packet);
        fetch.limits = self.mask().into_iter().collect();
        let mut switch = Switch::default();
        if turns > 1 {
            switch.topology = Topology::Broadcast1(Ring { slice1: turns, slice0: self.over.summed });
        }
        let walk = [
            (n(own), 0),
            (n(packets), self.packet),
            (n(turns), 0),
            (n(groups), self.summed),
            (n(self.packet), 1),
        ];
        let order = [(n(own), false), (n(packets), true), (n(turns), false), (n(groups), false)];
        let contract = Contract {
            flits: (self.packet * self.operand_bytes()).div_ceil(machine.network.flit_bytes),
            repeats: n(groups),
            loops: nest(&walk),
            tree: self.packet,
            steps: steps(&order),
            ..contraction(self.multiplied(), machine.ce.lanes, Drain::Interleaved)
        };
        let early = |packing: &Packing| self.ring == 1 || Exchange::new(self).takes(*packing);
        let narrow = finish.narrows_sums().filter(early).unwrap_or_default();
        let element_bytes = narrow.element_bytes();
        let flit = machine.ce.lanes * element_bytes;
        let row = self.columns * element_bytes;
        let kept = if self.blocks && turns > 1 {
            vec![(n(own), row), (n(turns), own * row), (n(groups), flit)]
        } else {
            vec![(n(self.kept_rows()), row), (n(groups), flit)]
        };
        let mut commit = commit(Memory::Dm, to, &kept, flit);
        commit.to_bf16 = narrow == Packing::Half;
        let stream = Stream {
            switch,
            contract: Some(contract),
            vector: self.added(groups, &finish.first),
            cast: narrow.cast().filter(|_| narrow != Packing::Half),
            ..copy(fetch, commit)
        };
        main("contract", stream)
    }

    /// Elements of runs that do not count are zero, whatever lies there (vISA book, fetch adapter).
    fn mask(&self) -> Option<Limit> {
        let live = self.live.runs?.live;
        let walk = self.patch?.walk(self.packet);
        let weights = walk.iter().zip([0, 0, 0, self.packet, 1]).filter(|((size, _), _)| *size != 1);
        let weights = weights.map(|(_, weight)| weight).collect();
        Some(Limit { extent: n(live), slices: Vec::new(), weights })
    }

    /// Parts of the sum added, rows dealt out in blocks, then units.
    pub(super) fn added(&self, groups: u64, units: &[Op]) -> Option<Vector> {
        let slices = self.over.summed;
        let gives = ReduceOutput::Scatter { inner: groups * self.kept_rows() };
        let chain = chain(self.sum_word(), units.to_vec());
        match slices {
            1 => (!units.is_empty()).then_some(chain),
            _ => Some(chain.after_between(ReduceOp::Add, slices, gives)),
        }
    }

    /// Whether the contraction and what follows need the vector engine, so that the next contraction waits.
    fn is_serial(&self, finish: &Finish, exchange: &Exchange) -> bool {
        self.added(1, &finish.first).is_some()
            && (exchange.narrows(finish).is_some() || finish.uses_vectors())
    }

    /// Operands as they lie in data memory.
    fn placed(&self) -> Option<[Placed; 2]> {
        let TileShape { rows, columns, summed, over, .. } = *self;
        let Spread { rows: by_rows, columns: by_columns, summed: by_sum, rows_ring, columns_ring } = over;
        let [all_rows, all_columns, all_summed] = [rows * by_rows, columns * by_columns, summed * by_sum];
        let (own_rows, own_columns) = (rows / rows_ring, columns / columns_ring);
        let [turn, step] = if self.blocks { [own_rows, 1] } else { [1, rows_ring] };
        let first = format!(
            "M^{rows}[{by_rows}] _[{}] M^{turn}[{rows_ring}] K^{summed}[{by_sum}] | M^{step}[{own_rows}] \
             K^1[{summed}]",
            over.row_copies()
        );
        // Each position of the batch has the slices of its rows.
        let planes = self.live.batch;
        let held = summed / self.live.held.numbers();
        let second = format!(
            "B^1[{planes}] _[{}] N^{own_columns}[{columns_ring}] N^{columns}[{by_columns}] \
             K^{held}[{by_sum}] | N^1[{own_columns}] K^1[{held}]",
            over.column_copies() / planes
        );
        Some([
            placed(&[("M", all_rows), ("K", all_summed)], &first, self.operand_bytes())?,
            placed(
                &[("B", planes), ("N", all_columns), ("K", held * by_sum)],
                &second,
                self.operand_bytes(),
            )?,
        ])
    }

    /// Rows that follow each other in a slice without padding.
    fn rows_at_once(&self) -> u64 {
        let behind = self.blocks || self.over.rows_ring == 1;
        if behind && self.summed == self.live.summed { self.rows / self.over.rows_ring } else { 1 }
    }
}

/// A tensor by its lowered shape.
pub(super) fn placed(axes: &[(&str, u64)], text: &str, element_bytes: u64) -> Option<Placed> {
    let axes: Vec<(String, u64)> = axes.iter().map(|(name, size)| ((*name).to_string(), *size)).collect();
    let (_, map) = lowered_shape(&axes, text).ok()?;
    let image = Image::new(&map, u64::try_from(SLICE_STRIDE).ok()? / element_bytes)?;
    Some(Placed { base: 0, image, axes })
}

/// What a tile takes; `None` if it is not legal.
pub(super) fn estimate(
    machine: &Tcp,
    sizes: Sizes,
    split: Split,
    ((epilogue, windows), blocks): (Behind<'_>, bool),
    known: &mut ChainPasses,
) -> Option<Estimate> {
    let shape = TileShape::new(machine, sizes, split, (epilogue, windows))?;
    if blocks && shape.summed * shape.over.summed != sizes.summed {
        return None;
    }
    let (finish, exchange) = (Finish::new(machine, &shape, epilogue, blocks, known)?, Exchange::new(&shape));
    let serial = shape.is_serial(&finish, &exchange);
    let half = machine.dm.capacity_bytes / 2;
    let contract = shape.contract(machine, &finish, 0, half);
    let cycles = |exec: Exec| exec_cycles(machine, &Exec { pes: split.fused, ..exec }).total_cycles;
    let contract_cycles = cycles(contract);
    let finish = finish.balanced(machine, (&exchange, split.fused), contract_cycles, serial);
    Some(Estimate {
        load_cycles: cycles(shape.load(machine, 0)),
        contract_cycles,
        add_cycles: if blocks { cycles(shape.add(machine, [0, half / 2], half)) } else { 0 },
        rooms: Rooms::new(machine, &shape, &finish, blocks),
        copies: [shape.over.row_copies(), shape.over.column_copies()],
        patch: shape.patch,
        summed: shape.summed.min(sizes.summed),
        rows_at_once: shape.rows_at_once(),
        finish_cycles: finish.cycles(machine, &exchange, split.fused),
        serial,
        run_columns: exchange.run_columns(),
        run_rows: match windows.map(|windows| windows.rows().live()) {
            _ if exchange.run_columns() != sizes.columns => 1,
            Some(line) => line.min(shape.kept_rows() / shape.ring),
            None => shape.kept_rows() / shape.ring,
        },
        brought: finish.brought.len() as u64,
        stored: finish.stored.iter().filter(|one| !one.narrow).map(Stored::element_bytes).collect(),
    })
}

/// Bytes of an element of the narrowest result.
fn least_bytes(epilogue: Option<&Epilogue>) -> u64 {
    epilogue.map_or(WORD_BYTES, Epilogue::least_bytes)
}

/// The commands of a tile.
///
/// # Errors
/// Why there are none.
pub(super) fn tile_program(
    machine: &Tcp,
    live: Sizes,
    split: Split,
    ((epilogue, windows), whole): (Behind<'_>, bool),
    known: &mut ChainPasses,
) -> Result<TileProgram, String> {
    let shape = TileShape::new(machine, live, split, (epilogue, windows));
    let shape = shape.ok_or("a tile that does not fit register files")?;
    let finish = Finish::new(machine, &shape, epilogue, whole, known);
    let finish = finish.ok_or("a chain that no tile takes")?;
    let exchange = Exchange::new(&shape);
    let contract =
        Exec { pes: split.fused, ..shape.contract(machine, &finish, 0, machine.dm.capacity_bytes / 2) };
    let contract_cycles = exec_cycles(machine, &contract).total_cycles;
    let serial = shape.is_serial(&finish, &exchange);
    let finish = finish.balanced(machine, (&exchange, split.fused), contract_cycles, serial);
    let operands = shape.placed().ok_or("a shape that is no block")?;
    let results = [4, 2, 1].map(|element_bytes| exchange.placed(element_bytes));
    let [Some(words), Some(halves), Some(bytes)] = results else {
        return Err("sums that slices cannot exchange".to_string());
    };
    let vectors: Option<Vec<Placed>> = finish.operands.iter().map(Operand::placed).collect();
    let vectors = vectors.ok_or("a vector that is no block")?;
    let row_values = finish.row_place.as_ref().and_then(Placement::shape);
    let (results, empty, holes) = ([words, halves, bytes], shape.empty(), shape.holes());
    Ok(TileProgram { shape, operands, results, empty, holes, exchange, finish, vectors, row_values })
}

impl TileProgram {
    /// The command that loads register files, from a place.
    pub(super) fn load_from(&self, machine: &Tcp, held: u64) -> Exec {
        self.shape.load(machine, held)
    }

    /// The contraction between two places.
    pub(super) fn contract_at(&self, machine: &Tcp, streamed: u64, out: u64) -> Exec {
        self.shape.contract(machine, &self.finish, streamed, out)
    }

    /// Rows of a tile as they lie in HBM, through windows if rows are positions of them.
    pub(super) fn rows_place<'t>(
        &'t self,
        sizes: Sizes,
        tile: &Tile,
        windows: Option<&'t Windows>,
    ) -> Place<'t> {
        let place = operand_place(sizes, tile, &self.operands[0], 0).through(windows);
        Place { patch: self.shape.patch.map(|patch| (patch, self.shape.over)), ..place }
    }

    /// Whether slices have rows or columns that are no part of the result.
    pub(super) fn is_padded(&self) -> bool {
        let TileShape { live, over, rows, columns, .. } = self.shape;
        !self.holes.is_empty() || live.rows != rows * over.rows || live.columns != columns * over.columns
    }

    /// What it takes of data memory; its sum may be one of several blocks.
    pub(super) fn rooms(&self, machine: &Tcp, blocks: bool) -> Rooms {
        Rooms::new(machine, &self.shape, &self.finish, blocks)
    }

    /// The command that adds sums at two places.
    pub(super) fn add(&self, machine: &Tcp, from: [u64; 2], to: u64) -> Exec {
        self.shape.add(machine, from, to)
    }

    /// How a result of elements of so many bytes lies.
    pub(super) fn result(&self, element_bytes: u64) -> &Placed {
        let [words, halves, bytes] = &self.results;
        match element_bytes {
            1 => bytes,
            2 => halves,
            _ => words,
        }
    }
}
