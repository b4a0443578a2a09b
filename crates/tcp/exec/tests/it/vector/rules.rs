//! Every rule with a legal chain and its refused twin, and the facts that follow from chains.

use tilewright_tcp_cost::cycles;
use tilewright_tcp_exec::vector::{VectorError, apply};
use tilewright_tcp_isa::program::vector::{
    Comparison, InterSliceReduce, OpKind, OperandSource, ReduceLimit, ReduceOp, ReduceOutput, Relation,
    Vector, Word,
};
use tilewright_tcp_isa::program::{Count, RegisterId};
use tilewright_tcp_isa::vector::{
    FLIT_WORDS, GROUP_TAG, HALF_WORDS, OpCounts, VeUnit, VectorFault, check, flits_out, misfit, narrow,
    op_counts, output, units,
};

use crate::vector::build::{
    RULES, chain, choice, float, int, machine, op, reduce, reversed, run, stash, vrf, with,
};

/// The chain is legal.
fn legal(vector: &Vector) {
    assert_eq!(check(machine(), vector), [], "{vector:?}");
}

/// The chain breaks one rule; values are refused too unless the rule is one of figures.
fn refused(vector: &Vector, fault: VectorFault) {
    assert_eq!(check(machine(), vector), [fault], "{vector:?}");
    assert!(fault.to_string().len() > 10);
}

fn floats(ops: Vec<tilewright_tcp_isa::program::vector::Op>) -> Vector {
    chain(Word::F32, ops)
}

fn ints(ops: Vec<tilewright_tcp_isa::program::vector::Op>) -> Vector {
    chain(Word::I32, ops)
}

#[test]
fn widths_are_those_of_the_machine() {
    assert_eq!((machine().ve.int_ways, machine().ve.float_ways), (FLIT_WORDS, HALF_WORDS));
    assert_eq!(1_u64 << (machine().ve.tag_bits - 1), u64::from(GROUP_TAG));
}

#[test]
fn five_float_units_fit_and_two_functions_do_not() {
    let mut vector = floats(vec![
        with(OpKind::FAdd, vec![float(1.0)]),
        with(OpKind::Mul0, vec![float(2.0)]),
        with(OpKind::Mul1, vec![float(3.0)]),
        op(OpKind::Sqrt),
        op(OpKind::Exp),
    ]);
    legal(&vector);
    assert_eq!(units(&vector), 5);
    let result = run(&vector, [0.5_f32.to_bits(); 8].to_vec()).unwrap();
    assert_eq!(result, [20.085_537_f32.to_bits(); 8], "e^3");
    vector.ops = vec![op(OpKind::Sqrt), op(OpKind::Tanh)];
    refused(&vector, VectorFault::UnitTwice { at: 1, unit: VeUnit::Fpu });
    assert!(matches!(run(&vector, vec![0; 8]), Err(VectorError::Fault(VectorFault::UnitTwice { .. }))));
}

#[test]
fn stages_come_in_order_and_words_match() {
    let convert = || op(OpKind::ToFloat { int_width: 31 });
    legal(&ints(vec![with(OpKind::Add, vec![int(1)]), convert(), with(OpKind::FMul, vec![float(0.5)])]));
    refused(
        &ints(vec![with(OpKind::Mul, vec![int(1)]), with(OpKind::And, vec![int(1)])]),
        VectorFault::StageOrder { at: 1 },
    );
    refused(&ints(vec![op(OpKind::Exp)]), VectorFault::WordType { at: 0, found: Word::I32 });
    refused(
        &floats(vec![with(OpKind::Shl, vec![int(1)])]),
        VectorFault::WordType { at: 0, found: Word::F32 },
    );
    legal(&floats(vec![with(OpKind::And, vec![int(1)])]));
    legal(&ints(vec![op(OpKind::ToFloat { int_width: 31 }), op(OpKind::ToFixed { int_width: 31 })]));
    refused(
        &ints(vec![op(OpKind::ToFloat { int_width: 32 })]),
        VectorFault::IntWidth { at: 0, int_width: 32 },
    );
    assert_eq!(output(&ints(vec![convert()])), Word::F32);
    assert_eq!(output(&ints(vec![convert(), op(OpKind::ToFixed { int_width: 3 })])), Word::I32);
}

#[test]
fn operands_are_counted() {
    legal(&floats(vec![with(OpKind::Fma, vec![float(1.0), float(2.0)])]));
    let needed = |needed, found| VectorFault::OperandCount { at: 0, needed, found };
    refused(&floats(vec![with(OpKind::Fma, vec![float(1.0)])]), needed(2, 1));
    refused(&floats(vec![with(OpKind::Exp, vec![float(1.0)])]), needed(0, 1));
    refused(&floats(vec![op(OpKind::FAdd)]), needed(1, 0));
    let mut vector = floats(vec![with(OpKind::FAdd, vec![float(1.0)])]);
    vector.ops[0].operands[0].sources.clear();
    refused(&vector, VectorFault::NoSource { at: 0 });
    legal(&floats(vec![reversed(with(OpKind::Div, vec![float(1.0)]))]));
    refused(&floats(vec![reversed(with(OpKind::FAdd, vec![float(1.0)]))]), VectorFault::Reversed { at: 0 });
}

#[test]
fn three_immediates_and_one_port() {
    let four = |count: u8| {
        let mut vector = ints(vec![with(OpKind::Add, vec![int(1)])]);
        vector.ops[0].operands[0] = choice((0..count).map(|value| (3, value & 3, int(5))).collect());
        vector
    };
    legal(&four(3));
    refused(&four(4), VectorFault::Immediates { at: 0, found: 4, most: 3 });
    let file = || vrf(0, &[(8, 1)]);
    legal(&floats(vec![with(OpKind::Fma, vec![file(), float(1.0)])]));
    refused(&floats(vec![with(OpKind::Fma, vec![file(), file()])]), VectorFault::Ports { at: 0, found: 2 });
    refused(
        &floats(vec![stash(with(OpKind::Fma, vec![file(), OperandSource::Stash]))]),
        VectorFault::Ports { at: 0, found: 2 },
    );
}

#[test]
fn tags_have_four_bits_and_the_group_takes_one() {
    let mut vector = ints(vec![with(OpKind::Add, vec![int(1)])]);
    vector.tags = vec![Comparison { relation: Relation::Lt, word: 0 }; 4];
    legal(&vector);
    vector.tags.push(Comparison { relation: Relation::Lt, word: 0 });
    refused(&vector, VectorFault::Comparisons { found: 5, most: 4 });
    vector.tags.truncate(4);
    vector.pair = true;
    vector.ops = vec![with(OpKind::Add, vec![OperandSource::Pair])];
    refused(&vector, VectorFault::Comparisons { found: 4, most: 3 });
    vector.tags.truncate(3);
    legal(&vector);
    let guard = |mask, value| {
        let mut vector = ints(vec![with(OpKind::Add, vec![int(1)])]);
        vector.ops[0].operands[0] = choice(vec![(mask, value, int(1))]);
        vector
    };
    legal(&guard(15, 9));
    refused(&guard(16, 16), VectorFault::Guard { at: 0, mask: 16, value: 16 });
    refused(&guard(1, 2), VectorFault::Guard { at: 0, mask: 1, value: 2 });
    let mut vector = ints(vec![op(OpKind::Filter { mask: 1, value: 1 })]);
    legal(&vector);
    vector.ops.insert(0, op(OpKind::Reduce(reduce(ReduceOp::Add, true, &[(2, true)]))));
    refused(&vector, VectorFault::TagsLost { at: 1 });
}

#[test]
fn one_stash_is_kept_and_read_once() {
    let read = || with(OpKind::Mul0, vec![OperandSource::Stash]);
    legal(&floats(vec![stash(op(OpKind::Sigmoid)), read()]));
    legal(&floats(vec![stash(read())]));
    refused(&floats(vec![op(OpKind::Sigmoid), read()]), VectorFault::StashMissing { at: 1 });
    refused(&floats(vec![stash(op(OpKind::Sigmoid))]), VectorFault::StashUnread { at: 0 });
    refused(&floats(vec![stash(op(OpKind::Sigmoid)), stash(read())]), VectorFault::StashTwice { at: 1 });
    let again = with(OpKind::Mul1, vec![OperandSource::Stash]);
    refused(&floats(vec![stash(op(OpKind::Sigmoid)), read(), again]), VectorFault::StashReadTwice { at: 2 });
    let convert = stash(op(OpKind::ToFloat { int_width: 31 }));
    refused(&ints(vec![convert, read()]), VectorFault::StashWord { at: 1, kept: Word::I32 });
    let sum = op(OpKind::Reduce(reduce(ReduceOp::Add, true, &[(2, true)])));
    let divide = with(OpKind::Div, vec![OperandSource::Stash]);
    refused(&floats(vec![stash(op(OpKind::Exp)), sum, divide]), VectorFault::StashShape { at: 2 });
}

#[test]
fn pairs_are_joined_once() {
    let mut vector = floats(vec![with(OpKind::FAdd, vec![OperandSource::Pair])]);
    refused(&vector, VectorFault::PairOutside { at: 0 });
    vector.pair = true;
    legal(&vector);
    assert_eq!(flits_out(&vector, 6), Some(3));
    assert_eq!(misfit(&vector, 5), Some(VectorFault::PairFlits { at: 0, flits: 5 }));
    vector.ops.push(with(OpKind::Mul0, vec![OperandSource::Pair]));
    refused(&vector, VectorFault::PairTwice { at: 1 });
    vector.ops = vec![with(OpKind::Fma, vec![OperandSource::Pair, OperandSource::Pair])];
    refused(&vector, VectorFault::PairTwice { at: 0 });
    vector.ops = vec![op(OpKind::Exp)];
    refused(&vector, VectorFault::PairMissing);
    let sum = op(OpKind::Reduce(reduce(ReduceOp::Add, true, &[(4, true)])));
    vector.ops = vec![sum, with(OpKind::Div, vec![OperandSource::Pair])];
    refused(&vector, VectorFault::ReduceBeforePair { at: 0 });
    vector.ops =
        vec![stash(with(OpKind::Mul0, vec![float(2.0)])), with(OpKind::Mul1, vec![OperandSource::Stash])];
    vector.ops.insert(1, with(OpKind::FAdd, vec![OperandSource::Pair]));
    refused(&vector, VectorFault::StashShape { at: 2 });
}

#[test]
fn reductions_have_slots_limits_and_halves() {
    let one = |op_: ReduceOp, tree, steps: &[(u64, bool)]| {
        floats(vec![op(OpKind::Reduce(reduce(op_, tree, steps)))])
    };
    legal(&one(ReduceOp::Add, false, &[(4, true), (8, false)]));
    refused(
        &one(ReduceOp::Add, false, &[(4, true), (10, false)]),
        VectorFault::Slots { at: 0, found: 10, most: 8 },
    );
    legal(&one(ReduceOp::Add, false, &[(10, false), (4, true)]));
    for kind in [ReduceOp::AddWrap, ReduceOp::Mul] {
        refused(&one(kind, true, &[(2, true)]), VectorFault::ReduceOp { at: 0, op: kind, word: Word::F32 });
    }
    refused(&one(ReduceOp::Add, false, &[(2, true), (3, false)]), VectorFault::Halves { at: 0 });
    legal(&one(ReduceOp::Add, true, &[(2, true), (3, false)]));
    refused(&one(ReduceOp::Add, true, &[(0, true)]), VectorFault::LoopEmpty { at: 0 });
    refused(
        &one(ReduceOp::Add, true, &[(1, false); 9]),
        VectorFault::SequencerLoops { at: 0, found: 9, most: 8 },
    );
    let long = one(ReduceOp::Add, true, &[(65_538, true)]);
    refused(&long, VectorFault::SequencerSize { at: 0, found: 65_538, most: 65_536 });
    let limited = |elements: &[u64], weights: usize| {
        let mut inner = reduce(ReduceOp::Max, true, &[(2, true)]);
        let limit = |element: &u64| ReduceLimit {
            extent: Count::Fixed(3),
            slices: vec![],
            weights: vec![1; weights],
            element: *element,
        };
        inner.limits = elements.iter().map(limit).collect();
        floats(vec![op(OpKind::Reduce(inner))])
    };
    legal(&limited(&[1, 0, 0, 0], 1));
    refused(&limited(&[1, 1], 1), VectorFault::PacketClippers { at: 0, found: 2, most: 1 });
    refused(&limited(&[0; 4], 1), VectorFault::TimeFilters { at: 0, found: 4, most: 3 });
    refused(&limited(&[0], 2), VectorFault::LimitWeights { at: 0, limit: 0 });
    assert_eq!(misfit(&limited(&[0], 1), 3), Some(VectorFault::ReduceSteps { at: 0, found: 2, needed: 6 }));
}

#[test]
fn the_reducer_between_slices_has_its_own_operations() {
    let between = |word, op, slices, gives| {
        let mut vector = chain(word, vec![]);
        vector.between = Some(InterSliceReduce { op, slices, gives });
        vector
    };
    legal(&between(Word::I32, ReduceOp::AddWrap, 4, ReduceOutput::First));
    legal(&between(Word::F32, ReduceOp::Mul, 4, ReduceOutput::Broadcast));
    let (add, mul) = (ReduceOp::AddWrap, ReduceOp::Mul);
    refused(
        &between(Word::F32, add, 4, ReduceOutput::First),
        VectorFault::BetweenOp { op: add, word: Word::F32 },
    );
    refused(
        &between(Word::I32, mul, 4, ReduceOutput::First),
        VectorFault::BetweenOp { op: mul, word: Word::I32 },
    );
    refused(&between(Word::I32, add, 3, ReduceOutput::First), VectorFault::BetweenSlices { slices: 3 });
    refused(&between(Word::I32, add, 0, ReduceOutput::First), VectorFault::BetweenSlices { slices: 0 });
    refused(&between(Word::I32, add, 2, ReduceOutput::Scatter { inner: 0 }), VectorFault::ScatterEmpty);
    let scatter = between(Word::I32, add, 4, ReduceOutput::Scatter { inner: 2 });
    assert_eq!(flits_out(&scatter, 16), Some(4));
    assert_eq!(misfit(&scatter, 12), Some(VectorFault::ScatterFlits { flits: 12, period: 8 }));
    let three = vec![vec![0; 8]; 3];
    let broadcast = between(Word::I32, add, 2, ReduceOutput::Broadcast);
    assert_eq!(apply(RULES, &broadcast, three, &[]), Err(VectorError::Slices { found: 3, group: 2 }));
}

#[test]
fn register_file_walks_stay_inside_and_fit_the_stream() {
    let add = |source| ints(vec![with(OpKind::Add, vec![source])]);
    legal(&add(vrf(8160, &[(8, 1)])));
    refused(&add(vrf(8164, &[(8, 1)])), VectorFault::VrfRange { at: 0, byte: 8195, capacity: 8192 });
    legal(&add(vrf(28, &[(8, -1)])));
    refused(&add(vrf(24, &[(8, -1)])), VectorFault::VrfRange { at: 0, byte: -4, capacity: 8192 });
    refused(&add(vrf(2, &[(8, 1)])), VectorFault::VrfAlignment { at: 0, base: 2 });
    refused(&add(vrf(0, &[(0, 1)])), VectorFault::LoopEmpty { at: 0 });
    refused(&add(vrf(0, &[(1, 0); 9])), VectorFault::SequencerLoops { at: 0, found: 9, most: 8 });
    refused(&add(vrf(0, &[(70_000, 0)])), VectorFault::SequencerSize { at: 0, found: 70_000, most: 65_536 });
    assert_eq!(
        misfit(&add(vrf(0, &[(8, 1)])), 2),
        Some(VectorFault::VrfElements { at: 0, found: 8, needed: 16 })
    );
    let outside = add(vrf(4, &[(8, 1)]));
    assert_eq!(
        apply(RULES, &outside, vec![vec![0; 8]], &[&[0; 32]]),
        Err(VectorError::Vrf { slice: 0, at: 0 })
    );
    assert_eq!(apply(RULES, &outside, vec![vec![0; 8]], &[]), Err(VectorError::Vrf { slice: 0, at: 0 }));
}

#[test]
fn unknown_sizes_are_left_to_those_who_know_them() {
    let mut inner = reduce(ReduceOp::Add, true, &[(2, true)]);
    inner.steps[0].size = Count::Register(RegisterId(0));
    let vector = floats(vec![op(OpKind::Reduce(inner))]);
    legal(&vector);
    assert_eq!(misfit(&vector, 1), Some(VectorFault::Size { at: 0 }));
    assert_eq!(flits_out(&vector, 1), None);
    assert_eq!(run(&vector, vec![0; 8]), Err(VectorError::Fault(VectorFault::Size { at: 0 })));
    let uneven = apply(RULES, &ints(vec![]), vec![vec![0; 8], vec![0; 16]], &[]);
    assert_eq!(uneven, Err(VectorError::Words { slice: 1, found: 16 }));
    assert_eq!(run(&ints(vec![]), vec![0; 7]), Err(VectorError::Words { slice: 0, found: 7 }));
}

#[test]
fn facts_follow_from_the_chain() {
    let mut vector = ints(vec![
        with(OpKind::Add, vec![int(1)]),
        op(OpKind::ToFloat { int_width: 31 }),
        op(OpKind::Exp),
        op(OpKind::Reduce(reduce(ReduceOp::Add, true, &[(8, true)]))),
        with(OpKind::Div, vec![float(4.0)]),
        with(OpKind::ClipMax, vec![float(0.0)]),
    ]);
    vector.tags = vec![Comparison { relation: Relation::Lt, word: 0 }];
    legal(&vector);
    assert!(narrow(&vector));
    assert!(!narrow(&ints(vec![with(OpKind::Add, vec![int(1)])])));
    assert_eq!(units(&vector), 5);
    assert_eq!(flits_out(&vector, 4), Some(1));
    // 32 compared and 32 added; 32 converted and summed, 8 clipped; 32 exponentials and 4 quotients.
    assert_eq!(op_counts(&vector, 4), Some(OpCounts { int: 64, float: 72, exp: 36 }));
    vector.between = Some(InterSliceReduce { op: ReduceOp::Max, slices: 4, gives: ReduceOutput::First });
    assert_eq!(op_counts(&vector, 4), Some(OpCounts { int: 64, float: 80, exp: 36 }));
    let cost = cycles::vector::VectorStage::of(&vector, 4);
    assert_eq!((cost.flits, cost.narrow, cost.upper_half_padding), (4, true, false));
    assert_eq!((cost.units, cost.reduced_slices), (5, 4));
}
