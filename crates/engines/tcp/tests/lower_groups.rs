//! An axis split over PEs: every group runs the same commands on its own slices, and each part is right.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tilewright_base::{SourceId, Sources};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp::lower::{Options, lower};
use tilewright_tcp::program::event::PeId;
use tilewright_tcp::run::{State, exec};
use tilewright_tcp::verify::verify;
use tilewright_tcp::{Setup, check};

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

fn problem(text: &str) -> Problem {
    Problem::new(&parser::program(text, SourceId(0)).unwrap()).unwrap()
}

#[test]
fn every_group_computes_its_columns() {
    let machine = tcp();
    let problem = problem(
        "mk, kn_4 -> mn_4; dims m=4, k=64, n=64; in0 = | m[4] k[64]; in1 = | n[16] k[64]; out = | m[4] n[16]; \
         tactic = | m[4] n[16] k[64]",
    );
    let setup = Setup::new(&machine, 1, Dtype::I8).unwrap();
    let verdict = check(&setup, &problem);
    assert!(verdict.legal(), "{:?}", verdict.diagnostics);
    let program = lower(&setup, &problem, &verdict, &Options::default()).unwrap();
    assert_eq!(program.queues.iter().map(|queue| queue.pe).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(verify(&machine, &program), []);
    let mut state = State::new(&machine, 1);
    let element = |tensor: usize, at: usize| i32::try_from((tensor * 131 + at * 7) % 23).unwrap() - 11;
    for (number, tensor) in program.tensors.iter().enumerate().filter(|(number, _)| number % 3 != 2) {
        // The activations are the same for every group.
        let number = if number % 3 == 0 { 0 } else { number };
        let count: u64 = tensor.axes.iter().map(|(_, extent)| extent).product();
        let patterns: Vec<u32> = (0..count)
            .map(|at| (element(number, usize::try_from(at).unwrap()) & 0xFF).cast_unsigned())
            .collect();
        state.put(tensor, &patterns).unwrap();
    }
    for queue in &program.queues {
        for image in &program.execs {
            exec(&machine, &mut state, PeId { chip: 0, pe: queue.pe }, image).unwrap();
        }
    }
    for group in 0..4 {
        let out = state.get(&program.tensors[group * 3 + 2]).unwrap();
        for (at, sum) in out.iter().enumerate() {
            let (m, n) = (at / 16, at % 16);
            let plain: i32 =
                (0..64).map(|k| element(0, m * 64 + k) * element(group * 3 + 1, k * 16 + n)).sum();
            assert_eq!(sum.cast_signed(), plain, "group {group}, m {m}, n {n}");
        }
    }
}

#[test]
fn sums_over_groups_are_refused() {
    let machine = tcp();
    let problem = problem(
        "mk_2, k_2n -> mn; dims m=4, k=64, n=8; in0 = | m[4] k[32]; in1 = | n[8] k[32]; out = | m[4] n[8]; \
         tactic = | m[4] n[8] k[32]",
    );
    let setup = Setup::new(&machine, 1, Dtype::I8).unwrap();
    let verdict = check(&setup, &problem);
    assert!(verdict.legal(), "{:?}", verdict.diagnostics);
    let refused = lower(&setup, &problem, &verdict, &Options::default()).unwrap_err();
    assert_eq!(refused.message, "axis `k` is summed over 2 groups of PEs");
}
