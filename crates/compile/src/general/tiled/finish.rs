//! What happens to the sums of a tile before they leave data memory: the first units of a chain in the
//! command of the contraction, the exchange between slices, the other passes of the chain, and the narrowing
//! to bf16 or bytes.

use std::collections::BTreeSet;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_isa::program::exec::{Context, Exec, ExecBody};
use tilewright_tcp_isa::program::vector::{Op, OperandSource, Vector};
use tilewright_tcp_isa::vector::{FLIT_WORDS, check, output};
use tilewright_tcp_lower::kernels::chain::{chain, vrf};
use tilewright_tcp_lower::kernels::pass::load_vrf;

use super::super::commands_chain::command;
use super::super::kernel::Packing;
use super::super::passes::{Pass, Registers, operands_of_units, passes_with};
use super::super::tactic::Placed;
use super::epilogue::{Epilogue, Input};
use super::exchange::Exchange;
use super::split::Spread;
use super::tile::{TileShape, WORD_BYTES, placed};

/// Words of the vector register file for one input of a chain, as the slices have them at one point.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// The input's number.
    pub(super) stream: usize,
    /// What it is.
    pub(super) input: Input,
    /// Words of each slice.
    pub(super) words: u64,
    /// First byte of the register file.
    at: u64,
    /// How they lie in data memory.
    pub(super) placed: Placed,
}

/// Where a stream of the chain lies when the exchange is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Where the exchange, or without one the contraction, leaves sums.
    Sums,
    /// Brought from HBM: the number among such inputs.
    Brought(usize),
    /// The result of a pass: its number.
    Made(usize),
}

/// The chain of a tile.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    /// Units in the command of the contraction.
    pub(super) first: Vec<Op>,
    /// The other passes.
    passes: Vec<Pass>,
    /// Slot of each stream that lies in data memory.
    slots: Vec<Option<Slot>>,
    /// Inputs that the register file holds.
    pub(super) operands: Vec<Operand>,
    /// Inputs that transfers bring beside the sums.
    pub(super) brought: Vec<usize>,
    /// Streams that are written, and how.
    pub(super) stored: Vec<(usize, Packing)>,
    /// Words of a stream in each slice.
    pub(super) words: u64,
    /// Sums stay as the contraction gives them.
    whole: bool,
}

/// Words of each slice, the walk over them, and how they lie in data memory.
type Seen = (u64, Vec<(u64, i64)>, Placed);

/// A point at which slices have sums in one layout: rows and columns of each.
struct Layout {
    rows: u64,
    columns: u64,
    column_text: String,
    row_text: String,
    axes: [u64; 2],
}

impl Layout {
    fn new(shape: &TileShape, exchanged: bool) -> Layout {
        let Spread { rows: by_rows, columns: by_columns, summed: by_sum, .. } = shape.over;
        let ring = if exchanged { shape.ring } else { 1 };
        let (kept, columns) = (shape.kept_rows(), shape.columns);
        let (part, run) = (kept / ring, columns * ring);
        Layout {
            rows: part,
            columns: run,
            column_text: format!(
                "_[{by_rows}] N^{run}[{}] _[{ring}] _[{by_sum}] | N^1[{run}]",
                by_columns / ring
            ),
            row_text: format!(
                "M^{}[{by_rows}] _[{}] M^{part}[{ring}] M^{kept}[{by_sum}] | M^1[{part}]",
                shape.rows,
                by_columns / ring
            ),
            axes: [shape.rows * by_rows, columns * by_columns],
        }
    }

    /// Words of each slice, the walk over them, and how they lie in data memory.
    fn operand(&self, input: Input) -> Option<Seen> {
        match input {
            Input::Columns => {
                let placed = placed(&[("N", self.axes[1])], &self.column_text, WORD_BYTES)?;
                Some((self.columns, vec![(self.rows, 0), (self.columns, 1)], placed))
            }
            Input::Rows => {
                let placed = placed(&[("M", self.axes[0])], &self.row_text, WORD_BYTES)?;
                Some((self.rows, vec![(self.rows, 1), (self.columns, 0)], placed))
            }
            Input::Sum | Input::Wide => None,
        }
    }
}

/// Register file operands of a chain at a point, from a byte on.
fn registers(chain: &Epilogue, layout: &Layout, from: u64) -> Option<(Registers, Vec<Operand>, u64)> {
    let small: Vec<usize> = (0..chain.inputs.len())
        .filter(|at| matches!(chain.inputs[*at], Input::Columns | Input::Rows))
        .collect();
    let fit = operands_of_units(&small, &chain.lines, &chain.streams);
    if fit.len() != small.len() {
        return None;
    }
    let (mut all, mut operands, mut next) = (Registers::new(), Vec::new(), from);
    for stream in small {
        let input = chain.inputs[stream];
        let (words, walk, placed) = layout.operand(input)?;
        all.insert(stream, vrf(next, &walk));
        operands.push(Operand { stream, input, words, at: next, placed });
        next += (words * WORD_BYTES).next_multiple_of(FLIT_WORDS * WORD_BYTES);
    }
    Some((all, operands, next))
}

/// First bytes of register file operands that units read.
fn bases<'p>(vectors: impl Iterator<Item = &'p Vector>) -> BTreeSet<u64> {
    let sources = vectors.flat_map(|vector| &vector.ops).flat_map(|op| &op.operands);
    let all = sources.flat_map(|choice| &choice.sources).filter_map(|guarded| match &guarded.source {
        OperandSource::Vrf { base, .. } => Some(*base),
        _ => None,
    });
    all.collect()
}

impl Finish {
    /// What becomes of the sums of a tile; `whole` keeps sums as the contraction gives them. `None` if the
    /// vector engine or its register file cannot hold it.
    pub(super) fn new(
        machine: &Tcp,
        shape: &TileShape,
        epilogue: Option<&Epilogue>,
        whole: bool,
    ) -> Option<Finish> {
        let words = shape.kept_rows() * shape.columns;
        let Some(epilogue) = epilogue else {
            let stored = vec![(0, Packing::Words)];
            let slots = vec![Some(Slot::Sums)];
            let (first, passes, operands, brought) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            return Some(Finish { first, passes, slots, operands, brought, stored, words, whole });
        };
        let inputs = epilogue.inputs.len();
        let sum = epilogue.inputs.iter().position(|input| *input == Input::Sum)?;
        let (early, mut operands, next) = registers(epilogue, &Layout::new(shape, false), 0)?;
        let (late, behind, end) = registers(epilogue, &Layout::new(shape, true), next)?;
        let passes =
            |known: &Registers| passes_with(machine, inputs, &epilogue.lines, &epilogue.streams, known);
        let (mut first, mut rest) = (passes(&early)?, passes(&late)?);
        let uses = |at: usize| rest.iter().filter(|pass| pass.stream == at || pass.pair == Some(at)).count();
        let alone = first.first().is_some_and(|pass| {
            pass.stream == sum
                && pass.pair.is_none()
                && pass.vector.input == shape.sum_word()
                && pass.vector.tags.is_empty()
                && uses(sum) == 1
                && !epilogue.streams.contains(&sum)
                && shape
                    .added(shape.columns / machine.ce.lanes, &pass.vector.ops)
                    .is_some_and(|vector| check(machine, &vector).is_empty())
        });
        let fused = !whole && alone;
        let mut slots = vec![None; inputs + epilogue.lines.len()];
        slots[sum] = Some(Slot::Sums);
        let mut ops = Vec::new();
        if fused {
            let pass = first.swap_remove(0);
            slots[pass.result] = Some(Slot::Sums);
            ops = pass.vector.ops;
            rest.remove(0);
        }
        let brought: Vec<usize> = (0..inputs).filter(|at| epilogue.inputs[*at] == Input::Wide).collect();
        for (number, stream) in brought.iter().enumerate() {
            slots[*stream] = Some(Slot::Brought(number));
        }
        for (number, pass) in rest.iter().enumerate() {
            slots[pass.result] = Some(Slot::Made(number));
        }
        let joined = chain(shape.sum_word(), ops.clone());
        let used = bases(std::iter::once(&joined).chain(rest.iter().map(|pass| &pass.vector)));
        operands.extend(behind);
        operands.retain(|operand| used.contains(&operand.at));
        if end > machine.vrf.capacity_bytes {
            return None;
        }
        let stored: Vec<(usize, Packing)> =
            epilogue.streams.iter().copied().zip(epilogue.packings.iter().copied()).collect();
        stored.iter().all(|(stream, _)| slots[*stream].is_some()).then_some(())?;
        Some(Finish { first: ops, passes: rest, slots, operands, brought, stored, words, whole })
    }

    /// Slot of a stream that is written.
    pub(super) fn slot(&self, stream: usize) -> Option<Slot> {
        self.slots.get(stream).copied().flatten()
    }

    /// Passes behind the exchange.
    pub(super) fn passes(&self) -> usize {
        self.passes.len()
    }

    /// How sums are narrowed where the exchange or the contraction leaves them, if nobody needs them wide.
    pub(super) fn narrows_sums(&self) -> Option<Packing> {
        let (_, packing) = *self.stored.first()?;
        let same =
            |(stream, other): &(usize, Packing)| *other == packing && self.slot(*stream) == Some(Slot::Sums);
        let all = !self.whole && self.passes.is_empty() && self.stored.iter().all(same);
        (all && packing.is_narrow()).then_some(packing)
    }

    /// Narrow results that a command of their own narrows.
    pub(super) fn narrowed(&self) -> Vec<usize> {
        let own =
            self.stored.iter().enumerate().filter(|(_, (stream, packing))| {
                packing.is_narrow() && self.narrowing_pass(*stream).is_none()
            });
        if self.narrows_sums().is_some() { Vec::new() } else { own.map(|(at, _)| at).collect() }
    }

    /// The pass whose result is only wanted narrow.
    fn narrowing_pass(&self, stream: usize) -> Option<usize> {
        let Some(Slot::Made(number)) = self.slot(stream) else { return None };
        let read = self.passes.iter().any(|pass| pass.stream == stream || pass.pair == Some(stream));
        let mut own = self.stored.iter().filter(|(other, _)| *other == stream).map(|(_, packing)| *packing);
        let packing = own.next().filter(|packing| packing.is_narrow())?;
        let fits = output(&self.passes[number].vector) == packing.word();
        (!read && own.next().is_none() && fits).then_some(number)
    }

    /// The commands behind the exchange: `at` says where a slot lies, `narrow_at` where a narrow result does.
    pub(super) fn execs(
        &self,
        machine: &Tcp,
        at: &dyn Fn(Slot) -> u64,
        narrow_at: &dyn Fn(usize) -> u64,
    ) -> Vec<Exec> {
        let place = |stream: usize| self.slot(stream).map_or(0, at);
        let narrow_of = |stream: usize| {
            let own = |(other, packing): &(usize, Packing)| *other == stream && packing.is_narrow();
            let number = self.stored.iter().position(own)?;
            Some((narrow_at(number), self.stored[number].1.cast()))
        };
        let mut all = Vec::new();
        for (number, pass) in self.passes.iter().enumerate() {
            let narrow = self
                .narrowing_pass(pass.result)
                .filter(|own| *own == number)
                .and_then(|_| narrow_of(pass.result));
            let target = match narrow {
                Some(target) => target,
                None => (place(pass.result), None),
            };
            all.push(command(&pass.vector, place(pass.stream), pass.pair.map(place), self.words, target));
        }
        for at in self.narrowed() {
            let (stream, packing) = self.stored[at];
            let plain = chain(packing.word(), Vec::new());
            all.push(command(&plain, place(stream), None, self.words, (narrow_at(at), packing.cast())));
        }
        all.into_iter().map(|exec| beside(machine, exec)).collect()
    }

    /// Loads of the register file for operands that lie at given bytes of data memory.
    pub(super) fn load(&self, operand: usize, from: u64) -> Exec {
        let Operand { words, at, .. } = self.operands[operand];
        load_vrf("load", from, words.next_multiple_of(2), at)
    }

    /// Cycles of the main and of the sub context behind a contraction.
    pub(super) fn cycles(&self, machine: &Tcp, exchange: &Exchange) -> [u64; 2] {
        let mut cycles = [0, exchange.cycles(machine, self)];
        let apart = |slot: Slot| match slot {
            Slot::Sums => 0,
            Slot::Brought(number) => (1 + number as u64) * self.words * WORD_BYTES,
            Slot::Made(number) => (8 + number as u64) * self.words * WORD_BYTES,
        };
        for exec in self.execs(machine, &apart, &|_| 0) {
            cycles[usize::from(exec.context == Context::Sub)] += exec_cycles(machine, &exec).total_cycles;
        }
        cycles
    }

    /// Bytes of each slice for each result that may be narrowed; those in words have room as for bf16.
    pub(super) fn narrow_bytes(&self) -> impl Iterator<Item = u64> {
        let most = Packing::Half.element_bytes();
        self.stored.iter().map(move |(_, packing)| self.words * packing.element_bytes().min(most))
    }
}

/// The same in the sub context, beside contractions, if it can run there.
fn beside(machine: &Tcp, mut exec: Exec) -> Exec {
    if let ExecBody::Stream(stream) = &mut exec.body
        && stream.fetch.interleave.is_none()
    {
        stream.commit.width = machine.commit.sub_width_bytes;
        exec.context = Context::Sub;
    }
    exec
}
