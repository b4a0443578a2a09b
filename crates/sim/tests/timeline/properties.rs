//! Random programs: they end, pass every check, and give the same twice; less work is never slower.

use proptest::prelude::*;
use tilewright_record::KeepLast;
use tilewright_sim::{Detail, Ended, NoJudge, Options, checks, simulate};
use tilewright_tcp::cost::Context;
use tilewright_tcp::program::control::{Command, Step, StepKind, Term, Value};
use tilewright_tcp::program::{Program, RegisterId};

use crate::build::{
    contraction, copy, custom, dma, program, push, queue, register, run, run_exec, short, starving, step,
    vector, weights,
};
use crate::tcp;

fn simple() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        (0..7_u32, any::<bool>(), 0..4_u8).prop_map(|(exec, sub, id)| {
            let exec = if sub { [4, 5, 6][(exec % 3) as usize] } else { exec % 4 };
            let context = if sub { Context::Sub } else { Context::Main };
            run_exec(exec, context, id).to_vec()
        }),
        (0..3_u32, 0..4_u8).prop_map(|(transfer, id)| vec![dma(transfer, id)]),
        (0..4_u8).prop_map(|id| vec![push(Command::WaitD(id))]),
        (0..4_u8).prop_map(|id| vec![push(Command::WaitE(id))]),
        Just(vec![step(StepKind::Sync)]),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flat = || prop::collection::vec(simple(), 0..12).prop_map(|parts| parts.concat());
    (flat(), 0..20_i64, flat()).prop_map(|(before, times, body)| {
        let (from, to) = (Value::Just(Term::Number(0)), Value::Just(Term::Number(times)));
        let mut steps = before;
        steps.push(step(StepKind::For { register: RegisterId(0), from, to, body }));
        steps
    })
}

fn programs() -> impl Strategy<Value = Program> {
    prop::collection::vec(steps(), 1..8).prop_map(|cores| {
        let execs = vec![
            contraction(64),
            vector(Context::Main, 30),
            custom(10),
            starving(100),
            short(512, 0),
            short(512, 4096),
            vector(Context::Sub, 20),
        ];
        let transfers = vec![weights(0, 256), weights(3, 4096), weights(7, 64)];
        let queues = cores.into_iter().zip(0..).map(|(steps, pe)| queue(0, pe, steps)).collect();
        Program { registers: vec![register("i", 0, 100)], ..program(execs, transfers, queues) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn programs_end_pass_every_check_and_give_the_same_twice(all in programs()) {
        let machine = tcp();
        let (one, other) = (run(&machine, &all), run(&machine, &all));
        prop_assert_eq!(checks::same(&one, &other), None);
    }

    #[test]
    fn what_is_recorded_changes_no_cycle(all in programs()) {
        let machine = tcp();
        let full = run(&machine, &all);
        let options = Options { detail: Detail::Totals, check: true, ..Options::default() };
        let totals = simulate(&machine, &all, &options, KeepLast::new(0), &mut NoJudge).unwrap();
        prop_assert_eq!(&totals.ended, &Ended::Finished);
        prop_assert_eq!(&totals.violations, &vec![]);
        prop_assert_eq!((totals.cycles, totals.counts, totals.energy_fj), (full.cycles, full.counts, full.energy_fj));
        prop_assert_eq!(totals.utilisation, full.utilisation);
    }

    #[test]
    fn a_longer_command_never_makes_a_lone_core_faster(steps in steps()) {
        let machine = tcp();
        let of = |flits| {
            let mut all = program(vec![copy(flits); 7], vec![weights(0, 256); 3], vec![queue(0, 0, steps.clone())]);
            all.registers = vec![register("i", 0, 100)];
            all.execs[4..].iter_mut().for_each(|exec| exec.context = Context::Sub);
            run(&machine, &all).cycles
        };
        prop_assert!(of(10) <= of(11));
    }
}
