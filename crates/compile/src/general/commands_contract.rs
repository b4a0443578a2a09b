//! Contractions by their tactics: operands are laid as the tactic takes them, its commands run, and the
//! result goes on.

use tilewright_base::invariant::OrBroken;
use tilewright_tcp_lower::kernels::chain::chain;

use super::commands_chain::Rooms;
use super::contraction_facts::{LETTERS, is_early, operand_sizes};
use super::emit::Block;
use super::kernel::{Origin, Packing, Sizes, Work};
use super::passes::{Pass, passes};
use super::plan::{Laid, Planner, Ready, WORD_BYTES};
use super::refusal::Lowered;
use super::residents::resident_tiles;
use super::tactic::{Placed, Tactic};
use super::tiled::Operands;

fn none() -> String {
    "digits that do not make up an axis".to_string()
}

/// Part of a contraction that is computed at once: first positions of batch, rows and columns, and how many
/// are live.
#[derive(Clone, Copy)]
struct Chunk {
    first: [u64; 3],
    live: [u64; 3],
}

impl Planner<'_> {
    pub(super) fn contract(&mut self, number: usize) -> Lowered<()> {
        let kernel = &self.kernels.kernels[number];
        let Work::Contract { a, b, sizes } = kernel.work else { return Ok(()) };
        let to = *kernel.results.first().ok_or("a kernel without a result")?;
        if let Some(tiled) = self.chosen.tiled.get(&number) {
            let rows = self.chosen.windows.get(&number).map_or(a, |windows| windows.source);
            let operands = self.operands(number, [rows, b], to);
            tiled.emit(&mut self.emitter, &operands)?;
            let resident: Vec<usize> = self
                .residents
                .iter()
                .filter(|one| one.maker == number && !one.is_stored)
                .map(|one| one.value)
                .collect();
            self.laid.extend(resident.into_iter().map(|value| (value, None)));
            if let Some(inside) = self.chosen.padded.get(&number) {
                self.laid.insert(inside.value, None);
            }
            if let Some(joined) = self.chosen.joined.get(&number) {
                let given = joined.given();
                let inside = joined.values.iter().chain([&to]).filter(|value| !given.contains(value));
                self.laid.extend(inside.filter(|_| !self.keep).map(|value| (*value, None)));
            }
            return Ok(());
        }
        let tactic = self.chosen.tactics.get(&number).ok_or("no tactic")?;
        if tactic.chunk == sizes {
            let all = Chunk { first: [0; 3], live: [sizes.batch, sizes.rows, sizes.columns] };
            let blocks =
                [self.operand(number, 0, a, sizes, tactic)?, self.operand(number, 1, b, sizes, tactic)?];
            self.compute(tactic, blocks);
            return match self.chosen.tails.get(&number) {
                Some(tail) => self.tail(number, *tail, tactic, sizes),
                None => {
                    let block = self.emitter.room(tactic.operands[2].image.elements() * WORD_BYTES);
                    self.give(to, tactic, sizes, all, block)
                }
            };
        }
        let images = [0, 1].map(|at| tactic.operands[at].image.elements() * sizes.operands.element_bytes());
        let chunks = chunks(sizes, tactic.chunk);
        let pes = self.emitter.pes().min(chunks.len() as u64);
        let rooms: Vec<([u64; 2], u64)> = (0..pes)
            .map(|_| {
                let out = self.emitter.room(tactic.operands[2].image.elements() * WORD_BYTES);
                (images.map(|bytes| self.emitter.room(bytes)), out)
            })
            .collect();
        for (chunk, (pe, (blocks, out))) in chunks.into_iter().zip((0..).zip(rooms).cycle()) {
            self.emitter.turn_to(pe);
            self.emitter.work_alone();
            for (operand, value) in [a, b].into_iter().enumerate() {
                self.lay(operand, value, sizes, chunk, tactic, blocks[operand])?;
            }
            self.compute(tactic, blocks);
            self.give(to, tactic, sizes, chunk, out)?;
        }
        Ok(())
    }

    /// Where a contraction in tiles finds what it reads, and where it writes.
    fn operands(&self, number: usize, [a, b]: [usize; 2], to: usize) -> Operands {
        let (rows, columns) = (self.places[a], self.places[b]);
        let value = self.value(a);
        let rows_range = (rows, rows + value.count() * value.element_bytes());
        let inside = self.chosen.padded.get(&number);
        let place = |value: &usize| match inside.filter(|one| one.value == *value) {
            Some(one) => self.places[one.target],
            None => self.places[*value],
        };
        let at = |values: &[usize]| values.iter().map(place).collect();
        let early = is_early(self.kernels, number);
        let resident = resident_tiles(self.kernels, self.chosen, &self.residents, number);
        match self.chosen.joined.get(&number) {
            Some(joined) => {
                let given = joined.given();
                let sums = self.keep && !given.contains(&to);
                Operands {
                    rows,
                    rows_range,
                    columns,
                    early,
                    results: at(&given),
                    inputs: at(&joined.reads),
                    sums: sums.then(|| self.places[to]),
                    resident,
                }
            }
            None => {
                let (results, inputs) = (at(&[to]), Vec::new());
                Operands { rows, rows_range, columns, early, results, inputs, sums: None, resident }
            }
        }
    }

    /// An operand as a tactic takes it: a constant that the host lays, what another contraction hands on, or
    /// a value in row-major order.
    fn operand(
        &mut self,
        number: usize,
        operand: usize,
        value: usize,
        sizes: Sizes,
        tactic: &Tactic,
    ) -> Lowered<u64> {
        let placed = &tactic.operands[operand];
        let bytes = sizes.operands.element_bytes();
        let block = self.emitter.room(placed.image.elements() * bytes);
        if let Some(patterns) = self.ready(value, placed, LETTERS[operand], operand_sizes(sizes, operand))? {
            self.blocks.push(Ready { base: block, packing: sizes.operands, patterns });
            return Ok(block);
        }
        let straight = self.chosen.straight.contains_key(&(number, operand));
        if let (true, Some(Some(laid))) = (straight, self.laid.get(&value)) {
            let (base, parts) = (laid.base, laid.placed.parts_to(placed, operand).ok_or_else(none)?);
            for part in &parts {
                self.emitter.part("lay", part, bytes, [base, block]);
            }
            return Ok(block);
        }
        let chunk = Chunk { first: [0; 3], live: [sizes.batch, sizes.rows, sizes.columns] };
        self.lay(operand, value, sizes, chunk, tactic, block)?;
        Ok(block)
    }

    /// A constant's patterns in a shape; `None` if it is none.
    fn ready(
        &self,
        value: usize,
        placed: &Placed,
        letters: [&str; 3],
        dims: [u64; 3],
    ) -> Lowered<Option<Vec<u32>>> {
        let Origin::Constant(words) = &self.value(value).origin else { return Ok(None) };
        let parts = placed.image.parts(value, &placed.axes_of(letters, dims, dims), true).ok_or_else(none)?;
        let size = usize::try_from(placed.image.elements()).map_err(|_| none())?;
        let mut patterns = vec![0; size];
        for part in parts {
            part.each(|from, to| {
                if let (Some(slot), Some(word)) = (patterns.get_mut(to), words.get(from)) {
                    *slot = *word;
                }
            });
        }
        Ok(Some(patterns))
    }

    /// Part of an operand from row-major order to its block.
    fn lay(
        &mut self,
        operand: usize,
        value: usize,
        sizes: Sizes,
        chunk: Chunk,
        tactic: &Tactic,
        block: u64,
    ) -> Lowered<()> {
        let (dims, placed) = (operand_sizes(sizes, operand), &tactic.operands[operand]);
        let (first, live) = (chunk.first[1 + operand], chunk.live[1 + operand]);
        let axes = placed.axes_of(LETTERS[operand], dims, [chunk.live[0], live, sizes.summed]);
        let skipped = (chunk.first[0] * dims[1] + first) * sizes.summed;
        let bytes = sizes.operands.element_bytes();
        for part in placed.image.parts(value, &axes, true).ok_or_else(none)? {
            self.emitter.part("lay", &part, bytes, [self.places[value] + skipped * bytes, block]);
        }
        Ok(())
    }

    /// Brings operands and runs the commands.
    fn compute(&mut self, tactic: &Tactic, blocks: [u64; 2]) {
        for (block, placed) in blocks.into_iter().zip(&tactic.operands) {
            self.whole("bring", true, block, placed, (placed.base, tactic.chunk.operands.element_bytes()));
        }
        let out = &tactic.operands[2];
        // Places that no sum goes to are read with those beside them.
        self.emitter.clear("clear", out.base, out.image.pitch * WORD_BYTES);
        self.emitter.commands_of(&tactic.program, "contract");
    }

    /// The result to a block, and from there to row-major order.
    fn give(&mut self, to: usize, tactic: &Tactic, sizes: Sizes, chunk: Chunk, block: u64) -> Lowered<()> {
        let out = &tactic.operands[2];
        self.whole("keep", false, block, out, (out.base, WORD_BYTES));
        let [first, row, column] = chunk.first;
        let skipped = ((first * sizes.rows + row) * sizes.columns + column) * WORD_BYTES;
        self.unlay(to, out, sizes, chunk.live, [block, self.places[to] + skipped])
    }

    /// A block to row-major order.
    fn unlay(
        &mut self,
        value: usize,
        out: &Placed,
        sizes: Sizes,
        live: [u64; 3],
        places: [u64; 2],
    ) -> Lowered<()> {
        let axes = out.axes_of(LETTERS[2], [sizes.batch, sizes.rows, sizes.columns], live);
        let bytes = self.value(value).element_bytes();
        for part in out.image.parts(value, &axes, false).ok_or_else(none)? {
            self.emitter.part("lay", &part.turned(), bytes, places);
        }
        Ok(())
    }

    /// All of a block, to data memory or from there.
    fn whole(&mut self, name: &str, to_dm: bool, hbm: u64, placed: &Placed, (dm, element_bytes): (u64, u64)) {
        let bytes = placed.image.pitch * element_bytes;
        let block = Block {
            hbm,
            dm,
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

    /// The chain behind a contraction, where the contraction left its result.
    fn tail(&mut self, number: usize, tail: usize, tactic: &Tactic, sizes: Sizes) -> Lowered<()> {
        let kernel = &self.kernels.kernels[tail];
        let Work::Chain { inputs, lines, streams } = &kernel.work else { return Ok(()) };
        let inputs = self.kernels.whole_inputs(inputs).ok_or("a tail that reads views")?;
        let own = self.kernels.kernels[number].results[0];
        let (out, dims) = (&tactic.operands[2], [sizes.batch, sizes.rows, sizes.columns]);
        let words = out.image.pitch;
        let made =
            passes(self.emitter.machine, inputs.len(), lines, streams).ok_or("a step that no unit does")?;
        let rooms = Rooms::new(inputs.len(), streams, &made);
        let free = tactic.free_byte(self.machine());
        let room = |at: u64| free + at * words * WORD_BYTES;
        // The sums stay where they are: the room that their stream would have is not used.
        let at = |stream: usize| match inputs.get(stream) {
            Some(value) if *value == own => out.base,
            _ => room(rooms.of[stream].or_broken("streams of passes have rooms")),
        };
        for (stream, value) in inputs.iter().enumerate().filter(|(_, value)| **value != own) {
            let block = self.emitter.room(out.image.elements() * WORD_BYTES);
            match self.ready(*value, out, LETTERS[2], dims)? {
                Some(patterns) => self.blocks.push(Ready { base: block, packing: Packing::Words, patterns }),
                None => {
                    let axes = out.axes_of(LETTERS[2], dims, dims);
                    for part in out.image.parts(*value, &axes, true).ok_or_else(none)? {
                        self.emitter.part("lay", &part, WORD_BYTES, [self.places[*value], block]);
                    }
                }
            }
            if out.image.slices < self.machine().pe.slices {
                // All slices run the chain, also those that hold nothing.
                self.emitter.clear("clear", at(stream), words * WORD_BYTES);
            }
            self.whole("bring", true, block, out, (at(stream), WORD_BYTES));
        }
        let axes = out.axes_of(LETTERS[2], dims, dims);
        let lies = |base: u64| Laid { base, placed: out.clone(), axes: axes.clone() };
        self.laid.insert(own, None);
        if self.keep {
            let block = self.emitter.room(out.image.elements() * WORD_BYTES);
            self.whole("keep", false, block, out, (out.base, WORD_BYTES));
            self.laid.insert(own, Some(lies(block)));
        }
        for pass in &made {
            self.pass(pass, at(pass.stream), pass.pair.map(at), words, (at(pass.result), None));
        }
        for (spare, (stream, value)) in (rooms.most..).zip(streams.iter().zip(&kernel.results)) {
            let (mut from, bytes) = (at(*stream), self.value(*value).element_bytes());
            let packing = self.value(*value).packing;
            if packing.is_narrow() {
                let plain =
                    Pass { stream: 0, pair: None, vector: chain(packing.word(), Vec::new()), result: 0 };
                self.pass(&plain, from, None, words, (room(spare), packing.cast()));
                from = room(spare);
            }
            let block = self.emitter.room(out.image.elements() * bytes);
            self.whole("keep", false, block, out, (from, bytes));
            self.laid.insert(*value, Some(lies(block)));
            if self.is_plain(*value) {
                self.unlay(*value, out, sizes, dims, [block, self.places[*value]])?;
                self.laid.remove(value);
            }
        }
        Ok(())
    }

    /// Whether somebody reads a value in row-major order.
    fn is_plain(&self, value: usize) -> bool {
        let given = self.kernels.results.iter().any(|result| result.value == value);
        let reads = |(number, kernel): (usize, &super::kernel::Kernel)| match &kernel.work {
            Work::Contract { a, b, .. } => {
                let plain = |operand: usize| !self.chosen.straight.contains_key(&(number, operand));
                (*a == value && plain(0)) || (*b == value && plain(1))
            }
            _ => kernel.reads().contains(&value),
        };
        given || self.kernels.kernels.iter().enumerate().any(reads)
    }
}

/// Parts of a contraction, one after the other.
fn chunks(sizes: Sizes, by: Sizes) -> Vec<Chunk> {
    let (all, each) = ([sizes.batch, sizes.rows, sizes.columns], [by.batch, by.rows, by.columns]);
    let mut firsts = vec![[0_u64; 3]];
    for axis in 0..3 {
        let step = usize::try_from(each[axis].max(1)).unwrap_or(usize::MAX);
        let more = |first: [u64; 3]| {
            (0..all[axis]).step_by(step).map(move |at| {
                let mut first = first;
                first[axis] = at;
                first
            })
        };
        firsts = firsts.into_iter().flat_map(more).collect();
    }
    let live = |first: [u64; 3]| [0, 1, 2].map(|axis| each[axis].min(all[axis] - first[axis]));
    firsts.into_iter().map(|first| Chunk { first, live: live(first) }).collect()
}
