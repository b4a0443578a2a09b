//! A program in the making: tensors side by side in data memory, images, and the steps of one PE's queue.

use tilewright_base::Span;
use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::exec::Exec;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::text::lowered_shape;
use tilewright_tcp_isa::program::{ExecId, Program};

use super::KernelError;

/// A tensor before it has a place.
pub(super) struct TensorSpec<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: Dtype,
    pub(super) axes: &'a [(&'a str, u64)],
    pub(super) shape: &'a str,
}

/// Tensors, images and steps so far.
pub(super) struct KernelBuilder<'m> {
    pub(super) machine: &'m Tcp,
    tensors: Vec<Tensor>,
    execs: Vec<Exec>,
    steps: Vec<Step>,
    next_byte: u64,
}

impl<'m> KernelBuilder<'m> {
    pub(super) fn new(machine: &'m Tcp) -> KernelBuilder<'m> {
        KernelBuilder { machine, tensors: Vec::new(), execs: Vec::new(), steps: Vec::new(), next_byte: 0 }
    }

    /// Takes data memory of every slice, in whole flits; gives its first byte.
    pub(super) fn room(&mut self, bytes: u64) -> Result<u64, KernelError> {
        let (base, capacity) = (self.next_byte, self.machine.dm.capacity_bytes);
        let end = bytes.checked_next_multiple_of(self.machine.network.flit_bytes);
        let end = end.and_then(|bytes| base.checked_add(bytes)).filter(|end| *end <= capacity);
        self.next_byte = end.ok_or(KernelError::Room { capacity })?;
        Ok(base)
    }

    /// A tensor that is there at the start; gives its first byte.
    pub(super) fn input(&mut self, named: &TensorSpec<'_>, data: TensorData) -> Result<u64, KernelError> {
        self.tensor(named, TensorRole::Input, data)
    }

    /// A tensor that is read at the end; gives its first byte.
    pub(super) fn output(&mut self, named: &TensorSpec<'_>) -> Result<u64, KernelError> {
        self.tensor(named, TensorRole::Output, TensorData::None)
    }

    fn tensor(
        &mut self,
        named: &TensorSpec<'_>,
        role: TensorRole,
        data: TensorData,
    ) -> Result<u64, KernelError> {
        let axes: Vec<(String, u64)> =
            named.axes.iter().map(|(name, extent)| ((*name).to_string(), *extent)).collect();
        let lowered = lowered_shape(&axes, named.shape);
        let (shape, map) = lowered.map_err(|complaints| {
            let why = complaints.first().map(|complaint| complaint.message.clone()).unwrap_or_default();
            KernelError::Shape { tensor: named.name.to_string(), why }
        })?;
        let elements = map.to.get(1).copied().or_broken("a shape has offsets");
        let base = self.room(bytes(named.dtype, elements))?;
        let place = TensorPlace::Dm { chip: 0, slice: 0, base };
        let (name, dtype, span) = (named.name.to_string(), named.dtype, Span::default());
        self.tensors.push(Tensor { name, dtype, axes, role, place, shape, map, data, span });
        Ok(base)
    }

    /// Loads an image and starts it; gives the id to wait for.
    pub(super) fn start(&mut self, exec: Exec) -> Result<u8, KernelError> {
        let (count, context) = (self.execs.len(), exec.context);
        let most = KernelError::Commands { most: u64::from(u8::MAX) };
        let (id, image) = u8::try_from(count).ok().zip(u32::try_from(count).ok()).ok_or(most)?;
        self.execs.push(exec);
        self.push(Command::Load(ExecId(image)));
        self.push(Command::Exec { context, id });
        Ok(id)
    }

    /// Holds the queue until an execution is done.
    pub(super) fn wait(&mut self, id: u8) {
        self.push(Command::WaitE(id));
    }

    fn push(&mut self, command: Command) {
        self.steps.push(Step { kind: StepKind::Push(command), span: Span::default() });
    }

    /// The program of one PE.
    pub(super) fn finish(self) -> Program {
        Program {
            machine: "tcp".to_string(),
            chips: 1,
            tensors: self.tensors,
            execs: self.execs,
            queues: vec![Queue { chip: 0, pe: 0, steps: self.steps, span: Span::default() }],
            ..Program::default()
        }
    }
}

/// Bytes of so many elements.
pub(super) fn bytes(dtype: Dtype, elements: u64) -> u64 {
    elements.capped_mul(u64::from(dtype.storage_bits())).div_ceil(8)
}
