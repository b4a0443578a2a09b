//! Where the time of a decoder block goes, operator by operator: what decides it, and what its commands take.
//!
//! An operator has the time from its first command of the main context to the first of the next, so that
//! times add up to the block. While the main context works, the slowest stage of its command decides; while
//! it waits, what the DMA engine brings meanwhile.

use std::collections::BTreeMap;

use serde::Serialize;
use tilewright_report::columns::{Align, table};
use tilewright_tcp_isa::program::event::ExecUnit;

use crate::block::{Block, BlockCommand, EXCHANGES, WEIGHTS};
use crate::measure::kind_of;
use crate::sizes::size;
use crate::spans::{CycleSpan, common, gaps, length};

/// An operator of a block, over all runs of a prompt.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OperatorTime {
    /// What it is called.
    pub operator: &'static str,
    /// Cycles of the first PE.
    pub cycles: u64,
    /// Cycles as a part of those of the block.
    pub percent: f64,
    /// Cycles of its commands in the main context.
    pub main_cycles: u64,
    /// Cycles of its commands in the sub context.
    pub sub_cycles: u64,
    /// Cycles of its transfers.
    pub dma_cycles: u64,
    /// Bytes of its weights that came within the block, on one PE: for it, or for the next block.
    pub weight_bytes: u64,
    /// Products of one PE.
    pub macs: u64,
    /// Products of one PE that are no padding.
    pub macs_useful: u64,
    /// What decided most of its time.
    pub bound: String,
    /// Everything that decided its time, in cycles.
    pub by: BTreeMap<String, u64>,
    /// Energy of its commands on all PEs, without what standing still takes.
    pub microjoules: f64,
}

/// All operators of a block.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Breakdown {
    /// Cycles of the block.
    pub cycles: u64,
    /// The operators in the order of the block.
    pub operators: Vec<OperatorTime>,
}

impl Breakdown {
    /// Adds the block of a run.
    pub(crate) fn add(&mut self, block: &Block, pes: u64) {
        if self.operators.is_empty() {
            let new = |label| OperatorTime { operator: label, ..OperatorTime::default() };
            self.operators = block.operators.iter().map(|operator| new(operator.label)).collect();
        }
        self.cycles += block.cycles();
        let waits = StallCauses::new(block);
        for (at, operator) in self.operators.iter_mut().enumerate() {
            let is_own = |command: &&BlockCommand| command.operator == Some(at) || command.ahead == Some(at);
            let own: Vec<&BlockCommand> = block.commands.iter().filter(is_own).collect();
            operator.commands(&own, pes);
            for span in spans_of(block, at) {
                operator.decided(span, &own, &waits);
            }
        }
        let all = size(self.cycles.max(1));
        for operator in &mut self.operators {
            operator.percent = size(operator.cycles) / all * 100.0;
            let most = operator.by.iter().max_by_key(|(_, cycles)| **cycles);
            operator.bound = most.map_or(String::new(), |(what, _)| what.clone());
        }
    }
}

/// Stretches of an operator: from its first main command on until one of another operator starts.
fn spans_of(block: &Block, at: usize) -> Vec<CycleSpan> {
    let main: Vec<(usize, u64)> = block
        .commands
        .iter()
        .filter(|command| command.unit == ExecUnit::Main)
        .filter_map(|command| Some((command.operator?, command.span.0)))
        .collect();
    let mut spans = Vec::new();
    for (index, (operator, start)) in main.iter().enumerate() {
        let from = if index == 0 { 0 } else { *start };
        let to = main.get(index + 1).map_or(block.cycles(), |(_, next)| *next);
        if *operator == at && from < to {
            spans.push((from, to));
        }
    }
    crate::spans::union(spans)
}

/// Why a main context may wait: transfers under way.
struct StallCauses {
    kinds: [(&'static str, Vec<CycleSpan>); 3],
}

impl StallCauses {
    fn new(block: &Block) -> StallCauses {
        let dma = |which: &dyn Fn(&str) -> bool| {
            block.spans(|command| command.unit == ExecUnit::Dma && which(kind_of(&command.name)))
        };
        let exchange = |kind: &str| EXCHANGES.contains(&kind);
        StallCauses {
            kinds: [
                ("exchange between PEs", dma(&exchange)),
                ("weights", dma(&|kind| kind == WEIGHTS)),
                ("caches and tables", dma(&|kind| kind != WEIGHTS && !exchange(kind))),
            ],
        }
    }
}

impl OperatorTime {
    fn commands(&mut self, own: &[&BlockCommand], pes: u64) {
        for command in own {
            let cycles = command.span.1 - command.span.0;
            match command.unit {
                ExecUnit::Main => self.main_cycles += cycles,
                ExecUnit::Sub => self.sub_cycles += cycles,
                _ => self.dma_cycles += cycles,
            }
            if kind_of(&command.name) == WEIGHTS {
                self.weight_bytes += command.bytes;
            }
            self.macs += command.macs[0];
            self.macs_useful += command.macs[1];
            self.microjoules += command.energy_fj * size(pes) * 1e-9;
        }
    }

    /// What decided the cycles of a stretch.
    fn decided(&mut self, span: CycleSpan, own: &[&BlockCommand], waits: &StallCauses) {
        self.cycles += span.1 - span.0;
        let mut add = |what: String, cycles: u64| {
            if cycles > 0 {
                *self.by.entry(what).or_default() += cycles;
            }
        };
        let within = |command: &&&BlockCommand| {
            command.unit == ExecUnit::Main && command.span.0 < span.1 && command.span.1 > span.0
        };
        let mut busy = Vec::new();
        for command in own.iter().filter(within) {
            let part = (command.span.0.max(span.0), command.span.1.min(span.1));
            busy.push(part);
            add(command.binding.unwrap_or("command").to_string(), part.1 - part.0);
        }
        let mut idle = gaps(&crate::spans::union(busy), span);
        for (what, spans) in &waits.kinds {
            let meanwhile = common(&idle, spans);
            add(format!("waits: {what}"), length(&meanwhile));
            idle = idle.into_iter().flat_map(|gap| gaps(&meanwhile, gap)).collect();
        }
        add("waits: commands and messages".to_string(), length(&idle));
    }
}

/// As text.
pub(crate) fn text(breakdown: &Breakdown) -> String {
    let head = [
        "operator",
        "cycles",
        "of the block",
        "TU",
        "TDMA",
        "MB of weights",
        "GMAC of a PE",
        "uJ",
        "bound by",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for operator in &breakdown.operators {
        rows.push(vec![
            operator.operator.to_string(),
            operator.cycles.to_string(),
            format!("{:.1} %", operator.percent),
            operator.main_cycles.to_string(),
            operator.dma_cycles.to_string(),
            format!("{:.2}", size(operator.weight_bytes) / 1e6),
            format!("{:.2}", size(operator.macs) / 1e9),
            format!("{:.0}", operator.microjoules),
            operator.bound.clone(),
        ]);
    }
    let mut aligns = [Align::Right; 9];
    aligns[0] = Align::Left;
    aligns[8] = Align::Left;
    table(&aligns, &rows)
}
