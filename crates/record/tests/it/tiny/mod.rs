//! A small run, shared by tests and by the example that writes its trace: two loads, one of them
//! overlapping the other, a contraction that waits for both, and its commit.

use std::num::NonZeroU64;
use std::sync::Arc;

use tilewright_record::{
    ComponentId, CounterId, FlowId, Interval, Layout, RecordError, Recorder, Sample, Sink, TrackKind, Unit,
};

/// One chip with one core.
pub(crate) fn layout(clock_hz: NonZeroU64) -> Layout {
    let mut layout = Layout::new(clock_hz);
    let chip = layout.add_track(None, TrackKind::Chip, "chip0");
    let core = layout.add_track(Some(chip), TrackKind::Core, "pe0");
    layout.add_track(Some(core), TrackKind::Context, "main");
    layout.add_track(Some(core), TrackKind::Engine, "contraction");
    layout.add_track(Some(core), TrackKind::Dma, "tdma");
    let memory = layout.add_track(Some(core), TrackKind::Memory, "dm");
    layout.add_counter(memory, "occupancy", Unit::Bytes);
    layout.add_counter(chip, "power", Unit::Milliwatts);
    layout.add_component("hbm");
    layout.add_component("contraction");
    layout
}

/// Runs it.
pub(crate) fn run<S: Sink>(recorder: &mut Recorder<S>) -> Result<(), RecordError> {
    let layout = recorder.layout().clone();
    let track = |name: &str| {
        let index = layout.tracks.iter().position(|track| track.name == name).unwrap_or_default();
        tilewright_record::TrackId(u32::try_from(index).unwrap_or_default())
    };
    let (occupancy, power) = (CounterId(0), CounterId(1));
    let set = |recorder: &mut Recorder<S>, counter, at_cycles, value| {
        recorder.sample(Sample { counter, at_cycles, value })
    };
    let load = |name: &str, start, end, signal| Interval {
        binding: Some("hbm"),
        signals: [FlowId(signal)].into_iter().collect(),
        ..Interval::new(track("tdma"), name, start, end).with_count("bytes", 8192)
    };

    set(recorder, power, 0, 900)?;
    recorder.interval(load("dma in0", 0, 64, 1))?;
    recorder.interval(load("dma in1", 32, 96, 2))?;
    recorder.energy(ComponentId(0), 2 * 8192 * 32_000)?;
    set(recorder, occupancy, 64, 8192)?;
    set(recorder, occupancy, 96, 16_384)?;
    recorder.advance(96);
    recorder.interval(Interval {
        waits: [FlowId(1), FlowId(2)].into_iter().collect(),
        ..Interval::new(track("main"), "wait_d", 96, 97)
    })?;
    set(recorder, power, 97, 2500)?;
    let exec = Interval::new(track("main"), "exec", 97, 1121).with_count("macs", 1 << 20);
    let source: Arc<str> = "exec qk: (q, d), (k, d) -> (q, k)".into();
    recorder.interval(Interval { source: Some(source), binding: Some("contraction"), ..exec.clone() })?;
    recorder.interval(Interval { track: track("contraction"), ..exec })?;
    recorder.energy(ComponentId(1), (1 << 20) * 60)?;
    set(recorder, power, 1121, 900)?;
    recorder.interval(Interval::new(track("main"), "commit", 1121, 1185).with_count("bytes", 4096))?;
    recorder.advance(1200);
    Ok(())
}
