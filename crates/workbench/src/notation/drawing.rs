//! Pictures of an einsum: what each slice holds, and where the loops of its tactic run.

use tilewright_base::Diagnostic;
use tilewright_notation::problem::Problem;
use tilewright_notation::radix;
use tilewright_report::einsum::{Pictures, PlacedLoops};
use tilewright_tcp_cost::legality::check_placement;
use tilewright_tcp_cost::{PlacedTactic, Setup};

use super::NotationInput;
use crate::Refusal;

/// An einsum drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// For terminals; empty if there is no shape and no tactic to draw.
    pub text: String,
    /// The same as SVG.
    pub svg: String,
    /// Whether what is drawn is legal where it is placed.
    pub legal: bool,
}

/// Draws what is written, legal or not.
///
/// # Errors
/// Digits that do not fit together; shapes with more places than can be numbered.
pub fn draw(input: &NotationInput, setup: &Setup<'_>, problem: &Problem) -> Result<Drawing, Box<Refusal>> {
    let complaints = radix::check(problem);
    if !complaints.is_empty() {
        return Err(input.refused(complaints));
    }
    let verdict = check_placement(setup, problem, complaints);
    let placed = verdict.placed.clone().or_else(|| unchecked_placement(setup, problem));
    let pictures = Pictures::new(&input.program, problem, placed.as_ref().map(loops)).ok_or_else(|| {
        let complaint = Diagnostic::error("notation/places", "a shape has more than 2^32 places")
            .allowed("2^32 slices and 2^32 elements on a slice")
            .instead("smaller sizes");
        input.refused(vec![complaint])
    })?;
    Ok(Drawing { text: pictures.text(), svg: pictures.svg(), legal: verdict.legal() })
}

/// Where the engine would run the loops of a tactic for two inputs that is not legal: it is drawn all the
/// same.
fn unchecked_placement(setup: &Setup<'_>, problem: &Problem) -> Option<PlacedTactic> {
    let tactic = problem.tactic.as_ref().filter(|_| problem.contracts_two())?;
    Some(PlacedTactic::new(setup, problem, tactic))
}

/// Those loops as pictures take them.
fn loops(placed: &PlacedTactic) -> PlacedLoops<'_> {
    PlacedLoops {
        slices: &placed.parallel,
        time: &placed.time,
        repeats: placed.repeat_terms,
        lanes: &placed.lanes,
        packet: &placed.packet,
    }
}
