//! One run of a graph with open sizes: arrays of any size up to the bounds as words at the bounds, and
//! results without their padding.

use tilewright_graph::{AxisSizes, BuildResult, OpenSizes};
use tilewright_reference::Tensor;

use super::interface::Port;
use super::tensors;

/// The sizes of a run, as its arrays have them.
#[derive(Clone, Debug)]
pub struct RunSizes<'g> {
    open: &'g OpenSizes,
    now: AxisSizes,
}

impl<'g> RunSizes<'g> {
    /// Sizes of a run with these arrays, which are found by name.
    ///
    /// # Errors
    /// `graph/bounds`, for arrays that do not fit.
    pub fn new<'t>(
        open: &'g OpenSizes,
        array: &dyn Fn(&str) -> Option<&'t Tensor>,
    ) -> BuildResult<RunSizes<'g>> {
        let shape = |name: &str| -> Vec<u64> {
            array(name).map_or_else(Vec::new, |tensor| tensor.dims.iter().map(|dim| *dim as u64).collect())
        };
        let shapes: Vec<Vec<u64>> = open.inputs.iter().map(|input| shape(&input.name)).collect();
        let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
        Ok(RunSizes { open, now: open.axis_sizes(&shapes)? })
    }

    /// The words of an input that is a run-time size; `None` if it is an array.
    pub fn size_words(&self, port: &Port) -> Option<Vec<u32>> {
        let input = self.open.sizes.iter().find(|input| input.name == port.name)?;
        let size = i32::try_from(self.open.size(input, &self.now)?).ok()?;
        Some(vec![size.cast_unsigned()])
    }

    /// Words of an array, with zeros behind its elements.
    pub fn padded(&self, port: &Port, words: Vec<u32>) -> Vec<u32> {
        let input = self.open.inputs.iter().find(|input| input.name == port.name);
        let padded = input.and_then(|input| self.open.padded(input, &self.now, &words, 0));
        padded.unwrap_or(words)
    }

    /// A result, by its number, without padding.
    pub fn result(&self, number: usize, port: &Port, words: &[u32]) -> Tensor {
        let cropped = self.open.outputs.get(number).and_then(|output| {
            let shape = self.open.shape(output, &self.now)?;
            Some(tensors::tensor(port.dtype, &shape, &self.open.cropped(output, &self.now, words)?))
        });
        cropped.unwrap_or_else(|| tensors::tensor(port.dtype, &port.dims, words))
    }
}
