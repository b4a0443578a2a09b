//! Cycles of a head group against the sums of the paper and the cost model: L^2 / 64 for the contraction and
//! for each pass.

use tilewright_tcp_cost::cycles::image::exec_cycles;
use tilewright_tcp_cost::cycles::{CommandCycles, PipelineStage};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_lower::kernels::{AttentionHeads, attention};

use crate::kernels::{run, tcp};

fn program(length: u64) -> Program {
    attention(tcp(), &AttentionHeads { length, ..AttentionHeads::default() }).unwrap()
}

fn cycles(program: &Program, name: &str) -> CommandCycles {
    let exec = program.execs.iter().find(|exec| exec.name == name).unwrap();
    exec_cycles(tcp(), exec)
}

#[test]
fn scores_use_the_whole_engine() {
    let program = program(256);
    let command = cycles(&program, "multiply");
    for stage in [PipelineStage::Contraction, PipelineStage::Switch, PipelineStage::Vector] {
        assert_eq!(command.stage_cycles(stage), 1024, "{stage:?}");
    }
    assert_eq!(command.overhead_cycles, 264);
    // The ring fills in 32 cycles; the rest is depth of tree and chain, and the first group of sums.
    let fill = command.total_cycles - 264 - 1024;
    assert!((32..=64).contains(&fill), "{fill}");
    let macs = 4 * 256 * 256 * 128;
    let peak = 64 * 512 * command.stage_cycles(PipelineStage::Contraction);
    assert_eq!(macs, peak, "every multiplier in every cycle");
}

#[test]
fn a_pass_takes_a_cycle_for_four_scores() {
    for length in [128, 256, 512, 1024] {
        let program = program(length);
        // With one round of lanes over the keys of a slice, queries come too slowly for the scores.
        let scores = (length > 128).then_some("multiply");
        for name in ["row_max", "row_sum", "normalise"].into_iter().chain(scores) {
            let command = cycles(&program, name);
            assert_eq!(
                command.stage_cycles(PipelineStage::Vector),
                length * length / 64,
                "{name} at {length}"
            );
            let beyond = command.total_cycles - 264 - length * length / 64;
            // Ring, depth of engines, and the first group of sums, which grows with the keys of a slice.
            assert!(beyond <= 32 + length / 8, "{name} at {length}: {beyond} cycles of fill");
        }
    }
}

#[test]
fn values_wait_for_the_tree_until_packets_are_full() {
    for (length, share) in [(256, 4), (512, 2), (1024, 1)] {
        let command = cycles(&program(length), "combine");
        // The tree has 64 places and a slice length / 16 keys.
        let full = length * length / 64;
        assert_eq!(command.stage_cycles(PipelineStage::Contraction), full * share, "at {length}");
        assert_eq!(command.stage_cycles(PipelineStage::Vector), length * 16, "integers: a flit a cycle");
        assert_eq!(command.binding, PipelineStage::Contraction);
    }
}

#[test]
fn products_are_counted_once_each() {
    let reading = run(&program(256));
    let products = 2 * 4 * 256 * 256 * 128;
    let named = reading.outcome.counts.named();
    let count = |wanted: &str| named.iter().find(|(name, _)| *name == wanted).unwrap().1;
    assert_eq!(count("macs_useful"), products);
    // Scores fill the engine, values a quarter of it.
    assert_eq!(count("contraction_cycles"), 64 * (1024 + 4096));
}
