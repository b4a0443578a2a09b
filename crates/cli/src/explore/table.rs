//! What was found, in words and columns.

use std::fmt::Write as _;

use tilewright_explore::Goal;
use tilewright_explore::refusal::{Reason, Refusal};
use tilewright_explore::tcp::point::{Loading, Supply};
use tilewright_explore::tcp::{Candidate, Found, Task, Told};
use tilewright_notation::syntax::ast::Operand;
use tilewright_report::columns::{Align, table, thousands};

use super::args::ExploreArgs;
use super::verify::Check;

/// Everything about a search that found something.
pub(crate) fn answer(
    task: &Task<'_>,
    found: &Found,
    args: &ExploreArgs,
    checks: &[Check],
    goal: Goal,
    seconds: f64,
) -> String {
    let mut text = headline(task, found, goal, seconds);
    let best: Vec<Told> = told(task, found, found.kept.best());
    text.push_str(&candidates(best.iter().take(args.keep)));
    if let Some(best) = best.first() {
        text.push_str(&spelled(best));
    }
    let front = told(task, found, found.kept.front());
    let _ = writeln!(text, "front     {}", front_words(&front));
    for (number, check) in checks.iter().enumerate() {
        let _ = writeln!(text, "{}", checked(number + 1, check));
    }
    text
}

fn told(task: &Task<'_>, found: &Found, candidates: &[Candidate]) -> Vec<Told> {
    candidates.iter().filter_map(|candidate| Told::new(task, found, candidate)).collect()
}

/// Cycles and energy of the points that no other beats in both, fastest first.
fn front_words(front: &[Told]) -> String {
    const MOST: usize = 8;
    let one = |told: &Told| {
        format!(
            "{} cycles {} pJ",
            thousands(told.candidate.ticks),
            thousands(told.candidate.energy_fj / 1000)
        )
    };
    let mut words: Vec<String> = front.iter().take(MOST).map(one).collect();
    if front.len() > MOST {
        words.push(format!("{} more", front.len() - MOST));
    }
    words.join("; ")
}

/// What was searched, how far, and what bounds it.
pub(crate) fn headline(task: &Task<'_>, found: &Found, goal: Goal, seconds: f64) -> String {
    let setup = &task.setup;
    let what = match goal {
        Goal::Time => "least cycles".to_string(),
        Goal::Energy => "least energy".to_string(),
        Goal::EnergyDelay => "least energy times cycles".to_string(),
        Goal::TimeBelow(milliwatts) => format!("least cycles below {milliwatts} mW"),
    };
    let mut text =
        format!("{} on {} slices, {}: {what}\n", task.program.einsum, setup.slices(), setup.dtype.name());
    let rate = if seconds > 0.0 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let millions = found.evaluated as f64 / seconds / 1e6;
        format!(" in {seconds:.2} s, {millions:.1} M a second")
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "evaluated {} candidates{rate}, {} legal",
        thousands(found.evaluated),
        thousands(found.legal)
    );
    let refused: Vec<String> = Reason::ALL
        .iter()
        .filter(|reason| found.refused.count(**reason) > 0)
        .map(|reason| format!("{} {}", reason.name(), thousands(found.refused.count(*reason))))
        .collect();
    let _ = writeln!(
        text,
        "refused   {}",
        if refused.is_empty() { "none".to_string() } else { refused.join(", ") }
    );
    let _ = writeln!(
        text,
        "excluded  {} of {} frames and {} sets of choices by their bounds{}",
        thousands(found.excluded_frames),
        thousands(found.frames.len() as u64),
        thousands(found.excluded_sets),
        if found.complete { "; nothing better exists in this space" } else { "; stopped early" }
    );
    if let Some(bound) = &found.bound {
        let _ = writeln!(
            text,
            "bound     {} cycles, {} pJ",
            thousands(bound.ticks),
            thousands(bound.energy_fj / 1000)
        );
    }
    text
}

fn candidates<'a>(best: impl Iterator<Item = &'a Told>) -> String {
    let head = [
        "#", "held", "commands", "lanes", "tree", "cols", "repeats", "supply", "fetch", "load", "T_mac",
        "T_stream", "T_drain", "T_ve", "T_commit", "T_load", "fill", "cycles", "pJ", "mW", "used",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    rows.extend(best.enumerate().map(|(at, told)| row(at + 1, told)));
    let mut aligns = [Align::Right; 21];
    for at in [1, 7, 9] {
        aligns[at] = Align::Left;
    }
    table(&aligns, &rows)
}

fn row(number: usize, told: &Told) -> Vec<String> {
    let (costs, choice) = (&told.columns, &told.candidate.choice);
    let words = [
        number.to_string(),
        told.framed.stationary().name().to_string(),
        told.framed.frame.commands().to_string(),
        choice.lanes.to_string(),
        choice.tree.to_string(),
        choice.columns.to_string(),
        choice.repeats.to_string(),
        supply(choice.supply).to_string(),
        choice.fetch_bytes.to_string(),
        if choice.loading == Loading::Main { "main" } else { "sub" }.to_string(),
    ];
    let numbers = [
        costs.mac,
        costs.stream,
        costs.drain,
        costs.vector,
        costs.commit,
        costs.load,
        costs.fill,
        costs.cycles,
        told.candidate.energy_fj / 1000,
        told.milliwatts,
    ];
    let used = format!("{:.1} %", 100.0 * told.utilisation);
    words.into_iter().chain(numbers.map(thousands)).chain([used]).collect()
}

/// A supply in one word.
fn supply(supply: Supply) -> &'static str {
    match supply {
        Supply::Own => "own",
        Supply::RingOuter => "ring",
        Supply::RingInner => "ring-in",
    }
}

fn spelled(told: &Told) -> String {
    let mut text = String::from("best\n");
    for operand in Operand::ALL {
        if let Some(shape) = told.program.shape(operand) {
            let _ = writeln!(text, "  {:<7}{shape}", operand.name());
        }
    }
    if let Some(tactic) = &told.program.tactic {
        let _ = writeln!(text, "  tactic {tactic}");
    }
    text
}

/// A verification in a line.
pub(crate) fn checked(number: usize, check: &Check) -> String {
    let values = match check.values {
        None => "values not compared".to_string(),
        Some(values) if values.different == 0 => {
            format!(
                "{} of {} results compared, all equal",
                thousands(values.compared),
                thousands(values.results)
            )
        }
        Some(values) => {
            format!("{} of {} results DIFFER", thousands(values.different), thousands(values.compared))
        }
    };
    let simulated = match &check.simulated {
        Err(why) => return format!("verified  #{number}: not simulated: {why}"),
        Ok(cycles) => thousands(*cycles),
    };
    let findings = if check.findings == 0 { String::new() } else { format!("; {} findings", check.findings) };
    format!(
        "verified  #{number}: program of one command {simulated} cycles simulated, {} estimated ({:+.2} %); {values}{findings}",
        thousands(check.estimated),
        100.0 * check.error().unwrap_or(0.0),
    )
}

/// Why nothing is legal: the rule that binds, by how much the closest candidate misses, and the least change that helps.
pub(crate) fn nothing(task: &Task<'_>, found: &Found) -> String {
    let mut text = format!("no tactic of {} is legal", task.program.einsum);
    let Some(binding) = found.refused.binding() else { return text };
    let _ = write!(
        text,
        "\n  = binding: {}, {} needed and {} there by the closest of {} ({})",
        binding.reason.name(),
        thousands(binding.need),
        thousands(binding.have),
        thousands(found.refused.count(binding.reason)),
        binding.reason.unit()
    );
    let others: Vec<String> = Reason::ALL
        .iter()
        .filter(|reason| **reason != binding.reason && found.refused.count(**reason) > 0)
        .map(|reason| format!("{} {}", reason.name(), thousands(found.refused.count(*reason))))
        .collect();
    if !others.is_empty() {
        let _ = write!(text, "\n  = before it: {}", others.join(", "));
    }
    let _ = write!(text, "\n  = instead: {}", advice(task, binding));
    text
}

/// The least change that would let the closest candidate through.
fn advice(task: &Task<'_>, binding: Refusal) -> String {
    let machine = task.setup.machine;
    let factor = binding.need.div_ceil(binding.have.max(1)).next_power_of_two();
    match binding.reason {
        Reason::Registers => {
            let rows = machine.trf.rows_per_bank.saturating_mul(factor);
            format!(
                "{factor} times as many slices (--pes), a sum {factor} times shorter, or --set trf.rows_per_bank={rows}"
            )
        }
        Reason::DataMemory => {
            let bytes = binding.need.next_power_of_two();
            format!(
                "{factor} times as many slices (--pes), an axis split over PEs (N_8), or --set dm.capacity_bytes={bytes}"
            )
        }
        Reason::Packet => "a contracted axis of at least 2 positions on each slice".to_string(),
        Reason::Accumulators => {
            let each = machine.ce.accumulators_per_output.saturating_mul(factor);
            format!("--set ce.accumulators_per_output={each}")
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        Reason::Power => format!("--goal time@{:.3}", binding.need as f64 / 1000.0),
        _ => "larger axes, or fewer PEs (--pes 1)".to_string(),
    }
}
