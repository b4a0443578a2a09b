//! Rule 5: every slice gets the operands its part of the tactic needs.
//!
//! The streamed operand comes from DM through the fetch network, which can multicast within a ring but leaves each axis of the
//! operand on its own slices. The register files hold what their own slice uses, so a slice digit that the stationary operand
//! lacks means copies (paper sections III-B and VI-B).

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::radix::raised;
use tilewright_notation::syntax::ast::{Operand, Place, Terms};

use super::Verdict;
use super::places::{Meaning, Piece, pieces};
use crate::memory::default_place;
use crate::placed::Placed;

/// How the streamed operand reaches the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Slices of a ring that exchange packets; 1 if each slice reads its own DM only.
    pub ring_slices: u64,
    /// Slices that receive each packet.
    pub receivers: u64,
}

/// Checks both operands; gives the digits over slices that the network serves with one fetch, which are all that the stream
/// lacks but those for which it is stored in copies.
pub(super) fn check(problem: &Problem, placed: &Placed, verdict: &mut Verdict) -> Terms<Digit> {
    let stream = problem.streamed();
    let mut multicast = placed.parallel.clone();
    for operand in [stream, problem.stationary] {
        let Some(shape) = problem.shape(operand) else { continue };
        let place = shape.place.unwrap_or(default_place(operand, operand == problem.stationary));
        let held = matches!(place, Place::Trf | Place::TrfHalf);
        let pieces = pieces(&placed.parallel, &shape.inter);
        for piece in &pieces {
            if let Some(complaint) = misplaced(problem, shape, piece, held) {
                verdict.diagnostics.push(complaint);
            }
        }
        if operand == stream {
            verdict.delivery = Some(delivery(problem, operand, &pieces));
            let copied = |piece: &Piece, digit: &Digit| {
                piece.tactic.1 == Some(digit.span) && piece.shape.0 == Meaning::Copies
            };
            multicast.retain(|digit| !pieces.iter().any(|piece| copied(piece, digit)));
        }
    }
    multicast
}

fn misplaced(problem: &Problem, shape: &Shape, piece: &Piece, held: bool) -> Option<Diagnostic> {
    let who = shape.operand.name();
    let has =
        |meaning: Meaning| matches!(meaning, Meaning::Axis(axis, _) if problem.has(shape.operand, axis));
    let say = |meaning: Meaning| match meaning {
        Meaning::Axis(axis, weight) => {
            format!("{}^{}[{}]", problem.axis(axis).name, raised(weight), piece.slices)
        }
        Meaning::Copies => format!("_[{}]", piece.slices),
        Meaning::Idle => "nothing".to_string(),
    };
    let (needs, holds) = (piece.tactic.0, piece.shape.0);
    let wanted = match needs {
        Meaning::Axis(..) if has(needs) => (needs != holds).then(|| say(needs)),
        Meaning::Axis(..) if held => (holds != Meaning::Copies).then(|| format!("_[{}]", piece.slices)),
        _ => None,
    }?;
    let what =
        format!("slices {} apart work on {}, but {who} has {} there", piece.weight, say(needs), say(holds));
    let mut complaint = Diagnostic::error("tcp/supply", what)
        .at(piece.shape.1.unwrap_or(shape.span), format!("{} here", say(holds)))
        .allowed(if has(needs) {
            format!("{wanted} at this place: the network does not exchange parts of an axis between slices")
        } else {
            format!("{wanted}: each slice multiplies with what its own register file holds")
        })
        .instead(if held {
            format!("{wanted} there, or @dm to let the load multicast it")
        } else {
            format!("{wanted} there, or a bridge to such a shape before")
        });
    if let Some(span) = piece.tactic.1 {
        complaint = complaint.also(span, "the tactic's slices");
    }
    Some(complaint)
}

fn delivery(problem: &Problem, operand: Operand, pieces: &[Piece]) -> Delivery {
    let mut delivery = Delivery { ring_slices: 1, receivers: 1 };
    for piece in pieces {
        let lacks = matches!(piece.tactic.0, Meaning::Axis(axis, _) if !problem.has(operand, axis));
        if lacks && piece.shape.0 != Meaning::Copies {
            delivery.ring_slices = piece.weight * piece.slices;
            delivery.receivers *= piece.slices;
        }
    }
    delivery
}
