//! Compiled models, held by Python with the device that they run on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tilewright_base::Diagnostic;
use tilewright_base::invariant::OrBroken;
use tilewright_runtime::model::ModelDevice;
use tilewright_view::{PageRuns, page};
use tilewright_workbench::explore::{GOALS, goal_named};
use tilewright_workbench::model::{
    CompileRequest, CompiledModel, LoadedModel, compile, generate_text, generation_value, kernels_of, load,
};
use tilewright_workbench::model_run::{ModelRun, ModelTexts};

use super::files::DiskFiles;
use super::interrupt::{abandonable, interruptible};
use super::machine::MachineHandle;
use super::refusal::{plain, raise};

/// How to compile, as Python gives it.
#[derive(FromPyObject)]
pub(crate) struct CompileTexts {
    dtype: String,
    cache: String,
    pes: u64,
    chips: u64,
    context: u64,
    effort: u64,
    goal: String,
}

/// A compiled model; its weights go to the device with the first prompt.
#[pyclass(frozen)]
pub(crate) struct ModelHandle {
    loaded: LoadedModel,
    compiled: CompiledModel,
    device: Mutex<DeviceState>,
}

/// What became of the device.
enum DeviceState {
    /// Weights are not loaded yet.
    Unused,
    /// It holds the model.
    Ready(Box<ModelDevice>, Arc<ModelTexts>),
    /// It was given up.
    Closed,
}

#[pymethods]
impl ModelHandle {
    /// Reads and compiles a model.
    #[staticmethod]
    fn compile(
        py: Python<'_>,
        path: String,
        machine: &MachineHandle,
        options: CompileTexts,
    ) -> PyResult<ModelHandle> {
        let machine = &machine.loaded;
        let Some(tcp) = machine.machine.tcp() else {
            let what = format!("models are not compiled for `{}`", machine.name);
            let complaint = Diagnostic::error("compile/machine", what);
            return Err(plain(py, complaint.allowed("machines of architecture tcp").instead("tcp")));
        };
        let Some(goal) = goal_named(&options.goal) else {
            let complaint = Diagnostic::error("explore/goal", format!("`{}` is no goal", options.goal));
            return Err(plain(py, complaint.allowed(GOALS).instead("time")));
        };
        if !["bf16", "int8"].contains(&options.cache.as_str()) {
            let what = format!("keys and values are not kept in `{}`", options.cache);
            let complaint = Diagnostic::error("compile/cache", what);
            return Err(plain(py, complaint.allowed("bf16, int8").instead("bf16")));
        }
        let (tcp, chip) = (tcp.clone(), machine.name.clone());
        let made = abandonable(py, move |stop| {
            let request = CompileRequest {
                dtype: &options.dtype,
                cache_int8: options.cache == "int8",
                pes: options.pes,
                chips: options.chips,
                context: options.context,
                effort: options.effort,
                goal,
            };
            let loaded = load(&path, &DiskFiles)?;
            let compiled = compile(&tcp, &chip, &loaded, &request, stop)?;
            Ok((loaded, compiled))
        })?;
        let (loaded, compiled) = made.map_err(|refusal: Box<_>| raise(py, &refusal))?;
        Ok(ModelHandle { loaded, compiled, device: Mutex::new(DeviceState::Unused) })
    }

    /// What was decided, as JSON.
    fn json(&self) -> String {
        self.compiled.value().to_string()
    }

    /// What a token takes, without weights, as JSON; none if the programs do not come to their end.
    fn costs(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.compiled.costs().map(|costs| costs.to_string()))
    }

    /// Programs by name, as texts.
    fn programs(&self) -> Vec<(&'static str, String)> {
        self.compiled.programs()
    }

    /// Generates behind a prompt, from an empty context. `said` is called with the text so far.
    fn generate(
        slf: &Bound<'_, Self>,
        prompt: String,
        most_tokens: u64,
        said: Option<Py<PyAny>>,
    ) -> PyResult<GenerationHandle> {
        let (py, model) = (slf.py(), slf.get());
        let Some(tokenizer) = &model.loaded.tokenizer else {
            let complaint = Diagnostic::error("model/tokenizer", "no tokenizer lies beside the model");
            let allowed = "tokenizer.json (Hugging Face), tokenizer.bin (llama2.c), or one inside a .gguf";
            return Err(plain(py, complaint.allowed(allowed).instead("put it beside the model")));
        };
        let stop = AtomicBool::new(false);
        let made = interruptible(py, &stop, || {
            let mut state = model.device.lock().unwrap_or_else(PoisonError::into_inner);
            if let DeviceState::Unused = *state {
                let (device, texts) = model.compiled.device(&model.loaded)?;
                *state = DeviceState::Ready(Box::new(device), Arc::new(texts));
            }
            let DeviceState::Ready(device, texts) = &mut *state else { return Ok(None) };
            device.restart();
            let mut hear = |text: &str| {
                if let Some(said) = &said {
                    let failed = Python::attach(|py| said.call1(py, (text,)).is_err());
                    stop.fetch_or(failed, Ordering::Relaxed);
                }
                stop.load(Ordering::Relaxed)
            };
            let made = generate_text((device, texts), tokenizer, &prompt, most_tokens, &mut hear)?;
            let json = generation_value(&model.compiled, device.compiled(), &made).to_string();
            Ok(Some((json, made.runs, Arc::clone(texts))))
        })?;
        let made = made.map_err(|refusal: Box<_>| raise(py, &refusal))?.ok_or_else(|| {
            let complaint = Diagnostic::error("model/closed", "the device of this model was closed");
            plain(py, complaint.allowed("a model that is open").instead("compile it again"))
        })?;
        let (json, runs, texts) = made;
        Ok(GenerationHandle { json, runs, texts, model: slf.clone().unbind() })
    }

    /// Gives the device and its memory up.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            *self.device.lock().unwrap_or_else(PoisonError::into_inner) = DeviceState::Closed;
        });
    }
}

/// Positions of a model and its kernels as text; types that models are not compiled in are refused.
#[pyfunction]
pub(crate) fn model_kernels(py: Python<'_>, path: String, dtype: String) -> PyResult<(u64, String)> {
    py.detach(|| kernels_of(&path, &dtype, &DiskFiles)).map_err(|refusal: Box<_>| raise(py, &refusal))
}

/// What a prompt became.
#[pyclass(frozen)]
pub(crate) struct GenerationHandle {
    json: String,
    runs: Vec<ModelRun>,
    texts: Arc<ModelTexts>,
    model: Py<ModelHandle>,
}

#[pymethods]
impl GenerationHandle {
    /// Tokens, text, times and energy as JSON, as `run --json` prints them.
    fn json(&self) -> &str {
        &self.json
    }

    /// A Perfetto trace of the last run.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            let last = self.runs.last().or_broken("a generation has a run");
            tilewright_record::perfetto::write(last.record(), &mut bytes).map(|()| bytes)
        });
        Ok(PyBytes::new(py, &bytes.map_err(|error| PyOSError::new_err(error.to_string()))?))
    }

    /// The page that shows the runs of the prompt and of the last token with the graph of the model, as one
    /// self-contained file.
    fn page(&self, py: Python<'_>) -> String {
        let model = self.model.get();
        py.detach(|| {
            let (graph, compiled) = (&model.loaded.model.graph, &model.compiled.tuned.compiled);
            let runs = self.runs.iter().map(|run| self.texts.view(graph, compiled, run)).collect();
            page(&PageRuns { runs, ..PageRuns::default() })
        })
    }
}
