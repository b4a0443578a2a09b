//! `tilewright notation check`: the verdict in words or as JSON.

use tilewright_base::Span;
use tilewright_machine::LoadedMachine;
use tilewright_notation::problem::{Axis, Digit, Problem};
use tilewright_notation::radix::superscript;
use tilewright_notation::reuse::Reuse;
use tilewright_notation::syntax::ast::{Operand, Program, Term};
use tilewright_notation::syntax::expr::Expr;
use tilewright_report::columns::{counted, thousands};
use tilewright_tcp_cost::legality::SliceReduction;
use tilewright_tcp_cost::{PlacedTactic, Setup, Verdict};
use tilewright_workbench::notation::{NotationInput, verdict as as_data};

use super::gather;
use crate::args::CheckArgs;
use crate::host::Host;
use crate::machine::to_json;
use crate::outcome::{BAD_INPUT, FAILED, GOOD, Outcome, rendered};

pub(super) fn run(args: &CheckArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut gathered = gather::read(&args.notation, host)?;
    let (loaded, tcp) = gather::target(&mut gathered.sources, &args.notation.target, host)?;
    let setup = gather::setup(&gathered, &tcp, args.notation.target.pes)?;
    let problem = resolve(&gathered, args.json, host)?;
    let mut verdict = tilewright_tcp_cost::check(&setup, &problem);
    tilewright_tcp_lower::confirm(&setup, &problem, &mut verdict);
    let code = if verdict.legal() { GOOD } else { FAILED };
    if args.json {
        let NotationInput { sources, program } = &gathered;
        let data = as_data::value(sources, program, &setup, &problem, &verdict, &loaded.name);
        return Ok(Outcome { code, stdout: to_json(&data), ..Outcome::default() });
    }
    let stderr = rendered(&gathered.sources, &verdict.diagnostics, host.colour());
    let stdout = if verdict.legal() {
        summary(&gathered.program, &setup, &problem, &verdict, &loaded)
    } else {
        let errors =
            verdict.diagnostics.iter().filter(|d| d.severity == tilewright_base::Severity::Error).count();
        format!("illegal on {}: {errors} {}\n", loaded.name, if errors == 1 { "reason" } else { "reasons" })
    };
    Ok(Outcome { code, stdout, stderr, ..Outcome::default() })
}

/// Numbers for names; complaints end the command.
pub(super) fn resolve(gathered: &NotationInput, as_json: bool, host: &dyn Host) -> Result<Problem, Outcome> {
    Problem::new(&gathered.program).map_err(|complaints| {
        // Names and sizes that do not resolve are unreadable; digits that do not fit are illegal.
        let stdout =
            if as_json { to_json(&as_data::refusal(&gathered.sources, &complaints)) } else { String::new() };
        Outcome { stdout, ..Outcome::refused(BAD_INPUT, &gathered.sources, &complaints, host.colour()) }
    })
}

/// What is known about a legal program.
pub(crate) fn summary(
    program: &Program,
    setup: &Setup<'_>,
    problem: &Problem,
    verdict: &Verdict,
    loaded: &LoadedMachine,
) -> String {
    let pes =
        if setup.fused_pes == 1 { "1 PE".to_string() } else { format!("{} fused PEs", setup.fused_pes) };
    let mut lines =
        vec![format!("legal on {}, {pes} ({} slices), {}", loaded.name, setup.slices(), setup.dtype.name())];
    lines.push(format!("  {}   {}", program.einsum, sizes(problem)));
    for operand in Operand::ALL {
        if let (Some(shape), Some(use_)) = (program.shape(operand), footprint(verdict, operand)) {
            lines.push(format!("  {:<7}{shape}", operand.name()));
            lines.push(format!("         {use_}"));
        }
    }
    if let Some(tactic) = &program.tactic {
        lines.push(format!("  tactic {tactic}"));
    }
    if let Some(placed) = &verdict.placed {
        lines.extend(placed_lines(program, setup, problem, placed, verdict));
    }
    if let Some(reduction) = &verdict.reduction {
        lines.push(format!("    sums       {}", reduction_words(reduction)));
    }
    lines.extend(split_lines(problem));
    lines.join("\n") + "\n"
}

fn sizes(problem: &Problem) -> String {
    let one = |axis: &Axis| {
        let dynamic = if axis.dynamic { "<=" } else { "=" };
        let split =
            if axis.pes > 1 { format!(" ({} of {})", axis.extent, axis.whole) } else { String::new() };
        format!("{}{dynamic}{}{split}", axis.name, if axis.pes > 1 { axis.whole } else { axis.extent })
    };
    problem.axes.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn footprint(verdict: &Verdict, operand: Operand) -> Option<String> {
    let found = verdict.footprints.iter().find(|footprint| footprint.operand == operand)?;
    Some(format!(
        "{} x {} of {} B of {}",
        counted(found.slices, "slice"),
        thousands(found.bytes_per_slice),
        thousands(found.capacity_bytes),
        found.place.name(),
    ))
}

fn placed_lines(
    program: &Program,
    setup: &Setup<'_>,
    problem: &Problem,
    placed: &PlacedTactic,
    verdict: &Verdict,
) -> Vec<String> {
    let digits = |digits: &[Digit]| terms(problem, digits);
    let mut lines = vec![
        format!("    slices     {}", digits(&placed.parallel)),
        format!("    time       {}", digits(&placed.time)),
        format!(
            "    lanes      {}   {} of {}",
            digits(&placed.lanes),
            placed.lane_count(),
            setup.machine.ce.lanes
        ),
        format!(
            "    packet     {}   {} of {} elements, tree depth {}, {} a lane",
            digits(&placed.packet),
            placed.packet_elements(),
            setup.packet_elements(),
            placed.tree_depth(),
            counted(placed.columns, "column"),
        ),
        format!(
            "    engine     {} a slice at {:.1} % of its multipliers",
            counted(placed.engine_cycles(), "cycle"),
            100.0 * placed.multiplier_use(setup, problem)
        ),
    ];
    if let Some(delivery) = verdict.delivery {
        let words = match (delivery.receivers, delivery.ring_slices) {
            (1, 1) => "each slice reads its own".to_string(),
            (1, ring) => format!("packets come from rings of {ring} slices"),
            (n, _) => format!("each packet to {n} slices, rings of {}", delivery.ring_slices),
        };
        let read = verdict.read_bytes.map_or(String::new(), |bytes| format!(", reads of {bytes} B"));
        lines.push(format!("    {}        {words}{read}", problem.streamed().name()));
        let flit = setup.machine.network.flit_bytes;
        let packet_bytes = (placed.packet_elements() * setup.element_bits()).div_ceil(8);
        let flits = placed.packets().saturating_mul(packet_bytes.div_ceil(flit));
        lines.push(format!(
            "    stream     {} of {packet_bytes} B, {} at {flit} B a cycle",
            counted(placed.packets(), "packet"),
            counted(flits, "cycle"),
        ));
    }
    if let Some(reuse) = &verdict.reuse {
        lines.push(format!(
            "    reuse      each fetched element of {} is used {}",
            problem.streamed().name(),
            reuse_words(program, reuse)
        ));
    }
    for sequence in &verdict.sequences {
        lines.push(format!(
            "    {:<10} {}   {} of {} sequencer entries",
            format!("{} loops", sequence.operand.name()),
            sequence.pattern,
            sequence.entries,
            setup.machine.sequencer.entries
        ));
    }
    lines
}

/// The count and its factors in the words of the tactic: a term that was cut into repeats and lanes counts as
/// written.
fn reuse_words(program: &Program, reuse: &Reuse) -> String {
    let mut factors: Vec<(Span, u64)> = Vec::new();
    for digit in reuse.factors() {
        match factors.iter_mut().find(|(span, _)| *span == digit.span) {
            Some((_, size)) => *size *= digit.live,
            None => factors.push((digit.span, digit.live)),
        }
    }
    let words: Vec<String> =
        factors.iter().map(|(span, size)| size_as_written(program, *span, *size)).collect();
    let (product, count) = (words.join(" x "), thousands(reuse.count()));
    match reuse.count() {
        1 => "once".to_string(),
        _ if product == count => format!("{count} times"),
        _ => format!("{product} = {count} times"),
    }
}

/// The size of the term at `span` as it was written, if all of it counts.
fn size_as_written(program: &Program, span: Span, size: u64) -> String {
    let Some(tactic) = &program.tactic else { return thousands(size) };
    let lanes = tactic.roles.iter().flat_map(|(lanes, _)| lanes);
    let mut terms = tactic.parallel.iter().chain(&tactic.slice).chain(lanes);
    let symbolic = |term: &&Term| term.span == span && matches!(term.size, Expr::Symbol(_) | Expr::Binary(_));
    let whole = |term: &Term| program.size_value(&term.size) == Some(size);
    terms.find(symbolic).filter(|term| whole(term)).map_or(thousands(size), |term| term.size.to_string())
}

/// Digits as canonical terms with their numbers.
fn terms(problem: &Problem, digits: &[Digit]) -> String {
    let term = |digit: &Digit| {
        let name = digit.axis.map_or("_".to_string(), |axis| problem.axis(axis).name.to_string());
        let size = match (digit.padded, digit.slots == digit.live) {
            (_, false) => format!("{}#{}", digit.live, digit.slots),
            (true, true) => format!("{}#", digit.live),
            (false, true) => digit.live.to_string(),
        };
        format!("{name}^{}[{size}]", superscript(digit.stride))
    };
    if digits.is_empty() { "-".to_string() } else { digits.iter().map(term).collect::<Vec<_>>().join(" ") }
}

fn reduction_words(reduction: &SliceReduction) -> String {
    use tilewright_tcp_cost::legality::FreedSlices;
    let who = if reduction.by_reducer { "the inter-slice reducer" } else { "DMA and the vector engine" };
    let freed = match reduction.freed {
        Some(FreedSlices::Broadcast) => ", each of them keeps the result",
        Some(FreedSlices::Idle) => ", one of them keeps the result",
        Some(FreedSlices::Scatter) => ", each of them keeps a part of the result",
        None => "",
    };
    format!("parts on {} slices, combined by {who}{freed}", reduction.group_slices)
}

/// What a split over PEs entails.
fn split_lines(problem: &Problem) -> Vec<String> {
    let split = problem.axis_ids().filter(|id| problem.axis(*id).pes > 1);
    let out = |axis: &Axis| axis.extent_in[Operand::Out as usize];
    let scattered = problem.axes.iter().any(|axis| out(axis) != 0 && out(axis) < axis.extent);
    split
        .map(|id| {
            let axis = problem.axis(id);
            let (name, pes) = (axis.name, axis.pes);
            if problem.contracted(id) {
                let how = if scattered { "reduce-scatter" } else { "all-reduce" };
                format!("    PEs        partial sums over `{name}` on {pes} PE groups: {how} by DMA")
            } else if problem.has_out && out(axis) > axis.extent {
                format!("    PEs        `{name}` in {pes} parts, whole in the output: all-gather by DMA")
            } else {
                format!("    PEs        `{name}` in {pes} parts, no exchange")
            }
        })
        .collect()
}
