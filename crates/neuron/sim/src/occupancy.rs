//! What memories hold and what the chip draws over time, from when instructions ran: counters of traces.
//!
//! A tile is live from the start of the first instruction that touches it to when the last one is done. HBM
//! and power are sums over instructions under way. Power spreads the joules of each component over what
//! causes them: products over multiplications, lanes over the time of their engine, transfers over their
//! bytes, and accesses to SBUF and PSUM over the time of all engines.

use std::collections::BTreeMap;

use tilewright_neuron_isa::{Chip, EngineKind, Instruction, MemorySpace, NeuronProgram};

use crate::analysis::energy::energy;
use crate::schedule::{TimeSpan, Timeline};

/// Values of a counter from times on.
pub type CounterSteps = Vec<(u64, u64)>;

/// Instructions that ran, with when.
fn ran<'p>(
    program: &'p NeuronProgram,
    timeline: &'p Timeline,
) -> impl Iterator<Item = (&'p Instruction, &'p TimeSpan)> {
    program.instructions.iter().zip(&timeline.spans).filter(|(one, _)| !one.merged)
}

/// Bytes of a partition of a core's memory that are live.
pub fn live_bytes(
    program: &NeuronProgram,
    timeline: &Timeline,
    memory: MemorySpace,
    core: u32,
) -> CounterSteps {
    let mut lives: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (instruction, span) in ran(program, timeline).filter(|(one, _)| program.core(one) == core) {
        for region in instruction.reads.iter().chain(&instruction.writes) {
            let life = lives.entry((region.storage, region.tile)).or_insert((span.start_ps, span.done_ps));
            *life = (life.0.min(span.start_ps), life.1.max(span.done_ps));
        }
    }
    let mut changes = Vec::new();
    for ((storage, _), (start_ps, end_ps)) in lives {
        let held = program.allocations.get(storage as usize).filter(|one| one.memory == memory);
        if let Some(allocation) = held {
            changes.push((start_ps, i128::from(allocation.partition_bytes)));
            changes.push((end_ps, -i128::from(allocation.partition_bytes)));
        }
    }
    steps(changes, 1)
}

/// Bytes that HBM moves in a microsecond.
pub fn hbm_bytes_per_us(program: &NeuronProgram, timeline: &Timeline) -> CounterSteps {
    let rate = |bytes: u64, span: &TimeSpan| {
        let long = span.end_ps.saturating_sub(span.start_ps).max(1);
        (span.start_ps, span.end_ps, i128::from(bytes) * 1_000_000_000 / i128::from(long))
    };
    let moved = ran(program, timeline)
        .map(|(one, span)| rate(one.hbm_read_bytes.saturating_add(one.hbm_written_bytes), span));
    let spilled = timeline.spills.iter().map(|spill| rate(spill.bytes, &spill.span));
    let busy = moved.chain(spilled).filter(|(_, _, rate)| *rate > 0);
    steps(busy.flat_map(|(start, end, rate)| [(start, rate), (end, -rate)]).collect(), 1000)
}

/// Joules of an instruction, which are spread evenly over its time.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionEnergy {
    /// When it begins.
    pub start_ps: u64,
    /// When it ends.
    pub end_ps: u64,
    /// Joules by component, none of them zero.
    pub joules: Vec<(&'static str, f64)>,
}

/// Joules of components by what causes them; those of idle cores are nobody's.
pub fn instruction_energies(
    chip: &Chip,
    program: &NeuronProgram,
    timeline: &Timeline,
) -> Vec<InstructionEnergy> {
    let all: BTreeMap<&str, f64> =
        energy(chip, program, timeline).into_iter().map(|part| (part.name, part.joules)).collect();
    let mut weights = PowerWeights::default();
    ran(program, timeline).for_each(|(one, span)| weights.add(one, span));
    let each = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let of_instruction = |(one, span): (&Instruction, &TimeSpan)| {
        let busy = real(span.end_ps.saturating_sub(span.start_ps));
        let of_engine = each(busy, weights.busy[one.engine as usize]);
        let lanes = match one.engine {
            EngineKind::Tensor => Some(("tensor", each(real(one.macs), weights.macs))),
            EngineKind::Vector => Some(("vector", of_engine)),
            EngineKind::Scalar => Some(("scalar", of_engine)),
            EngineKind::Gpsimd => Some(("gpsimd", of_engine)),
            _ => None,
        };
        let moved = each(one.dma.map_or(0.0, |dma| real(dma.bytes)), weights.moved);
        let touched = each(busy, weights.all);
        let others = [("dma", moved), ("hbm", moved), ("sbuf", touched), ("psum", touched)];
        let parts = lanes.into_iter().chain(others);
        let joules = parts.map(|(name, part)| (name, all.get(name).copied().unwrap_or_default() * part));
        let joules = joules.filter(|(_, joules)| *joules > 0.0).collect();
        InstructionEnergy { start_ps: span.start_ps, end_ps: span.end_ps, joules }
    };
    ran(program, timeline).map(of_instruction).collect()
}

/// Milliwatts that the cores and their HBM draw.
pub fn milliwatts(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> CounterSteps {
    let mut changes = Vec::new();
    for one in instruction_energies(chip, program, timeline) {
        let long_ps = one.end_ps.saturating_sub(one.start_ps);
        let joules: f64 = one.joules.iter().map(|(_, joules)| joules).sum();
        // 10^18 femtowatts and more fit 127 bits; a thousandth of a milliwatt is kept until the sum.
        #[expect(clippy::cast_possible_truncation, reason = "floats saturate")]
        let microwatts = (joules * 1e18 / real(long_ps).max(1.0)) as i128;
        if long_ps > 0 && microwatts > 0 {
            changes.push((one.start_ps, microwatts));
            changes.push((one.end_ps, -microwatts));
        }
    }
    let idle = energy(chip, program, timeline).into_iter().find(|part| part.name == "idle");
    let total = real(timeline.total_ps) * 1e-12;
    #[expect(clippy::cast_possible_truncation, reason = "floats saturate")]
    let idle = if total > 0.0 { (idle.map_or(0.0, |part| part.joules) / total * 1e6) as i128 } else { 0 };
    changes.push((0, idle));
    steps(changes, 1000)
}

/// What the joules of components are spread over.
#[derive(Default)]
struct PowerWeights {
    macs: f64,
    moved: f64,
    busy: [f64; 6],
    all: f64,
}

impl PowerWeights {
    fn add(&mut self, one: &Instruction, span: &TimeSpan) {
        let busy = real(span.end_ps.saturating_sub(span.start_ps));
        self.macs += real(one.macs);
        self.moved += one.dma.map_or(0.0, |dma| real(dma.bytes));
        self.busy[one.engine as usize] += busy;
        self.all += busy;
    }
}

/// Sums of changes from each time on, divided; times whose sum stays are left out.
pub fn steps(mut changes: Vec<(u64, i128)>, divided_by: i128) -> CounterSteps {
    changes.sort_unstable();
    let mut steps: CounterSteps = Vec::new();
    let mut sum = 0_i128;
    for at in 0..changes.len() {
        let (time_ps, change) = changes[at];
        sum = sum.saturating_add(change);
        if changes.get(at + 1).is_some_and(|next| next.0 == time_ps) {
            continue;
        }
        let value = u64::try_from(sum.max(0) / divided_by).unwrap_or(u64::MAX);
        if steps.last().map_or(value != 0, |last| last.1 != value) {
            steps.push((time_ps, value));
        }
    }
    steps
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn real(value: u64) -> f64 {
    value as f64
}
