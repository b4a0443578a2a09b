//! What to change where nothing is legal: single changes, each tried, and given only if something is legal
//! with it.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::Setup;

use crate::cost_math::CostMath;
use crate::goal::Goal;
use crate::refusal::RefusalReason;
use crate::search::{SearchOptions, search};
use crate::tcp::TcpSearchResult;
use crate::tcp::task::{AxisClass, TcpTask};

/// Doublings of figures and halvings of axes that are tried.
const MOST_STEPS: u32 = 40;
/// Positions that are added to an axis.
const MOST_ADDED: u64 = 16;

/// A change after which something is legal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Figures of the machine, by key.
    Figures(Vec<(&'static str, u64)>),
    /// PEs fused into one.
    Pes(u64),
    /// Another size of an axis: its name and size.
    Size(String, u64),
}

/// Changes that help, for a task of which nothing is legal.
pub fn remedies(task: &TcpTask<'_>) -> Vec<Remedy> {
    let mut all = Vec::new();
    all.extend(sizes(task));
    all.extend(more_pes(task));
    all.extend(figures(task));
    all
}

/// Looks until something legal is found.
fn look(task: &TcpTask<'_>) -> TcpSearchResult {
    search(task, &SearchOptions::exact(Goal::Time, 1), &mut |_, kept| !kept.best().is_empty())
}

fn is_legal(task: &TcpTask<'_>) -> bool {
    !look(task).kept.best().is_empty()
}

/// The figures that bind, doubled one after the other.
fn figures(task: &TcpTask<'_>) -> Option<Remedy> {
    let mut machine: Tcp = task.setup.machine.clone();
    let mut changed: Vec<(&'static str, u64)> = Vec::new();
    for _ in 0..MOST_STEPS {
        let now = with_machine(task, &machine);
        let found = look(&now);
        if !found.kept.best().is_empty() {
            return (!changed.is_empty()).then_some(Remedy::Figures(changed));
        }
        let (key, figure) = match found.refused.binding()?.reason {
            RefusalReason::Registers => ("trf.rows_per_bank", &mut machine.trf.rows_per_bank),
            RefusalReason::DataMemory => ("dm.capacity_bytes", &mut machine.dm.capacity_bytes),
            RefusalReason::Accumulators => {
                ("ce.accumulators_per_output", &mut machine.ce.accumulators_per_output)
            }
            _ => return None,
        };
        *figure = figure.checked_mul(2)?;
        match changed.iter_mut().find(|(known, _)| *known == key) {
            Some((_, value)) => *value = *figure,
            None => changed.push((key, *figure)),
        }
    }
    None
}

fn with_machine<'m>(task: &TcpTask<'_>, machine: &'m Tcp) -> TcpTask<'m> {
    TcpTask {
        setup: Setup { machine, fused_pes: task.setup.fused_pes, dtype: task.setup.dtype },
        axes: task.axes.clone(),
        program: task.program.clone(),
        groups: task.groups,
        from_hbm: task.from_hbm,
    }
}

fn more_pes(task: &TcpTask<'_>) -> Option<Remedy> {
    let mut pes = task.setup.fused_pes.checked_mul(2)?;
    while let Ok(setup) = Setup::new(task.setup.machine, pes, task.setup.dtype) {
        if is_legal(&TcpTask { setup, ..task.clone() }) {
            return Some(Remedy::Pes(pes));
        }
        pes = pes.checked_mul(2)?;
    }
    None
}

/// One axis a little longer, or else a sum shorter by as little as helps.
fn sizes(task: &TcpTask<'_>) -> Option<Remedy> {
    let with = |axis: usize, extent: u64| {
        let mut other = task.clone();
        other.axes[axis].extent = extent;
        other
    };
    let remedy = |axis: usize, extent: u64| {
        Some(Remedy::Size(task.axes[axis].name.to_string(), extent.times_cost(groups(task, axis))))
    };
    for added in 1..=MOST_ADDED {
        for axis in 0..task.axes.len() {
            let extent = task.axes[axis].extent.plus_cost(added);
            if task.axes[axis].extent <= MOST_ADDED && is_legal(&with(axis, extent)) {
                return remedy(axis, extent);
            }
        }
    }
    let longest = task.of_class(AxisClass::Contracted).max_by_key(|axis| task.axes[*axis].extent)?;
    let (mut low, mut high) = (0, task.axes[longest].extent);
    // The least of these halvings that helps, then what lies between it and the one before.
    let mut half = high / 2;
    while half >= 2 && low == 0 {
        if is_legal(&with(longest, half)) {
            low = half;
        } else {
            high = half;
        }
        half /= 2;
    }
    while low > 0 && high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_legal(&with(longest, middle)) { low = middle } else { high = middle }
    }
    if low == 0 { None } else { remedy(longest, low) }
}

/// Groups over which an axis is sharded; its size is that of the whole axis.
fn groups(task: &TcpTask<'_>, axis: usize) -> u64 {
    let axis = &task.axes[axis];
    let whole = task.program.dims.iter().find(|dim| dim.name.same_letters(&axis.name));
    let whole = whole.and_then(|dim| task.program.size_value(&dim.most));
    whole.map_or(1, |whole| whole / axis.extent.max(1)).max(1)
}
