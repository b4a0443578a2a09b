//! Loops whose iterations a kernel of the first dialect says are independent (`nl.affine_range`): an
//! iteration that reads what an earlier one wrote is found here, where access patterns are known
//! (NKI language, `affine_range`: no loop-carried dependence but associative sums).

use std::collections::{BTreeMap, BTreeSet};

use pyo3::prelude::*;
use smallvec::SmallVec;
use tilewright_neuron_isa::{EngineKind, Instruction, TensorRegion};
use tilewright_neuron_sim::findings::NeuronFinding;

use crate::session::Session;

/// Writes of one tile that are looked through for one read.
const MAX_WRITES: usize = 256;

/// A running loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunningLoop {
    number: u32,
    iteration: u64,
    /// Its iterations are said to be independent.
    affine: bool,
    source: u32,
}

/// Loops around an instruction, outermost first.
type LoopNest = SmallVec<[RunningLoop; 4]>;

/// What an instruction in loops wrote.
struct LoopWrite {
    region: TensorRegion,
    at: usize,
    nest: LoopNest,
}

/// Running loops of each program, and what was written in them.
#[derive(Default)]
pub(crate) struct LoopTable {
    made: u32,
    running: BTreeMap<u32, LoopNest>,
    writes: BTreeMap<(u32, u32, u32), Vec<LoopWrite>>,
    /// The last instruction and its loops: where its result goes is known when the next comes. None of the
    /// reads of a reduction over loops is a mistake.
    pending: Option<(usize, LoopNest, bool)>,
    /// Pairs of lines that were reported already.
    reported: BTreeSet<(u32, u32)>,
}

/// The loop that two instructions are in different iterations of, if it is the outermost that tells them
/// apart.
fn carrying(earlier: &LoopNest, later: &LoopNest) -> Option<(RunningLoop, u64)> {
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

impl LoopTable {
    /// What an instruction reads that an earlier iteration of an independent loop wrote.
    fn carried(
        &self,
        program: u32,
        nest: &LoopNest,
        instruction: &Instruction,
    ) -> Option<(usize, RunningLoop, u64)> {
        for region in &instruction.reads {
            let Some(writes) = self.writes.get(&(program, region.storage, region.tile)) else { continue };
            for write in writes.iter().rev().take(MAX_WRITES).filter(|write| write.region.overlaps(region)) {
                let sure = write.region.surely_overlaps(region);
                match carrying(&write.nest, nest) {
                    Some((carrier, from)) if carrier.affine && sure && !accumulates(instruction, region) => {
                        return Some((write.at, carrier, from));
                    }
                    _ => {}
                }
                // What was written since hides what was written before.
                if write.region.covers(region) && !write.region.sparse {
                    break;
                }
            }
        }
        None
    }

    fn keep(&mut self, program: u32, nest: &LoopNest, at: usize, instruction: &Instruction) {
        for region in &instruction.writes {
            let writes = self.writes.entry((program, region.storage, region.tile)).or_default();
            if writes.len() < MAX_WRITES && !region.sparse {
                writes.retain(|earlier| !region.covers(&earlier.region));
            }
            writes.push(LoopWrite { region: *region, at, nest: nest.clone() });
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
        }
    }

    /// The last instruction is a step of a reduction over loops (`nl.loop_reduce`).
    fn reduces_over_loops(&mut self) {
        if let Some(pending) = &mut self.loops.pending {
            pending.2 = true;
        }
    }

    /// A loop is over, and those inside it.
    fn leave_loop(&mut self, number: u32) {
        self.settle_loops();
        let Some(nest) = self.loops.running.get_mut(&self.current_program) else { return };
        if let Some(place) = nest.iter().position(|one| one.number == number) {
            nest.truncate(place);
        }
        if nest.is_empty() {
            self.loops.running.remove(&self.current_program);
            let program = self.current_program;
            self.loops.writes.retain(|key, _| key.0 != program);
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
        let carried = self.loops.carried(program, &nest, instruction);
        self.loops.keep(program, &nest, at, instruction);
        if let Some((writer, carrier, from)) = carried.filter(|_| !reduces) {
            self.tell_carried(writer, at, carrier, from);
        }
    }

    fn tell_carried(&mut self, writer: usize, reader: usize, carrier: RunningLoop, from: u64) {
        let instructions = &self.program.instructions;
        let (Some(writer), Some(reader)) = (instructions.get(writer), instructions.get(reader)) else {
            return;
        };
        if !self.loops.reported.insert((writer.source, reader.source)) {
            return;
        }
        let line = |source: u32| self.program.source(source).to_owned();
        self.reported.push(NeuronFinding {
            code: "neuron/loop-carried",
            error: true,
            source: line(reader.source),
            message: format!(
                "{} reads in iteration {} of the affine_range at {} what {} at {} wrote in iteration {}",
                reader.opcode,
                carrier.iteration - 1,
                line(carrier.source),
                writer.opcode,
                line(writer.source),
                from - 1,
            ),
            allowed:
                "iterations of affine_range that do not depend on each other, but for sums that all add to"
                    .to_owned(),
            instead: "loop with nl.sequential_range, or give each iteration a tile of its own".to_owned(),
        });
    }
}
