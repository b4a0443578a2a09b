//! Sums that neighbouring slices exchange, so that each of them has long rows: HBM takes whole access units
//! of a row at once.
//!
//! A contraction leaves each slice all rows of few columns. Slices of a ring trade rows for columns (vISA
//! book, switch engine: `InterTranspose`), in the sub context, beside the contraction of the next tile.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_isa::program::exec::{Commit, Context, Exec, ExecBody, Memory, Stream, Switch};
use tilewright_tcp_isa::program::vector::Word;
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::{chain, rows};
use tilewright_tcp_lower::kernels::pass::fetch;

use super::super::kernel::Packing;
use super::super::tactic::Placed;
use super::super::view::signed;
use super::finish::Finish;
use super::split::Spread;
use super::tile::{TileShape, WORD_BYTES, placed};

/// What slices exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// Slices that trade: a power of two, 1 for none.
    pub(super) ring: u64,
    /// Rows that a slice has before.
    rows: u64,
    /// Columns that a slice has before.
    columns: u64,
    /// Slices.
    over: Spread,
}

/// Slices that trade, such that each has rows of whole access units: so many bytes a slice, over so many
/// slices. Where no number of them makes whole units, rows are as long as they can be.
pub(super) fn ring(machine: &Tcp, row_bytes: u64, slices: u64) -> u64 {
    let unit = machine.hbm.access_bytes;
    let mut rings = (0..=slices.max(1).ilog2()).map(|log2| 1_u64 << log2);
    rings.find(|ring| (ring * row_bytes).is_multiple_of(unit)).unwrap_or(slices)
}

impl Exchange {
    /// What the slices of a tile exchange.
    pub(super) fn new(shape: &TileShape) -> Exchange {
        let TileShape { ring, columns, over, .. } = *shape;
        Exchange { ring, rows: shape.kept_rows(), columns, over }
    }

    /// Bytes of each slice behind it.
    pub(super) fn bytes(&self) -> u64 {
        if self.ring == 1 { 0 } else { self.rows * self.columns * WORD_BYTES }
    }

    /// Columns of a row that a slice has behind it.
    pub(super) fn run_columns(&self) -> u64 {
        self.columns * self.ring
    }

    /// Whether sums that are needed narrow alone are narrowed before: several of them are a word then.
    pub(super) fn takes(&self, packing: Packing) -> bool {
        (self.columns * packing.element_bytes()).is_multiple_of(FLIT_WORDS * WORD_BYTES)
    }

    /// How the vector engine narrows sums on the way.
    pub(super) fn narrows(&self, finish: &Finish) -> Option<Packing> {
        finish.narrows_sums().filter(|packing| self.ring > 1 && !self.takes(*packing))
    }

    /// The command, between two places of data memory; sums may leave it narrow.
    pub(super) fn exec(&self, from: u64, to: u64, finish: &Finish) -> Exec {
        let Exchange { ring, rows: all_rows, columns, over } = *self;
        let narrow = self.narrows(finish);
        let packing = narrow.unwrap_or_default();
        let before = finish.narrows_sums().filter(|packing| self.takes(*packing)).unwrap_or_default();
        let columns = columns * before.element_bytes() / WORD_BYTES;
        let (part, flits) = (all_rows / ring, columns / FLIT_WORDS);
        let element_bytes = packing.element_bytes();
        let width = FLIT_WORDS * element_bytes;
        let loops = [
            (part, signed(columns)),
            (ring, signed(part * columns)),
            (flits, signed(FLIT_WORDS)),
            (FLIT_WORDS, 1),
        ];
        let commit = Commit {
            memory: Memory::Dm,
            base: to,
            loops: rows(&[
                (part, signed(ring * columns * element_bytes)),
                (flits, signed(width)),
                (ring, signed(columns * element_bytes)),
            ]),
            bytes: width,
            width: 8,
            to_bf16: false,
            relu: false,
            slices: Vec::new(),
        };
        let ring = Ring { slice1: ring, slice0: over.summed };
        let switch = Switch { topology: Topology::InterTranspose(ring, flits), sources: Vec::new() };
        let stream = Stream {
            fetch: fetch(
                if packing.word() == Word::F32 { Dtype::F32 } else { Dtype::I32 },
                from,
                &loops,
                FLIT_WORDS,
            ),
            switch,
            contract: None,
            vector: narrow.map(|packing| chain(packing.word(), Vec::new())),
            cast: packing.cast(),
            transpose: None,
            commit,
        };
        let body = ExecBody::Stream(Box::new(stream));
        Exec { name: "exchange".to_string(), context: Context::Sub, pes: 1, body, span: Span::default() }
    }

    /// Cycles of the command on so many PEs together.
    pub(super) fn cycles(&self, machine: &Tcp, finish: &Finish, pes: u64) -> u64 {
        if self.ring == 1 {
            return 0;
        }
        let exec = self.exec(0, machine.dm.capacity_bytes / 2, finish);
        exec_cycles(machine, &Exec { pes, ..exec }).total_cycles
    }

    /// How sums of so many bytes lie behind it.
    pub(super) fn placed(&self, element_bytes: u64) -> Option<Placed> {
        let Exchange { ring, rows, columns, over } = *self;
        let Spread { rows: by_rows, columns: by_columns, summed: by_sum, .. } = over;
        let (part, run) = (rows / ring, columns * ring);
        let axes = [("M", rows * by_rows * by_sum), ("N", columns * by_columns)];
        let text = format!(
            "M^{}[{by_rows}] N^{run}[{}] M^{part}[{ring}] M^{rows}[{by_sum}] | M^1[{part}] N^1[{run}]",
            rows * by_sum,
            by_columns / ring
        );
        placed(&axes, &text, element_bytes)
    }
}
