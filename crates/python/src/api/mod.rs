//! What `import tilewright` stands on: machines, einsums, searches and runs. Data crosses as JSON, arrays as
//! buffers; classes, names and documentation are in `python/tilewright`.

mod array;
mod explore;
mod files;
mod interrupt;
mod machine;
mod model;
mod notation;
mod refusal;
mod run;
mod study;

use pyo3::prelude::*;

/// Adds it all to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<machine::MachineHandle>()?;
    module.add_class::<model::GenerationHandle>()?;
    module.add_class::<model::ModelHandle>()?;
    module.add_class::<run::RunHandle>()?;
    module.add_function(wrap_pyfunction!(machine::machine_names, module)?)?;
    module.add_function(wrap_pyfunction!(model::model_kernels, module)?)?;
    module.add_function(wrap_pyfunction!(notation::notation_format, module)?)?;
    module.add_function(wrap_pyfunction!(notation::notation_parse, module)?)?;
    module.add_function(wrap_pyfunction!(notation::notation_check, module)?)?;
    module.add_function(wrap_pyfunction!(notation::notation_draw, module)?)?;
    module.add_function(wrap_pyfunction!(notation::notation_lower, module)?)?;
    module.add_function(wrap_pyfunction!(explore::explore_einsum, module)?)?;
    module.add_function(wrap_pyfunction!(explore::exploration_page, module)?)?;
    module.add_function(wrap_pyfunction!(run::simulate_program, module)?)?;
    module.add_function(wrap_pyfunction!(study::study_model, module)?)?;
    module.add_function(wrap_pyfunction!(run::program_tensors, module)?)?;
    Ok(())
}
