//! Windows: stored axes whose positions are sums of loops, as convolutions need them (the sliding sums of the
//! vISA book).
//!
//! `b(y=2x+r)c` stores the axis `y`; loops run over `x` and `r`. A loop moves a digit of the stored axis by
//! its factor, as long as no sum carries into the digit above. Positions before the start and behind the end
//! read as zero.

use tilewright_base::{Diagnostic, Span};

use crate::problem::{AxisId, Problem};
use crate::sizes::{MAX_EXTENT, Sizes};
use crate::syntax::ast::{Einsum, EinsumAxis, Operand, Terms, WindowSum};

/// A stored axis and the loops over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The stored axis.
    pub axis: AxisId,
    /// The tensor that has it.
    pub operand: Operand,
    /// Factor and loop of each term.
    pub terms: Terms<(u64, AxisId)>,
    /// Positions before the start.
    pub before: u64,
    /// Where it is written.
    pub span: Span,
}

/// A loop over a window, as a digit of the loop's axis that moves a digit of the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowStep {
    /// The loop.
    pub axis: AxisId,
    /// Weight on the loop's axis.
    pub weight: u64,
    /// Values.
    pub size: u64,
    /// Index of the stored digit; `None` if nothing is stored but one position.
    pub digit: Option<usize>,
    /// Steps along that digit for each step of this one.
    pub times: u64,
}

/// A sum of loops runs from one stored digit into another, so that no stride leads through both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCarry {
    /// The loop that does, or is not cut where the stored digit begins.
    pub axis: AxisId,
    /// Weight of the stored digit that overflows.
    pub weight: u64,
}

impl Window {
    /// The position for given loops; `None` before the start or past 64 bits.
    pub fn position(&self, at: impl Fn(AxisId) -> u64) -> Option<u64> {
        let mut terms = self.terms.iter().map(|(factor, axis)| factor.checked_mul(at(*axis)));
        let sum = terms.try_fold(0_u64, |all, term| all.checked_add(term?))?;
        sum.checked_sub(self.before)
    }

    /// The factor of a loop; 0 if it does not move the window.
    pub fn factor(&self, axis: AxisId) -> u64 {
        self.terms.iter().find(|(_, of)| *of == axis).map_or(0, |(factor, _)| *factor)
    }

    /// The loops as digits, given the stored axis's digits as `(weight, values)`, weights rising.
    pub fn steps(&self, problem: &Problem, stored: &[(u64, u64)]) -> Result<Terms<WindowStep>, WindowCarry> {
        let mut steps: Terms<WindowStep> = Terms::new();
        for (factor, axis) in &self.terms {
            self.steps_of(problem, *factor, *axis, stored, &mut steps)?;
        }
        for (index, pair) in stored.windows(2).enumerate() {
            let (weight, above) = (pair[0].0, pair[1].0);
            let inside = || steps.iter().filter(move |step| step.digit == Some(index));
            let reach = inside().fold(self.before, |all, step| {
                all.saturating_add((step.size - 1).saturating_mul(step.times).saturating_mul(weight))
            });
            if let (true, Some(step)) = (reach >= above, inside().next_back()) {
                return Err(WindowCarry { axis: step.axis, weight });
            }
        }
        match self.terms.first() {
            Some((_, axis)) if self.before > 0 && stored.len() > 1 => {
                Err(WindowCarry { axis: *axis, weight: 1 })
            }
            _ => Ok(steps),
        }
    }

    /// The digits of one loop: cut where a stored digit begins.
    fn steps_of(
        &self,
        problem: &Problem,
        factor: u64,
        axis: AxisId,
        stored: &[(u64, u64)],
        steps: &mut Terms<WindowStep>,
    ) -> Result<(), WindowCarry> {
        let extent = problem.axis(axis).extent;
        let begins = stored.iter().map(|(weight, _)| *weight).filter(|weight| weight.is_multiple_of(factor));
        let mut marks: Vec<u64> =
            begins.map(|weight| weight / factor).filter(|mark| (2..extent).contains(mark)).collect();
        marks.insert(0, 1);
        for (index, mark) in marks.iter().enumerate() {
            let above = marks.get(index + 1);
            let size = above.map_or(extent.div_ceil(*mark), |above| above / mark);
            let moved = factor.saturating_mul(*mark);
            let digit = stored.iter().rposition(|(weight, _)| *weight <= moved);
            let weight = digit.and_then(|digit| stored.get(digit)).map_or(1, |(weight, _)| *weight);
            if !moved.is_multiple_of(weight) || above.is_some_and(|above| above % mark != 0) {
                return Err(WindowCarry { axis, weight });
            }
            if size > 1 {
                steps.push(WindowStep { axis, weight: *mark, size, digit, times: moved / weight });
            }
        }
        Ok(())
    }
}

impl Problem {
    /// The window behind a stored axis.
    pub fn window(&self, axis: AxisId) -> Option<&Window> {
        self.windows.iter().find(|window| window.axis == axis)
    }

    /// The axes of a tensor, then the loops that move its windows.
    pub fn read_axes(&self, operand: Operand) -> Terms<AxisId> {
        let loops = self.windows_of(operand).flat_map(|window| window.terms.iter().map(|(_, axis)| *axis));
        self.tensor(operand).iter().copied().chain(loops).collect()
    }

    /// The windows of a tensor.
    pub fn windows_of(&self, operand: Operand) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |window| window.operand == operand)
    }

    pub(crate) fn add_window(
        &mut self,
        einsum: &Einsum,
        operand: Operand,
        written: &EinsumAxis,
        sum: &WindowSum,
        sizes: &Sizes,
    ) -> Result<(), Box<Diagnostic>> {
        let (name, span) = (written.name, written.span);
        if operand == Operand::Out || written.pes.is_some() {
            let what = if operand == Operand::Out { "in the output" } else { "split over PEs" };
            let instead = "a window of an input, whole on each PE";
            return Err(refuse(span, format!("window `{name}` is {what}"), instead, &sum.to_string()));
        }
        if self.find(name).is_some() {
            let what = format!("window `{name}` is an axis elsewhere");
            return Err(refuse(span, what, "a name that nothing else has", "another letter"));
        }
        let mut terms: Terms<(u64, AxisId)> = Terms::new();
        for (factor, of) in &sum.terms {
            let id = match self.find(*of) {
                Some(id) => id,
                None => {
                    let axis = EinsumAxis { name: *of, pes: None, window: None, span };
                    self.new_axis(einsum, &axis, sizes)?
                }
            };
            let moved = self.has(operand, id) || terms.iter().any(|(_, other)| *other == id);
            if *factor == 0 || *factor > MAX_EXTENT || moved || self.window(id).is_some() || *of == name {
                let what = format!("`{of}` does not move the window `{name}`");
                let allowed =
                    format!("loops with factors from 1, each once, that {} has nowhere else", operand.name());
                return Err(refuse(span, what, &allowed, "another loop, or another factor"));
            }
            terms.push((*factor, id));
        }
        let given = EinsumAxis { name, pes: None, window: None, span };
        let id = if sizes.get(name).is_some() {
            self.new_axis(einsum, &given, sizes)?
        } else {
            let table = Sizes::one(name, span);
            self.new_axis(einsum, &given, &table)?
        };
        for (_, moved) in &terms {
            let axis = &mut self.axes[usize::from(moved.0)];
            axis.extent_in[operand as usize] = axis.extent;
        }
        self.axes[usize::from(id.0)].extent_in[operand as usize] = self.axis(id).extent;
        self.tensors[operand as usize].push(id);
        self.windows.push(Window { axis: id, operand, terms, before: sum.before, span });
        Ok(())
    }

    /// An axis that is stored for a window is no axis of another tensor, and a loop of it none of the same.
    pub(crate) fn refuse_window(&self, id: AxisId, written: &EinsumAxis) -> Result<(), Box<Diagnostic>> {
        let Some(window) = self.window(id) else { return Ok(()) };
        let what = format!("window `{}` is an axis elsewhere", written.name);
        let refused = refuse(written.span, what, "a name that nothing else has", "one of its loops");
        Err(Box::new((*refused).also(window.span, "the window")))
    }

    /// Sizes of windows that the size table leaves open, once all loops are known.
    pub(crate) fn settle_windows(&mut self, sizes: &Sizes, complaints: &mut Vec<Diagnostic>) {
        for window in self.windows.clone() {
            let name = self.axis(window.axis).name;
            let split = window.terms.iter().find(|(_, axis)| self.axis(*axis).pes > 1);
            let twice = window.terms.iter().find(|(_, axis)| self.tensor(window.operand).contains(axis));
            if let Some((_, axis)) = split.or(twice) {
                let what = format!("`{}` does not move the window `{name}`", self.axis(*axis).name);
                let allowed = "loops that no PE splits and that the tensor has nowhere else";
                complaints.push(*refuse(window.span, what, allowed, "another loop"));
                continue;
            }
            let reach = window.terms.iter().fold(1_u64, |all, (factor, axis)| {
                all.saturating_add((self.axis(*axis).extent - 1).saturating_mul(*factor))
            });
            let given = sizes.get(name);
            let extent = given.map_or(reach.saturating_sub(window.before), |size| size.most);
            if extent == 0 || reach.max(extent) > MAX_EXTENT || given.is_some_and(|size| size.dynamic) {
                let what = format!(
                    "window `{name}` reaches {reach} positions, {} of them before the start",
                    window.before
                );
                let allowed = format!("1 to {MAX_EXTENT}, and a size that is known or left out");
                complaints.push(*refuse(
                    window.span,
                    what,
                    &allowed,
                    "smaller loops, or dims without the window",
                ));
                continue;
            }
            let axis = &mut self.axes[usize::from(window.axis.0)];
            (axis.extent, axis.whole) = (extent, extent);
            axis.extent_in[window.operand as usize] = extent;
        }
    }
}

fn refuse(span: Span, what: String, allowed: &str, instead: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("notation/window", what).at(span, "").allowed(allowed).instead(instead))
}
