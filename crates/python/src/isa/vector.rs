//! Element-wise instructions and selections of the Vector engine.

use pyo3::prelude::*;
use smallvec::{SmallVec, smallvec};
use tilewright_neuron_exec::engine::AluStep;
use tilewright_neuron_exec::engine::vector::{self, ColumnBound};

use super::{Recorded, Session, Tensor, alu, engine_of, optional, scalar_operand, step, unknown};

#[pymethods]
impl Session {
    #[pyo3(signature = (dst, a, b, op, engine=""))]
    fn tensor_tensor(
        &mut self,
        dst: &Bound<'_, Tensor>,
        a: &Tensor,
        b: &Tensor,
        op: &str,
        engine: &str,
    ) -> Recorded {
        let (op, engine) = (alu(op)?, engine_of(engine)?);
        self.emit(dst, |chip, to| Ok(vector::tensor_tensor(chip, to, a.operand()?, b.operand()?, op, engine)))
    }

    #[pyo3(signature = (dst, data, op0, operand0, reverse0=false, op1=None, operand1=None, reverse1=false,
        engine=""))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn tensor_scalar(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        op0: &str,
        operand0: &Bound<'_, PyAny>,
        reverse0: bool,
        op1: Option<&str>,
        operand1: Option<&Bound<'_, PyAny>>,
        reverse1: bool,
        engine: &str,
    ) -> Recorded {
        let mut steps: SmallVec<[AluStep; 2]> = smallvec![step(op0, operand0, reverse0)?];
        if let Some(op1) = op1 {
            let none = dst.py().None().into_bound(dst.py());
            steps.push(step(op1, operand1.unwrap_or(&none), reverse1)?);
        }
        self.emit(dst, |chip, to| {
            Ok(vector::tensor_scalar(chip, to, data.operand()?, &steps, engine_of(engine)?))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn scalar_tensor_tensor(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        op0: &str,
        operand0: &Bound<'_, PyAny>,
        reverse0: bool,
        op1: &str,
        other: &Tensor,
        reverse1: bool,
    ) -> Recorded {
        let first = step(op0, operand0, reverse0)?;
        self.emit(dst, |chip, to| {
            Ok(vector::scalar_tensor_tensor(
                chip,
                to,
                data.operand()?,
                &first,
                other.operand()?,
                alu(op1)?,
                reverse1,
            ))
        })
    }

    #[pyo3(signature = (dst, src, engine=""))]
    fn tensor_copy(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, engine: &str) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::tensor_copy(chip, to, src.operand()?, engine_of(engine)?)))
    }

    /// A copy whose source or result lies where an element of a tile says.
    fn tensor_copy_dynamic(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Tensor,
        name: &str,
        engine: &str,
    ) -> Recorded {
        const NAMES: [&str; 2] = ["tensor_copy_dynamic_src", "tensor_copy_dynamic_dst"];
        let known = NAMES.into_iter().find(|known| *known == name);
        let name = known.ok_or_else(|| unknown("neuron/operator", "a dynamic copy", name, &NAMES))?;
        let engine = engine_of(engine)?;
        self.emit(dst, |chip, to| Ok(vector::tensor_copy_dynamic(chip, name, to, src.operand()?, engine)))
    }

    #[pyo3(signature = (dst, value, engine=""))]
    fn memset(&mut self, dst: &Bound<'_, Tensor>, value: f64, engine: &str) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::memset(chip, to, value, engine_of(engine)?)))
    }

    fn reciprocal(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::reciprocal(chip, to, data.operand()?)))
    }

    fn nc_stream_shuffle(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, mask: Vec<u64>) -> Recorded {
        self.emit(dst, |chip, to| Ok(vector::nc_stream_shuffle(chip, to, src.operand()?, &mask)))
    }

    /// Functions of the language take any types, which the compiler converts; the instruction does not.
    #[pyo3(signature = (dst, src, predicate, reverse, instruction=true))]
    fn tensor_copy_predicated(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Bound<'_, PyAny>,
        predicate: &Tensor,
        reverse: bool,
        instruction: bool,
    ) -> Recorded {
        self.emit(dst, |chip, to| {
            let (src, predicate) = (scalar_operand(src)?, predicate.operand()?);
            let fits = if instruction { vector::check_predicate(to, &src, predicate) } else { Ok(()) };
            Ok(fits.and_then(|()| vector::tensor_copy_predicated(chip, to, &src, predicate, reverse)))
        })
    }

    /// Refuses a reduction beside a selection that is not the largest.
    fn largest_only(&mut self, py: Python<'_>, instruction: &str, op: &str) -> Recorded {
        let done = vector::largest_only(instruction, alu(op)?);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    #[pyo3(signature = (dst, predicate, on_true, on_false, reverse, result=None, accumulate=false))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn select_reduce(
        &mut self,
        dst: &Bound<'_, Tensor>,
        predicate: &Tensor,
        on_true: &Tensor,
        on_false: &Bound<'_, PyAny>,
        reverse: bool,
        result: Option<&Bound<'_, Tensor>>,
        accumulate: bool,
    ) -> Recorded {
        let result = optional(result)?;
        self.emit(dst, |chip, to| {
            Ok(vector::select_reduce(
                chip,
                to,
                predicate.operand()?,
                on_true.operand()?,
                &scalar_operand(on_false)?,
                reverse,
                result.as_ref().map(|tile| (tile, accumulate)),
            ))
        })
    }

    #[pyo3(signature = (dst, data, ops, bounds, start, fill, result=None, accumulate=false))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn range_select(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        ops: (String, String),
        bounds: (Bound<'_, PyAny>, Bound<'_, PyAny>),
        start: f32,
        fill: f32,
        result: Option<&Bound<'_, Tensor>>,
        accumulate: bool,
    ) -> Recorded {
        let bounds = [
            ColumnBound { op: alu(&ops.0)?, value: scalar_operand(&bounds.0)? },
            ColumnBound { op: alu(&ops.1)?, value: scalar_operand(&bounds.1)? },
        ];
        let result = optional(result)?;
        let result = result.as_ref().map(|tile| (tile, accumulate));
        self.emit(dst, |chip, to| {
            Ok(vector::range_select(chip, to, data.operand()?, &bounds, start, fill, result))
        })
    }

    fn dropout(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        probability: &Bound<'_, PyAny>,
    ) -> Recorded {
        let (probability, mut seed) = (scalar_operand(probability)?, self.seed);
        self.emit(dst, |chip, to| Ok(vector::dropout(chip, to, data.operand()?, &probability, &mut seed)))?;
        self.seed = seed;
        Ok(())
    }
}
