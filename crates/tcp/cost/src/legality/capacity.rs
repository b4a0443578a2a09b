//! Rule 3: what a slice holds fits its data memory and register files.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{Problem, Shape};
use tilewright_notation::sizes::MAX_EXTENT;
use tilewright_notation::syntax::ast::{Operand, Place};
use tilewright_tcp_isa::memory::capacity_bytes;

use super::verdict::Verdict;
use crate::legality::memory::{ShapeFootprint, default_place};
use crate::setup::Setup;
use tilewright_tcp_isa::capped::Capped;

pub(super) fn check(setup: &Setup<'_>, problem: &Problem, verdict: &mut Verdict) {
    for shape in problem.shapes.iter().flatten() {
        let stationary = problem.contracts_two() && shape.operand == problem.stationary;
        let place = shape.place.unwrap_or(default_place(shape.operand, stationary));
        let bits = if shape.operand == Operand::Out { setup.output_bits() } else { setup.element_bits() };
        let footprint = ShapeFootprint::of_shape(setup.machine, shape, place, bits);
        if footprint.bytes_per_slice > footprint.capacity_bytes || footprint.elements > MAX_EXTENT {
            verdict.diagnostics.push(too_big(shape, &footprint));
        }
        verdict.footprints.push(footprint);
    }
    check_together(setup, problem, verdict);
}

fn too_big(shape: &Shape, footprint: &ShapeFootprint) -> Diagnostic {
    let (need, have) = (footprint.bytes_per_slice, footprint.capacity_bytes);
    let factor = need.div_ceil(have.max(1)).next_power_of_two();
    let instead = match footprint.place {
        Place::Dm => {
            format!("spread it over {factor} times as many slices, or cut the tensor and stream it from HBM")
        }
        Place::Trf => format!("@dm, to load it in pieces, or {factor} times as many slices"),
        Place::TrfHalf => format!("@trf without double buffering, or {factor} times as many slices"),
        Place::Vrf => format!("@dm, or {factor} times as many slices"),
    };
    let (who, memory) = (footprint.operand.name(), footprint.place.name());
    Diagnostic::error("tcp/capacity", format!("{who} takes {need} B of {memory} on each slice"))
        .at(shape.span, format!("{need} B a slice"))
        .allowed(format!("{have} B of {memory} on each slice"))
        .instead(instead)
}

/// Shapes that each fit must also fit together.
fn check_together(setup: &Setup<'_>, problem: &Problem, verdict: &mut Verdict) {
    let in_dm = verdict.footprints.iter().filter(|footprint| footprint.place == Place::Dm);
    let need = in_dm.clone().fold(0_u64, |all, footprint| all.capped_add(footprint.bytes_per_slice));
    let have = capacity_bytes(setup.machine, Place::Dm);
    let largest = in_dm.clone().max_by_key(|footprint| footprint.bytes_per_slice);
    let (Some(largest), true) = (largest, in_dm.clone().count() > 1 && need > have) else { return };
    if largest.bytes_per_slice > have {
        return;
    }
    let Some(shape) = problem.shape(largest.operand) else { return };
    let parts: Vec<String> = in_dm
        .map(|footprint| format!("{} {} B", footprint.operand.name(), footprint.bytes_per_slice))
        .collect();
    let complaint =
        Diagnostic::error("tcp/capacity", format!("the shapes take {need} B of dm on each slice together"))
            .at(shape.span, format!("the largest of them: {}", parts.join(", ")))
            .allowed(format!("{have} B of dm on each slice"))
            .instead("spread one of them over more slices, or process it in parts");
    verdict.diagnostics.push(complaint);
}
