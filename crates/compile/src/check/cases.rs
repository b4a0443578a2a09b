//! Values that control registers may have: ranges that are cut wherever a branch depends on them.
//!
//! Every PE starts with the same registers, so that a branch on one that no step has set goes the same way in
//! all queues. Where a branch depends on anything else, both ways are followed.

use std::sync::Arc;

use tilewright_tcp_isa::program::control::{Condition, ControlExpr, ControlOp, ControlOperand};
use tilewright_tcp_isa::program::vector::Relation;
use tilewright_tcp_isa::program::{Program, RegisterId};

/// A range of values, both ends included, and whether it is still that of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueRange {
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) initial: bool,
}

impl ValueRange {
    fn has(&self, value: i64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    fn exact(value: i64) -> ValueRange {
        ValueRange { least: value, most: value, initial: false }
    }
}

/// A register that the host sets by another: what it is told is never less where the other is greater.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterTie {
    /// The one that is set by the other.
    pub of: RegisterId,
    /// The other.
    pub by: RegisterId,
    /// Both, for each value of the other, the least first.
    pub values: Vec<(i64, i64)>,
}

/// One way through a program.
#[derive(Clone, Debug)]
pub(super) struct ProgramCase {
    pub(super) registers: Vec<ValueRange>,
    ties: Arc<[RegisterTie]>,
    /// Ways taken where registers do not tell, in the order in which they are asked for.
    pub(super) ways: Vec<bool>,
}

/// A case that must be cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseSplit {
    /// Below and above a value: the first range ends with it.
    Register(RegisterId, i64),
    /// Both ways of a branch.
    Way,
    /// More steps than are followed.
    TooLong,
}

impl ProgramCase {
    /// Everything that registers may be.
    pub(super) fn all(program: &Program, ties: &[RegisterTie]) -> ProgramCase {
        let range = |register: &tilewright_tcp_isa::program::Register| ValueRange {
            least: register.least,
            most: register.most,
            initial: true,
        };
        let registers = program.registers.iter().map(range).collect();
        ProgramCase { registers, ties: ties.into(), ways: Vec::new() }
    }

    /// Leaves out what no host would tell: values of tied registers without one of the other's.
    fn tied(mut self) -> ProgramCase {
        for tie in Arc::clone(&self.ties).iter() {
            let [of, by] = [tie.of, tie.by].map(|id| id.0 as usize);
            let (Some(&own), Some(&other)) = (self.registers.get(of), self.registers.get(by)) else {
                continue;
            };
            let possible = |(by, of): &&(i64, i64)| other.has(*by) && own.has(*of);
            let mut possible = tie.values.iter().filter(|_| own.initial && other.initial).filter(possible);
            let Some(first) = possible.next() else { continue };
            let last = possible.next_back().unwrap_or(first);
            self.registers[by] = ValueRange { least: first.0, most: last.0, ..other };
            self.registers[of] = ValueRange { least: first.1, most: last.1, ..own };
        }
        self
    }

    /// Some registers have known values.
    pub(super) fn with(mut self, known: &[(RegisterId, i64)]) -> ProgramCase {
        for (id, value) in known {
            if let Some(range) = self.registers.get_mut(id.0 as usize) {
                *range = ValueRange { initial: true, ..ValueRange::exact(*value) };
            }
        }
        self
    }

    /// The two halves.
    pub(super) fn cut(&self, cut: CaseSplit) -> Vec<ProgramCase> {
        match cut {
            CaseSplit::Register(id, at) => {
                let (mut below, mut above) = (self.clone(), self.clone());
                if let Some(range) = below.registers.get_mut(id.0 as usize) {
                    range.most = at;
                }
                if let Some(range) = above.registers.get_mut(id.0 as usize) {
                    range.least = at.saturating_add(1);
                }
                vec![below.tied(), above.tied()]
            }
            CaseSplit::Way => [false, true]
                .into_iter()
                .map(|way| {
                    let mut case = self.clone();
                    case.ways.push(way);
                    case
                })
                .collect(),
            CaseSplit::TooLong => Vec::new(),
        }
    }
}

fn term(term: ControlOperand, registers: &[ValueRange]) -> ValueRange {
    match term {
        ControlOperand::Number(value) => ValueRange::exact(value),
        ControlOperand::Register(id) => registers.get(id.0 as usize).copied().unwrap_or(ValueRange::exact(0)),
    }
}

/// What a value may be, between bounds.
pub(super) fn value(value: ControlExpr, registers: &[ValueRange], bounds: ValueRange) -> ValueRange {
    let range = match value {
        ControlExpr::Operand(only) => term(only, registers),
        ControlExpr::Binary(left, arithmetic, right) => {
            let (a, b) = (term(left, registers), term(right, registers));
            both(a, arithmetic, b).unwrap_or(bounds)
        }
    };
    ValueRange { initial: false, ..range }
}

/// Ranges of results where they are easy to tell; `None` is anything.
fn both(a: ValueRange, arithmetic: ControlOp, b: ValueRange) -> Option<ValueRange> {
    let ends = [(a.least, b.least), (a.least, b.most), (a.most, b.least), (a.most, b.most)];
    let over = |result: fn(i64, i64) -> Option<i64>| {
        let all = ends.iter().map(|(a, b)| result(*a, *b)).collect::<Option<Vec<i64>>>()?;
        Some(ValueRange { least: *all.iter().min()?, most: *all.iter().max()?, initial: false })
    };
    let known = a.least == a.most && b.least == b.most;
    match arithmetic {
        ControlOp::Add => over(i64::checked_add),
        ControlOp::Sub => over(i64::checked_sub),
        ControlOp::Mul => over(i64::checked_mul),
        ControlOp::Min => over(|a, b| Some(a.min(b))),
        ControlOp::Max => over(|a, b| Some(a.max(b))),
        // Divided by zero, a control core gives zero.
        ControlOp::Div | ControlOp::Rem if known && b.least == 0 => Some(ValueRange::exact(0)),
        ControlOp::Div if known => Some(ValueRange::exact(a.least.wrapping_div(b.least))),
        ControlOp::Rem if known => Some(ValueRange::exact(a.least.wrapping_rem(b.least))),
        ControlOp::Div | ControlOp::Rem => None,
    }
}

/// Whether a condition holds, or how to cut the case so that it can be told.
pub(super) fn holds(condition: Condition, registers: &[ValueRange]) -> Result<bool, CaseSplit> {
    let (left, right) = (term(condition.left, registers), term(condition.right, registers));
    let known = match condition.relation {
        Relation::Lt => below(left, right),
        Relation::Ge => below(left, right).map(|is| !is),
        Relation::Gt => below(right, left),
        Relation::Le => below(right, left).map(|is| !is),
        Relation::Eq => equal(left, right),
        Relation::Ne => equal(left, right).map(|is| !is),
    };
    if let Some(known) = known {
        return Ok(known);
    }
    match (condition.left, right.least == right.most) {
        (ControlOperand::Register(id), true) if left.initial => {
            let at = match condition.relation {
                Relation::Gt | Relation::Le => right.least,
                Relation::Lt | Relation::Ge => right.least - 1,
                // First what is below, then the value itself.
                Relation::Eq | Relation::Ne if left.least < right.least => right.least - 1,
                Relation::Eq | Relation::Ne => right.least,
            };
            Err(CaseSplit::Register(id, at))
        }
        _ => Err(CaseSplit::Way),
    }
}

fn below(left: ValueRange, right: ValueRange) -> Option<bool> {
    if left.most < right.least {
        Some(true)
    } else if left.least >= right.most {
        Some(false)
    } else {
        None
    }
}

fn equal(left: ValueRange, right: ValueRange) -> Option<bool> {
    if left.most < right.least || right.most < left.least {
        Some(false)
    } else if left.least == left.most && right.least == right.most {
        Some(true)
    } else {
        None
    }
}
