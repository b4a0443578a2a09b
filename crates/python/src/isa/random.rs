//! Random numbers.

use pyo3::prelude::*;
use tilewright_neuron_exec::engine::random::{self, RandomLanes};

use super::{EngineKind, Recorded, Session, Tensor, engine_of, scalar_operand};

impl Session {
    /// The generators of an engine.
    fn lanes(&mut self, engine: EngineKind) -> RandomLanes {
        let partitions = self.chip.partitions();
        self.lanes.entry(engine).or_insert_with(|| RandomLanes::seeded(partitions, 0)).clone()
    }
}

#[pymethods]
impl Session {
    #[pyo3(signature = (dst, engine="vector"))]
    fn rng(&mut self, dst: &Bound<'_, Tensor>, engine: &str) -> Recorded {
        let engine = engine_of(engine)?.unwrap_or(EngineKind::Vector);
        let mut lanes = self.lanes(engine);
        self.emit(dst, |chip, to| Ok(random::rng(chip, to, &mut lanes, engine)))?;
        self.lanes.insert(engine, lanes);
        Ok(())
    }

    fn rand2(
        &mut self,
        dst: &Bound<'_, Tensor>,
        low: &Bound<'_, PyAny>,
        high: &Bound<'_, PyAny>,
    ) -> Recorded {
        let (low, high) = (scalar_operand(low)?, scalar_operand(high)?);
        let mut lanes = self.lanes(EngineKind::Vector);
        self.emit(dst, |chip, to| Ok(random::rand2(chip, to, &low, &high, &mut lanes)))?;
        self.lanes.insert(EngineKind::Vector, lanes);
        Ok(())
    }

    fn set_rng_seed(&mut self, py: Python<'_>, src: &Tensor) -> Recorded {
        let mut lanes = self.lanes(EngineKind::Vector);
        let done = random::set_rng_seed(&self.chip, src.operand()?, &mut lanes);
        self.record(py, done)?;
        self.lanes.insert(EngineKind::Vector, lanes);
        Ok(())
    }

    #[pyo3(signature = (src, engine="gpsimd"))]
    fn rand_set_state(&mut self, py: Python<'_>, src: &Tensor, engine: &str) -> Recorded {
        let engine = engine_of(engine)?.unwrap_or(EngineKind::Gpsimd);
        let mut lanes = self.lanes(engine);
        let done = random::rand_set_state(&self.chip, src.operand()?, &mut lanes, engine);
        self.record(py, done)?;
        self.lanes.insert(engine, lanes);
        Ok(())
    }

    #[pyo3(signature = (dst, engine="gpsimd"))]
    fn rand_get_state(&mut self, dst: &Bound<'_, Tensor>, engine: &str) -> Recorded {
        let engine = engine_of(engine)?.unwrap_or(EngineKind::Gpsimd);
        let lanes = self.lanes(engine);
        self.emit(dst, |chip, to| Ok(random::rand_get_state(chip, to, &lanes, engine)))
    }
}
