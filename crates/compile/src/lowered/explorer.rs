//! What the explorer finds best for each contraction of a kernel, beside what the template's commands take
//! (paper section V-C, stage 3).
//!
//! The einsum is that of one PE, with the longest context and the most rows, like all figures of a lowered
//! text. Its operands may lie in any lowered shape, and what brings them there is not counted: the explorer's
//! time is what no template can do better than by much. The template's time is that of the commands that load
//! the register files and contract, with all that they do on the way: scales, exponentials, sums between
//! slices. Contractions that are alike, as in all blocks of a model, are searched once.

use std::collections::BTreeMap;
use std::fmt;

use tilewright_base::SourceId;
use tilewright_explore::tcp::{TcpReport, TcpTask};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;

use super::commands::KernelSegment;
use super::shapes::ProgramShapes;
use crate::kernel::{Heads, Kernel, WeightMatrix};
use crate::tcp::build::Mode;

/// Candidates that the explorer looks at, if there are more.
const BUDGET: u64 = 200_000;

/// A contraction of a kernel, as the template does it and as the explorer would.
#[derive(Clone, Debug, PartialEq)]
pub struct ExploredContraction {
    /// The image that contracts.
    pub name: &'static str,
    /// The einsum of one PE with its sizes.
    pub einsum: String,
    /// Type of the inputs.
    pub dtype: Dtype,
    /// What the template's commands take.
    pub cycles: u64,
    /// What the explorer found, if anything is legal.
    pub best: Option<ExplorerBest>,
}

/// The explorer's best.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplorerBest {
    /// Cycles of all commands.
    pub cycles: u64,
    /// What no candidate that was not looked at takes less than, if there are such.
    pub least_cycles: Option<u64>,
    /// The operand in the register files.
    pub held: String,
    /// How often loads and contractions are repeated.
    pub commands: u64,
    /// Loops over slices, in time, over lanes and in packets.
    pub tactic: String,
}

impl ExploredContraction {
    /// By how many per cent the template takes longer; below zero if it takes less.
    pub fn above_percent(&self) -> Option<f64> {
        let best = self.best.as_ref()?;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        Some((self.cycles as f64 / best.cycles.max(1) as f64 - 1.0) * 100.0)
    }
}

impl fmt::Display for ExploredContraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}: {} cycles, ", self.name, self.einsum, self.dtype, self.cycles)?;
        let (Some(best), Some(above)) = (&self.best, self.above_percent()) else {
            return write!(f, "where the explorer has no tactic");
        };
        let word = if above < 0.0 { "below" } else { "above" };
        write!(f, "{:.1} % {word} {}", above.abs(), best.cycles)?;
        if let Some(least) = best.least_cycles {
            write!(f, " (at least {least})")?;
        }
        let times = if best.commands == 1 { String::new() } else { format!(" {} times", best.commands) };
        write!(f, " of {} held{times}, {}", best.held, best.tactic)
    }
}

/// A contraction before it is searched.
pub(super) struct ContractionWork {
    name: &'static str,
    einsum: String,
    dtype: Dtype,
    /// Images that load the register files for it; the one that contracts is its name.
    loads: &'static [&'static str],
}

const WEIGHTS: &[&str] = &["load_weights", "widen_weights"];

/// The contractions of a kernel.
pub(super) fn works(shapes: &ProgramShapes<'_>, index: usize, kernel: &Kernel) -> Vec<ContractionWork> {
    let tokens = shapes.tokens();
    let dtype = shapes.plan.packed(index).map_or(shapes.plan.options.dtype, |packed| packed.dtype);
    let projects = |name, rows: u64, weights: &[WeightMatrix]| {
        let columns: u64 = weights.iter().map(|weight| weight.rows.stored()).sum();
        let width = weights.first().map_or(0, |weight| weight.columns.stored());
        let einsum = format!("le, fe -> lf; dims l={rows}, f={columns}, e={width}");
        vec![ContractionWork { name, einsum, dtype, loads: WEIGHTS }]
    };
    match kernel {
        Kernel::Project { parts, .. } => projects("project", tokens, parts),
        Kernel::Combine { weight, .. } => {
            let (width, columns) = (weight.rows.stored(), weight.columns.stored());
            let einsum = format!("lf, ef -> le; dims l={tokens}, f={columns}, e={width}");
            vec![ContractionWork { name: "combine", einsum, dtype, loads: WEIGHTS }]
        }
        Kernel::Head { weight, .. } => {
            let batches = shapes.outline.mode == Mode::Batch;
            let rows = if batches { shapes.plan.options.batch } else { 1 };
            projects("logits", rows, std::slice::from_ref(weight))
        }
        Kernel::Attend { heads, .. } => attends(shapes, heads),
        _ => Vec::new(),
    }
}

/// Scores and values. In prompts keys pass twice.
fn attends(shapes: &ProgramShapes<'_>, heads: &Heads) -> Vec<ContractionWork> {
    let (options, mode) = (&shapes.plan.options, shapes.outline.mode);
    let sequences = if mode == Mode::Batch { options.batch } else { 1 };
    let tokens = if mode == Mode::Prefill { shapes.tokens() } else { 1 };
    let sizes = format!(
        "dims h={}, q={}, k={}, d={}",
        heads.kv * sequences,
        heads.group * tokens,
        options.context,
        heads.depth
    );
    let work = |name, einsum: &str, loads| ContractionWork {
        name,
        einsum: format!("{einsum}; {sizes}"),
        dtype: options.cache,
        loads,
    };
    let (scores, values) = ("hqd, hkd -> hqk", "hqk, hkd -> hqd");
    let values = work("values", values, &["load_chances"]);
    match mode {
        Mode::Prefill => {
            vec![work("maxima", scores, &["load_queries"]), work("chances", scores, &[]), values]
        }
        Mode::Decode | Mode::Batch => vec![work("scores", scores, &["load_keys"]), values],
    }
}

/// Searches that were made.
#[derive(Default)]
pub(super) struct SearchCache {
    known: BTreeMap<String, Option<ExplorerBest>>,
}

impl SearchCache {
    /// A contraction with what the kernel's commands take, and with what the explorer finds.
    pub(super) fn explored(
        &mut self,
        machine: &Tcp,
        work: ContractionWork,
        segment: &KernelSegment,
    ) -> ExploredContraction {
        let ContractionWork { name, einsum, dtype, loads } = work;
        let own = segment.runs.iter().filter(|ran| ran.name == name || loads.contains(&ran.name.as_str()));
        let cycles = own.map(|ran| ran.cycles).sum();
        let key = format!("{einsum} of {dtype}");
        let best = self.known.entry(key).or_insert_with(|| best(machine, &einsum, dtype)).clone();
        ExploredContraction { name, einsum, dtype, cycles, best }
    }
}

/// The fastest tactic of an einsum on one PE.
fn best(machine: &Tcp, einsum: &str, dtype: Dtype) -> Option<ExplorerBest> {
    let parsed = parser::program(einsum, SourceId(0)).ok()?;
    let problem = Problem::new(&parsed).ok()?;
    let task = TcpTask::new(Setup::new(machine, 1, dtype).ok()?, &parsed, &problem).ok()?;
    let options = SearchOptions { budget: Some(BUDGET), ..SearchOptions::exact(Goal::Time, 1) };
    let found = search(&task, &options, &mut |_, _| false);
    let report = TcpReport::new(&task, &found, found.kept.best().first()?)?;
    let einsum = &report.program.einsum;
    let held = match report.framed.stationary() {
        Operand::In1 => einsum.in1.as_ref().map_or(String::new(), ToString::to_string),
        _ => einsum.in0.to_string(),
    };
    Some(ExplorerBest {
        cycles: report.columns.cycles,
        least_cycles: found.open.map(|open| open.ticks).filter(|least| *least < report.columns.cycles),
        held,
        commands: report.framed.frame.commands(),
        tactic: report.program.tactic.as_ref()?.to_string(),
    })
}
