//! A candidate in words: the loop nest, where each operand lives, why so many cycles, and what bounds it.

use std::fmt::Write as _;

use tilewright_base::invariant::Exact;
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::cycles::PipelineStage;
use tilewright_tcp_isa::program::exec::Drain;

use crate::cost_math::CostMath;
use crate::tcp::operand_transfers::times;
use crate::tcp::point::{LoadContext, ORDERS, StreamSupply, TimeLoop};
use crate::tcp::report::TcpReport;
use crate::tcp::task::TcpTask;

/// Sentences about a candidate, one a line.
pub fn explain(task: &TcpTask<'_>, report: &TcpReport) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "  {words}");
    };
    slices(task, report, &mut line);
    brought(task, report, &mut line);
    operands(task, report, &mut line);
    loops(report, &mut line);
    cycles(task, report, &mut line);
    text
}

fn slices(task: &TcpTask<'_>, report: &TcpReport, line: &mut dyn FnMut(String)) {
    let nest = &report.nest;
    let commands = report.framed.frame.commands();
    if commands > 1 {
        line(format!(
            "Operands do not fit at once: the einsum runs in {commands} parts of the same size, each a load \
             and a contraction."
        ));
    }
    let all = task.setup.slices();
    let split: Vec<String> = (0..task.axes.len())
        .filter(|axis| report.framed.frame.slices_log2[*axis] > 0)
        .map(|axis| {
            format!("{} over {}", task.axes[axis].name, 1_u64 << report.framed.frame.slices_log2[axis])
        })
        .collect();
    let how = if split.is_empty() { "nothing is split".to_string() } else { split.join(", ") };
    line(format!("{} of {all} slices work: {how}.", nest.live_slices));
}

/// Where operands come from, and how long that takes.
fn brought(task: &TcpTask<'_>, report: &TcpReport, line: &mut dyn FnMut(String)) {
    let frame = &report.framed.frame;
    for (at, operand) in
        [Operand::In0, Operand::In1].into_iter().enumerate().filter(|(at, _)| task.from_hbm[*at])
    {
        let cycles = report.columns.bring_cycles[at];
        let often = match (times(task, frame, operand), frame.commands()) {
            (_, 1) => String::new(),
            (1, _) => ", once for all parts".to_string(),
            (times, _) => format!(", for each of {times} parts"),
        };
        line(format!(
            "{} starts in HBM: a transfer brings {} B to the slices in {cycles} cycles{often}; commands wait \
             for it.",
            operand.name(),
            report.brought_bytes[at]
        ));
    }
}

fn operands(task: &TcpTask<'_>, report: &TcpReport, line: &mut dyn FnMut(String)) {
    let nest = &report.nest;
    let machine = task.setup.machine;
    let (held, streamed) = (report.framed.stationary().name(), report.framed.frame.streamed().name());
    let bytes = |elements: u64| elements * task.setup.element_bits() / 8;
    let context = match report.candidate.choice.loading {
        LoadContext::Main => "main",
        LoadContext::Sub => "sub",
    };
    line(format!(
        "{held} is held: {} B a slice of {} B of register files, loaded by the {context} context in {} \
         cycles.",
        bytes(nest.held_elements()),
        machine.ce.lanes * machine.trf_lane_payload_bytes(),
        report.columns.load_cycles
    ));
    let arrives = match (report.candidate.choice.supply, nest.held_slices) {
        (StreamSupply::Own, 1) => "each slice reads its own".to_string(),
        (StreamSupply::Own, copies) => format!("{copies} copies in data memory, each slice reads its own"),
        (StreamSupply::RingOuter, _) => {
            format!("rings of {} slices multicast one slice's rows after the other's", nest.ring)
        }
        (StreamSupply::RingInner, _) => {
            let ring = nest.ring * nest.summed_slices;
            format!("rings of {ring} slices multicast a row of each of {} in turn", nest.ring)
        }
    };
    line(format!(
        "{streamed} is streamed: {} B a slice, {arrives}, in fetches of {} B; an element is multiplied {} \
         times for each fetch.",
        bytes(nest.streamed_elements()),
        report.candidate.choice.fetch_bytes,
        report.stream_reuse
    ));
    let all = machine.dm.capacity_bytes;
    line(format!(
        "Both and the results take {} of {all} B of data memory a slice.",
        report.data_memory_bytes
    ));
    if nest.summed_slices > 1 {
        line(format!("Sums lie in parts on {} slices; the reducer adds them.", nest.summed_slices));
    }
}

fn loops(report: &TcpReport, line: &mut dyn FnMut(String)) {
    let (nest, choice) = (&report.nest, &report.candidate.choice);
    let mut words: Vec<String> = Vec::new();
    for turn in ORDERS[usize::from(choice.order)] {
        let size = nest.turn(turn, choice.supply);
        let what = match turn {
            TimeLoop::Batch => "batch positions",
            TimeLoop::Passes => "passes of the stream",
            TimeLoop::Rows => "packets of rows",
            TimeLoop::Chunks => "packets along the sum",
        };
        if size > 1 {
            words.push(format!("{size} {what}"));
        }
    }
    if choice.supply == StreamSupply::RingInner && nest.ring > 1 {
        words.push(format!("{} slices of the ring", nest.ring));
    }
    if nest.repeats > 1 {
        words.push(format!("{} repeats of a packet", nest.repeats));
    }
    let nested = if words.is_empty() { "one step".to_string() } else { words.join(", of ") };
    line(format!("In time: {nested}."));
    line(format!(
        "In a step: {} lanes each multiply a packet of {} x {} elements and sum {} of them in the tree.",
        nest.lanes, nest.columns, nest.tree, nest.tree
    ));
    let groups = report.commands.groups();
    if nest.chunks > 1 {
        line(format!(
            "Accumulators keep {} sums for each output of a lane while {} packets are summed.",
            groups.open, nest.chunks
        ));
    }
    let order = match report.commands.drain() {
        Drain::Interleaved => "all lanes side by side",
        Drain::Sequential => "lane after lane",
    };
    line(format!("Sums leave {order}."));
}

fn cycles(task: &TcpTask<'_>, report: &TcpReport, line: &mut dyn FnMut(String)) {
    let columns = &report.columns;
    let stages = [
        (columns.mac, "products"),
        (columns.stream, "the stream"),
        (columns.drain, "sums that leave"),
        (columns.vector, "the vector engine"),
        (columns.commit, "the commit unit"),
    ];
    let slowest = stages.iter().map(|(cycles, _)| *cycles).max().unwrap_or(0);
    let bounds: Vec<&str> =
        stages.iter().filter(|(cycles, _)| *cycles == slowest).map(|(_, name)| *name).collect();
    let overhead = task.setup.machine.command.overhead_cycles;
    line(format!(
        "The contraction takes {} cycles: {overhead} to start, {slowest} for {}, {} that do not overlap.",
        columns.contract_cycles,
        bounds.join(" and "),
        columns.contract_cycles.exact_sub(overhead).exact_sub(slowest)
    ));
    if columns.bridge_cycles > 0 {
        line(format!(
            "Single words cannot be written where they belong: a copy of {} cycles follows.",
            columns.bridge_cycles
        ));
    }
    let bound = match columns.binding {
        PipelineStage::Contraction if columns.mac < columns.stream => {
            "the feed: packets arrive slower than they are used"
        }
        PipelineStage::Contraction => "the multipliers",
        PipelineStage::Fetch => "the fetch unit",
        PipelineStage::Switch | PipelineStage::Collect => "the network",
        PipelineStage::Drain => "the drain of the accumulators",
        PipelineStage::Vector | PipelineStage::Cast => "the vector engine",
        PipelineStage::Transpose | PipelineStage::Commit | PipelineStage::Load => "the commit unit",
    };
    line(format!(
        "It is bound by {bound}; {:.1} % of the group's multipliers are used.",
        100.0 * report.utilisation
    ));
    let transfers = columns.bring_cycles.iter().fold(0_u64, |all, cycles| all.plus_cost(*cycles));
    if transfers > 0 {
        line(format!(
            "Of the {} cycles of a part, {transfers} wait for HBM and {} are for commands.",
            columns.part_cycles,
            columns.part_cycles.exact_sub(transfers)
        ));
    }
}
