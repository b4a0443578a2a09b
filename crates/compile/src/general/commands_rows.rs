//! Rows by number: transfers whose outermost loop takes its places from a table (vISA book, DMA engine).

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{Transfer, TransferIndex, TransferLoop};

use super::emit::hbm;
use super::moves::Bytes;
use super::plan::{Planner, WORD_BYTES};
use super::view::signed;

/// Rows of a gather from which on they come through data memory.
const LEAST_STAGED_ROWS: u64 = 64;

impl Planner<'_> {
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

    pub(super) fn gather(
        &mut self,
        from: usize,
        table: usize,
        (outer, size, inner): (u64, u64, u64),
        to: usize,
    ) {
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
        if !self.rows_through_slices(&rows) {
            self.rows("gather", &rows, false);
        }
    }

    /// Rows of whole granules that are no whole access units of HBM: to a slice of each PE, one behind the
    /// other, and from there in long runs. HBM would write every unit again for each row in it. Whether that
    /// is so, and there are enough of them.
    fn rows_through_slices(&mut self, rows: &IndexedRows) -> bool {
        let machine = self.emitter.machine;
        let (unit, row) = (machine.hbm.access_bytes, rows.row_bytes);
        let torn = row.is_multiple_of(machine.tdma.alignment_bytes) && !row.is_multiple_of(unit);
        let outer = rows.outer.0;
        if !torn || row > machine.tdma.packet_max_bytes || rows.rows * outer < LEAST_STAGED_ROWS {
            return false;
        }
        // So many rows are whole units: these are a power of two.
        let whole = unit / (1 << row.trailing_zeros()).min(unit);
        let room = self.emitter.dm_bytes() / 2 / (outer * row);
        let each = rows.rows.div_ceil(self.emitter.pes()).next_multiple_of(whole);
        let each = each.min(room / whole * whole).min(machine.sequencer.entry_size_max / whole * whole);
        if each == 0 {
            return false;
        }
        for turn in 0..rows.rows.div_ceil(each) {
            let first = turn * each;
            self.emitter.turn_to(turn % self.emitter.pes());
            self.staged_rows(rows, (first, each.min(rows.rows - first)));
        }
        true
    }

    /// Some rows by number to the first slice of a PE, and from there to their place.
    fn staged_rows(&mut self, rows: &IndexedRows, (first, count): (u64, u64)) {
        let (row, (outer, from, to)) = (rows.row_bytes, rows.outer);
        let base = self.emitter.next_region(outer * count * row);
        let slice = self.emitter.dm(base);
        let looped =
            |size: u64, source: i64, target: i64| TransferLoop { size: Count::Fixed(size), source, target };
        let inside = count * row;
        self.emitter.transfer(Transfer {
            name: "gather".to_string(),
            source: hbm(rows.source),
            target: slice,
            loops: vec![looped(count, signed(row), signed(row)), looped(outer, from, signed(inside))],
            packet: row,
            index: Some(TransferIndex {
                table: hbm(rows.table + first * WORD_BYTES),
                dtype: Dtype::I32,
                scatter: false,
            }),
            span: tilewright_base::Span::default(),
        });
        let target = hbm(rows.target + first * row);
        let loops = vec![(outer, signed(inside), to)];
        self.emitter.bytes("keep", &Bytes { source: slice, target, loops, inside });
    }

    pub(super) fn scatter(&mut self, [base, table, rows, to]: [usize; 4], inner: u64) {
        let bytes = self.value(to).count() * WORD_BYTES;
        let (source, target) = (hbm(self.places[base]), hbm(self.places[to]));
        let whole = Bytes { source, target, loops: Vec::new(), inside: bytes };
        self.emitter.bytes("copy", &whole);
        self.emitter.settle();
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
