//! A lowered shape with numbers, as text: what a program keeps of it.

use std::fmt::Write as _;

use tilewright_notation::problem::{Digit, Problem, Shape};

/// The shape in the notation's canonical spelling, sizes as numbers.
pub(super) fn shape_text(problem: &Problem, shape: &Shape) -> String {
    let mut text = String::new();
    push(problem, &shape.inter, &mut text);
    text.push_str("| ");
    push(problem, &shape.intra, &mut text);
    if !shape.intra.is_empty() {
        text.pop();
    }
    text
}

fn push(problem: &Problem, digits: &[Digit], text: &mut String) {
    for digit in digits {
        let places = match (digit.padded, digit.slots == digit.live) {
            (_, false) => format!("#{}", digit.slots),
            (true, true) => "#".to_string(),
            (false, true) => String::new(),
        };
        let written = match digit.axis {
            Some(axis) => {
                let stride = digit.stride;
                let raised = if stride < 10 { stride.to_string() } else { format!("{{{stride}}}") };
                write!(text, "{}^{raised}[{}{places}] ", problem.axis(axis).name, digit.live)
            }
            None => write!(text, "_[{}{places}] ", digit.live),
        };
        debug_assert!(written.is_ok(), "strings take all text");
    }
}
