//! Instructions of the GpSimd engine.

use pyo3::prelude::*;
use tilewright_neuron_exec::engine::gpsimd;

use super::{Recorded, Session, Tensor, alu};
use crate::index::Index;
use crate::mask::Mask;

#[pymethods]
impl Session {
    fn iota(&mut self, dst: &Bound<'_, Tensor>, values: &Index) -> Recorded {
        self.emit(dst, |chip, to| {
            Ok(gpsimd::iota(chip, to, &values.evaluate()).map(|mut instruction| {
                instruction.reads.extend(values.by.iter().flat_map(|tiles| tiles.iter().copied()));
                instruction
            }))
        })
    }

    fn affine_select(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        predicate: &Bound<'_, PyAny>,
        otherwise: f64,
    ) -> Recorded {
        let shape = data.shape();
        let holds = Mask::from_python(predicate)?.over(&shape);
        #[expect(clippy::cast_possible_truncation, reason = "constants of instructions are FP32")]
        self.emit(dst, |chip, to| {
            Ok(gpsimd::affine_select(chip, to, data.operand()?, &holds, otherwise as f32))
        })
    }

    fn tensor_partition_reduce(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, op: &str) -> Recorded {
        self.emit(dst, |chip, to| Ok(gpsimd::tensor_partition_reduce(chip, to, data.operand()?, alu(op)?)))
    }

    #[pyo3(signature = (dst, data, indices, each=1, valid=None))]
    fn local_gather(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        indices: &Tensor,
        each: usize,
        valid: Option<usize>,
    ) -> Recorded {
        self.emit(dst, |chip, to| {
            Ok(gpsimd::local_gather(chip, to, data.operand()?, indices.operand()?, each, valid))
        })
    }

    fn gather(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, indices: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(gpsimd::gather(chip, to, data.operand()?, indices.operand()?)))
    }

    fn sequence_bounds(&mut self, dst: &Bound<'_, Tensor>, segments: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(gpsimd::sequence_bounds(chip, to, segments.operand()?)))
    }

    fn nonzero_with_count(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Tensor,
        offset: i64,
        padding: i64,
    ) -> Recorded {
        self.emit(dst, |chip, to| Ok(gpsimd::nonzero_with_count(chip, to, src.operand()?, offset, padding)))
    }

    fn topk(&mut self, values: &Bound<'_, Tensor>, places: &Tensor, src: &Tensor, count: usize) -> Recorded {
        self.emit(values, |chip, to| Ok(gpsimd::topk(chip, to, places.operand()?, src.operand()?, count)))
    }
}
