//! Rule 1 (and the coverage half of rule 4): the digits of an axis form a mixed radix.
//!
//! Sorted by stride the digits start at 1, each next stride is the previous stride times the previous size,
//! and the last reaches the end of the axis exactly, or passes it as declared padding (paper section II-A). A
//! window is covered by shapes, the loops that move it by tactics.

use tilewright_base::{Diagnostic, Span};

use crate::problem::{AxisId, Digit, Problem, Shape};
use crate::syntax::ast::{Operand, Terms};

/// Complains about every axis whose digits are not a mixed radix.
pub fn check(problem: &Problem) -> Vec<Diagnostic> {
    let mut complaints = Vec::new();
    for shape in problem.shapes.iter().flatten() {
        check_shape(problem, shape, &mut complaints);
    }
    if let Some(tactic) = &problem.tactic {
        let (lanes, packet): (&[Digit], &[Digit]) =
            tactic.roles.as_ref().map_or((&[], &[]), |roles| (&roles.lanes, &roles.packet));
        let digits = || tactic.parallel.iter().chain(&tactic.slice).chain(lanes).chain(packet);
        for id in problem.axis_ids().filter(|id| problem.window(*id).is_none()) {
            let extent = problem.axis(id).extent;
            check_axis(
                &AxisCheck { problem, id, extent, who: None, whole: tactic.span },
                digits(),
                &mut complaints,
            );
        }
        if let Some(copies) = digits().find(|digit| digit.axis.is_none()) {
            complaints.push(copies_in_tactic(copies));
        }
    }
    complaints
}

fn check_shape(problem: &Problem, shape: &Shape, complaints: &mut Vec<Diagnostic>) {
    let operand = shape.operand;
    for &id in problem.tensor(operand) {
        let extent = problem.axis(id).extent_in[operand as usize];
        let asked = AxisCheck { problem, id, extent, who: Some(operand), whole: shape.span };
        check_axis(&asked, shape.inter.iter().chain(&shape.intra), complaints);
    }
}

struct AxisCheck<'a> {
    problem: &'a Problem,
    id: AxisId,
    extent: u64,
    who: Option<Operand>,
    whole: Span,
}

impl AxisCheck<'_> {
    fn name(&self) -> String {
        self.problem.axis(self.id).name.to_string()
    }

    fn who(&self) -> &'static str {
        self.who.map_or("the tactic", Operand::name)
    }

    fn code(&self) -> &'static str {
        if self.who.is_some() { "notation/radix" } else { "notation/coverage" }
    }
}

fn check_axis<'a>(
    asked: &AxisCheck<'_>,
    digits: impl Iterator<Item = &'a Digit>,
    complaints: &mut Vec<Diagnostic>,
) {
    let mut sorted: Terms<&Digit> = Terms::new();
    for digit in digits.filter(|digit| digit.axis == Some(asked.id) && digit.live > 1) {
        sorted.push(digit);
    }
    sorted.sort_unstable_by_key(|digit| digit.stride);
    let Some(last) = sorted.last() else {
        if asked.extent > 1 {
            complaints.push(missing(asked));
        }
        return;
    };
    let mut reached = 1_u64;
    for (index, digit) in sorted.iter().enumerate() {
        if digit.stride != reached {
            let before = index.checked_sub(1).map(|before| sorted[before]);
            complaints.push(wrong_stride(asked, digit, reached, before, index + 1 == sorted.len()));
            return;
        }
        let inner_padding = index + 1 < sorted.len() && reached.saturating_mul(digit.live) >= asked.extent;
        reached = reached.saturating_mul(digit.live);
        if inner_padding {
            complaints.push(beyond_the_end(asked, sorted[index + 1], reached));
            return;
        }
    }
    if reached < asked.extent {
        complaints.push(too_short(asked, last, reached));
    } else if reached > asked.extent && !last.padded {
        complaints.push(undeclared_padding(asked, last, reached));
    } else if reached - asked.extent >= last.stride {
        complaints.push(dead_values(asked, last));
    }
}

fn missing(asked: &AxisCheck<'_>) -> Diagnostic {
    let (name, extent) = (asked.name(), asked.extent);
    Diagnostic::error(asked.code(), format!("axis `{name}` of size {extent} has no digit in {}", asked.who()))
        .at(asked.whole, format!("no digit of `{name}` here"))
        .allowed(format!("digits of every axis whose sizes multiply to its extent: {extent} for `{name}`"))
        .instead(format!("add {name}^1[{extent}]"))
}

fn wrong_stride(
    asked: &AxisCheck<'_>,
    digit: &Digit,
    reached: u64,
    before: Option<&Digit>,
    outermost: bool,
) -> Diagnostic {
    let name = asked.name();
    let message = match before {
        None => format!("the smallest stride of axis `{name}` in {} is {}", asked.who(), digit.stride),
        Some(_) => {
            format!("the digits of axis `{name}` in {} do not meet: stride {}", asked.who(), digit.stride)
        }
    };
    let gap = if digit.stride > reached { "skips coordinates" } else { "counts coordinates twice" };
    let label =
        if before.is_some() { format!("{gap}: the digits below end at {reached}") } else { String::new() };
    let mut complaint = Diagnostic::error(asked.code(), message).at(digit.span, label);
    if let Some(before) = before {
        let below = format!("stride {} x {} values = {reached}", before.stride, before.live);
        complaint = complaint.also(before.span, below);
    }
    complaint
        .allowed(format!(
            "stride {reached} here: 1 for the smallest, then the previous stride times its size"
        ))
        .instead(if outermost {
            let need = asked.extent.div_ceil(reached);
            format!(
                "{name}^{}[{need}{}]",
                superscript(reached),
                if need * reached > asked.extent { "#" } else { "" }
            )
        } else {
            format!("{name}^{}[{}]", superscript(reached), digit.live)
        })
}

fn too_short(asked: &AxisCheck<'_>, last: &Digit, reached: u64) -> Diagnostic {
    let (name, extent) = (asked.name(), asked.extent);
    let need = extent.div_ceil(last.stride);
    let pad = if need * last.stride > extent { "#" } else { "" };
    Diagnostic::error(
        asked.code(),
        format!("axis `{name}` has size {extent}, its digits in {} cover {reached}", asked.who()),
    )
    .at(last.span, format!("ends at {reached}"))
    .allowed(format!("sizes that multiply to {extent}"))
    .instead(format!("{}^{}[{need}{pad}]", name, superscript(last.stride)))
}

fn undeclared_padding(asked: &AxisCheck<'_>, last: &Digit, reached: u64) -> Diagnostic {
    let (name, extent) = (asked.name(), asked.extent);
    let need = extent.div_ceil(last.stride);
    Diagnostic::error(
        asked.code(),
        format!("axis `{name}` has size {extent}, its digits in {} cover {reached}", asked.who()),
    )
    .at(last.span, format!("runs {} past the end", reached - extent))
    .allowed(format!("exactly {extent}, or padding declared with #"))
    .instead(if need == last.live {
        format!("{name}^{}[{need}#]", superscript(last.stride))
    } else if need * last.stride == extent {
        format!(
            "{name}^{0}[{need}], or {name}^{0}[{need}#{1}] to keep {1} places",
            superscript(last.stride),
            last.live
        )
    } else {
        format!("{name}^{0}[{need}#{1}] for {need} values in {1} places", superscript(last.stride), last.live)
    })
}

fn dead_values(asked: &AxisCheck<'_>, last: &Digit) -> Diagnostic {
    let (name, extent) = (asked.name(), asked.extent);
    let need = extent.div_ceil(last.stride);
    let what = format!(
        "{} values of this digit of `{name}` hold data, {} are written before the #",
        need, last.live
    );
    Diagnostic::error(asked.code(), what)
        .at(last.span, format!("`{name}` ends after {need} steps of {}", last.stride))
        .allowed("[values#places]: values that hold data, then places kept for them")
        .instead(format!("{name}^{}[{need}#{}]", superscript(last.stride), last.slots))
}

fn beyond_the_end(asked: &AxisCheck<'_>, digit: &Digit, reached: u64) -> Diagnostic {
    let (name, extent) = (asked.name(), asked.extent);
    let what = format!("axis `{name}` of size {extent} ends before this digit of {}", asked.who());
    Diagnostic::error(asked.code(), what)
        .at(digit.span, format!("the digits below already cover {reached}"))
        .allowed(format!("sizes that multiply to {extent}"))
        .instead(format!("leave this digit out, or make the digits below smaller than {extent}"))
}

fn copies_in_tactic(digit: &Digit) -> Diagnostic {
    Diagnostic::error("notation/coverage", "a tactic loops over axes, not over copies")
        .at(digit.span, "`_` stands for copies of data")
        .allowed("digits of the einsum's axes")
        .instead("leave it out; idle slices need no loop")
}

/// A stride as canonical text.
pub fn superscript(stride: u64) -> String {
    if stride < 10 { stride.to_string() } else { format!("{{{stride}}}") }
}
