//! Inputs that every group of PEs has whole although it multiplies one part of them (paper section VI-A:
//! copies instead of an exchange).
//!
//! All groups run the same commands, which find the part at one address. So each group's copy begins as far
//! before that address as its part lies behind the copy's start, and nothing has to be moved. Parts must lie
//! apart within slices, not on other ones, and by whole words if copies come from off-chip memory.

use tilewright_base::Diagnostic;
use tilewright_base::invariant::Exact;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::{AxisId, Digit, Problem, Shape};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::groups::PeGroups;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorPlace};

use super::gather::cut_off;
use super::shape_text::shape_text;
use crate::no_lowering::refuse;

/// Inputs, in0 and in1.
const INPUTS: [Operand; 2] = [Operand::In0, Operand::In1];

/// For each input that groups have whole: bytes from the start of the copy to each group's part.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicatedInputs {
    places: [Option<Vec<u64>>; 2],
}

/// Axes of an input of which a group has all, and multiplies a part.
fn held_whole(problem: &Problem, operand: Operand) -> Vec<AxisId> {
    let axes = problem.axis_ids().filter(|id| problem.has(operand, *id));
    axes.filter(|id| problem.axis(*id).extent_in[operand as usize] > problem.axis(*id).extent).collect()
}

/// The einsum as a group computes it where inputs are whole: digits of the parts do not move. `None` if none
/// is.
pub(super) fn parted(problem: &Problem) -> Result<Option<Problem>, Box<Diagnostic>> {
    let mut part = None;
    for operand in INPUTS {
        let axes = held_whole(problem, operand);
        let Some(shape) = problem.shape(operand).filter(|_| !axes.is_empty()) else { continue };
        let part = part.get_or_insert_with(|| problem.clone());
        let mut shape = shape.clone();
        for id in axes {
            cut_off(problem, &mut shape, id)?;
            let axis = &mut part.axes[usize::from(id.0)];
            axis.extent_in[operand as usize] = axis.extent;
        }
        part.shapes[operand as usize] = Some(shape);
    }
    Ok(part)
}

impl ReplicatedInputs {
    /// Where the parts of all groups lie.
    pub(super) fn new(
        setup: &Setup<'_>,
        problem: &Problem,
        groups: &PeGroups,
        from_hbm: [bool; 2],
    ) -> Result<ReplicatedInputs, Box<Diagnostic>> {
        let mut wholes = ReplicatedInputs::default();
        for (operand, slot) in INPUTS.into_iter().zip(&mut wholes.places) {
            let axes = held_whole(problem, operand);
            let Some(shape) = problem.shape(operand).filter(|_| !axes.is_empty()) else { continue };
            let (name, parts) = (problem.axis(axes[0]).name, problem.axis(axes[0]).pes);
            let instead = format!("{name}_{parts} in {} too", operand.name());
            let unit = if from_hbm[operand as usize] { setup.machine.tdma.alignment_bytes } else { 1 };
            let place = |group: u64| -> Option<u64> {
                let values = axes.iter().map(|id| (*id, value(problem, groups, group, *id)));
                let elements =
                    values.map(|(id, value)| elements_before(shape, id, value * problem.axis(id).extent));
                let elements = elements.sum::<Option<u64>>()?;
                let bits = elements * setup.element_bits();
                bits.is_multiple_of(unit * 8).then_some(bits / 8)
            };
            let places: Option<Vec<u64>> = (0..groups.count(problem)).map(place).collect();
            let message = || {
                let word = if unit == 1 { "a byte".to_string() } else { format!("{unit} bytes of HBM") };
                format!("parts of `{name}` of {} lie on other slices, or within {word}", operand.name())
            };
            *slot = Some(places.ok_or_else(|| refuse(problem, &message(), &instead))?);
        }
        Ok(wholes)
    }

    fn places(&self, operand: Operand) -> Option<&Vec<u64>> {
        self.places.get(operand as usize)?.as_ref()
    }

    /// Bytes that copies of an operand need before where its part is found.
    pub(super) fn before_bytes(&self, operand: Operand) -> u64 {
        self.places(operand).and_then(|places| places.iter().max().copied()).unwrap_or(0)
    }

    /// The copies of an input, one for each group; `None` if groups have parts.
    pub(super) fn tensors(
        &self,
        setup: &Setup<'_>,
        problem: &Problem,
        own: &Tensor,
        operand: Operand,
    ) -> Option<Vec<Tensor>> {
        let (places, shape) = (self.places(operand)?, problem.shape(operand)?);
        let TensorPlace::Dm { chip, slice, base } = own.place else { return None };
        let map = RadixMap::of_shape(problem, shape).ok()?;
        let axes: Vec<(String, u64)> =
            own.axes.iter().zip(&map.from).map(|((name, _), extent)| (name.clone(), *extent)).collect();
        let copies = (0_u64..).zip(places).map(|(group, place)| Tensor {
            name: format!("{}_pe{}", own.name, group * setup.fused_pes),
            axes: axes.clone(),
            place: TensorPlace::Dm {
                chip,
                slice: slice + group * setup.slices(),
                base: base.exact_sub(*place),
            },
            shape: shape_text(problem, shape),
            map: map.clone(),
            ..own.clone()
        });
        Some(copies.collect())
    }
}

/// Which part of an axis a group has.
pub(super) fn value(problem: &Problem, groups: &PeGroups, group: u64, id: AxisId) -> u64 {
    let mut rest = group;
    for axis in groups.surviving.iter().chain(&groups.summed).rev() {
        let parts = problem.axis(*axis).pes;
        if *axis == id {
            return rest % parts;
        }
        rest /= parts;
    }
    0
}

/// Elements of a slice before a position of an axis; `None` if it lies on another slice.
fn elements_before(shape: &Shape, id: AxisId, position: u64) -> Option<u64> {
    let at = |digit: &Digit| position / digit.stride % digit.live;
    let of_axis = |digit: &&Digit| digit.axis == Some(id) && digit.live > 1;
    if shape.inter.iter().filter(of_axis).any(|digit| at(digit) > 0) {
        return None;
    }
    let (mut stride, mut elements) = (1_u64, 0_u64);
    for digit in shape.intra.iter().rev() {
        if of_axis(&digit) {
            elements = elements.checked_add(at(digit).checked_mul(stride)?)?;
        }
        stride = stride.checked_mul(digit.slots)?;
    }
    Some(elements)
}
