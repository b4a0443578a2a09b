//! Random chains of the vector engine.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tilewright_tcp_isa::program::vector::{
    Comparison, GuardedSource, InterSliceReduce, Op, OpKind, OperandChoice, OperandSource, Reduce,
    ReduceLimit, ReduceOp, ReduceOutput, Relation, Vector, Word,
};

use super::exec::{any_loops, any_slices, any_steps};
use super::{Declared, any_count, any_number};

/// What the vector engine does.
pub(crate) fn any_vector(declared: Declared) -> impl Strategy<Value = Vector> {
    let tag = (any_relation(), any_word()).prop_map(|(relation, word)| Comparison { relation, word });
    (
        prop_oneof![Just(Word::I32), Just(Word::F32)],
        (any::<bool>(), any::<bool>(), any::<bool>()),
        vec(tag, 0..3),
        vec(any_op(declared), 0..5),
        option::of(any_between()),
    )
        .prop_map(|(input, (trim, pair, between_first), tags, ops, between)| Vector {
            input,
            trim,
            pair,
            tags,
            ops,
            between,
            between_first,
        })
}

pub(super) fn any_relation() -> impl Strategy<Value = Relation> {
    use Relation::{Eq, Ge, Gt, Le, Lt, Ne};
    select(vec![Eq, Ne, Lt, Le, Gt, Ge])
}

/// Patterns of integers and of floats, odd ones included.
fn any_word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (-9..9_i32).prop_map(i32::cast_unsigned),
        (-9..9_i8).prop_map(|n| (f32::from(n) / 8.0).to_bits()),
        select(vec![f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE, 1e-45, f32::MAX])
            .prop_map(f32::to_bits),
    ]
}

fn any_op(declared: Declared) -> impl Strategy<Value = Op> {
    let guarded = (0..3_u8, 0..3_u8, any_source(declared));
    let guarded = guarded.prop_map(|(mask, value, source)| GuardedSource { mask, value, source });
    let choice = vec(guarded, 0..3).prop_map(|sources| OperandChoice { sources });
    (any_kind(declared), vec(choice, 0..3), any::<bool>(), any::<bool>())
        .prop_map(|(kind, operands, reversed, stash)| Op { kind, operands, reversed, stash })
}

fn any_source(declared: Declared) -> impl Strategy<Value = OperandSource> {
    let vrf =
        (any_number(), any_loops(declared)).prop_map(|(base, loops)| OperandSource::Vrf { base, loops });
    prop_oneof![3 => any_word().prop_map(OperandSource::Immediate), 1 => vrf, 1 => Just(OperandSource::Stash),
        1 => Just(OperandSource::Pair)]
}

fn any_kind(declared: Declared) -> impl Strategy<Value = OpKind> {
    use OpKind as K;
    let plain = select(vec![
        K::And,
        K::Or,
        K::Xor,
        K::Shl,
        K::Shr,
        K::Add,
        K::AddSat,
        K::Sub,
        K::SubSat,
        K::ShlSat,
        K::Mul,
        K::MulQ31,
        K::ShrLogic,
        K::ShrArith,
        K::ShrRound,
        K::FAdd,
        K::FSub,
        K::FMul,
        K::Fma,
        K::Sqrt,
        K::Tanh,
        K::Sigmoid,
        K::Erf,
        K::Log,
        K::Sin,
        K::Cos,
        K::FpuDiv,
        K::Exp,
        K::ExpNeg,
        K::Mul0,
        K::Mul1,
        K::Div,
        K::ClipAdd,
        K::ClipMax,
        K::ClipAbsMax,
        K::ClipMin,
        K::ClipAbsMin,
    ]);
    let limit = (any_count(declared), any_slices(), vec(any_number(), 0..3), any_number());
    let limit =
        limit.prop_map(|(extent, slices, weights, element)| ReduceLimit { extent, slices, weights, element });
    let reduce = (any_reduce_op(), any::<bool>(), any_steps(declared), vec(limit, 0..3));
    prop_oneof![
        6 => plain,
        1 => any::<u32>().prop_map(|int_width| K::ToFloat { int_width }),
        1 => any::<u32>().prop_map(|int_width| K::ToFixed { int_width }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(mask, value)| K::Filter { mask, value }),
        2 => reduce.prop_map(|(op, tree, steps, limits)| K::Reduce(Reduce { op, tree, steps, limits })),
    ]
}

fn any_reduce_op() -> impl Strategy<Value = ReduceOp> {
    use ReduceOp::{Add, AddWrap, Max, Min, Mul};
    select(vec![Add, AddWrap, Max, Min, Mul])
}

fn any_between() -> impl Strategy<Value = InterSliceReduce> {
    let gives = prop_oneof![
        Just(ReduceOutput::First),
        Just(ReduceOutput::Broadcast),
        any_number().prop_map(|inner| ReduceOutput::Scatter { inner })
    ];
    (any_reduce_op(), any_number(), gives).prop_map(|(op, slices, gives)| InterSliceReduce {
        op,
        slices,
        gives,
    })
}
