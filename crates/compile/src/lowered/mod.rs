//! The lowered level (paper sections II, V-C stage 3 and VI): every kernel of a program with lowered shapes
//! of what it reads and gives, its weights in the register files, how the contraction goes through them, what
//! is exchanged between PEs, and what it costs.
//!
//! Shapes follow from the sizes that the templates take ([`shapes`]); everything else is read off the
//! commands that they gave ([`commands`]), costs by the closed forms of the engines. Partitions are written
//! as the paper writes them: `BLE_4` has its last axis dealt out over four PEs.
//!
//! Its text is that of the kernels, with what was decided before it and what follows from that below each
//! kernel. It reads back ([`read`]) and is compiled on from there; what it states must be what the commands
//! are ([`stated`]). How far the template's tactics are from the best that the explorer finds for the same
//! einsums is looked up where a text says so ([`explored`](mod@explored)).

pub mod commands;
pub mod compare;
pub mod explorer;
pub mod read;
pub mod shapes;

use std::fmt::Write as _;

use tilewright_machine::tcp::Tcp;

use crate::compiled::{Compiled, ProgramOutline};
use crate::kernel::Kernels;
use crate::tcp::choices::{WHOLE, classes};
use commands::{KernelSegment, segments};
use explorer::{ExploredContraction, SearchCache, works};
use shapes::{ProgramShapes, ShapedTensor};

/// A program at the lowered level.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Of what.
    pub title: String,
    /// What was decided, a line each.
    pub decided: String,
    /// Its kernels, in order.
    pub kernels: Vec<LoweredKernel>,
}

/// One kernel.
#[derive(Clone, Debug)]
pub struct LoweredKernel {
    /// Kind and number.
    pub name: String,
    /// What it reads, by role.
    pub reads: Vec<(&'static str, ShapedTensor)>,
    /// Weights of each fill in the register files, and how many fills of this shape.
    pub weights: Vec<(ShapedTensor, u64)>,
    /// The class of its weights, and the eighths of the register files that a fill takes.
    pub fill: Option<(usize, u64)>,
    /// What it gives.
    pub gives: Option<ShapedTensor>,
    /// Its commands on the first PE.
    pub segment: KernelSegment,
    /// What the explorer finds for its contractions, if it was asked.
    pub explored: Vec<ExploredContraction>,
}

/// Lowers a program of a model.
pub fn lowered(machine: &Tcp, compiled: &Compiled, outline: &ProgramOutline) -> Lowered {
    let shapes = ProgramShapes::new(machine, compiled, outline);
    let segments = segments(machine, compiled, outline);
    let classes = classes(&compiled.kernels);
    let eighths = |class: usize| compiled.plan.choices.fills.get(class).copied().unwrap_or(WHOLE);
    let kernels = compiled.kernels.kernels.iter().enumerate().zip(segments);
    let kernels = kernels.map(|((index, kernel), segment)| LoweredKernel {
        name: format!("{index} {}", kernel.kind()),
        reads: shapes.reads(kernel),
        weights: shapes.weights(index, kernel),
        fill: classes.get(index).copied().flatten().map(|class| (class, eighths(class))),
        gives: kernel.out().and_then(|out| shapes.value(out)),
        segment,
        explored: Vec::new(),
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
    let batch = if options.batch > 1 { format!("batch {}\n", options.batch) } else { String::new() };
    let decided = format!(
        "dtype {}\ncache {}\npes {}\nchips {}\n{batch}context {}\nchoices {}\n",
        options.dtype_name(),
        read::cache_name(options.cache),
        options.pes,
        options.chips,
        options.context.min(compiled.kernels.positions),
        compiled.settled()
    );
    Lowered { title, decided: format!("program {}\n{decided}", outline.name), kernels: kernels.collect() }
}

impl Lowered {
    /// Asks the explorer for the best of each contraction of the kernels that are wanted.
    #[must_use]
    pub fn explored(
        mut self,
        machine: &Tcp,
        compiled: &Compiled,
        outline: &ProgramOutline,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Lowered {
        let shapes = ProgramShapes::new(machine, compiled, outline);
        let mut searches = SearchCache::default();
        let kernels = self.kernels.iter_mut().zip(&compiled.kernels.kernels).enumerate();
        for (index, (lowered, kernel)) in kernels.filter(|(index, _)| wanted(*index)) {
            let all = works(&shapes, index, kernel).into_iter();
            let all = all.map(|work| searches.explored(machine, work, &lowered.segment));
            lowered.explored = all.collect();
        }
        self
    }
}

/// What the text of a program is told besides: the machine by name with its settings, and the kernels before
/// they are sharded.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// The machine's name.
    pub chip: &'o str,
    /// Figures that differ from its own.
    pub set: &'o [String],
    /// Stage 2.
    pub kernels: &'o Kernels,
}

impl Lowered {
    /// As text.
    pub fn print(&self, origin: Origin<'_>) -> String {
        let mut text = format!("lowered 2\n# {}\nchip {}\n", self.title, origin.chip);
        for setting in origin.set {
            let _ = writeln!(text, "set {setting}");
        }
        text += &self.decided;
        text += &origin.kernels.head();
        for (kernel, lowered) in origin.kernels.kernels.iter().zip(&self.kernels) {
            let _ = writeln!(text, "\n{}", origin.kernels.line(kernel));
            for (what, words) in lowered.lines() {
                let _ = writeln!(text, "  {what:<9}{words}");
            }
        }
        let scales = origin.kernels.scales();
        if scales.is_empty() { text } else { format!("{text}\n{scales}") }
    }
}

impl LoweredKernel {
    /// What is stated of it: what a line is about, and its words.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines: Vec<(&'static str, String)> =
            self.reads.iter().map(|(role, shaped)| (*role, shaped.to_string())).collect();
        lines.extend(self.weights.iter().map(|(shaped, fills)| ("weight", format!("{shaped} x {fills}"))));
        lines.extend(self.fill.map(|(class, eighths)| {
            ("fill", format!("{eighths}/{WHOLE} of the register files, class {class}"))
        }));
        lines.extend(self.gives.iter().map(|gives| ("gives", gives.to_string())));
        lines.extend(self.segment.tactics.iter().map(|tactic| ("tactic", tactic.clone())));
        lines.extend(self.explored.iter().map(|explored| ("best", explored.to_string())));
        lines.extend(self.segment.moves.iter().map(|moved| ("move", moved.to_string())));
        let run: Vec<String> = self.segment.runs.iter().map(ToString::to_string).collect();
        lines.push(("run", run.join(", ")));
        lines.push(("cycles", self.segment.cycles.to_string()));
        lines
    }
}
