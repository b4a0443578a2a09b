//! Instructions of the Tensor and Scalar engines, and block-scaled ones.

use pyo3::prelude::*;
use tilewright_neuron_exec::engine::mx::{self, MxOperand};
use tilewright_neuron_exec::engine::scalar::{self, Activate2, Activation, RowReduction};
use tilewright_neuron_exec::engine::tensor;
use tilewright_neuron_exec::engine::vector;
use tilewright_neuron_isa::cost::tensor::{ArrayPart, MatmulOptions};

use super::{
    EngineKind, Recorded, ScalarOperand, Session, Tensor, alu, engine_of, function_of, optional,
    scalar_operand, step,
};

#[pymethods]
impl Session {
    fn partition_broadcast(&mut self, dst: &Bound<'_, Tensor>, row: &Tensor) -> Recorded {
        let row = row.operand()?;
        self.emit(dst, |chip, to| Ok(tensor::partition_broadcast(chip, to, row)))
    }

    #[pyo3(signature = (dst, data, function, bias=None, scale=None, sums=None, reduce_op="add",
        accumulate=false))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn activation(
        &mut self,
        py: Python<'_>,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        function: &str,
        bias: Option<&Bound<'_, PyAny>>,
        scale: Option<&Bound<'_, PyAny>>,
        sums: Option<&Bound<'_, Tensor>>,
        reduce_op: &str,
        accumulate: bool,
    ) -> Recorded {
        let how = Activation {
            function: function_of(function)?,
            bias: bias.map(scalar_operand).transpose()?,
            scale: scale.map_or(Ok(ScalarOperand::Constant(1.0)), scalar_operand)?,
            sums: RowReduction { tile: optional(sums)?, reduce: alu(reduce_op)?, accumulate },
        };
        let (to, from) = (dst.get().operand()?.clone(), data.operand()?.clone());
        let chip = self.chip.clone();
        let done = py.detach(|| scalar::activation(&chip, &to, &from, &how));
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, stationary, moving, accumulate=None, is_transpose=false,
        stationary_onezero=false, moving_onezero=false, double_row=false, part=None))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn nc_matmul(
        &mut self,
        dst: &Bound<'_, Tensor>,
        stationary: &Tensor,
        moving: &Tensor,
        accumulate: Option<bool>,
        is_transpose: bool,
        stationary_onezero: bool,
        moving_onezero: bool,
        double_row: bool,
        part: Option<[u64; 4]>,
    ) -> Recorded {
        let adds = self.adds(dst.get().operand()?);
        let accumulate = accumulate.unwrap_or(adds && !is_transpose);
        let part = part.map(array_part);
        let options =
            MatmulOptions { accumulate, is_transpose, stationary_onezero, moving_onezero, double_row, part };
        let (a, b) = (stationary.operand()?, moving.operand()?);
        self.emit(dst, |chip, to| Ok(tensor::nc_matmul(chip, to, a, b, options)))
    }

    #[pyo3(signature = (dst, stationary, moving, scales, accumulate=None))]
    fn nc_matmul_mx(
        &mut self,
        py: Python<'_>,
        dst: &Bound<'_, Tensor>,
        stationary: &Tensor,
        moving: &Tensor,
        scales: (Bound<'_, Tensor>, Bound<'_, Tensor>),
        accumulate: Option<bool>,
    ) -> Recorded {
        let to = dst.get().operand()?.clone();
        let (a, b) = (stationary.operand()?.clone(), moving.operand()?.clone());
        let (a_scales, b_scales) = (scales.0.get().operand()?.clone(), scales.1.get().operand()?.clone());
        let adds = self.adds(&to);
        let chip = self.chip.clone();
        let (left, right) =
            (MxOperand { data: &a, scales: &a_scales }, MxOperand { data: &b, scales: &b_scales });
        let done = py.detach(|| mx::nc_matmul_mx(&chip, &to, left, right, accumulate.unwrap_or(adds)));
        self.done(dst, done)
    }

    /// Refuses a part of the array that a block-scaled matmul cannot run on.
    fn check_part(&mut self, py: Python<'_>, name: &str, stationary: &Tensor, part: [u64; 4]) -> Recorded {
        let done = tensor::check_part(&self.chip, name, stationary.operand()?, array_part(part), true);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    #[pyo3(signature = (dst, data, function, steps, slope, sums=None, reduce_op="add", accumulate=false))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn activate2(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        function: &str,
        steps: Vec<(String, Bound<'_, PyAny>, bool)>,
        slope: f32,
        sums: Option<&Bound<'_, Tensor>>,
        reduce_op: &str,
        accumulate: bool,
    ) -> Recorded {
        let how = Activate2 {
            function: function_of(if function == "prelu" { "relu" } else { function })?,
            steps: steps
                .iter()
                .map(|(op, operand, reverse)| step(op, operand, *reverse))
                .collect::<PyResult<_>>()?,
            slope,
            sums: RowReduction { tile: optional(sums)?, reduce: alu(reduce_op)?, accumulate },
        };
        self.emit(dst, |chip, to| Ok(scalar::activate2(chip, to, data.operand()?, &how)))
    }

    fn quantize_mx(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, scales: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(mx::quantize_mx(chip, to, src.operand()?, scales.operand()?)))
    }

    #[pyo3(signature = (dst, data, engine=""))]
    fn nc_transpose(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, engine: &str) -> Recorded {
        let on_vector = engine_of(engine)? == Some(EngineKind::Vector);
        let transpose = if on_vector { vector::transpose } else { tensor::nc_transpose };
        self.emit(dst, |chip, to| Ok(transpose(chip, to, data.operand()?)))
    }
}

/// First row, first column, rows, columns.
fn array_part([row, column, rows, columns]: [u64; 4]) -> ArrayPart {
    ArrayPart { position: (row, column), size: (rows, columns) }
}
