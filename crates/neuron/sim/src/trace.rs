//! The timeline as a Perfetto trace: a track for each engine of each core, arrows from what an instruction
//! waited for, spills, counters of memories, HBM and power, and energy by component.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use tilewright_neuron_isa::{Chip, EngineKind, Instruction, MemorySpace, NeuronProgram};
use tilewright_record::{
    CounterId, FlowId, Interval, KeepAll, Layout, Record, RecordError, Recorder, Sample, TrackId, TrackKind,
    Unit, perfetto,
};

use crate::analysis::energy::energy;
use crate::occupancy::{CounterSteps, hbm_bytes_per_us, live_bytes, milliwatts};
use crate::schedule::{StallReason, TimeSpan, Timeline};

/// Picoseconds are the cycles of the record.
const CLOCK_HZ: NonZeroU64 = NonZeroU64::new(1_000_000_000_000).unwrap();

/// A trace of a run.
///
/// # Errors
/// If the record of the run is not consistent.
pub fn perfetto_bytes(
    chip: &Chip,
    program: &NeuronProgram,
    timeline: &Timeline,
) -> Result<Vec<u8>, RecordError> {
    let mut bytes = Vec::new();
    perfetto::write(&record(chip, program, timeline)?, &mut bytes)?;
    Ok(bytes)
}

/// What a run left behind: one cycle of the record is a picosecond.
///
/// # Errors
/// If the record of the run is not consistent.
pub fn record(chip: &Chip, program: &NeuronProgram, timeline: &Timeline) -> Result<Record, RecordError> {
    let mut layout = Layout::new(CLOCK_HZ);
    let root = layout.add_track(None, TrackKind::Chip, chip.name.as_str());
    let (mut tracks, mut cores): (Vec<[TrackId; 6]>, Vec<TrackId>) = (Vec::new(), Vec::new());
    for core in 0..program.cores.max(1) {
        let core = layout.add_track(Some(root), TrackKind::Core, format!("core{core}"));
        cores.push(core);
        tracks.push(EngineKind::ALL.map(|engine| {
            let kind = if engine == EngineKind::Dma { TrackKind::Dma } else { TrackKind::Engine };
            layout.add_track(Some(core), kind, engine.name())
        }));
    }
    let spills = layout.add_track(Some(root), TrackKind::Dma, "spills");
    let counters = add_counters(&mut layout, root, &cores, (chip, program, timeline));
    let parts: Vec<_> = energy(chip, program, timeline)
        .into_iter()
        .map(|part| (layout.add_component(part.name), part.joules))
        .collect();
    let mut recorder = Recorder::new(layout, KeepAll::default())?;
    let lines: Vec<Arc<str>> = program.sources.iter().map(|line| Arc::from(line.as_str())).collect();
    let names: BTreeMap<&str, Arc<str>> =
        program.instructions.iter().map(|one| (one.opcode, Arc::from(one.opcode))).collect();
    let signals = signals(program, timeline);
    for (number, (instruction, span)) in (0_u32..).zip(program.instructions.iter().zip(&timeline.spans)) {
        if instruction.merged {
            continue;
        }
        let track = tracks[program.core(instruction) as usize][instruction.engine as usize];
        let name = Arc::clone(&names[instruction.opcode]);
        let mut interval = Interval::new(track, name, span.start_ps, span.end_ps);
        interval.source = lines.get(instruction.source as usize).cloned();
        if let Some(dma) = instruction.dma {
            interval = interval.with_count("bytes", dma.bytes).with_count("descriptors", dma.descriptors);
        }
        if instruction.macs > 0 {
            interval = interval.with_count("macs", instruction.macs);
        }
        if waited(program, instruction, span).is_some() {
            interval.waits.push(FlowId(u64::from(number)));
        }
        let later = signals.get(&number).map(Vec::as_slice).unwrap_or_default();
        interval.signals.extend(later.iter().map(|&later| FlowId(u64::from(later))));
        recorder.interval(interval)?;
    }
    for spill in timeline.spills.iter().filter(|spill| spill.bytes > 0) {
        let name = if spill.saves { "spill" } else { "reload" };
        let interval = Interval::new(spills, name, spill.span.start_ps, spill.span.end_ps);
        recorder.interval(interval.with_count("bytes", spill.bytes))?;
    }
    for (counter, steps) in counters {
        for (at_cycles, value) in steps {
            recorder.sample(Sample { counter, at_cycles, value })?;
        }
    }
    for (component, joules) in parts {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floats saturate")]
        recorder.energy(component, (joules * 1e15) as u64)?;
    }
    recorder.finish()
}

/// Counters of memories, HBM and power, with their values over time.
fn add_counters(
    layout: &mut Layout,
    root: TrackId,
    cores: &[TrackId],
    (chip, program, timeline): (&Chip, &NeuronProgram, &Timeline),
) -> Vec<(CounterId, CounterSteps)> {
    let power = layout.add_counter(root, "power", Unit::Milliwatts);
    let hbm = layout.add_counter(root, "hbm bytes per us", Unit::Count);
    let mut counters =
        vec![(power, milliwatts(chip, program, timeline)), (hbm, hbm_bytes_per_us(program, timeline))];
    for (number, core) in (0_u32..).zip(cores) {
        for (name, memory) in [("sbuf", MemorySpace::Sbuf), ("psum", MemorySpace::Psum)] {
            let name = format!("{name} live, of a partition");
            let counter = layout.add_counter(*core, name, Unit::Bytes);
            counters.push((counter, live_bytes(program, timeline, memory, number)));
        }
    }
    counters
}

/// The instruction of another engine, or of another core, that one waited for last.
fn waited(program: &NeuronProgram, instruction: &Instruction, span: &TimeSpan) -> Option<u32> {
    let (StallReason::Data(before) | StallReason::Space(before) | StallReason::Barrier(before)) = span.reason
    else {
        return None;
    };
    let track = |one: &Instruction| (program.core(one), one.engine);
    let other = program.instructions.get(before as usize)?;
    (track(other) != track(instruction)).then_some(before)
}

/// Later instructions that waited for each.
fn signals(program: &NeuronProgram, timeline: &Timeline) -> BTreeMap<u32, Vec<u32>> {
    let mut later: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (number, (instruction, span)) in (0_u32..).zip(program.instructions.iter().zip(&timeline.spans)) {
        if let Some(before) = waited(program, instruction, span) {
            later.entry(before).or_default().push(number);
        }
    }
    later
}
