//! When each recorded instruction runs (docs/hardware-rules.md#dma, #order-and-synchronisation and
//! #what-is-assumed).
//!
//! - [`tiles`]: what is live when; [`spill`]: what goes to HBM because SBUF is full;
//! - [`dependences`]: who waits for whom, through bytes that both touch ([`access_pages`]) and through buffer
//!   space ([`buffer_space`]);
//! - [`event_loop`]: engines in order within a window, event by event; [`dma`]: queues, DMA engines and HBM;
//! - [`collectives`]: ranks side by side, where they meet in collectives; [`collective_streams`]: how many of
//!   those at once.
//!
//! The compiler's scheduler is modelled as one that picks the first ready instruction of a window of each
//! engine. Tiles that a kernel places wait for what had their bytes before; a kernel that keeps its order
//! runs as it is written.

mod access_pages;
mod buffer_space;
pub mod collective_streams;
mod collectives;
mod dependences;
pub mod dma;
mod event_loop;
mod spill;
pub mod systolic_array;
mod tiles;

pub use collectives::{CollectiveStarts, apply_collective_starts, collective_starts, schedule_ranks};
pub use systolic_array::ClockRamp;

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::program::{DmaShape, EngineKind, Instruction, InstructionCost, NeuronProgram};
use tilewright_neuron_isa::{Chip, MemorySpace};

use dependences::BufferReuse;
pub(crate) use spill::ScheduleNode;
pub(crate) use tiles::TileTable;

/// What an instruction waited for last. Numbers are those of instructions, and of spills behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallReason {
    /// Nothing: it starts when the program does.
    Start,
    /// The engine was busy with this instruction.
    Engine(u32),
    /// This instruction's result, or its last read of what is overwritten in HBM.
    Data(u32),
    /// A buffer in SBUF or PSUM that this instruction used.
    Space(u32),
    /// HBM bandwidth or a DMA engine, or its queue, behind this transfer.
    Transfer(u32),
    /// A meeting with the other core, for which this instruction was the last.
    Barrier(u32),
    /// Other ranks, or the links between them.
    Ranks,
}

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// Start.
    pub start_ps: u64,
    /// The engine is free again.
    pub end_ps: u64,
    /// Its result can be read.
    pub done_ps: u64,
    /// Why not earlier.
    pub reason: StallReason,
}

impl Default for TimeSpan {
    fn default() -> TimeSpan {
        TimeSpan { start_ps: 0, end_ps: 0, done_ps: 0, reason: StallReason::Start }
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
    pub span: TimeSpan,
}

/// A scheduled run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// One span for each instruction.
    pub spans: Vec<TimeSpan>,
    /// Spills, which are numbered behind the instructions.
    pub spills: Vec<Spill>,
    /// From the first start to the last result.
    pub total_ps: u64,
    /// Time that each engine is busy, in the order of [`EngineKind::ALL`], summed over cores.
    pub busy_ps: [u64; 6],
    /// Most bytes of an SBUF partition that are live at once.
    pub sbuf_peak_bytes: u64,
    /// Most bytes of a PSUM partition that are live at once, in whole banks.
    pub psum_peak_bytes: u64,
}

impl Timeline {
    /// The span of an instruction or spill.
    pub fn span(&self, number: u32) -> Option<TimeSpan> {
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
pub struct InstructionWork {
    /// Time on its engine.
    pub cost: InstructionCost,
    /// How a transfer spreads.
    pub dma: Option<DmaShape>,
}

/// Places every instruction of a program in time.
pub fn schedule(chip: &Chip, program: &NeuronProgram) -> Timeline {
    schedule_if(chip, program, WhatIf::default(), &|_, work| work)
}

/// What is taken to cost nothing when a program is timed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WhatIf {
    /// SBUF is large enough for everything: nothing is spilled.
    pub no_spills: bool,
    /// Every value has a buffer of its own: nobody waits until another is through with one.
    pub own_buffers: bool,
}

/// Places every instruction in time with other costs, and as if something cost nothing.
pub fn schedule_if(
    chip: &Chip,
    program: &NeuronProgram,
    what_if: WhatIf,
    change: &dyn Fn(&Instruction, InstructionWork) -> InstructionWork,
) -> Timeline {
    let tiles = TileTable::of(chip, program);
    let nodes = spill::nodes(chip, program, &tiles, !what_if.no_spills);
    let buffers = if what_if.own_buffers { BufferReuse::Free } else { BufferReuse::Waits };
    let edges = dependences::edges(chip, program, &tiles, &nodes, buffers);
    let spans = event_loop::run(chip, program, &tiles, &nodes, &edges, change);
    let mut timeline = Timeline {
        sbuf_peak_bytes: tiles.peak_bytes(MemorySpace::Sbuf),
        psum_peak_bytes: tiles.peak_bytes(MemorySpace::Psum),
        ..Timeline::default()
    };
    timeline.total_ps = spans.iter().map(|span| span.done_ps).max().unwrap_or(0);
    for (node, span) in nodes.spills().iter().zip(spans.iter().skip(nodes.instruction_count() as usize)) {
        let (tile, saves) = match *node {
            ScheduleNode::Save(tile) => (tile, true),
            ScheduleNode::Reload(tile) => (tile, false),
            // Nothing moves; it keeps its number.
            ScheduleNode::Drop(tile) | ScheduleNode::Instruction(tile) => (tile, true),
        };
        let moves = matches!(node, ScheduleNode::Save(_) | ScheduleNode::Reload(_));
        let facts = &tiles.facts[tile as usize];
        let bytes = if moves { facts.bytes.exact_mul(facts.partitions) } else { 0 };
        timeline.spills.push(Spill { storage: facts.storage, saves, bytes, span: *span });
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
fn window(chip: &Chip, program: &NeuronProgram) -> u64 {
    if program.in_order { 1 } else { chip.neuron.sync.schedule_window.max(1) }
}

/// Time in which at least one instruction of each engine runs, summed over cores.
fn busy(program: &NeuronProgram, timeline: &Timeline) -> [u64; 6] {
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
            // Nothing of an interval that earlier ones cover.
            busy[engine] += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
    }
    busy
}
