//! Instructions: from Python operands to the engine, and into the record.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tilewright_neuron::alu::AluOp;
use tilewright_neuron::engine::scalar::Activation;
use tilewright_neuron::engine::tensor::MatmulOptions;
use tilewright_neuron::engine::vector::{Accumulate, Bound as RangeBound};
use tilewright_neuron::engine::{Operand, Step, dma, gpsimd, scalar, tensor, vector};
use tilewright_neuron::function::Function;
use tilewright_neuron::pattern::SKIP;
use tilewright_neuron::{EngineKind, Tile};

use crate::index::{Index, Mask};
use crate::session::Session;
use crate::tensor::Tensor;

type Done = PyResult<()>;

fn alu(name: &str) -> PyResult<AluOp> {
    AluOp::from_name(name).ok_or_else(|| PyValueError::new_err(format!("no operator is called {name}")))
}

fn engine_of(name: &str) -> PyResult<Option<EngineKind>> {
    match name {
        "" | "unknown" => Ok(None),
        _ => EngineKind::from_name(name)
            .map(Some)
            .ok_or_else(|| PyValueError::new_err(format!("no engine is called {name}"))),
    }
}

/// A number or a tile.
fn scalar_operand(value: &Bound<'_, PyAny>) -> PyResult<Operand> {
    if let Ok(tensor) = value.cast::<Tensor>() {
        return Ok(Operand::PerPartition(tensor.get().operand()?.clone()));
    }
    let number: f64 = value.extract()?;
    #[expect(clippy::cast_possible_truncation, reason = "constants of instructions are FP32")]
    Ok(Operand::Constant(number as f32))
}

fn step(op: &str, operand: &Bound<'_, PyAny>, reverse: bool) -> PyResult<Step> {
    let op = alu(op)?;
    let operand = if operand.is_none() { Operand::Constant(0.0) } else { scalar_operand(operand)? };
    Ok(Step { op, operand, reverse })
}

fn optional(tensor: Option<&Bound<'_, Tensor>>) -> PyResult<Option<Tile>> {
    tensor.map(|tensor| tensor.get().operand().cloned()).transpose()
}

impl Session {
    /// Records and marks the result as fresh.
    fn done(
        &mut self,
        dst: &Bound<'_, Tensor>,
        done: Result<tilewright_neuron::Instruction, tilewright_neuron::Refusal>,
    ) -> Done {
        let at = self.record(dst.py(), done)?;
        dst.get().set_fresh(at);
        Ok(())
    }
}

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
    ) -> Done {
        let (op, engine) = (alu(op)?, engine_of(engine)?);
        let to = dst.get().operand()?.clone();
        let done = vector::tensor_tensor(&self.chip, &to, a.operand()?, b.operand()?, op, engine);
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, data, op0, operand0, reverse0=false, op1=None, operand1=None, reverse1=false, engine=""))]
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
    ) -> Done {
        let mut steps = vec![step(op0, operand0, reverse0)?];
        if let Some(op1) = op1 {
            let none = dst.py().None().into_bound(dst.py());
            steps.push(step(op1, operand1.unwrap_or(&none), reverse1)?);
        }
        let to = dst.get().operand()?.clone();
        let done = vector::tensor_scalar(&self.chip, &to, data.operand()?, &steps, engine_of(engine)?);
        self.done(dst, done)
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
    ) -> Done {
        let first = step(op0, operand0, reverse0)?;
        let to = dst.get().operand()?.clone();
        let done = vector::scalar_tensor_tensor(
            &self.chip,
            &to,
            data.operand()?,
            &first,
            other.operand()?,
            alu(op1)?,
            reverse1,
        );
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, src, engine=""))]
    fn tensor_copy(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, engine: &str) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::tensor_copy(&self.chip, &to, src.operand()?, engine_of(engine)?);
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, value, engine=""))]
    fn memset(&mut self, dst: &Bound<'_, Tensor>, value: f64, engine: &str) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::memset(&self.chip, &to, value, engine_of(engine)?);
        self.done(dst, done)
    }

    fn reciprocal(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::reciprocal(&self.chip, &to, data.operand()?);
        self.done(dst, done)
    }

    fn tensor_reduce(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        op: &str,
        axes: usize,
        negate: bool,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::tensor_reduce(&self.chip, &to, data.operand()?, alu(op)?, axes, negate);
        self.done(dst, done)
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
        go_on: bool,
    ) -> Done {
        let step = step(op0, operand0, reverse0)?;
        let to = dst.get().operand()?.clone();
        let how = if go_on { Accumulate::Continue } else { Accumulate::Reset };
        let result = reduce_res.operand()?;
        let done = vector::tensor_scalar_reduce(
            &self.chip,
            &to,
            data.operand()?,
            &step,
            alu(reduce_op)?,
            result,
            how,
        );
        self.done(dst, done)
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
    ) -> Done {
        let step = step(op0, operand0, false)?;
        let initial = initial.map(scalar_operand).transpose()?;
        let to = dst.get().operand()?.clone();
        let done = vector::tensor_scalar_cumulative(
            &self.chip,
            &to,
            data.operand()?,
            &step,
            alu(op1)?,
            initial.as_ref(),
        );
        self.done(dst, done)
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
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let ops = [(alu(op0)?, reverse0), (alu(op1)?, reverse1)];
        let done = vector::tensor_tensor_scan(
            &self.chip,
            &to,
            a.operand()?,
            b.operand()?,
            &scalar_operand(initial)?,
            ops,
        );
        self.done(dst, done)
    }

    fn bn_stats(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::bn_stats(&self.chip, &to, data.operand()?);
        self.done(dst, done)
    }

    fn bn_aggr(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::bn_aggr(&self.chip, &to, data.operand()?);
        self.done(dst, done)
    }

    fn max8(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::max8(&self.chip, &to, src.operand()?);
        self.done(dst, done)
    }

    fn nc_find_index8(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, vals: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::nc_find_index8(&self.chip, &to, data.operand()?, vals.operand()?);
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, data, vals, imm, places=None))]
    fn nc_match_replace8(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        vals: &Tensor,
        imm: f32,
        places: Option<&Bound<'_, Tensor>>,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let places = optional(places)?;
        let done = vector::nc_match_replace8(
            &self.chip,
            &to,
            data.operand()?,
            vals.operand()?,
            imm,
            places.as_ref(),
        );
        self.done(dst, done)
    }

    fn tensor_copy_predicated(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Bound<'_, PyAny>,
        predicate: &Tensor,
        reverse: bool,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::tensor_copy_predicated(
            &self.chip,
            &to,
            &scalar_operand(src)?,
            predicate.operand()?,
            reverse,
        );
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, predicate, on_true, on_false, reverse, result=None, go_on=false))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn select_reduce(
        &mut self,
        dst: &Bound<'_, Tensor>,
        predicate: &Tensor,
        on_true: &Tensor,
        on_false: &Bound<'_, PyAny>,
        reverse: bool,
        result: Option<&Bound<'_, Tensor>>,
        go_on: bool,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let result = optional(result)?;
        let done = vector::select_reduce(
            &self.chip,
            &to,
            predicate.operand()?,
            on_true.operand()?,
            &scalar_operand(on_false)?,
            reverse,
            result.as_ref().map(|tile| (tile, go_on)),
        );
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, data, ops, bounds, start, fill, result=None, go_on=false))]
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
        go_on: bool,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let bounds = [
            RangeBound { op: alu(&ops.0)?, value: scalar_operand(&bounds.0)? },
            RangeBound { op: alu(&ops.1)?, value: scalar_operand(&bounds.1)? },
        ];
        let result = optional(result)?;
        let result = result.as_ref().map(|tile| (tile, go_on));
        let done = vector::range_select(&self.chip, &to, data.operand()?, &bounds, start, fill, result);
        self.done(dst, done)
    }

    fn dropout(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, probability: &Bound<'_, PyAny>) -> Done {
        let to = dst.get().operand()?.clone();
        let chip = self.chip.clone();
        let done =
            vector::dropout(&chip, &to, data.operand()?, &scalar_operand(probability)?, &mut self.seed);
        self.done(dst, done)
    }

    fn nc_stream_shuffle(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, mask: Vec<u64>) -> Done {
        let to = dst.get().operand()?.clone();
        let done = vector::nc_stream_shuffle(&self.chip, &to, src.operand()?, &mask);
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, data, function, bias=None, scale=None, sums=None, reduce_op="add", go_on=false))]
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
        go_on: bool,
    ) -> Done {
        let function = Function::from_name(function)
            .ok_or_else(|| PyValueError::new_err(format!("no activation function is called {function}")))?;
        let how = Activation {
            function,
            bias: bias.map(scalar_operand).transpose()?,
            scale: scale.map_or(Ok(Operand::Constant(1.0)), scalar_operand)?,
            sums: optional(sums)?,
            reduce: alu(reduce_op)?,
            continue_sums: go_on,
        };
        let (to, from) = (dst.get().operand()?.clone(), data.operand()?.clone());
        let chip = self.chip.clone();
        let done = py.detach(|| scalar::activation(&chip, &to, &from, &how));
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, stationary, moving, accumulate=None, is_transpose=false, stationary_onezero=false, moving_onezero=false, double_row=false))]
    #[expect(clippy::too_many_arguments, reason = "the instruction has as many")]
    fn nc_matmul(
        &mut self,
        py: Python<'_>,
        dst: &Bound<'_, Tensor>,
        stationary: &Tensor,
        moving: &Tensor,
        accumulate: Option<bool>,
        is_transpose: bool,
        stationary_onezero: bool,
        moving_onezero: bool,
        double_row: bool,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let (a, b) = (stationary.operand()?.clone(), moving.operand()?.clone());
        let adds = self.adds(&to);
        let accumulate = accumulate.unwrap_or(adds && !is_transpose);
        let options =
            MatmulOptions { accumulate, is_transpose, stationary_onezero, moving_onezero, double_row };
        let chip = self.chip.clone();
        let done = py.detach(|| tensor::nc_matmul(&chip, &to, &a, &b, options));
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, data, engine=""))]
    fn nc_transpose(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, engine: &str) -> Done {
        let to = dst.get().operand()?.clone();
        let done = match engine_of(engine)? {
            Some(EngineKind::Vector) => vector::transpose(&self.chip, &to, data.operand()?),
            _ => tensor::nc_transpose(&self.chip, &to, data.operand()?),
        };
        self.done(dst, done)
    }

    fn partition_broadcast(&mut self, dst: &Bound<'_, Tensor>, row: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = tensor::partition_broadcast(&self.chip, &to, row.operand()?);
        self.done(dst, done)
    }

    fn iota(&mut self, dst: &Bound<'_, Tensor>, values: &Index) -> Done {
        let to = dst.get().operand()?.clone();
        let done = gpsimd::iota(&self.chip, &to, &values.evaluate());
        self.done(dst, done)
    }

    fn affine_select(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        predicate: &Bound<'_, PyAny>,
        otherwise: f64,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let shape = data.shape();
        let holds = Mask::from_python(predicate)?.over(&shape);
        #[expect(clippy::cast_possible_truncation, reason = "constants of instructions are FP32")]
        let done = gpsimd::affine_select(&self.chip, &to, data.operand()?, &holds, otherwise as f32);
        self.done(dst, done)
    }

    fn tensor_partition_reduce(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, op: &str) -> Done {
        let to = dst.get().operand()?.clone();
        let done = gpsimd::tensor_partition_reduce(&self.chip, &to, data.operand()?, alu(op)?);
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, data, indices, each=1, valid=None))]
    fn local_gather(
        &mut self,
        dst: &Bound<'_, Tensor>,
        data: &Tensor,
        indices: &Tensor,
        each: usize,
        valid: Option<usize>,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let done = gpsimd::local_gather(&self.chip, &to, data.operand()?, indices.operand()?, each, valid);
        self.done(dst, done)
    }

    fn gather(&mut self, dst: &Bound<'_, Tensor>, data: &Tensor, indices: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = gpsimd::gather(&self.chip, &to, data.operand()?, indices.operand()?);
        self.done(dst, done)
    }

    fn sequence_bounds(&mut self, dst: &Bound<'_, Tensor>, segments: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = gpsimd::sequence_bounds(&self.chip, &to, segments.operand()?);
        self.done(dst, done)
    }

    fn nonzero_with_count(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Tensor,
        offset: i64,
        padding: i64,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let done = gpsimd::nonzero_with_count(&self.chip, &to, src.operand()?, offset, padding);
        self.done(dst, done)
    }

    #[pyo3(signature = (dst, src, combine=None))]
    fn dma_copy(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, combine: Option<&str>) -> Done {
        let to = dst.get().operand()?.clone();
        let from = src.operand()?;
        let combine = combine.map(alu).transpose()?;
        let done = match skipping_like(&to, from) {
            Some(to) => dma::dma_copy(&self.chip, &to, from, combine),
            None => dma::dma_copy(&self.chip, &to, from, combine),
        };
        self.done(dst, done)
    }

    fn dma_transpose(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, permuted: &Tensor) -> Done {
        let to = dst.get().operand()?.clone();
        let done = dma::dma_transpose(&self.chip, &to, src.operand()?, permuted.operand()?);
        self.done(dst, done)
    }

    fn dma_compute(
        &mut self,
        dst: &Bound<'_, Tensor>,
        srcs: Vec<Bound<'_, Tensor>>,
        scales: Vec<f32>,
        op: &str,
    ) -> Done {
        let to = dst.get().operand()?.clone();
        let tiles = srcs.iter().map(|src| src.get().operand().cloned()).collect::<PyResult<Vec<Tile>>>()?;
        let done = dma::dma_compute(&self.chip, &to, &tiles, &scales, alu(op)?);
        self.done(dst, done)
    }
}

/// The result without the elements that the source skips.
fn skipping_like(to: &Tile, from: &Tile) -> Option<Tile> {
    let skips = from.view.gather.as_ref().filter(|offsets| offsets.contains(&SKIP))?;
    let offsets = to.view.offsets();
    let kept: Vec<i64> =
        offsets.iter().zip(skips.iter()).map(|(&to, &from)| if from == SKIP { SKIP } else { to }).collect();
    let mut tile = to.clone();
    tile.view.gather = Some(kept.into());
    tile.view.offset = 0;
    Some(tile)
}
