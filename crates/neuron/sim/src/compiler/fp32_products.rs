//! FP32 products: from NeuronCore-v3 on published times of kernels of the first dialect are those of one pass
//! over the rows, not of the two that profiles of the second dialect show
//! (docs/hardware-rules.md#tensor-engine).

use tilewright_neuron_isa::{Chip, NeuronProgram};

pub(super) fn run(chip: &Chip, program: &mut NeuronProgram) {
    let tensor = &chip.neuron.tensor;
    if tensor.fp32_compiled_row_cycles >= tensor.fp32_row_cycles {
        return;
    }
    for instruction in &mut program.instructions {
        if instruction.opcode == "nc_matmul" && instruction.operand_bits == 32 && instruction.full_rows {
            let busy_ps = instruction.cost.busy_ps.saturating_mul(tensor.fp32_compiled_row_cycles);
            instruction.cost.busy_ps = busy_ps / tensor.fp32_row_cycles.max(1);
            instruction.passes = 1;
        }
    }
}
