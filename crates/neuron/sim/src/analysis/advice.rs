//! What could be gained: for each pattern that costs time, the run is timed again as if it cost nothing more
//! than it must. The difference is an upper bound, since another engine may bind before.

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::chip::bytes_ps;
use tilewright_neuron_isa::program::{DmaShape, EngineKind, Instruction, NeuronProgram};

use crate::schedule::{InstructionWork, StallReason, Timeline, WhatIf, schedule_if};

/// Something to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Short name of the pattern.
    pub name: &'static str,
    /// Line with most of it.
    pub source: u32,
    /// What it is, and what to do.
    pub text: String,
    /// Time that changing it can save at most.
    pub at_most_ps: u64,
}

/// Other costs of an instruction.
type CostOverride<'a> = Box<dyn Fn(&Instruction, InstructionWork) -> InstructionWork + 'a>;

/// A change of costs that stands for a change of the kernel.
struct CostChange<'a> {
    name: &'static str,
    text: &'static str,
    applies: Box<dyn Fn(&Instruction) -> bool + 'a>,
    change: CostOverride<'a>,
}

/// Most instructions of a program that is timed again for each suggestion.
const MAX_INSTRUCTIONS: usize = 200_000;

/// Suggestions that would save at least one part in a hundred, largest bound first.
pub fn advice(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> Vec<Advice> {
    if program.instructions.len() > MAX_INSTRUCTIONS {
        return Vec::new();
    }
    let mut found = Vec::new();
    for change in changes(chip) {
        let Some(source) = costliest_line(program, &*change.applies) else { continue };
        let other = schedule_if(chip, program, WhatIf::default(), &|instruction, work| {
            if (change.applies)(instruction) { (change.change)(instruction, work) } else { work }
        });
        // Another order may take longer in the end: then nothing is gained.
        let at_most_ps = timeline.total_ps.saturating_sub(other.total_ps);
        found.push(Advice { name: change.name, source, text: change.text.to_owned(), at_most_ps });
    }
    if let Some(first) = timeline.spills.first() {
        let other =
            schedule_if(chip, program, WhatIf { no_spills: true, ..WhatIf::default() }, &|_, work| work);
        let storage = first.storage;
        found.push(Advice {
            name: "spills",
            source: program.allocations[storage as usize].source,
            text: "tiles go to HBM and come back: keep fewer bytes live at once".to_owned(),
            at_most_ps: timeline.total_ps.saturating_sub(other.total_ps),
        });
    }
    found.extend(double_buffering(chip, program, timeline));
    found.retain(|advice| is_part(advice.at_most_ps, timeline, 1));
    found.sort_by_key(|advice| (std::cmp::Reverse(advice.at_most_ps), advice.name));
    found
}

/// True if a time is at least so many parts in a hundred of the run.
fn is_part(time_ps: u64, timeline: &Timeline, percent: u128) -> bool {
    u128::from(time_ps) * 100 >= u128::from(timeline.total_ps) * percent && time_ps > 0
}

/// Another buffer for what waits until somebody else is through with one, where that costs more than one
/// part in twenty.
fn double_buffering(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> Option<Advice> {
    const LEAST_PERCENT: u128 = 5;
    let mut lines: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (instruction, span) in program.instructions.iter().zip(&timeline.spans) {
        if let StallReason::Space(user) = span.reason
            && let Some(user) = program.instructions.get(user as usize)
        {
            *lines.entry((instruction.source, user.source)).or_default() += 1;
        }
    }
    let (&(source, user), _) =
        lines.iter().max_by_key(|&(lines, count)| (*count, std::cmp::Reverse(*lines)))?;
    let what_if = WhatIf { own_buffers: true, ..WhatIf::default() };
    let other = schedule_if(chip, program, what_if, &|_, work| work);
    let at_most_ps = timeline.total_ps.saturating_sub(other.total_ps);
    let user = program.source(user);
    let text = format!("waits for the buffer used at {user}: give what is written here two buffers in turn");
    is_part(at_most_ps, timeline, LEAST_PERCENT).then_some(Advice {
        name: "single buffer",
        source,
        text,
        at_most_ps,
    })
}

/// The line with most time in instructions that a change applies to.
fn costliest_line(program: &NeuronProgram, applies: &dyn Fn(&Instruction) -> bool) -> Option<u32> {
    let mut lines: BTreeMap<u32, u64> = BTreeMap::new();
    for instruction in program.instructions.iter().filter(|instruction| applies(instruction)) {
        let time_ps = lines.entry(instruction.source).or_default();
        *time_ps = time_ps.exact_add(instruction.cost.busy_ps);
    }
    lines
        .into_iter()
        .max_by_key(|&(source, time_ps)| (time_ps, std::cmp::Reverse(source)))
        .map(|(source, _)| source)
}

/// True if a transfer moves pieces that are shorter than is efficient.
pub fn small_pieces(chip: &Chip, dma: &DmaShape) -> bool {
    dma.bytes > 0 && dma.bytes / dma.descriptors.max(1) < chip.neuron.dma.small_descriptor_bytes
}

fn changes(chip: &Chip) -> Vec<CostChange<'_>> {
    let dma = &chip.neuron.dma;
    let tensor = &chip.neuron.tensor;
    let faster = |work: InstructionWork, by: u64| {
        let mut work = work;
        work.cost.busy_ps /= by.max(1);
        work
    };
    vec![
        CostChange {
            name: "small descriptors",
            text: "pieces of less than 512 bytes: load rows as they lie and turn or slice the tile on the \
                   chip",
            applies: Box::new(|one| one.dma.as_ref().is_some_and(|dma| small_pieces(chip, dma))),
            change: Box::new(|_, mut work| {
                if let Some(shape) = &mut work.dma {
                    shape.data_ps = bytes_ps(
                        shape.bytes.div_ceil(u64::from(shape.engines.max(1))),
                        dma.achieved_bytes_per_s,
                    );
                }
                work
            }),
        },
        CostChange {
            name: "few DMA engines",
            text: "transfers of few partitions keep most DMA engines idle: spread the tile over 128 \
                   partitions",
            applies: Box::new(|one| {
                one.dma.is_some_and(|shape| {
                    u64::from(shape.engines) < dma.engines_per_core && shape.bytes >= dma.packet_bytes
                })
            }),
            change: Box::new(|_, mut work| {
                if let Some(shape) = &mut work.dma {
                    let all =
                        u32::try_from(dma.engines_per_core).or_broken("more DMA engines than machines have");
                    shape.data_ps = shape.data_ps * u64::from(shape.engines.max(1)) / u64::from(all);
                    shape.engines = all;
                }
                work
            }),
        },
        CostChange {
            name: "FP32 products",
            text: "the tensor engine takes several cycles for a row of FP32: cast the operands to bfloat16",
            applies: Box::new(|one| one.engine == EngineKind::Tensor && one.operand_bits > 16),
            change: Box::new(move |one, work| {
                let by = if one.opcode == "nc_matmul" {
                    tensor.fp32_row_cycles
                } else {
                    tensor.fp32_transpose_row_cycles
                };
                faster(work, by)
            }),
        },
        CostChange {
            name: "small products",
            text: "products that fill only a part of the array: use 128 rows, 128 columns and long moving \
                   tiles",
            applies: Box::new(move |one| one.opcode == "nc_matmul" && fill(chip, one) < 0.9),
            change: Box::new(move |one, mut work| {
                work.cost.busy_ps = scaled(work.cost.busy_ps, fill(chip, one));
                work
            }),
        },
    ]
}

/// Part of the array's multiplications that an instruction uses while it is busy.
fn fill(chip: &Chip, instruction: &Instruction) -> f64 {
    let tensor = &chip.neuron.tensor;
    let factor = if instruction.operand_bits > 16 { tensor.fp32_row_cycles } else { 1 };
    let cycles = instruction.cost.busy_ps as f64 * 1e-12 * tensor.clock_hz as f64;
    let most = cycles * (tensor.rows * tensor.columns) as f64 / factor as f64;
    if most > 0.0 { (instruction.macs as f64 / most).min(1.0) } else { 1.0 }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time times a part of one")]
fn scaled(time_ps: u64, part: f64) -> u64 {
    (time_ps as f64 * part.clamp(0.0, 1.0)) as u64
}

/// Findings about transfers of small pieces, one for each line with many of them.
pub fn slow_transfers(chip: &Chip, program: &NeuronProgram) -> Vec<crate::findings::NeuronFinding> {
    /// Fewer descriptors, or fewer bytes, of a line are not worth a word.
    const MIN_DESCRIPTORS: u64 = 4096;
    const MIN_BYTES: u64 = 65_536;
    let mut lines: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for instruction in &program.instructions {
        if let Some(dma) = instruction.dma.filter(|dma| small_pieces(chip, dma)) {
            let line = lines.entry(instruction.source).or_default();
            *line = (line.0.exact_add(dma.bytes), line.1.exact_add(dma.descriptors));
        }
    }
    let least_bytes = chip.neuron.dma.small_descriptor_bytes;
    lines
        .into_iter()
        .filter(|(_, (bytes, descriptors))| *descriptors >= MIN_DESCRIPTORS && *bytes >= MIN_BYTES)
        .map(|(source, (bytes, descriptors))| crate::findings::NeuronFinding {
            code: "neuron/slow-dma",
            error: false,
            source: program.source(source).to_owned(),
            message: format!(
                "{bytes} bytes in {descriptors} descriptors of {} bytes on average",
                bytes / descriptors.max(1)
            ),
            allowed: format!(
                "any, but descriptors of less than {least_bytes} bytes leave the DMA engines waiting"
            ),
            instead: "move rows as they lie and turn the tile on the chip (nc_transpose, dma_transpose)"
                .to_owned(),
        })
        .collect()
}
