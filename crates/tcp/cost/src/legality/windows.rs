//! Windows (sliding sums of the vISA book): the stored axis lies within a slice, in digits that no sum of
//! loops carries across.
//!
//! All slices fetch from one base with one set of strides. A loop over slices may still move a window, if
//! every slice has all of it: the DMA engine then cuts out what each slice begins with
//! ([`tilewright_tcp_lower`]).

use tilewright_base::Diagnostic;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::window::{Window, WindowCarry};

use super::verdict::Verdict;

pub(super) fn check(problem: &Problem, verdict: &mut Verdict) {
    for window in &problem.windows {
        if let Some(shape) = problem.shape(window.operand) {
            check_shape(problem, window, shape, verdict);
        }
    }
}

fn check_shape(problem: &Problem, window: &Window, shape: &Shape, verdict: &mut Verdict) {
    let of_window = |digit: &&Digit| digit.axis == Some(window.axis) && digit.live > 1;
    let name = problem.axis(window.axis).name;
    let whole = format!("{name}^1[{}] behind the `|`", problem.axis(window.axis).extent);
    if let Some(digit) = shape.inter.iter().find(of_window) {
        verdict.diagnostics.push(
            Diagnostic::error("tcp/window", format!("window `{name}` is spread over slices"))
                .at(digit.span, "its loops would run from slice to slice")
                .also(window.span, "the window")
                .allowed("windows within a slice")
                .instead(whole),
        );
        return;
    }
    let mut stored: Vec<&Digit> = shape.intra.iter().filter(of_window).collect();
    stored.sort_by_key(|digit| digit.stride);
    let cuts: Vec<(u64, u64)> = stored.iter().map(|digit| (digit.stride, digit.live)).collect();
    if let Err(WindowCarry { axis, weight }) = window.steps(problem, &cuts) {
        let span = stored.iter().find(|digit| digit.stride == weight).map_or(shape.span, |digit| digit.span);
        let by = problem.axis(axis).name;
        verdict.diagnostics.push(
            Diagnostic::error("tcp/window", format!("loop `{by}` carries window `{name}` across a digit"))
                .at(span, "sums run past this digit")
                .also(window.span, "the window")
                .allowed("one digit, or digits within which every sum of loops stays")
                .instead(whole),
        );
    }
}
