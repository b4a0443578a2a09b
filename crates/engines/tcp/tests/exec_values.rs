//! Random einsums with random shapes and tactics: whatever the check calls legal gives the values of plain loops.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tilewright_base::{SourceId, Sources};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, RuleSet};
use tilewright_tcp::exec::lower::{Maps, lower};
use tilewright_tcp::exec::values::{Arithmetic, Floats, Integers, Memory, run};
use tilewright_tcp::{Placed, Setup};

mod drawn;
use drawn::{Dice, program};

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

/// An element of a fixed tensor.
fn element(seed: u64, at: &[u64]) -> i32 {
    let mut dice = Dice(at.iter().fold(seed, |hash, x| hash.wrapping_mul(31).wrapping_add(*x)));
    i32::try_from(dice.roll(15)).unwrap() - 7
}

fn filled<T: Copy + Default>(map: &RadixMap, seed: u64, convert: impl Fn(i32) -> T) -> Memory<T> {
    let mut memory = Memory::new(map.to[0], map.to[1]).unwrap();
    for slice in 0..map.to[0] {
        for offset in 0..map.to[1] {
            if let Some(at) = map.source_of(&[slice, offset]) {
                *memory.cell(slice, offset).unwrap() = convert(element(seed, &at));
            }
        }
    }
    memory
}

/// Plain loops over every coordinate, in no machine's order.
fn plain(problem: &Problem) -> BTreeMap<Vec<u64>, i32> {
    let project = |operand: Operand, at: &[u64]| -> Vec<u64> {
        problem.tensor(operand).iter().map(|AxisId(id)| at[usize::from(*id)]).collect()
    };
    let mut all = vec![Vec::new()];
    for axis in &problem.axes {
        all = all
            .iter()
            .flat_map(|at: &Vec<u64>| (0..axis.extent).map(|x| [at.as_slice(), &[x]].concat()))
            .collect();
    }
    let mut sums = BTreeMap::new();
    for at in all {
        let product = element(1, &project(Operand::In0, &at)) * element(2, &project(Operand::In1, &at));
        *sums.entry(project(Operand::Out, &at)).or_insert(0) += product;
    }
    sums
}

/// What a type needs to be compared with integers.
struct Numbers<A: Arithmetic> {
    arithmetic: A,
    dtype: Dtype,
    convert: fn(i32) -> A::Element,
    back: fn(A::Sum) -> i32,
}

fn integers() -> Numbers<Integers> {
    Numbers { arithmetic: Integers, dtype: Dtype::I8, convert: |x| x, back: |x| x }
}

/// Small integers are exact in bf16 and their sums in f32, so the order cannot show.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small integers")]
fn floats() -> Numbers<Floats<'static>> {
    Numbers {
        arithmetic: Floats(&RuleSet::TCP),
        dtype: Dtype::Bf16,
        convert: |x| x as f32,
        back: |x| x as i32,
    }
}

/// Runs one program if it is legal; false if it is not.
fn agrees<A: Arithmetic>(machine: &Tcp, text: &str, numbers: &Numbers<A>) -> bool {
    let program = parser::program(text, SourceId(0)).unwrap();
    let problem = Problem::new(&program).unwrap();
    let setup = Setup::new(machine, 1, numbers.dtype).unwrap();
    if !tilewright_tcp::check(&setup, &problem).legal() {
        return false;
    }
    let placed = Placed::new(&setup, &problem, problem.tactic.as_ref().unwrap());
    let map = |operand| RadixMap::of_shape(&problem, problem.shape(operand).unwrap()).unwrap();
    let (stream, trf, out) = (map(problem.streamed()), map(problem.stationary), map(Operand::Out));
    let seed = |operand| if operand == Operand::In0 { 1 } else { 2 };
    let table = lower(&problem, &placed, &Maps { stream: &stream, trf: &trf, out: &out }).unwrap();
    let mut result = Memory::new(out.to[0], out.to[1]).unwrap();
    let a = filled(&stream, seed(problem.streamed()), numbers.convert);
    let b = filled(&trf, seed(problem.stationary), numbers.convert);
    run(&numbers.arithmetic, &table, &a, &b, &mut result);
    for (at, sum) in plain(&problem) {
        let place = out.apply(&at);
        assert_eq!((numbers.back)(result.get(place[0], place[1])), sum, "{text}\nat {at:?}\n{table:#?}");
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn legal_tactics_give_the_values_of_plain_loops(seed in any::<u64>()) {
        let machine = tcp();
        let text = program(&mut Dice(seed));
        agrees(&machine, &text, &integers());
        agrees(&machine, &text, &floats());
    }
}

#[test]
fn most_drawn_programs_are_legal() {
    let machine = tcp();
    let legal = (0..300).filter(|seed| agrees(&machine, &program(&mut Dice(*seed)), &integers())).count();
    assert!(legal > 200, "{legal} of 300");
}
