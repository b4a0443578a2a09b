//! AWS Neuron devices: the sections of their machine files.
//!
//! Terms and figures are those of the AWS Neuron documentation (architecture pages, NKI guides).
//! Cycles are those of the engine's own clock; times that the documentation gives in nanoseconds
//! stay in nanoseconds.

pub(crate) mod derived;
mod device;
mod engines;
mod memory;

pub use device::{Chip, Collectives, Link, Sync};
pub use engines::{Gpsimd, Scalar, Tensor, Vector};
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
        /// Semaphores and launches.
        sync: Sync,
        /// Links between devices.
        link: Link,
        /// Collective operations.
        collectives: Collectives,
        /// Number rules.
        numerics: Numerics,
    }
}

/// Figures that cannot both hold.
pub(crate) fn conflicts(neuron: &Neuron) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    let partitions = neuron.sbuf.partitions;
    if neuron.tensor.rows > partitions || neuron.tensor.columns > partitions {
        conflicts.push(Conflict {
            path: "tensor.rows",
            message: format!(
                "a tensor engine of {} x {} is larger than {partitions} partitions",
                neuron.tensor.rows, neuron.tensor.columns
            ),
            allowed: "at most sbuf.partitions rows and columns".to_owned(),
        });
    }
    if neuron.sbuf.partition_bytes > neuron.sbuf.partition_stride_bytes {
        conflicts.push(Conflict {
            path: "sbuf.partition_bytes",
            message: format!(
                "partitions of {} B overlap at a stride of {} B",
                neuron.sbuf.partition_bytes, neuron.sbuf.partition_stride_bytes
            ),
            allowed: "at most sbuf.partition_stride_bytes".to_owned(),
        });
    }
    if neuron.sbuf.reserved_bytes >= neuron.sbuf.partition_bytes {
        conflicts.push(Conflict {
            path: "sbuf.reserved_bytes",
            message: format!(
                "{} B of {} B are kept by the compiler",
                neuron.sbuf.reserved_bytes, neuron.sbuf.partition_bytes
            ),
            allowed: "less than sbuf.partition_bytes".to_owned(),
        });
    }
    if neuron.gpsimd.processors * neuron.gpsimd.partitions_per_processor != partitions {
        conflicts.push(Conflict {
            path: "gpsimd.processors",
            message: format!(
                "{} processors of {} partitions do not serve {partitions} partitions",
                neuron.gpsimd.processors, neuron.gpsimd.partitions_per_processor
            ),
            allowed: "processors x partitions_per_processor = sbuf.partitions".to_owned(),
        });
    }
    conflicts
}
