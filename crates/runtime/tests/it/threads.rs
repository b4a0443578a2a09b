//! Eight PEs at work at once: every reading is the same whatever number of host threads computes it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tilewright_base::SourceId;
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_record::KeepAll;
use tilewright_runtime::readings::{Reading, ReadingOptions, read};
use tilewright_tcp_cost::{Setup, check};
use tilewright_tcp_isa::program::tensor::{TensorData, TensorPlace};
use tilewright_tcp_isa::program::{Program, Queue};
use tilewright_tcp_lower::{LowerOptions, lower};
use tilewright_testkit::tcp;

const PES: u64 = 8;

/// A contraction in floats, whose sums depend on their order, on every PE of a chip with other numbers.
fn program(machine: &Tcp) -> Program {
    let text = "HQD, HKD -> HQK\n\
                dims H=4, Q=64, K=64, D=128\n\
                in0 = @dm H^1[4] Q^{4}[16] | Q^1[4] D^1[128]\n\
                in1 = @trf H^1[4] K^{4}[16] | K^1[4] D^1[128]\n\
                out = H^1[4] K^{4}[16] | Q^1[64] K^1[4]\n\
                tactic = H^1[4] K^{4}[16] | Q^1[64] K^1[4] D^1[128]";
    let parsed = parser::program(text, SourceId(0)).unwrap();
    let problem = Problem::new(&parsed).unwrap();
    let setup = Setup::new(machine, 1, Dtype::Bf16).unwrap();
    let verdict = check(&setup, &problem);
    assert!(verdict.legal(), "{:?}", verdict.diagnostics);
    let one = lower(&setup, &problem, &verdict, &LowerOptions::default()).unwrap();
    let mut all = Program { tensors: Vec::new(), queues: Vec::new(), ..one.clone() };
    for pe in 0..PES {
        for (number, tensor) in (0..).zip(&one.tensors) {
            let mut tensor = tensor.clone();
            tensor.name = format!("{}{pe}", tensor.name);
            if let TensorData::Random(seed) = &mut tensor.data {
                *seed = 16 * pe + number;
            }
            if let TensorPlace::Dm { slice, .. } = &mut tensor.place {
                *slice += pe * machine.pe.slices;
            }
            all.tensors.push(tensor);
        }
        all.queues.extend(one.queues.iter().map(|queue| Queue { pe, ..queue.clone() }));
    }
    all
}

fn with_threads(threads: usize) -> Reading {
    let machine = tcp();
    let program = program(&machine);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let wanted = ReadingOptions { values: true, findings: true, trace: true, ..ReadingOptions::default() };
    pool.install(|| {
        read(&machine, &program, &mut |_| unreachable!("no files"), &wanted, KeepAll::default()).unwrap()
    })
}

#[test]
fn one_thread_and_several_give_the_same() {
    let one = with_threads(1);
    assert_eq!(one.outputs.len(), 8);
    assert_eq!((one.outcome.violations.len(), one.findings.len()), (0, 0), "{:?}", one.findings);
    assert!(one.outputs.iter().all(|(_, array)| array.patterns.iter().any(|word| *word != 0)));
    assert_ne!(one.outputs[0].1, one.outputs[7].1, "every PE has numbers of its own");
    for threads in [2, 5] {
        let other = with_threads(threads);
        assert_eq!(one.outputs, other.outputs);
        assert_eq!(one.outcome.record, other.outcome.record);
        assert_eq!(one.outcome.energy_fj, other.outcome.energy_fj);
    }
}
