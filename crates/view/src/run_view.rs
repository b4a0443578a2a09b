//! What the page knows of a run. Everything is text and numbers; nothing of it is ever markup.

use serde::Serialize;

use crate::graph_view::ModelGraphView;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunView {
    /// What it is called.
    pub name: String,
    /// What it ran on; empty if that is not known.
    pub machine: String,
    /// Ticks in a second: cycles of the TCP, picoseconds of a NeuronCore, nanoseconds of a trace.
    pub ticks_per_s: u64,
    /// What a tick is called.
    pub tick: &'static str,
    /// Ticks from launch to finish.
    pub ticks: u64,
    /// What can be busy, parents before children.
    pub tracks: Vec<TrackView>,
    /// Names of commands.
    pub names: Vec<String>,
    /// Lines of the program's text, from 1, that say what commands of each name do.
    pub name_lines: Vec<Option<u64>>,
    /// What decided the length of commands; the first is empty.
    pub stages: Vec<String>,
    /// Lines that commands come from; the first is empty.
    pub sources: Vec<String>,
    /// Counts of commands, such as bytes and products; the first has none.
    pub details: Vec<Vec<(String, u64)>>,
    /// Commands by lane.
    pub lanes: Vec<LaneView>,
    /// Which command waited for which: numbers of the earlier and the later one, in order of lanes.
    pub flows: String,
    /// Values over time.
    pub counters: Vec<CounterView>,
    /// Picojoules by component.
    pub energy_pj: Vec<(String, f64)>,
    /// Power of components over time, if their commands are known.
    pub power: Vec<ComponentPower>,
    /// What is wrong though it ran.
    pub findings: Vec<FindingView>,
    /// The roof over the run and its kernels, if the machine is known.
    pub roofline: Option<RooflineView>,
    /// What lies where, and when.
    pub memories: Vec<MemoryView>,
    /// The graph of the model that ran, if it was compiled for this run.
    pub graph: Option<ModelGraphView>,
    /// The program's text, whose lines findings and commands name.
    pub program: Option<String>,
    /// What there is to say about the run as a whole.
    pub facts: Vec<(String, String)>,
}

/// Something that can be busy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrackView {
    /// Its name, such as `main`.
    pub name: String,
    /// Names from the root, such as `chip0/pe3/main`.
    pub path: String,
    /// `chip`, `core`, `context`, `engine`, `dma` or `memory`; empty if that is not known.
    pub kind: String,
    /// How many tracks are above it.
    pub depth: u32,
}

/// Commands of a track that do not overlap, by their start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LaneView {
    /// Number of the track.
    pub track: u32,
    /// How many.
    pub count: u64,
    /// For each: ticks since the start of the one before, length, numbers of name, stage, source and detail.
    pub data: String,
}

/// A value over time, as a step function.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CounterView {
    /// Names from the root.
    pub path: String,
    /// `bytes`, `milliwatts` or `count`.
    pub unit: String,
    /// Largest value.
    pub peak: u64,
    /// How many samples.
    pub count: u64,
    /// For each: ticks since the one before, value.
    pub data: String,
}

/// The power of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ComponentPower {
    /// What it is called.
    pub name: String,
    /// Milliwatts on average of parts of the run that are equally long.
    pub milliwatts: Vec<f64>,
}

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FindingView {
    /// Stable code.
    pub code: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// What happened.
    pub message: String,
    /// File, line and column, or file and line.
    pub place: String,
    /// Line of the program's text, from 1, if it is about one.
    pub line: Option<u64>,
    /// What is allowed.
    pub allowed: String,
    /// What to do instead.
    pub instead: String,
    /// Further facts.
    pub notes: Vec<String>,
    /// When, for the first time.
    pub tick: Option<u64>,
}

/// Roofs, and where a run and its kernels stand below them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RooflineView {
    /// Multiply-accumulates in a second, at most.
    pub peak_macs_per_s: f64,
    /// Memories and what they give at most: name, bytes in a second.
    pub roofs: Vec<(String, f64)>,
    /// The run and its kernels.
    pub points: Vec<RooflinePoint>,
}

/// A run or a kernel under one of the roofs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RooflinePoint {
    /// What it is.
    pub name: String,
    /// Number of its roof.
    pub roof: u32,
    /// Multiply-accumulates.
    pub macs: f64,
    /// Bytes that crossed the memory's port.
    pub bytes: f64,
    /// Seconds.
    pub seconds: f64,
}

/// What one memory holds over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryView {
    /// Its name.
    pub name: String,
    /// Its size.
    pub capacity_bytes: u64,
    /// What lies in it.
    pub blocks: Vec<MemoryBlock>,
}

/// Bytes that somebody owns for some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryBlock {
    /// Who.
    pub name: String,
    /// First byte.
    pub start_byte: u64,
    /// One past the last.
    pub end_byte: u64,
    /// From when.
    pub start_tick: u64,
    /// Until when.
    pub end_tick: u64,
}
