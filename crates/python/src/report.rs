//! Readings of a recorded run: findings, times, bytes, and a Perfetto trace.

use std::num::NonZeroU64;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tilewright_neuron::findings::findings;
use tilewright_neuron::schedule::{Timeline, schedule};
use tilewright_neuron::{EngineKind, Program};
use tilewright_record::{Interval, KeepAll, Layout, Recorder, TrackKind, perfetto};

use crate::session::Session;

/// Picoseconds are the cycles of the record.
const CLOCK_HZ: u64 = 1_000_000_000_000;

fn seconds(ps: u64) -> f64 {
    ps as f64 / CLOCK_HZ as f64
}

#[pymethods]
impl Session {
    /// Findings as dictionaries.
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for finding in findings(&self.chip, &self.program) {
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

    /// Times in seconds, bytes, and busy times by engine; with a trace if asked for.
    #[pyo3(signature = (trace=false))]
    fn timing<'py>(&self, py: Python<'py>, trace: bool) -> PyResult<Bound<'py, PyDict>> {
        let (chip, program) = (self.chip.clone(), &self.program);
        let timeline = py.detach(|| schedule(&chip, program));
        let out = PyDict::new(py);
        out.set_item("time_s", seconds(timeline.total_ps))?;
        let engines = PyDict::new(py);
        for (engine, busy) in EngineKind::ALL.into_iter().zip(timeline.busy_ps) {
            let count =
                program.instructions.iter().filter(|instruction| instruction.engine == engine).count();
            let entry = PyDict::new(py);
            entry.set_item("busy_s", seconds(busy))?;
            entry.set_item("instructions", count)?;
            engines.set_item(engine.name(), entry)?;
        }
        out.set_item("engines", engines)?;
        let (read, written) = program.hbm_bytes();
        out.set_item("hbm_read_bytes", read)?;
        out.set_item("hbm_written_bytes", written)?;
        out.set_item("macs", program.instructions.iter().map(|instruction| instruction.macs).sum::<u64>())?;
        out.set_item("sbuf_peak_bytes", timeline.sbuf_peak_bytes)?;
        out.set_item("psum_peak_bytes", timeline.psum_peak_bytes)?;
        let (saved, reloaded) = timeline.spill_bytes();
        out.set_item("spill_save_bytes", saved)?;
        out.set_item("spill_reload_bytes", reloaded)?;
        if trace {
            let bytes = perfetto_bytes(&self.chip.name, program, &timeline);
            out.set_item(
                "trace",
                PyBytes::new(py, &bytes.map_err(|error| PyRuntimeError::new_err(error.to_string()))?),
            )?;
        }
        Ok(out)
    }

    /// Recorded instructions as (opcode, engine, line, busy ns), for tests and tables.
    fn instructions(&self) -> Vec<(&'static str, &'static str, String, f64)> {
        let row = |instruction: &tilewright_neuron::Instruction| {
            let line = self.program.source(instruction.source).to_owned();
            (instruction.opcode, instruction.engine.name(), line, instruction.cost.busy_ps as f64 / 1000.0)
        };
        self.program.instructions.iter().map(row).collect()
    }

    /// What the instructions from a number on cost: (opcode, engine, busy ps, latency ps, macs, HBM bytes).
    fn costs(&self, from: usize) -> Vec<(&'static str, &'static str, u64, u64, u64, u64)> {
        let row = |one: &tilewright_neuron::Instruction| {
            let bytes = one.hbm_read_bytes.saturating_add(one.hbm_written_bytes);
            (one.opcode, one.engine.name(), one.cost.busy_ps, one.cost.latency_ps, one.macs, bytes)
        };
        self.program.instructions.iter().skip(from).map(row).collect()
    }
}

/// The timeline as a Perfetto trace: one track for each engine.
fn perfetto_bytes(
    chip: &str,
    program: &Program,
    timeline: &Timeline,
) -> Result<Vec<u8>, tilewright_record::RecordError> {
    let mut layout = Layout::new(NonZeroU64::new(CLOCK_HZ).unwrap_or(NonZeroU64::MIN));
    let root = layout.add_track(None, TrackKind::Chip, chip);
    let core = layout.add_track(Some(root), TrackKind::Core, "core0");
    let tracks = EngineKind::ALL.map(|engine| {
        let kind = if engine == EngineKind::Dma { TrackKind::Dma } else { TrackKind::Engine };
        layout.add_track(Some(core), kind, engine.name())
    });
    let mut recorder = Recorder::new(layout, KeepAll::default())?;
    for (instruction, span) in program.instructions.iter().zip(&timeline.spans) {
        let track = tracks[instruction.engine as usize];
        let mut interval = Interval::new(track, instruction.opcode, span.start_ps, span.end_ps);
        interval.source = Some(program.source(instruction.source).into());
        if let Some(dma) = instruction.dma {
            interval = interval.with_count("bytes", dma.bytes).with_count("descriptors", dma.descriptors);
        }
        if instruction.macs > 0 {
            interval = interval.with_count("macs", instruction.macs);
        }
        recorder.interval(interval)?;
    }
    let record = recorder.finish()?;
    let mut bytes = Vec::new();
    perfetto::write(&record, &mut bytes)?;
    Ok(bytes)
}
