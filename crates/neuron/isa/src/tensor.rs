//! Tensors as kernels declare them: where they live, their type and shape, without bytes.

use tilewright_num::Dtype;

use crate::MemorySpace;
use crate::pattern::{MAX_ELEMENTS, as_u64};
use crate::refusal::Refusal;

/// Most bytes of one tensor: more than any device has, less than a host fails on silently.
pub const MAX_TENSOR_BYTES: usize = 1 << 36;

/// A tensor as a kernel declares it.
#[derive(Clone, Debug)]
pub struct TensorDecl {
    /// Number, in order of allocation.
    pub id: u32,
    /// Where it lives.
    pub memory: MemorySpace,
    /// Element type it was made with.
    pub dtype: Dtype,
    /// Shape it was made with.
    pub shape: Vec<usize>,
    /// Leading dimensions that number tiles.
    pub blocks: usize,
    /// Name that the kernel gave; may be empty.
    pub name: String,
    /// Line that made it, in the program's table of lines.
    pub source: u32,
}

impl TensorDecl {
    /// Its elements, if a device can hold them.
    ///
    /// # Errors
    /// If it is larger than any device.
    pub fn checked_elements(&self) -> Result<usize, Refusal> {
        let elements = self.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        let fits =
            |&elements: &usize| elements < MAX_ELEMENTS && self.dtype.size_bytes(elements) < MAX_TENSOR_BYTES;
        elements.filter(fits).ok_or_else(|| {
            Refusal::new(
                "neuron/capacity",
                format!("a tensor of shape {:?}", self.shape),
                "tensors that fit into the memory of a device",
                "make it smaller",
            )
        })
    }

    /// Bytes of the whole tensor.
    pub fn size_bytes(&self) -> usize {
        self.dtype.size_bytes(self.shape.iter().product())
    }

    /// Partitions of a tile of it.
    pub fn partitions(&self) -> usize {
        if self.memory.on_chip() { self.shape.get(self.blocks).copied().unwrap_or(1) } else { 1 }
    }

    /// Elements of a partition of a tile of it; of the whole tensor if it is in HBM.
    pub fn free_elements(&self) -> usize {
        let from = if self.memory.on_chip() { self.blocks + 1 } else { 0 };
        self.shape.iter().skip(from).product()
    }

    /// Tiles that the leading dimensions number.
    pub fn tiles(&self) -> usize {
        if self.memory.on_chip() { self.shape.iter().take(self.blocks).product() } else { 1 }
    }

    /// Bytes of a partition that one tile takes.
    pub fn partition_bytes(&self) -> u64 {
        as_u64(self.dtype.size_bytes(self.free_elements()))
    }
}
