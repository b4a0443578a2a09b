//! A lowered shape with numbers, as text: what a program keeps of it.

use std::fmt::Write as _;

use tilewright_notation::problem::{Digit, Problem, Shape};

/// The shape in the notation's canonical spelling, sizes as numbers.
pub(super) fn shape_text(problem: &Problem, shape: &Shape) -> String {
    let mut text = String::new();
    push(problem, &shape.inter, &mut text);
    text.push('|');
    if !shape.intra.is_empty() {
        text.push(' ');
    }
    push(problem, &shape.intra, &mut text);
    text.trim_end().to_string()
}

fn push(problem: &Problem, digits: &[Digit], text: &mut String) {
    for digit in digits {
        let places = if digit.padded || digit.slots != digit.live {
            format!("#{}", digit.slots)
        } else {
            String::new()
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
