//! Faults that are put into recorded programs: an instruction or a tensor dropped, a place shifted. Each is
//! refused, or found, or leaves nothing that an instruction reads; none is timed as if nothing were wrong.

use tilewright_base::SourceId;
use tilewright_neuron_isa::text::read;
use tilewright_neuron_isa::verify::verify;
use tilewright_neuron_isa::{Chip, NeuronProgram};
use tilewright_neuron_sim::findings::findings_of_text;

use crate::chips::chip;

const PROGRAMS: [&str; 4] = [
    include_str!("../../../../../tests/neuron/add.neuron"),
    include_str!("../../../../../tests/neuron/matmul.neuron"),
    include_str!("../../../../../tests/neuron/matmul-accumulate.neuron"),
    include_str!("../../../../../tests/neuron/cores.neuron"),
];

/// Programs, each with its chip.
fn programs() -> Vec<(Chip, NeuronProgram)> {
    let programs = PROGRAMS.map(|text| {
        let read = read(text, SourceId(0)).expect("a program");
        (chip(&read.machine), read.program)
    });
    programs.into()
}

/// Refused, or found by more than the program has without a fault.
fn is_seen(chip: &Chip, whole: &NeuronProgram, faulty: &NeuronProgram) -> bool {
    assert!(verify(chip, whole).is_empty());
    let known = findings_of_text(chip, whole);
    !verify(chip, faulty).is_empty()
        || findings_of_text(chip, faulty)
            .iter()
            .any(|finding| known.iter().all(|one| one.code != finding.code))
}

/// Whether an instruction alone writes a tensor on the chip that others read behind it.
fn is_missed(program: &NeuronProgram, at: usize) -> bool {
    let on_chip =
        |storage: u32| program.allocations.iter().any(|of| of.storage == storage && of.memory.on_chip());
    let others = |storage: u32| {
        let before = program.instructions[..at].iter();
        before.flat_map(|one| &one.writes).any(|write| write.storage == storage)
    };
    let read = |storage: u32| {
        let behind = program.instructions[at + 1..].iter();
        let mut behind = behind.take_while(|one| one.writes.iter().all(|write| write.storage != storage));
        behind.any(|one| one.reads.iter().any(|read| read.storage == storage))
    };
    let writes = program.instructions[at].writes.iter().map(|write| write.storage);
    writes.into_iter().any(|storage| on_chip(storage) && !others(storage) && read(storage))
}

#[test]
fn an_instruction_whose_result_is_read_cannot_be_dropped_unseen() {
    let mut dropped = 0;
    for (chip, whole) in programs() {
        for at in (0..whole.instructions.len()).filter(|at| is_missed(&whole, *at)) {
            let mut faulty = whole.clone();
            faulty.instructions.remove(at);
            for allocation in &mut faulty.allocations {
                allocation.made_at -= usize::from(allocation.made_at > at);
            }
            assert!(is_seen(&chip, &whole, &faulty), "instruction {at} of {:?}", whole.sources.first());
            dropped += 1;
        }
    }
    assert!(dropped >= 6, "{dropped} instructions");
}

#[test]
fn a_tensor_that_is_used_cannot_be_dropped_unseen() {
    for (chip, whole) in programs() {
        for at in 0..whole.allocations.len() {
            let storage = whole.allocations[at].storage;
            let regions = whole.instructions.iter().flat_map(|one| one.reads.iter().chain(&one.writes));
            if regions.into_iter().all(|region| region.storage != storage) {
                continue;
            }
            let mut faulty = whole.clone();
            faulty.allocations.remove(at);
            assert!(is_seen(&chip, &whole, &faulty), "tensor {at} of {:?}", whole.sources.first());
        }
    }
}

#[test]
fn a_place_beyond_its_tensor_is_refused() {
    for (chip, whole) in programs() {
        for at in 0..whole.instructions.len() {
            for put in [0, 1] {
                let mut faulty = whole.clone();
                let one = &mut faulty.instructions[at];
                let regions = one.reads.iter_mut().chain(&mut one.writes);
                for region in regions {
                    let length = region.bytes.1 - region.bytes.0;
                    let rows = region.rows.1 - region.rows.0;
                    if put == 0 {
                        region.bytes = (region.bytes.1, region.bytes.1 + length);
                    } else {
                        region.rows = (region.rows.1, region.rows.1 + rows);
                    }
                }
                let touches = !one.reads.is_empty() || !one.writes.is_empty();
                assert!(!touches || is_seen(&chip, &whole, &faulty), "instruction {at}, {put}");
            }
        }
    }
}
