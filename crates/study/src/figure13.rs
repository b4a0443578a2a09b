//! Fig. 13: what tensor unit and DMA engine of a PE do in one decoder block of a prompt, as fractions, as a
//! picture, and as a trace.

use serde::Serialize;
use tilewright_machine::Tcp;
use tilewright_record::{Event, Interval, Record, Sample, perfetto};
use tilewright_report::columns::{Align, table};
use tilewright_report::lanes::{ChartLane, LaneBar, LaneFrame, WIDE_LANE, draw};
use tilewright_report::svg::{Anchor, Svg, colour};
use tilewright_tcp_isa::program::event::ExecUnit;

use crate::block::{Block, WEIGHTS, find, middle};
use crate::layout::{BlockLayout, layout};
use crate::measure::{PromptChunk, kind_of};
use crate::operators::Breakdown;
use crate::sizes::size;
use crate::spans::{CycleSpan, common, length, union};

/// The block in one run of a prompt's program, on the first PE.
#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Tokens before this run.
    pub past: u64,
    /// Tokens of this run.
    pub count: u64,
    /// The layer of the block.
    pub layer: usize,
    /// Cycles of the block.
    pub cycles: u64,
    /// Microseconds of the block.
    pub us: f64,
    /// Part of the block in which main or sub context run.
    pub tensor_unit: f64,
    /// Part in which the DMA engine runs.
    pub dma: f64,
    /// Part in which both run.
    pub both: f64,
    /// Part in which neither runs.
    pub neither: f64,
    /// Part in which weights come.
    pub weights: f64,
    /// Part of the shorter of the two that runs beside the longer: 1 if it is hidden.
    pub hidden: f64,
}

/// What was seen of a prompt.
#[derive(Clone, Debug, Default)]
pub(crate) struct PromptActivity {
    /// One for each run.
    pub(crate) activities: Vec<Activity>,
    /// Operators of the block, over all runs.
    pub(crate) breakdown: Breakdown,
    /// The block of the last run, and its trace.
    pub(crate) last: Option<Block>,
    pub(crate) trace: Vec<u8>,
    /// How the block is laid out.
    pub(crate) layout: Option<BlockLayout>,
    /// Bytes that transfers brought from off-chip memory, transfer by transfer, on all PEs.
    pub(crate) dma_hbm_bytes: u64,
}

impl PromptActivity {
    /// Looks at a run of a prompt of so many tokens.
    pub(crate) fn look(&mut self, machine: &Tcp, tokens: u64, pes: u64, chunk: &PromptChunk<'_>) {
        self.dma_hbm_bytes += off_chip_bytes(chunk);
        let Some(block) = find(chunk, middle(&chunk.compiled.kernels)) else { return };
        self.activities.push(activity(&block, tokens, size(machine.chip.clock_hz), chunk));
        self.layout.get_or_insert_with(|| layout(machine, chunk.compiled, &block.operators));
        self.breakdown.add(&block, pes);
        self.trace.clear();
        // Writing to memory does not fail.
        let _ = perfetto::write(&cut(&chunk.outcome.record, block.window), &mut self.trace);
        self.last = Some(block);
    }
}

/// Bytes of all transfers from or to off-chip memory.
fn off_chip_bytes(chunk: &PromptChunk<'_>) -> u64 {
    use tilewright_tcp_isa::program::transfer::MemoryInstance;
    let transfers = &chunk.compiled.prefill.transfers;
    let outside = |address: tilewright_tcp_isa::program::transfer::Address| {
        address.locate().is_some_and(|located| located.medium == MemoryInstance::Hbm)
    };
    let names: std::collections::BTreeSet<&str> = transfers
        .iter()
        .filter(|transfer| outside(transfer.source) || outside(transfer.target))
        .map(|transfer| transfer.name.as_str())
        .collect();
    let bytes = |interval: &Interval| {
        interval.counts.iter().find(|(name, _)| *name == "bytes").map_or(0, |(_, bytes)| *bytes)
    };
    chunk.outcome.record.intervals().filter(|interval| names.contains(&*interval.name)).map(bytes).sum()
}

fn activity(block: &Block, tokens: u64, hz: f64, chunk: &PromptChunk<'_>) -> Activity {
    let cycles = block.cycles();
    let tensor_unit = block.spans(|command| command.unit != ExecUnit::Dma);
    let dma = block.spans(|command| command.unit == ExecUnit::Dma);
    let weights = block.spans(|command| kind_of(&command.name) == WEIGHTS);
    let part = |cycles_of: u64| size(cycles_of) / size(cycles.max(1));
    let both = length(&common(&tensor_unit, &dma));
    let either = length(&union(tensor_unit.iter().chain(&dma).copied()));
    Activity {
        tokens,
        past: chunk.past,
        count: chunk.count,
        layer: block.layer,
        cycles,
        us: size(cycles) / hz * 1e6,
        tensor_unit: part(length(&tensor_unit)),
        dma: part(length(&dma)),
        both: part(both),
        neither: part(cycles - either),
        weights: part(length(&weights)),
        hidden: size(both) / size(length(&tensor_unit).min(length(&dma)).max(1)),
    }
}

/// A stretch of a record, from its own beginning on.
fn cut(record: &Record, (from, to): CycleSpan) -> Record {
    let mut before: Vec<Option<u64>> = vec![None; record.layout.counters.len()];
    let mut events = Vec::new();
    for event in &record.events {
        match event {
            Event::Interval(interval) if interval.start_cycles < to && interval.end_cycles > from => {
                events.push(Event::Interval(Interval {
                    start_cycles: interval.start_cycles.max(from) - from,
                    end_cycles: interval.end_cycles.min(to) - from,
                    ..interval.clone()
                }));
            }
            Event::Sample(sample) if sample.at_cycles <= from => {
                let slot = usize::try_from(sample.counter.0).ok().and_then(|at| before.get_mut(at));
                slot.into_iter().for_each(|slot| *slot = Some(sample.value));
            }
            Event::Sample(sample) if sample.at_cycles < to => {
                events.push(Event::Sample(Sample { at_cycles: sample.at_cycles - from, ..*sample }));
            }
            _ => {}
        }
    }
    let first = (0..).zip(before).filter_map(|(counter, value)| {
        let counter = tilewright_record::CounterId(counter);
        Some(Event::Sample(Sample { counter, at_cycles: 0, value: value? }))
    });
    let events = first.chain(events).collect();
    Record { layout: record.layout.clone(), events, totals: record.totals.clone() }
}

/// As text.
pub(crate) fn text(activities: &[Activity]) -> String {
    let head = ["L", "tokens", "us", "TU", "TDMA", "both", "neither", "weights", "hidden"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    for seen in activities {
        let mut row = vec![
            seen.tokens.to_string(),
            format!("{}..{}", seen.past, seen.past + seen.count),
            format!("{:.1}", seen.us),
        ];
        row.extend(
            [seen.tensor_unit, seen.dma, seen.both, seen.neither, seen.weights, seen.hidden].map(percent),
        );
        rows.push(row);
    }
    table(&[Align::Right; 9], &rows)
}

const LEFT: f64 = 130.0;
const WIDTH: f64 = 900.0;
/// Commands that no operator of the block needs: weights of the next.
const OTHER: &str = "#888";

/// As a picture: for each prompt a lane for main, sub, and DMA.
pub(crate) fn picture(prompts: &[(u64, &PromptActivity)], hz: f64) -> String {
    let mut svg = Svg::default();
    let mut top = 50.0;
    let mut labels: Vec<&str> = Vec::new();
    for (tokens, seen) in prompts {
        let (Some(block), Some(activity)) = (&seen.last, seen.activities.last()) else { continue };
        labels = block.operators.iter().map(|operator| operator.label).collect();
        let us = |cycles: u64| size(cycles) / hz * 1e6;
        let lane = |name: &str, unit: ExecUnit| ChartLane {
            name: name.to_string(),
            bars: block
                .commands
                .iter()
                .filter(|command| command.unit == unit)
                .map(|command| LaneBar {
                    start: us(command.span.0),
                    end: us(command.span.1),
                    colour: command
                        .operator
                        .map_or(OTHER.to_string(), |at| colour(at as u64, block.operators.len() as u64)),
                })
                .collect(),
        };
        let lanes =
            [lane("TU, main", ExecUnit::Main), lane("TU, sub", ExecUnit::Sub), lane("TDMA", ExecUnit::Dma)];
        let frame = LaneFrame {
            left: LEFT,
            top,
            width: WIDTH,
            label: "time, us",
            most: activity.us,
            lane: WIDE_LANE,
        };
        let title = format!(
            "Fig. 13: decoder block {} of a prompt of {tokens}, tokens {} to {}, PE 0",
            block.layer,
            activity.past,
            activity.past + activity.count - 1
        );
        let below = draw(&mut svg, &frame, &title, &lanes);
        let note = format!(
            "TU {:.0} %, TDMA {:.0} %, both {:.0} %, neither {:.0} % of {:.0} us",
            activity.tensor_unit * 100.0,
            activity.dma * 100.0,
            activity.both * 100.0,
            activity.neither * 100.0,
            activity.us
        );
        svg.text(LEFT, below, Anchor::Start, "small", &note);
        top = below + 50.0;
    }
    legend(&mut svg, top - 20.0, &labels);
    svg.finish()
}

fn legend(svg: &mut Svg, y: f64, labels: &[&str]) {
    let count = labels.len() as u64;
    let coloured = labels.iter().enumerate().map(|(at, label)| (*label, colour(at as u64, count)));
    for (at, (label, fill)) in coloured.chain([("another block", OTHER.to_string())]).enumerate() {
        let (column, row) = (at % 5, at / 5);
        let (x, y) = (LEFT + 185.0 * size(column as u64), y + 20.0 * size(row as u64));
        svg.block(x, y - 10.0, 12.0, 12.0, &fill);
        svg.text(x + 18.0, y, Anchor::Start, "small", label);
    }
}
