//! The lowered level (paper sections II, V-C stage 3 and VI): every kernel of a program with lowered shapes of what it reads and gives, its
//! weights in the register files, how the contraction goes through them, what is exchanged between PEs, and what it costs.
//!
//! Shapes follow from the sizes that the templates take ([`shapes`]); everything else is read off the commands that they gave
//! ([`commands`]), costs by the closed forms of the engines. Partitions are written as the paper writes them: `BLE_4` has its last axis dealt
//! out over four PEs.

pub mod commands;
pub mod shapes;

use std::fmt::Write as _;

use tilewright_machine::tcp::Tcp;

use crate::compiled::{Compiled, Outline};
use commands::{Segment, segments};
use shapes::{Shaped, Shapes};

/// A program at the lowered level.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Of what.
    pub title: String,
    /// Its kernels, in order.
    pub kernels: Vec<LoweredKernel>,
}

/// One kernel.
#[derive(Clone, Debug)]
pub struct LoweredKernel {
    /// Kind and number.
    pub name: String,
    /// What it reads, by role.
    pub reads: Vec<(&'static str, Shaped)>,
    /// Weights of each fill in the register files, and how many fills of this shape.
    pub weights: Vec<(Shaped, u64)>,
    /// What it gives.
    pub gives: Option<Shaped>,
    /// Its commands on the first PE.
    pub segment: Segment,
}

/// Lowers a program of a model.
pub fn lowered(machine: &Tcp, compiled: &Compiled, outline: &Outline) -> Lowered {
    let shapes = Shapes::new(machine, compiled, outline);
    let segments = segments(machine, compiled, outline);
    let kernels = compiled.kernels.kernels.iter().enumerate().zip(segments);
    let kernels = kernels.map(|((index, kernel), segment)| LoweredKernel {
        name: format!("{index} {}", kernel.kind()),
        reads: shapes.reads(kernel),
        weights: shapes.weights(index, kernel),
        gives: kernel.out().and_then(|out| shapes.value(out)),
        segment,
    });
    let options = &compiled.plan.options;
    let chips =
        if options.chips > 1 { format!(" of each of {} chips", options.chips) } else { String::new() };
    let title = format!(
        "{} of {}, {} on {} PEs{chips}, up to {} tokens at once",
        outline.name,
        compiled.kernels.name,
        options.dtype_name(),
        options.pes,
        shapes.tokens()
    );
    Lowered { title, kernels: kernels.collect() }
}

impl Lowered {
    /// As text.
    pub fn print(&self) -> String {
        let mut text = format!("lowered 1\n# {}\n", self.title);
        for kernel in &self.kernels {
            kernel.print(&mut text);
        }
        text
    }
}

impl LoweredKernel {
    fn print(&self, text: &mut String) {
        let _ = writeln!(text, "\nkernel {}", self.name);
        let mut line = |what: &str, words: &str| {
            let _ = writeln!(text, "  {what:<9}{words}");
        };
        self.reads.iter().for_each(|(role, shaped)| line(role, &shaped.to_string()));
        for (shaped, fills) in &self.weights {
            line("weight", &format!("{shaped} x {fills}"));
        }
        if let Some(gives) = &self.gives {
            line("gives", &gives.to_string());
        }
        self.segment.tactics.iter().for_each(|tactic| line("tactic", tactic));
        self.segment.moves.iter().for_each(|moved| line("move", &moved.to_string()));
        let run: Vec<String> = self.segment.runs.iter().map(ToString::to_string).collect();
        line("run", &run.join(", "));
        line("cycles", &self.segment.cycles.to_string());
    }
}
