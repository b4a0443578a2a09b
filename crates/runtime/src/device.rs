//! Chips whose memories stay while programs run one after the other: weights and caches are written once,
//! every run reads and updates them.
//!
//! Nothing of the timeline stays: each run starts at cycle 0 with empty queues.

use std::collections::BTreeSet;
use std::sync::Arc;

use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;
use tilewright_tcp_exec::state::SharedBytes;
use tilewright_tcp_exec::{ExecFault, MemoryState};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorRole};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Program, RegisterId};

use crate::array::{Array, ArrayError};
use crate::prepared::Prepared;
use crate::readings::{Reading, ReadingError, ReadingOptions, input};

/// Some chips of a machine, and what their memories hold.
#[derive(Clone, Debug)]
pub struct Device {
    machine: Arc<Tcp>,
    chips: u64,
    state: MemoryState,
    replaced: BTreeSet<(PeId, u64)>,
}

impl Device {
    /// Chips whose memories hold nothing; what is not written reads as zeros and takes no room.
    pub fn new(machine: &Tcp, chips: u64) -> Device {
        Device {
            machine: Arc::new(machine.clone()),
            chips,
            state: MemoryState::new(machine, chips),
            replaced: BTreeSet::new(),
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Arc<Tcp> {
        &self.machine
    }

    /// Writes bytes of any memory that DMA reaches.
    ///
    /// # Errors
    /// An address where nothing is mapped, or bytes past the end of the memory.
    pub fn write(&mut self, address: Address, bytes: &[u8]) -> Result<(), ExecFault> {
        self.state.write(address, bytes)
    }

    /// Writes bytes of HBM that are held elsewhere: they are read there until they change here.
    ///
    /// # Errors
    /// An address that is not in HBM, or bytes past its end.
    pub fn lend(&mut self, address: Address, lent: &SharedBytes) -> Result<(), ExecFault> {
        self.state.lend(address, lent)
    }

    /// Reads bytes of any memory that DMA reaches.
    ///
    /// # Errors
    /// An address where nothing is mapped, or bytes past the end of the memory.
    pub fn read(&self, address: Address, bytes: &mut [u8]) -> Result<(), ExecFault> {
        self.state.read(address, bytes)
    }

    /// Writes a tensor's elements, given as row-major patterns, to all their copies.
    ///
    /// # Errors
    /// Patterns that are not as many as the elements, places outside the memory.
    pub fn put(&mut self, tensor: &Tensor, patterns: &[u32]) -> Result<(), ExecFault> {
        self.state.put(tensor, patterns)
    }

    /// A tensor's elements as row-major patterns; of copies the first is read.
    ///
    /// # Errors
    /// Places outside the memory.
    pub fn get(&self, tensor: &Tensor) -> Result<Vec<u32>, ExecFault> {
        self.state.get(tensor)
    }

    /// Writes all inputs of a program that have data; `files` gives arrays for those whose data is a file.
    /// [`Device::run`] writes none.
    ///
    /// # Errors
    /// Data that do not fit their tensor, places outside the memory.
    pub fn load(
        &mut self,
        program: &Program,
        files: &mut dyn FnMut(&Tensor) -> Result<Array, ArrayError>,
    ) -> Result<(), ReadingError> {
        for tensor in program.tensors.iter().filter(|tensor| tensor.role != TensorRole::Output) {
            let refused = |why| ReadingError::Input { name: tensor.name.clone(), why };
            let Some(array) = input(&self.machine, tensor, files).map_err(refused)? else { continue };
            self.state.put(tensor, &array.patterns).map_err(|fault| placed(tensor, fault))?;
        }
        Ok(())
    }

    /// Outputs of a program by name, in its order.
    ///
    /// # Errors
    /// Places outside the memory.
    pub fn outputs(&self, program: &Program) -> Result<Vec<(String, Array)>, ReadingError> {
        let outputs = program.tensors.iter().filter(|tensor| tensor.role != TensorRole::Input);
        let read = |tensor: &Tensor| {
            let patterns = self.state.get(tensor).map_err(|fault| placed(tensor, fault))?;
            let extents = tensor.axes.iter().map(|(_, extent)| *extent).collect();
            Ok((tensor.name.clone(), Array { dtype: tensor.dtype, extents, patterns }))
        };
        outputs.map(read).collect()
    }

    /// Runs a program on what memories hold; some registers of all PEs start with other values than it says.
    /// No input is written: see [`Device::load`] and [`Device::put`]; outputs are read with [`Device::get`].
    ///
    /// Memories change if values are wanted, or needed for what is wanted. A command that cannot be run stops
    /// the run ([`tilewright_tcp_sim::RunEnd::Stopped`]) and is a finding.
    ///
    /// # Errors
    /// A program of another machine or of more chips, a value outside of its register's range, a run that
    /// cannot go on.
    pub fn run<S: Sink + Send>(
        &mut self,
        prepared: &Prepared,
        registers: &[(RegisterId, i64)],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ReadingError> {
        let chips = prepared.program().chips;
        if chips > self.chips {
            return Err(ReadingError::Unfit(format!(
                "it is for {chips} chips, the device has {}",
                self.chips
            )));
        }
        let machine = prepared.machine();
        if !Arc::ptr_eq(machine, &self.machine) && **machine != *self.machine {
            return Err(ReadingError::Unfit("it was prepared for another machine".to_string()));
        }
        self.replace_slices(&wanted.faulty_slices)?;
        prepared.run(registers, wanted, &mut self.state, sink)
    }

    /// Lets spares answer to the numbers of faulty slices; those that were replaced before stay so.
    pub(crate) fn replace_slices(&mut self, faulty: &[(PeId, u64)]) -> Result<(), ReadingError> {
        for (pe, slice) in faulty {
            if !self.replaced.insert((*pe, *slice)) {
                continue;
            }
            let name = format!("faulty slice {slice} of chip {} pe {}", pe.chip, pe.pe);
            let faulted = |fault| ReadingError::Fault { name, fault };
            self.state.replace_slice(pe.chip, pe.pe, *slice).map_err(faulted)?;
        }
        Ok(())
    }

    pub(crate) fn state_mut(&mut self) -> &mut MemoryState {
        &mut self.state
    }
}

fn placed(tensor: &Tensor, fault: ExecFault) -> ReadingError {
    ReadingError::Fault { name: tensor.name.clone(), fault }
}
