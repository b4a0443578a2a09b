//! Reductions, scans, statistics and searches of the Vector engine.

use pyo3::prelude::*;
use tilewright_neuron_exec::engine::vector::{self, Accumulate};

use super::{Recorded, ScalarOperand, Session, Tensor, alu, optional, scalar_operand, step};

#[pymethods]
impl Session {
    fn tensor_reduce(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        op: &str,
        axes: usize,
        negate: bool,
    ) -> Recorded {
        self.emit(dst, |chip, to| {
            Ok(vector::tensor_reduce(chip, to, data.operand()?, alu(op)?, axes, negate))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn tensor_scalar_reduce(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        op0: &str,
        operand0: &Bound<'_, PyAny>,
        reverse0: bool,
        reduce_op: &str,
        reduce_res: &Tensor,
        accumulate: bool,
    ) -> Recorded {
        let step = step(op0, operand0, reverse0)?;
        let how = if accumulate { Accumulate::Continue } else { Accumulate::Reset };
        let result = reduce_res.operand()?;
        self.emit(dst, |chip, to| {
            Ok(vector::tensor_scalar_reduce(chip, to, data.operand()?, &step, alu(reduce_op)?, result, how))
        })
    }

    #[pyo3(signature = (dst, data, op0, operand0, op1, initial=None))]
    fn tensor_scalar_cumulative(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        op0: &str,
        operand0: &Bound<'_, PyAny>,
        op1: &str,
        initial: Option<&Bound<'_, PyAny>>,
    ) -> Recorded {
        let step = step(op0, operand0, false)?;
        let initial = initial.map(scalar_operand).transpose()?;
        self.emit(dst, |chip, to| {
            Ok(vector::tensor_scalar_cumulative(
                chip,
                to,
                data.operand()?,
                &step,
                alu(op1)?,
                initial.as_ref(),
            ))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn tensor_tensor_scan(
        &mut self,
        dst: &Bound<'_, Tensor>,
        a: &Tensor,
        b: &Tensor,
        initial: &Bound<'_, PyAny>,
        op0: &str,
        op1: &str,
        reverse0: bool,
        reverse1: bool,
    ) -> Recorded {
        let ops = [(alu(op0)?, reverse0), (alu(op1)?, reverse1)];
        self.emit(dst, |chip, to| {
            Ok(vector::tensor_tensor_scan(
                chip,
                to,
                a.operand()?,
                b.operand()?,
                &scalar_operand(initial)?,
                ops,
            ))
        })
    }

    fn bn_stats(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::bn_stats(chip, to, data.operand()?)))
    }

    fn bn_aggr(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::bn_aggr(chip, to, data.operand()?)))
    }

    fn max8(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::max8(chip, to, src.operand()?)))
    }

    fn nc_find_index8(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, vals: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::nc_find_index8(chip, to, data.operand()?, vals.operand()?)))
    }

    #[pyo3(signature = (dst, data, vals, imm, places=None))]
    fn nc_match_replace8(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        vals: &Tensor,
        imm: f32,
        places: Option<&Bound<'_, Tensor>>,
    ) -> Recorded {
        let places = optional(places)?;
        self.emit(dst, |chip, to| {
            Ok(vector::nc_match_replace8(chip, to, data.operand()?, vals.operand()?, imm, places.as_ref()))
        })
    }

    #[pyo3(signature = (dst, src, largest, sums=None, start=None))]
    fn exponential(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Tensor,
        largest: &Bound<'_, PyAny>,
        sums: Option<&Bound<'_, Tensor>>,
        start: Option<&Bound<'_, PyAny>>,
    ) -> Recorded {
        let largest = scalar_operand(largest)?;
        let start = start.map_or(Ok(ScalarOperand::Constant(0.0)), scalar_operand)?;
        let sums = optional(sums)?;
        let sums = sums.as_ref().map(|tile| (tile, &start));
        self.emit(dst, |chip, to| Ok(vector::exponential(chip, to, src.operand()?, &largest, sums)))
    }
}
