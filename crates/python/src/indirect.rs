//! Views whose elements are named by a tile of offsets (NKI tensor, `indirect`;
//! docs/hardware-rules.md#tensor-indirection).
//!
//! Offset i of a group of partitions is in partition i mod G of the group, column i div G. The page says so
//! for one group; that every group reads its own partitions is our reading of it, as `local_gather` does.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tilewright_neuron_exec::Tile;
use tilewright_neuron_isa::pattern::IndexTile;
use tilewright_neuron_isa::{Generation, TensorRegion, TensorView};

use crate::error::out_of_bounds;
use crate::session::Session;
use crate::tensor::Tensor;

#[pymethods]
impl Session {
    /// The elements of `data` at the offsets that `index` holds, `count` of them on each partition.
    #[pyo3(signature = (data, index, count=None))]
    fn indirect(
        &mut self,
        py: Python<'_>,
        data: &Tensor,
        index: &Tensor,
        count: Option<usize>,
    ) -> PyResult<Tensor> {
        let newer = self.chip.needs("tensor.indirect", Generation::V4);
        newer.map_err(|refusal| self.refused(py, &refusal))?;
        let (tile, offsets) = (data.operand()?, index.operand()?);
        let partitions = tile.view.partitions();
        let count = count.unwrap_or(offsets.elements());
        let on_chip = tile.storage.memory.on_chip() && offsets.storage.memory.on_chip();
        if !on_chip || offsets.view.partitions() != partitions || offsets.view.dtype.is_float() {
            return Err(PyValueError::new_err(format!(
                "indirect of a tile {:?} with offsets {} {:?}: both are on the chip, with as many \
                 partitions, and offsets \
                 are integers",
                tile.view.shape(),
                offsets.view.dtype,
                offsets.view.shape()
            )));
        }
        let values = offsets.read_integers(&self.chip.rules).values;
        let neuron = &self.chip.neuron;
        let size = |figure: u64| usize::try_from(figure).unwrap_or(usize::MAX).max(1);
        let groups = (size(neuron.gpsimd.partitions_per_processor), size(neuron.access.quadrant_partitions));
        let columns = offsets.view.free_elements();
        let lanes = picked(tile, &values, (partitions, columns), groups.0, count)?;
        let array = picked(tile, &values, (partitions, columns), groups.1, count)?;
        let region = TensorRegion::of(offsets)
            .ok_or_else(|| PyValueError::new_err("indirect with a tile of no offsets"))?;
        let mut view =
            TensorView { mx: tile.view.mx, ..TensorView::whole(&[partitions, count], tile.view.dtype, 0) };
        let any = lanes.clone().or_else(|| array.clone());
        view.gather = Some(any.ok_or_else(|| {
            PyValueError::new_err(format!(
                "indirect with {count} offsets of a tile {:?}: a group of {} partitions holds at most {}, \
                 one of {} {}; \
                 give num_elem",
                offsets.view.shape(),
                groups.0,
                groups.0.saturating_mul(columns),
                groups.1,
                groups.1.saturating_mul(columns)
            ))
        })?);
        view.index = Some(Arc::new(IndexTile { region, groups, lanes, array }));
        Ok(data.with_view(view))
    }
}

/// Where the elements lie, for groups of so many partitions; none if the groups do not hold as many offsets.
fn picked(
    tile: &Tile,
    values: &[i64],
    (partitions, columns): (usize, usize),
    group: usize,
    count: usize,
) -> PyResult<Option<Arc<[i64]>>> {
    if !partitions.is_multiple_of(group) || count > group.saturating_mul(columns) {
        return Ok(None);
    }
    let (free, places) = (tile.view.free_elements(), tile.view.offsets());
    let mut found = Vec::with_capacity(partitions * count);
    for partition in 0..partitions {
        let first = partition / group * group;
        for at in 0..count {
            let offset = values.get((first + at % group) * columns + at / group).copied().unwrap_or(-1);
            let place = usize::try_from(offset).ok().filter(|&offset| offset < free);
            let place = place.and_then(|offset| places.get(partition * free + offset));
            found.push(*place.ok_or_else(|| out_of_bounds(offset, free, None))?);
        }
    }
    Ok(Some(found.into()))
}
