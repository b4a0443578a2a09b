//! Registers of a run: which instruction loads each, which engine has it, and what runs only after a branch
//! on one.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use smallvec::SmallVec;
use tilewright_neuron_exec::engine::register;
use tilewright_neuron_isa::{Instruction, TensorRegion};

use crate::session::Session;
use crate::tensor::Tensor;

/// Registers that instructions wait for.
#[derive(Default)]
pub(crate) struct RegisterTable {
    /// Loads that no instruction has used yet, by the tensor that stands for their register.
    unused: BTreeMap<u32, usize>,
    /// What the last branch of each program looked at.
    branches: BTreeMap<u32, SmallVec<[TensorRegion; 1]>>,
}

#[pymethods]
impl Session {
    /// Loads one element into a register; what is returned stands for it.
    fn register_load(&mut self, py: Python<'_>, src: &Tensor) -> PyResult<Tensor> {
        let register = self.new_buffer(py, "register")?;
        let load = register::register_load(&self.chip, &register.tile, src.operand()?);
        let at = self.record(py, Ok(load))?;
        self.registers.unused.insert(register.tile.storage.id, at);
        Ok(register)
    }

    /// What follows runs after a branch on these registers: every engine takes it.
    fn branch(&mut self, registers: Vec<Bound<'_, Tensor>>) {
        let regions =
            registers.iter().filter_map(|register| TensorRegion::of(&register.get().tile)).collect();
        self.registers.branches.insert(self.current_program, regions);
    }

    /// The last instruction uses these registers.
    fn uses(&mut self, registers: Vec<Bound<'_, Tensor>>) {
        let Some(mut last) = self.program.instructions.pop() else { return };
        last.reads.extend(registers.iter().filter_map(|register| TensorRegion::of(&register.get().tile)));
        self.own_registers(&last);
        self.program.instructions.push(last);
    }
}

impl Session {
    /// Gives registers that an instruction is the first to use to its engine.
    pub(crate) fn own_registers(&mut self, instruction: &Instruction) {
        if self.registers.unused.is_empty() {
            return;
        }
        for region in &instruction.reads {
            let load = self.registers.unused.remove(&region.storage);
            if let Some(load) = load.and_then(|at| self.program.instructions.get_mut(at)) {
                register::give_to(&self.chip, load, instruction.engine);
            }
        }
    }

    /// Makes an instruction wait for the branch before it.
    pub(crate) fn follow_branch(&self, instruction: &mut Instruction) {
        if let Some(regions) = self.registers.branches.get(&instruction.program) {
            instruction.reads.extend(regions.iter().copied());
        }
    }
}
