//! Random queues, with steps nested a few levels deep.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tilewright_base::Span;
use tilewright_tcp_isa::program::control::{
    Command, Condition, ControlExpr, ControlOp, ControlOperand, Queue, Step, StepKind,
};
use tilewright_tcp_isa::program::{ExecId, TransferId};

use super::exec::any_context;
use super::vector::any_relation;
use super::{Declared, any_address, any_dtype, any_number, any_register_id, any_signed};

/// What a control core does.
pub(crate) fn any_queue(declared: Declared) -> impl Strategy<Value = Queue> {
    (any_number(), any_number(), vec(any_step(declared), 0..6)).prop_map(|(chip, pe, steps)| Queue {
        chip,
        pe,
        steps,
        span: Span::default(),
    })
}

fn any_step(declared: Declared) -> impl Strategy<Value = Step> {
    any_leaf(declared)
        .prop_recursive(3, 24, 4, move |inner| {
            let body = || vec(inner.clone().prop_map(step), 0..4);
            let count = (any_register_id(declared), any_value(declared), any_value(declared), body());
            prop_oneof![
                count.prop_map(|(register, from, to, body)| StepKind::For { register, from, to, body }),
                (any_condition(declared), body(), body())
                    .prop_map(|(condition, then, otherwise)| StepKind::If { condition, then, otherwise }),
                (any_condition(declared), body())
                    .prop_map(|(condition, body)| StepKind::While { condition, body }),
            ]
        })
        .prop_map(step)
}

fn step(kind: StepKind) -> Step {
    Step { kind, span: Span::default() }
}

fn any_leaf(declared: Declared) -> impl Strategy<Value = StepKind> {
    let read = (any_register_id(declared), any_address(), any_dtype());
    let receive = (any_number(), any_number(), option::of(any_register_id(declared)));
    prop_oneof![
        4 => any_command(declared).prop_map(StepKind::Push),
        1 => any_command(declared).prop_map(StepKind::PushUnchecked),
        2 => (any_register_id(declared), any_value(declared))
            .prop_map(|(id, value)| StepKind::Set(id, value)),
        1 => read.prop_map(|(register, address, dtype)| StepKind::Read { register, address, dtype }),
        1 => Just(StepKind::Sync),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(transfer, id)| StepKind::Await { transfer, id }),
        1 => (any_number(), any_number(), any_value(declared))
            .prop_map(|(chip, pe, value)| StepKind::Post { chip, pe, value }),
        1 => receive.prop_map(|(chip, pe, register)| StepKind::Receive { chip, pe, register }),
    ]
}

fn any_command(declared: Declared) -> impl Strategy<Value = Command> {
    prop_oneof![
        (0..declared.transfers, any::<u8>())
            .prop_map(|(transfer, id)| Command::Dma { transfer: TransferId(transfer), id }),
        (0..declared.execs).prop_map(|exec| Command::Load(ExecId(exec))),
        (any_context(), any::<u8>()).prop_map(|(context, id)| Command::Exec { context, id }),
        any::<u8>().prop_map(Command::WaitD),
        any::<u8>().prop_map(Command::WaitE),
    ]
}

fn any_term(declared: Declared) -> impl Strategy<Value = ControlOperand> {
    prop_oneof![
        any_signed().prop_map(ControlOperand::Number),
        any_register_id(declared).prop_map(ControlOperand::Register)
    ]
}

fn any_value(declared: Declared) -> impl Strategy<Value = ControlExpr> {
    use ControlOp::{Add, Div, Max, Min, Mul, Rem, Sub};
    let operation = select(vec![Add, Sub, Mul, Div, Rem, Min, Max]);
    prop_oneof![
        any_term(declared).prop_map(ControlExpr::Operand),
        (any_term(declared), operation, any_term(declared))
            .prop_map(|(left, operation, right)| ControlExpr::Binary(left, operation, right)),
    ]
}

fn any_condition(declared: Declared) -> impl Strategy<Value = Condition> {
    (any_term(declared), any_relation(), any_term(declared)).prop_map(|(left, relation, right)| Condition {
        left,
        relation,
        right,
    })
}
