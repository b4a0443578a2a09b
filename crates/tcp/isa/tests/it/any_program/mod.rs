//! Random programs: every field takes every value that its type allows, whether or not a machine could run
//! it.
//!
//! Names are unique and ids point at declarations; shapes are mixed radices. Spans are empty.

#![allow(dead_code, reason = "each test uses its part")]

mod control;
mod exec;
mod tensor;
mod vector;

pub(crate) use control::any_queue;
pub(crate) use exec::any_exec;
pub(crate) use tensor::any_tensor;
pub(crate) use vector::any_vector;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tilewright_base::Span;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::transfer::{
    Address, MOST_CHIPS, MemoryInstance, MemoryLocation, SLICE_STRIDE, TransferIndex, TransferLoop,
};
use tilewright_tcp_isa::program::{Count, Grant, Program, Register, RegisterId, Transfer};

/// How many of each are declared, so that ids can be drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    pub(crate) registers: u32,
    pub(crate) transfers: u32,
    pub(crate) execs: u32,
}

/// A whole program.
pub(crate) fn any_program() -> impl Strategy<Value = Program> {
    (1..4_u32, 1..4_u32, 1..4_u32).prop_flat_map(|(registers, transfers, execs)| {
        let declared = Declared { registers, transfers, execs };
        (
            any_name(),
            1..=MOST_CHIPS,
            vec(any_register(), registers as usize),
            (vec(any_tensor(), 0..3), vec(any_grant(), 0..3)),
            vec(any_transfer(declared), transfers as usize),
            vec(any_exec(declared), execs as usize),
            vec(any_queue(declared), 0..3),
        )
            .prop_map(|(machine, chips, registers, (tensors, grants), transfers, execs, queues)| {
                let mut program =
                    Program { machine, chips, registers, tensors, transfers, execs, queues, grants };
                make_unique(program.registers.iter_mut().map(|register| &mut register.name));
                make_unique(program.tensors.iter_mut().map(|tensor| &mut tensor.name));
                make_unique(program.transfers.iter_mut().map(|transfer| &mut transfer.name));
                make_unique(program.execs.iter_mut().map(|exec| &mut exec.name));
                program
            })
    })
}

fn make_unique<'a>(names: impl Iterator<Item = &'a mut String>) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        while !seen.insert(name.clone()) {
            name.push('x');
        }
    }
}

/// Words, words of the grammar, and what can only stand in quotes.
pub(crate) fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z_][a-z0-9_]{0,8}(\\.[a-z_][a-z0-9]{0,3})?",
        1 => prop_oneof![Just("sum"), Just("to"), Just("min"), Just("in"), Just("vrf"), Just("else"),
            Just("slice")]
            .prop_map(str::to_string),
        1 => "[ -~é\n\\\\\"]{0,6}",
    ]
}

/// Small numbers, round ones, and any.
pub(crate) fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..20_u64, 2 => (0..20_u32).prop_map(|bit| 1 << bit), 1 => any::<u64>()]
}

pub(crate) fn any_signed() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -20..20_i64, 1 => any::<i64>(), 1 => Just(i64::MIN),
        1 => (-3..4_i64).prop_map(|n| n * SLICE_STRIDE)]
}

pub(crate) fn any_dtype() -> impl Strategy<Value = Dtype> {
    proptest::sample::select(Dtype::ALL.to_vec())
}

pub(crate) fn any_register_id(declared: Declared) -> impl Strategy<Value = RegisterId> {
    (0..declared.registers).prop_map(RegisterId)
}

pub(crate) fn any_count(declared: Declared) -> impl Strategy<Value = Count> {
    prop_oneof![3 => any_number().prop_map(Count::Fixed),
        1 => any_register_id(declared).prop_map(Count::Register)]
}

fn any_register() -> impl Strategy<Value = Register> {
    let range = prop_oneof![2 => (any_signed(), any_signed()), 1 => Just((i64::MIN, i64::MAX))];
    (any_name(), any_signed(), range).prop_map(|(name, initial, (least, most))| Register {
        name,
        initial,
        least,
        most,
        span: Span::default(),
    })
}

pub(crate) fn any_address() -> impl Strategy<Value = Address> {
    let chip = prop_oneof![2 => Just(0), 1 => 0..1_u64 << 20];
    let medium = prop_oneof![
        Just(MemoryInstance::Hbm),
        (0..600_u64).prop_map(|slice| MemoryInstance::Dm { slice }),
        (0..8_u64).prop_map(|pe| MemoryInstance::Spm { pe }),
    ];
    let located = (chip, medium, 0..1_u64 << 22);
    prop_oneof![
        4 => located.prop_map(|(chip, medium, offset)| Address::new(MemoryLocation { chip, medium, offset })),
        1 => any::<u64>().prop_map(Address),
    ]
}

fn any_grant() -> impl Strategy<Value = Grant> {
    let pes = prop_oneof![2 => (0..8_u64).prop_map(|pe| (pe, pe + 1)), 1 => (any_number(), any_number())];
    (0..3_u64, pes, any_address(), any_number(), any::<bool>()).prop_map(
        |(chip, pes, first, bytes, write)| Grant { chip, pes, first, bytes, write, span: Span::default() },
    )
}

fn any_transfer(declared: Declared) -> impl Strategy<Value = Transfer> {
    let row = (any_count(declared), any_signed(), any_signed());
    let row = row.prop_map(|(size, source, target)| TransferLoop { size, source, target });
    let index = (any_address(), any_dtype(), any::<bool>());
    let index = index.prop_map(|(table, dtype, scatter)| TransferIndex { table, dtype, scatter });
    (any_name(), any_address(), any_address(), vec(row, 0..4), any_number(), option::of(index)).prop_map(
        |(name, source, target, loops, packet, index)| Transfer {
            name,
            source,
            target,
            loops,
            packet,
            index,
            span: Span::default(),
        },
    )
}
