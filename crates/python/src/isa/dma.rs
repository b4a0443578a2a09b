//! Transfers.

use pyo3::prelude::*;
use smallvec::SmallVec;
use tilewright_neuron_exec::engine::dge::{DgeMode, make_descriptors};
use tilewright_neuron_exec::engine::{dma, transpose};
use tilewright_neuron_isa::TensorRegion;
use tilewright_neuron_isa::pattern::SKIP;

use super::{Instruction, Recorded, Session, Tensor, Tile, alu, engine_of};

#[pymethods]
impl Session {
    /// `mode` says who makes the descriptors, for the engine that triggers them.
    #[pyo3(signature = (dst, src, combine=None, mode="unknown", engine=""))]
    fn dma_copy(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Tensor,
        combine: Option<&str>,
        mode: &str,
        engine: &str,
    ) -> Recorded {
        let (from, combine) = (src.operand()?, combine.map(alu).transpose()?);
        let made = self.descriptors(dst, "dma_copy", &[from], mode, engine)?;
        let to = dst.get().operand()?;
        let skipping = skipping_like(to, from);
        let to = skipping.as_ref().unwrap_or(to);
        self.emit_shared(dst, to, |chip| {
            let done = dma::dma_copy(chip, to, from, combine);
            Ok(done.map(|instruction| made.attach_to(instruction)))
        })
    }

    /// A tile of another core, through the DMA engines of GpSimd.
    fn gpsimd_exchange(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor) -> Recorded {
        self.emit(dst, |chip, to| Ok(dma::gpsimd_exchange(chip, to, src.operand()?)))
    }

    /// Refuses ways to make descriptors, and priorities, that the chip does not have.
    #[pyo3(signature = (instruction, mode, priority=None))]
    fn check_trigger(
        &mut self,
        py: Python<'_>,
        instruction: &str,
        mode: &str,
        priority: Option<i64>,
    ) -> Recorded {
        let done = dma::check_trigger(&self.chip, instruction, mode == "hwdge", priority);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    /// Refuses a transfer from or to PSUM.
    fn check_reach(&mut self, py: Python<'_>, instruction: &str, tile: &Tensor) -> Recorded {
        let done = dma::check_reach(instruction, &tile.tile);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    /// Refuses an exchange between cores that is too large for the DMA of GpSimd.
    fn check_exchange(&mut self, py: Python<'_>, tile: &Tensor) -> Recorded {
        let done = dma::check_exchange(&self.chip, tile.operand()?);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    /// The order of dimensions of a transpose; refuses others.
    #[pyo3(signature = (src, axes=None))]
    fn transpose_order(
        &mut self,
        py: Python<'_>,
        src: &Tensor,
        axes: Option<Vec<usize>>,
    ) -> PyResult<Vec<usize>> {
        let order = transpose::order(src.tile.view.dims.len(), axes.as_deref());
        order.map(<[usize]>::to_vec).map_err(|refusal| self.refused(py, &refusal))
    }

    /// Refuses results and sources that a transpose does not take.
    fn check_transpose(&mut self, py: Python<'_>, dst: &Tensor, src: &Tensor, mode: &str) -> Recorded {
        let done = transpose::check(&self.chip, &dst.tile, &src.tile, mode == "hwdge");
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    #[pyo3(signature = (dst, src, permuted, mode="unknown"))]
    fn dma_transpose(
        &mut self,
        dst: &Bound<'_, Tensor>,
        src: &Tensor,
        permuted: &Tensor,
        mode: &str,
    ) -> Recorded {
        let from = src.operand()?;
        let made = self.descriptors(dst, "dma_transpose", &[from], mode, "")?;
        let to = dst.get().operand()?;
        self.emit_shared(dst, to, |chip| {
            let done = dma::dma_transpose(chip, to, from, permuted.operand()?);
            Ok(done.map(|instruction| made.attach_to(instruction)))
        })
    }

    fn dma_compute(
        &mut self,
        dst: &Bound<'_, Tensor>,
        srcs: Vec<Bound<'_, Tensor>>,
        scales: Vec<f32>,
        op: &str,
    ) -> Recorded {
        let tiles = srcs.iter().map(|src| src.get().operand().cloned()).collect::<PyResult<Vec<Tile>>>()?;
        let made = self.descriptors(dst, "dma_compute", &tiles.iter().collect::<Vec<_>>(), "unknown", "")?;
        let to = dst.get().operand()?;
        self.emit_shared(dst, to, |chip| {
            let done = dma::dma_compute(chip, to, &tiles, &scales, alu(op)?);
            Ok(done.map(|instruction| made.attach_to(instruction)))
        })
    }
}

/// Descriptors that are made for a transfer: where they lie, and whether software makes them; of those that
/// are stored before only what says where the transfer begins.
#[derive(Default)]
struct DmaDescriptors {
    waits: SmallVec<[TensorRegion; 1]>,
    software: bool,
}

impl DmaDescriptors {
    /// The transfer that waits for them.
    fn attach_to(self, mut transfer: Instruction) -> Instruction {
        transfer.reads.extend(self.waits);
        if let Some(shape) = &mut transfer.dma {
            shape.software = self.software;
        }
        transfer
    }
}

impl Session {
    /// Records that the descriptors of a transfer are made at run time, if they are.
    fn descriptors(
        &mut self,
        dst: &Bound<'_, Tensor>,
        name: &str,
        sources: &[&Tile],
        mode: &str,
        engine: &str,
    ) -> PyResult<DmaDescriptors> {
        let (py, to) = (dst.py(), dst.get().operand()?);
        let tiles: SmallVec<[&Tile; 4]> = [to].into_iter().chain(sources.iter().copied()).collect();
        let mode =
            DgeMode::named(mode, engine_of(engine)?).and_then(|mode| mode.settled(&self.chip, name, &tiles));
        let mode = mode.map_err(|refusal| self.refused(py, &refusal))?;
        if mode == DgeMode::None {
            let picked = tiles.iter().filter_map(|tile| tile.view.picked_by.as_deref()).flatten();
            return Ok(DmaDescriptors { waits: picked.copied().collect(), software: false });
        }
        let ring = self.new_buffer(py, "descriptors")?.tile;
        if let Some(made) = make_descriptors(&self.chip, mode, &ring, &tiles) {
            self.record(py, Ok(made))?;
        }
        let waits = TensorRegion::of(&ring).into_iter().collect();
        Ok(DmaDescriptors { waits, software: mode == DgeMode::Software })
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
