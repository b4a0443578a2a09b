//! Rules 4 and 6: what may sit on lanes, in the packet and in time, and whether the accumulators hold the
//! sums. Lane, packet and output widths: paper section IV-C; surviving columns and slot capacity: vISA book.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{AxisId, Digit, Loops, Problem};
use tilewright_notation::radix::superscript;
use tilewright_tcp_isa::contraction::slot_capacity;

use super::verdict::Verdict;
use crate::placed_tactic::PlacedTactic;
use crate::setup::Setup;

pub(super) fn check(setup: &Setup<'_>, problem: &Problem, placed: &PlacedTactic, verdict: &mut Verdict) {
    check_lanes(setup, problem, placed, verdict);
    check_packet(setup, problem, placed, verdict);
    check_sums(setup, problem, placed, verdict);
    for axis in problem.axis_ids() {
        if problem.axis(axis).dynamic {
            check_dynamic(problem, placed, axis, verdict);
        }
    }
    check_lonely_sums(problem, verdict);
}

/// Without a second input there is no contraction engine, so neither lanes nor packet.
pub(super) fn check_one_input(problem: &Problem, tactic: &Loops, verdict: &mut Verdict) {
    if tactic.roles.is_some() {
        verdict.diagnostics.push(
            Diagnostic::error("tcp/lanes", "a tactic of four sections for one input")
                .at(tactic.span, "")
                .allowed("parallel | loops: lanes and packet belong to the contraction of two inputs")
                .instead("the same loops behind one bar"),
        );
    }
    for axis in problem.axis_ids().filter(|axis| problem.axis(*axis).dynamic) {
        let digits = tactic.parallel.iter().filter(|digit| digit.axis == Some(axis) && digit.live > 1);
        if let Some(top) = digits.max_by_key(|digit| digit.stride) {
            verdict.diagnostics.push(spread_dynamic(problem, axis, top));
        }
    }
}

fn spread_dynamic(problem: &Problem, axis: AxisId, top: &Digit) -> Diagnostic {
    let name = problem.axis(axis).name;
    Diagnostic::note("tcp/dynamic", format!("dynamic axis `{name}` is spread over slices"))
        .at(top.span, format!("{} slices are reserved for its largest size", top.slots))
}

fn check_lanes(setup: &Setup<'_>, problem: &Problem, placed: &PlacedTactic, verdict: &mut Verdict) {
    let most = setup.machine.ce.lanes;
    for digit in &placed.lanes {
        let Some(axis) = digit.axis else { continue };
        let name = problem.axis(axis).name;
        let why = if problem.contracted(axis) {
            "lanes do not add to each other"
        } else if problem.has(problem.streamed(), axis) {
            "all lanes receive the same packet"
        } else {
            continue;
        };
        verdict.diagnostics.push(
            Diagnostic::error("tcp/lanes", format!("axis `{name}` is on the lanes"))
                .at(digit.span, why)
                .allowed(format!("surviving axes that only {} has", problem.stationary.name()))
                .instead(format!("`{name}` in the packet or in time")),
        );
    }
    let used = placed.lane_count();
    if let (true, Some(first), Some(last)) =
        (used > most || !used.is_power_of_two(), placed.lanes.first(), placed.lanes.last())
    {
        verdict.diagnostics.push(
            Diagnostic::error("tcp/lanes", format!("the tactic uses {used} lanes"))
                .at(first.span.to(last.span), format!("{used} lanes"))
                .allowed(format!("powers of two up to {most}"))
                .instead(if used > most {
                    format!("{most} lanes and the rest in time")
                } else {
                    pad(problem, &placed.lanes)
                }),
        );
    }
}

/// The first digit that spoils the power of two, padded.
fn pad(problem: &Problem, lanes: &[Digit]) -> String {
    let Some(digit) = lanes.iter().find(|digit| !digit.slots.is_power_of_two()) else { return String::new() };
    let name = digit.axis.map_or("_".to_string(), |axis| problem.axis(axis).name.to_string());
    format!("{name}^{}[{}#{}]", superscript(digit.stride), digit.live, digit.slots.next_power_of_two())
}

fn check_packet(setup: &Setup<'_>, problem: &Problem, placed: &PlacedTactic, verdict: &mut Verdict) {
    let (Some(first), Some(last)) = (placed.packet.first(), placed.packet.last()) else { return };
    let (used, most) = (placed.packet_elements(), setup.packet_elements());
    let span = first.span.to(last.span);
    if used > most {
        let bytes = setup.machine.ce.packet_bytes;
        verdict.diagnostics.push(
            Diagnostic::error("tcp/packet", format!("the packet has {used} elements"))
                .at(span, format!("{used} elements of {}", setup.dtype.name()))
                .allowed(format!("{most} elements of {} in {bytes} B", setup.dtype.name()))
                .instead(format!("at most {most} in the packet and the rest in time")),
        );
    }
    let columns = setup.machine.ce.outputs_per_lane;
    if placed.columns > columns {
        verdict.diagnostics.push(
            Diagnostic::error(
                "tcp/packet",
                format!("{} columns of the packet survive the tree", placed.columns),
            )
            .at(span, "not contracted, so each is an output of every lane")
            .allowed(format!("{columns} outputs of a lane"))
            .instead(format!("at most {columns} surviving elements in the packet, the rest in time")),
        );
    }
    if placed.columns > 1 && !placed.tree_elements.is_power_of_two() {
        let summed =
            |digit: &&Digit| digit.axis.is_some_and(|axis| problem.contracted(axis)) && digit.live > 1;
        let digit = placed.packet.iter().find(summed).unwrap_or(last);
        let name = digit.axis.map_or("?".to_string(), |axis| problem.axis(axis).name.to_string());
        let places = digit.slots.next_power_of_two();
        verdict.diagnostics.push(
            Diagnostic::error("tcp/packet", format!("the tree would sum groups of {}", placed.tree_elements))
                .at(digit.span, "its levels pair neighbours")
                .allowed("powers of two below a surviving digit")
                .instead(format!("{name}^{}[{}#{places}]", superscript(digit.stride), digit.live)),
        );
    }
    check_packet_digits(problem, placed, verdict);
}

fn check_packet_digits(problem: &Problem, placed: &PlacedTactic, verdict: &mut Verdict) {
    let stream = problem.streamed();
    let mut surviving_inside: Option<&Digit> = None;
    for digit in placed.packet.iter().rev().filter(|digit| digit.live > 1) {
        let Some(axis) = digit.axis else { continue };
        let name = problem.axis(axis).name;
        if !problem.has(stream, axis) {
            verdict.diagnostics.push(
                Diagnostic::error("tcp/packet", format!("axis `{name}` is in the packet"))
                    .at(digit.span, format!("{} streams the packets and lacks `{name}`", stream.name()))
                    .allowed(format!("axes of {}", stream.name()))
                    .instead(format!("`{name}` on the lanes or in time")),
            );
        } else if !problem.contracted(axis) {
            surviving_inside = surviving_inside.or(Some(digit));
        } else if let Some(inside) = surviving_inside {
            verdict.diagnostics.push(
                Diagnostic::error(
                    "tcp/packet",
                    format!("contracted axis `{name}` is outside a surviving one"),
                )
                .at(digit.span, "the tree sums neighbours")
                .also(inside.span, "survives")
                .allowed("surviving digits first, contracted digits innermost")
                .instead(format!("swap them, or move `{name}` to time")),
            );
        }
    }
}

fn check_sums(setup: &Setup<'_>, problem: &Problem, placed: &PlacedTactic, verdict: &mut Verdict) {
    let kept = placed.sums_kept(problem);
    let allowed = slot_capacity(setup.machine, placed.lane_count(), placed.columns);
    if kept <= allowed {
        return;
    }
    let contracted =
        |digit: &&Digit| digit.axis.is_some_and(|axis| problem.contracted(axis)) && digit.live > 1;
    let Some(reduced) = placed.time.iter().find(contracted) else { return };
    let name = reduced.axis.map_or("?".to_string(), |axis| problem.axis(axis).name.to_string());
    verdict.diagnostics.push(
        Diagnostic::error("tcp/accumulators", format!("{kept} sums are open for each output of a lane"))
            .at(reduced.span, format!("`{name}` is summed outside loops of {kept} surviving steps"))
            .allowed(format!(
                "{allowed} with {} {} a lane: {} accumulators a slice",
                placed.columns,
                if placed.columns == 1 { "column" } else { "columns" },
                setup.machine.accumulators()
            ))
            .instead(format!(
                "move a factor of {} of the surviving loops outside `{name}`",
                kept.div_ceil(allowed)
            )),
    );
}

/// The outermost digit of a dynamic axis is a register of a loop: it may run in time, or over slices at its
/// largest size.
fn check_dynamic(problem: &Problem, placed: &PlacedTactic, axis: AxisId, verdict: &mut Verdict) {
    let of_axis = |digit: &&Digit| digit.axis == Some(axis) && digit.live > 1;
    let everywhere = placed.parallel.iter().chain(&placed.time).chain(&placed.lanes).chain(&placed.packet);
    let Some(top) = everywhere.filter(of_axis).max_by_key(|digit| digit.stride) else { return };
    let name = problem.axis(axis).name;
    if placed.lanes.contains(top) || placed.packet.contains(top) {
        verdict.diagnostics.push(
            Diagnostic::error("tcp/dynamic", format!("dynamic axis `{name}` ends in lanes or packet"))
                .at(top.span, "its size is known only at run time")
                .allowed("the outermost digit of a dynamic axis in time, its size in a control register")
                .instead(format!("{name}^n[{name}/n] in time, {name}^1[n] here")),
        );
    } else if placed.parallel.contains(top) {
        verdict.diagnostics.push(spread_dynamic(problem, axis, top));
    }
}

fn check_lonely_sums(problem: &Problem, verdict: &mut Verdict) {
    for axis in problem.axis_ids().filter(|axis| problem.window(*axis).is_none()) {
        let [in0, in1, out] = problem.axis(axis).extent_in.map(|extent| extent > 0);
        if !out && (in0 != in1) {
            let (name, who) = (problem.axis(axis).name, if in0 { "in0" } else { "in1" });
            verdict.diagnostics.push(
                Diagnostic::warning(
                    "notation/einsum",
                    format!("axis `{name}` is summed but only {who} has it"),
                )
                .at(problem.axis(axis).span, "")
                .instead(format!("`where {name}=...` after the einsum if it is another name of an index")),
            );
        }
    }
}
