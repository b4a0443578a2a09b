//! One program for several groups of PEs: an axis with a subscript is split over them, and each runs the same
//! commands on its own part (paper section VI-A: SPMD over PEs).
//!
//! A tensor whose digits end where its part does is written as one tensor over all groups, so that its data
//! may come from one file; others are a tensor for each group.

use tilewright_base::Diagnostic;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::radix;
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::groups::PeGroups;
use tilewright_tcp_cost::placed_tactic::product;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace};
use tilewright_tcp_isa::program::transfer::{Address, SLICE_STRIDE, Transfer};

use super::dynamic::DynamicSplit;
use super::exchange::SumExchange;
use super::gather::OutputGather;
use super::replicated::{ReplicatedInputs, value};
use super::shape_text::shape_text;
use crate::no_lowering::refuse;

/// An einsum that runs on several groups.
pub(super) struct GroupedEinsum<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) problem: &'a Problem,
    pub(super) groups: &'a PeGroups,
    /// What groups do with what they computed.
    pub(super) collectives: GroupCollectives,
    /// Inputs that groups have whole.
    pub(super) replicated_inputs: ReplicatedInputs,
    /// Axes of run-time size of which groups have parts.
    pub(super) splits: Vec<DynamicSplit>,
    /// Inputs of which every group brings its part from off-chip memory: tensors are those of groups then.
    pub(super) from_hbm: [bool; 2],
}

/// What groups have to say to each other: nothing, and each keeps what it computed, or one of these or both.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupCollectives {
    /// Teams add parts of sums.
    pub(super) sums: Option<SumExchange>,
    /// Parts are written to all, after that.
    pub(super) parts: Option<OutputGather>,
}

impl GroupCollectives {
    /// Where the output ends up, if not where it was computed.
    fn result_base(&self) -> Option<u64> {
        let gathered = self.parts.as_ref().map(|gather| gather.result_base);
        gathered.or(self.sums.as_ref().map(|exchange| exchange.result_base))
    }
}

impl GroupedEinsum<'_> {
    /// Repeats a group's program for every group that the einsum names.
    pub(super) fn program(&self, mut program: Program) -> Result<Program, Box<Diagnostic>> {
        let (setup, count) = (self.setup, self.groups.count(self.problem));
        let own = std::mem::take(&mut program.tensors);
        for (tensor, operand) in own.iter().zip(Operand::ALL) {
            program.tensors.extend(self.tensors(tensor, operand)?);
        }
        let queues = std::mem::take(&mut program.queues);
        let own = std::mem::take(&mut program.transfers);
        for group in 0..count {
            let first =
                u32::try_from(program.transfers.len()).or_broken("transfers of a program fit their ids");
            program.transfers.extend(own.iter().map(|transfer| self.of_group(transfer, group)));
            for queue in &queues {
                let mut queue = Queue { pe: group * setup.fused_pes, ..queue.clone() };
                queue.steps.splice(0..0, self.sizes(group));
                for step in &mut queue.steps {
                    if let StepKind::Push(Command::Dma { transfer, .. }) = &mut step.kind {
                        transfer.0 =
                            transfer.0.checked_add(first).or_broken("transfers of a program fit their ids");
                    }
                }
                program.queues.push(queue);
            }
        }
        if let Some(exchange) = &self.collectives.sums {
            exchange.append(setup, &mut program);
        }
        if let Some(gather) = &self.collectives.parts {
            gather.append(setup, &mut program);
        }
        Ok(program)
    }

    /// What a group's core computes first: how much of its parts is there.
    fn sizes(&self, group: u64) -> Vec<Step> {
        let of_split = |split: &DynamicSplit| {
            let places = self.problem.axis(split.axis).extent;
            split.steps(value(self.problem, self.groups, group, split.axis) * places, places)
        };
        self.splits.iter().flat_map(of_split).collect()
    }

    /// A transfer within the data memory of the first group, for another one.
    fn of_group(&self, transfer: &Transfer, group: u64) -> Transfer {
        let slices = group * self.setup.slices();
        let moved = |address: Address| {
            address.step(slices.cast_signed().exact_mul(SLICE_STRIDE)).or_broken("a group has addresses")
        };
        let name = match group {
            0 => transfer.name.clone(),
            _ => format!("{}_pe{}", transfer.name, group * self.setup.fused_pes),
        };
        let (source, target) = (moved(transfer.source), moved(transfer.target));
        Transfer { name, source, target, ..transfer.clone() }
    }

    /// A group's tensor for all groups: one if it can be written so.
    fn tensors(&self, own: &Tensor, operand: Operand) -> Result<Vec<Tensor>, Box<Diagnostic>> {
        let own = match self.collectives.result_base() {
            Some(base) if operand == Operand::Out => self.result(own, base)?,
            _ => own.clone(),
        };
        if let Some(copies) = self.replicated_inputs.tensors(self.setup, self.problem, &own, operand) {
            return Ok(copies);
        }
        let from_hbm = self.from_hbm.contains(&true);
        if let Some(whole) = self.whole(&own, operand).filter(|_| !from_hbm) {
            return Ok(vec![whole]);
        }
        (0..self.groups.count(self.problem)).map(|group| self.part(&own, operand, group)).collect()
    }

    /// The output as the einsum has it, where sums end up.
    fn result(&self, own: &Tensor, base: u64) -> Result<Tensor, Box<Diagnostic>> {
        let problem = self.problem;
        let Some(shape) = problem.shape(Operand::Out) else { return Ok(own.clone()) };
        let map = RadixMap::of_shape(problem, shape)
            .map_err(|_| refuse(problem, "a shape is too large", "a smaller one"))?;
        let axes =
            own.axes.iter().zip(&map.from).map(|((name, _), extent)| (name.clone(), *extent)).collect();
        let place = TensorPlace::Dm { chip: 0, slice: 0, base };
        Ok(Tensor { axes, place, shape: shape_text(problem, shape), map, ..own.clone() })
    }

    /// One tensor over all groups: its parts are digits of the slice number above those of a group.
    fn whole(&self, own: &Tensor, operand: Operand) -> Option<Tensor> {
        let shape = self.problem.shape(operand)?;
        let mut problem = Problem { shapes: [None, None, None], tactic: None, ..self.problem.clone() };
        for axis in &mut problem.axes {
            axis.extent = axis.whole;
            for extent in axis.extent_in.iter_mut().filter(|extent| **extent > 0) {
                *extent = axis.whole;
            }
        }
        let plain = Digit { axis: None, stride: 1, live: 1, slots: 1, padded: false, span: shape.span };
        let of_groups = self.groups.digits(self.problem, operand).into_iter().map(|(axis, parts)| {
            let stride = axis.map_or(1, |id| self.problem.axis(id).whole / parts);
            Digit { axis, stride, live: parts, slots: parts, ..plain }
        });
        let idle = self.setup.slices() / product(shape.inter.iter()).max(1);
        let idle = (idle > 1).then_some(Digit { slots: idle, padded: true, ..plain });
        let inter = of_groups.chain(idle).chain(shape.inter.iter().copied()).collect();
        let shape = Shape { inter, ..shape.clone() };
        problem.shapes[operand as usize] = Some(shape.clone());
        if !radix::check(&problem).is_empty() {
            return None;
        }
        let map = RadixMap::of_shape(&problem, &shape).ok()?;
        let axes =
            own.axes.iter().zip(&map.from).map(|((name, _), extent)| (name.clone(), *extent)).collect();
        Some(Tensor { axes, shape: shape_text(&problem, &shape), map, ..own.clone() })
    }

    /// A group's tensor: its part of a split one, or a copy.
    fn part(&self, own: &Tensor, operand: Operand, group: u64) -> Result<Tensor, Box<Diagnostic>> {
        let setup = self.setup;
        let number = self.part_number(operand, group);
        let data = match (&own.data, number) {
            (TensorData::Random(seed), Some(number)) => TensorData::Random(seed.wrapping_add(number << 32)),
            (TensorData::File(_) | TensorData::Patterns(_), Some(_)) => {
                let message =
                    format!("{} is split over PEs in padded digits and comes from a file", operand.name());
                let instead = "digits that end where a PE's part ends, or a seed";
                return Err(refuse(self.problem, &message, instead));
            }
            (other, _) => other.clone(),
        };
        let place = match own.place {
            TensorPlace::Dm { chip, slice, base } => {
                TensorPlace::Dm { chip, slice: slice + group * setup.slices(), base }
            }
            hbm @ TensorPlace::Hbm { .. } => hbm,
        };
        let name = format!("{}_pe{}", own.name, group * setup.fused_pes);
        Ok(Tensor { name, data, place, ..own.clone() })
    }

    /// Which part of a tensor a group has; `None` if all have all of it.
    fn part_number(&self, operand: Operand, group: u64) -> Option<u64> {
        let mut rest = group;
        let (mut number, mut below, mut split) = (0, 1, false);
        for (axis, parts) in self.groups.digits(self.problem, operand).iter().rev() {
            if axis.is_some() {
                number += rest % parts * below;
                below *= parts;
                split = true;
            }
            rest /= parts;
        }
        split.then_some(number)
    }
}
