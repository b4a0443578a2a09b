//! From a lowered text on: its decisions are compiled, and what it states must be what the commands are.

use std::collections::BTreeSet;

use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;

use super::read::{BEST, LoweredText, STATED, StatedLine};
use super::{LoweredKernel, lowered};
use crate::CompileError;
use crate::compiled::{Compiled, compile_chosen};
use crate::kernel_text::MOST_COMPLAINTS;
use crate::tcp::choices::classes;

impl LoweredText {
    /// Compiles it: stages 4 and 5.
    ///
    /// # Errors
    /// Decisions that the machine has no room for, and every line that does not say what follows from them.
    pub fn compile(&self, machine: &Tcp) -> Result<Compiled, Vec<Diagnostic>> {
        let made = compile_chosen(machine, &self.kernels, self.options, &self.choices);
        let compiled = made.map_err(|error| vec![self.refused(&error)])?;
        let mut complaints = self.not_taken(&compiled);
        if complaints.is_empty() {
            complaints = self.not_so(machine, &compiled);
        }
        if complaints.is_empty() { Ok(compiled) } else { Err(complaints) }
    }

    fn line(&self, word: &str) -> Span {
        self.spans.get(word).copied().unwrap_or_default()
    }

    /// Decisions that do not compile.
    fn refused(&self, error: &CompileError) -> Diagnostic {
        let line = match error {
            CompileError::Size { what: "the number of PEs", .. } => "pes",
            CompileError::Size { what: "the number of chips", .. } => "chips",
            CompileError::Size { what: "the batch", .. } => "batch",
            CompileError::Size { what: "the context", .. } => "context",
            _ => "choices",
        };
        let words = error.to_string();
        let mut parts = words.split("\n  = ");
        let message = parts.next().unwrap_or_default().to_string();
        let mut complaint = Diagnostic::error("lowered/target", message).at(self.line(line), "");
        for part in parts {
            complaint = match part.split_once(": ") {
                Some(("allowed", allowed)) => complaint.allowed(allowed),
                Some((_, instead)) => complaint.instead(instead),
                None => complaint,
            };
        }
        complaint
    }

    /// Choices that were not taken as they are written: less was there.
    fn not_taken(&self, compiled: &Compiled) -> Vec<Diagnostic> {
        let taken = compiled.settled();
        let mut found = Vec::new();
        let mut refuse = |message: String, allowed: String| {
            let complaint = Diagnostic::error("lowered/choice", message).at(self.line("choices"), "");
            found.push(complaint.allowed(allowed).instead(format!("choices {taken}")));
        };
        let rows = compiled.plan.prefill_rows;
        if let Some(asked) = self.choices.rows.filter(|asked| *asked != rows) {
            refuse(
                format!("rows={asked}, of which {rows} find room"),
                format!("rows=1 to rows={rows}, or rows=auto"),
            );
        }
        let (asked, bands) = (self.choices.bands, taken.bands);
        if asked != bands {
            let allowed = match bands {
                1 => {
                    "bands=1; more on one PE of one chip alone, where fewer slices have room for all columns"
                        .to_string()
                }
                _ => format!("powers of two, bands=1 to bands={bands}"),
            };
            refuse(format!("bands={asked}, of which {bands} are of use"), allowed);
        }
        let (asked, slots) = (self.choices.slots, taken.slots);
        if asked != slots {
            refuse(format!("slots={asked}, of which {slots} find room"), format!("slots=1 to slots={slots}"));
        }
        let count = classes(&compiled.kernels).into_iter().flatten().max().map_or(0, |last| last + 1);
        let named = self.choices.fills.len();
        if named > count {
            refuse(
                format!("fills of {named} classes of weights, of which there are {count}"),
                format!("{count} of them at most, or fills=whole"),
            );
        }
        found
    }

    /// Lines that say something else than the commands do.
    fn not_so(&self, machine: &Tcp, compiled: &Compiled) -> Vec<Diagnostic> {
        let Some(outline) = compiled.outlines.iter().find(|outline| outline.name == self.program) else {
            return Vec::new();
        };
        let asks: BTreeSet<usize> =
            self.stated.iter().filter(|line| line.what == BEST).map(|line| line.kernel).collect();
        let built = lowered(machine, compiled, outline);
        let built = built.explored(machine, compiled, outline, &|index| asks.contains(&index));
        let mut rest = self.stated.as_slice();
        let mut found = Vec::new();
        for (index, kernel) in built.kernels.iter().enumerate() {
            let own = rest.partition_point(|stated| stated.kernel <= index);
            let (stated, behind) = rest.split_at(own);
            rest = behind;
            found.extend(kernel_not_so(kernel, stated));
            if found.len() >= MOST_COMPLAINTS {
                break;
            }
        }
        found.truncate(MOST_COMPLAINTS);
        found
    }
}

/// The code of what a line is about.
fn code(what: &str) -> &'static str {
    match what {
        "weight" | "fill" => "lowered/weight",
        "tactic" | BEST => "lowered/tactic",
        "move" => "lowered/move",
        "run" | "cycles" => "lowered/cost",
        _ => "lowered/shape",
    }
}

/// Lines of one kernel that say something else than it is, each kind in its order.
fn kernel_not_so(kernel: &LoweredKernel, stated: &[StatedLine]) -> Vec<Diagnostic> {
    let lines = kernel.lines();
    let mut found = Vec::new();
    for what in STATED {
        let mut built = lines.iter().filter(|(of, _)| *of == what).map(|(_, words)| plain(words));
        let mut last = None;
        for line in stated.iter().filter(|line| line.what == what) {
            last = Some(line);
            match built.next() {
                Some(words) if words == line.words => {}
                Some(words) => {
                    let message = format!("`{what} {}` is not what the commands are", line.words);
                    let complaint = Diagnostic::error(code(what), message).at(line.span, "");
                    found.push(complaint.allowed(format!("{what} {words}")));
                }
                None => {
                    let message = format!("one line `{what}` more than kernel {} has", kernel.name);
                    let complaint = Diagnostic::error(code(what), message).at(line.span, "");
                    found.push(complaint.allowed("no further one"));
                }
            }
        }
        if let (Some(last), Some(words)) = (last, built.next()) {
            let message = format!("kernel {} has another line `{what}` behind this one", kernel.name);
            let complaint = Diagnostic::error(code(what), message).at(last.span, "");
            found.push(complaint.allowed(format!("{what} {words}")));
        }
    }
    found
}

/// Words with single spaces between them.
fn plain(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
