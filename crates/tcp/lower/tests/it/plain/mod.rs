//! Einsums as plain loops over every coordinate, in no machine's order: the reference of lowered programs.

#![allow(dead_code, reason = "each test uses a part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tilewright_notation::problem::{AxisId, Problem};
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::{Dtype, RuleSet, convert, int_pattern};
use tilewright_tcp_isa::program::control::{ControlExpr, ControlOp, ControlOperand};

use super::drawn::Dice;

/// An element of a fixed tensor: small integers, so that no type rounds and no order shows.
pub(crate) fn element(seed: u64, at: &[u64]) -> i32 {
    let mut dice = Dice(at.iter().fold(seed, |hash, x| hash.wrapping_mul(31).wrapping_add(*x)));
    i32::try_from(dice.roll(15)).unwrap() - 7
}

/// A small integer as a type stores it.
#[expect(clippy::cast_precision_loss, reason = "small integers")]
pub(crate) fn pattern(dtype: Dtype, value: i32) -> u32 {
    if dtype.is_float() {
        convert(&RuleSet::TCP, Dtype::F32, dtype, (value as f32).to_bits()).unwrap()
    } else {
        int_pattern(dtype, i64::from(value))
    }
}

/// What a sum of such integers stands for.
#[expect(clippy::cast_possible_truncation, reason = "small integers")]
pub(crate) fn value(dtype: Dtype, pattern: u32) -> i32 {
    if dtype.is_float() { f32::from_bits(pattern) as i32 } else { pattern.cast_signed() }
}

/// Every coordinate in row-major order.
pub(crate) fn positions(extents: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for extent in extents {
        all = all
            .iter()
            .flat_map(|at: &Vec<u64>| (0..*extent).map(|x| [at.as_slice(), &[x]].concat()))
            .collect();
    }
    all
}

fn term(registers: &[i64], term: ControlOperand) -> i64 {
    match term {
        ControlOperand::Number(number) => number,
        ControlOperand::Register(id) => registers[id.0 as usize],
    }
}

/// What a control core computes.
pub(crate) fn computed(registers: &[i64], value: ControlExpr) -> i64 {
    match value {
        ControlExpr::Operand(one) => term(registers, one),
        ControlExpr::Binary(left, operation, right) => {
            let (left, right) = (term(registers, left), term(registers, right));
            match operation {
                ControlOp::Add => left + right,
                ControlOp::Sub => left - right,
                ControlOp::Mul => left * right,
                ControlOp::Div => left / right,
                ControlOp::Min => left.min(right),
                ControlOp::Max => left.max(right),
                ControlOp::Rem => panic!("lowering takes no remainders"),
            }
        }
    }
}

/// Sizes of the run-time axes to try: the least, the largest, and one between; one empty list if there are
/// none.
pub(crate) fn sizes(problem: &Problem) -> Vec<Vec<(String, u64)>> {
    let dynamic = || problem.axes.iter().filter(|axis| axis.dynamic);
    let at = |part: u64| {
        dynamic()
            .map(|axis| (axis.name.to_string(), axis.least + (axis.extent - axis.least) * part / 3))
            .collect()
    };
    let mut sizes: Vec<Vec<(String, u64)>> =
        if dynamic().next().is_none() { vec![at(3)] } else { (0..4).map(at).collect() };
    sizes.dedup();
    sizes
}

/// An einsum over fixed tensors.
pub(crate) struct Plain<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) zero_points: [i64; 2],
    pub(crate) sizes: &'a [(String, u64)],
}

impl Plain<'_> {
    /// Every coordinate of the output in row-major order, and its sum if it is inside the run-time sizes.
    pub(crate) fn sums(&self) -> Vec<(Vec<u64>, Option<i32>)> {
        let problem = self.problem;
        let whole: Vec<u64> =
            problem.tensor(Operand::Out).iter().map(|id| problem.axis(*id).extent).collect();
        let mut sums: Vec<(Vec<u64>, Option<i32>)> =
            positions(&whole).into_iter().map(|at| (at, None)).collect();
        let extents: Vec<u64> = problem.axis_ids().map(|id| self.extent(id)).collect();
        let mut at = vec![0_u64; extents.len()];
        loop {
            let place = problem
                .tensor(Operand::Out)
                .iter()
                .zip(&whole)
                .fold(0, |place, (id, extent)| place * extent + at[usize::from(id.0)]);
            let sum = &mut sums[usize::try_from(place).unwrap()].1;
            let product = self.read(Operand::In0, &at) * self.read(Operand::In1, &at);
            *sum = Some(sum.unwrap_or(0) + product);
            let Some(next) = (0..at.len()).rev().find(|axis| at[*axis] + 1 < extents[*axis]) else {
                return sums;
            };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }

    /// Iterations over an axis; a window is not looped over.
    fn extent(&self, id: AxisId) -> u64 {
        let axis = self.problem.axis(id);
        let given = self.sizes.iter().find(|(name, _)| *name == axis.name.to_string());
        if self.problem.window(id).is_some() { 1 } else { given.map_or(axis.extent, |(_, size)| *size) }
    }

    /// An element less its zero point; zero outside of a window.
    fn read(&self, operand: Operand, at: &[u64]) -> i32 {
        let mut place = Vec::new();
        for id in self.problem.tensor(operand) {
            let mut position = i64::try_from(at[usize::from(id.0)]).unwrap();
            if let Some(window) = self.problem.window(*id) {
                let moved =
                    window.terms.iter().map(|(factor, axis)| factor * at[usize::from(axis.0)]).sum::<u64>();
                position = i64::try_from(moved).unwrap() - i64::try_from(window.before).unwrap();
                if position < 0 || position >= i64::try_from(self.problem.axis(*id).extent).unwrap() {
                    return 0;
                }
            }
            place.push(u64::try_from(position).unwrap());
        }
        element(operand as u64 + 1, &place) - i32::try_from(self.zero_points[operand as usize]).unwrap()
    }
}
