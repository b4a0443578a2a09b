//! Collectives: one rank's share, from what the ranks of its group gave.

use pyo3::prelude::*;
use tilewright_neuron::engine::collective::{Kind, Part, collective};

use super::{Done, Session, Tensor, Tile, alu, unknown};

fn tiles(tensors: &[Bound<'_, Tensor>]) -> PyResult<Vec<Tile>> {
    tensors.iter().map(|tensor| tensor.get().operand().cloned()).collect()
}

#[pymethods]
impl Session {
    /// `own` is sent; each of `parts` is a place and what it is made of.
    #[pyo3(signature = (kind, own, parts, ranks, op=None))]
    fn collective(
        &mut self,
        py: Python<'_>,
        kind: &str,
        own: Vec<Bound<'_, Tensor>>,
        parts: Vec<(Bound<'_, Tensor>, Vec<Bound<'_, Tensor>>)>,
        ranks: u64,
        op: Option<&str>,
    ) -> Done {
        let kind = Kind::from_name(kind)
            .ok_or_else(|| unknown("neuron/operator", "a collective", kind, &["all_reduce", "all_gather"]))?;
        let own = tiles(&own)?;
        let parts = parts
            .iter()
            .map(|(dst, sources)| Ok(Part { dst: dst.get().operand()?.clone(), sources: tiles(sources)? }))
            .collect::<PyResult<Vec<Part>>>()?;
        let op = op.map(alu).transpose()?;
        let done = collective(&self.chip, kind, &own, &parts, op, ranks);
        self.record(py, done)?;
        Ok(())
    }
}
