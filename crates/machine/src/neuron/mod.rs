//! AWS Neuron devices: the sections of their machine files.
//!
//! Terms and figures are those of the AWS Neuron documentation (architecture pages, NKI guides).
//! Cycles are those of the engine's own clock; times that the documentation gives in nanoseconds
//! stay in nanoseconds.

pub(crate) mod derived;
mod device;
mod engines;
mod instance;
mod memory;

pub use device::{Chip, Collectives, Energy, Launch, Link, Sync};
pub use engines::{Gpsimd, Scalar, Tensor, Vector};
pub use instance::{Instance, InstanceError, instances, read_instances};
pub use memory::{Access, Dma, Hbm, Psum, Sbuf};

use crate::architecture::Conflict;
use crate::keys::machine_sections;
use crate::numerics::Numerics;

machine_sections! {
    /// A Neuron device.
    Neuron {
        /// The device as a whole.
        chip: Chip,
        /// Tensor engine of a core.
        tensor: Tensor,
        /// Vector engine of a core.
        vector: Vector,
        /// Scalar engine of a core.
        scalar: Scalar,
        /// General-purpose engine of a core.
        gpsimd: Gpsimd,
        /// Engine access to on-chip memory.
        access: Access,
        /// State buffer of a core.
        sbuf: Sbuf,
        /// Partial-sum buffer of a core.
        psum: Psum,
        /// DMA engines.
        dma: Dma,
        /// Off-chip memory.
        hbm: Hbm,
        /// Semaphores.
        sync: Sync,
        /// Executions around kernels.
        launch: Launch,
        /// Links between devices.
        link: Link,
        /// Collective operations.
        collectives: Collectives,
        /// Energy of events.
        energy: Energy,
        /// Number rules.
        numerics: Numerics,
    }
}

/// Figures that cannot both hold.
pub(crate) fn conflicts(neuron: &Neuron) -> Vec<Conflict> {
    let (tensor, sbuf, gpsimd) = (&neuron.tensor, &neuron.sbuf, &neuron.gpsimd);
    let partitions = sbuf.partitions;
    let rules = [
        Conflict::unless(
            tensor.rows <= partitions && tensor.columns <= partitions,
            "tensor.rows",
            format!(
                "an array of {} x {} is larger than {partitions} partitions",
                tensor.rows, tensor.columns
            ),
            "at most sbuf.partitions rows and columns",
        ),
        Conflict::unless(
            sbuf.reserved_bytes < sbuf.partition_bytes,
            "sbuf.reserved_bytes",
            format!("{} B of {} B are kept by the compiler", sbuf.reserved_bytes, sbuf.partition_bytes),
            "less than sbuf.partition_bytes",
        ),
        Conflict::unless(
            gpsimd.processors * gpsimd.partitions_per_processor == partitions,
            "gpsimd.processors",
            format!(
                "{} processors of {} partitions do not serve {partitions} partitions",
                gpsimd.processors, gpsimd.partitions_per_processor
            ),
            "processors x partitions_per_processor = sbuf.partitions",
        ),
    ];
    rules.into_iter().flatten().collect()
}
