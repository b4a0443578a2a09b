//! Steps of a chain as commands: as many in one pass through the vector engine as its units allow, two
//! streams side by side where a step joins them (vISA book, vector engine; the rules themselves are the
//! engine's, `tilewright_tcp_isa::vector`).

use std::collections::{BTreeMap, BTreeSet};

use tilewright_machine::tcp::Tcp;
use tilewright_num::Function;
use tilewright_tcp_isa::program::vector::{
    Comparison, GuardedSource, Op, OpKind, OperandChoice, OperandSource, Relation, Vector, Word,
};
use tilewright_tcp_isa::vector::{GROUP_TAG, check, output};
use tilewright_tcp_lower::kernels::chain::{chain, guarded, op, with};

use super::words::{Line, MAGNITUDE, Other, Step};

/// One command: a stream, perhaps joined with another, through units to a new stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// What enters.
    pub stream: usize,
    /// What it is joined with.
    pub pair: Option<usize>,
    /// The units.
    pub vector: Vector,
    /// What leaves.
    pub result: usize,
}

/// Streams that are read from the vector register file instead of data memory.
pub type Registers = BTreeMap<usize, OperandSource>;

/// Streams of `candidates` that can be operands of units: all their uses are in steps with a stream of data
/// memory.
pub fn operands_of_units(candidates: &[usize], lines: &[Line], kept: &[usize]) -> BTreeSet<usize> {
    let mut all: BTreeSet<usize> =
        candidates.iter().copied().filter(|stream| !kept.contains(stream)).collect();
    loop {
        let unfit = lines.iter().find_map(|line| match &line.step {
            Step::With { other: Other::Stream(other), .. } => {
                (all.contains(&line.input) && all.contains(other)).then_some(*other)
            }
            _ => all.contains(&line.input).then_some(line.input),
        });
        match unfit {
            Some(stream) => all.remove(&stream),
            None => return all,
        };
    }
}

/// The same step with a stream of data memory first.
fn turned(line: &Line, registers: &Registers) -> Line {
    match &line.step {
        Step::With { arith, other: Other::Stream(other), reversed }
            if registers.contains_key(&line.input) =>
        {
            let reversed = !reversed && !arith.commutes();
            let step = Step::With { arith: *arith, other: Other::Stream(line.input), reversed };
            Line { input: *other, step }
        }
        _ => line.clone(),
    }
}

/// Passes for the lines of a chain with so many inputs; streams of `kept` must leave a pass. `None` if a step
/// has no unit.
pub fn passes(machine: &Tcp, inputs: usize, lines: &[Line], kept: &[usize]) -> Option<Vec<Pass>> {
    passes_with(machine, inputs, lines, kept, &Registers::new())
}

/// Passes, some streams of which are operands of units.
pub fn passes_with(
    machine: &Tcp,
    inputs: usize,
    lines: &[Line],
    kept: &[usize],
    registers: &Registers,
) -> Option<Vec<Pass>> {
    let lines: Vec<Line> = lines.iter().map(|line| turned(line, registers)).collect();
    let mut uses = vec![0_usize; inputs + lines.len()];
    for line in &lines {
        *uses.get_mut(line.input)? += 1;
        if let Step::With { other: Other::Stream(stream), .. } = line.step {
            *uses.get_mut(stream)? += 1;
        }
    }
    kept.iter().for_each(|stream| uses[*stream] += 1);
    let mut all: Vec<Pass> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let result = inputs + at;
        if let Some(last) = all.last_mut()
            && last.result == line.input
            && uses[line.input] == 1
            && let Some(longer) = longer(machine, last, &line.step, registers)
        {
            last.vector = longer;
            last.result = result;
            continue;
        }
        if let Some(last) = all.last_mut()
            && let Some(vector) = with_stash(machine, last, line, (&uses, registers))
        {
            last.vector = vector;
            last.result = result;
            continue;
        }
        let pass = Pass { result, ..alone(machine, line, registers)? };
        all.push(pass);
        join_step(machine, &mut all, &uses);
    }
    Some(all)
}

/// The units of a pass with a step behind them that takes the element which entered the pass once more: it is
/// kept as the stash.
fn with_stash(
    machine: &Tcp,
    pass: &Pass,
    line: &Line,
    (uses, registers): (&[usize], &Registers),
) -> Option<Vector> {
    let Step::With { arith, other: Other::Stream(other), reversed } = &line.step else { return None };
    let reversed = match (line.input, *other) {
        (input, other) if (input, other) == (pass.result, pass.stream) => *reversed,
        (input, other) if (other, input) == (pass.result, pass.stream) => !reversed && !arith.commutes(),
        _ => return None,
    };
    let used = pass.vector.ops.iter().any(|op| op.stash);
    if used || pass.pair.is_some() || uses[pass.result] != 1 || registers.contains_key(&pass.stream) {
        return None;
    }
    if arith.word().is_some_and(|word| word != output(&pass.vector)) {
        return None;
    }
    let with_unit = |kind: &OpKind| {
        let mut vector = pass.vector.clone();
        vector.ops.first_mut()?.stash = true;
        vector.ops.push(Op { reversed, ..with(kind.clone(), OperandSource::Stash) });
        check(machine, &vector).is_empty().then_some(vector)
    };
    arith.units().iter().find_map(with_unit)
}

/// A last pass that joins two streams takes in the step that one of them comes from, if that is arithmetic
/// with a word whose result nothing else needs: a unit does it for the elements of this stream alone.
fn join_step(machine: &Tcp, all: &mut Vec<Pass>, uses: &[usize]) {
    let Some((last, before)) = all.split_last() else { return };
    let Some(pair) = last.pair.filter(|pair| *pair != last.stream) else { return };
    for (group, stream) in [(0, last.stream), (GROUP_TAG, pair)] {
        let Some(at) = before.iter().position(|pass| pass.result == stream && uses[stream] == 1) else {
            continue;
        };
        let step = &before[at];
        let ([op], None) = (&step.vector.ops[..], step.pair) else { continue };
        let is_word =
            |source: &GuardedSource| source.mask == 0 && matches!(source.source, OperandSource::Immediate(_));
        let [choice] = &op.operands[..] else { continue };
        let plain = step.vector.tags.is_empty() && step.vector.input == last.vector.input;
        if !plain || step.vector.between.is_some() || !choice.sources.iter().all(is_word) {
            continue;
        }
        let guard =
            |source: &GuardedSource| GuardedSource { mask: GROUP_TAG, value: group, ..source.clone() };
        let operands = vec![OperandChoice { sources: choice.sources.iter().map(guard).collect() }];
        if let Some(vector) = with_guarded(machine, &last.vector, &Op { operands, ..op.clone() }) {
            let mut joined = last.clone();
            joined.vector = vector;
            *(if group == 0 { &mut joined.stream } else { joined.pair.get_or_insert(pair) }) = step.stream;
            all.pop();
            all.remove(at);
            all.push(joined);
            return join_step(machine, all, uses);
        }
    }
}

/// A chain behind an operation for the elements of one group, in units that both have.
fn with_guarded(machine: &Tcp, vector: &Vector, op: &Op) -> Option<Vector> {
    let multipliers = [OpKind::Mul0, OpKind::Mul1, OpKind::FMul];
    let kinds = |kind: &OpKind| {
        if multipliers.contains(kind) { multipliers.to_vec() } else { vec![kind.clone()] }
    };
    let (join, behind) = vector.ops.split_first()?;
    for first in kinds(&op.kind) {
        for kind in kinds(&join.kind) {
            let front = [Op { kind: first.clone(), ..op.clone() }, Op { kind, ..join.clone() }];
            let longer = Vector { ops: [&front[..], behind].concat(), ..vector.clone() };
            if check(machine, &longer).is_empty() {
                return Some(longer);
            }
        }
    }
    None
}

/// The units of a pass with one more step, if they can do it.
///
/// A unit that floats and integers have in common takes words as what they are said to be: behind bits that
/// entered as integers a sum of floats begins another pass.
fn longer(machine: &Tcp, pass: &Pass, step: &Step, registers: &Registers) -> Option<Vector> {
    if takes(step).is_some_and(|word| word != output(&pass.vector)) {
        return None;
    }
    let behind: Vec<Vec<Op>> = match step {
        Step::Pick { .. } | Step::Order => return None,
        other => choices(other, registers),
    };
    let legal = |ops: Vec<Op>| {
        let mut vector = pass.vector.clone();
        vector.ops.extend(ops);
        let clean = check(machine, &vector).is_empty();
        clean.then_some(vector)
    };
    behind.into_iter().find_map(legal)
}

/// A pass of one step.
fn alone(machine: &Tcp, line: &Line, registers: &Registers) -> Option<Pass> {
    let pass = |vector: Vector, pair: Option<usize>| Pass { stream: line.input, pair, vector, result: 0 };
    match &line.step {
        Step::Pick { word, when, mask, value, yes, no } => {
            let source = |mask: u8, value: u8, word: u32| GuardedSource {
                mask,
                value,
                source: OperandSource::Immediate(word),
            };
            let one = OperandChoice { sources: vec![source(*mask, *value, *yes), source(0, 0, *no)] };
            let pick = Op { operands: vec![one], ..op(OpKind::Or) };
            let mut vector = chain(*word, vec![with(OpKind::And, OperandSource::Immediate(0)), pick]);
            vector.tags.clone_from(when);
            Some(pass(vector, None))
        }
        Step::Order => {
            let mut vector =
                chain(Word::I32, vec![guarded(OpKind::Xor, 1, 1, OperandSource::Immediate(MAGNITUDE))]);
            vector.tags = vec![Comparison { relation: Relation::Lt, word: 0 }];
            Some(pass(vector, None))
        }
        Step::With { arith, other: Other::Stream(stream), reversed } if !registers.contains_key(stream) => {
            let word = arith.word().unwrap_or(Word::I32);
            let joined = |kind: &OpKind| {
                let ops = vec![Op { reversed: *reversed, ..with(kind.clone(), OperandSource::Pair) }];
                let vector = chain(word, ops).paired();
                check(machine, &vector).is_empty().then_some(vector)
            };
            if *stream == line.input {
                let twice = |kind: &OpKind| {
                    let vector = chain(word, vec![with(kind.clone(), OperandSource::Stash).keep()]);
                    check(machine, &vector).is_empty().then_some(vector)
                };
                if let Some(vector) = arith.units().iter().find_map(twice) {
                    return Some(pass(vector, None));
                }
            }
            let vector = arith.units().iter().find_map(joined)?;
            Some(pass(vector, Some(*stream)))
        }
        step => {
            let legal = |ops: Vec<Op>| {
                let words = [Word::F32, Word::I32].into_iter();
                let mut vectors = words.map(|word| chain(word, ops.clone()));
                vectors.find(|vector| {
                    takes(step).is_none_or(|word| word == vector.input) && check(machine, vector).is_empty()
                })
            };
            Some(pass(choices(step, registers).into_iter().find_map(legal)?, None))
        }
    }
}

/// The type of the words that a step takes; none for bits.
pub fn takes(step: &Step) -> Option<Word> {
    match step {
        Step::Apply(_) | Step::ToInt => Some(Word::F32),
        Step::ToFloat | Step::Order => Some(Word::I32),
        Step::With { arith, .. } => arith.word(),
        Step::Pick { word, .. } => Some(*word),
    }
}

/// Ways to do a step that needs nothing but its stream.
fn choices(step: &Step, registers: &Registers) -> Vec<Vec<Op>> {
    match step {
        Step::Apply(function) => vec![vec![op(unit(*function))]],
        Step::ToFloat => vec![vec![op(OpKind::ToFloat { int_width: 31 })]],
        Step::ToInt => vec![vec![op(OpKind::ToFixed { int_width: 31 })]],
        Step::With { arith, other, reversed } => {
            let source = match other {
                Other::Word(word) => Some(OperandSource::Immediate(*word)),
                Other::Stream(stream) => registers.get(stream).cloned(),
            };
            let Some(source) = source else { return Vec::new() };
            let one = |kind: &OpKind| vec![Op { reversed: *reversed, ..with(kind.clone(), source.clone()) }];
            arith.units().iter().map(one).collect()
        }
        _ => Vec::new(),
    }
}

/// The unit of a function.
fn unit(function: Function) -> OpKind {
    match function {
        Function::Sqrt => OpKind::Sqrt,
        Function::Tanh => OpKind::Tanh,
        Function::Sigmoid => OpKind::Sigmoid,
        Function::Erf => OpKind::Erf,
        Function::Log => OpKind::Log,
        Function::Sin => OpKind::Sin,
        Function::Cos => OpKind::Cos,
        Function::Exp => OpKind::Exp,
        Function::ExpNeg => OpKind::ExpNeg,
    }
}

#[cfg(test)]
mod tests {

    use super::super::words::Arith;
    use super::*;
    use tilewright_testkit::tcp as machine;

    fn with_other(input: usize, arith: Arith, other: Other) -> Line {
        Line { input, step: Step::With { arith, other, reversed: false } }
    }

    fn made(lines: &[Line], inputs: usize) -> Vec<Pass> {
        passes(&machine(), inputs, lines, &[inputs + lines.len() - 1]).unwrap()
    }

    /// x * sigmoid(x) is one command: x is kept as the stash.
    #[test]
    fn an_element_that_is_needed_again_is_kept() {
        let sigmoid = Line { input: 0, step: Step::Apply(Function::Sigmoid) };
        for last in
            [with_other(0, Arith::FMul, Other::Stream(1)), with_other(1, Arith::FMul, Other::Stream(0))]
        {
            let made = made(&[sigmoid.clone(), last], 1);
            assert!(made.len() == 1 && made[0].vector.ops[0].stash, "{made:?}");
        }
    }

    /// x - f(x) and f(x) - x differ, whichever is the operand in front.
    #[test]
    fn a_difference_with_the_stash_keeps_its_sign() {
        let sigmoid = Line { input: 0, step: Step::Apply(Function::Sigmoid) };
        let first = with_other(0, Arith::FSub, Other::Stream(1));
        let second = with_other(1, Arith::FSub, Other::Stream(0));
        let reversed = |last: Line| made(&[sigmoid.clone(), last], 1)[0].vector.ops[1].reversed;
        assert_eq!([reversed(first), reversed(second)], [true, false]);
    }

    /// (x * 0.5) * y is one command: half of the elements are multiplied before the groups are joined.
    #[test]
    fn a_step_before_a_join_is_guarded() {
        let half = with_other(0, Arith::FMul, Other::Word(0x3f00_0000));
        for last in
            [with_other(2, Arith::FMul, Other::Stream(1)), with_other(1, Arith::FMul, Other::Stream(2))]
        {
            let made = made(&[half.clone(), last.clone()], 2);
            let group = if last.input == 2 { 0 } else { GROUP_TAG };
            let source = &made[0].vector.ops[0].operands[0].sources[0];
            assert_eq!((made.len(), source.mask, source.value), (1, GROUP_TAG, group), "{made:?}");
            let streams = if last.input == 2 { (0, Some(1)) } else { (1, Some(0)) };
            assert_eq!((made[0].stream, made[0].pair), streams);
        }
    }

    /// What another step needs too is made by a command of its own.
    #[test]
    fn a_step_that_is_needed_twice_stays() {
        let half = with_other(0, Arith::FMul, Other::Word(0x3f00_0000));
        let join = with_other(2, Arith::FMul, Other::Stream(1));
        let again = with_other(3, Arith::FAdd, Other::Stream(2));
        assert_eq!(made(&[half, join, again], 2).len(), 3);
    }

    /// Rounding ends in an exclusive or of two streams, and what comes behind is a float.
    #[test]
    fn floats_behind_bits_are_added_as_floats() {
        let machine = machine();
        let floats = [Arith::FAdd, Arith::FSub, Arith::FMul, Arith::FDiv, Arith::FMax, Arith::FMin];
        let integers = [Arith::Add, Arith::Sub, Arith::Max, Arith::Min];
        for arith in floats.into_iter().chain(integers) {
            let word = arith.word().unwrap();
            let joined = with_other(0, Arith::Xor, Other::Stream(1));
            let behind = with_other(2, arith, Other::Word(0x4300_0000));
            let passes = passes(&machine, 2, &[joined, behind], &[3]).unwrap();
            let last = passes.last().unwrap();
            assert_eq!(last.vector.input, word, "{arith:?}: {passes:?}");
        }
    }
}
