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
pub use hierarchy::{Chip, Command, Cpu, Host, Pe, Queue};
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
        /// The host that starts passes of a model.
        host: Host,
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
    let row_bytes = tcp.dm.banks * tcp.dm.bank_access_bytes;
    let (capacity, slices, dmns) = (tcp.dm.capacity_bytes, tcp.pe.slices, tcp.pe.dmns);
    let pes = tcp.chip.pes_per_cluster;
    let unfusable = tcp.chip.fused_pes.iter().find(|&&fused| !pes.is_multiple_of(fused));
    let rules = [
        Conflict::unless(
            capacity.is_multiple_of(row_bytes),
            "dm.capacity_bytes",
            format!("`dm.capacity_bytes` {capacity} is no multiple of one row of all banks, {row_bytes} B"),
            "a multiple of dm.banks x dm.bank_access_bytes",
        ),
        Conflict::unless(
            slices.is_multiple_of(dmns),
            "pe.slices",
            format!("{slices} slices cannot be shared by {dmns} data memory networks"),
            "a multiple of pe.dmns",
        ),
        Conflict::unless(
            slices.is_power_of_two(),
            "pe.slices",
            format!("{slices} slices cannot be cut into rings of powers of two"),
            "a power of two",
        ),
        Conflict::unless(
            tcp.ce.lanes.is_power_of_two(),
            "ce.lanes",
            format!("{} lanes cannot be used 1, 2, 4, ... at a time", tcp.ce.lanes),
            "a power of two",
        ),
        Conflict::unless(
            unfusable.is_none(),
            "chip.fused_pes",
            format!("{pes} PEs of a cluster cannot be fused {} at a time", unfusable.unwrap_or(&0)),
            "divisors of chip.pes_per_cluster",
        ),
    ];
    rules.into_iter().flatten().chain(unreachable(&tcp.hbm)).collect()
}

/// Parts of off-chip memory that have too few address bits.
fn unreachable(hbm: &Hbm) -> impl Iterator<Item = Conflict> {
    let parts = [
        ("stacks", "hbm.stack_bit_positions", hbm.stacks, hbm.stack_bit_positions.len()),
        ("channels", "hbm.channel_bit_positions", hbm.channels_per_stack, hbm.channel_bit_positions.len()),
        ("bank groups", "hbm.bank_group_bit_positions", hbm.bank_groups, hbm.bank_group_bit_positions.len()),
        ("banks", "hbm.bank_bit_positions", hbm.banks_per_group, hbm.bank_bit_positions.len()),
        ("ranks", "hbm.rank_bit_positions", hbm.ranks, hbm.rank_bit_positions.len()),
        ("rows", "hbm.row_bit_positions", hbm.rows_per_bank, hbm.row_bit_positions.len()),
    ];
    parts.into_iter().filter_map(|(what, path, count, bits)| {
        Conflict::unless(
            bits >= 64 || count <= 1 << bits,
            path,
            format!("{count} {what} cannot be told apart by {bits} address bits"),
            "as many positions as the binary digits of the highest number",
        )
    })
}
