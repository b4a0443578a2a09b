//! Random einsums with random shapes and tactics, lowered to command programs and run: whatever the check calls legal gives the
//! values of plain loops, in every type that the contraction engine multiplies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;
use tilewright_base::{Severity, SourceId, Sources};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, RuleSet, convert, int_pattern};
use tilewright_tcp::lower::{Options, lower};
use tilewright_tcp::program::Program;
use tilewright_tcp::program::event::PeId;
use tilewright_tcp::run::{State, exec};
use tilewright_tcp::verify::verify;
use tilewright_tcp::{Setup, check};

mod drawn;
use drawn::{Dice, program};

const TYPES: [Dtype; 7] =
    [Dtype::I8, Dtype::Bf16, Dtype::I4, Dtype::F8E4M3Fn, Dtype::F8E5M2, Dtype::I9, Dtype::I5];

/// Zero points of in0 and in1 where a type has them.
const ZERO_POINTS: [i64; 2] = [1, -2];

/// The paper's chip, read once.
fn machine() -> Tcp {
    static MACHINE: OnceLock<Tcp> = OnceLock::new();
    MACHINE.get_or_init(tcp).clone()
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

/// An element of a fixed tensor: small integers, so that no type rounds and no order shows.
fn element(seed: u64, at: &[u64]) -> i32 {
    let mut dice = Dice(at.iter().fold(seed, |hash, x| hash.wrapping_mul(31).wrapping_add(*x)));
    i32::try_from(dice.roll(15)).unwrap() - 7
}

#[expect(clippy::cast_precision_loss, reason = "small integers")]
fn pattern(dtype: Dtype, value: i32) -> u32 {
    if dtype.is_float() {
        convert(&RuleSet::TCP, Dtype::F32, dtype, (value as f32).to_bits()).unwrap()
    } else {
        int_pattern(dtype, i64::from(value))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "small integers")]
fn value(dtype: Dtype, pattern: u32) -> i32 {
    if dtype.is_float() { f32::from_bits(pattern) as i32 } else { pattern.cast_signed() }
}

fn positions(extents: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for extent in extents {
        all = all
            .iter()
            .flat_map(|at: &Vec<u64>| (0..*extent).map(|x| [at.as_slice(), &[x]].concat()))
            .collect();
    }
    all
}

/// Plain loops over every coordinate, in no machine's order.
fn plain(problem: &Problem, zero_points: [i64; 2]) -> BTreeMap<Vec<u64>, i32> {
    let project = |operand: Operand, at: &[u64]| -> Vec<u64> {
        problem.tensor(operand).iter().map(|AxisId(id)| at[usize::from(*id)]).collect()
    };
    let extents: Vec<u64> = problem.axes.iter().map(|axis| axis.extent).collect();
    let mut sums = BTreeMap::new();
    let of = |operand: Operand, at: &[u64]| {
        let zero = i32::try_from(zero_points[operand as usize]).unwrap();
        element(operand as u64 + 1, &project(operand, at)) - zero
    };
    for at in positions(&extents) {
        *sums.entry(project(Operand::Out, &at)).or_insert(0) += of(Operand::In0, &at) * of(Operand::In1, &at);
    }
    sums
}

/// Runs a program's commands in order over tensors filled by [`element`].
fn outputs(machine: &Tcp, program: &Program) -> (Dtype, Vec<u32>) {
    let mut state = State::new(machine, 1);
    for (seed, tensor) in program.tensors[..2].iter().enumerate() {
        let extents: Vec<u64> = tensor.axes.iter().map(|(_, extent)| *extent).collect();
        let patterns: Vec<u32> = positions(&extents)
            .iter()
            .map(|at| pattern(tensor.dtype, element(seed as u64 + 1, at)))
            .collect();
        state.put(tensor, &patterns).unwrap();
    }
    for image in &program.execs {
        exec(machine, &mut state, PeId { chip: 0, pe: 0 }, image)
            .unwrap_or_else(|fault| panic!("{fault}\n{image:#?}"));
    }
    let out = &program.tensors[2];
    (out.dtype, state.get(out).unwrap())
}

/// What became of a drawn program.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Illegal,
    NotLowered(String),
    Right,
}

fn agrees(machine: &Tcp, text: &str, dtype: Dtype) -> Became {
    let parsed = parser::program(text, SourceId(0)).unwrap();
    let problem = Problem::new(&parsed).unwrap();
    let setup = Setup::new(machine, 1, dtype).unwrap();
    let verdict = check(&setup, &problem);
    if !verdict.legal() {
        return Became::Illegal;
    }
    let zero_points = if matches!(dtype, Dtype::I5 | Dtype::I9) { ZERO_POINTS } else { [0, 0] };
    let options = Options { zero_points, ..Options::default() };
    let program = match lower(&setup, &problem, &verdict, &options) {
        Ok(program) => program,
        Err(refused) => return Became::NotLowered(refused.message.clone()),
    };
    let refused: Vec<String> = verify(machine, &program)
        .iter()
        .filter(|complaint| complaint.severity == Severity::Error)
        .map(|complaint| format!("{}: {}", complaint.code, complaint.message))
        .collect();
    assert!(refused.is_empty(), "{text}\n{dtype:?}\n{refused:#?}\n{:#?}", program.execs);
    let (out_type, patterns) = outputs(machine, &program);
    for ((at, sum), pattern) in plain(&problem, zero_points).iter().zip(&patterns) {
        assert_eq!(value(out_type, *pattern), *sum, "{text}\n{dtype:?} at {at:?}\n{:#?}", program.execs);
    }
    Became::Right
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn legal_tactics_give_the_values_of_plain_loops(seed in any::<u64>(), which in 0..TYPES.len()) {
        let text = program(&mut Dice(seed));
        let became = agrees(&machine(), &text, TYPES[which]);
        prop_assert!(!matches!(became, Became::NotLowered(_)), "{became:?}: {text}");
    }
}

#[test]
fn most_drawn_programs_are_legal_and_all_of_them_are_lowered() {
    let machine = machine();
    let mut right = 0;
    for seed in 0..300 {
        match agrees(&machine, &program(&mut Dice(seed)), Dtype::I8) {
            Became::Right => right += 1,
            Became::NotLowered(why) => panic!("{why}: {}", program(&mut Dice(seed))),
            Became::Illegal => {}
        }
    }
    assert!(right > 200, "{right} of 300");
}
