//! Readings of a recorded run: findings, times, bytes, where the time went, energy, suggestions.

use std::sync::{Arc, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tilewright_neuron_isa::EngineKind;
use tilewright_neuron_isa::text::print;
use tilewright_neuron_sim::ScheduledProgram;
use tilewright_neuron_sim::analysis::advice::advice;
use tilewright_neuron_sim::analysis::critical_path::{critical_path, idle_times};
use tilewright_neuron_sim::analysis::energy::energy;
use tilewright_neuron_sim::analysis::summary::summary;
use tilewright_neuron_sim::findings::findings;
use tilewright_neuron_sim::trace::perfetto_bytes;

use crate::session::Session;

/// Lines of the critical path that are reported.
const LINES: usize = 8;

fn seconds(ps: u64) -> f64 {
    ps as f64 * 1e-12
}

impl Session {
    /// When each instruction runs; found once for as many instructions.
    fn scheduled(&self, py: Python<'_>) -> Arc<ScheduledProgram> {
        let count = self.program.instructions.len();
        let held = self.timeline.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((known, timeline)) = held
            && known == count
        {
            return timeline;
        }
        let (chip, program) = (self.chip.clone(), &self.program);
        let run = Arc::new(py.detach(|| ScheduledProgram::of(&chip, program)));
        let entry = Some((count, Arc::clone(&run)));
        *self.timeline.lock().unwrap_or_else(PoisonError::into_inner) = entry;
        run
    }
}

#[pymethods]
impl Session {
    /// Findings as dictionaries.
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let reported = self.reported.iter().cloned();
        for finding in reported.chain(findings(&self.chip, &self.program)) {
            let entry = PyDict::new(py);
            entry.set_item("code", finding.code)?;
            entry.set_item("severity", if finding.error { "error" } else { "warning" })?;
            entry.set_item("line", &finding.source)?;
            entry.set_item("message", &finding.message)?;
            entry.set_item("allowed", &finding.allowed)?;
            entry.set_item("instead", &finding.instead)?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// Times in seconds, bytes, busy times by engine, and utilisation as the vendor defines it.
    fn timing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let run = self.scheduled(py);
        let (timeline, program) = (&run.timeline, run.program(&self.program));
        let figures = summary(&self.chip, program, timeline);
        let out = PyDict::new(py);
        out.set_item("time_s", seconds(figures.time_ps))?;
        out.set_item("launch_s", seconds(figures.launch_ps))?;
        let engines = PyDict::new(py);
        for (engine, used) in EngineKind::ALL.into_iter().zip(figures.engines) {
            let entry = PyDict::new(py);
            entry.set_item("busy_s", seconds(used.busy_ps))?;
            entry.set_item("instructions", used.instructions)?;
            engines.set_item(engine.name(), entry)?;
        }
        out.set_item("engines", engines)?;
        out.set_item("hbm_read_bytes", figures.hbm_read_bytes)?;
        out.set_item("hbm_written_bytes", figures.hbm_written_bytes)?;
        out.set_item("dma_bytes", figures.dma_bytes)?;
        out.set_item("spill_save_bytes", figures.spill_save_bytes)?;
        out.set_item("spill_reload_bytes", figures.spill_reload_bytes)?;
        out.set_item("macs", figures.macs)?;
        out.set_item("matmuls", figures.matmuls)?;
        out.set_item("matmul_flops", figures.matmul_flops)?;
        out.set_item("sbuf_peak_bytes", figures.sbuf_peak_bytes)?;
        out.set_item("psum_peak_bytes", figures.psum_peak_bytes)?;
        out.set_item("mfu", figures.utilisation.mfu)?;
        out.set_item("hfu", figures.utilisation.hfu)?;
        out.set_item("mbu", figures.utilisation.mbu)?;
        out.set_item("bound_by", figures.bound_by.name())?;
        out.set_item("bound_part", figures.bound_part)?;
        out.set_item("cores", figures.cores)?;
        Ok(out)
    }

    /// Where the time went: the critical path by line, and what engines waited for.
    fn where_time_went<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let run = self.scheduled(py);
        let (timeline, program) = (&run.timeline, run.program(&self.program));
        let out = PyDict::new(py);
        let path = PyList::empty(py);
        for share in critical_path(program, timeline).iter().take(LINES) {
            let entry = PyDict::new(py);
            entry.set_item("line", program.source(share.source))?;
            entry.set_item("engine", share.engine.name())?;
            entry.set_item("time_s", seconds(share.time_ps))?;
            entry.set_item("instructions", share.count)?;
            path.append(entry)?;
        }
        out.set_item("critical_path", path)?;
        let waits = PyDict::new(py);
        for engine in EngineKind::ALL {
            waits.set_item(engine.name(), PyDict::new(py))?;
        }
        for ((engine, why), time_ps) in idle_times(program, timeline) {
            if let Some(entry) = waits.get_item(engine.name())? {
                entry.set_item(why.describe(program), seconds(time_ps))?;
            }
        }
        out.set_item("idle", waits)?;
        Ok(out)
    }

    /// Joules by component.
    fn energy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let run = self.scheduled(py);
        let out = PyDict::new(py);
        for part in energy(&self.chip, run.program(&self.program), &run.timeline) {
            out.set_item(part.name, part.joules)?;
        }
        Ok(out)
    }

    /// What could be gained, each with an upper bound in seconds.
    fn advice<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let run = self.scheduled(py);
        let (chip, program) = (self.chip.clone(), run.program(&self.program));
        let found = py.detach(|| advice(&chip, program, &run.timeline));
        let list = PyList::empty(py);
        for advice in found {
            let entry = PyDict::new(py);
            entry.set_item("name", advice.name)?;
            entry.set_item("line", program.source(advice.source))?;
            entry.set_item("text", &advice.text)?;
            entry.set_item("at_most_s", seconds(advice.at_most_ps))?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// The recorded program as text, which `tilewright sim` reads.
    fn text(&self) -> String {
        print(&self.program, &self.chip.name)
    }

    /// A Perfetto trace.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let run = self.scheduled(py);
        let bytes = perfetto_bytes(&self.chip, run.program(&self.program), &run.timeline);
        Ok(PyBytes::new(py, &bytes.map_err(|error| PyRuntimeError::new_err(error.to_string()))?))
    }

    /// Recorded instructions as (opcode, engine, line, busy ns), for tests and tables.
    fn instructions(&self) -> Vec<(&'static str, &'static str, String, f64)> {
        let row = |instruction: &tilewright_neuron_isa::Instruction| {
            let line = self.program.source(instruction.source).to_owned();
            (instruction.opcode, instruction.engine.name(), line, instruction.cost.busy_ps as f64 / 1000.0)
        };
        self.program.instructions.iter().map(row).collect()
    }

    /// What the instructions from a number on cost: (opcode, engine, busy ps, latency ps, macs, HBM bytes).
    fn costs(&self, from: usize) -> Vec<(&'static str, &'static str, u64, u64, u64, u64)> {
        let row = |one: &tilewright_neuron_isa::Instruction| {
            let bytes = one.hbm_read_bytes.saturating_add(one.hbm_written_bytes);
            (one.opcode, one.engine.name(), one.cost.busy_ps, one.cost.latency_ps, one.macs, bytes)
        };
        self.program.instructions.iter().skip(from).map(row).collect()
    }

    /// When each instruction ran, as (opcode, engine, core, start ns, end ns, done ns).
    fn spans(&self, py: Python<'_>) -> Vec<(&'static str, &'static str, u32, f64, f64, f64)> {
        let run = self.scheduled(py);
        let ns = |ps: u64| ps as f64 / 1000.0;
        let rows = run.program(&self.program).instructions.iter().zip(&run.timeline.spans);
        rows.filter(|(one, _)| !one.merged)
            .map(|(one, span)| {
                let core = self.program.core(one);
                (one.opcode, one.engine.name(), core, ns(span.start_ps), ns(span.end_ps), ns(span.done_ps))
            })
            .collect()
    }

    /// What moved tiles out of SBUF and back: (`spill` or `reload`, start, end), in ns.
    fn spills(&self, py: Python<'_>) -> Vec<(&'static str, f64, f64)> {
        let run = self.scheduled(py);
        let ns = |ps: u64| ps as f64 / 1000.0;
        let moved = run.timeline.spills.iter().filter(|spill| spill.bytes > 0);
        let name = |saves: bool| if saves { "spill" } else { "reload" };
        moved.map(|one| (name(one.saves), ns(one.span.start_ps), ns(one.span.end_ps))).collect()
    }
}
