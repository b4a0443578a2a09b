//! The Rust core of the Python package: tensors, index expressions, instructions that execute at once and are
//! recorded, and the readings of what was recorded.

#![expect(clippy::needless_pass_by_value, reason = "arguments come from Python by value")]

mod api;
mod command;
mod current;
mod dtype;
mod error;
mod index;
mod indirect;
mod isa;
mod iteration_tiles;
mod iteration_writes;
mod key;
mod loops;
mod mask;
mod masked;
mod operators;
mod register;
mod report;
mod session;
mod shared_writes;
mod source;
mod tensor;
mod views;

use pyo3::prelude::*;

/// Memory of tiles comes and goes by the thousand.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The extension module `tilewright._core`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<tensor::Tensor>()?;
    module.add_class::<index::Index>()?;
    module.add_class::<mask::Mask>()?;
    module.add_class::<session::Session>()?;
    module.add("Refused", module.py().get_type::<error::Refused>())?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(current::enter, module)?)?;
    module.add_function(wrap_pyfunction!(current::next_launch, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::dtype_names, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::register_dtypes, module)?)?;
    module.add_function(wrap_pyfunction!(dtype::promote, module)?)?;
    module.add_function(wrap_pyfunction!(isa::collective::collective_time, module)?)?;
    module.add_function(wrap_pyfunction!(isa::collective::instance_chip, module)?)?;
    module.add_function(wrap_pyfunction!(isa::collective::schedule_collectives, module)?)?;
    module.add_function(wrap_pyfunction!(isa::collective::place_ranks, module)?)?;
    module.add_function(wrap_pyfunction!(operators::set_operators, module)?)?;
    module.add_function(wrap_pyfunction!(source::set_folder, module)?)?;
    api::register(module)
}
