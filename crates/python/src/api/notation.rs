//! Einsums with their shapes and tactics: read, checked, drawn, lowered.

use pyo3::prelude::*;
use tilewright_base::Diagnostic;
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::text::print;
use tilewright_tcp_lower::LowerOptions;
use tilewright_workbench::Refusal;
use tilewright_workbench::notation::{
    NotationInput, NotationRequest, NotationText, check, draw, lower_einsum, read, tcp_of, verdict,
};

use super::machine::MachineHandle;
use super::refusal::raise;

/// What was said about an einsum, as Python gives it.
#[derive(FromPyObject)]
pub(crate) struct NotationTexts {
    einsum: String,
    dims: Option<String>,
    in0: Option<String>,
    in1: Option<String>,
    out: Option<String>,
    tactic: Option<String>,
    stationary: Option<String>,
    dtype: Option<String>,
}

impl NotationTexts {
    /// The tree of it all.
    pub(crate) fn read(&self) -> Result<NotationInput, Box<Refusal>> {
        let stationary = match self.stationary.as_deref() {
            None => None,
            Some("in0") => Some(Operand::In0),
            Some("in1") => Some(Operand::In1),
            Some(other) => {
                let complaint = Diagnostic::error("notation/stationary", format!("`{other}` names no input"))
                    .allowed("in0, in1")
                    .instead("in1");
                return Err(Box::new(Refusal::plain(complaint)));
            }
        };
        let request = NotationRequest {
            dims: self.dims.as_deref(),
            shapes: [self.in0.as_deref(), self.in1.as_deref(), self.out.as_deref()],
            tactic: self.tactic.as_deref(),
            stationary,
            dtype: self.dtype.as_deref(),
            ..NotationRequest::einsum(&self.einsum)
        };
        read(&request, &str::to_string)
    }
}

/// The canonical spelling of each part, as JSON.
fn spelled(input: &NotationInput) -> String {
    let program = &input.program;
    let shape = |operand| program.shape(operand).map(ToString::to_string);
    let dims: Vec<String> = program.dims.iter().map(ToString::to_string).collect();
    let data = serde_json::json!({
        "einsum": program.einsum.to_string(),
        "dims": dims,
        "in0": shape(Operand::In0),
        "in1": shape(Operand::In1),
        "out": shape(Operand::Out),
        "tactic": program.tactic.as_ref().map(ToString::to_string),
        "stationary": program.stationary.as_ref().map(|(operand, _)| operand.name()),
        "dtype": program.dtype.as_ref().map(|(name, _)| name.as_str()),
    });
    data.to_string()
}

/// The canonical spelling of each text, as JSON.
#[pyfunction]
pub(crate) fn notation_format(py: Python<'_>, texts: NotationTexts) -> PyResult<String> {
    texts.read().map(|input| spelled(&input)).map_err(|refusal| raise(py, &refusal))
}

/// The parts of a file that holds an einsum, as JSON.
#[pyfunction]
pub(crate) fn notation_parse(py: Python<'_>, text: &str) -> PyResult<String> {
    let file = NotationText::File { name: "notation", text };
    let request = NotationRequest { text: file, ..NotationRequest::einsum("") };
    let input = read(&request, &str::to_string).map_err(|refusal| raise(py, &refusal))?;
    Ok(spelled(&input))
}

/// Whether it is legal, and what was worked out, as JSON.
#[pyfunction]
pub(crate) fn notation_check(
    py: Python<'_>,
    texts: NotationTexts,
    machine: &MachineHandle,
    pes: u64,
) -> PyResult<String> {
    let checked = py.detach(|| {
        let input = texts.read()?;
        let setup = input.setup(tcp_of(&machine.loaded)?, pes)?;
        let done = check(&input, setup)?;
        let (sources, program) = (&input.sources, &input.program);
        let name = &machine.loaded.name;
        Ok(verdict::value(sources, program, &done.setup, &done.problem, &done.verdict, name).to_string())
    });
    checked.map_err(|refusal: Box<Refusal>| raise(py, &refusal))
}

/// Pictures of it: text for terminals, SVG.
#[pyfunction]
pub(crate) fn notation_draw(
    py: Python<'_>,
    texts: NotationTexts,
    machine: &MachineHandle,
    pes: u64,
) -> PyResult<(String, String)> {
    let drawn = py.detach(|| {
        let input = texts.read()?;
        let setup = input.setup(tcp_of(&machine.loaded)?, pes)?;
        let problem = input.problem()?;
        draw(&input, &setup, &problem).map(|drawing| (drawing.text, drawing.svg))
    });
    drawn.map_err(|refusal: Box<Refusal>| raise(py, &refusal))
}

/// The text of its program; inputs hold elements drawn from these seeds until arrays take their place.
#[pyfunction]
pub(crate) fn notation_lower(
    py: Python<'_>,
    texts: NotationTexts,
    machine: &MachineHandle,
    pes: u64,
    seeds: (u64, u64),
    from_hbm: (bool, bool),
) -> PyResult<String> {
    let lowered = py.detach(|| {
        let input = texts.read()?;
        let setup = input.setup(tcp_of(&machine.loaded)?, pes)?;
        let checked = check(&input, setup)?;
        let options = LowerOptions {
            machine: machine.loaded.name.clone(),
            data: [TensorData::Random(seeds.0), TensorData::Random(seeds.1)],
            zero_points: [0, 0],
            from_hbm: [from_hbm.0, from_hbm.1],
        };
        lower_einsum(&input, &checked, &options).map(|program| print(&program))
    });
    lowered.map_err(|refusal: Box<Refusal>| raise(py, &refusal))
}
