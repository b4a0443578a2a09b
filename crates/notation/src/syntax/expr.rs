//! Size expressions: `4`, `E`, `E/s`, `2*E`, `ceil(E/s)`, and their values.
//!
//! Division must come out whole: `E/s` with E = 65 and s = 4 is refused rather than rounded, because a
//! rounded digit would cover other coordinates than the one written. `ceil(E/s)` rounds up and says so.

use std::fmt;

use tilewright_base::Name;

/// A size or stride as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A number.
    Int(u64),
    /// A symbol of the size table.
    Symbol(Name),
    /// Two expressions and an operator.
    Binary(Box<(Operator, Expr, Expr)>),
}

/// Operators of size expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `a+b`
    Add,
    /// `a-b`
    Subtract,
    /// `a*b`
    Multiply,
    /// `a/b`, exact
    Divide,
    /// `ceil(a/b)`
    CeilDivide,
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// The symbol is not in the size table.
    Unbound(Name),
    /// The division leaves a remainder.
    NotWhole(u64, u64),
    /// Division by zero.
    ByZero,
    /// Below zero or above 2^64-1.
    Overflow,
}

impl Expr {
    /// An operator applied to two expressions.
    pub fn binary(operator: Operator, left: Expr, right: Expr) -> Expr {
        Expr::Binary(Box::new((operator, left, right)))
    }

    /// The value under a table of symbols.
    pub fn value(&self, lookup: &impl Fn(Name) -> Option<u64>) -> Result<u64, NoValue> {
        match self {
            Expr::Int(value) => Ok(*value),
            Expr::Symbol(name) => lookup(*name).ok_or(NoValue::Unbound(*name)),
            Expr::Binary(parts) => {
                let (operator, left, right) = &**parts;
                apply(*operator, left.value(lookup)?, right.value(lookup)?)
            }
        }
    }

    fn is_sum(&self) -> bool {
        matches!(self, Expr::Binary(parts) if matches!(parts.0, Operator::Add | Operator::Subtract))
    }

    fn is_product(&self) -> bool {
        matches!(self, Expr::Binary(parts) if matches!(parts.0, Operator::Multiply | Operator::Divide))
    }
}

fn apply(operator: Operator, left: u64, right: u64) -> Result<u64, NoValue> {
    match operator {
        Operator::Add => left.checked_add(right).ok_or(NoValue::Overflow),
        Operator::Subtract => left.checked_sub(right).ok_or(NoValue::Overflow),
        Operator::Multiply => left.checked_mul(right).ok_or(NoValue::Overflow),
        Operator::Divide | Operator::CeilDivide if right == 0 => Err(NoValue::ByZero),
        Operator::Divide if !left.is_multiple_of(right) => Err(NoValue::NotWhole(left, right)),
        Operator::Divide => Ok(left / right),
        Operator::CeilDivide => Ok(left.div_ceil(right)),
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Int(value) => write!(f, "{value}"),
            Expr::Symbol(name) => write!(f, "{name}"),
            Expr::Binary(parts) => {
                let (operator, left, right) = &**parts;
                print_binary(f, *operator, left, right)
            }
        }
    }
}

/// Prints with the fewest parentheses that read back as the same tree.
fn print_binary(f: &mut fmt::Formatter<'_>, operator: Operator, left: &Expr, right: &Expr) -> fmt::Result {
    let (sign, left_wrapped, right_wrapped) = match operator {
        Operator::CeilDivide => {
            let wrap = |f: &mut fmt::Formatter<'_>, e: &Expr, wrapped: bool| {
                if wrapped { write!(f, "({e})") } else { write!(f, "{e}") }
            };
            f.write_str("ceil(")?;
            wrap(f, left, left.is_sum())?;
            f.write_str("/")?;
            wrap(f, right, right.is_sum() || right.is_product())?;
            return f.write_str(")");
        }
        Operator::Add => ("+", false, right.is_sum()),
        Operator::Subtract => ("-", false, right.is_sum()),
        Operator::Multiply => ("*", left.is_sum(), right.is_sum() || right.is_product()),
        Operator::Divide => ("/", left.is_sum(), right.is_sum() || right.is_product()),
    };
    if left_wrapped { write!(f, "({left})") } else { write!(f, "{left}") }?;
    f.write_str(sign)?;
    if right_wrapped { write!(f, "({right})") } else { write!(f, "{right}") }
}
