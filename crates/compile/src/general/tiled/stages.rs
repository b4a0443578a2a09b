//! How an epilogue becomes units of the contraction's command and stages behind it: which operands the vector
//! register file holds, and where every stream lies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::vector::{OperandSource, Vector};
use tilewright_tcp_isa::switch::Ring;
use tilewright_tcp_isa::vector::{FLIT_WORDS, check};
use tilewright_tcp_lower::kernels::chain::{chain, vrf};

use super::super::group::LEAST_ROWS;
use super::super::kernel::Packing;
use super::super::passes::{Pass, Registers, operands_of_units, passes_with};
use super::super::view::signed;
use super::super::words::Line;
use super::chain_passes::{ChainPasses, RegisterKey, is_small};
use super::epilogue::{Epilogue, Input, Member, Source};
use super::finish::{Finish, Operand, Placement, Slot, Stage, Stored};
use super::split::Spread;
use super::tile::{TileShape, WORD_BYTES};

/// Words of each slice, the walk over them, how they lie in data memory, and the ring that passes parts on.
type Seen = (u64, Vec<(u64, i64)>, Placement, Ring);

/// A point at which slices have sums in one layout: rows and columns of each.
struct Layout {
    rows: u64,
    columns: u64,
    /// Slices whose blocks of rows pass in turn, a row of each, before they are written in order.
    turns: u64,
    column_text: String,
    /// Slices that have parts of what there is for columns, and pass them on.
    column_ring: Ring,
    row_text: String,
    axes: [u64; 2],
}

impl Layout {
    fn new(machine: &Tcp, shape: &TileShape, exchanged: bool) -> Layout {
        let Spread { rows: by_rows, columns: by_columns, summed: by_sum, .. } = shape.over;
        let ring = if exchanged { shape.ring } else { 1 };
        let (kept, columns) = (shape.kept_rows(), shape.columns);
        let (part, run) = (kept / ring, columns * ring);
        let column_ring = column_ring(machine, shape, run);
        let (members, own) = (column_ring.slice1, run / column_ring.slice1);
        Layout {
            rows: part,
            columns: run,
            turns: if shape.blocks && !exchanged { shape.over.rows_ring } else { 1 },
            column_text: format!(
                "_[{}] N^{own}[{members}] N^{run}[{}] _[{ring}] _[{by_sum}] | N^1[{own}]",
                by_rows / members,
                by_columns / ring
            ),
            column_ring,
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
                Some((self.columns, vec![(self.rows, 0), (self.columns, 1)], placed, self.column_ring))
            }
            Input::Rows => {
                let placed = Placement { axis: "M", size: self.axes[0], text: self.row_text.clone() };
                let own = self.rows / self.turns;
                let walk = vec![(own, 1), (self.turns, signed(own)), (self.columns, 0)];
                Some((self.rows, walk, placed, Ring { slice1: 1, slice0: 1 }))
            }
            Input::Sum | Input::Wide | Input::Plane => None,
        }
    }
}

/// Neighbours with other rows that each have a part of what there is for their columns, whole flits of it,
/// and pass it on: transfers bring it once then, and not to every slice.
fn column_ring(machine: &Tcp, shape: &TileShape, words: u64) -> Ring {
    let Spread { rows, columns, summed, .. } = shape.over;
    let fits = |members: &u64| words.is_multiple_of(members * FLIT_WORDS);
    let members = (1..=rows.max(1).ilog2()).rev().map(|log2| 1_u64 << log2).find(fits);
    // Rings that cross PEs would have their parts moved by several.
    let inside = shape.over.slices() <= machine.pe.slices;
    Ring { slice1: members.filter(|_| inside).unwrap_or(1), slice0: columns * summed }
}

/// Operands of the first chain at a point.
struct ChainOperands {
    /// Those that take room in the register file.
    operands: Vec<Operand>,
    /// First byte of the register file that is free behind them.
    next: u64,
    /// The passes with them.
    passes: Arc<[Pass]>,
}

/// Register file operands of the first chain at a point, from a byte on, and the passes with them; streams
/// that are not used take no room.
fn registers(
    machine: &Tcp,
    (chain, known): (&Epilogue, &mut ChainPasses),
    layout: &Layout,
    from: u64,
    is_used: &dyn Fn(usize) -> bool,
) -> Option<ChainOperands> {
    let small = known.small(chain)?;
    let (mut all, mut operands, mut next) = (Registers::new(), Vec::new(), from);
    let used: Vec<bool> = small.iter().map(|stream| is_used(*stream)).collect();
    for (stream, is_used) in small.into_iter().zip(&used) {
        let input = chain.inputs[stream];
        let (words, walk, placed, ring) = layout.operand(input)?;
        all.insert(stream, vrf(next, &walk));
        if *is_used {
            operands.push(Operand { number: stream, input, words, at: next, placed, ring });
            next += register_bytes(words);
        }
    }
    let key = RegisterKey { rows: layout.rows, columns: layout.columns, turns: layout.turns, from, used };
    let passes = known.passes(machine, chain, key, &all)?;
    Some(ChainOperands { operands, next, passes })
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
        known: &mut ChainPasses,
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
            on_main: BTreeSet::new(),
        };
        let Some(epilogue) = epilogue else { return Some(plain) };
        let all = |_: usize| true;
        // Which operands are used is known when all units are: the first time is for that alone.
        let tried = Maker::new(machine, shape, (epilogue, known), plain.clone(), [&all, &all])?;
        let units = std::iter::once(&tried.joined).chain(tried.rest().iter().map(|pass| &pass.vector));
        let used = bases(units);
        if tried.operands.iter().flatten().all(|one| used.contains(&one.at)) {
            return tried.finished();
        }
        let uses = |operands: &[Operand], number: usize| {
            operands.iter().any(|one| one.number == number && used.contains(&one.at))
        };
        let [early, late] = &tried.operands;
        let made = Maker::new(
            machine,
            shape,
            (epilogue, known),
            plain,
            [&|number| uses(early, number), &|number| uses(late, number)],
        )?;
        made.finished()
    }
}

/// A finish in the making.
struct Maker<'f> {
    machine: &'f Tcp,
    epilogue: &'f Epilogue,
    shape: &'f TileShape,
    made: Finish,
    /// Units in the command of the contraction, as a chain.
    joined: Vector,
    /// Passes of the first chain, and how many of them are in the command of the contraction.
    passes: (Arc<[Pass]>, usize),
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
        (epilogue, known): (&'f Epilogue, &mut ChainPasses),
        mut made: Finish,
        is_used: [&dyn Fn(usize) -> bool; 2],
    ) -> Option<Maker<'f>> {
        let inputs = epilogue.inputs.len();
        let sum = epilogue.inputs.iter().position(|input| *input == Input::Sum)?;
        let before =
            registers(machine, (epilogue, known), &Layout::new(machine, shape, false), 0, is_used[0])?;
        let late = Layout::new(machine, shape, true);
        let behind = registers(machine, (epilogue, known), &late, before.next, is_used[1])?;
        let (first, all, next) = (before.passes, behind.passes, behind.next);
        let uses = |at: usize| all.iter().filter(|pass| pass.stream == at || pass.pair == Some(at)).count();
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
        let apart = !epilogue.has_rows() && shape.over.summed == 1 && all.len() > 1;
        let mut joins = 0;
        if let Some(pass) = first.first().filter(|_| !made.whole && alone && !apart) {
            made.slots[pass.result] = Some(Slot::Sums);
            made.first.clone_from(&pass.vector.ops);
            joins = 1;
        }
        let joined = chain(shape.sum_word(), made.first.clone());
        let values = epilogue.streams.iter().map(|stream| (*stream, false)).collect();
        let operands = [before.operands, behind.operands];
        let (passes, held) = ((all, joins), BTreeMap::new());
        let mut maker =
            Maker { machine, epilogue, shape, made, joined, passes, operands, next, values, held };
        for (number, input) in epilogue.inputs.iter().enumerate() {
            maker.bring(number, *input, number);
        }
        Some(maker)
    }

    /// Passes of the first chain behind the contraction.
    fn rest(&self) -> &[Pass] {
        &self.passes.0[self.passes.1..]
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
        for pass in self.rest().to_vec() {
            let result = pass.result;
            self.stage(Stage::Pass { pass, narrow: false }, Some(result));
        }
        let [before, behind] = std::mem::take(&mut self.operands);
        self.made.operands = before.into_iter().chain(behind).collect();
        if self.epilogue.has_rows() {
            let layout = Layout::new(self.machine, self.shape, true);
            let even = layout.rows == 1 || layout.rows.is_multiple_of(LEAST_ROWS);
            if layout.columns != self.shape.live_columns() || !even {
                return None;
            }
            self.made.rows = layout.rows;
            self.made.row_place = layout.operand(Input::Rows).map(|(_, _, placed, _)| placed);
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
        // The word of one row alone is no granule of a transfer.
        let single = self.made.rows == 1;
        let moved = |one: &Operand| one.input == Input::Rows;
        if single && (self.made.stored.iter().any(|one| one.narrow) || self.made.operands.iter().any(moved)) {
            return None;
        }
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
        let (words, walk, placed, ring) = layout.operand(input)?;
        let (number, at) = (self.epilogue.inputs.len() + number, self.next);
        self.made.operands.push(Operand { number, input, words, at, placed, ring });
        self.next += register_bytes(words);
        Some(vrf(at, &walk))
    }
}
