//! Any program that was verified is scheduled to its end: every instruction runs, and what it waits for has
//! run before.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tilewright_neuron_isa::program::{Allocation, DmaShape};
use tilewright_neuron_isa::verify::verify;
use tilewright_neuron_isa::{
    EngineKind, Instruction, InstructionCost, MemorySpace, NeuronProgram, TensorRegion,
};
use tilewright_neuron_sim::ScheduledProgram;
use tilewright_neuron_sim::analysis::critical_path::{critical_path, idle_times};
use tilewright_neuron_sim::analysis::summary::summary;
use tilewright_neuron_sim::findings::findings;
use tilewright_neuron_sim::trace::perfetto_bytes;

use crate::chips::chip;

/// Partitions and bytes of a partition of every tensor.
const SHAPE: (u32, u64) = (8, 4096);

fn any_region(tensors: u32) -> impl Strategy<Value = TensorRegion> {
    (0..tensors, 0..8_u64, 1..=8_u64, 0..4096_u64, 1..=4096_u64, any::<bool>()).prop_map(
        |(storage, row, rows, byte, bytes, flat)| {
            let bytes = (byte, (byte + bytes).min(4096));
            if flat {
                return TensorRegion { storage, tile: 0, pitch_bytes: 0, rows: (0, 1), bytes, sparse: false };
            }
            TensorRegion {
                storage,
                tile: 0,
                pitch_bytes: 4096,
                rows: (row, (row + rows).min(8)),
                bytes,
                sparse: false,
            }
        },
    )
}

fn any_instruction(tensors: u32) -> impl Strategy<Value = Instruction> {
    let engine = select(EngineKind::ALL.to_vec());
    let touched = (vec(any_region(tensors), 0..3), vec(any_region(tensors), 0..2));
    let numbers = (0..1_000_000_u64, 0..1_000_000_u64, 0..2_u32, 0..3_u32, any::<bool>(), any::<u64>());
    (engine, touched, numbers).prop_map(|(engine, (reads, writes), numbers)| {
        let (busy_ps, latency_ps, program, source, stores, digest) = numbers;
        let transfer = engine == EngineKind::Dma;
        let moved = if transfer { busy_ps } else { 0 };
        let dma = DmaShape { engines: 4, data_ps: busy_ps, bytes: moved, descriptors: 8, software: false };
        Instruction {
            reads: reads.into(),
            writes: writes.into(),
            hbm_read_bytes: if stores { 0 } else { moved },
            hbm_written_bytes: if stores { moved } else { 0 },
            dma: transfer.then_some(dma),
            digest: digest % 3,
            source,
            program,
            ..Instruction::untouched("tensor_copy", engine, InstructionCost { busy_ps, latency_ps })
        }
    })
}

fn any_program() -> impl Strategy<Value = NeuronProgram> {
    let memories = vec(
        select(vec![MemorySpace::Sbuf, MemorySpace::Psum, MemorySpace::Hbm, MemorySpace::SharedHbm]),
        1..5,
    );
    memories.prop_flat_map(|memories| {
        let tensors = u32::try_from(memories.len()).unwrap_or(u32::MAX);
        let instructions = vec((any_instruction(tensors), 0..4_u32), 0..24);
        (Just(memories), instructions, 0..3_u32, any::<bool>(), any::<bool>()).prop_map(
            |(memories, instructions, cores, in_order, compiled)| {
                let mut barriers = 0;
                let instructions = instructions.into_iter().map(|(mut one, step)| {
                    barriers += u32::from(step == 0);
                    one.barrier = barriers;
                    one
                });
                let allocations = memories.into_iter().zip(0..).map(|(memory, storage)| Allocation {
                    storage,
                    memory,
                    partition_bytes: SHAPE.1,
                    tiles: 1,
                    name: String::new(),
                    source: 0,
                    places: Vec::new(),
                    partitions: SHAPE.0,
                    made_at: 0,
                });
                NeuronProgram {
                    instructions: instructions.collect(),
                    allocations: allocations.collect(),
                    sources: ["a:1", "b:2", "c:3"].map(String::from).to_vec(),
                    cores,
                    in_order,
                    compiled,
                }
            },
        )
    })
}

proptest! {
    #[test]
    fn every_verified_program_runs_to_its_end(program in any_program()) {
        let chip = chip("trainium2");
        let faults = verify(&chip, &program);
        prop_assert!(faults.is_empty(), "{faults:?}");
        let run = ScheduledProgram::of(&chip, &program);
        let ran = run.program(&program);
        prop_assert_eq!(run.timeline.spans.len(), program.instructions.len());
        for (one, span) in ran.instructions.iter().zip(&run.timeline.spans) {
            prop_assert!(one.merged || span.end_ps.saturating_sub(span.start_ps) >= one.cost.busy_ps.min(1),
                "{one:?}");
        }
        let figures = summary(&chip, ran, &run.timeline);
        prop_assert!(figures.time_ps >= ran.instructions.iter().map(|one| one.cost.busy_ps).max()
            .unwrap_or(0));
        let path: u64 = critical_path(ran, &run.timeline).iter().map(|share| share.time_ps).sum();
        prop_assert!(path <= figures.time_ps);
        idle_times(ran, &run.timeline);
        findings(&chip, &program);
        prop_assert!(perfetto_bytes(&chip, ran, &run.timeline).is_ok());
    }
}
