//! FP32 products: from NeuronCore-v3 on published times of kernels of the first dialect are those of one pass
//! over the rows, not of the two that profiles of the second dialect show
//! (docs/hardware-rules.md#tensor-engine).

use tilewright_base::invariant::OrBroken;
use tilewright_neuron_isa::{Chip, NeuronProgram};

pub(super) fn run(chip: &Chip, program: &mut NeuronProgram) {
    let tensor = &chip.neuron.tensor;
    if tensor.fp32_compiled_row_cycles >= tensor.fp32_row_cycles {
        return;
    }
    for instruction in &mut program.instructions {
        if instruction.opcode == "nc_matmul" && instruction.operand_bits == 32 && instruction.full_rows {
            let busy_ps = u128::from(instruction.cost.busy_ps) * u128::from(tensor.fp32_compiled_row_cycles);
            let busy_ps = u64::try_from(busy_ps / u128::from(tensor.fp32_row_cycles));
            instruction.cost.busy_ps = busy_ps.or_broken("fewer passes that take longer");
            instruction.passes = 1;
        }
    }
}
