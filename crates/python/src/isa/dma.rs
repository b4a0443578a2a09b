//! Transfers.

use pyo3::prelude::*;
use tilewright_neuron::engine::dma;
use tilewright_neuron::pattern::SKIP;

use super::{Done, Session, Tensor, Tile, alu, unknown};
use tilewright_neuron::Region;

#[pymethods]
impl Session {
    #[pyo3(signature = (dst, src, combine=None))]
    fn dma_copy(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, combine: Option<&str>) -> Done {
        let (from, combine) = (src.operand()?, combine.map(alu).transpose()?);
        let ring = self.descriptors(dst.py(), dst.get().operand()?, from)?;
        self.emit(dst, |chip, to| {
            let done = dma::dma_copy(chip, skipping_like(to, from).as_ref().unwrap_or(to), from, combine);
            Ok(done.map(|mut instruction| {
                instruction.reads.extend(ring);
                instruction
            }))
        })
    }

    /// Refuses ways to make descriptors, and priorities, that the chip does not have.
    #[pyo3(signature = (instruction, mode, priority=None))]
    fn check_trigger(
        &mut self,
        py: Python<'_>,
        instruction: &str,
        mode: &str,
        priority: Option<i64>,
    ) -> Done {
        const MODES: [&str; 4] = ["unknown", "none", "swdge", "hwdge"];
        if !MODES.contains(&mode) {
            return Err(unknown("neuron/operator", "a dge_mode", mode, &MODES));
        }
        let done = dma::check_trigger(&self.chip, instruction, mode == "hwdge", priority);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    /// Refuses a transfer from or to PSUM.
    fn check_reach(&mut self, py: Python<'_>, instruction: &str, tile: &Tensor) -> Done {
        let done = dma::check_reach(instruction, &tile.tile);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    /// Refuses an exchange between cores that is too large for the DMA of GpSimd.
    fn check_exchange(&mut self, py: Python<'_>, tile: &Tensor) -> Done {
        let done = dma::check_exchange(tile.operand()?);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    fn dma_transpose(&mut self, dst: &Bound<'_, Tensor>, src: &Tensor, permuted: &Tensor) -> Done {
        self.emit(dst, |chip, to| Ok(dma::dma_transpose(chip, to, src.operand()?, permuted.operand()?)))
    }

    fn dma_compute(
        &mut self,
        dst: &Bound<'_, Tensor>,
        srcs: Vec<Bound<'_, Tensor>>,
        scales: Vec<f32>,
        op: &str,
    ) -> Done {
        let tiles = srcs.iter().map(|src| src.get().operand().cloned()).collect::<PyResult<Vec<Tile>>>()?;
        self.emit(dst, |chip, to| Ok(dma::dma_compute(chip, to, &tiles, &scales, alu(op)?)))
    }
}

impl Session {
    /// Records that the descriptors of a transfer are made at run time, if they are; where they lie.
    fn descriptors(&mut self, py: Python<'_>, dst: &Tile, src: &Tile) -> PyResult<Option<Region>> {
        if dst.view.picked_by.is_none() && src.view.picked_by.is_none() {
            return Ok(None);
        }
        let ring = self.ring(py)?;
        let made = dma::make_descriptors(&self.chip, &ring, dst, src);
        made.map(|made| self.record(py, Ok(made))).transpose()?;
        Ok(Region::of(&ring))
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
