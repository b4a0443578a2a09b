//! What a run leaves in its record: a track for each context, engine and DMA engine, counters for queues,
//! memories and power, flows from what was waited for to what waited, and the counts of each command.

use std::num::NonZeroU64;

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_record::{
    ComponentId, CounterId, FlowId, Interval, Layout, Record, Recorder, Sample, Sink, TrackId, TrackKind,
    Unit,
};
use tilewright_tcp_cost::cycles::PipelineStage;
use tilewright_tcp_cost::cycles::dma::DmaBound;
use tilewright_tcp_cost::energy::{COMPONENTS, Component, standing_fj};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::exec::{ExecBody, Memory};
use tilewright_tcp_isa::program::transfer::MemoryInstance;

use crate::SimError;
use crate::contexts::engine_cycles;
use crate::outcome::{Detail, EngineUnit};
use crate::state::{ActiveExec, IssuedTransfer};
use crate::touched::TouchedMemory;

/// Tracks and counters of a PE.
#[derive(Debug)]
struct PeTracks {
    contexts: [TrackId; 2],
    dma: TrackId,
    detail: Option<DetailTracks>,
}

#[derive(Debug)]
struct DetailTracks {
    /// By context, then by engine; the sub context shares the vector engine and has no contraction engine.
    engines: [[TrackId; EngineUnit::ALL.len()]; 2],
    queue: CounterId,
    /// Data memory, register files of the two engines, scratchpad; the last two where a program writes them.
    memories: [Option<CounterId>; 4],
}

/// The record of a run.
#[derive(Debug)]
pub(crate) struct RunTrace<S> {
    recorder: Recorder<S>,
    everything: bool,
    pes: Vec<Option<PeTracks>>,
    /// Power counter and the sum of what runs, in 2^-16 fJ a cycle, by chip.
    power: Vec<(CounterId, u128)>,
    /// Rate of off-chip memory, and its last value, by chip.
    off_chip: Vec<(CounterId, u64)>,
    standing: u128,
    clock_hz: u64,
}

impl<S: Sink> RunTrace<S> {
    pub(crate) fn new(
        machine: &Tcp,
        program: &Program,
        pes_per_chip: usize,
        detail: Detail,
        sink: S,
    ) -> Result<RunTrace<S>, SimError> {
        let everything = detail == Detail::Everything;
        let clock_hz = NonZeroU64::new(machine.chip.clock_hz).unwrap_or(NonZeroU64::MIN);
        let mut layout = Layout::new(clock_hz);
        let widest = program.execs.iter().map(|exec| exec.pes).max().unwrap_or(1);
        let works = |chip: u64, pe: u64| {
            let queues = program.queues.iter().filter(|queue| queue.chip == chip);
            queues.into_iter().any(|queue| queue.pe <= pe && pe < queue.pe.saturating_add(widest))
        };
        let used = UsedEngines::of(program);
        let parts =
            TouchedMemory::default().memories(machine).map(|(_, capacity_bytes)| capacity_bytes / 128);
        let (mut pes, mut power, mut off_chip) = (Vec::new(), Vec::new(), Vec::new());
        for chip in 0..program.chips {
            let track = layout.add_track(None, TrackKind::Chip, format!("chip{chip}"));
            if everything {
                power.push((layout.add_counter(track, "power", Unit::Milliwatts), 0));
                off_chip.push((layout.add_counter(track, "hbm bytes per cycle", Unit::Count), 0));
            }
            for pe in 0..pes_per_chip as u64 {
                let detail = everything.then_some((&used, parts));
                pes.push(works(chip, pe).then(|| pe_tracks(&mut layout, track, pe, detail)));
            }
        }
        for component in Component::ALL {
            layout.add_component(component.name());
        }
        let standing: u128 = standing_fj(machine, 1, 1).iter().sum();
        let recorder = Recorder::new(layout, sink)?;
        let clock_hz = machine.chip.clock_hz;
        let standing = standing << 16;
        let mut trace = RunTrace { recorder, everything, pes, power, off_chip, standing, clock_hz };
        for chip in 0..program.chips {
            trace.power(chip, 0, 0, 0)?;
        }
        Ok(trace)
    }

    /// A queue holds so many commands.
    pub(crate) fn queue(&mut self, pe: usize, at_cycles: u64, length: usize) -> Result<(), SimError> {
        if !self.everything {
            return Ok(());
        }
        if let Some(detail) = self.detail(pe) {
            let counter = detail.queue;
            self.recorder.sample(Sample { counter, at_cycles, value: length as u64 })?;
        }
        Ok(())
    }

    /// Memories have been touched so far.
    pub(crate) fn memory(
        &mut self,
        machine: &Tcp,
        pe: usize,
        at_cycles: u64,
        touched: TouchedMemory,
    ) -> Result<(), SimError> {
        if let Some(&DetailTracks { memories, .. }) = self.detail(pe) {
            for (counter, (parts, capacity_bytes)) in memories.into_iter().zip(touched.memories(machine)) {
                let Some(counter) = counter else { continue };
                let value = parts.bytes(capacity_bytes);
                self.recorder.sample(Sample { counter, at_cycles, value })?;
            }
        }
        Ok(())
    }

    fn detail(&self, pe: usize) -> Option<&DetailTracks> {
        self.pes.get(pe)?.as_ref()?.detail.as_ref()
    }

    /// Whether power over time is recorded.
    pub(crate) fn follows_power(&self) -> bool {
        self.everything
    }

    /// Energy spread evenly over cycles, in 2^-16 fJ a cycle.
    pub(crate) fn power_of(&self, energy_fj: u64, cycles: u64) -> u64 {
        if !self.everything {
            return 0;
        }
        let power = (u128::from(energy_fj) << 16) / u128::from(cycles.max(1));
        u64::try_from(power).unwrap_or(u64::MAX)
    }

    /// Something on a chip takes another power from now on.
    pub(crate) fn power(
        &mut self,
        chip: u64,
        at_cycles: u64,
        before: u64,
        after: u64,
    ) -> Result<(), SimError> {
        let Some((counter, sum)) = usize::try_from(chip).ok().and_then(|chip| self.power.get_mut(chip))
        else {
            return Ok(());
        };
        *sum = sum.exact_add(u128::from(after)).exact_sub(u128::from(before));
        // 10^12 fJ a second are a milliwatt.
        let fj_per_s = ((*sum + self.standing) >> 16).exact_mul(u128::from(self.clock_hz));
        let value = u64::try_from(fj_per_s / 1_000_000_000_000).unwrap_or(u64::MAX);
        let counter = *counter;
        self.recorder.sample(Sample { counter, at_cycles, value })?;
        Ok(())
    }

    /// Off-chip memory of a chip moves so much from now on.
    pub(crate) fn off_chip_rate(&mut self, chip: usize, at_cycles: u64, value: u64) -> Result<(), SimError> {
        let Some((counter, last)) = self.off_chip.get_mut(chip).filter(|(_, last)| *last != value) else {
            return Ok(());
        };
        *last = value;
        let counter = *counter;
        Ok(self.recorder.sample(Sample { counter, at_cycles, value })?)
    }

    /// An execution ended; counts go to the first PE of its group.
    pub(crate) fn exec(
        &mut self,
        pe: usize,
        first: bool,
        context: usize,
        running: &ActiveExec,
        end_cycles: u64,
    ) -> Result<(), SimError> {
        let Some(Some(tracks)) = self.pes.get(pe) else { return Ok(()) };
        let plan = &running.plan;
        let track = tracks.contexts.get(context).copied().unwrap_or(tracks.dma);
        let mut interval = Interval::new(track, plan.name.clone(), running.started, end_cycles);
        if self.everything {
            interval.binding = Some(plan.cycles.binding.name());
            if first {
                interval.signals.push(FlowId(running.ticket.0));
                interval.waits.extend(running.waits.iter().map(|ticket| FlowId(ticket.0)));
                let counts = &plan.counts;
                let named = [
                    ("macs", counts.macs()),
                    ("useful macs", counts.macs_useful),
                    ("fetched bytes", counts.fetch_bytes),
                    ("committed bytes", counts.commit_bytes),
                    ("register file bytes", counts.trf_written_bytes),
                    ("flits", counts.flits),
                ];
                interval.counts.extend(named.into_iter().filter(|(_, count)| *count > 0));
                let stages = PipelineStage::ALL
                    .into_iter()
                    .map(|stage| (stage.name(), plan.cycles.stage_cycles(stage)));
                interval.counts.extend(stages.filter(|(_, cycles)| *cycles > 0));
            }
        }
        self.recorder.interval(interval)?;
        let engines = tracks.detail.as_ref().and_then(|detail| detail.engines.get(context));
        let Some(engines) = engines else { return Ok(()) };
        let begin = running.started.exact_add(plan.cycles.overhead_cycles).min(end_cycles);
        for (engine, cycles) in engine_cycles(plan) {
            let end = begin.exact_add(cycles).min(end_cycles);
            self.recorder.interval(Interval::new(engines[engine as usize], plan.name.clone(), begin, end))?;
        }
        Ok(())
    }

    /// A transfer ended.
    pub(crate) fn transfer(
        &mut self,
        pe: usize,
        sending: &IssuedTransfer,
        end_cycles: u64,
    ) -> Result<(), SimError> {
        let Some(Some(tracks)) = self.pes.get(pe) else { return Ok(()) };
        let plan = &sending.plan;
        let mut interval = Interval::new(tracks.dma, plan.name.clone(), sending.started, end_cycles);
        if self.everything {
            interval.binding = Some(bound_name(plan.cost.cycles.binding));
            interval.signals.push(FlowId(sending.ticket.0));
            interval.waits.extend(sending.waits.iter().map(|ticket| FlowId(ticket.0)));
            interval.counts.extend([("bytes", plan.cost.bytes), ("requests", plan.cost.requests)]);
            if plan.cost.spread {
                // Rows by index are data; that they spread evenly over channels is an assumption.
                interval
                    .counts
                    .push(("rows by index, assumed spread evenly over channels", plan.cost.requests));
            }
        }
        self.recorder.interval(interval)?;
        Ok(())
    }

    /// No interval from now on starts before this cycle.
    pub(crate) fn settle(&mut self, cycles: u64) {
        self.recorder.advance(cycles);
    }

    /// Ends the record with all energy.
    pub(crate) fn finish(mut self, cycles: u64, energy_fj: &[u128; COMPONENTS]) -> Result<Record, SimError> {
        for (part, id) in energy_fj.iter().zip(0..) {
            let mut left = *part;
            while left > 0 {
                let chunk = u64::try_from(left).unwrap_or(u64::MAX);
                self.recorder.energy(ComponentId(id), chunk)?;
                left -= u128::from(chunk);
            }
        }
        self.recorder.advance(cycles);
        Ok(self.recorder.finish()?)
    }
}

/// What a program uses that not all do.
#[derive(Debug, Default)]
struct UsedEngines {
    collect: bool,
    cast: bool,
    transpose: bool,
    vrf: bool,
    spm: bool,
}

impl UsedEngines {
    fn of(program: &Program) -> UsedEngines {
        let mut used = UsedEngines::default();
        for exec in &program.execs {
            let memory = match &exec.body {
                ExecBody::Stream(stream) => {
                    used.collect = true;
                    used.cast |= stream.cast.is_some();
                    used.transpose |= stream.transpose.is_some();
                    stream.commit.memory
                }
                ExecBody::Fill(fill) => fill.commit.memory,
                ExecBody::Short(short) => short.memory,
            };
            used.vrf |= memory == Memory::Vrf;
        }
        let targets = program.transfers.iter().filter_map(|transfer| transfer.target.locate());
        used.spm = targets.into_iter().any(|target| matches!(target.medium, MemoryInstance::Spm { .. }));
        used
    }

    fn engine(&self, engine: EngineUnit) -> bool {
        match engine {
            EngineUnit::Main | EngineUnit::Sub | EngineUnit::Dma => false,
            EngineUnit::Collect => self.collect,
            EngineUnit::Cast => self.cast,
            EngineUnit::Transpose => self.transpose,
            _ => true,
        }
    }
}

/// Tracks of a PE; engines and memories if there is detail, with the bytes of a part of each memory.
fn pe_tracks(
    layout: &mut Layout,
    chip: TrackId,
    pe: u64,
    detail: Option<(&UsedEngines, [u64; 4])>,
) -> PeTracks {
    let core = layout.add_track(Some(chip), TrackKind::Core, format!("pe{pe}"));
    let mut track = |kind, name: &str| layout.add_track(Some(core), kind, name);
    let contexts = [track(TrackKind::Context, "main"), track(TrackKind::Context, "sub")];
    let dma = track(TrackKind::Dma, "dma");
    let Some((used, parts)) = detail else {
        return PeTracks { contexts, dma, detail: None };
    };
    let mut engines = [[dma; EngineUnit::ALL.len()]; 2];
    for engine in EngineUnit::ALL.into_iter().filter(|engine| used.engine(*engine)) {
        let main = track(TrackKind::Engine, engine.name());
        let own = engine.units() > 1;
        let sub = if own { track(TrackKind::Engine, &format!("sub {}", engine.name())) } else { main };
        engines[0][engine as usize] = main;
        engines[1][engine as usize] = sub;
    }
    let named = [("dm", true), ("trf", true), ("vrf", used.vrf), ("spm", used.spm)];
    let mut memories = [None; 4];
    for (slot, ((name, shown), part)) in memories.iter_mut().zip(named.into_iter().zip(parts)) {
        if shown {
            let track = layout.add_track(Some(core), TrackKind::Memory, name);
            let counter = format!("touched so far, in parts of {part} B");
            *slot = Some(layout.add_counter(track, counter, Unit::Bytes));
        }
    }
    let queue = layout.add_counter(core, "queue", Unit::Count);
    PeTracks { contexts, dma, detail: Some(DetailTracks { engines, queue, memories }) }
}

fn bound_name(bound: DmaBound) -> &'static str {
    match bound {
        DmaBound::ReadEngine => "read engine",
        DmaBound::ReadMemory => "read memory",
        DmaBound::WriteEngine => "write engine",
        DmaBound::WriteMemory => "write memory",
        DmaBound::Link => "link",
    }
}
