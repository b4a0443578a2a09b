//! Random programs on the engines, checked plainly: every pair of instructions that share bytes keeps its
//! order, engines run one instruction at a time, and memory is never over-full.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use crate::chips;

use std::sync::Arc;

use chips::chip;

use proptest::prelude::*;
use tilewright_neuron_exec::engine::{dma, vector};
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::{
    Chip, EngineKind, Instruction, MemorySpace, NeuronProgram, TensorDecl, TensorRegion, TensorView,
};
use tilewright_neuron_sim::analysis::{bound, critical_path, energy, utilisation};
use tilewright_neuron_sim::schedule::{Timeline, schedule};
use tilewright_num::Dtype;

/// A tensor of 128 partitions without values.
fn tensor(id: u32, memory: MemorySpace, columns: usize) -> Tile {
    let shape = vec![128, columns];
    let view = TensorView::whole(&shape, Dtype::F32, 0);
    let request =
        TensorDecl { id, memory, dtype: Dtype::F32, shape, blocks: 0, name: String::new(), source: 0 };
    Tile { storage: Arc::new(Storage::without_values(request).unwrap()), view }
}

/// One step of a random program: what, and on which tensors.
#[derive(Clone, Debug)]
struct Step {
    what: u8,
    a: usize,
    b: usize,
    c: usize,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step =
        (0..5_u8, 0..8_usize, 0..8_usize, 0..8_usize).prop_map(|(what, a, b, c)| Step { what, a, b, c });
    prop::collection::vec(step, 1..most)
}

/// Two tensors in HBM, then eight in SBUF.
fn program(chip: &Chip, steps: &[Step], columns: usize) -> NeuronProgram {
    let tensors: Vec<Tile> = (0..10)
        .map(|id| tensor(id, if id < 2 { MemorySpace::Hbm } else { MemorySpace::Sbuf }, columns))
        .collect();
    let (hbm, sbuf) = tensors.split_at(2);
    let mut instructions = Vec::new();
    for step in steps {
        let (a, b, c) = (&sbuf[step.a], &sbuf[step.b], &sbuf[step.c]);
        let done = match step.what {
            0 => dma::dma_copy(chip, a, &hbm[0], None),
            1 => dma::dma_copy(chip, &hbm[1], a, None),
            2 => vector::tensor_copy(chip, a, b, None),
            3 => vector::tensor_copy(chip, a, b, Some(EngineKind::Gpsimd)),
            _ => vector::tensor_tensor(chip, a, b, c, AluOp::Add, None),
        };
        instructions.push(done.unwrap());
    }
    let allocations = tensors.iter().map(chips::allocation).collect();
    NeuronProgram { instructions, allocations, sources: vec!["?".to_owned()], ..NeuronProgram::default() }
}

/// True if both touch a byte that one of them writes.
fn conflict(earlier: &Instruction, later: &Instruction) -> bool {
    let meet = |a: &[TensorRegion], b: &[TensorRegion]| a.iter().any(|x| b.iter().any(|y| x.overlaps(y)));
    meet(&earlier.writes, &later.reads)
        || meet(&earlier.reads, &later.writes)
        || meet(&earlier.writes, &later.writes)
}

/// A tile that comes back from HBM has another place, so that only reads of what was written keep their
/// order.
fn check_order(program: &NeuronProgram, timeline: &Timeline, renamed: bool) -> Result<(), TestCaseError> {
    for (j, later) in program.instructions.iter().enumerate() {
        for (i, earlier) in program.instructions[..j].iter().enumerate() {
            let (first, second) = (timeline.spans[i], timeline.spans[j]);
            if conflict(earlier, later) {
                let reads_result = earlier.writes.iter().any(|x| later.reads.iter().any(|y| x.overlaps(y)));
                // A tile that was loaded may be loaded again in place of being saved.
                if reads_result && !(renamed && earlier.hbm_read_bytes > 0) {
                    prop_assert!(second.start_ps >= first.done_ps, "{j} reads what {i} has not written");
                }
                prop_assert!(renamed || second.start_ps >= first.start_ps, "{i} and {j} change places");
                if earlier.engine != later.engine && !renamed {
                    prop_assert!(second.start_ps >= first.end_ps, "{j} starts while {i} uses its operands");
                }
            }
            if earlier.engine == later.engine && earlier.engine != EngineKind::Dma {
                let apart = first.end_ps <= second.start_ps || second.end_ps <= first.start_ps;
                prop_assert!(apart, "{i} and {j} overlap on one engine");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn instructions_that_share_bytes_keep_their_order(steps in steps(40), second in any::<bool>()) {
        let chip = chip(if second { "trainium2" } else { "trainium1" });
        let program = program(&chip, &steps, 64);
        let timeline = schedule(&chip, &program);
        check_order(&program, &timeline, false)?;
        let last = timeline.spans.iter().map(|span| span.done_ps).max().unwrap_or(0);
        prop_assert_eq!(timeline.total_ps, last);
        prop_assert_eq!(&schedule(&chip, &program).spans, &timeline.spans, "the same again");
        prop_assert!(timeline.spills.is_empty(), "everything fits");
    }

    #[test]
    fn spills_move_what_does_not_fit_and_keep_the_order(steps in steps(40)) {
        let chip = chip("trainium1");
        // Three tiles fit, with an eighth of SBUF kept free.
        let columns = usize::try_from(chip.sbuf_usable_bytes() / 4 / 4).unwrap();
        let program = program(&chip, &steps, columns);
        let timeline = schedule(&chip, &program);
        check_order(&program, &timeline, true)?;
        let (saved, reloaded) = timeline.spill_bytes();
        prop_assert!(saved % (columns as u64 * 4 * 128) == 0 && reloaded % (columns as u64 * 4 * 128) == 0);
        if timeline.sbuf_peak_bytes <= chip.sbuf_usable_bytes() {
            prop_assert!(timeline.spills.is_empty());
        }
    }

    #[test]
    fn readings_add_up(steps in steps(40)) {
        let chip = chip("trainium2");
        let program = program(&chip, &steps, 256);
        let timeline = schedule(&chip, &program);
        let on_path: u64 = critical_path::critical_path(&program, &timeline).iter().map(|share| share.time_ps)
            .sum();
        prop_assert!(on_path <= timeline.total_ps, "the path is not longer than the run");
        let idle_times = critical_path::idle_times(&program, &timeline);
        for engine in EngineKind::ALL {
            let waits: u64 = idle_times.iter().filter(|((of, _), _)| *of == engine)
                .map(|(_, time_ps)| time_ps).sum();
            let runs = program.instructions.iter().any(|one| one.engine == engine);
            let busy = timeline.busy_ps[engine as usize];
            prop_assert!(!runs || waits + busy == timeline.total_ps, "busy and idle are all of the time");
        }
        let parts = energy::energy(&chip, &program, &timeline);
        prop_assert!(parts.iter().all(|part| part.joules >= 0.0 && part.joules.is_finite()));
        let (engine, part) = bound(&program, &timeline);
        prop_assert!(part <= 1.0 && timeline.busy_ps.iter()
            .all(|&busy| busy <= timeline.busy_ps[engine as usize]));
        prop_assert!(utilisation(&chip, &program, &timeline).mbu <= 1.0);
    }
}

#[test]
fn a_column_in_pieces_of_four_bytes_is_a_finding() {
    let chip = chip("trainium1");
    let hbm = tensor(0, MemorySpace::Hbm, 128);
    let sbuf = tensor(1, MemorySpace::Sbuf, 128);
    let mut transposed = hbm.clone();
    transposed.view.dims.swap(0, 1);
    let rows = dma::dma_copy(&chip, &sbuf, &hbm, None).unwrap();
    let columns = dma::dma_copy(&chip, &sbuf, &transposed, None).unwrap();
    for (instruction, found) in [(rows, 0), (columns, 1)] {
        let program = NeuronProgram { instructions: vec![instruction], ..NeuronProgram::default() };
        assert_eq!(tilewright_neuron_sim::analysis::advice::slow_transfers(&chip, &program).len(), found);
    }
}
