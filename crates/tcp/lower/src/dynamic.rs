//! Axes whose size is known only at run time: control registers that count loops and end masks (paper section
//! V-A).
//!
//! Each such axis has a register with its size. The outermost loop over it runs `ceil(size / weight)` times,
//! which the control core computes into a register of its own before anything is loaded; inner loops run
//! through, and masks cut off what lies past the size.
//!
//! Of an axis that is split over groups of PEs, each group's core computes how much of its part is there,
//! perhaps nothing. All loops over it run through then, and masks do the rest.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_base::{Diagnostic, Span};
use tilewright_notation::problem::{AxisId, Problem};
use tilewright_tcp_cost::placed_tactic::PlacedTactic;
use tilewright_tcp_isa::program::control::{ControlExpr, ControlOp, ControlOperand, Step, StepKind};
use tilewright_tcp_isa::program::{Count, Register, RegisterId};

use super::loops::signed;
use super::view::LoopPiece;
use crate::no_lowering::refuse;

/// Where positions end.
#[derive(Clone, Copy, Debug)]
pub(super) struct PositionEnd {
    /// The least that it may be.
    pub(super) least: u64,
    /// The end: a number, or a register that holds it.
    pub(super) count: Count,
}

/// The registers of a program and the steps that compute them.
#[derive(Clone, Debug, Default)]
pub(super) struct DynamicAxes {
    pub(super) registers: Vec<Register>,
    sizes: Vec<(AxisId, RegisterId)>,
    /// Iterations of the outermost loop over an axis, by its weight.
    loops: Vec<((AxisId, u64, u64), RegisterId)>,
    products: Vec<((RegisterId, ControlOperand), RegisterId)>,
    sets: Vec<(RegisterId, ControlExpr)>,
    /// Axes of which every group of PEs has a part.
    pub(super) splits: Vec<DynamicSplit>,
}

/// A dynamic axis that groups of PEs share.
#[derive(Clone, Copy, Debug)]
pub(super) struct DynamicSplit {
    pub(super) axis: AxisId,
    /// The whole size.
    size: RegisterId,
    /// The same, or where the part begins if that is more.
    reached: RegisterId,
    /// Positions from there on.
    left: RegisterId,
    /// Positions of the part.
    part: RegisterId,
}

impl DynamicSplit {
    /// What the control core of a group computes whose part begins there and has so many places.
    pub(super) fn steps(&self, first: u64, places: u64) -> [Step; 3] {
        let set = |to, from, operation, number: u64| {
            let value = ControlExpr::Binary(
                ControlOperand::Register(from),
                operation,
                ControlOperand::Number(signed(number)),
            );
            Step { kind: StepKind::Set(to, value), span: Span::default() }
        };
        [
            set(self.reached, self.size, ControlOp::Max, first),
            set(self.left, self.reached, ControlOp::Sub, first),
            set(self.part, self.left, ControlOp::Min, places),
        ]
    }
}

impl DynamicAxes {
    pub(super) fn new(problem: &Problem, placed: &PlacedTactic) -> Result<DynamicAxes, Box<Diagnostic>> {
        let mut dynamic = DynamicAxes::default();
        for id in problem.axis_ids().filter(|id| problem.axis(*id).dynamic) {
            let axis = problem.axis(id);
            if axis.pes > 1 {
                let split = dynamic.split(problem, id);
                dynamic.sizes.push((id, split.part));
                dynamic.splits.push(split);
                continue;
            }
            let register = dynamic.declare(axis.name.to_string(), axis.least, axis.extent);
            dynamic.sizes.push((id, register));
        }
        let fixed = placed.lanes.iter().chain(&placed.packet).filter(|digit| digit.live > 1);
        for digit in fixed {
            let ends = |id: AxisId| digit.stride * digit.live >= problem.axis(id).extent;
            if let Some(axis) = digit.axis.filter(|id| problem.axis(*id).dynamic && ends(*id)) {
                let message = format!("dynamic axis `{}` ends in lanes or packet", problem.axis(axis).name);
                return Err(refuse(problem, &message, "its outermost digit in time"));
            }
        }
        Ok(dynamic)
    }

    fn split(&mut self, problem: &Problem, id: AxisId) -> DynamicSplit {
        let axis = problem.axis(id);
        let size = self.declare(axis.name.to_string(), axis.least, axis.whole);
        let reached = self.declare(format!("{}_reached", axis.name), axis.least, axis.whole);
        let left = self.declare(format!("{}_left", axis.name), 0, axis.whole);
        let part = self.declare(format!("{}_part", axis.name), 0, axis.extent);
        DynamicSplit { axis: id, size, reached, left, part }
    }

    fn declare(&mut self, name: String, least: u64, most: u64) -> RegisterId {
        let id =
            RegisterId(u32::try_from(self.registers.len()).or_broken("registers of a program fit their ids"));
        let (least, most) = (signed(least), signed(most));
        self.registers.push(Register { name, initial: most, least, most, span: Span::default() });
        id
    }

    /// Where positions on a dynamic axis end.
    pub(super) fn extent(&self, axis: AxisId) -> Option<PositionEnd> {
        let (_, id) = self.sizes.iter().find(|(of, _)| *of == axis)?;
        let least = self.bounds(*id).0;
        Some(PositionEnd { least, count: Count::Register(*id) })
    }

    fn bounds(&self, id: RegisterId) -> (u64, u64) {
        let register = self.registers.get(id.0 as usize).or_broken("a register that was declared");
        let bound = |value: i64| u64::try_from(value).or_broken("sizes in registers are not negative");
        (bound(register.least), bound(register.most))
    }

    fn name(&self, id: RegisterId) -> String {
        self.registers.get(id.0 as usize).or_broken("a register that was declared").name.clone()
    }

    /// Gives registers to the outermost loops in time of dynamic axes.
    pub(super) fn settle(&mut self, problem: &Problem, time: &[LoopPiece]) {
        for piece in time {
            let Some((_, size)) = self.sizes.iter().find(|(axis, _)| *axis == piece.axis).copied() else {
                continue;
            };
            let outermost = piece.weight.exact_mul(piece.size) >= problem.axis(piece.axis).extent;
            let split = self.splits.iter().any(|split| split.axis == piece.axis);
            if split || !outermost || self.steps(piece).is_some() {
                continue;
            }
            let register = if piece.weight == 1 { size } else { self.rounded_up(size, piece.weight) };
            self.loops.push(((piece.axis, piece.weight, piece.size), register));
        }
    }

    /// `ceil(size / weight)`.
    fn rounded_up(&mut self, size: RegisterId, weight: u64) -> RegisterId {
        let (least, most) = self.bounds(size);
        let (name, past) = (self.name(size), weight - 1);
        let sum = self.declare(format!("{name}_past_{weight}"), least + past, most + past);
        let steps =
            self.declare(format!("{name}_by_{weight}"), least.div_ceil(weight), most.div_ceil(weight));
        let number = |value: u64| ControlOperand::Number(signed(value));
        self.sets
            .push((sum, ControlExpr::Binary(ControlOperand::Register(size), ControlOp::Add, number(past))));
        self.sets.push((
            steps,
            ControlExpr::Binary(ControlOperand::Register(sum), ControlOp::Div, number(weight)),
        ));
        steps
    }

    /// The register that counts a loop in time, if one does.
    pub(super) fn steps(&self, piece: &LoopPiece) -> Option<RegisterId> {
        let key = (piece.axis, piece.weight, piece.size);
        self.loops.iter().find(|(loop_key, _)| *loop_key == key).map(|(_, id)| *id)
    }

    /// The iterations of nested loops as one size.
    pub(super) fn product(&mut self, loops: impl IntoIterator<Item = (u64, Option<RegisterId>)>) -> Count {
        let mut fixed = 1_u64;
        let mut counted: Option<RegisterId> = None;
        for (size, by) in loops {
            match (by, counted) {
                (None, _) => fixed = fixed.exact_mul(size),
                (Some(id), None) => counted = Some(id),
                (Some(id), Some(before)) => counted = Some(self.times(before, ControlOperand::Register(id))),
            }
        }
        match counted {
            None => Count::Fixed(fixed),
            Some(id) if fixed == 1 => Count::Register(id),
            Some(id) => Count::Register(self.times(id, ControlOperand::Number(signed(fixed)))),
        }
    }

    fn times(&mut self, left: RegisterId, right: ControlOperand) -> RegisterId {
        if let Some((_, known)) = self.products.iter().find(|(key, _)| *key == (left, right)) {
            return *known;
        }
        let (least, most) = self.bounds(left);
        let (name, bounds) = match right {
            ControlOperand::Number(number) => {
                (number.to_string(), [u64::try_from(number).or_broken("a size is not negative"); 2])
            }
            ControlOperand::Register(id) => (self.name(id), self.bounds(id).into()),
        };
        let name = format!("{}_times_{name}", self.name(left));
        let product = self.declare(name, least.exact_mul(bounds[0]), most.exact_mul(bounds[1]));
        self.sets.push((product, ControlExpr::Binary(ControlOperand::Register(left), ControlOp::Mul, right)));
        self.products.push(((left, right), product));
        product
    }

    /// What the control core computes before anything is loaded.
    pub(super) fn steps_before(&self) -> Vec<Step> {
        let step = |(id, value): &(RegisterId, ControlExpr)| Step {
            kind: StepKind::Set(*id, *value),
            span: Span::default(),
        };
        self.sets.iter().map(step).collect()
    }
}
