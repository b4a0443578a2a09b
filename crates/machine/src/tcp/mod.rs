//! Tensor contraction processors: the sections of their machine files.
//!
//! Terms and organisation are those of the ISCA 2024 paper on TCP; where it is silent, those of
//! the public vISA book. A cluster is the largest group of processing elements that can be fused.

pub(crate) mod derived;
mod energy;
mod hierarchy;
mod memory;
mod slice;
mod system;

pub use energy::Energy;
pub use hierarchy::{Chip, Command, Cpu, Pe, Queue};
pub use memory::{Dm, Dmn, Trf, Vrf};
pub use slice::{Commit, Contraction, Fetch, Network, Sequencer, Transpose, Vector};
pub use system::{Hbm, Noc, Pcie, Tdma};

use crate::architecture::Conflict;
use crate::keys::machine_sections;
use crate::numerics::Numerics;

machine_sections! {
    /// A tensor contraction processor.
    Tcp {
        /// The chip as a whole.
        chip: Chip,
        /// A processing element.
        pe: Pe,
        /// The control processor of a processing element.
        cpu: Cpu,
        /// The command queue of a tensor unit.
        queue: Queue,
        /// Fixed costs of commands.
        command: Command,
        /// Data memory of a slice.
        dm: Dm,
        /// Data memory network.
        dmn: Dmn,
        /// Fetch units.
        fetch: Fetch,
        /// Loop sequencers.
        sequencer: Sequencer,
        /// Fetch network.
        network: Network,
        /// Contraction engine.
        ce: Contraction,
        /// Register file of the contraction engine.
        trf: Trf,
        /// Vector engine.
        ve: Vector,
        /// Register file of the vector engine.
        vrf: Vrf,
        /// Transpose engine.
        transpose: Transpose,
        /// Commit units.
        commit: Commit,
        /// Tensor DMA engines.
        tdma: Tdma,
        /// Off-chip memory.
        hbm: Hbm,
        /// On-chip network between processing elements and memory.
        noc: Noc,
        /// Host and peer links.
        pcie: Pcie,
        /// Energy per event.
        energy: Energy,
        /// Number rules.
        numerics: Numerics,
    }
}

/// Figures that cannot both hold.
pub(crate) fn conflicts(tcp: &Tcp) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    let row_bytes = tcp.dm.banks * tcp.dm.bank_access_bytes;
    if !tcp.dm.capacity_bytes.is_multiple_of(row_bytes) {
        conflicts.push(Conflict {
            path: "dm.capacity_bytes",
            message: format!(
                "`dm.capacity_bytes` {} is no multiple of one row of all banks, {row_bytes} B",
                tcp.dm.capacity_bytes
            ),
            allowed: "a multiple of dm.banks x dm.bank_access_bytes".to_owned(),
        });
    }
    if !tcp.pe.slices.is_multiple_of(tcp.pe.dmns) {
        conflicts.push(Conflict {
            path: "pe.slices",
            message: format!(
                "{} slices cannot be shared by {} data memory networks",
                tcp.pe.slices, tcp.pe.dmns
            ),
            allowed: "a multiple of pe.dmns".to_owned(),
        });
    }
    if !tcp.pe.slices.is_power_of_two() {
        conflicts.push(Conflict {
            path: "pe.slices",
            message: format!("{} slices cannot be cut into rings of powers of two", tcp.pe.slices),
            allowed: "a power of two".to_owned(),
        });
    }
    if let Some(fused) =
        tcp.chip.fused_pes.iter().find(|&&fused| !tcp.chip.pes_per_cluster.is_multiple_of(fused))
    {
        conflicts.push(Conflict {
            path: "chip.fused_pes",
            message: format!(
                "{} PEs of a cluster cannot be fused {fused} at a time",
                tcp.chip.pes_per_cluster
            ),
            allowed: "divisors of chip.pes_per_cluster".to_owned(),
        });
    }
    conflicts
}
