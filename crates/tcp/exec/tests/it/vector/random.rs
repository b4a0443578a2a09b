//! Random legal chains: what the engine gives is what the reference gives, and what the facts say is so.

use proptest::prelude::*;
use tilewright_tcp_exec::vector::apply;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::SliceDigit;
use tilewright_tcp_isa::program::vector::{
    Comparison, InterSliceReduce, Op, OpKind, OperandSource, ReduceLimit, ReduceOp, ReduceOutput, Relation,
    Vector, Word,
};
use tilewright_tcp_isa::vector::shape::shapes;
use tilewright_tcp_isa::vector::unit::{operand_count, reversible};
use tilewright_tcp_isa::vector::{check, flits_out, misfit, output, unit};

use crate::vector::build::{RULES, bytes, chain, choice, machine, op, reduce, vrf};
use crate::vector::reference::reference;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        tilewright_base::random::next(&mut self.0) >> 32
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).expect("fits")].clone()
    }

    fn bits(&mut self) -> u32 {
        u32::try_from(self.next() & 0xFFFF_FFFF).expect("fits")
    }

    fn word(&mut self, word: Word) -> u32 {
        let small = i32::try_from(self.below(41)).expect("fits") - 20;
        let special =
            [0, 0x8000_0000, 0x7FFF_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0001, 0xFFC0_0000, 1, 0x0080_0000];
        match (self.below(8), word) {
            (0, _) => self.pick(&special),
            (1, _) => self.bits(),
            (_, Word::I32) => small.cast_unsigned(),
            (2, Word::F32) => (small as f32 * 0.37e-3).to_bits(),
            (_, Word::F32) => (small as f32 * 0.25).to_bits(),
        }
    }

    /// Factors of a number, outermost first.
    fn factors(&mut self, mut number: u64) -> Vec<u64> {
        let mut factors = vec![];
        while number > 1 && factors.len() < 6 {
            let divisors: Vec<u64> =
                (2..=number.min(64)).filter(|size| number.is_multiple_of(*size)).collect();
            if divisors.is_empty() {
                break;
            }
            let factor = self.pick(&divisors);
            factors.push(factor);
            number /= factor;
        }
        factors.push(number);
        factors
    }

    fn vrf(&mut self, elements: u64) -> OperandSource {
        let loops: Vec<(u64, i64)> = self
            .factors(elements)
            .into_iter()
            .map(|size| (size, i64::try_from(self.below(4)).expect("fits") - 1))
            .collect();
        let reach: i64 = loops
            .iter()
            .map(|(size, stride)| i64::try_from(*size).expect("fits") * stride.min(&0).abs())
            .sum();
        vrf(4 * u64::try_from(reach).expect("fits"), &loops)
    }
}

const LOGIC: [OpKind; 5] = [OpKind::And, OpKind::Or, OpKind::Xor, OpKind::Shl, OpKind::Shr];
const FXP: [OpKind; 10] = [
    OpKind::Add,
    OpKind::AddSat,
    OpKind::Sub,
    OpKind::SubSat,
    OpKind::ShlSat,
    OpKind::Mul,
    OpKind::MulQ31,
    OpKind::ShrLogic,
    OpKind::ShrArith,
    OpKind::ShrRound,
];
const FLOAT: [OpKind; 16] = [
    OpKind::FAdd,
    OpKind::FSub,
    OpKind::FMul,
    OpKind::Fma,
    OpKind::Sqrt,
    OpKind::Tanh,
    OpKind::Sigmoid,
    OpKind::Erf,
    OpKind::Log,
    OpKind::Sin,
    OpKind::Cos,
    OpKind::FpuDiv,
    OpKind::Exp,
    OpKind::ExpNeg,
    OpKind::Mul0,
    OpKind::Mul1,
];
const CLIP: [OpKind; 5] =
    [OpKind::ClipAdd, OpKind::ClipMax, OpKind::ClipAbsMax, OpKind::ClipMin, OpKind::ClipAbsMin];

/// Builds a chain operation by operation.
struct Builder<'a> {
    random: &'a mut Random,
    vector: Vector,
    word: Word,
    flits: u64,
    joined: bool,
    /// A stash that may still be read.
    kept: Option<Word>,
    read: bool,
    reduced: bool,
}

impl Builder<'_> {
    /// Operations of one stage, each unit once, in any order.
    fn stage(&mut self, kinds: &[OpKind], most: u64) {
        for _ in 0..self.random.below(most + 1) {
            let kind = self.random.pick(kinds);
            let shift = matches!(kind, OpKind::Shl | OpKind::Shr);
            let used = self.vector.ops.iter().any(|op| unit(&op.kind) == unit(&kind));
            if !used && (!shift || self.word == Word::I32) {
                self.push(kind);
            }
        }
    }

    fn push(&mut self, kind: OpKind) {
        let mut new = op(kind);
        new.reversed = reversible(&new.kind) && self.random.chance(2);
        let joinable = self.vector.pair && !self.joined && operand_count(&new.kind) > 0;
        let joins = joinable && self.random.chance(3);
        if !self.vector.ops.iter().any(|op| op.stash) && !self.reduced && self.random.chance(3) && !joins {
            new.stash = true;
            self.kept = Some(self.word);
        }
        let elements = self.entering(&new, joins);
        let mut port = true;
        for index in 0..operand_count(&new.kind) {
            let count = if self.reduced || index > 0 { 1 } else { 1 + self.random.below(2) };
            let sources = (0..count).map(|_| {
                let source = match self.random.below(4) {
                    0 if port => {
                        port = false;
                        self.random.vrf(elements)
                    }
                    1 if port && self.kept == Some(self.word) && !self.reduced && !joins => {
                        port = false;
                        self.kept = None;
                        self.read = true;
                        OperandSource::Stash
                    }
                    _ => OperandSource::Immediate(self.random.word(self.word)),
                };
                let mask = if self.reduced { 0 } else { u8::try_from(self.random.below(16)).expect("fits") };
                let mask = if self.random.chance(2) { mask } else { 0 };
                (mask, mask & u8::try_from(self.random.below(16)).expect("fits"), source)
            });
            new.operands.push(choice(sources.collect()));
        }
        if joins {
            new.operands[0] = choice(vec![(0, 0, OperandSource::Pair)]);
            self.joined = true;
            self.kept = None;
        }
        self.vector.ops.push(new);
    }

    fn entering(&self, new: &Op, joins: bool) -> u64 {
        let mut trial = self.vector.clone();
        let mut new = new.clone();
        let source = if joins { OperandSource::Pair } else { OperandSource::Immediate(0) };
        new.operands = vec![choice(vec![(0, 0, source)])];
        trial.ops.push(new);
        trial.between = trial.between.filter(|_| trial.between_first);
        // A chain that does not fit already is thrown away later.
        shapes(&trial, self.flits).map_or(8, |shapes| shapes.entering.last().expect("fits").elements())
    }

    fn reduce(&mut self, slices: u64) {
        // As many halves as would enter any other narrow operation.
        let needed = self.entering(&op(OpKind::Exp), false) / 4;
        let steps: Vec<(u64, bool)> =
            self.random.factors(needed).into_iter().map(|size| (size, self.random.chance(2))).collect();
        let kind = self.random.pick(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min]);
        let mut new = reduce(kind, self.random.chance(2), &steps);
        for element in 0..self.random.below(3) {
            let weights = steps.iter().map(|_| self.random.below(5)).collect();
            let slices = vec![SliceDigit { stride: 1, size: slices, weight: self.random.below(3) }];
            let extent = Count::Fixed(self.random.below(12));
            new.limits.push(ReduceLimit { extent, slices, weights, element: element % 2 });
        }
        self.vector.ops.push(op(OpKind::Reduce(new)));
        self.reduced = true;
        self.kept = None;
    }
}

/// A chain that is legal most of the time; the caller asks.
fn random_chain(random: &mut Random, flits: u64, slices: u64) -> Vector {
    let input = random.pick(&[Word::I32, Word::F32]);
    let mut vector = chain(input, vec![]);
    vector.trim = random.chance(3);
    vector.pair = flits.is_multiple_of(2) && random.chance(3);
    for _ in 0..random.below(4) {
        use Relation::{Eq, Ge, Gt, Le, Lt, Ne};
        let relation = random.pick(&[Eq, Ne, Lt, Le, Gt, Ge]);
        vector.tags.push(Comparison { relation, word: random.word(input) });
    }
    if random.chance(2) {
        let inner = random.pick(&[1, 2]);
        let gives =
            random.pick(&[ReduceOutput::First, ReduceOutput::Broadcast, ReduceOutput::Scatter { inner }]);
        let op =
            random.pick(&[ReduceOp::Add, ReduceOp::AddWrap, ReduceOp::Max, ReduceOp::Min, ReduceOp::Mul]);
        vector.between = Some(InterSliceReduce { op, slices: random.pick(&[1, slices]), gives });
        let scatters = matches!(gives, ReduceOutput::Scatter { .. });
        vector.between_first = random.chance(2) && !scatters;
    }
    let mut builder = Builder {
        random,
        vector,
        word: input,
        flits,
        joined: false,
        kept: None,
        read: false,
        reduced: false,
    };
    builder.stage(&LOGIC, 2);
    if builder.word == Word::I32 {
        builder.stage(&FXP, 3);
        if builder.random.chance(2) {
            let int_width = u32::try_from(builder.random.below(32)).expect("fits");
            builder.push(OpKind::ToFloat { int_width });
            builder.word = Word::F32;
        }
    }
    if builder.word == Word::F32 {
        builder.stage(&FLOAT, 4);
    }
    if builder.random.chance(3) && (!builder.vector.pair || builder.joined) {
        builder.reduce(slices);
    }
    if builder.word == Word::F32 {
        builder.stage(&[OpKind::Div], 1);
        if builder.random.chance(3) {
            let int_width = u32::try_from(builder.random.below(32)).expect("fits");
            builder.push(OpKind::ToFixed { int_width });
            builder.word = Word::I32;
        }
    }
    builder.stage(&CLIP, 3);
    if !builder.reduced && builder.random.chance(4) {
        let mask = u8::try_from(builder.random.below(16)).expect("fits");
        builder.push(OpKind::Filter { mask, value: mask & 5 });
    }
    if !builder.read {
        builder.vector.ops.iter_mut().for_each(|op| op.stash = false);
    }
    builder.vector
}

/// The first legal chain that comes up.
fn legal_chain(random: &mut Random, flits: u64, slices: u64) -> Vector {
    let mut tries = (0..1000).map(|_| random_chain(random, flits, slices));
    let legal = |vector: &Vector| check(machine(), vector).is_empty() && misfit(vector, flits).is_none();
    tries.find(legal).expect("one in a thousand is legal")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn values_are_those_of_the_judge(seed in 1_u64.., flits in 1_u64..13, log_slices in 0_u32..3) {
        let (mut random, slices) = (Random(seed), 1_u64 << log_slices);
        let vector = legal_chain(&mut random, flits, slices);
        let count = usize::try_from(flits * 8).expect("fits");
        let input: Vec<Vec<u32>> =
            (0..slices).map(|_| (0..count).map(|_| random.word(vector.input)).collect()).collect();
        let files: Vec<Vec<u8>> = (0..slices)
            .map(|_| bytes(&(0..2048).map(|_| random.word(output(&vector))).collect::<Vec<_>>()))
            .collect();
        let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let ours = apply(RULES, &vector, input.clone(), &files).expect("fits");
        let theirs = reference(&vector, input, &files);
        prop_assert_eq!(&ours, &theirs, "{:?}", vector);
        let leaving = usize::try_from(flits_out(&vector, flits).expect("fits") * 8).expect("fits");
        prop_assert!(ours.iter().all(|words| words.len() == leaving), "{:?}", vector);
    }

    #[test]
    fn anything_gives_an_answer(seed in 1_u64.., flits in 0_u64..5) {
        let mut random = Random(seed);
        let mut vector = random_chain(&mut random, 4, 2);
        // Spoil it.
        let last = vector.ops.len();
        for _ in 0..random.below(3) {
            match random.below(6) {
                0 if last > 1 => vector.ops.swap(0, last - 1),
                1 if last > 0 => vector.ops[0].stash ^= true,
                2 if last > 0 => vector.ops[0].operands.clear(),
                3 => vector.pair ^= true,
                4 => vector.trim ^= true,
                _ => vector.input = random.pick(&[Word::I32, Word::F32]),
            }
        }
        let count = usize::try_from(flits * 8).expect("fits");
        let input = vec![vec![1; count], vec![2; count]];
        let result = apply(RULES, &vector, input, &[&[], &[0; 64]]);
        let said = result.map_or_else(|error| error.to_string(), |_| "values".to_owned());
        prop_assert!(!said.is_empty());
    }
}

#[test]
fn random_chains_reach_every_kind_of_operation() {
    let mut seen = std::collections::BTreeMap::new();
    let (mut stashes, mut pairs) = (0, 0);
    for seed in 1..2000 {
        let vector = legal_chain(&mut Random(seed * 0x9E37_79B9), 1 + seed % 12, 2);
        for op in &vector.ops {
            *seen.entry(unit(&op.kind)).or_insert(0) += 1;
        }
        stashes += u32::from(vector.ops.iter().any(|op| op.stash));
        pairs += u32::from(vector.pair);
    }
    assert!(stashes > 50 && pairs > 50, "{stashes} {pairs}");
    assert_eq!(seen.len(), 22, "{seen:?}");
    assert!(seen.values().all(|count| *count > 20), "{seen:?}");
}
