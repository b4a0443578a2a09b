//! Rule 7: where results may lie. Surviving slice digits stay put; sums spread over slices are reduced, and
//! the slices that this frees take copies, nothing, or an axis promoted from time (paper section II-B,
//! inter-slice reducer of the vISA book).

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::{Operand, Place};

use super::slice_pieces::{SliceBits, SlicePiece, pieces};
use super::verdict::{FreedSlices, SliceReduction, Verdict};
use tilewright_tcp_isa::capped::Capped;

pub(super) fn check(problem: &Problem, parallel: &[Digit], verdict: &mut Verdict) {
    let Some(shape) = problem.shape(Operand::Out) else {
        verdict.reduction =
            reduction(problem, &pieces(parallel, parallel)).map(|r| SliceReduction { freed: None, ..r });
        return;
    };
    check_shape(shape, verdict);
    let pieces = pieces(parallel, &shape.inter);
    for piece in &pieces {
        if let Some(complaint) = misplaced(problem, parallel, piece) {
            let span = piece.shape.1.unwrap_or(shape.span);
            let complaint = complaint.at(span, "the output's slices");
            verdict.diagnostics.push(match piece.tactic.1 {
                Some(span) => complaint.also(span, "the tactic's slices"),
                None => complaint,
            });
        }
    }
    verdict.reduction = reduction(problem, &pieces);
}

/// Results are committed to data memory or the vector engine's register file, each once.
fn check_shape(shape: &Shape, verdict: &mut Verdict) {
    if matches!(shape.place, Some(Place::Trf | Place::TrfHalf)) {
        let complaint =
            Diagnostic::error("tcp/memory", "out is in the register files of the contraction engine");
        verdict.diagnostics.push(
            complaint
                .at(shape.span, "the commit unit does not reach them")
                .allowed("@dm, or @vrf for what the vector engine keeps")
                .instead("@dm, and a load into the register files after"),
        );
    }
    if let Some(copies) = shape.intra.iter().find(|digit| digit.axis.is_none() && digit.live > 1) {
        verdict.diagnostics.push(
            Diagnostic::error("tcp/output", "the output keeps copies within a slice")
                .at(copies.span, "each result is committed once")
                .allowed("copies over slices, to the left of the bar")
                .instead("leave it out, or a copy within the slice after"),
        );
    }
}

fn contracted(problem: &Problem, meaning: SliceBits) -> bool {
    matches!(meaning, SliceBits::Axis(axis, _) if problem.contracted(axis))
}

fn reduction(problem: &Problem, pieces: &[SlicePiece]) -> Option<SliceReduction> {
    let reduced = || pieces.iter().filter(|piece| contracted(problem, piece.tactic.0));
    let top = reduced().map(|piece| piece.weight * piece.slices).max()?;
    let group_slices = reduced().map(|piece| piece.slices).product();
    let takes = |wanted: fn(SliceBits) -> bool| reduced().any(|piece| wanted(piece.shape.0));
    let freed = match (takes(|m| matches!(m, SliceBits::Axis(..))), takes(|m| m == SliceBits::Copies)) {
        (true, _) => FreedSlices::Scatter,
        (false, true) => FreedSlices::Broadcast,
        (false, false) => FreedSlices::Idle,
    };
    Some(SliceReduction { group_slices, by_reducer: top == group_slices, freed: Some(freed) })
}

fn misplaced(problem: &Problem, parallel: &[Digit], piece: &SlicePiece) -> Option<Diagnostic> {
    let say = |meaning: SliceBits| piece.say(problem, meaning);
    let (made, kept) = (piece.tactic.0, piece.shape.0);
    let refuse = |message: String, allowed: String, instead: String| {
        Some(Diagnostic::error("tcp/output", message).allowed(allowed).instead(instead))
    };
    match made {
        _ if made == kept => None,
        SliceBits::Axis(..) if contracted(problem, made) => match kept {
            SliceBits::Axis(axis, weight) if runs_on_slices(parallel, axis, weight) => refuse(
                format!("the output puts {} on slices freed by {}", say(kept), say(made)),
                "copies, nothing, or a digit that the tactic runs in time".to_string(),
                format!("_[{0}] for copies, _[1#{0}] for one result", piece.slices),
            ),
            _ => None,
        },
        SliceBits::Axis(..) => refuse(
            format!(
                "slices {} apart produce {}, but the output has {} there",
                piece.weight,
                say(made),
                say(kept)
            ),
            format!("{} at this place: surviving slice digits stay where they are", say(made)),
            format!("{} there, and a bridge to the other shape after", say(made)),
        ),
        SliceBits::Copies | SliceBits::Idle if matches!(kept, SliceBits::Axis(..)) => refuse(
            format!("the output has {} on slices that the tactic leaves idle", say(kept)),
            "results on the slices that compute them".to_string(),
            format!("{} among the tactic's parallel digits, or behind the `|` of the output", say(kept)),
        ),
        SliceBits::Copies | SliceBits::Idle if kept == SliceBits::Copies => refuse(
            format!("the output has copies on {} slices that the tactic leaves idle", piece.slices),
            "copies on slices that partial sums have left free".to_string(),
            format!("_[1#{}] for idle slices, and a bridge that copies after", piece.slices),
        ),
        _ => None,
    }
}

/// Whether the tactic already spreads this part of an axis over slices.
fn runs_on_slices(parallel: &[Digit], axis: tilewright_notation::problem::AxisId, weight: u64) -> bool {
    parallel.iter().any(|digit| {
        digit.axis == Some(axis) && digit.stride <= weight && weight < digit.stride.capped_mul(digit.live)
    })
}
