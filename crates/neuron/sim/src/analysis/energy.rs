//! Energy of a run from its events and the constants of the machine file, which name their sources; most are
//! assumptions or literature for another chip (docs/hardware-rules.md#energy has the anchors).

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::program::{EngineKind, NeuronProgram, TensorRegion};
use tilewright_neuron_isa::{Chip, MemorySpace};

use crate::schedule::Timeline;

/// Joules of one component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComponentEnergy {
    /// Component.
    pub name: &'static str,
    /// Joules.
    pub joules: f64,
}

/// Energy by component, in a fixed order.
pub fn energy(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> Vec<ComponentEnergy> {
    let costs = &chip.neuron.energy;
    let mut events = EnergyEvents::default();
    for instruction in &program.instructions {
        events.engine_ps[instruction.engine as usize] += u128::from(instruction.cost.busy_ps);
        let macs = u128::from(instruction.macs);
        match instruction.operand_bits {
            _ if instruction.block_scaled => events.macs_mx += macs,
            bits if bits > 16 => events.macs_fp32 += macs,
            bits if bits <= 8 && bits > 0 => events.macs_fp8 += macs,
            _ => events.macs_bf16 += macs,
        }
        for region in instruction.reads.iter().chain(&instruction.writes) {
            events.touch(program, region);
        }
        if let Some(dma) = instruction.dma {
            events.moved_bytes += u128::from(dma.bytes);
            events.descriptors += u128::from(dma.descriptors);
        }
    }
    let (read, written) = program.hbm_bytes();
    let (saved, reloaded) = timeline.spill_bytes();
    let spilled = u128::from(saved) + u128::from(reloaded);
    let hbm_bytes = u128::from(read) + u128::from(written) + spilled;
    events.moved_bytes += spilled;
    events.sbuf_bytes += spilled;
    let lanes = |engine: EngineKind, lanes: u64, clock_hz: u64, pj: f64| {
        let cycles = events.engine_ps[engine as usize] as f64 * 1e-12 * clock_hz as f64;
        cycles * lanes as f64 * pj * 1e-12
    };
    let neuron = &chip.neuron;
    let macs = events.macs_bf16 as f64 * costs.mac_bf16_pj
        + events.macs_fp8 as f64 * costs.mac_fp8_pj
        + events.macs_mx as f64 * costs.mac_mx_pj
        + events.macs_fp32 as f64 * costs.mac_fp32_pj;
    let gpsimd_lanes = neuron.gpsimd.processors * neuron.gpsimd.partitions_per_processor;
    let part = |name, joules| ComponentEnergy { name, joules };
    vec![
        part("tensor", macs * 1e-12),
        part(
            "vector",
            lanes(EngineKind::Vector, neuron.vector.lanes, neuron.vector.clock_hz, costs.vector_lane_pj),
        ),
        part(
            "scalar",
            lanes(EngineKind::Scalar, neuron.scalar.lanes, neuron.scalar.clock_hz, costs.scalar_lane_pj),
        ),
        part("gpsimd", lanes(EngineKind::Gpsimd, gpsimd_lanes, neuron.gpsimd.clock_hz, costs.gpsimd_lane_pj)),
        part("sbuf", events.sbuf_bytes as f64 * costs.sbuf_pj_per_byte * 1e-12),
        part("psum", events.psum_bytes as f64 * costs.psum_pj_per_byte * 1e-12),
        part(
            "dma",
            (events.moved_bytes as f64 * 8.0 * costs.dma_pj_per_bit
                + events.descriptors as f64 * costs.descriptor_pj)
                * 1e-12,
        ),
        part("hbm", hbm_bytes as f64 * 8.0 * costs.hbm_pj_per_bit * 1e-12),
        part("idle", timeline.total_ps as f64 * 1e-12 * costs.core_idle_w * f64::from(program.cores.max(1))),
    ]
}

#[derive(Default)]
struct EnergyEvents {
    engine_ps: [u128; 6],
    macs_bf16: u128,
    macs_fp8: u128,
    macs_mx: u128,
    macs_fp32: u128,
    sbuf_bytes: u128,
    psum_bytes: u128,
    moved_bytes: u128,
    descriptors: u128,
}

impl EnergyEvents {
    /// Bytes of a region; strided ones count what lies between too.
    fn touch(&mut self, program: &NeuronProgram, region: &TensorRegion) {
        let rows = region.rows.1.exact_sub(region.rows.0);
        let bytes = u128::from(rows) * u128::from(region.bytes.1.exact_sub(region.bytes.0));
        match program.allocations.get(region.storage as usize).map(|allocation| allocation.memory) {
            Some(MemorySpace::Sbuf) => self.sbuf_bytes += bytes,
            Some(MemorySpace::Psum) => self.psum_bytes += bytes,
            _ => {}
        }
    }
}
