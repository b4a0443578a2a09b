//! A run from what its simulator recorded.

use tilewright_record::{FlowId, Interval, Record, TrackId, TrackKind, Unit};

use crate::columns::NumberColumn;
use crate::rows::{CommandColumns, CommandRow, CommandTexts, columns};
use crate::run_view::{CounterView, RunView, TrackView};

/// The timeline, counters and energy of a record; the rest is for those who know it.
pub fn view_of_record(name: &str, record: &Record) -> RunView {
    view_with_kernels(name, record, &|_| None).0
}

/// The same, and the kernel of each command as [`ModelGraphView::kernel_of_command`] has it, where `kernel`
/// knows it.
///
/// [`ModelGraphView::kernel_of_command`]: crate::graph_view::ModelGraphView::kernel_of_command
pub fn view_with_kernels(
    name: &str,
    record: &Record,
    kernel: &dyn Fn(&Interval) -> Option<u32>,
) -> (RunView, String) {
    let mut texts = CommandTexts::default();
    let tracks = tracks(record);
    let CommandColumns { lanes, flows, kernels } = columns(rows(record, kernel, &mut texts));
    let clock_hz = record.layout.clock_hz.get();
    let energy = record.layout.components.iter().zip(&record.totals.energy_fj);
    let view = RunView {
        name: name.to_string(),
        ticks_per_s: clock_hz,
        tick: if clock_hz == 1_000_000_000_000 { "ps" } else { "cycles" },
        ticks: record.totals.cycles,
        tracks,
        name_lines: vec![None; texts.names.texts.len()],
        names: texts.names.texts,
        stages: texts.stages.texts,
        sources: texts.sources.texts,
        details: texts.details,
        lanes,
        flows,
        counters: counters(record),
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        energy_pj: energy.map(|(name, fj)| (name.clone(), *fj as f64 / 1e3)).collect(),
        ..RunView::default()
    };
    (view, kernels)
}

fn tracks(record: &Record) -> Vec<TrackView> {
    let mut depths: Vec<u32> = Vec::new();
    let mut views = Vec::new();
    for (at, track) in (0_u32..).zip(&record.layout.tracks) {
        let above = track.parent.and_then(|parent| depths.get(parent.0 as usize));
        depths.push(above.map_or(0, |depth| depth + 1));
        let path = record.layout.path(TrackId(at));
        let depth = depths.last().copied().unwrap_or_default();
        views.push(TrackView { name: track.name.clone(), path, kind: kind_name(track.kind).into(), depth });
    }
    views
}

fn kind_name(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Chip => "chip",
        TrackKind::Core => "core",
        TrackKind::Context => "context",
        TrackKind::Engine => "engine",
        TrackKind::Dma => "dma",
        TrackKind::Memory => "memory",
    }
}

/// Intervals as rows.
fn rows(
    record: &Record,
    kernel: &dyn Fn(&Interval) -> Option<u32>,
    texts: &mut CommandTexts,
) -> Vec<CommandRow> {
    let ids = |ids: &[FlowId]| ids.iter().map(|id| id.0).collect();
    let row = |interval: &Interval| CommandRow {
        track: interval.track.0,
        start: interval.start_cycles,
        end: interval.end_cycles,
        numbers: [
            texts.names.number(&interval.name),
            texts.stages.number(interval.binding.unwrap_or_default()),
            texts.sources.number(interval.source.as_deref().unwrap_or_default()),
            texts.detail(interval.counts.iter().map(|(name, count)| ((*name).to_string(), *count)).collect()),
        ],
        kernel: kernel(interval),
        signals: ids(&interval.signals),
        waits: ids(&interval.waits),
    };
    record.intervals().map(row).collect()
}

fn counters(record: &Record) -> Vec<CounterView> {
    let mut columns = vec![(NumberColumn::default(), 0_u64, 0_u64); record.layout.counters.len()];
    for sample in record.samples() {
        let Some((data, count, before)) = columns.get_mut(sample.counter.0 as usize) else { continue };
        data.push(sample.at_cycles.saturating_sub(*before));
        data.push(sample.value);
        (*count, *before) = (*count + 1, sample.at_cycles);
    }
    let all = record.layout.counters.iter().zip(&record.totals.counters).zip(columns);
    all.map(|((counter, totals), (data, count, _))| CounterView {
        path: record.layout.counter_path(counter),
        unit: unit_name(counter.unit).to_string(),
        peak: totals.peak,
        count,
        data: data.base64(),
    })
    .collect()
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Milliwatts => "milliwatts",
        Unit::Count => "count",
    }
}
