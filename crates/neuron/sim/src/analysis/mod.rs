//! What a scheduled run tells: where the time went, utilisation, energy, and what could be gained.
//!
//! - [`mod@summary`]: the figures that every report begins with;
//! - [`critical_path`]: the critical path by line, and why engines were idle;
//! - [`energy`]: joules by component; [`advice`]: what costs most, with an upper bound on the gain of
//!   changing it.

pub mod advice;
pub mod critical_path;
pub mod energy;
pub mod summary;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::program::{EngineKind, NeuronProgram};

use crate::schedule::Timeline;

/// Utilisation as the vendor's profiler defines it, as parts of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilisation {
    /// Multiplications on the tensor engine over its BF16 peak, transposes and broadcasts aside.
    pub mfu: f64,
    /// All multiplications of the tensor engine, transposes and broadcasts included, over its BF16 peak.
    pub hfu: f64,
    /// Bytes of HBM over the rate of one stack.
    pub mbu: f64,
}

/// Utilisation of a run.
pub fn utilisation(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> Utilisation {
    let seconds = timeline.total_ps as f64 * 1e-12;
    if seconds <= 0.0 {
        return Utilisation::default();
    }
    let tensor = &chip.neuron.tensor;
    let cores = f64::from(program.cores.max(1));
    let peak = (tensor.rows * tensor.columns) as f64 * tensor.clock_hz as f64 * seconds * cores;
    let (mut useful, mut all) = (0_u64, 0_u64);
    for instruction in &program.instructions {
        all = all.exact_add(instruction.macs);
        if instruction.opcode == "nc_matmul_mx" || instruction.full_rows {
            useful = useful.exact_add(instruction.macs);
        }
    }
    let (read, written) = program.hbm_bytes();
    let (saved, reloaded) = timeline.spill_bytes();
    let moved = read.exact_add(written).exact_add(saved).exact_add(reloaded);
    Utilisation {
        mfu: useful as f64 / peak,
        hfu: all as f64 / peak,
        mbu: moved as f64 / seconds / chip.neuron.hbm.stack_bytes_per_s as f64,
    }
}

/// What profiles count of the tensor engine: MATMUL instructions, and their floating-point operations,
/// transposes and broadcasts included. Each pass of an FP32 product is an instruction of its own, with all
/// operations of the product.
pub fn matmuls(program: &NeuronProgram) -> (u64, u64) {
    let ran = program.instructions.iter().filter(|one| !one.merged && one.macs > 0);
    ran.fold((0, 0), |(count, flops), one| {
        let passes = u64::from(one.passes);
        (count + passes, one.macs.exact_mul(2 * passes).exact_add(flops))
    })
}

/// What a run is bound by: the engine that is busy longest, and the part of the time that it is.
pub fn bound(program: &NeuronProgram, timeline: &Timeline) -> (EngineKind, f64) {
    let cores = u128::from(program.cores.max(1));
    let busiest = EngineKind::ALL.into_iter().max_by_key(|engine| timeline.busy_ps[*engine as usize]);
    let engine = busiest.or_broken("a chip without engines");
    let total = u128::from(timeline.total_ps) * cores;
    (engine, timeline.busy_ps[engine as usize] as f64 / total.max(1) as f64)
}
