//! Reductions of rows within slices (vISA book, intra-slice reduce): every slice has whole rows, and gives a
//! word for each.

use tilewright_graph::Fold;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Context, StepLoop, Stream, Switch, Transpose};
use tilewright_tcp_isa::program::vector::{Op, OpKind, Reduce, ReduceLimit, ReduceOp, Word};
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::{commit, exec, fetch_words};

use super::emit::Block;
use super::plan::{Planner, WORD_BYTES};
use super::refusal::Lowered;
use super::view::signed;

impl Planner<'_> {
    pub(super) fn reduce(&mut self, from: usize, to: usize, fold: Fold, columns: u64) -> Lowered<()> {
        let machine = self.emitter.machine;
        let rows = self.value(to).count();
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
        let slices = machine.pe.slices;
        let share = rows.div_ceil(slices * self.emitter.pes()).next_multiple_of(granule_words.max(1));
        let target = self.places[to];
        let run = RowRun { fold, float, columns, pitch, share, source, target };
        for pe in 0..rows.div_ceil(slices * share) {
            self.emitter.turn_to(pe);
            let first = pe * slices * share;
            self.reduce_rows(&run, first, (rows - first).min(slices * share))?;
        }
        Ok(())
    }

    /// Rows of one PE from the first on, some of every slice at a time.
    fn reduce_rows(&mut self, run: &RowRun, first_row: u64, live: u64) -> Lowered<()> {
        let machine = self.emitter.machine;
        let RowRun { columns, pitch, share, .. } = *run;
        let padded = columns.next_multiple_of(FLIT_WORDS);
        let row_bytes = (padded + 1) * WORD_BYTES;
        let fit = |bytes: u64| bytes / row_bytes / 2 * 2;
        let room = self.emitter.dm_bytes();
        let most = if fit(room / 2) > 0 { fit(room / 2) } else { fit(room) };
        if most == 0 {
            return Err(format!("rows of {columns} do not fit data memory"));
        }
        // Slices whose rows are all there, and the one where they end.
        let (whole, rest) = (live / share, live % share);
        let mut first = 0;
        while first < share {
            let tile = most.min(share - first);
            let base = self.emitter.next_region(tile * row_bytes);
            let sums = base + tile * padded * WORD_BYTES;
            if padded != pitch || whole < machine.pe.slices {
                self.emitter.clear("clear", base, tile * padded * WORD_BYTES);
            }
            let ends = [(0, whole, tile), (whole, 1, rest.saturating_sub(first).min(tile))];
            let ends = ends.into_iter().filter(|(_, slices, live)| slices * live > 0);
            for (first_slice, slices, live) in ends.clone() {
                let row = first_row + first_slice * share + first;
                let block = Block {
                    hbm: run.source + row * pitch * WORD_BYTES,
                    dm: base,
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
            self.emitter.exec(reduction(run.fold, run.float, (tile, columns), [base, sums]));
            for (first_slice, slices, live) in ends {
                let row = first_row + first_slice * share + first;
                let block = Block {
                    hbm: run.target + row * WORD_BYTES,
                    dm: sums,
                    first_slice,
                    slices,
                    pitch_bytes: share * WORD_BYTES,
                    rows: 1,
                    row_bytes: live.next_multiple_of(2) * WORD_BYTES,
                    hbm_row_bytes: 0,
                    dm_row_bytes: 0,
                };
                self.emitter.keep("keep", &block);
            }
            first += tile;
        }
        Ok(())
    }
}

/// Rows that are reduced.
struct RowRun {
    fold: Fold,
    float: bool,
    /// Words of a row.
    columns: u64,
    /// Words from row to row in HBM.
    pitch: u64,
    /// Rows of each slice.
    share: u64,
    /// First byte read.
    source: u64,
    /// First byte written.
    target: u64,
}

/// One word of each row; one row alone is taken twice, since two words make a granule.
pub(super) fn reduction(
    fold: Fold,
    float: bool,
    (rows, columns): (u64, u64),
    [from, to]: [u64; 2],
) -> tilewright_tcp_isa::program::Exec {
    let padded = columns.next_multiple_of(FLIT_WORDS);
    let (rows, pitch) = if rows == 1 { (2, 0) } else { (rows, signed(padded)) };
    let halves = padded / tilewright_tcp_isa::vector::HALF_WORDS;
    let op = match fold {
        Fold::Max => ReduceOp::Max,
        Fold::Min => ReduceOp::Min,
        Fold::Sum | Fold::Prod => ReduceOp::Add,
    };
    let step = |size: u64, summed: bool| StepLoop { size: Count::Fixed(size), summed };
    let limit = ReduceLimit {
        extent: Count::Fixed(columns),
        slices: Vec::new(),
        weights: vec![0, tilewright_tcp_isa::vector::HALF_WORDS],
        element: 1,
    };
    let limits = if padded == columns { Vec::new() } else { vec![limit] };
    let reduce = Reduce { op, tree: true, steps: vec![step(rows, false), step(halves, true)], limits };
    let op = Op { kind: OpKind::Reduce(reduce), operands: Vec::new(), reversed: false, stash: false };
    let (word, dtype) = if float { (Word::F32, Dtype::F32) } else { (Word::I32, Dtype::I32) };
    let stream = Stream {
        fetch: fetch_words(dtype, from, &[(rows, pitch), (padded, 1)]),
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
