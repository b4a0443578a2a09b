//! Costs of instructions against the closed forms of the vendor's instruction pages, and the order of a
//! schedule.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use crate::chips;

use std::sync::Arc;

use chips::chip;

use tilewright_neuron_exec::engine::{dma, tensor, vector};
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::chip::cycles_ps;
use tilewright_neuron_isa::program::Allocation;
use tilewright_neuron_isa::{EngineKind, Instruction, MemorySpace, NeuronProgram, TensorDecl, TensorView};
use tilewright_neuron_sim::schedule::schedule;
use tilewright_num::Dtype;

fn tile(id: u32, memory: MemorySpace, dtype: Dtype, shape: &[usize]) -> Tile {
    let request =
        TensorDecl { id, memory, dtype, shape: shape.to_vec(), blocks: 0, name: String::new(), source: 0 };
    let view = TensorView::whole(shape, dtype, 0);
    Tile { storage: Arc::new(Storage::poisoned(request).unwrap()), view }
}

#[test]
fn a_matmul_takes_its_moving_rows_and_four_times_as_long_in_fp32() {
    let chip = chip("trainium1");
    for (dtype, m, n, cycles) in [
        (Dtype::Bf16, 128, 512, 512),
        (Dtype::Bf16, 128, 1, 64),
        (Dtype::Bf16, 16, 8, 16),
        (Dtype::F32, 128, 512, 2048),
    ] {
        let (a, b) =
            (tile(0, MemorySpace::Sbuf, dtype, &[128, m]), tile(1, MemorySpace::Sbuf, dtype, &[128, n]));
        let sums = tile(2, MemorySpace::Psum, Dtype::F32, &[m, n]);
        let done = tensor::nc_matmul(&chip, &sums, &a, &b, Default::default()).unwrap();
        assert_eq!(done.cost.busy_ps, cycles_ps(cycles, 2_800_000_000), "{dtype} {m} {n}");
        assert_eq!(done.macs, 128 * m as u64 * n as u64);
    }
}

#[test]
fn two_inputs_in_sbuf_take_two_passes_and_one_in_psum_takes_one() {
    let chip = chip("trainium1");
    let fixed = chip.neuron.vector.fixed_cycles;
    let out = tile(2, MemorySpace::Sbuf, Dtype::F32, &[128, 512]);
    let sbuf = tile(0, MemorySpace::Sbuf, Dtype::F32, &[128, 512]);
    let psum = tile(1, MemorySpace::Psum, Dtype::F32, &[128, 512]);
    for (other, cycles) in [(&sbuf, 1024), (&psum, 512)] {
        let done = vector::tensor_tensor(&chip, &out, &sbuf, other, AluOp::Add, None).unwrap();
        assert_eq!(done.cost.busy_ps, cycles_ps(cycles + fixed, 1_120_000_000));
    }
}

#[test]
fn sixteen_bit_copies_are_four_times_as_fast_on_the_third_generation() {
    for (name, hz, cycles) in [("trainium1", 1_120_000_000, 2048), ("trainium2", 960_000_000, 512)] {
        let chip = chip(name);
        let (a, b) = (
            tile(0, MemorySpace::Sbuf, Dtype::Bf16, &[128, 2048]),
            tile(1, MemorySpace::Sbuf, Dtype::Bf16, &[128, 2048]),
        );
        let done = vector::tensor_copy(&chip, &b, &a, None).unwrap();
        assert_eq!(done.cost.busy_ps, cycles_ps(cycles + chip.neuron.vector.fixed_cycles, hz));
    }
}

#[test]
fn a_load_spreads_over_engines_of_four_partitions_or_more_and_counts_its_bytes() {
    let chip = chip("trainium2");
    for (partitions, engines) in [(128, 16), (64, 16), (9, 3), (5, 2), (4, 1)] {
        let hbm = tile(0, MemorySpace::Hbm, Dtype::Bf16, &[partitions, 4096]);
        let sbuf = tile(1, MemorySpace::Sbuf, Dtype::Bf16, &[partitions, 4096]);
        let done = dma::dma_copy(&chip, &sbuf, &hbm, None).unwrap();
        let shape = done.dma.unwrap();
        assert_eq!((shape.engines, shape.bytes), (engines, partitions as u64 * 8192));
        assert_eq!((done.hbm_read_bytes, done.hbm_written_bytes), (shape.bytes, 0));
        assert_eq!(shape.descriptors, partitions as u64);
    }
}

fn allocations(tiles: &[&Tile]) -> Vec<Allocation> {
    tiles.iter().map(|tile| chips::allocation(tile)).collect()
}

#[test]
fn results_are_waited_for_and_engines_run_in_order() {
    let chip = chip("trainium1");
    let hbm = tile(0, MemorySpace::Hbm, Dtype::F32, &[128, 512]);
    let (a, b) = (
        tile(1, MemorySpace::Sbuf, Dtype::F32, &[128, 512]),
        tile(2, MemorySpace::Sbuf, Dtype::F32, &[128, 512]),
    );
    let instructions: Vec<Instruction> = vec![
        dma::dma_copy(&chip, &a, &hbm, None).unwrap(),
        vector::tensor_copy(&chip, &b, &a, None).unwrap(),
        vector::memset(&chip, &a, 0.0, None).unwrap(),
        dma::dma_copy(&chip, &hbm, &b, None).unwrap(),
    ];
    let program =
        NeuronProgram { instructions, allocations: allocations(&[&hbm, &a, &b]), ..NeuronProgram::default() };
    let timeline = schedule(&chip, &program);
    let spans = &timeline.spans;
    assert!(spans[1].start_ps >= spans[0].done_ps, "a copy waits for the load it reads");
    assert!(spans[2].start_ps >= spans[1].end_ps, "an engine runs one instruction after the other");
    assert!(spans[3].start_ps >= spans[1].done_ps, "a store waits for the copy");
    assert_eq!(timeline.total_ps, spans[3].done_ps);
    let busy = timeline.busy_ps[EngineKind::Vector as usize];
    assert_eq!(busy, spans[1].end_ps - spans[1].start_ps + spans[2].end_ps - spans[2].start_ps);
}

#[test]
fn loads_run_ahead_only_as_far_as_memory_reaches() {
    let chip = chip("trainium1");
    let row = usize::try_from(chip.sbuf_usable_bytes() / 4 / 2).unwrap();
    let hbm = tile(0, MemorySpace::Hbm, Dtype::F32, &[128, row]);
    let out = tile(1, MemorySpace::Hbm, Dtype::F32, &[128, row]);
    let tiles: Vec<Tile> = (2..6).map(|id| tile(id, MemorySpace::Sbuf, Dtype::F32, &[128, row])).collect();
    let mut instructions = Vec::new();
    for tile in &tiles {
        instructions.push(dma::dma_copy(&chip, tile, &hbm, None).unwrap());
        instructions.push(dma::dma_copy(&chip, &out, tile, None).unwrap());
    }
    let mut all = vec![&hbm, &out];
    all.extend(&tiles);
    let program = NeuronProgram { instructions, allocations: allocations(&all), ..NeuronProgram::default() };
    let spans = schedule(&chip, &program).spans;
    assert!(spans[2].start_ps < spans[1].done_ps, "two tiles fit: the second load runs ahead");
    assert!(spans[4].start_ps >= spans[1].done_ps, "the third tile waits for the first to leave");
}
