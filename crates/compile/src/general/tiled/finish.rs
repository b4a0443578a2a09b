//! What happens to the sums of a tile before they leave data memory: the first units of a chain in the
//! command of the contraction, the exchange between slices, the other passes of the chain, and the narrowing
//! to bf16 or bytes.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::OrBroken;
use tilewright_graph::Fold;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_isa::program::exec::{Context, Exec, ExecBody};
use tilewright_tcp_isa::program::vector::{Op, OperandSource, Vector};
use tilewright_tcp_isa::vector::{FLIT_WORDS, check, output};
use tilewright_tcp_lower::kernels::chain::{chain, vrf};
use tilewright_tcp_lower::kernels::pass::load_vrf;

use super::super::commands_chain::command;
use super::super::commands_reduce::reduction;
use super::super::group::LEAST_ROWS;
use super::super::kernel::Packing;
use super::super::passes::{Pass, Registers, operands_of_units, passes_with};
use super::super::tactic::Placed;
use super::super::words::Line;
use super::epilogue::{Epilogue, Input, Member, Source};
use super::exchange::Exchange;
use super::split::Spread;
use super::tile::{TileShape, WORD_BYTES, placed};

/// Words of the vector register file for one input of a chain, as the slices have them at one point.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// The input's number.
    pub(super) number: usize,
    /// What it is.
    pub(super) input: Input,
    /// Words of each slice.
    pub(super) words: u64,
    /// First byte of the register file.
    at: u64,
    /// How they lie in data memory.
    placed: Placement,
}

impl Operand {
    /// How its words lie in data memory.
    pub(super) fn placed(&self) -> Option<Placed> {
        self.placed.shape()
    }
}

/// How words lie in data memory, as a text of the notation that few candidates need read.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    axis: &'static str,
    size: u64,
    text: String,
}

impl Placement {
    pub(super) fn shape(&self) -> Option<Placed> {
        placed(&[(self.axis, self.size)], &self.text, WORD_BYTES)
    }
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

/// What runs behind the contraction.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Units on a stream, perhaps of one word for each row.
    Pass { pass: Pass, narrow: bool },
    /// One word for each row.
    Reduce { from: usize, to: usize, fold: Fold, float: bool },
    /// A stream to the vector register file, so many words.
    Hold { stream: usize, at: u64, words: u64 },
}

impl Stage {
    fn reads(&self, stream: usize) -> bool {
        match self {
            Stage::Pass { pass, .. } => pass.stream == stream || pass.pair == Some(stream),
            Stage::Reduce { from, .. } => *from == stream,
            Stage::Hold { stream: held, .. } => *held == stream,
        }
    }

    /// Whether it gives a word for each row.
    pub(super) fn is_narrow(&self) -> bool {
        matches!(self, Stage::Reduce { .. } | Stage::Pass { narrow: true, .. })
    }
}

/// A stream that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) stream: usize,
    /// How.
    pub(super) packing: Packing,
    /// One element for each row.
    pub(super) narrow: bool,
}

impl Stored {
    /// Bytes of an element.
    pub(super) fn element_bytes(&self) -> u64 {
        self.packing.element_bytes()
    }
}

/// What happens to the sums of a tile.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    /// Units in the command of the contraction.
    pub(super) first: Vec<Op>,
    /// What follows.
    pub(super) stages: Vec<Stage>,
    /// Slot of each stream that lies in data memory.
    slots: Vec<Option<Slot>>,
    /// Inputs that the register file holds.
    pub(super) operands: Vec<Operand>,
    /// Inputs that transfers bring beside the sums, by number, and whether they are the same for all of the
    /// batch.
    pub(super) brought: Vec<(usize, bool)>,
    /// Streams that are written.
    pub(super) stored: Vec<Stored>,
    /// Words of a stream in each slice.
    pub(super) words: u64,
    /// Rows of each slice, if they are whole.
    rows: u64,
    /// How values of one element a row lie.
    pub(super) row_place: Option<Placement>,
    /// Sums stay as the contraction gives them.
    whole: bool,
}

/// Words of each slice, the walk over them, and how they lie in data memory.
type Seen = (u64, Vec<(u64, i64)>, Placement);

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
                let placed = Placement { axis: "N", size: self.axes[1], text: self.column_text.clone() };
                Some((self.columns, vec![(self.rows, 0), (self.columns, 1)], placed))
            }
            Input::Rows => {
                let placed = Placement { axis: "M", size: self.axes[0], text: self.row_text.clone() };
                Some((self.rows, vec![(self.rows, 1), (self.columns, 0)], placed))
            }
            Input::Sum | Input::Wide | Input::Plane => None,
        }
    }
}

/// Register file operands of the first chain at a point, from a byte on; streams that are not used take no
/// room.
fn registers(
    chain: &Epilogue,
    layout: &Layout,
    from: u64,
    is_used: &dyn Fn(usize) -> bool,
) -> Option<(Registers, Vec<Operand>, u64)> {
    let small: Vec<usize> = (0..chain.inputs.len()).filter(|at| is_small(chain.inputs[*at])).collect();
    let fit = operands_of_units(&small, &chain.lines, &chain.streams);
    if fit.len() != small.len() {
        return None;
    }
    let (mut all, mut operands, mut next) = (Registers::new(), Vec::new(), from);
    for stream in small {
        let input = chain.inputs[stream];
        let (words, walk, placed) = layout.operand(input)?;
        all.insert(stream, vrf(next, &walk));
        if is_used(stream) {
            operands.push(Operand { number: stream, input, words, at: next, placed });
            next += register_bytes(words);
        }
    }
    Some((all, operands, next))
}

/// Whether an input is one element for each row or for each column.
fn is_small(input: Input) -> bool {
    matches!(input, Input::Columns | Input::Rows)
}

/// Bytes of the register file for so many words.
fn register_bytes(words: u64) -> u64 {
    (words * WORD_BYTES).next_multiple_of(FLIT_WORDS * WORD_BYTES)
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
    /// vector engine or its register file cannot hold it, or rows are not whole and must be.
    pub(super) fn new(
        machine: &Tcp,
        shape: &TileShape,
        epilogue: Option<&Epilogue>,
        whole: bool,
    ) -> Option<Finish> {
        let plain = Finish {
            first: Vec::new(),
            stages: Vec::new(),
            slots: vec![Some(Slot::Sums)],
            operands: Vec::new(),
            brought: Vec::new(),
            stored: vec![Stored { stream: 0, packing: Packing::Words, narrow: false }],
            words: shape.kept_rows() * shape.columns,
            rows: 0,
            row_place: None,
            whole,
        };
        let Some(epilogue) = epilogue else { return Some(plain) };
        let all = |_: usize| true;
        // Which operands are used is known when all units are: the first time is for that alone.
        let tried = Maker::new(machine, shape, epilogue, plain.clone(), [&all, &all])?;
        let units = std::iter::once(&tried.joined).chain(tried.rest.iter().map(|pass| &pass.vector));
        let used = bases(units);
        let uses = |operands: &[Operand], number: usize| {
            operands.iter().any(|one| one.number == number && used.contains(&one.at))
        };
        let [early, late] = &tried.operands;
        let made = Maker::new(
            machine,
            shape,
            epilogue,
            plain,
            [&|number| uses(early, number), &|number| uses(late, number)],
        )?;
        made.finished()
    }

    /// Slot of a stream that lies in data memory.
    pub(super) fn slot(&self, stream: usize) -> Option<Slot> {
        self.slots.get(stream).copied().flatten()
    }

    /// How sums are narrowed where the exchange or the contraction leaves them, if nobody needs them wide.
    pub(super) fn narrows_sums(&self) -> Option<Packing> {
        let packing = self.stored.first()?.packing;
        let same = |one: &Stored| one.packing == packing && self.slot(one.stream) == Some(Slot::Sums);
        let all = !self.whole && self.stages.is_empty() && self.stored.iter().all(same);
        (all && packing.is_narrow()).then_some(packing)
    }

    /// Whether commands behind the exchange need the vector engine.
    pub(super) fn uses_vectors(&self) -> bool {
        !self.stages.is_empty() || !self.narrowed().is_empty()
    }

    /// Narrow results that a command of their own narrows.
    pub(super) fn narrowed(&self) -> Vec<usize> {
        let own = |(_, one): &(usize, &Stored)| {
            one.packing.is_narrow() && self.narrowing_pass(one.stream).is_none()
        };
        if self.narrows_sums().is_some() {
            return Vec::new();
        }
        self.stored.iter().enumerate().filter(own).map(|(at, _)| at).collect()
    }

    /// The pass whose result is only needed narrow.
    fn narrowing_pass(&self, stream: usize) -> Option<usize> {
        let Some(Slot::Made(number)) = self.slot(stream) else { return None };
        let Stage::Pass { pass, .. } = &self.stages[number] else { return None };
        let read = self.stages.iter().any(|stage| stage.reads(stream));
        let mut own = self.stored.iter().filter(|one| one.stream == stream).map(|one| one.packing);
        let packing = own.next().filter(|packing| packing.is_narrow())?;
        let fits = output(&pass.vector) == packing.word();
        (!read && own.next().is_none() && fits).then_some(number)
    }

    /// Words of each slice that a stage gives.
    pub(super) fn stage_words(&self, stage: &Stage) -> u64 {
        match stage {
            Stage::Hold { .. } => 0,
            stage if stage.is_narrow() => self.narrow_words(),
            _ => self.words,
        }
    }

    /// Words of each slice for a value of one element a row, whole flits.
    fn narrow_words(&self) -> u64 {
        self.rows.next_multiple_of(FLIT_WORDS)
    }

    /// Stages whose results have words that no reduction writes.
    pub(super) fn padded(&self) -> Vec<usize> {
        let short = |(_, stage): &(usize, &Stage)| matches!(stage, Stage::Reduce { .. });
        if self.narrow_words() == self.rows {
            return Vec::new();
        }
        self.stages.iter().enumerate().filter(short).map(|(at, _)| at).collect()
    }

    /// The commands behind the exchange: `at` says where a slot lies, `narrow_at` where a narrow result does.
    pub(super) fn execs(
        &self,
        machine: &Tcp,
        at: &dyn Fn(Slot) -> u64,
        narrow_at: &dyn Fn(usize) -> u64,
    ) -> Vec<Exec> {
        let place = |stream: usize| at(self.slot(stream).or_broken("what a command reads lies somewhere"));
        let narrow_of = |stream: usize| {
            let own = |one: &Stored| one.stream == stream && one.packing.is_narrow();
            let number = self.stored.iter().position(own)?;
            Some((narrow_at(number), self.stored[number].packing.cast()))
        };
        let mut all = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            let words = self.stage_words(stage);
            match stage {
                Stage::Pass { pass, .. } => {
                    let own = self.narrowing_pass(pass.result).filter(|own| *own == number);
                    let target = match own.and_then(|_| narrow_of(pass.result)) {
                        Some(target) => target,
                        None => (place(pass.result), None),
                    };
                    let pair = pass.pair.map(place);
                    all.push(beside(machine, command(&pass.vector, place(pass.stream), pair, words, target)));
                }
                Stage::Reduce { from, to, fold, float } => {
                    let columns = self.words / self.rows.max(1);
                    let ends = [place(*from), place(*to)];
                    all.push(reduction(*fold, *float, (self.rows, columns), ends));
                }
                Stage::Hold { stream, at, words } => {
                    all.push(load_vrf("load", place(*stream), words.next_multiple_of(2), *at));
                }
            }
        }
        for at in self.narrowed() {
            let Stored { stream, packing, .. } = self.stored[at];
            let plain = chain(packing.word(), Vec::new());
            let target = (narrow_at(at), packing.cast());
            all.push(beside(machine, command(&plain, place(stream), None, self.words, target)));
        }
        all
    }

    /// Loads of the register file for operands that lie at given bytes of data memory.
    pub(super) fn load(&self, operand: usize, from: u64) -> Exec {
        let Operand { words, at, .. } = self.operands[operand];
        load_vrf("load", from, words.next_multiple_of(2), at)
    }

    /// Cycles of the main and of the sub context behind a contraction, on so many PEs together.
    pub(super) fn cycles(&self, machine: &Tcp, exchange: &Exchange, pes: u64) -> [u64; 2] {
        let mut cycles = [0, exchange.cycles(machine, self, pes)];
        let apart = |slot: Slot| match slot {
            Slot::Sums => 0,
            Slot::Brought(number) => (1 + number as u64) * self.words * WORD_BYTES,
            Slot::Made(number) => (8 + number as u64) * self.words * WORD_BYTES,
        };
        for exec in self.execs(machine, &apart, &|_| 0) {
            let exec = Exec { pes, ..exec };
            cycles[usize::from(exec.context == Context::Sub)] += exec_cycles(machine, &exec).total_cycles;
        }
        cycles
    }

    /// Bytes of each slice for each result that may be narrowed; those in words have room as for bf16.
    pub(super) fn narrow_bytes(&self) -> impl Iterator<Item = u64> {
        let most = Packing::Half.element_bytes();
        self.stored.iter().map(move |one| self.words * one.packing.element_bytes().min(most))
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

/// A finish in the making.
struct Maker<'f> {
    machine: &'f Tcp,
    epilogue: &'f Epilogue,
    shape: &'f TileShape,
    made: Finish,
    /// Units in the command of the contraction, as a chain.
    joined: Vector,
    /// Passes of the first chain behind it.
    rest: Vec<Pass>,
    /// Operands of the register file before and behind the exchange.
    operands: [Vec<Operand>; 2],
    /// First byte of the register file that is free.
    next: u64,
    /// Stream of each value, and whether it has one word for each row.
    values: Vec<(usize, bool)>,
    /// Where values with one word for each row are held.
    held: BTreeMap<usize, u64>,
}

impl<'f> Maker<'f> {
    /// The first chain; operands that are not used take no room.
    fn new(
        machine: &'f Tcp,
        shape: &'f TileShape,
        epilogue: &'f Epilogue,
        mut made: Finish,
        is_used: [&dyn Fn(usize) -> bool; 2],
    ) -> Option<Maker<'f>> {
        let inputs = epilogue.inputs.len();
        let sum = epilogue.inputs.iter().position(|input| *input == Input::Sum)?;
        let (early, before, next) = registers(epilogue, &Layout::new(shape, false), 0, is_used[0])?;
        let (late, behind, next) = registers(epilogue, &Layout::new(shape, true), next, is_used[1])?;
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
        made.slots = vec![None; inputs + epilogue.lines.len()];
        made.slots[sum] = Some(Slot::Sums);
        // Where the vector engine is needed behind the contraction too, both would wait for each other.
        let apart = !epilogue.has_rows() && shape.over.summed == 1 && rest.len() > 1;
        if !made.whole && alone && !apart {
            let pass = first.swap_remove(0);
            made.slots[pass.result] = Some(Slot::Sums);
            made.first = pass.vector.ops;
            rest.remove(0);
        }
        let joined = chain(shape.sum_word(), made.first.clone());
        let values = epilogue.streams.iter().map(|stream| (*stream, false)).collect();
        let operands = [before, behind];
        let held = BTreeMap::new();
        let mut maker = Maker { machine, epilogue, shape, made, joined, rest, operands, next, values, held };
        for (number, input) in epilogue.inputs.iter().enumerate() {
            maker.bring(number, *input, number);
        }
        Some(maker)
    }

    /// An input that transfers bring, as a stream.
    fn bring(&mut self, number: usize, input: Input, stream: usize) {
        if matches!(input, Input::Wide | Input::Plane) {
            self.made.slots[stream] = Some(Slot::Brought(self.made.brought.len()));
            self.made.brought.push((number, input == Input::Plane));
        }
    }

    /// A new stream.
    fn stream(&mut self) -> usize {
        self.made.slots.push(None);
        self.made.slots.len() - 1
    }

    fn stage(&mut self, stage: Stage, result: Option<usize>) {
        if let Some(result) = result {
            self.made.slots[result] = Some(Slot::Made(self.made.stages.len()));
        }
        self.made.stages.push(stage);
    }

    fn finished(mut self) -> Option<Finish> {
        for pass in std::mem::take(&mut self.rest) {
            let result = pass.result;
            self.stage(Stage::Pass { pass, narrow: false }, Some(result));
        }
        let [before, behind] = std::mem::take(&mut self.operands);
        self.made.operands = before.into_iter().chain(behind).collect();
        if self.epilogue.has_rows() {
            let layout = Layout::new(self.shape, true);
            if layout.columns != self.shape.live_columns() || !layout.rows.is_multiple_of(LEAST_ROWS) {
                return None;
            }
            self.made.rows = layout.rows;
            self.made.row_place = layout.operand(Input::Rows).map(|(.., placed)| placed);
            for member in &self.epilogue.members {
                self.member(member, &layout)?;
            }
        }
        if self.next > self.machine.vrf.capacity_bytes {
            return None;
        }
        let given = self.values.iter().zip(&self.epilogue.packings).zip(&self.epilogue.given);
        self.made.stored = given
            .filter(|(_, given)| **given)
            .map(|(((stream, narrow), packing), _)| Stored {
                stream: *stream,
                packing: *packing,
                narrow: *narrow,
            })
            .collect();
        let lies = |one: &Stored| self.made.slots[one.stream].is_some();
        self.made.stored.iter().all(lies).then_some(self.made)
    }

    fn member(&mut self, member: &Member, layout: &Layout) -> Option<()> {
        match member {
            Member::Reduce { from, fold, float } => {
                let to = self.stream();
                let from = self.values[*from].0;
                self.stage(Stage::Reduce { from, to, fold: *fold, float: *float }, Some(to));
                self.values.push((to, true));
            }
            Member::Chain { inputs, lines, streams, wide } => {
                let (map, known) = self.sources(inputs, (lines, streams), *wide, layout)?;
                let passes = passes_with(self.machine, inputs.len(), lines, streams, &known)?;
                let mut map = map;
                for line in 0..lines.len() {
                    let own = self.stream();
                    map.insert(inputs.len() + line, own);
                }
                for pass in passes {
                    let pass = Pass {
                        stream: map[&pass.stream],
                        pair: pass.pair.map(|pair| map[&pair]),
                        result: map[&pass.result],
                        vector: pass.vector,
                    };
                    let result = pass.result;
                    self.stage(Stage::Pass { pass, narrow: !wide }, Some(result));
                }
                self.values.extend(streams.iter().map(|stream| (map[stream], !wide)));
            }
        }
        Some(())
    }

    /// Streams of a chain's inputs, and those that the register file holds.
    fn sources(
        &mut self,
        inputs: &[Source],
        (lines, streams): (&[Line], &[usize]),
        wide: bool,
        layout: &Layout,
    ) -> Option<(BTreeMap<usize, usize>, Registers)> {
        let (mut map, mut small) = (BTreeMap::new(), Vec::new());
        for (local, source) in inputs.iter().enumerate() {
            match source {
                Source::Value(value) => {
                    let (stream, narrow) = self.values[*value];
                    map.insert(local, stream);
                    if narrow && wide {
                        small.push(local);
                    }
                }
                Source::Input(number) => {
                    let kind = self.epilogue.more[*number];
                    let stream = self.stream();
                    map.insert(local, stream);
                    self.bring(self.epilogue.inputs.len() + number, kind, stream);
                    if is_small(kind) {
                        small.push(local);
                    }
                }
            }
        }
        if operands_of_units(&small, lines, streams).len() != small.len() {
            return None;
        }
        let mut known = Registers::new();
        for local in small {
            let source = match inputs[local] {
                Source::Value(value) => self.hold(value),
                Source::Input(number) => self.operand(number, layout)?,
            };
            known.insert(local, source);
        }
        Some((map, known))
    }

    /// A value of one word for each row in the register file.
    fn hold(&mut self, value: usize) -> OperandSource {
        let (rows, columns) = (self.made.rows, self.made.words / self.made.rows.max(1));
        let at = match self.held.get(&value) {
            Some(at) => *at,
            None => {
                let (at, words) = (self.next, self.made.narrow_words());
                self.next += register_bytes(words);
                self.held.insert(value, at);
                self.stage(Stage::Hold { stream: self.values[value].0, at, words }, None);
                at
            }
        };
        vrf(at, &[(rows, 1), (columns, 0)])
    }

    /// An input of one word for each row or column in the register file.
    fn operand(&mut self, number: usize, layout: &Layout) -> Option<OperandSource> {
        let input = self.epilogue.more[number];
        let (words, walk, placed) = layout.operand(input)?;
        let (number, at) = (self.epilogue.inputs.len() + number, self.next);
        self.made.operands.push(Operand { number, input, words, at, placed });
        self.next += register_bytes(words);
        Some(vrf(at, &walk))
    }
}
