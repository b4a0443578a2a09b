//! When each recorded instruction runs (docs/hardware-rules.md#dma, #order-and-synchronisation and
//! #what-is-assumed).
//!
//! - [`tiles`]: what is live when; [`spill`]: what goes to HBM because SBUF is full;
//! - [`depend`]: who waits for whom, through bytes that both touch and through room ([`room`], [`pages`]);
//! - [`run`]: engines in order within a window, event by event; [`dma`]: queues, DMA engines and HBM;
//! - [`together`]: ranks side by side, where they meet in collectives; [`streams`]: how many of those at once.
//!
//! The compiler's scheduler is modelled as one that picks the first ready instruction of a window of each engine.
//! Tiles that a kernel places wait for what had their bytes before; a kernel that keeps its order runs as it is written.

pub(crate) mod array;
mod depend;
pub mod dma;
mod pages;
mod room;
mod run;
mod spill;
mod streams;
mod tiles;
mod together;

pub use array::Ramp;
pub use together::{Met, keep, meet, together};

use tilewright_neuron_isa::program::{Cost, DmaShape, EngineKind, Instruction, Program};
use tilewright_neuron_isa::{Chip, Memory};

pub(crate) use spill::Node;
pub(crate) use tiles::Tiles;

/// What an instruction waited for last. Numbers are those of instructions, and of spills behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing: it starts when the program does.
    Start,
    /// The engine was busy with this instruction.
    Engine(u32),
    /// This instruction's result, or its last read of what is overwritten.
    Data(u32),
    /// Room in SBUF or PSUM that this instruction used.
    Room(u32),
    /// HBM bandwidth or a DMA engine, or its queue, behind this transfer.
    Transfer(u32),
    /// A meeting with the other core, for which this instruction was the last.
    Meeting(u32),
    /// Other ranks, or the links between them.
    Ranks,
}

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub start_ps: u64,
    /// The engine is free again.
    pub end_ps: u64,
    /// Its result can be read.
    pub done_ps: u64,
    /// Why not earlier.
    pub reason: Reason,
}

impl Default for Span {
    fn default() -> Span {
        Span { start_ps: 0, end_ps: 0, done_ps: 0, reason: Reason::Start }
    }
}

/// A tile that the compiler moves between SBUF and HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spill {
    /// Number of its tensor.
    pub storage: u32,
    /// True if it goes to HBM, false if it comes back.
    pub saves: bool,
    /// Bytes.
    pub bytes: u64,
    /// When.
    pub span: Span,
}

/// A scheduled run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// One span for each instruction.
    pub spans: Vec<Span>,
    /// Spills, which are numbered behind the instructions.
    pub spills: Vec<Spill>,
    /// From the first start to the last result.
    pub total_ps: u64,
    /// Time that each engine is busy, in the order of [`EngineKind::ALL`], summed over cores.
    pub busy_ps: [u64; 6],
    /// Most bytes of an SBUF partition that are live at once.
    pub sbuf_peak_bytes: u64,
    /// The same of PSUM, in whole banks.
    pub psum_peak_bytes: u64,
}

impl Timeline {
    /// The span of an instruction or spill.
    pub fn span(&self, number: u32) -> Option<Span> {
        let number = number as usize;
        self.spans
            .get(number)
            .copied()
            .or_else(|| self.spills.get(number.checked_sub(self.spans.len())?).map(|spill| spill.span))
    }

    /// Bytes that spills write to and read from HBM.
    pub fn spill_bytes(&self) -> (u64, u64) {
        let sum = |saves: bool| {
            self.spills.iter().filter(|spill| spill.saves == saves).map(|spill| spill.bytes).sum()
        };
        (sum(true), sum(false))
    }
}

/// What an instruction takes of its engine; a reading of "what if" changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Time on its engine.
    pub cost: Cost,
    /// How a transfer spreads.
    pub dma: Option<DmaShape>,
}

/// Places every instruction of a program in time.
pub fn schedule(chip: &Chip, program: &Program) -> Timeline {
    schedule_if(chip, program, true, &|_, work| work)
}

/// The same with other costs, and without spills if SBUF is taken as large enough.
pub fn schedule_if(
    chip: &Chip,
    program: &Program,
    spills: bool,
    change: &dyn Fn(&Instruction, Work) -> Work,
) -> Timeline {
    let tiles = Tiles::of(chip, program);
    let nodes = spill::nodes(chip, program, &tiles, spills);
    let edges = depend::edges(chip, program, &tiles, &nodes);
    let spans = run::run(chip, program, &tiles, &nodes, &edges, change);
    let mut timeline = Timeline {
        sbuf_peak_bytes: tiles.peak_bytes(Memory::Sbuf),
        psum_peak_bytes: tiles.peak_bytes(Memory::Psum),
        ..Timeline::default()
    };
    timeline.total_ps = spans.iter().map(|span| span.done_ps).max().unwrap_or(0);
    for (extra, span) in nodes.extra().iter().zip(spans.iter().skip(nodes.runs() as usize)) {
        let (tile, saves) = match *extra {
            Node::Save(tile) => (tile, true),
            Node::Reload(tile) => (tile, false),
            // Nothing moves; it keeps its number.
            Node::Drop(tile) | Node::Run(tile) => (tile, true),
        };
        let moves = matches!(extra, Node::Save(_) | Node::Reload(_));
        let facts = tiles.facts.get(tile as usize);
        let bytes = facts.filter(|_| moves).map_or(0, |facts| facts.bytes.saturating_mul(facts.partitions));
        let storage = facts.map_or(0, |facts| facts.storage);
        timeline.spills.push(Spill { storage, saves, bytes, span: *span });
    }
    timeline.spans = spans;
    timeline.spans.truncate(program.instructions.len());
    timeline.busy_ps = busy(program, &timeline);
    timeline
}

/// Time from one engine's result to another's start.
pub fn hop_ps(chip: &Chip, from: EngineKind, to: EngineKind) -> u64 {
    let sync = &chip.neuron.sync;
    if from == to {
        return 0;
    }
    tilewright_neuron_isa::chip::ns_ps(if from == EngineKind::Dma {
        sync.dma_to_compute_ns
    } else {
        sync.semaphore_ns
    })
}

/// Instructions of an engine among which the order may change: one if the kernel keeps its order.
fn window(chip: &Chip, program: &Program) -> u64 {
    if program.in_order { 1 } else { chip.neuron.sync.schedule_window.max(1) }
}

/// Time in which at least one instruction of each engine runs, summed over cores.
fn busy(program: &Program, timeline: &Timeline) -> [u64; 6] {
    let mut intervals: std::collections::BTreeMap<(usize, u32), Vec<(u64, u64)>> =
        std::collections::BTreeMap::new();
    for (instruction, span) in program.instructions.iter().zip(&timeline.spans) {
        let lane = (instruction.engine as usize, program.core(instruction));
        intervals.entry(lane).or_default().push((span.start_ps, span.end_ps));
    }
    for spill in timeline.spills.iter().filter(|spill| spill.bytes > 0) {
        let lane = (EngineKind::Dma as usize, 0);
        intervals.entry(lane).or_default().push((spill.span.start_ps, spill.span.end_ps));
    }
    let mut busy = [0; 6];
    for ((engine, _), mut intervals) in intervals {
        intervals.sort_unstable();
        let mut until = 0;
        for (start, end) in intervals {
            busy[engine] += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
    }
    busy
}
