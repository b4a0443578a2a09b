//! Common subexpressions: an instruction that computes from unchanged operands what an earlier one of the
//! same line did, as a loop does with what does not depend on it, is left out, and its readers read the
//! earlier result. A copy of a whole tile of SBUF without a change of type is left out too, if neither side
//! is written again.

use std::collections::BTreeMap;

use tilewright_neuron_isa::program::ComputeForm;
use tilewright_neuron_isa::program::Instruction;
use tilewright_neuron_isa::{EngineKind, MemorySpace, NeuronProgram, TensorRegion};

use super::{TileUsers, is_whole, merge};
use crate::schedule::TileTable;

/// An operand: its tile, how often that was written, and which bytes.
type OperandKey = (u32, u32, (u64, u64), (u64, u64));

/// What an instruction computes from which operands.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ExpressionKey {
    digest: u64,
    source: u32,
    program: u32,
    reads: Vec<OperandKey>,
}

pub(super) fn run(program: &mut NeuronProgram, tiles: &TileTable) {
    let users = TileUsers::of(program, tiles);
    let mut state = ExpressionTable {
        users: &users,
        tiles,
        versions: vec![0; tiles.facts.len()],
        available: BTreeMap::new(),
        replacements: BTreeMap::new(),
    };
    let mut instructions = std::mem::take(&mut program.instructions);
    for (at, instruction) in (0_u32..).zip(&mut instructions) {
        for region in &mut instruction.reads {
            if let Some(&(storage, tile)) = state.replacements.get(&tiles.number(region)) {
                (region.storage, region.tile) = (storage, tile);
            }
        }
        if !state.eliminate(program, at, instruction) {
            for region in &instruction.writes {
                if let Some(version) = state.versions.get_mut(tiles.number(region) as usize) {
                    *version += 1;
                }
            }
        }
    }
    program.instructions = instructions;
}

struct ExpressionTable<'a> {
    users: &'a TileUsers,
    tiles: &'a TileTable,
    /// How often each tile was written so far.
    versions: Vec<u32>,
    /// Results that can be read again: where they are.
    available: BTreeMap<ExpressionKey, TensorRegion>,
    /// The tensor and tile to read in place of a tile.
    replacements: BTreeMap<u32, (u32, u32)>,
}

impl ExpressionTable<'_> {
    fn eliminate(&mut self, program: &NeuronProgram, at: u32, instruction: &mut Instruction) -> bool {
        let [written] = instruction.writes[..] else { return false };
        if !self.is_only_result(program, at, &written) {
            return false;
        }
        if instruction.form == ComputeForm::Copy {
            return self.eliminate_copy(program, at, instruction, &written);
        }
        if instruction.digest == 0 {
            return false;
        }
        let reads = instruction.reads.iter().map(|region| {
            let tile = self.tiles.number(region);
            (tile, self.versions[tile as usize], region.rows, region.bytes)
        });
        let (digest, source) = (instruction.digest, instruction.source);
        let key = ExpressionKey { digest, source, program: instruction.program, reads: reads.collect() };
        if let Some(earlier) = self.available.get(&key) {
            self.replacements.insert(self.tiles.number(&written), (earlier.storage, earlier.tile));
            merge(instruction);
            return true;
        }
        self.available.insert(key, written);
        false
    }

    /// True for a whole tile of SBUF that nobody else writes.
    fn is_only_result(&self, program: &NeuronProgram, at: u32, written: &TensorRegion) -> bool {
        let tile = self.tiles.number(written);
        let facts = self.tiles.facts.get(tile as usize);
        facts.is_some_and(|facts| facts.memory == MemorySpace::Sbuf && facts.life.0 == at)
            && self.users.writers(tile) == [at]
            && is_whole(program, written)
    }

    fn eliminate_copy(
        &mut self,
        program: &NeuronProgram,
        at: u32,
        instruction: &mut Instruction,
        written: &TensorRegion,
    ) -> bool {
        let [read] = instruction.reads[..] else { return false };
        let source = self.tiles.number(&read);
        let in_sbuf =
            self.tiles.facts.get(source as usize).is_some_and(|facts| facts.memory == MemorySpace::Sbuf);
        let stays = self.users.writers(source).last().is_none_or(|&writer| writer < at);
        let same =
            is_whole(program, &read) && read.pitch_bytes == written.pitch_bytes && read.rows == written.rows;
        if instruction.engine == EngineKind::Dma || !in_sbuf || !stays || !same {
            return false;
        }
        self.replacements.insert(self.tiles.number(written), (read.storage, read.tile));
        merge(instruction);
        true
    }
}
