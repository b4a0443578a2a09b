//! Rows sharded over the slices of a PE: the layout of layers that work element by element.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::builder::{KernelBuilder, TensorSpec};
use super::pass::ElementRun;
use super::{KernelError, multiple};

/// `tokens` rows of `width`, neighbouring rows in the same slice.
pub(super) struct RowLayout {
    axes: [(&'static str, u64); 2],
    shape: String,
    /// Elements of a slice.
    elements: u64,
}

impl RowLayout {
    pub(super) fn new(machine: &Tcp, tokens: u64, width: u64) -> Result<RowLayout, KernelError> {
        let slices = machine.pe.slices;
        multiple("tokens", tokens, slices, "a multiple of the slices of a PE")?;
        multiple("width", width, FLIT_WORDS, "a multiple of 8")?;
        let rows = tokens / slices;
        let shape = format!("T^{{{rows}}}[{slices}] | T^1[{rows}] E^1[{width}]");
        let elements = rows.capped_mul(width);
        Ok(RowLayout { axes: [("T", tokens), ("E", width)], shape, elements })
    }

    pub(super) fn input(
        &self,
        builder: &mut KernelBuilder<'_>,
        name: &str,
        dtype: Dtype,
        seed: u64,
    ) -> Result<ElementRun, KernelError> {
        let base = builder.input(&self.named(name, dtype), TensorData::Random(seed))?;
        Ok(ElementRun { dtype, base, elements: self.elements })
    }

    pub(super) fn output(
        &self,
        builder: &mut KernelBuilder<'_>,
        name: &str,
        dtype: Dtype,
    ) -> Result<u64, KernelError> {
        builder.output(&self.named(name, dtype))
    }

    fn named<'a>(&'a self, name: &'a str, dtype: Dtype) -> TensorSpec<'a> {
        TensorSpec { name, dtype, axes: &self.axes, shape: &self.shape }
    }
}
