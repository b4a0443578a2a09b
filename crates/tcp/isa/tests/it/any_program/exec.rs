//! Random tensor unit commands.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tilewright_base::Span;
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, ExecBody, Fetch, Fill, FlitTranspose, Indirect, Interleave,
    Limit, Lookup, Loop, Memory, Shift, ShortLoad, SliceDigit, StepLoop, Stream, Switch, Transpose,
};
use tilewright_tcp_isa::switch::{Ring, Topology};

use super::{Declared, any_count, any_dtype, any_name, any_number, any_signed, any_vector};

/// A tensor unit command.
pub(crate) fn any_exec(declared: Declared) -> impl Strategy<Value = Exec> {
    let short = (any_number(), any_number(), any_memory(), any_number())
        .prop_map(|(from, bytes, memory, base)| ExecBody::Short(ShortLoad { from, bytes, memory, base }));
    let fill =
        (any::<u64>(), any_commit(declared)).prop_map(|(word, commit)| ExecBody::Fill(Fill { word, commit }));
    let stream = any_stream(declared).prop_map(|stream| ExecBody::Stream(Box::new(stream)));
    let body = prop_oneof![4 => stream, 1 => fill, 1 => short];
    (any_name(), any_context(), any_number(), body).prop_map(|(name, context, pes, body)| Exec {
        name,
        context,
        pes,
        body,
        span: Span::default(),
    })
}

pub(super) fn any_context() -> impl Strategy<Value = Context> {
    prop_oneof![Just(Context::Main), Just(Context::Sub)]
}

fn any_stream(declared: Declared) -> impl Strategy<Value = Stream> {
    let transpose = (any_number(), any_number(), any_number(), any::<bool>());
    let transpose = transpose.prop_map(|(rows, columns, kept, all)| Transpose {
        rows,
        columns,
        kept: if all { columns } else { kept },
    });
    (
        any_fetch(declared),
        any_switch(),
        option::of(any_contract(declared)),
        option::of(any_vector(declared)),
        option::of(any_dtype()),
        option::of(transpose),
        any_commit(declared),
    )
        .prop_map(|(fetch, switch, contract, vector, cast, transpose, commit)| Stream {
            fetch,
            switch,
            contract,
            vector,
            cast,
            transpose,
            commit,
        })
}

pub(super) fn any_loops(declared: Declared) -> impl Strategy<Value = Vec<Loop>> {
    vec((any_count(declared), any_signed()).prop_map(|(size, stride)| Loop { size, stride }), 0..5)
}

pub(super) fn any_steps(declared: Declared) -> impl Strategy<Value = Vec<StepLoop>> {
    vec((any_count(declared), any::<bool>()).prop_map(|(size, summed)| StepLoop { size, summed }), 0..5)
}

pub(super) fn any_slices() -> impl Strategy<Value = Vec<SliceDigit>> {
    let digit = (any_number(), any_number(), any_number());
    vec(digit.prop_map(|(stride, size, weight)| SliceDigit { stride, size, weight }), 0..3)
}

fn any_fetch(declared: Declared) -> impl Strategy<Value = Fetch> {
    let interleave = (0..9_usize, any_number()).prop_map(|(at_loop, base)| Interleave { at_loop, base });
    let indirect = (0..9_usize, any_number()).prop_map(|(at_loop, table)| Indirect { at_loop, table });
    let limit = (any_count(declared), any_slices(), vec(any_number(), 0..3))
        .prop_map(|(extent, slices, weights)| Limit { extent, slices, weights });
    let lookup =
        (any_dtype(), vec(any::<u32>(), 0..40)).prop_map(|(dtype, patterns)| Lookup { dtype, patterns });
    (
        (any_dtype(), any_number(), any_loops(declared), any_number()),
        option::of(interleave),
        option::of(indirect),
        vec(limit, 0..3),
        option::of(lookup),
        option::of(any_dtype()),
        option::of(any_signed()),
    )
        .prop_map(
            |((dtype, base, loops, packet), interleave, indirect, limits, lookup, cast, zero_point)| Fetch {
                dtype,
                base,
                interleave,
                loops,
                packet,
                indirect,
                limits,
                lookup,
                cast,
                zero_point,
            },
        )
}

fn any_switch() -> impl Strategy<Value = Switch> {
    let ring = || (any_number(), any_number()).prop_map(|(slice1, slice0)| Ring { slice1, slice0 });
    let topology = prop_oneof![
        Just(Topology::Forwarding),
        (ring(), any_number()).prop_map(|(ring, time0)| Topology::Broadcast01(ring, time0)),
        ring().prop_map(Topology::Broadcast1),
        ring().prop_map(Topology::Transpose),
        (ring(), any_number()).prop_map(|(ring, time0)| Topology::InterTranspose(ring, time0)),
        ring().prop_map(Topology::TransposedBroadcast1),
        any_number().prop_map(Topology::Custom),
    ];
    let sources = prop_oneof![2 => Just(Vec::new()), 1 => vec(vec(any::<u16>(), 0..6), 0..8)];
    (topology, sources).prop_map(|(topology, sources)| Switch { topology, sources })
}

fn any_contract(declared: Declared) -> impl Strategy<Value = Contract> {
    let transpose = (any_number(), any_number()).prop_map(|(rows, columns)| FlitTranspose { rows, columns });
    let shift = (any_signed(), any_number(), any_number(), any_number())
        .prop_map(|(initial, stride, shifts, pop)| Shift { initial, stride, shifts, pop });
    (
        (any::<bool>(), any::<bool>(), any_number(), any_number(), any_number()),
        option::of(transpose),
        option::of(shift),
        any_count(declared),
        (any_dtype(), any_number(), any_loops(declared)),
        any_steps(declared),
    )
        .prop_map(|((max, sequential, flits, lanes, tree), transpose, shift, repeats, trf, steps)| {
            Contract {
                op: if max { ContractOp::Max } else { ContractOp::Add },
                flits,
                transpose,
                shift,
                repeats,
                lanes,
                dtype: trf.0,
                base: trf.1,
                loops: trf.2,
                tree,
                steps,
                drain: if sequential { Drain::Sequential } else { Drain::Interleaved },
            }
        })
}

fn any_memory() -> impl Strategy<Value = Memory> {
    prop_oneof![Just(Memory::Dm), any_number().prop_map(|lanes| Memory::Trf { lanes }), Just(Memory::Vrf)]
}

fn any_commit(declared: Declared) -> impl Strategy<Value = Commit> {
    (
        any_memory(),
        any_number(),
        any_loops(declared),
        (any_number(), any_number()),
        (any::<bool>(), any::<bool>()),
        vec((any_number(), any_number()), 0..3),
    )
        .prop_map(|(memory, base, loops, (bytes, width), (to_bf16, relu), slices)| Commit {
            memory,
            base,
            loops,
            bytes,
            width,
            to_bf16,
            relu,
            slices,
        })
}
