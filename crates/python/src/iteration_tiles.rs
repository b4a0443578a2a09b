//! Tiles on chip that iterations of an `affine_range` overwrite. Inside the loop that is no mistake, since
//! each iteration has room of its own; but what is read behind the loop is what the last one left, and which
//! is the last the kernel says does not matter. Iterations that leave the same values, and sums that all add
//! to, stay silent.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_neuron_exec::Tile;
use tilewright_neuron_isa::{Instruction, MemorySpace, TensorRegion, TensorView};
use tilewright_neuron_sim::findings::NeuronFinding;

use crate::loops::{LoopNest, RunningLoop, carrying, updates};
use crate::session::Session;

/// Writes of one tensor that are looked through before another is made: the newest.
const MAX_WRITES: usize = 64;

/// A write in loops, one of which is independent.
struct TileWrite {
    region: TensorRegion,
    view: TensorView,
    at: usize,
    nest: LoopNest,
}

/// What an iteration left in a tile that another has overwritten.
pub(crate) struct LeftValue {
    program: u32,
    tile: Tile,
    region: TensorRegion,
    bytes: Vec<u8>,
    earlier: usize,
    later: usize,
    carrier: RunningLoop,
    from: u64,
    /// The loop is over, and its last iteration left other values.
    differs: bool,
}

/// Writes to tiles in independent loops, and the first values of those that are overwritten.
#[derive(Default)]
pub(crate) struct IterationTiles {
    writes: BTreeMap<(u32, u32), Vec<TileWrite>>,
    left: Vec<LeftValue>,
    /// Tensors that hold a reduction over loops so far (`nl.loop_reduce`), of each program.
    reductions: BTreeSet<(u32, u32)>,
}

impl IterationTiles {
    /// Forgets writes of a program whose loops are over.
    pub(crate) fn forget(&mut self, program: u32) {
        self.writes.retain(|key, _| key.0 != program);
        self.reductions.retain(|key| key.0 != program);
    }

    /// A tensor holds what a reduction over loops has so far: it is whole behind them.
    pub(crate) fn add_reduction(&mut self, program: u32, storage: u32) {
        self.reductions.insert((program, storage));
    }

    /// Whether an instruction adds to a region, or puts there what a reduction has so far.
    fn adds(&self, instruction: &Instruction, region: &TensorRegion, from: Option<u32>) -> bool {
        let reduction = |storage: u32| self.reductions.contains(&(instruction.program, storage));
        updates(instruction, region)
            || reduction(region.storage)
            || from.is_some_and(reduction)
            || instruction.reads.iter().any(|read| reduction(read.storage))
    }

    /// A loop is over: what differs from what its last iteration left is kept.
    pub(crate) fn leave(&mut self, number: u32) {
        self.left.retain_mut(|one| {
            if one.carrier.number == number {
                one.differs = one.bytes != one.tile.packed(&one.tile.storage.lock());
                one.bytes = Vec::new();
            }
            one.carrier.number != number || one.differs
        });
    }

    /// What an instruction reads that iterations of a loop that is over left with different values.
    fn read(&mut self, instruction: &Instruction) -> Option<LeftValue> {
        let reads = |one: &LeftValue| {
            one.differs
                && one.program == instruction.program
                && instruction.reads.iter().any(|region| region.surely_overlaps(&one.region))
        };
        self.left.iter().position(reads).map(|at| self.left.remove(at))
    }
}

impl Session {
    /// What an earlier iteration left where a tile is written now, the first time in a loop.
    pub(crate) fn before_tile_write(&self, to: &Tile) -> Option<LeftValue> {
        if self.loops.running.is_empty() || !self.values || to.storage.memory != MemorySpace::Sbuf {
            return None;
        }
        let program = self.current_program;
        let known = self.iteration_tiles.writes.get(&(program, to.storage.id))?;
        let nest = self.loops.running.get(&program)?;
        let region = TensorRegion::of(to)?;
        for write in known.iter().rev().filter(|write| region.surely_overlaps(&write.region)) {
            let Some((carrier, from)) = carrying(&write.nest, nest).filter(|(carrier, _)| carrier.affine)
            else {
                continue;
            };
            let known =
                |one: &LeftValue| one.carrier.number == carrier.number && one.region.overlaps(&write.region);
            if self.iteration_tiles.left.iter().any(known) {
                continue;
            }
            let tile = Tile { storage: to.storage.clone(), view: write.view.clone() };
            let bytes = tile.packed(&tile.storage.lock());
            let (earlier, region) = (write.at, write.region);
            return Some(LeftValue {
                program,
                tile,
                region,
                bytes,
                earlier,
                later: 0,
                carrier,
                from,
                differs: false,
            });
        }
        None
    }

    /// Notes that the instruction `at` has written a tile, maybe by way of the tensor `from`.
    pub(crate) fn after_tile_write(
        &mut self,
        to: &Tile,
        at: usize,
        from: Option<u32>,
        left: Option<LeftValue>,
    ) {
        if let (false, Some(region)) = (self.iteration_tiles.left.is_empty(), TensorRegion::of(to)) {
            let hides = |one: &LeftValue| one.differs && !region.sparse && region.covers(&one.region);
            self.iteration_tiles.left.retain(|one| !hides(one));
        }
        if self.loops.running.is_empty() || !self.values || to.storage.memory != MemorySpace::Sbuf {
            return;
        }
        let program = self.current_program;
        let Some(nest) = self.loops.running.get(&program).filter(|nest| nest.iter().any(|one| one.affine))
        else {
            return;
        };
        let (Some(region), Some(instruction)) = (TensorRegion::of(to), self.program.instructions.get(at))
        else {
            return;
        };
        let tiles = &mut self.iteration_tiles;
        let adds = tiles.adds(instruction, &region, from);
        if adds {
            tiles.left.retain(|one| !one.region.overlaps(&region));
        } else if let Some(left) = left {
            tiles.left.push(LeftValue { later: at, ..left });
        }
        let writes = tiles.writes.entry((program, region.storage)).or_default();
        writes.retain(|one| region.sparse || !region.covers(&one.region));
        if !adds && to.view.gather.is_none() && writes.len() < MAX_WRITES {
            writes.push(TileWrite { region, view: to.view.clone(), at, nest: nest.clone() });
        }
    }

    /// Reports that an instruction reads what iterations of a loop that is over left with different values.
    pub(crate) fn read_behind_loops(&mut self, instruction: &Instruction) {
        if self.iteration_tiles.left.is_empty() {
            return;
        }
        let Some(left) = self.iteration_tiles.read(instruction) else { return };
        let program = &self.program;
        let line = |source: u32| program.source(source).to_owned();
        let named = |at: usize| {
            let one = program.instructions.get(at);
            one.map_or_else(String::new, |one| format!("{} at {}", one.opcode, line(one.source)))
        };
        let message = format!(
            "{} reads behind the affine_range at {} what {} wrote in iteration {} and {} in iteration {}, \
             with other values",
            instruction.opcode,
            line(left.carrier.source),
            named(left.earlier),
            left.from.saturating_sub(1),
            named(left.later),
            left.carrier.iteration.saturating_sub(1),
        );
        let source = line(instruction.source);
        self.reported.push(NeuronFinding {
            code: "neuron/loop-carried",
            error: true,
            source,
            message,
            allowed:
                "iterations of affine_range that do not depend on each other, but for sums that all add to"
                    .to_owned(),
            instead: "loop with nl.sequential_range, or give each iteration a tile of its own".to_owned(),
        });
    }
}
