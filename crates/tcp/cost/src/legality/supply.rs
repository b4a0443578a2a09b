//! Rule 5: every slice gets the operands its part of the tactic needs.
//!
//! The streamed operand comes from DM through the fetch network, which can multicast within a ring but leaves
//! each axis of the operand on its own slices. The register files hold what their own slice uses, so a slice
//! digit that the stationary operand lacks means copies (paper sections III-B and VI-B). A loop that moves a
//! window is no axis of what is stored: every slice along it needs the window, and cuts its own part out.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::{Operand, Place, Terms};

use super::slice_pieces::{SliceBits, SlicePiece, pieces};
use super::verdict::{Delivery, Verdict};
use crate::legality::memory::default_place;

/// Checks the inputs; gives the digits over slices that the network serves with one fetch, which are all that
/// the stream lacks but those for which it is stored in copies.
pub(super) fn check(problem: &Problem, parallel: &[Digit], verdict: &mut Verdict) -> Terms<Digit> {
    let stream = if problem.contracts_two() { problem.streamed() } else { Operand::In0 };
    let mut multicast: Terms<Digit> = parallel.iter().copied().collect();
    for operand in [Operand::In0, Operand::In1] {
        let Some(shape) = problem.shape(operand) else { continue };
        let stationary = problem.contracts_two() && operand == problem.stationary;
        let place = shape.place.unwrap_or(default_place(operand, stationary));
        check_memory(problem, shape, place, stationary, verdict);
        let held = matches!(place, Place::Trf | Place::TrfHalf);
        let pieces = pieces(parallel, &shape.inter);
        for piece in &pieces {
            if let Some(complaint) = misplaced(problem, shape, piece, held) {
                verdict.diagnostics.push(complaint);
            }
        }
        if operand == stream {
            verdict.delivery = Some(delivery(problem, operand, &pieces));
            multicast.retain(|digit| {
                digit.live = digit.live.min(served(&pieces, digit));
                digit.live > 1
            });
        }
    }
    multicast
}

/// Slices along a digit that one fetch serves.
fn served(pieces: &[SlicePiece], digit: &Digit) -> u64 {
    let of_digit = pieces.iter().filter(|piece| piece.tactic.1 == Some(digit.span));
    of_digit.filter(|piece| piece.shape.0 != SliceBits::Copies).map(|piece| piece.slices).product()
}

/// The fetch unit reads data memory; the contraction engine multiplies with its register files.
fn check_memory(problem: &Problem, shape: &Shape, place: Place, stationary: bool, verdict: &mut Verdict) {
    let fits = match place {
        Place::Dm => true,
        Place::Trf | Place::TrfHalf => stationary,
        Place::Vrf => false,
    };
    if problem.tactic.is_none() || fits {
        return;
    }
    let (who, allowed) = (shape.operand.name(), if stationary { "@trf, @trf/2 or @dm" } else { "@dm" });
    verdict.diagnostics.push(
        Diagnostic::error("tcp/memory", format!("{who} is in {}", place.name()))
            .at(shape.span, if stationary { "the stationary operand" } else { "the streamed operand" })
            .allowed(format!(
                "{allowed}: streams are fetched from data memory, and met by the register files"
            ))
            .instead(if problem.contracts_two() {
                "@dm, or --stationary for the other operand"
            } else {
                "@dm"
            }),
    );
}

fn misplaced(problem: &Problem, shape: &Shape, piece: &SlicePiece, held: bool) -> Option<Diagnostic> {
    let who = shape.operand.name();
    let has = |meaning: SliceBits| match meaning {
        SliceBits::Axis(axis, _) => problem.stores(shape.operand, axis),
        _ => false,
    };
    let (needs, holds) = (piece.tactic.0, piece.shape.0);
    let wanted = match needs {
        SliceBits::Axis(..) if has(needs) => (needs != holds).then(|| piece.say(problem, needs)),
        SliceBits::Axis(..) if held => (holds != SliceBits::Copies).then(|| format!("_[{}]", piece.slices)),
        SliceBits::Idle if held && has(holds) => Some("nothing".to_string()),
        _ => None,
    }?;
    let (needs, holds) = (piece.say(problem, needs), piece.say(problem, holds));
    let what = format!("slices {} apart work on {needs}, but {who} has {holds} there", piece.weight);
    let mut complaint = Diagnostic::error("tcp/supply", what)
        .at(piece.shape.1.unwrap_or(shape.span), format!("{holds} here"))
        .allowed(if held {
            format!("{wanted}: each slice multiplies with what its own register file holds")
        } else {
            format!("{wanted} at this place: a stream is multicast, or read by the slice that has it")
        })
        .instead(if held {
            format!("{wanted} there, or @dm to let the load bring it")
        } else {
            format!("{wanted} there, or a bridge to such a shape before")
        });
    if let Some(span) = piece.tactic.1 {
        complaint = complaint.also(span, "the tactic's slices");
    }
    Some(complaint)
}

fn delivery(problem: &Problem, operand: Operand, pieces: &[SlicePiece]) -> Delivery {
    let mut delivery = Delivery { ring_slices: 1, receivers: 1 };
    for piece in pieces {
        let lacks = matches!(piece.tactic.0, SliceBits::Axis(axis, _) if !problem.stores(operand, axis));
        let elsewhere = piece.tactic.0 == SliceBits::Idle && matches!(piece.shape.0, SliceBits::Axis(..));
        if (lacks && piece.shape.0 != SliceBits::Copies) || elsewhere {
            delivery.ring_slices = piece.weight * piece.slices;
        }
        if lacks && piece.shape.0 != SliceBits::Copies {
            delivery.receivers *= piece.slices;
        }
    }
    delivery
}
