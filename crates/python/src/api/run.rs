//! Programs run from Python, and what a run left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tilewright_base::Diagnostic;
use tilewright_num::{Dtype, RuleSet};
use tilewright_runtime::{Array, ArrayError, npy, tensors};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorRole};
use tilewright_view::{PageRuns, page};
use tilewright_workbench::readings::ReadingSelection;
use tilewright_workbench::simulate::{ProgramBody, SimulateRequest, SimulatedRun, read_program, simulate};
use tilewright_workbench::view::view;

use super::array::{from_buffer, into_buffer};
use super::interrupt::interruptible;
use super::machine::MachineHandle;
use super::refusal::{plain, raise};

/// A finished run.
#[pyclass(frozen)]
pub(crate) struct RunHandle {
    run: SimulatedRun,
    name: String,
    text: String,
}

/// Runs a program text. Arrays are (buffer, element type, extents) by tensor; `which` says which of values,
/// findings and timeline are wanted.
#[pyfunction]
pub(crate) fn simulate_program(
    py: Python<'_>,
    name: String,
    text: String,
    machine: Option<&MachineHandle>,
    arrays: &Bound<'_, PyDict>,
    folder: String,
    which: (bool, bool, bool),
) -> PyResult<RunHandle> {
    let program = py.detach(|| read_program(&name, &text)).map_err(|refusal| raise(py, &refusal))?;
    let own = match machine {
        Some(_) => None,
        None => Some(
            tilewright_workbench::chip::named(program.machine()).map_err(|refusal| raise(py, &refusal))?,
        ),
    };
    let loaded = machine.map_or(own.as_ref(), |machine| Some(&machine.loaded));
    let Some(loaded) = loaded else {
        return Err(plain(py, Diagnostic::error("sim/machine", "no machine")));
    };
    let mut given = BTreeMap::new();
    for (tensor, array) in arrays.iter() {
        let (buffer, dtype, extents): (Bound<'_, PyAny>, String, Vec<u64>) = array.extract()?;
        let dtype = Dtype::from_name(&dtype).ok_or_else(|| {
            plain(py, Diagnostic::error("array/dtype", format!("`{dtype}` is no element type")))
        })?;
        given.insert(tensor.extract()?, from_buffer(py, &buffer, dtype, extents)?);
    }
    let stop = AtomicBool::new(false);
    let request = SimulateRequest { values: which.0, findings: which.1, timeline: which.2, stop: &stop };
    let run = interruptible(py, &stop, || {
        let rules = loaded.machine.tcp().map_or(&RuleSet::TCP, tilewright_tcp_exec::rules);
        let mut file = |tensor: &Tensor| array_file(tensor, Path::new(&folder), rules);
        simulate(program, loaded, given, &mut file, &request)
    })?;
    let run = run.map_err(|refusal| raise(py, &refusal))?;
    Ok(RunHandle { run, name, text })
}

/// An array that the program's text names, beside the program.
#[expect(clippy::disallowed_methods, reason = "what the program names is read for the user, as `sim` does")]
fn array_file(tensor: &Tensor, folder: &Path, rules: &RuleSet) -> Result<Array, ArrayError> {
    let TensorData::File(written) = &tensor.data else {
        return Err(ArrayError::Format("no file is named".into()));
    };
    let bytes = |path: &str| {
        std::fs::read(folder.join(path))
            .map_err(|error| ArrayError::Format(format!("cannot read `{path}`: {error}")))
    };
    match written.rsplit_once(".safetensors:") {
        Some((stem, name)) => {
            tensors::read(&bytes(&format!("{stem}.safetensors"))?, name, tensor.dtype, rules)
        }
        None => npy::read(&bytes(written)?, tensor.dtype, rules),
    }
}

/// A tensor as it goes to Python: name, role, element type, extents.
type TensorRow = (String, &'static str, &'static str, Vec<u64>);

/// The machine that a program names, and its tensors.
#[pyfunction]
pub(crate) fn program_tensors(py: Python<'_>, name: &str, text: &str) -> PyResult<(String, Vec<TensorRow>)> {
    let program = read_program(name, text).map_err(|refusal| raise(py, &refusal))?;
    let machine = program.machine().to_string();
    let ProgramBody::Tcp(program) = program.body else { return Ok((machine, Vec::new())) };
    let row = |tensor: &Tensor| {
        let role = match tensor.role {
            TensorRole::Input => "input",
            TensorRole::Output => "output",
            TensorRole::InOut => "inout",
        };
        let extents = tensor.axes.iter().map(|(_, extent)| *extent).collect();
        (tensor.name.clone(), role, tensor.dtype.name(), extents)
    };
    Ok((machine, program.tensors.iter().map(row).collect()))
}

#[pymethods]
impl RunHandle {
    /// The name of the program.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The name of the machine.
    #[getter]
    fn machine(&self) -> &str {
        self.run.machine()
    }

    /// The program's text.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The readings as JSON, as `sim --json` prints them.
    fn json(&self) -> String {
        self.run.value(ReadingSelection::ALL).to_string()
    }

    /// Findings as JSON: code, severity, message, place, allowed, instead, notes.
    fn findings_json(&self) -> String {
        let (sources, found) = self.run.findings();
        let found = tilewright_base::json::diagnostics(&sources, &found);
        serde_json::to_string(&found).unwrap_or_default()
    }

    /// Totals of tracks, counters and energy as JSON.
    fn totals_json(&self) -> String {
        serde_json::to_string(&tilewright_record::json::totals(self.run.record())).unwrap_or_default()
    }

    /// Outputs as (name, element type, extents).
    fn outputs(&self) -> Vec<(String, &'static str, Vec<u64>)> {
        let row = |(name, array): &(String, Array)| (name.clone(), array.dtype.name(), array.extents.clone());
        self.run.outputs().iter().map(row).collect()
    }

    /// Writes an output into a buffer.
    fn read_output(&self, py: Python<'_>, name: &str, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = self.run.outputs().iter().find(|(one, _)| one == name);
        let (_, array) = found.ok_or_else(|| PyKeyError::new_err(name.to_string()))?;
        into_buffer(py, array, buffer)
    }

    /// The timeline by columns: (tracks, names, sources, stages) as lists of text, then for each interval the
    /// numbers of its track, name, source line and stage, its first cycle and the cycle after its last.
    #[expect(clippy::type_complexity, reason = "columns of one table")]
    fn timeline(
        &self,
    ) -> (Vec<String>, Vec<String>, Vec<String>, Vec<String>, Vec<(u32, u32, u32, u32, u64, u64)>) {
        let record = self.run.record();
        let mut names = TextTable::default();
        let mut lines = TextTable::default();
        let mut stages = TextTable::default();
        let rows = record
            .intervals()
            .map(|one| {
                (
                    one.track.0,
                    names.number(&one.name),
                    lines.number(one.source.as_deref().unwrap_or_default()),
                    stages.number(one.binding.unwrap_or_default()),
                    one.start_cycles,
                    one.end_cycles,
                )
            })
            .collect();
        let tracks = (0_u32..).zip(&record.layout.tracks);
        let tracks = tracks.map(|(at, _)| record.layout.path(tilewright_record::TrackId(at))).collect();
        (tracks, names.texts, lines.texts, stages.texts, rows)
    }

    /// Counters over time: (path, unit, cycles, values).
    fn counters(&self) -> Vec<(String, String, Vec<u64>, Vec<u64>)> {
        let record = self.run.record();
        let unit = |unit| serde_json::to_value(unit).ok().and_then(|unit| unit.as_str().map(str::to_string));
        let mut out: Vec<_> = record
            .layout
            .counters
            .iter()
            .map(|one| {
                (record.layout.counter_path(one), unit(one.unit).unwrap_or_default(), Vec::new(), Vec::new())
            })
            .collect();
        for sample in record.samples() {
            if let Some((_, _, cycles, values)) = out.get_mut(sample.counter.0 as usize) {
                cycles.push(sample.at_cycles);
                values.push(sample.value);
            }
        }
        out
    }

    /// The page that shows this run and others beside it, as one self-contained file.
    fn page(&self, py: Python<'_>, others: Vec<PyRef<'_, RunHandle>>) -> String {
        let others: Vec<&RunHandle> = others.iter().map(|other| &**other).collect();
        py.detach(|| {
            let all = std::iter::once(self).chain(others);
            let runs = all.map(|run| view(&run.name, Some(&run.text), &run.run)).collect();
            page(&PageRuns { runs, ..PageRuns::default() })
        })
    }

    /// Cycles of the record in a second.
    #[getter]
    fn clock_hz(&self) -> u64 {
        self.run.record().layout.clock_hz.get()
    }

    /// A Perfetto trace.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            tilewright_record::perfetto::write(self.run.record(), &mut bytes).map(|()| bytes)
        });
        Ok(PyBytes::new(py, &bytes.map_err(|error| PyOSError::new_err(error.to_string()))?))
    }
}

/// Texts by number, each of them once.
#[derive(Default)]
struct TextTable {
    texts: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl TextTable {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        number
    }
}
