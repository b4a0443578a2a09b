//! The explorer, called from Python.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use tilewright_base::Diagnostic;
use tilewright_verify::VerifyLimits;
use tilewright_view::{ExplorationView, PageRuns, page};
use tilewright_workbench::explore::{ExploreRequest, GOALS, explore, goal_named};

use super::interrupt::interruptible;
use super::machine::MachineHandle;
use super::notation::NotationTexts;
use super::refusal::{plain, raise};

/// How to search, as Python gives it.
#[derive(FromPyObject)]
pub(crate) struct ExploreTexts {
    goal: String,
    keep: usize,
    pes: u64,
    from_hbm: (bool, bool),
    evaluations: Option<u64>,
    plot: bool,
    verify: usize,
    verify_products: u64,
}

/// A search as it goes to Python: all of it as JSON; each of the best in sentences; each as texts, of the
/// einsum and of its program, where it has any; pictures.
type FoundTexts = (String, Vec<String>, Vec<Option<(String, String)>>, Option<String>);

/// Searches. `progress` is called with the part that is done.
#[pyfunction]
pub(crate) fn explore_einsum(
    py: Python<'_>,
    texts: NotationTexts,
    machine: &MachineHandle,
    options: ExploreTexts,
    progress: Option<Py<PyAny>>,
) -> PyResult<FoundTexts> {
    let goal = goal_named(&options.goal).ok_or_else(|| {
        let complaint = Diagnostic::error("explore/goal", format!("`{}` is no goal", options.goal));
        plain(py, complaint.allowed(GOALS).instead("time@5"))
    })?;
    let request = ExploreRequest {
        goal,
        keep: options.keep,
        pes: options.pes,
        from_hbm: [options.from_hbm.0, options.from_hbm.1],
        evaluations: options.evaluations,
        plot: options.plot,
        verify: VerifyLimits { candidates: options.verify, products: u128::from(options.verify_products) },
    };
    let input = texts.read().map_err(|refusal| raise(py, &refusal))?;
    let stop = AtomicBool::new(false);
    let stopped = AtomicBool::new(false);
    let found = interruptible(py, &stop, || {
        let mut last = -1.0_f64;
        explore(&input, &machine.loaded, &request, &mut |part| {
            if let Some(progress) = progress.as_ref().filter(|_| part - last >= 0.01) {
                last = part;
                let failed = Python::attach(|py| progress.call1(py, (part,)).is_err());
                stopped.fetch_or(failed, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        })
    })?;
    let answer = found.map_err(|refusal| raise(py, &refusal))?;
    let texts = answer.lowered.into_iter().map(|one| one.map(|one| (one.notation, one.program))).collect();
    Ok((answer.value.to_string(), answer.explained, texts, answer.svg))
}

/// The page that shows what a search found, as one self-contained file.
#[pyfunction]
pub(crate) fn exploration_page(name: &str, found: &str) -> String {
    let explorations = ExplorationView::read(name, found).into_iter().collect();
    page(&PageRuns { explorations, ..PageRuns::default() })
}
