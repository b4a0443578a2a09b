//! What is explored on a NeuronCore: an einsum of two inputs as one matmul for each batch position, on one
//! core.

use tilewright_base::Diagnostic;
use tilewright_neuron_isa::Chip;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{Operand, Program};
use tilewright_num::Dtype;

use crate::axes::{AxisClass, ExploreAxis, products, sorted};
use crate::cost_math::CostMath;

/// Most elements of one tensor: what the engine takes.
const MOST_ELEMENTS: u64 = 1 << 32;

/// An einsum on a chip.
#[derive(Clone, Debug)]
pub struct NeuronTask<'m> {
    /// The chip.
    pub chip: &'m Chip,
    /// Element type of the inputs.
    pub dtype: Dtype,
    /// Axes in the order in which the einsum names them.
    pub axes: Vec<ExploreAxis>,
    /// The einsum and its sizes as written.
    pub program: Program,
    /// Batch positions, one matmul each.
    pub batch: u64,
    /// Positions of in0 alone, of in1 alone, and of the sum.
    pub sizes: [u64; 3],
}

impl<'m> NeuronTask<'m> {
    /// Element types that the tensor engine multiplies.
    pub const MULTIPLIED: [Dtype; 5] = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F8E4M3, Dtype::F8E5M2];

    /// Sorts the axes of an einsum.
    ///
    /// # Errors
    /// Einsums that are no contraction of two inputs, types that the tensor engine does not multiply, tensors
    /// larger than a device.
    pub fn new(
        chip: &'m Chip,
        dtype: Dtype,
        program: &Program,
        problem: &Problem,
    ) -> Result<NeuronTask<'m>, Box<Diagnostic>> {
        let axes = sorted(problem)?;
        if !NeuronTask::MULTIPLIED.contains(&dtype) {
            let allowed: Vec<&str> = NeuronTask::MULTIPLIED.iter().map(|dtype| dtype.name()).collect();
            return Err(Box::new(
                Diagnostic::error(
                    "explore/dtype",
                    format!("the tensor engine does not multiply `{}`", dtype.name()),
                )
                .allowed(allowed.join(", "))
                .instead("--dtype bf16"),
            ));
        }
        let of = |class: AxisClass| {
            axes.iter()
                .filter(|axis| axis.class == class)
                .fold(1_u64, |all, axis| all.times_cost(axis.extent))
        };
        let batch = of(AxisClass::Batch);
        let sizes = [of(AxisClass::Free0), of(AxisClass::Free1), of(AxisClass::Contracted)];
        let [m, n, k] = sizes;
        for (name, rows, columns) in [("in0", k, m), ("in1", k, n), ("the output", m, n)] {
            let elements = batch.times_cost(rows).times_cost(columns);
            if elements >= MOST_ELEMENTS {
                return Err(Box::new(
                    Diagnostic::error("explore/size", format!("{name} has {elements} elements"))
                        .at(problem.span, "")
                        .allowed(format!("fewer than {MOST_ELEMENTS} elements in a tensor"))
                        .instead("an axis split over cores, such as N_8"),
                ));
            }
        }
        let program =
            Program { in0: None, in1: None, out: None, tactic: None, stationary: None, ..program.clone() };
        Ok(NeuronTask { chip, dtype, axes, program, batch, sizes })
    }

    /// Element type of results: that of the inputs, but at least 16 bits wide.
    pub fn out_dtype(&self) -> Dtype {
        if self.dtype.storage_bits() < 16 { Dtype::Bf16 } else { self.dtype }
    }

    /// Bytes of an element of the inputs, and of the output.
    pub fn element_bytes(&self) -> (u64, u64) {
        (u64::from(self.dtype.storage_bits() / 8), u64::from(self.out_dtype().storage_bits() / 8))
    }

    /// Positions of the stationary operand's own axes, of the moving one's, and of the sum.
    pub fn extents(&self, stationary: Operand) -> [u64; 3] {
        let [m, n, k] = self.sizes;
        if stationary == Operand::In0 { [m, n, k] } else { [n, m, k] }
    }

    /// Products that the einsum asks for.
    pub fn macs(&self) -> u128 {
        products(&self.axes)
    }

    /// Names of the axes of a class, joined.
    pub fn names(&self, class: AxisClass) -> String {
        self.axes.iter().filter(|axis| axis.class == class).map(|axis| axis.name.to_string()).collect()
    }
}
