//! The figures of a run that every report begins with.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::chip::ns_ps;
use tilewright_neuron_isa::program::{EngineKind, NeuronProgram};

use super::{Utilisation, bound, matmuls, utilisation};
use crate::schedule::Timeline;

/// What one engine did, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineUse {
    /// Time in which it was busy.
    pub busy_ps: u64,
    /// Instructions that it ran.
    pub instructions: u64,
}

/// Times, bytes and utilisation of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSummary {
    /// From the first start to the last result.
    pub time_ps: u64,
    /// The same with what an execution takes before and after its kernel, as profiles of whole executions
    /// have it.
    pub launch_ps: u64,
    /// What each engine did, in the order of [`EngineKind::ALL`].
    pub engines: [EngineUse; 6],
    /// Bytes that instructions read from HBM.
    pub hbm_read_bytes: u64,
    /// Bytes that instructions wrote to HBM.
    pub hbm_written_bytes: u64,
    /// Bytes that transfers moved.
    pub dma_bytes: u64,
    /// Bytes that spills wrote to HBM.
    pub spill_save_bytes: u64,
    /// Bytes that spills read back.
    pub spill_reload_bytes: u64,
    /// Multiplications with addition on the tensor engine.
    pub macs: u64,
    /// MATMUL instructions as profiles count them.
    pub matmuls: u64,
    /// Floating-point operations of those.
    pub matmul_flops: u64,
    /// Most bytes of an SBUF partition that are live at once.
    pub sbuf_peak_bytes: u64,
    /// Most bytes of a PSUM partition that are live at once, in whole banks.
    pub psum_peak_bytes: u64,
    /// Utilisation as the vendor's profiler defines it.
    pub utilisation: Utilisation,
    /// The engine that is busy longest.
    pub bound_by: EngineKind,
    /// The part of the time that it is.
    pub bound_part: f64,
    /// Cores that ran side by side.
    pub cores: u32,
}

/// What an execution takes around its kernel.
fn launch_overhead_ps(chip: &Chip) -> u64 {
    let launch = &chip.neuron.launch;
    ns_ps(launch.preamble_ns.exact_add(launch.tail_ns).exact_add(launch.calibrated_ns))
}

/// The figures of a scheduled program.
pub fn summary(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> RunSummary {
    let mut engines = timeline.busy_ps.map(|busy_ps| EngineUse { busy_ps, instructions: 0 });
    let ran = program.instructions.iter().filter(|one| !one.merged);
    ran.for_each(|one| engines[one.engine as usize].instructions += 1);
    let (hbm_read_bytes, hbm_written_bytes) = program.hbm_bytes();
    let (spill_save_bytes, spill_reload_bytes) = timeline.spill_bytes();
    let (matmuls, matmul_flops) = matmuls(program);
    let (bound_by, bound_part) = bound(program, timeline);
    RunSummary {
        time_ps: timeline.total_ps,
        launch_ps: timeline.total_ps.exact_add(launch_overhead_ps(chip)),
        engines,
        hbm_read_bytes,
        hbm_written_bytes,
        dma_bytes: program.instructions.iter().filter_map(|one| one.dma).map(|dma| dma.bytes).sum(),
        spill_save_bytes,
        spill_reload_bytes,
        macs: program.instructions.iter().map(|instruction| instruction.macs).sum(),
        matmuls,
        matmul_flops,
        sbuf_peak_bytes: timeline.sbuf_peak_bytes,
        psum_peak_bytes: timeline.psum_peak_bytes,
        utilisation: utilisation(chip, program, timeline),
        bound_by,
        bound_part,
        cores: program.cores.max(1),
    }
}
