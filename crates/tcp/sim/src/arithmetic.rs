//! Integer arithmetic and comparisons of control cores (paper section V-A: dynamic shapes and control flow).

use tilewright_tcp_isa::program::control::{Arithmetic, Condition, Term, Value};
use tilewright_tcp_isa::program::vector::Relation;

/// The value of two operands at most.
pub(crate) fn evaluate(value: Value, registers: &[i64]) -> i64 {
    match value {
        Value::Just(term) => look_up(term, registers),
        Value::Both(left, arithmetic, right) => {
            let (a, b) = (look_up(left, registers), look_up(right, registers));
            match arithmetic {
                Arithmetic::Add => a.wrapping_add(b),
                Arithmetic::Sub => a.wrapping_sub(b),
                Arithmetic::Mul => a.wrapping_mul(b),
                Arithmetic::Div if b == 0 => 0,
                Arithmetic::Div => a.wrapping_div(b),
                Arithmetic::Rem if b == 0 => 0,
                Arithmetic::Rem => a.wrapping_rem(b),
                Arithmetic::Min => a.min(b),
                Arithmetic::Max => a.max(b),
            }
        }
    }
}

fn look_up(term: Term, registers: &[i64]) -> i64 {
    match term {
        Term::Number(value) => value,
        Term::Register(id) => registers.get(id.0 as usize).copied().unwrap_or(0),
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
