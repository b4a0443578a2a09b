//! Integer arithmetic and comparisons of control cores (paper section V-A: dynamic shapes and control flow).

use tilewright_base::invariant::OrBroken;
use tilewright_tcp_isa::program::control::{Condition, ControlExpr, ControlOp, ControlOperand};
use tilewright_tcp_isa::program::vector::Relation;

/// The value of two operands at most.
pub(crate) fn evaluate(value: ControlExpr, registers: &[i64]) -> i64 {
    match value {
        ControlExpr::Operand(term) => look_up(term, registers),
        ControlExpr::Binary(left, arithmetic, right) => {
            let (a, b) = (look_up(left, registers), look_up(right, registers));
            match arithmetic {
                ControlOp::Add => a.wrapping_add(b),
                ControlOp::Sub => a.wrapping_sub(b),
                ControlOp::Mul => a.wrapping_mul(b),
                ControlOp::Div if b == 0 => 0,
                ControlOp::Div => a.wrapping_div(b),
                ControlOp::Rem if b == 0 => 0,
                ControlOp::Rem => a.wrapping_rem(b),
                ControlOp::Min => a.min(b),
                ControlOp::Max => a.max(b),
            }
        }
    }
}

fn look_up(term: ControlOperand, registers: &[i64]) -> i64 {
    match term {
        ControlOperand::Number(value) => value,
        ControlOperand::Register(id) => {
            *registers.get(id.0 as usize).or_broken("a verified program names registers that exist")
        }
    }
}

/// Whether a comparison holds.
pub(crate) fn holds(condition: Condition, registers: &[i64]) -> bool {
    let (left, right) = (look_up(condition.left, registers), look_up(condition.right, registers));
    match condition.relation {
        Relation::Eq => left == right,
        Relation::Ne => left != right,
        Relation::Lt => left < right,
        Relation::Le => left <= right,
        Relation::Gt => left > right,
        Relation::Ge => left >= right,
    }
}
