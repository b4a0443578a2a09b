//! A candidate in words: the loops, where each operand lives, why it takes so long, and what bounds it.

use std::fmt::Write as _;

use super::memory_use::ROWS_OUT;
use super::point::{BlockCopies, DrainEngine, MatmulAxis, PartialSums};
use super::report::{NeuronReport, side_name};
use super::task::NeuronTask;
use tilewright_notation::syntax::ast::Operand;

/// Sentences about a candidate, one a line.
pub fn explain(task: &NeuronTask<'_>, report: &NeuronReport) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        let _ = writeln!(text, "  {words}");
    };
    tiles(report, &mut line);
    blocks(task, report, &mut line);
    sums(task, report, &mut line);
    times(report, &mut line);
    text
}

fn tiles(report: &NeuronReport, line: &mut dyn FnMut(String)) {
    let plan = &report.plan;
    let [held, moving, summed] = plan.cuts;
    let stationary = plan.frame.stationary;
    let other = if stationary == Operand::In0 { Operand::In1 } else { Operand::In0 };
    line(format!(
        "{} is stationary in tiles of {} x {}, {} moves in tiles of {} x {}: {} matmuls.",
        stationary.name(),
        summed.size(false),
        held.size(false),
        other.name(),
        summed.size(false),
        moving.size(false),
        report.totals.matmuls
    ));
    let loops: Vec<String> = plan
        .order()
        .iter()
        .filter(|side| plan.cut(**side).blocks() > 1)
        .map(|side| format!("{} blocks of {}", plan.cut(*side).blocks(), side_name(*side)))
        .collect();
    let mut nest = if plan.batch > 1 { vec![format!("{} batch positions", plan.batch)] } else { Vec::new() };
    nest.extend(loops);
    nest.push(format!(
        "{} x {} tiles of results",
        held.block.min(held.tiles()),
        moving.block.min(moving.tiles())
    ));
    nest.push(format!("{} tiles along the sum", summed.block.min(summed.tiles())));
    line(format!("In time: {}.", nest.join(", of ")));
}

fn blocks(task: &NeuronTask<'_>, report: &NeuronReport, line: &mut dyn FnMut(String)) {
    let plan = &report.plan;
    for (at, (side, what)) in
        [(MatmulAxis::Held, "stationary"), (MatmulAxis::Moving, "moving")].into_iter().enumerate()
    {
        let bytes = if side == MatmulAxis::Held { report.room.held_bytes } else { report.room.moving_bytes };
        let copies = match plan.choice.copies {
            BlockCopies::Block => "one copy for each block",
            BlockCopies::Tile => "one copy for each tile along the sum",
        };
        line(format!(
            "The {what} operand has room for {} of its blocks, {bytes} B a partition; {} blocks come from \
             HBM in {} copies, {copies}.",
            plan.buffers(side),
            plan.loads(side),
            report.totals.load_copies[at]
        ));
    }
    line(format!(
        "{ROWS_OUT} rows of results on their way out take {} B a partition; all of SBUF that is used is {} \
         of {} B.",
        report.room.out_bytes,
        report.room.sbuf_bytes(),
        task.chip.sbuf_usable_bytes()
    ));
}

fn sums(task: &NeuronTask<'_>, report: &NeuronReport, line: &mut dyn FnMut(String)) {
    let plan = &report.plan;
    let banks = task.chip.neuron.psum.banks;
    let open = match (plan.cut(MatmulAxis::Summed).blocks(), plan.choice.sums) {
        (1, _) => "each tile of results is summed in one run".to_string(),
        (blocks, PartialSums::Psum) => {
            format!("{} tiles of results stay open over {blocks} blocks of the sum", plan.open_tiles())
        }
        (blocks, PartialSums::Sbuf) => format!(
            "parts of {blocks} blocks of the sum are added in SBUF, where they take {} B a partition",
            report.room.sums_bytes
        ),
    };
    line(format!("A tile of sums takes {} of {banks} banks of PSUM; {open}.", report.room.tile_banks));
    let who = match plan.choice.drain {
        DrainEngine::Vector => "the Vector engine",
        DrainEngine::Scalar => "the Scalar engine",
        DrainEngine::Both => "the Vector and the Scalar engine in turn",
    };
    line(format!("Results leave PSUM through {who}: {} tiles.", report.totals.leaves));
}

/// What each engine and queue does, longest first.
pub fn engines(report: &NeuronReport) -> Vec<(&'static str, u64)> {
    let totals = &report.totals;
    let mut engines = vec![
        ("the tensor engine", totals.tensor_ps),
        ("the Vector engine", totals.drain_ps[0]),
        ("the Scalar engine", totals.drain_ps[1]),
        ("the queue of loads", totals.load_queue_ps[0].max(totals.load_queue_ps[1])),
        ("the queue of stores", totals.store_queue_ps),
    ];
    engines.sort_by_key(|(_, ps)| std::cmp::Reverse(*ps));
    engines
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn times(report: &NeuronReport, line: &mut dyn FnMut(String)) {
    let ticks = report.candidate.ticks;
    let part = |ps: u64| 100.0 * ps as f64 / ticks.max(1) as f64;
    let words: Vec<String> = engines(report)
        .iter()
        .filter(|(_, ps)| *ps > 0)
        .map(|(name, ps)| format!("{name} {:.1} us ({:.1} %)", *ps as f64 * 1e-6, part(*ps)))
        .collect();
    line(format!("Busy: {}.", words.join(", ")));
    let Some((name, ps)) = engines(report).first().copied() else { return };
    line(format!(
        "It takes {:.1} us and is bound by {name}: {:.1} us are its work, the rest is the way in and out of \
         SBUF and waiting; {:.1} % of the array's products are used.",
        ticks as f64 * 1e-6,
        ps as f64 * 1e-6,
        100.0 * report.utilisation
    ));
}
