//! What the compiler of the first dialect changes before a kernel runs. The vendor does not document it;
//! published times of unmodified kernels tell (docs/hardware-rules.md#order-and-synchronisation and
//! #what-is-assumed: loops are fused, invariants hoisted, engines chosen). All passes are fitted: each is
//! here because published times come nearer with it, so the errors of those rows are no evidence for it.
//!
//! - [`rename`]: a tile that is written as a whole again is a new one;
//! - [`common_subexpressions`]: what was computed before from the same operands is not computed again, copies
//!   that change nothing go;
//! - [`fuse`]: a tile and its own multiple become one operand, sums of an activation's results are taken on
//!   the way, a reciprocal and its product become a division;
//! - [`fp32_products`]: FP32 products take fewer passes;
//! - [`balance`]: what Vector and Scalar can both run, where the kernel names no engine, goes to the one with
//!   less work.
//!
//! Values never depend on it. Of kernels that place their tiles or keep their order only engines are chosen;
//! those of the second dialect run as written.

mod balance;
mod common_subexpressions;
mod fp32_products;
mod fuse;
mod rename;

use smallvec::SmallVec;
use tilewright_neuron_isa::program::{Instruction, InstructionCost};
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram, TensorRegion};

use crate::schedule::TileTable;

/// The program as the compiler leaves it; none if it changes nothing.
pub fn compiled(chip: &Chip, program: &NeuronProgram) -> Option<NeuronProgram> {
    if !program.compiled {
        return None;
    }
    let placed = program.allocations.iter().any(|allocation| !allocation.places.is_empty());
    if placed || program.in_order {
        let mut out = program.clone();
        fp32_products::run(chip, &mut out);
        balance::run(chip, &mut out);
        return Some(out);
    }
    let mut renamed = program.clone();
    rename::run(&mut renamed);
    let tiles = TileTable::of(chip, &renamed);
    let peak = tiles.peak_bytes(MemorySpace::Sbuf);
    let mut out = renamed.clone();
    common_subexpressions::run(&mut out, &tiles);
    // Results that are kept for later take room: not if that is what makes tiles spill.
    let kept = TileTable::of(chip, &out);
    let after = kept.peak_bytes(MemorySpace::Sbuf);
    let kept = if after > peak && after > chip.sbuf_usable_bytes() {
        out = renamed;
        tiles
    } else {
        kept
    };
    fuse::run(chip, &mut out, &kept);
    fp32_products::run(chip, &mut out);
    balance::run(chip, &mut out);
    Some(out)
}

/// An instruction whose work another one does.
fn merge(instruction: &mut Instruction) {
    instruction.cost = InstructionCost::default();
    instruction.reads.clear();
    instruction.writes.clear();
    instruction.table = None;
    instruction.merged = true;
}

/// True if a region is all of its tile.
fn is_whole(program: &NeuronProgram, region: &TensorRegion) -> bool {
    let allocation = program.allocations.get(region.storage as usize);
    allocation.is_some_and(|allocation| {
        region.rows == (0, u64::from(allocation.partitions))
            && region.bytes == (0, allocation.partition_bytes)
    })
}

/// Instructions that write and that read each tile.
struct TileUsers {
    writers: Vec<SmallVec<[u32; 2]>>,
    readers: Vec<SmallVec<[u32; 2]>>,
}

impl TileUsers {
    fn of(program: &NeuronProgram, tiles: &TileTable) -> TileUsers {
        let count = tiles.facts.len();
        let mut users =
            TileUsers { writers: vec![SmallVec::new(); count], readers: vec![SmallVec::new(); count] };
        for (at, instruction) in (0_u32..).zip(&program.instructions) {
            for region in &instruction.reads {
                if let Some(list) = users.readers.get_mut(tiles.number(region) as usize) {
                    list.push(at);
                }
            }
            for region in &instruction.writes {
                if let Some(list) = users.writers.get_mut(tiles.number(region) as usize) {
                    list.push(at);
                }
            }
        }
        users
    }

    /// The instructions that write a tile.
    fn writers(&self, tile: u32) -> &[u32] {
        self.writers.get(tile as usize).map_or(&[], |list| list)
    }

    /// The last instruction before `at` that writes a tile.
    fn last_writer(&self, tile: u32, at: u32) -> Option<u32> {
        let writers = self.writers(tile);
        let before = writers.partition_point(|&writer| writer < at);
        writers.get(before.checked_sub(1)?).copied()
    }

    /// The instructions that read a tile.
    fn readers(&self, tile: u32) -> &[u32] {
        self.readers.get(tile as usize).map_or(&[], |list| list)
    }
}
