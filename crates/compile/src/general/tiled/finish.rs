//! What happens to the sums of a tile before they leave data memory: the first units of a chain in the
//! command of the contraction, the exchange between slices, the other passes of the chain, and the narrowing
//! to bf16 or bytes.

use std::collections::BTreeSet;

use tilewright_base::invariant::OrBroken;
use tilewright_graph::Fold;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_isa::program::exec::{Context, Exec, ExecBody};
use tilewright_tcp_isa::program::vector::Op;
use tilewright_tcp_isa::switch::Ring;
use tilewright_tcp_isa::vector::{FLIT_WORDS, output};
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::load_vrf;

use super::super::commands_chain::command;
use super::super::commands_hulls::spread_load;
use super::super::commands_reduce::reduction;
use super::super::kernel::Packing;
use super::super::passes::Pass;
use super::super::tactic::Placed;
use super::epilogue::Input;
use super::exchange::Exchange;
use super::tile::{WORD_BYTES, placed};

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
    pub(super) at: u64,
    /// How they lie in data memory: in parts, if a ring passes them on.
    pub(super) placed: Placement,
    /// Slices that have parts.
    pub(super) ring: Ring,
}

impl Operand {
    /// Words of each slice in data memory.
    pub(super) fn own_words(&self) -> u64 {
        self.words / self.ring.slice1
    }

    /// How its words lie in data memory.
    pub(super) fn placed(&self) -> Option<Placed> {
        self.placed.shape()
    }
}

/// How words lie in data memory, as a text of the notation that few candidates need read.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    pub(super) axis: &'static str,
    pub(super) size: u64,
    pub(super) text: String,
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
    pub(super) slots: Vec<Option<Slot>>,
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
    pub(super) rows: u64,
    /// How values of one element a row lie.
    pub(super) row_place: Option<Placement>,
    /// Sums stay as the contraction gives them.
    pub(super) whole: bool,
    /// Commands that run in the main context though the sub context could, by number among all that follow.
    pub(super) on_main: BTreeSet<usize>,
}

impl Finish {
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
        let mut own = self.stored.iter().filter(|one| one.stream == stream).map(|one| one.packing);
        let packing = own.next().filter(|packing| packing.is_narrow())?;
        let fits = output(&pass.vector) == packing.word();
        // A chain of thousands of stages is only gone through for the few results that are stored.
        let is_read = || self.stages.iter().any(|stage| stage.reads(stream));
        (own.next().is_none() && fits && !is_read()).then_some(number)
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
    pub(super) fn narrow_words(&self) -> u64 {
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
        let mut all: Vec<(Exec, bool)> = Vec::new();
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
                    all.push((command(&pass.vector, place(pass.stream), pair, words, target), true));
                }
                Stage::Reduce { from, to, fold, float } => {
                    let columns = self.words / self.rows.max(1);
                    let ends = [place(*from), place(*to)];
                    all.push((reduction(*fold, *float, (self.rows, columns), ends), false));
                }
                Stage::Hold { stream, at, words } => {
                    all.push((load_vrf("load", place(*stream), words.next_multiple_of(2), *at), false));
                }
            }
        }
        for at in self.narrowed() {
            let Stored { stream, packing, .. } = self.stored[at];
            let plain = chain(packing.word(), Vec::new());
            let target = (narrow_at(at), packing.cast());
            all.push((command(&plain, place(stream), None, self.words, target), true));
        }
        let placed = |(number, (exec, moves)): (usize, (Exec, bool))| {
            if moves && !self.on_main.contains(&number) { beside(machine, exec) } else { exec }
        };
        all.into_iter().enumerate().map(placed).collect()
    }

    /// Loads of the register file for operands that lie at given bytes of data memory.
    pub(super) fn load(&self, machine: &Tcp, operand: usize, from: u64) -> Exec {
        let Operand { words, at, ring, .. } = self.operands[operand];
        if ring.slice1 > 1 {
            let parts = (ring, words / ring.slice1);
            return spread_load(machine.commit.sub_width_bytes, from, parts, at);
        }
        load_vrf("load", from, words.next_multiple_of(2), at)
    }

    /// Cycles of the main and of the sub context behind a contraction, on so many PEs together.
    pub(super) fn cycles(&self, machine: &Tcp, exchange: &Exchange, pes: u64) -> [u64; 2] {
        let mut cycles = [0, exchange.cycles(machine, self, pes)];
        for (context, each) in self.each_cycles(machine, pes) {
            cycles[usize::from(context == Context::Sub)] += each;
        }
        cycles
    }

    /// Context and cycles of each command behind the exchange.
    fn each_cycles(&self, machine: &Tcp, pes: u64) -> Vec<(Context, u64)> {
        let apart = |slot: Slot| match slot {
            Slot::Sums => 0,
            Slot::Brought(number) => (1 + number as u64) * self.words * WORD_BYTES,
            Slot::Made(number) => (8 + number as u64) * self.words * WORD_BYTES,
        };
        let all = self.execs(machine, &apart, &|_| 0).into_iter();
        let timed = |exec: Exec| {
            let exec = Exec { pes, ..exec };
            (exec.context, exec_cycles(machine, &exec).total_cycles)
        };
        all.map(timed).collect()
    }

    /// The same with passes in the main context that the sub context would do, where a tile then takes less:
    /// the main context writes four times as much in a cycle, but the next contraction waits for it. Beside
    /// it runs a contraction of so many cycles, or not at all if both need the vector engine.
    #[must_use]
    pub(super) fn balanced(
        self,
        machine: &Tcp,
        (exchange, pes): (&Exchange, u64),
        contract_cycles: u64,
        serial: bool,
    ) -> Finish {
        let none = Finish { on_main: BTreeSet::new(), ..self.clone() };
        let by_sub = none.each_cycles(machine, pes);
        let every = Finish { on_main: (0..by_sub.len()).collect(), ..self };
        let by_main = every.each_cycles(machine, pes);
        let before = [contract_cycles, exchange.cycles(machine, &none, pes)];
        let time = |on_main: &BTreeSet<usize>| {
            let mut cycles = before;
            for number in 0..by_sub.len() {
                let (context, each) =
                    if on_main.contains(&number) { by_main[number] } else { by_sub[number] };
                cycles[usize::from(context == Context::Sub)] += each;
            }
            let [main, sub] = cycles;
            (if serial { main + sub } else { main.max(sub) }, main + sub)
        };
        let (mut best, mut on_main) = (time(&BTreeSet::new()), BTreeSet::new());
        // One more at a time: each that is moved takes from one context and gives to the other.
        loop {
            let movable = (0..by_sub.len())
                .filter(|at| by_sub[*at].0 == Context::Sub && by_main[*at].0 != by_sub[*at].0);
            let others = movable.filter(|at| !on_main.contains(at));
            let moved = others.map(|at| on_main.iter().copied().chain([at]).collect::<BTreeSet<usize>>());
            let Some(next) = moved.min_by_key(&time).filter(|next| time(next) < best) else { break };
            (best, on_main) = (time(&next), next);
        }
        Finish { on_main, ..every }
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
