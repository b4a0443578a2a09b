//! Products that are added to what another engine left in PSUM: undefined before NeuronCore-v4
//! (docs/hardware-rules.md#tensor-engine).

use std::collections::BTreeMap;

use tilewright_neuron_isa::program::{EngineKind, NeuronProgram, TensorRegion};
use tilewright_neuron_isa::{Chip, Generation, MemorySpace};

use crate::findings::NeuronFinding;

/// Who wrote a part of PSUM last.
struct PsumWrite {
    region: TensorRegion,
    engine: EngineKind,
}

/// One finding for each line that adds so.
pub(crate) fn findings(chip: &Chip, program: &NeuronProgram) -> Vec<NeuronFinding> {
    if chip.generation() >= Generation::V4 {
        return Vec::new();
    }
    let mut psum: BTreeMap<u32, Vec<PsumWrite>> = program
        .allocations
        .iter()
        .filter(|allocation| allocation.memory == MemorySpace::Psum)
        .map(|allocation| (allocation.storage, Vec::new()))
        .collect();
    let mut lines = BTreeMap::new();
    for instruction in &program.instructions {
        for region in &instruction.writes {
            let Some(written) = psum.get_mut(&region.storage) else { continue };
            let adds = instruction.engine == EngineKind::Tensor && instruction.reads.contains(region);
            let other = written.iter().rev().find(|earlier| earlier.region.overlaps(region));
            if let Some(other) = other.filter(|other| adds && other.engine != EngineKind::Tensor) {
                lines.entry((instruction.source, instruction.opcode)).or_insert(other.engine);
            }
            written.retain(|earlier| !region.covers(&earlier.region));
            written.push(PsumWrite { region: *region, engine: instruction.engine });
        }
    }
    lines
        .into_iter()
        .map(|((source, opcode), engine)| NeuronFinding {
            code: "neuron/accumulate",
            error: false,
            source: program.source(source).to_owned(),
            message: format!(
                "{opcode} adds to what the {} engine wrote to PSUM, which is undefined on {}",
                engine.name(),
                chip.name
            ),
            allowed: "products added to products of the same group".to_owned(),
            instead: "let the first product overwrite, and add the rest on the Vector engine".to_owned(),
        })
        .collect()
}
