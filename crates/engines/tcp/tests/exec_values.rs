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

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.roll(last + 1));
        }
    }
}

/// A digit of an axis: its text, and what the generator must know.
#[derive(Clone, Debug)]
struct Piece {
    axis: char,
    text: String,
    slots: u64,
}

#[derive(Debug)]
struct Drawn {
    axes: Vec<(char, u64, [bool; 3])>,
    pieces: Vec<Piece>,
    parallel: Vec<Piece>,
}

/// Axes with random membership and sizes, cut into digits, some of them over slices.
fn draw(dice: &mut Dice) -> Drawn {
    let kinds = [
        [true, true, false],
        [true, false, true],
        [false, true, true],
        [true, true, true],
        [true, true, false],
    ];
    let mut axes = Vec::new();
    for (name, kind) in "kmnbj".chars().zip(kinds) {
        if name == 'k' || name == 'm' || name == 'n' || dice.roll(3) == 0 {
            axes.push((name, 1 + dice.roll(13) as u64, kind));
        }
    }
    let mut drawn = Drawn { axes, pieces: Vec::new(), parallel: Vec::new() };
    let mut slices = 1;
    for (name, extent, _) in drawn.axes.clone() {
        cut(dice, &mut drawn, &mut slices, name, extent);
    }
    dice.shuffle(&mut drawn.pieces);
    dice.shuffle(&mut drawn.parallel);
    drawn
}

fn cut(dice: &mut Dice, drawn: &mut Drawn, slices: &mut u64, name: char, extent: u64) {
    let mut stride = 1;
    while stride < extent {
        let rest = extent.div_ceil(stride);
        let size = if dice.roll(2) == 0 { rest } else { (2 + dice.roll(4) as u64).min(rest) };
        let over_slices = *slices * size.next_power_of_two() <= 8 && dice.roll(4) == 0;
        let slots = if over_slices { size.next_power_of_two() } else { size };
        let padded = stride * size > extent || slots > size;
        let pad = if padded { format!("#{slots}") } else { String::new() };
        let piece = Piece { axis: name, text: format!("{name}^{{{stride}}}[{size}{pad}]"), slots };
        stride *= size;
        if over_slices {
            *slices *= slots;
            drawn.parallel.push(piece);
        } else {
            drawn.pieces.push(piece);
        }
    }
}

/// A shape of one tensor: aligned slice digits, and for the others copies, idle slices, or a digit of its own.
fn shape(dice: &mut Dice, drawn: &Drawn, operand: Operand, streamed: Operand) -> String {
    let moves = operand == streamed || operand == Operand::Out;
    let has = |axis: char| drawn.axes.iter().any(|(name, _, kind)| *name == axis && kind[operand as usize]);
    let mut inside: Vec<Piece> = drawn.pieces.iter().filter(|piece| has(piece.axis)).cloned().collect();
    dice.shuffle(&mut inside);
    // The fetched packet must lie side by side: what the tactic runs innermost is stored innermost.
    let innermost = drawn.pieces.iter().rev().find(|piece| has(piece.axis)).map(|piece| piece.text.clone());
    if operand == streamed {
        inside.sort_by_key(|piece| Some(&piece.text) == innermost.as_ref());
    }
    let mut inter = Vec::new();
    for digit in &drawn.parallel {
        let slots = digit.slots;
        let own = inside.iter().position(|piece| piece.slots == slots);
        inter.push(match own {
            _ if has(digit.axis) => digit.text.clone(),
            Some(index) if moves && dice.roll(2) == 0 => inside.remove(index).text,
            _ if moves && dice.roll(2) == 0 => format!("_[1#{slots}]"),
            _ => format!("_[{slots}]"),
        });
    }
    let inside: Vec<String> = inside.into_iter().map(|piece| piece.text).collect();
    format!("{} | {}", inter.join(" "), inside.join(" "))
}

fn program(dice: &mut Dice) -> String {
    let drawn = draw(dice);
    let tensor = |operand: Operand| -> String {
        drawn.axes.iter().filter(|(_, _, kind)| kind[operand as usize]).map(|(name, _, _)| *name).collect()
    };
    let dims: Vec<String> = drawn.axes.iter().map(|(name, extent, _)| format!("{name}={extent}")).collect();
    let swapped = dice.roll(3) == 0;
    let (streamed, stationary) = if swapped { ("in1", "in0") } else { ("in0", "in1") };
    let stream = if swapped { Operand::In1 } else { Operand::In0 };
    let held = if swapped { Operand::In0 } else { Operand::In1 };
    let words =
        |pieces: &[Piece]| pieces.iter().map(|piece| piece.text.clone()).collect::<Vec<_>>().join(" ");
    format!(
        "{}, {} -> {}; dims {}; stationary = {stationary}; {streamed} = @dm {}; {stationary} = @trf {}; out = {}; \
         tactic = {} | {}",
        tensor(Operand::In0),
        tensor(Operand::In1),
        tensor(Operand::Out),
        dims.join(", "),
        shape(dice, &drawn, stream, stream),
        shape(dice, &drawn, held, stream),
        shape(dice, &drawn, Operand::Out, stream),
        words(&drawn.parallel),
        words(&drawn.pieces),
    )
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
