//! One decoder block in the record of a run: its commands on the first PE, and the operator that each belongs
//! to.
//!
//! A block begins with the norm before its attention and ends where the next block's begins. The compiler
//! names commands by what they do; which kernel uses which names is written here, and commands that several
//! use go to the one that is under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use tilewright_base::invariant::Exact;

use tilewright_compile::Compiled;
use tilewright_compile::kernel::{Kernel, Kernels};
use tilewright_record::{Interval, Record, TrackId};
use tilewright_tcp_isa::program::event::ExecUnit;
use tilewright_tcp_isa::program::transfer::MemoryInstance;

use crate::measure::{PromptChunk, kind_of, real};
use crate::spans::CycleSpan;

/// The first command of every norm.
const NORM_STARTS: &str = "squares";
/// Transfers of weights.
pub(crate) const WEIGHTS: &str = "weights";
/// Transfers between PEs.
pub(crate) const EXCHANGES: [&str; 3] = ["sums", "tokens", "worths"];

/// A kernel of the block.
#[derive(Clone, Debug)]
pub(crate) struct BlockOperator {
    pub(crate) label: &'static str,
    pub(crate) kernel: usize,
    owns: &'static [&'static str],
}

/// A command of the first PE, from the beginning of the block.
#[derive(Clone, Debug)]
pub(crate) struct BlockCommand {
    pub(crate) unit: ExecUnit,
    pub(crate) name: Arc<str>,
    /// Index of its operator; none for what another block needs.
    pub(crate) operator: Option<usize>,
    /// Of weights for the next block, the operator there: as much came for this one before it began.
    pub(crate) ahead: Option<usize>,
    pub(crate) span: CycleSpan,
    /// The stage that decided how long it took.
    pub(crate) binding: Option<&'static str>,
    /// Products, and those that are no padding.
    pub(crate) macs: [u64; 2],
    /// Bytes of a transfer.
    pub(crate) bytes: u64,
    /// Energy of the command itself, in fJ.
    pub(crate) energy_fj: f64,
}

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) layer: usize,
    /// Where it lies in its run.
    pub(crate) window: CycleSpan,
    pub(crate) operators: Vec<BlockOperator>,
    pub(crate) commands: Vec<BlockCommand>,
}

impl Block {
    /// How long it takes.
    pub(crate) fn cycles(&self) -> u64 {
        self.window.1.exact_sub(self.window.0)
    }

    /// Stretches of the commands that `which` picks.
    pub(crate) fn spans(&self, which: impl Fn(&BlockCommand) -> bool) -> Vec<CycleSpan> {
        crate::spans::union(self.commands.iter().filter(|command| which(command)).map(|command| command.span))
    }
}

/// The layer in the middle of a model.
pub(crate) fn middle(kernels: &Kernels) -> usize {
    let attends = kernels.kernels.iter().filter(|kernel| matches!(kernel, Kernel::Attend { .. })).count();
    attends.saturating_sub(1) / 2
}

/// Finds a block in a run; `None` if the model has no such blocks or the record does not show them.
pub(crate) fn find(chunk: &PromptChunk<'_>, layer: usize) -> Option<Block> {
    let PromptChunk { compiled, outcome, .. } = chunk;
    let kernels = &compiled.kernels.kernels;
    let (first, next) = bounds(kernels, layer)?;
    let norms = |before: usize| kernels.iter().take(before).filter(|kernel| is_norm(kernel)).count();
    let tracks = tracks(&outcome.record);
    let mut intervals: Vec<(ExecUnit, &Interval)> = outcome
        .record
        .intervals()
        .filter_map(|interval| Some((*tracks.get(&interval.track)?, interval)))
        .collect();
    intervals.sort_by_key(|(_, interval)| (interval.start_cycles, interval.end_cycles));
    let starts: Vec<u64> = intervals
        .iter()
        .filter(|(unit, interval)| *unit == ExecUnit::Main && kind_of(&interval.name) == NORM_STARTS)
        .map(|(_, interval)| interval.start_cycles)
        .collect();
    let all = norms(kernels.len());
    let each = starts.len().checked_div(all).filter(|each| *each > 0 && each * all == starts.len())?;
    let window = (*starts.get(norms(first) * each)?, *starts.get(norms(next) * each)?);
    let operators: Vec<BlockOperator> = (first..next).filter_map(|at| operator(kernels, at)).collect();
    let mut block = Block { layer, window, operators, commands: Vec::new() };
    let energies = energies(chunk);
    for (unit, interval) in intervals {
        let span = (interval.start_cycles.max(window.0), interval.end_cycles.min(window.1));
        if span.0 < span.1 {
            let count = |name: &str| {
                interval.counts.iter().find(|(what, _)| *what == name).map_or(0, |(_, count)| *count)
            };
            block.commands.push(BlockCommand {
                unit,
                name: interval.name.clone(),
                operator: None,
                ahead: None,
                span: (span.0 - window.0, span.1 - window.0),
                binding: interval.binding,
                macs: [count("macs"), count("useful macs")],
                bytes: count("bytes"),
                energy_fj: energies.get(&(unit.name(), &*interval.name)).copied().unwrap_or(0.0),
            });
        }
    }
    assign(&mut block, &fills(compiled), next - first);
    Some(block)
}

fn is_norm(kernel: &Kernel) -> bool {
    matches!(kernel, Kernel::Norm { .. })
}

/// The norm that a block begins with, and that of the next.
fn bounds(kernels: &[Kernel], layer: usize) -> Option<(usize, usize)> {
    let attends = kernels.iter().enumerate().filter(|(_, kernel)| matches!(kernel, Kernel::Attend { .. }));
    let mut attends = attends.map(|(at, _)| at).skip(layer);
    let norm_before = |at: usize| kernels.get(..at)?.iter().rposition(is_norm);
    Some((norm_before(attends.next()?)?, norm_before(attends.next()?)?))
}

/// Tracks of the first PE.
fn tracks(record: &Record) -> BTreeMap<TrackId, ExecUnit> {
    let units = [("main", ExecUnit::Main), ("sub", ExecUnit::Sub), ("dma", ExecUnit::Dma)];
    (0..)
        .map(TrackId)
        .zip(&record.layout.tracks)
        .filter_map(|(id, _)| {
            let path = record.layout.path(id);
            let name = path.strip_prefix("chip0/pe0/")?;
            units.into_iter().find(|(unit, _)| *unit == name).map(|(_, unit)| (id, unit))
        })
        .collect()
}

/// What one run of each image takes.
fn energies<'c>(chunk: &PromptChunk<'c>) -> BTreeMap<(&'static str, &'c str), f64> {
    let images = chunk.outcome.images.iter();
    images
        .map(|image| {
            ((image.unit.name(), &*image.name), real(image.energy_fj) / real(image.runs.max(1).into()))
        })
        .collect()
}

/// The kernel that a transfer brings weights for.
fn fills(compiled: &Compiled) -> BTreeMap<&str, usize> {
    let pes = compiled.plan.options.pes;
    let kernel_of = |offset: u64| {
        let holds = |at: u64, pe_bytes: u64| at <= offset && offset < at.exact_add(pe_bytes.exact_mul(pes));
        let packed = compiled.plan.packed.iter();
        packed.into_iter().find(|packed| packed.fills.iter().any(|fill| holds(fill.at, fill.pe_bytes)))
    };
    let transfers = compiled.prefill.transfers.iter().filter(|transfer| kind_of(&transfer.name) == WEIGHTS);
    transfers
        .filter_map(|transfer| {
            let source = transfer.source.locate().filter(|from| from.medium == MemoryInstance::Hbm)?;
            Some((transfer.name.as_str(), kernel_of(source.offset)?.kernel))
        })
        .collect()
}

/// What a kernel is called, and the names of its commands.
fn operator(kernels: &[Kernel], at: usize) -> Option<BlockOperator> {
    let before_attention = kernels.get(at..)?.iter().take_while(|kernel| !ends_half(kernel)).count();
    let attends =
        kernels.get(at..at + before_attention)?.iter().any(|kernel| matches!(kernel, Kernel::Attend { .. }));
    let (label, owns): (&str, &[&str]) = match kernels.get(at)? {
        Kernel::Norm { .. } => (
            if attends { "norm before attention" } else { "norm before feed-forward" },
            &[
                NORM_STARTS,
                "root",
                "peaks",
                "worths",
                "scale",
                "tokens",
                "load_gain",
                "load_roots",
                "load_token_peaks",
                // What was exchanged may be added part by part, each before its norm.
                "sum",
                "load_ones",
                "load_residual",
                "residual",
            ],
        ),
        Kernel::Project { .. } => (
            if attends { "queries, keys, values" } else { "gate and up" },
            &["project", "load_weights", "load_scales", "load_worths", WEIGHTS],
        ),
        Kernel::Pool { .. } => return None,
        Kernel::Rotate { .. } => (
            "rotation, cache",
            &["queries", "keys", "values", "load_angles", "store", "deal_queries", "widen"],
        ),
        Kernel::Attend { .. } => (
            "attention",
            &[
                "scores",
                "maxima",
                "chances",
                "sums",
                "values",
                "pair_values",
                "collect",
                "load_chances",
                "load_maxima",
                "load_sums",
                "load_queries",
                "load_keys",
                "spread_queries",
                "cache",
            ],
        ),
        Kernel::Activate { .. } => ("activation", &["activate"]),
        Kernel::Combine { input, .. } => {
            let attended = |kernel: &Kernel| matches!(kernel, Kernel::Attend { out, .. } if out == input);
            (
                if kernels.iter().any(attended) { "output projection" } else { "down" },
                &[
                    "combine",
                    "rows_peaks",
                    "rows_quantise",
                    "load_peaks",
                    "spread_peaks",
                    "load_scales",
                    "load_weights",
                    "sums",
                    "sum",
                    "load_ones",
                    "residual",
                    WEIGHTS,
                ],
            )
        }
        Kernel::Embed { .. } | Kernel::Head { .. } => return None,
    };
    Some(BlockOperator { label, kernel: at, owns })
}

/// A combination ends the half of a block that it is in.
fn ends_half(kernel: &Kernel) -> bool {
    matches!(kernel, Kernel::Combine { .. })
}

/// Gives each command its operator: main commands in order, the others by what the main context does
/// meanwhile.
fn assign(block: &mut Block, fills: &BTreeMap<&str, usize>, kernels: usize) {
    let operators = block.operators.clone();
    let owns =
        |at: usize, kind: &str| operators.get(at).is_some_and(|operator| operator.owns.contains(&kind));
    let mut current = 0;
    for command in &mut block.commands {
        let kind = kind_of(&command.name);
        if command.unit == ExecUnit::Main && !owns(current, kind) {
            let later = (current..operators.len()).find(|at| owns(*at, kind));
            current = later.or_else(|| (0..current).rev().find(|at| owns(*at, kind))).unwrap_or(current);
        }
        let for_kernel = |kernel: usize| operators.iter().position(|operator| operator.kernel == kernel);
        let kernel = fills.get(&*command.name);
        command.ahead = kernel.and_then(|kernel| for_kernel(kernel.checked_sub(kernels)?));
        command.operator = match (command.unit, kernel) {
            (ExecUnit::Main, _) => Some(current),
            (_, Some(kernel)) => for_kernel(*kernel),
            (ExecUnit::Dma, None) => nearest(&operators, current, kind, false),
            _ => nearest(&operators, current, kind, true),
        };
    }
}

/// The operator nearest to a place that owns a kind of command: loads are for what comes, transfers follow
/// what was.
fn nearest(operators: &[BlockOperator], place: usize, kind: &str, later: bool) -> Option<usize> {
    let owners = operators.iter().enumerate().filter(|(_, operator)| operator.owns.contains(&kind));
    owners.map(|(at, _)| at).min_by_key(|at| (at.abs_diff(place), (*at > place) != later))
}
