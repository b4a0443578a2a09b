//! Where time goes that no unit uses: how a PE's time splits into overlap and waiting, and what its idle
//! units waited for.

use std::collections::BTreeMap;

use tilewright_compile::schedule_text::kind;
use tilewright_tcp_isa::program::event::{ExecUnit, PeId, Ticket};

use super::TimedCommand;

/// How the time of a PE is made up, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSplit {
    /// The tensor unit and the DMA engine work.
    pub both: u64,
    /// Only the tensor unit.
    pub tensor_unit: u64,
    /// Only the DMA engine.
    pub dma: u64,
    /// Neither, between the first command and the last.
    pub neither: u64,
}

/// Time that a main context stalled before one kind of command, and what that command had to come after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MainStall {
    /// What was waited for: a kind of command, or the control core.
    pub on: String,
    /// The kind of command that waited.
    pub before: String,
    /// Cycles of all together.
    pub cycles: u64,
    /// How often.
    pub count: u64,
}

fn of_pe(commands: &BTreeMap<Ticket, TimedCommand>, pe: PeId) -> impl Iterator<Item = &TimedCommand> {
    commands.values().filter(move |command| command.pe == pe)
}

/// Splits the time of a PE.
pub(super) fn split(commands: &BTreeMap<Ticket, TimedCommand>, pe: PeId) -> TimeSplit {
    let mut edges: Vec<(u64, bool, i64)> = Vec::new();
    for command in of_pe(commands, pe) {
        let dma = command.unit == ExecUnit::Dma;
        edges.extend([(command.start, dma, 1), (command.end, dma, -1)]);
    }
    edges.sort_unstable();
    let (mut split, mut open, mut last) = (TimeSplit::default(), [0_i64; 2], None);
    for (at, dma, change) in edges {
        let passed = at - last.unwrap_or(at);
        let part = match (open[0] > 0, open[1] > 0) {
            (true, true) => &mut split.both,
            (true, false) => &mut split.tensor_unit,
            (false, true) => &mut split.dma,
            (false, false) => &mut split.neither,
        };
        *part += passed;
        open[usize::from(dma)] += change;
        last = Some(at);
    }
    split
}

/// What a main context stalled for.
pub(super) fn main_stalls(commands: &BTreeMap<Ticket, TimedCommand>, pe: PeId) -> Vec<MainStall> {
    let mut all: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let mut free = None;
    for command in of_pe(commands, pe).filter(|command| command.unit == ExecUnit::Main) {
        let idle = command.start.saturating_sub(free.unwrap_or(command.start));
        free = Some(command.end);
        if idle == 0 {
            continue;
        }
        let waited = command.waited.iter().filter_map(|ticket| commands.get(ticket));
        let last = waited.max_by_key(|waited| waited.end);
        let stood = last.filter(|last| last.end > command.start.saturating_sub(idle));
        let gap = command.start.saturating_sub(idle)..=command.start;
        let described = |last: &TimedCommand| format!("{} ({})", kind(&last.name), last.unit.name());
        let on = stood.map(described).unwrap_or_else(|| {
            // Without a wait the core held it back: until all was done, or for others.
            let ended =
                of_pe(commands, pe).filter(|other| other.unit == ExecUnit::Dma && gap.contains(&other.end));
            let last = ended.max_by_key(|other| other.end);
            last.map_or("the queue and the control core".to_string(), |last| {
                format!("a sync or a message behind {}", described(last))
            })
        });
        let (cycles, count) = all.entry((on, kind(&command.name).to_string())).or_default();
        *cycles += idle;
        *count += 1;
    }
    let mut main_stalls: Vec<MainStall> = all
        .into_iter()
        .map(|((on, before), (cycles, count))| MainStall { on, before, cycles, count })
        .collect();
    main_stalls
        .sort_by(|a, b| b.cycles.cmp(&a.cycles).then_with(|| (&a.on, &a.before).cmp(&(&b.on, &b.before))));
    main_stalls
}
