//! The critical path: from the last result back through what each instruction waited for; and what engines
//! waited for while they were idle.

use std::collections::BTreeMap;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::program::{EngineKind, NeuronProgram};

use crate::schedule::{StallReason, Timeline};

/// A line's part of the critical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPathShare {
    /// Line, in the program's table.
    pub source: u32,
    /// Time of the path that ends in an instruction of this line.
    pub time_ps: u64,
    /// Instructions of this line on the path.
    pub count: u64,
    /// Engine of most of them.
    pub engine: EngineKind,
}

/// The critical path by line, longest first. Spills count as the line that made their tensor.
pub fn critical_path(program: &NeuronProgram, timeline: &Timeline) -> Vec<CriticalPathShare> {
    let count = timeline.spans.len() + timeline.spills.len();
    let last = (0_u32..).take(count).max_by_key(|&number| {
        (timeline.span(number).or_broken("a number without a span").done_ps, std::cmp::Reverse(number))
    });
    let mut shares: BTreeMap<(u32, EngineKind), (u64, u64)> = BTreeMap::new();
    let (mut at, mut mark_ps) = (last, timeline.total_ps);
    let mut steps = 0;
    while let Some(number) = at
        && let Some(span) = timeline.span(number)
        && steps <= count
    {
        steps += 1;
        let before = match span.reason {
            StallReason::Data(before)
            | StallReason::Engine(before)
            | StallReason::Space(before)
            | StallReason::Transfer(before)
            | StallReason::Barrier(before) => Some(before),
            StallReason::Start | StallReason::Ranks => None,
        };
        let from_ps = match (span.reason, before.and_then(|before| timeline.span(before))) {
            (StallReason::Data(_) | StallReason::Barrier(_), Some(earlier)) => earlier.done_ps,
            (_, Some(earlier)) => earlier.end_ps,
            (StallReason::Ranks, None) => span.start_ps,
            _ => 0,
        };
        let share = shares.entry(line_and_engine(program, timeline, number)).or_default();
        // What a later step of the path covers already is not counted again.
        share.0 = share.0.exact_add(mark_ps.saturating_sub(from_ps));
        share.1 += 1;
        mark_ps = mark_ps.min(from_ps);
        at = before;
    }
    let mut list: Vec<CriticalPathShare> = shares
        .into_iter()
        .map(|((source, engine), (time_ps, count))| CriticalPathShare { source, time_ps, count, engine })
        .collect();
    list.sort_by_key(|share| (std::cmp::Reverse(share.time_ps), share.source));
    list
}

fn line_and_engine(program: &NeuronProgram, timeline: &Timeline, number: u32) -> (u32, EngineKind) {
    if let Some(instruction) = program.instructions.get(number as usize) {
        return (instruction.source, instruction.engine);
    }
    let spill = &timeline.spills[(number as usize).exact_sub(timeline.spans.len())];
    (program.allocations[spill.storage as usize].source, EngineKind::Dma)
}

/// Why an engine did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleReason {
    /// It waited for a result of this engine.
    Engine(EngineKind),
    /// It waited for a buffer in SBUF or PSUM that this line still used.
    Buffer(u32),
    /// It waited for room in SBUF that a tile left on its way to HBM.
    Spill,
    /// It waited for the other core.
    Barrier,
    /// It waited for other ranks.
    Ranks,
    /// It had nothing left to do.
    Done,
}

impl IdleReason {
    /// In words.
    pub fn describe(self, program: &NeuronProgram) -> String {
        match self {
            IdleReason::Engine(engine) => format!("stalled on {}", engine.name()),
            IdleReason::Buffer(source) => format!("stalled on the buffer used at {}", program.source(source)),
            IdleReason::Spill => "stalled on a spill".to_owned(),
            IdleReason::Barrier => "stalled on the core barrier".to_owned(),
            IdleReason::Ranks => "stalled on other ranks".to_owned(),
            IdleReason::Done => "finished".to_owned(),
        }
    }
}

/// Start, end and reason of instructions.
type EngineIntervals = Vec<(u64, u64, StallReason)>;

/// Idle time of each engine by what it waited for, summed over cores; engines that ran nothing are left out.
pub fn idle_times(program: &NeuronProgram, timeline: &Timeline) -> BTreeMap<(EngineKind, IdleReason), u64> {
    let mut lanes: BTreeMap<(EngineKind, u32), EngineIntervals> = BTreeMap::new();
    for (instruction, span) in program.instructions.iter().zip(&timeline.spans) {
        let lane = lanes.entry((instruction.engine, program.core(instruction))).or_default();
        lane.push((span.start_ps, span.end_ps, span.reason));
    }
    let mut found = BTreeMap::new();
    for ((engine, _), mut lane) in lanes {
        lane.sort_unstable_by_key(|&(start_ps, end_ps, _)| (start_ps, end_ps));
        let mut until_ps = 0;
        for (start_ps, end_ps, reason) in lane {
            if start_ps > until_ps {
                *found.entry((engine, idle_reason(program, reason))).or_insert(0) += start_ps - until_ps;
            }
            until_ps = until_ps.max(end_ps);
        }
        *found.entry((engine, IdleReason::Done)).or_insert(0) += timeline.total_ps.exact_sub(until_ps);
    }
    found
}

fn idle_reason(program: &NeuronProgram, reason: StallReason) -> IdleReason {
    let engine = |number: u32| {
        program.instructions.get(number as usize).map_or(EngineKind::Dma, |instruction| instruction.engine)
    };
    match reason {
        StallReason::Start => IdleReason::Engine(EngineKind::Dma),
        StallReason::Data(number) | StallReason::Engine(number) => IdleReason::Engine(engine(number)),
        StallReason::Transfer(_) => IdleReason::Engine(EngineKind::Dma),
        StallReason::Space(number) => program
            .instructions
            .get(number as usize)
            .map_or(IdleReason::Spill, |instruction| IdleReason::Buffer(instruction.source)),
        StallReason::Barrier(_) => IdleReason::Barrier,
        StallReason::Ranks => IdleReason::Ranks,
    }
}
