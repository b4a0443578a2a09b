//! Random programs: they end, pass every check, and give the same twice; less work is never slower.

use proptest::prelude::*;
use tilewright_record::KeepLast;
use tilewright_tcp_isa::program::control::{Command, ControlExpr, ControlOperand, Step, StepKind};
use tilewright_tcp_isa::program::exec::{Context, Limit, Loop, Memory, SliceDigit};
use tilewright_tcp_isa::program::transfer::{Address, TransferLoop};
use tilewright_tcp_isa::program::vector::{InterSliceReduce, ReduceOp, ReduceOutput};
use tilewright_tcp_isa::program::{Count, Exec, Program, RegisterId, Transfer};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_sim::{Detail, NoObserver, RunEnd, SimError, SimOptions, checks, simulate};

use crate::timeline::build::{
    contraction, copy, custom, dma, program, push, queue, register, run, run_exec, short, starving, step,
    stream_of, try_run, vector, weights,
};
use crate::timeline::tcp;

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
        let (from, to) = (
            ControlExpr::Operand(ControlOperand::Number(0)),
            ControlExpr::Operand(ControlOperand::Number(times)),
        );
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

/// Sizes and strides that no machine has, among some that it does.
fn any_size() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![0, 1, 2, 8, 32, 63, 64, 128, 65_536, 1 << 31, 1 << 33, u64::MAX / 2, u64::MAX])
}

fn any_stride() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![0, 1, -1, 8, 64, 128, -4096, 1 << 22, 1 << 40, i64::MIN, i64::MAX])
}

fn any_loops() -> impl Strategy<Value = Vec<Loop>> {
    let row = (any_size(), any_stride()).prop_map(|(size, stride)| Loop { size: Count::Fixed(size), stride });
    prop::collection::vec(row, 0..5)
}

/// An image whose registers hold anything.
fn hostile() -> impl Strategy<Value = Exec> {
    let fetch = (any_loops(), any_size(), any_size(), any_size());
    let contract = prop::option::of((any_loops(), any_size(), any_size(), any_size()));
    let commit = (any_loops(), any_size(), any_size(), prop::option::of(any_size()));
    let between = prop::option::of(any_size());
    (fetch, contract, commit, between, any_size(), any::<bool>()).prop_map(
        |((rows, packet, base, extent), products, (writes, bytes, width, lanes), between, ring, sub)| {
            let mut exec = if between.is_some() { vector(Context::Main, 4) } else { contraction(16) };
            exec.context = if sub { Context::Sub } else { Context::Main };
            let stream = stream_of(&mut exec);
            let weights = vec![extent, 1, 7, u64::MAX];
            let slices = vec![SliceDigit { stride: 1, size: ring, weight: 3 }];
            stream.fetch.limits = vec![Limit { extent: Count::Fixed(extent), slices, weights }];
            (stream.fetch.loops, stream.fetch.packet, stream.fetch.base) = (rows, packet, base);
            stream.switch.topology = Topology::Broadcast1(Ring { slice1: ring, slice0: 2 });
            if let (Some(contract), Some((walk, flits, tree, lanes))) = (&mut stream.contract, products) {
                (contract.loops, contract.flits, contract.tree, contract.lanes) = (walk, flits, tree, lanes);
            }
            if let Some(vector) = &mut stream.vector {
                let (op, gives) = (ReduceOp::Add, ReduceOutput::Broadcast);
                vector.between = between.map(|slices| InterSliceReduce { op, slices, gives });
            }
            (stream.commit.loops, stream.commit.bytes, stream.commit.width) = (writes, bytes, width);
            stream.commit.memory = lanes.map_or(Memory::Dm, |lanes| Memory::Trf { lanes });
            exec
        },
    )
}

fn hostile_transfer() -> impl Strategy<Value = Transfer> {
    let row = (any_size(), any_stride(), any_stride());
    let row =
        row.prop_map(|(size, source, target)| TransferLoop { size: Count::Fixed(size), source, target });
    (any::<u64>(), any::<u64>(), prop::collection::vec(row, 0..10), any_size()).prop_map(
        |(source, target, loops, packet)| {
            // Most of the space is mapped to nothing: look where something may be.
            let address = |bits: u64| Address(bits & 0x0000_13FF_FFFF_FFFF);
            Transfer { source: address(source), target: address(target), loops, packet, ..weights(0, 64) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn images_of_any_registers_run_or_are_refused(exec in hostile(), transfer in hostile_transfer()) {
        let context = exec.context;
        for steps in [run_exec(0, context, 0).to_vec(), vec![dma(0, 0)]] {
            let all = program(vec![exec.clone()], vec![transfer.clone()], vec![queue(0, 0, steps)]);
            match try_run(&tcp(), &all) {
                Ok(outcome) => prop_assert!(outcome.execs + outcome.transfers == 1),
                Err(SimError::TooLong | SimError::NoMemory { .. }) => {}
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
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
        let options = SimOptions { detail: Detail::Totals, check: true, ..SimOptions::default() };
        let totals = simulate(&machine, &all, &options, KeepLast::new(0), &mut NoObserver).unwrap();
        prop_assert_eq!(&totals.ended, &RunEnd::Finished);
        prop_assert_eq!(&totals.violations, &vec![]);
        prop_assert_eq!((totals.cycles, totals.counts, totals.energy_fj),
            (full.cycles, full.counts, full.energy_fj));
        prop_assert_eq!(totals.utilisation, full.utilisation);
    }

    /// But for what commands that share banks gain by meeting later: a hundredth at most.
    #[test]
    fn a_longer_command_never_makes_a_lone_core_faster(steps in steps()) {
        let machine = tcp();
        let of = |flits| {
            let mut all = program(vec![copy(flits); 7], vec![weights(0, 256); 3],
                vec![queue(0, 0, steps.clone())]);
            all.registers = vec![register("i", 0, 100)];
            all.execs[4..].iter_mut().for_each(|exec| exec.context = Context::Sub);
            run(&machine, &all).cycles
        };
        let (short, long) = (of(10), of(11));
        prop_assert!(short <= long + long / 100, "{short} {long}");
    }
}
