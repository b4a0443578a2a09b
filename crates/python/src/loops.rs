//! Loops whose iterations a kernel of the first dialect says are independent (`nl.affine_range`): an
//! iteration that reads what an earlier one wrote is found here, where access patterns are known, and so is
//! one that writes to HBM where an earlier one read, or other values than it wrote (NKI language,
//! `affine_range`: no loop-carried dependence but associative sums). Tiles on chip that iterations write anew
//! have room of their own each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pyo3::prelude::*;
use smallvec::SmallVec;
use tilewright_neuron_isa::program::NeuronProgram;
use tilewright_neuron_isa::{EngineKind, Instruction, TensorRegion};
use tilewright_neuron_sim::findings::NeuronFinding;

use crate::session::Session;
use crate::tensor::Tensor;

/// Accesses of one tile that are looked through for one more.
const MAX_KEPT: usize = 256;
/// Updates in place that are kept of one region: those of this iteration and of one before.
const MAX_UPDATES: usize = 2;

/// A running loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningLoop {
    pub(crate) number: u32,
    pub(crate) iteration: u64,
    /// Its iterations are said to be independent.
    pub(crate) affine: bool,
    pub(crate) source: u32,
}

/// Loops around an instruction, outermost first.
pub(crate) type LoopNest = SmallVec<[RunningLoop; 4]>;

/// What an instruction in loops wrote, or read.
struct LoopAccess {
    region: TensorRegion,
    at: usize,
    nest: LoopNest,
    /// It adds to what was there.
    updates: bool,
}

/// How an access depends on one of an earlier iteration. That both write is no dependence by itself: they may
/// write the same (`iteration_writes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependence {
    ReadsWritten,
    WritesRead,
    WritesOther,
}

impl Dependence {
    /// What the later access does, to what, and what the earlier one did.
    fn verbs(self) -> [&'static str; 3] {
        match self {
            Dependence::ReadsWritten => ["reads", "what", "wrote"],
            Dependence::WritesRead => ["writes", "what", "read"],
            Dependence::WritesOther => ["writes", "other values over what", "wrote"],
        }
    }
}

/// An access of an earlier iteration that one depends on: how, its instruction, the loop and the iteration.
pub(crate) type Carried = (Dependence, usize, RunningLoop, u64);

/// Running loops of each program, and what was written in them.
#[derive(Default)]
pub(crate) struct LoopTable {
    made: u32,
    pub(crate) running: BTreeMap<u32, LoopNest>,
    writes: BTreeMap<(u32, u32, u32), Vec<LoopAccess>>,
    /// What was read of HBM.
    reads: BTreeMap<(u32, u32, u32), VecDeque<LoopAccess>>,
    /// The last instruction and its loops: where its result goes is known when the next comes. None of the
    /// reads of a reduction over loops is a mistake.
    pending: Option<(usize, LoopNest, bool)>,
    /// Pairs of lines that were reported already.
    reported: BTreeSet<(u32, u32)>,
}

/// The loop that two instructions are in different iterations of, if it is the outermost that tells them
/// apart.
pub(crate) fn carrying(earlier: &LoopNest, later: &LoopNest) -> Option<(RunningLoop, u64)> {
    let differs = earlier.iter().zip(later).find(|(a, b)| a.number != b.number || a.iteration != b.iteration);
    differs.filter(|(a, b)| a.number == b.number).map(|(a, b)| (*b, a.iteration))
}

/// Whether an instruction adds to what is there, in whatever order: the tensor engine to PSUM, or two tiles
/// of which one is the result.
fn accumulates(instruction: &Instruction, region: &TensorRegion) -> bool {
    const UPDATES: [&str; 6] = [
        "nc_matmul",
        "nc_matmul_mx",
        "tensor_tensor",
        "tensor_scalar",
        "scalar_tensor_tensor",
        "dma_compute",
    ];
    let in_place = instruction.writes.contains(region);
    in_place && (UPDATES.contains(&instruction.opcode) || instruction.engine == EngineKind::Dma)
}

/// The latest read of an earlier iteration of an independent loop that meets a region that is written.
fn read_before(all: &VecDeque<LoopAccess>, nest: &LoopNest, region: &TensorRegion) -> Option<Carried> {
    all.iter().rev().find_map(|one| {
        let (carrier, from) = carrying(&one.nest, nest)?;
        let clash = carrier.affine && one.region.surely_overlaps(region);
        clash.then_some((Dependence::WritesRead, one.at, carrier, from))
    })
}

/// Whether an instruction adds to what is in a region that it writes.
pub(crate) fn updates(instruction: &Instruction, region: &TensorRegion) -> bool {
    instruction.reads.iter().any(|read| read.overlaps(region)) && accumulates(instruction, region)
}

/// Whether a storage is off the chip; storages are numbered as they are made.
fn is_off_chip(program: &NeuronProgram, storage: u32) -> bool {
    let own = usize::try_from(storage).ok().and_then(|at| program.allocations.get(at));
    own.is_some_and(|own| own.storage == storage && !own.memory.on_chip())
}

impl LoopTable {
    /// What an instruction does with what an earlier iteration of an independent loop used; regions of HBM
    /// that it writes are named.
    fn carried(
        &self,
        program: u32,
        nest: &LoopNest,
        instruction: &Instruction,
        off_chip: &[TensorRegion],
    ) -> Option<Carried> {
        let reads =
            instruction.reads.iter().find_map(|region| self.written(program, nest, instruction, region));
        reads.or_else(|| {
            off_chip.iter().filter(|region| !updates(instruction, region)).find_map(|region| {
                let reads = self.reads.get(&(program, region.storage, region.tile))?;
                read_before(reads, nest, region)
            })
        })
    }

    /// What an instruction reads that an earlier iteration wrote.
    fn written(
        &self,
        program: u32,
        nest: &LoopNest,
        instruction: &Instruction,
        region: &TensorRegion,
    ) -> Option<Carried> {
        let writes = self.writes.get(&(program, region.storage, region.tile))?;
        for write in writes.iter().rev().take(MAX_KEPT).filter(|write| write.region.overlaps(region)) {
            let sure = write.region.surely_overlaps(region);
            match carrying(&write.nest, nest) {
                Some((carrier, from)) if carrier.affine && sure && !accumulates(instruction, region) => {
                    return Some((Dependence::ReadsWritten, write.at, carrier, from));
                }
                _ => {}
            }
            // What was written since hides what was written before, but where it was added to that.
            if write.region.covers(region) && !write.region.sparse && !write.updates {
                break;
            }
        }
        None
    }

    fn keep(
        &mut self,
        program: u32,
        nest: &LoopNest,
        (at, instruction): (usize, &Instruction),
        read_off_chip: &[TensorRegion],
    ) {
        for region in read_off_chip {
            let reads = self.reads.entry((program, region.storage, region.tile)).or_default();
            if reads.len() >= MAX_KEPT {
                reads.pop_front();
            }
            reads.push_back(LoopAccess { region: *region, at, nest: nest.clone(), updates: false });
        }
        for region in &instruction.writes {
            let updates = updates(instruction, region);
            let writes = self.writes.entry((program, region.storage, region.tile)).or_default();
            if writes.len() < MAX_KEPT && !region.sparse {
                let mut known = 0;
                let mut hides = |earlier: &LoopAccess| {
                    let covered = region.covers(&earlier.region);
                    known += usize::from(covered && earlier.updates);
                    covered && (!updates || earlier.nest == *nest || known >= MAX_UPDATES)
                };
                let hidden: Vec<bool> = writes.iter().rev().map(&mut hides).collect();
                let mut hidden = hidden.into_iter().rev();
                writes.retain(|_| !hidden.next().unwrap_or(false));
            }
            writes.push(LoopAccess { region: *region, at, nest: nest.clone(), updates });
        }
    }
}

#[pymethods]
impl Session {
    /// A loop begins; its number.
    fn enter_loop(&mut self, py: Python<'_>, affine: bool) -> u32 {
        self.settle_loops();
        let source = self.line(py);
        self.loops.made += 1;
        let number = self.loops.made;
        let nest = self.loops.running.entry(self.current_program).or_default();
        nest.push(RunningLoop { number, iteration: 0, affine, source });
        number
    }

    /// The next iteration of a loop begins: those inside it are over.
    fn next_iteration(&mut self, number: u32) {
        self.settle_loops();
        let Some(nest) = self.loops.running.get_mut(&self.current_program) else { return };
        if let Some(place) = nest.iter().position(|one| one.number == number) {
            nest.truncate(place + 1);
            nest[place].iteration += 1;
            self.end_iterations();
        }
    }

    /// The last instruction is a step of a reduction over loops (`nl.loop_reduce`).
    fn reduces_over_loops(&mut self) {
        if let Some(pending) = &mut self.loops.pending {
            pending.2 = true;
        }
    }

    /// A tensor holds what a reduction over loops has so far.
    fn running_reduction(&mut self, total: &Tensor) {
        self.iteration_tiles.add_reduction(self.current_program, total.tile.storage.id);
    }

    /// A loop is over, and those inside it.
    fn leave_loop(&mut self, number: u32) {
        self.settle_loops();
        let Some(nest) = self.loops.running.get_mut(&self.current_program) else { return };
        if let Some(place) = nest.iter().position(|one| one.number == number) {
            nest.truncate(place);
        }
        let over = nest.is_empty();
        self.end_iterations();
        self.iteration_tiles.leave(number);
        if over {
            let program = self.current_program;
            self.loops.running.remove(&program);
            self.iteration_writes.forget(program);
            self.iteration_tiles.forget(program);
            self.loops.writes.retain(|key, _| key.0 != program);
            self.loops.reads.retain(|key, _| key.0 != program);
        }
    }
}

impl Session {
    /// Remembers that an instruction was executed in the loops that run now; `at` is its number.
    pub(crate) fn follow_loops(&mut self, at: usize, program: u32) {
        self.settle_loops();
        if let Some(nest) = self.loops.running.get(&program).filter(|nest| nest.iter().any(|one| one.affine))
        {
            self.loops.pending = Some((at, nest.clone(), false));
        }
    }

    /// Looks at what the last instruction in loops reads and writes.
    fn settle_loops(&mut self) {
        let Some((at, nest, reduces)) = self.loops.pending.take() else { return };
        let Some(instruction) = self.program.instructions.get(at) else { return };
        let program = instruction.program;
        let off_chip = |regions: &[TensorRegion]| -> SmallVec<[TensorRegion; 2]> {
            let moves = instruction.engine == EngineKind::Dma;
            let own = |region: &&TensorRegion| moves && is_off_chip(&self.program, region.storage);
            regions.iter().filter(own).copied().collect()
        };
        let [read, written] = [off_chip(&instruction.reads), off_chip(&instruction.writes)];
        let carried = self.loops.carried(program, &nest, instruction, &written);
        self.loops.keep(program, &nest, (at, instruction), &read);
        if let Some(carried) = carried.filter(|_| !reduces) {
            self.report_carried(at, carried);
        }
    }

    /// Reports a dependence, once for each pair of lines.
    pub(crate) fn report_carried(&mut self, later: usize, (kind, earlier, carrier, from): Carried) {
        let instructions = &self.program.instructions;
        let (Some(earlier), Some(later)) = (instructions.get(earlier), instructions.get(later)) else {
            return;
        };
        if !self.loops.reported.insert((earlier.source, later.source)) {
            return;
        }
        let line = |source: u32| self.program.source(source).to_owned();
        let [now, what, before] = kind.verbs();
        self.reported.push(NeuronFinding {
            code: "neuron/loop-carried",
            error: true,
            source: line(later.source),
            message: format!(
                "{} {now} in iteration {} of the affine_range at {} {what} {} at {} {before} in iteration {}",
                later.opcode,
                carrier.iteration - 1,
                line(carrier.source),
                earlier.opcode,
                line(earlier.source),
                from - 1,
            ),
            allowed:
                "iterations of affine_range that do not depend on each other, but for sums that all add to"
                    .to_owned(),
            instead: "loop with nl.sequential_range, or give each iteration a tile of its own".to_owned(),
        });
    }
}
