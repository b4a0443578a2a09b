//! Collectives: one rank's share, from what the ranks of its group gave; and where and when ranks meet.

use std::sync::Arc;

use pyo3::prelude::*;
use tilewright_machine::neuron::instances;
use tilewright_neuron_exec::engine::collective::{RankGroup, ReceivedChunk, collective};
use tilewright_neuron_isa::cost::collective::{CollectiveKind, CollectiveRequest, collective_cost};
use tilewright_neuron_isa::network::Network;
use tilewright_neuron_sim::compiler::compiled;
use tilewright_neuron_sim::schedule::{apply_collective_starts, collective_starts};

use super::{Recorded, Session, Tensor, Tile, alu, unknown};
use crate::error::raise;

fn tiles(tensors: &[Bound<'_, Tensor>]) -> PyResult<Vec<Tile>> {
    tensors.iter().map(|tensor| tensor.get().operand().cloned()).collect()
}

#[pymethods]
impl Session {
    /// `own` is sent; each of `parts` is a place and what it is made of.
    #[pyo3(signature = (kind, own, parts, ranks, op=None, pairs=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "a collective has as many operands")]
    fn collective(
        &mut self,
        py: Python<'_>,
        kind: &str,
        own: Vec<Bound<'_, Tensor>>,
        parts: Vec<(Bound<'_, Tensor>, Vec<Bound<'_, Tensor>>)>,
        ranks: Vec<u32>,
        op: Option<&str>,
        pairs: Vec<(u32, u32)>,
    ) -> Recorded {
        let kind = CollectiveKind::from_name(kind)
            .ok_or_else(|| unknown("neuron/operator", "a collective", kind, &["all_reduce", "all_gather"]))?;
        let own = tiles(&own)?;
        let parts = parts
            .iter()
            .map(|(dst, sources)| {
                Ok(ReceivedChunk { dst: dst.get().operand()?.clone(), sources: tiles(sources)? })
            })
            .collect::<PyResult<Vec<ReceivedChunk>>>()?;
        let op = op.map(alu).transpose()?;
        let network = self.network(py)?;
        let group = RankGroup { network: &network, ranks: &ranks, pairs: &pairs };
        let mut done = collective(&self.chip, kind, &group, &own, &parts, op);
        if let Some(collective) = done.as_mut().ok().and_then(|done| done.collective.as_mut()) {
            let collective_counts =
                self.collective_counts.entry((self.current_program, collective.members.clone())).or_default();
            collective.number = *collective_counts;
            *collective_counts += 1;
        }
        self.record(py, done)?;
        Ok(())
    }
}

impl Session {
    /// Where the ranks are; a launch of its own is alone.
    fn network(&mut self, py: Python<'_>) -> PyResult<Arc<Network>> {
        if let Some(network) = &self.network {
            return Ok(Arc::clone(network));
        }
        let network = Network::new(&self.chip, None, 1, 1).map_err(|refusal| self.refused(py, &refusal))?;
        Ok(Arc::clone(self.network.insert(Arc::new(network))))
    }
}

/// The chip of an instance; none if no instance has that name.
#[pyfunction]
pub(crate) fn instance_chip(name: &str) -> Option<&'static str> {
    instances().iter().find(|instance| instance.name == name).map(|instance| instance.chip.as_str())
}

/// Seconds that a collective of so many bytes takes among ranks that take the cores of an instance in order,
/// `cores` for each: time of the data, and of steps and what every collective takes.
#[pyfunction]
#[pyo3(signature = (chip, kind, bytes, ranks, instance=None, cores=1))]
pub(crate) fn collective_time(
    py: Python<'_>,
    chip: &str,
    kind: &str,
    bytes: u64,
    ranks: u32,
    instance: Option<&str>,
    cores: u64,
) -> PyResult<(f64, f64)> {
    let chip = crate::session::chip_of(chip)?;
    let kind = CollectiveKind::from_name(kind)
        .ok_or_else(|| unknown("neuron/operator", "a collective", kind, &["all_reduce", "all_gather"]))?;
    let network = Network::new(&chip, instance, u64::from(ranks), cores);
    let network = network.map_err(|refusal| raise(py, &refusal, ""))?;
    let request = CollectiveRequest { kind, ranks: (0..ranks).collect(), pairs: Vec::new(), bytes };
    let cost = collective_cost(&chip, &network, request).cost;
    Ok((cost.busy_ps as f64 * 1e-12, cost.latency_ps as f64 * 1e-12))
}

/// Puts the ranks of these sessions on an instance, of so many cores each, and gives its name.
#[pyfunction]
pub(crate) fn place_ranks(
    py: Python<'_>,
    sessions: Vec<Bound<'_, Session>>,
    instance: Option<&str>,
    cores: u64,
) -> PyResult<Option<String>> {
    let Some(first) = sessions.first() else { return Ok(None) };
    let ranks = u64::try_from(sessions.len()).unwrap_or(u64::MAX);
    let network = Network::new(&first.borrow().chip, instance, ranks, cores);
    let network = Arc::new(network.map_err(|refusal| raise(py, &refusal, ""))?);
    for session in &sessions {
        session.borrow_mut().network = Some(Arc::clone(&network));
    }
    Ok(Some(network.instance.name.clone()))
}

/// Finds when the collectives of these sessions begin, one session for each rank in order.
#[pyfunction]
pub(crate) fn schedule_collectives(py: Python<'_>, sessions: Vec<Bound<'_, Session>>) {
    let mut sessions: Vec<PyRefMut<'_, Session>> = sessions.iter().map(Bound::borrow_mut).collect();
    let Some(chip) = sessions.first().map(|session| Arc::clone(&session.chip)) else { return };
    if sessions.iter().all(|session| session.collective_counts.is_empty()) {
        return;
    }
    let programs: Vec<_> = sessions.iter().map(|session| &session.program).collect();
    let collective_counts = py.detach(|| {
        let changed: Vec<_> = programs.iter().map(|program| compiled(&chip, program)).collect();
        let running: Vec<_> = changed
            .iter()
            .zip(&programs)
            .map(|(changed, program)| changed.as_ref().unwrap_or(program))
            .collect();
        collective_starts(&chip, &running)
    });
    for session in &mut sessions {
        apply_collective_starts(&mut session.program, &collective_counts);
    }
}
