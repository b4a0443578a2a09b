//! Random arithmetic of integers of 64 and 32 bits: inputs as large as the program takes them give the
//! interpreter's integers, bit for bit.

use proptest::prelude::*;
use tilewright_compile::general::{Options, plan, tensors};
use tilewright_graph::{Binary, Builder, Dim, Dtype, Graph, TensorStore, Type, Unary, ValueId, primitives};
use tilewright_record::KeepLast;
use tilewright_reference::{Elements, Interpreter, Tensor};
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::GraphDevice;
use tilewright_testkit::tcp;

/// Elements of every value.
const SIZE: usize = 24;

/// A step: an operator by number, and the values that it takes, counted from the last one back.
type Step = (usize, usize, usize);

const BINARIES: [Binary; 8] =
    [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Mod, Binary::Rem, Binary::Max, Binary::Min];

fn ty(dtype: Dtype) -> Type {
    Type::new(dtype, vec![Dim::fixed(i64::try_from(SIZE).expect("small"))])
}

/// A value made of two others.
fn step(b: &mut Builder, (op, x, y): (usize, ValueId, ValueId)) -> Option<ValueId> {
    match op {
        0..8 => b.binary(BINARIES[op], x, y).ok(),
        8 => b.unary(Unary::Neg, x).ok(),
        9 => b.unary(Unary::Abs, x).ok(),
        10 => {
            let less = b.binary(Binary::Lt, x, y).ok()?;
            let more = b.with(Binary::Add, x, 7.0).ok()?;
            b.select(less, more, y).ok()
        }
        // What later steps are held below.
        _ => {
            let low = b.with(Binary::Max, x, -900.0).ok()?;
            b.with(Binary::Min, low, 4000.0).ok()
        }
    }
}

fn graph(dtype: Dtype, steps: &[Step]) -> Option<Graph> {
    let mut b = Builder::new("integers");
    let mut all = vec![b.input("x", ty(dtype)).ok()?, b.input("y", ty(dtype)).ok()?];
    for (op, x, y) in steps {
        let back = |number: &usize| all[all.len() - 1 - number % all.len()];
        let made = step(&mut b, (*op, back(x), back(y)))?;
        all.push(made);
    }
    for (number, value) in all.iter().enumerate().skip(2) {
        b.output(&format!("z{number}"), *value);
    }
    primitives(&b.finish()).ok()
}

/// Integers from drawn ones within a limit, its ends and zero among them.
fn within(drawn: &[i64], most: u64) -> Vec<i64> {
    let most = i64::try_from(most).expect("a limit of words");
    let ends = [most, -most, 0, 1, -1, 3];
    drawn.iter().enumerate().map(|(at, one)| *ends.get(at / 2).unwrap_or(&(one % (most + 1)))).collect()
}

/// Whether the graph is lowered; if so it must give what the interpreter gives.
fn is_right(dtype: Dtype, steps: &[Step], drawn: [&[i64]; 2], pes: u64) -> Option<bool> {
    let (machine, graph) = (tcp(), graph(dtype, steps)?);
    let options = Options { pes, check: true, ..Options::default() };
    let planned = plan(&machine, &graph, &TensorStore::default(), &options).ok()?;
    let most = planned.most_integer.unwrap_or(1 << 20);
    let inputs = drawn.map(|drawn| Tensor::ints(dtype, &[SIZE], within(drawn, most)));
    let words: Vec<Vec<u32>> = inputs.iter().map(|input| tensors::words(input).expect("words")).collect();
    let mut device = GraphDevice::new(&machine, planned).expect("a device");
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0)).expect("a run");
    let certain = reading.findings.iter().any(|finding| finding.certain);
    let expected =
        Interpreter::new(graph, &TensorStore::default()).expect("a graph").run(&inputs).expect("a run");
    let whole =
        |words: &Vec<u32>| words.iter().map(|word| i64::from(word.cast_signed())).collect::<Vec<i64>>();
    let found: Vec<Elements> =
        device.results().expect("results").iter().map(|words| Elements::Ints(whole(words).into())).collect();
    Some(!certain && found.iter().eq(expected.iter().map(|tensor| &tensor.elements)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn arithmetic_within_the_limit_is_exact(
        wide in any::<bool>(),
        steps in proptest::collection::vec((0..12_usize, 0..4_usize, 0..4_usize), 1..6),
        x in proptest::collection::vec(any::<i64>(), SIZE),
        y in proptest::collection::vec(any::<i64>(), SIZE),
        pes in 0..2_u32,
    ) {
        let dtype = if wide { Dtype::I64 } else { Dtype::I32 };
        prop_assert!(is_right(dtype, &steps, [&x, &y], 1 << (3 * pes)).unwrap_or(true), "{steps:?}");
    }
}

#[test]
fn sums_quotients_and_rests_of_long_integers_are_lowered() {
    let drawn: Vec<i64> = (0..).map(|at: i64| at * 7919 - 40_000).take(SIZE).collect();
    let turned: Vec<i64> = drawn.iter().rev().map(|one| one / 1000).collect();
    for op in [0, 1, 3, 4, 5, 8, 9, 10] {
        assert_eq!(is_right(Dtype::I64, &[(op, 0, 1)], [&drawn, &turned], 1), Some(true), "{op}");
    }
    // Held below 4,000, products fit too.
    let held = [(11, 0, 0), (11, 2, 0), (2, 0, 1), (3, 0, 1)];
    assert_eq!(is_right(Dtype::I64, &held, [&drawn, &turned], 8), Some(true));
    // Three factors of 16 bits do not fit words.
    assert_eq!(is_right(Dtype::I64, &[(2, 0, 1), (2, 0, 1)], [&drawn, &turned], 1), None);
}
