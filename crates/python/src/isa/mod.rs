//! Instructions: from Python operands to the engine, and into the record.

pub(crate) mod collective;
mod dma;
mod gpsimd;
mod matrix;
mod random;
mod reduce;
mod vector;

use pyo3::prelude::*;
use tilewright_neuron_exec::Tile;
use tilewright_neuron_exec::engine::{AluStep, ScalarOperand};
use tilewright_neuron_isa::alu::AluOp;
use tilewright_neuron_isa::function::ActivationFunction;
use tilewright_neuron_isa::refusal::rule;
use tilewright_neuron_isa::{Chip, EngineKind, Instruction, Refusal};

use crate::error::plain;
use crate::session::Session;
use crate::tensor::Tensor;

type Recorded = PyResult<()>;

/// What a name that stands for nothing is answered with.
fn unknown(code: &'static str, what: &str, name: &str, known: &[&str]) -> PyErr {
    let instead = "use one of them";
    plain(&Refusal::new(code, format!("{what} called {name}"), known.join(", "), instead))
}

fn alu(name: &str) -> PyResult<AluOp> {
    AluOp::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = tilewright_neuron_isa::alu::NAMES.iter().map(|(name, _)| *name).collect();
        unknown("neuron/operator", "an operator", name, &known)
    })
}

fn function_of(name: &str) -> PyResult<ActivationFunction> {
    ActivationFunction::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = tilewright_neuron_isa::function::NAMES.iter().map(|(name, _)| *name).collect();
        unknown("neuron/operator", "an activation function", name, &known)
    })
}

fn engine_of(name: &str) -> PyResult<Option<EngineKind>> {
    match name {
        "" | "unknown" => Ok(None),
        _ => EngineKind::from_name(name).map(Some).ok_or_else(|| {
            let known: Vec<&str> = EngineKind::ALL.iter().map(|engine| engine.name()).collect();
            unknown("neuron/engine", "an engine", name, &known)
        }),
    }
}

/// A number or a tile.
fn scalar_operand(value: &Bound<'_, PyAny>) -> PyResult<ScalarOperand> {
    if let Ok(tensor) = value.cast::<Tensor>() {
        return Ok(ScalarOperand::PerPartition(tensor.get().operand()?.clone()));
    }
    Ok(ScalarOperand::Constant(value.extract()?))
}

fn step(op: &str, operand: &Bound<'_, PyAny>, reverse: bool) -> PyResult<AluStep> {
    let op = alu(op)?;
    rule(op.is_unary() || !operand.is_none(), || {
        Refusal::new(
            "neuron/operator",
            format!("{} without its operand", op.name()),
            "a constant, or a tile of one element for each partition; none for operators of one operand",
            "give the operand",
        )
    })
    .map_err(|refusal| plain(&refusal))?;
    let operand = if operand.is_none() { ScalarOperand::Constant(0.0) } else { scalar_operand(operand)? };
    Ok(AluStep { op, operand, reverse })
}

fn optional(tensor: Option<&Bound<'_, Tensor>>) -> PyResult<Option<Tile>> {
    tensor.map(|tensor| tensor.get().operand().cloned()).transpose()
}

impl Session {
    /// Runs an instruction into a result, records it and marks the result as fresh.
    fn emit(
        &mut self,
        dst: &Bound<'_, Tensor>,
        run: impl FnOnce(&Chip, &Tile) -> PyResult<Result<Instruction, Refusal>>,
    ) -> Recorded {
        let to = dst.get().operand()?;
        let left = self.before_tile_write(to);
        let done = run(&self.chip, to)?;
        self.done(dst, done)?;
        self.after_tile_write(to, self.program.instructions.len().saturating_sub(1), None, left);
        Ok(())
    }

    /// As [`Session::emit`], with a look at what other programs of the launch and other iterations of a loop
    /// wrote to the same place of HBM; `to` is what of the result is written.
    fn emit_shared(
        &mut self,
        dst: &Bound<'_, Tensor>,
        to: &Tile,
        run: impl FnOnce(&Chip) -> PyResult<Result<Instruction, Refusal>>,
    ) -> Recorded {
        let before = self.before_write(to);
        let overwrite = self.before_iteration_write(to);
        self.emit(dst, |chip, _| run(chip))?;
        self.after_write(to, before);
        self.after_iteration_write(to, overwrite);
        Ok(())
    }

    /// Records and marks the result as fresh.
    fn done(&mut self, dst: &Bound<'_, Tensor>, done: Result<Instruction, Refusal>) -> Recorded {
        let line = self.line_into(dst.py(), dst.get().tile.storage.id);
        let at = self.record_at(dst.py(), line, done)?;
        dst.get().set_fresh(at);
        Ok(())
    }
}
