//! Parts of an output that all groups of PEs want whole: each group computes its part where the first one
//! lies in a copy of the output, and DMA writes it to its place on every group (paper section VI-A:
//! all-gather).
//!
//! Nobody else writes there, but DMA needs all banks of a slice (vISA book, bank starvation): doorbells say
//! that nobody computes any more.

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_base::{Diagnostic, Span};
use tilewright_notation::problem::{AxisId, Digit, Problem, Shape};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::groups::PeGroups;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::transfer::{Address, SLICE_STRIDE, Transfer, TransferLoop};
use tilewright_tcp_isa::program::{Count, Program};

use super::exchange::{at, barrier, moves};
use crate::no_lowering::refuse;
use crate::write_widths::WORD_BYTES;

/// What groups do with their parts.
#[derive(Clone, Debug)]
pub(super) struct OutputGather {
    /// Where a group's part lies in every slice.
    part_base: u64,
    /// Where the output lies in every slice.
    pub(super) result_base: u64,
    /// Digits of a part, as DMA walks them: values and bytes of address between them, innermost last.
    walk: Vec<(u64, u64)>,
    /// Contiguous bytes at the end of the walk.
    packet: u64,
    /// For each group: the first address of its part, counted from the start of the output.
    places: Vec<u64>,
    /// For each group: those that get its part.
    receivers: Vec<Vec<u64>>,
    /// Groups that added parts of the same sums before: neighbours, each with all of them or with its own
    /// block.
    team: u64,
}

/// Axes of which groups compute parts and the output has all.
fn gathered(problem: &Problem, groups: &PeGroups) -> Vec<AxisId> {
    let whole =
        |id: &&AxisId| problem.axis(**id).extent_in[Operand::Out as usize] > problem.axis(**id).extent;
    groups.surviving.iter().filter(whole).copied().collect()
}

/// The einsum as a group computes it if groups gather its output: digits of the parts do not move. `None` if
/// nothing is gathered.
pub(super) fn ungathered(problem: &Problem, groups: &PeGroups) -> Result<Option<Problem>, Box<Diagnostic>> {
    let axes = gathered(problem, groups);
    let Some(shape) = problem.shape(Operand::Out).filter(|_| !axes.is_empty()) else { return Ok(None) };
    let mut part = problem.clone();
    let mut shape = shape.clone();
    for id in axes {
        let axis = problem.axis(id);
        cut_off(problem, &mut shape, id)?;
        part.axes[usize::from(id.0)].extent_in[Operand::Out as usize] = axis.extent;
    }
    part.shapes[Operand::Out as usize] = Some(shape);
    Ok(Some(part))
}

/// Leaves the digits of a part their places, and those above it one value.
pub(super) fn cut_off(problem: &Problem, shape: &mut Shape, id: AxisId) -> Result<(), Box<Diagnostic>> {
    let (part, name) = (problem.axis(id).extent, problem.axis(id).name);
    let of_axis = |digit: &&mut Digit| digit.axis == Some(id) && digit.live > 1;
    for digit in shape.inter.iter_mut().chain(&mut shape.intra).filter(of_axis) {
        let kept = if digit.stride >= part { 1 } else { part.div_ceil(digit.stride).min(digit.live) };
        if kept > 1 && kept < digit.live && !part.is_multiple_of(digit.stride)
            || digit.stride > part && digit.stride % part != 0
        {
            let message = format!("parts of {part} of `{name}` end within a digit of a shape");
            return Err(refuse(problem, &message, &format!("digits of `{name}` that meet at {part}")));
        }
        digit.padded |= kept < digit.slots;
        digit.live = kept;
    }
    Ok(())
}

/// Whether a part is written wherever its digits lead.
pub(super) fn filled(part: &Problem) -> bool {
    let Some(shape) = part.shape(Operand::Out) else { return false };
    let digits = shape.inter.iter().chain(&shape.intra).filter(|digit| digit.axis.is_some());
    let axes = part.tensor(Operand::Out).iter();
    let elements: u64 = axes.map(|id| part.axis(*id).extent_in[Operand::Out as usize]).product();
    digits.map(|digit| digit.live).product::<u64>() == elements && part.axes.iter().all(|axis| !axis.dynamic)
}

impl OutputGather {
    /// Lays out the output behind what a group's program takes.
    pub(super) fn new(
        setup: &Setup<'_>,
        (problem, part): (&Problem, &Problem),
        groups: &PeGroups,
        part_base: u64,
        free_byte: u64,
    ) -> Result<Option<OutputGather>, Box<Diagnostic>> {
        let axes = gathered(problem, groups);
        let (Some(whole), Some(shape)) = (problem.shape(Operand::Out), part.shape(Operand::Out)) else {
            return Ok(None);
        };
        if axes.is_empty() {
            return Ok(None);
        }
        let bytes = whole.intra.iter().map(|digit| digit.slots).product::<u64>() * WORD_BYTES;
        let capacity = setup.machine.dm.capacity_bytes;
        if free_byte.exact_add(bytes) > capacity {
            let message = format!("the output and a part of it take more than {capacity} B of data memory");
            return Err(refuse(problem, &message, "smaller tiles, or the output in parts"));
        }
        let (walk, packet) = walk_of(shape, setup.machine.tdma.packet_max_bytes);
        let count = groups.count(problem);
        let digits: Vec<Vec<u64>> = (0..count).map(|group| values(problem, groups, group)).collect();
        let place = |group: &Vec<u64>| {
            let of_axis = groups.surviving.iter().zip(group).filter(|(id, _)| axes.contains(id));
            of_axis.map(|(id, value)| place_of(whole, *id, value * problem.axis(*id).extent)).sum()
        };
        let team = groups.team(problem).max(1);
        let kept = |a: &[u64], b: &[u64]| {
            let mut pairs = groups.surviving.iter().zip(a.iter().zip(b));
            pairs.all(|(id, (a, b))| axes.contains(id) || a == b)
        };
        // Every member of a team sends to its likes in other teams.
        let receivers = (0..count).zip(&digits).map(|(sender, from)| {
            let likes = (0..count).zip(&digits).filter(|(group, _)| group % team == sender % team);
            likes.filter(|(_, to)| kept(from, to)).map(|(group, _)| group).collect()
        });
        let receivers = receivers.collect();
        let places = digits.iter().map(place).collect();
        Ok(Some(OutputGather { part_base, result_base: free_byte, walk, packet, places, receivers, team }))
    }

    /// Adds the transfers to a program that has a queue for each group.
    pub(super) fn append(&self, setup: &Setup<'_>, program: &mut Program) {
        for (index, place) in self.places.iter().enumerate() {
            let group = index as u64;
            // The others of its team wrote parts of what it sends.
            let first = group - group % self.team;
            let likes =
                self.receivers[index].iter().copied().filter(|to| to / self.team != group / self.team);
            let mut steps = barrier(setup, group, (first..first + self.team).chain(likes));
            let copies = self.receivers[index].iter().flat_map(|to| {
                let pe = |group: u64| group * setup.fused_pes;
                let name = format!("rows_pe{}_to_pe{}", pe(group), pe(*to));
                let source = at(setup, group, self.part_base);
                let target = Address(at(setup, *to, self.result_base).0 + place);
                self.transfers(setup, &name, source, target)
            });
            moves(copies.collect(), &mut program.transfers, &mut steps);
            program.queues[index].steps.extend(steps);
        }
    }

    /// The walk over a part; loops that one command cannot count are commands of their own.
    fn transfers(&self, setup: &Setup<'_>, name: &str, source: Address, target: Address) -> Vec<Transfer> {
        let most = to_index(setup.machine.tdma.loops);
        let (apart, looped) = self.walk.split_at(self.walk.len().saturating_sub(most));
        let mut firsts = vec![0];
        for (size, stride) in apart {
            firsts =
                firsts.iter().flat_map(|first| (0..*size).map(move |value| first + value * stride)).collect();
        }
        let row = |(size, stride): &(u64, u64)| {
            let stride = i64::try_from(*stride).or_broken("a stride inside a memory fits 63 bits");
            TransferLoop { size: Count::Fixed(*size), source: stride, target: stride }
        };
        let numbered = firsts.iter().enumerate().map(|(number, first)| Transfer {
            name: if number == 0 { name.to_string() } else { format!("{name}_{number}") },
            source: Address(source.0 + first),
            target: Address(target.0 + first),
            loops: looped.iter().map(row).collect(),
            packet: self.packet,
            index: None,
            span: Span::default(),
        });
        numbered.collect()
    }
}

/// Digits of a shape as addresses: values, bytes between them, most significant first.
fn addresses(shape: &Shape) -> Vec<(Digit, u64)> {
    let mut digits = Vec::new();
    let sides = [(&shape.intra, WORD_BYTES), (&shape.inter, SLICE_STRIDE.unsigned_abs())];
    for (side, unit) in sides {
        let mut stride = unit;
        for digit in side.iter().rev() {
            digits.push((*digit, stride));
            stride *= digit.slots;
        }
    }
    digits.reverse();
    digits
}

/// Loops over all places of a part, neighbours joined, and the packet at their end.
fn walk_of(shape: &Shape, most_bytes: u64) -> (Vec<(u64, u64)>, u64) {
    let mut walk: Vec<(u64, u64)> = Vec::new();
    let mut packet = WORD_BYTES;
    for (digit, stride) in addresses(shape).into_iter().rev().filter(|(digit, _)| digit.live > 1) {
        match walk.last_mut() {
            None if stride == packet && packet * digit.live <= most_bytes => packet *= digit.live,
            Some((size, below)) if *size * *below == stride => *size *= digit.live,
            _ => walk.push((digit.live, stride)),
        }
    }
    walk.reverse();
    (walk, packet)
}

/// Bytes of address from the start of a tensor to a position on one of its axes.
fn place_of(shape: &Shape, id: AxisId, position: u64) -> u64 {
    let of_axis = addresses(shape).into_iter().filter(|(digit, _)| digit.axis == Some(id) && digit.live > 1);
    of_axis.map(|(digit, stride)| position / digit.stride % digit.live * stride).sum()
}

/// A group's number as values of the surviving axes that are split; there are no others.
fn values(problem: &Problem, groups: &PeGroups, group: u64) -> Vec<u64> {
    let mut rest = group / groups.team(problem).max(1);
    let mut values: Vec<u64> = Vec::new();
    for id in groups.surviving.iter().rev() {
        values.push(rest % problem.axis(*id).pes);
        rest /= problem.axis(*id).pes;
    }
    values.reverse();
    values
}
