//! How much energy commands take: events of an image, counted, times the machine's figure for each event.
//!
//! Counts are those of all slices of a command. Energy is in whole femtojoules, so that sums do not depend on
//! their order, and every event belongs to exactly one [`Component`]. Only comparisons between programs
//! should be trusted, not watts (`machines/tcp.toml` says which figures are assumptions).

mod exec;
mod live;
mod transfer;

pub use exec::counts;
pub use transfer::counts_transfer;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::capped::{Capped, capped};

/// What energy is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Products and their trees.
    Products,
    /// The contraction engine itself: feed, clock, sequencer.
    Contraction,
    /// Accumulators.
    Accumulators,
    /// Register files of the contraction engine.
    Registers,
    /// Data memory.
    DataMemory,
    /// Fetch network.
    Network,
    /// Vector engine.
    Vector,
    /// Off-chip memory.
    OffChip,
    /// On-chip network.
    Noc,
    /// Links between chips.
    Links,
    /// Clock and leakage of all slices, by time.
    Slices,
    /// Everything outside the slices, by time.
    Uncore,
    /// Off-chip memory that holds its bytes, by time.
    OffChipStandby,
}

/// How many components there are.
pub const COMPONENTS: usize = 13;

impl Component {
    /// All components, in the order of reports.
    pub const ALL: [Component; COMPONENTS] = [
        Component::Products,
        Component::Contraction,
        Component::Accumulators,
        Component::Registers,
        Component::DataMemory,
        Component::Network,
        Component::Vector,
        Component::OffChip,
        Component::Noc,
        Component::Links,
        Component::Slices,
        Component::Uncore,
        Component::OffChipStandby,
    ];

    /// Those that take energy by time, whatever runs.
    pub const STANDING: [Component; 3] = [Component::Slices, Component::Uncore, Component::OffChipStandby];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Component::Products => "products",
            Component::Contraction => "contraction engine",
            Component::Accumulators => "accumulators",
            Component::Registers => "register files",
            Component::DataMemory => "data memory",
            Component::Network => "fetch network",
            Component::Vector => "vector engine",
            Component::OffChip => "off-chip memory",
            Component::Noc => "on-chip network",
            Component::Links => "links between chips",
            Component::Slices => "slices, clock and leakage",
            Component::Uncore => "uncore",
            Component::OffChipStandby => "off-chip memory, standby",
        }
    }
}

/// Events of one command, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyCounts {
    /// Products on active lanes in INT4, padding included.
    pub macs_int4: u64,
    /// Multiply-accumulates in INT8.
    pub macs_int8: u64,
    /// Multiply-accumulates in FP8.
    pub macs_fp8: u64,
    /// Multiply-accumulates in BF16.
    pub macs_bf16: u64,
    /// Products of elements that are no padding, of any type.
    pub macs_useful: u64,
    /// Cycles in which a slice's contraction engine multiplies.
    pub contraction_cycles: u64,
    /// Sums that are read, added to and written back.
    pub accumulator_updates: u64,
    /// Sums that leave at once.
    pub accumulator_passes: u64,
    /// Bytes read from the arrays of register files.
    pub trf_array_bytes: u64,
    /// Bytes answered by their read caches.
    pub trf_cached_bytes: u64,
    /// Bytes written to register files of the contraction engine.
    pub trf_written_bytes: u64,
    /// Bytes read from data memory by fetch units.
    pub fetch_bytes: u64,
    /// Bytes written to data memory by commit units.
    pub commit_bytes: u64,
    /// Bytes read from data memory by DMA.
    pub dm_read_bytes: u64,
    /// Bytes written to data memory by DMA.
    pub dm_written_bytes: u64,
    /// Bytes times slices passed in fetch network and reducer.
    pub hop_bytes: u64,
    /// Bytes that the network sent, each once.
    pub sent_bytes: u64,
    /// Bytes that slices kept of it.
    pub delivered_bytes: u64,
    /// Flits behind collect.
    pub flits: u64,
    /// Integer operations of vector lanes.
    pub vector_int_ops: u64,
    /// Float operations.
    pub vector_float_ops: u64,
    /// Functions: exponentials, roots and the like.
    pub vector_functions: u64,
    /// Bytes of transfers that come from off-chip memory.
    pub hbm_read_bytes: u64,
    /// Bytes of transfers that go there.
    pub hbm_written_bytes: u64,
    /// Bits that its interface moves: whole access units.
    pub hbm_bits: u64,
    /// Bits on the on-chip network.
    pub noc_bits: u64,
    /// Bytes over PCIe.
    pub link_bytes: u64,
}

impl EnergyCounts {
    /// Everything that was counted, by name.
    pub fn named(&self) -> [(&'static str, u64); 27] {
        [
            ("macs_int4", self.macs_int4),
            ("macs_int8", self.macs_int8),
            ("macs_fp8", self.macs_fp8),
            ("macs_bf16", self.macs_bf16),
            ("macs_useful", self.macs_useful),
            ("contraction_cycles", self.contraction_cycles),
            ("accumulator_updates", self.accumulator_updates),
            ("accumulator_passes", self.accumulator_passes),
            ("trf_array_bytes", self.trf_array_bytes),
            ("trf_cached_bytes", self.trf_cached_bytes),
            ("trf_written_bytes", self.trf_written_bytes),
            ("fetch_bytes", self.fetch_bytes),
            ("commit_bytes", self.commit_bytes),
            ("dm_read_bytes", self.dm_read_bytes),
            ("dm_written_bytes", self.dm_written_bytes),
            ("hop_bytes", self.hop_bytes),
            ("sent_bytes", self.sent_bytes),
            ("delivered_bytes", self.delivered_bytes),
            ("flits", self.flits),
            ("vector_int_ops", self.vector_int_ops),
            ("vector_float_ops", self.vector_float_ops),
            ("vector_functions", self.vector_functions),
            ("hbm_read_bytes", self.hbm_read_bytes),
            ("hbm_written_bytes", self.hbm_written_bytes),
            ("hbm_bits", self.hbm_bits),
            ("noc_bits", self.noc_bits),
            ("link_bytes", self.link_bytes),
        ]
    }

    /// Products of all types.
    pub fn macs(&self) -> u64 {
        let wide = self.macs_fp8.capped_add(self.macs_bf16);
        self.macs_int4.capped_add(self.macs_int8).capped_add(wide)
    }

    /// Adds the same events `times` times.
    pub fn add(&mut self, other: &EnergyCounts, times: u64) {
        for (sum, count) in self.fields().into_iter().zip(other.clone().fields()) {
            *sum = sum.capped_add(count.capped_mul(times));
        }
    }

    fn fields(&mut self) -> [&mut u64; 27] {
        [
            &mut self.macs_int4,
            &mut self.macs_int8,
            &mut self.macs_fp8,
            &mut self.macs_bf16,
            &mut self.macs_useful,
            &mut self.contraction_cycles,
            &mut self.accumulator_updates,
            &mut self.accumulator_passes,
            &mut self.trf_array_bytes,
            &mut self.trf_cached_bytes,
            &mut self.trf_written_bytes,
            &mut self.fetch_bytes,
            &mut self.commit_bytes,
            &mut self.dm_read_bytes,
            &mut self.dm_written_bytes,
            &mut self.hop_bytes,
            &mut self.sent_bytes,
            &mut self.delivered_bytes,
            &mut self.flits,
            &mut self.vector_int_ops,
            &mut self.vector_float_ops,
            &mut self.vector_functions,
            &mut self.hbm_read_bytes,
            &mut self.hbm_written_bytes,
            &mut self.hbm_bits,
            &mut self.noc_bits,
            &mut self.link_bytes,
        ]
    }
}

/// Energy of events by component; those that time alone decides are 0.
pub fn energy_fj(machine: &Tcp, counts: &EnergyCounts) -> [u64; COMPONENTS] {
    energy_of_run_fj(machine, counts).map(capped)
}

/// Energy of events by component in femtojoules, wide enough for the sums of a long run.
pub fn energy_of_run_fj(machine: &Tcp, counts: &EnergyCounts) -> [u128; COMPONENTS] {
    let energy = &machine.energy;
    let mut parts = [0_u128; COMPONENTS];
    let mut add = |component: Component, events: u64, each_pj: f64| {
        parts[component as usize] += u128::from(events) * u128::from(femtojoules(each_pj));
    };
    add(Component::Products, counts.macs_int4, energy.mac_int4_pj);
    add(Component::Products, counts.macs_int8, energy.mac_int8_pj);
    add(Component::Products, counts.macs_fp8, energy.mac_fp8_pj);
    add(Component::Products, counts.macs_bf16, energy.mac_bf16_pj);
    add(Component::Contraction, counts.contraction_cycles, energy.ce_active_cycle_pj);
    add(Component::Accumulators, counts.accumulator_updates, energy.accumulator_update_pj);
    add(Component::Accumulators, counts.accumulator_passes, energy.accumulator_pass_pj);
    add(Component::Registers, counts.trf_array_bytes, energy.trf_read_pj_per_byte);
    add(Component::Registers, counts.trf_cached_bytes, energy.trf_hit_pj_per_byte);
    add(Component::Registers, counts.trf_written_bytes, energy.trf_write_pj_per_byte);
    add(Component::DataMemory, counts.fetch_bytes, energy.dm_read_pj_per_byte);
    add(Component::DataMemory, counts.dm_read_bytes, energy.dm_read_pj_per_byte);
    add(Component::DataMemory, counts.commit_bytes, energy.dm_write_pj_per_byte);
    add(Component::DataMemory, counts.dm_written_bytes, energy.dm_write_pj_per_byte);
    add(Component::Network, counts.hop_bytes, energy.network_hop_pj_per_byte);
    add(Component::Vector, counts.vector_int_ops, energy.ve_int32_pj);
    add(Component::Vector, counts.vector_float_ops, energy.ve_fp32_pj);
    add(Component::Vector, counts.vector_functions, energy.ve_exp_pj);
    add(Component::OffChip, counts.hbm_bits, energy.hbm_pj_per_bit);
    add(Component::Noc, counts.noc_bits, energy.noc_pj_per_bit);
    add(Component::Links, counts.link_bytes.capped_mul(8), energy.link_pj_per_bit);
    parts
}

/// What so many chips take for so many cycles whatever runs, in the order of [`Component::STANDING`].
///
/// A slice at work has the same clock and leakage as an idle one, and memory the same standby; what work adds
/// is counted by event.
pub fn standing_fj(machine: &Tcp, chips: u64, cycles: u64) -> [u128; 3] {
    let energy = &machine.energy;
    let memory_w = femtojoules(energy.hbm_stack_standby_w).capped_mul(machine.hbm.stacks);
    let outside =
        [femtojoules(energy.uncore_w), memory_w].map(|milliwatts| fj_per_cycle(machine, milliwatts));
    [slices_fj_per_cycle(machine), outside[0], outside[1]]
        .map(|each| each.capped_mul(u128::from(chips)).capped_mul(u128::from(cycles)))
}

/// Clock and leakage of a chip's slices in one cycle.
fn slices_fj_per_cycle(machine: &Tcp) -> u128 {
    u128::from(machine.slices()) * u128::from(femtojoules(machine.energy.slice_idle_cycle_pj))
}

/// Power as what it takes in one cycle.
fn fj_per_cycle(machine: &Tcp, milliwatts: u64) -> u128 {
    // A watt for a second is 10^15 fJ.
    u128::from(milliwatts) * 1_000_000_000_000 / u128::from(machine.chip.clock_hz.max(1))
}

/// Thousandths, rounded to a whole number; machine files bound what comes in.
fn femtojoules(picojoules: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits first")]
    let whole = (picojoules * 1000.0).round().clamp(0.0, 9e15) as u64;
    whole
}
