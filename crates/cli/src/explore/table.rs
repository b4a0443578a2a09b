//! What was found, in words and columns.

use std::fmt::Write as _;

use tilewright_explore::cost::{Columns, Commands, columns};
use tilewright_explore::goal::milliwatts;
use tilewright_explore::point::{Loading, Supply};
use tilewright_explore::refusal::Reason;
use tilewright_explore::spell::spell;
use tilewright_explore::{Candidate, Found, Goal, Task};
use tilewright_notation::syntax::ast::Operand;
use tilewright_report::columns::{Align, table, thousands};

use super::framed;
use super::verify::Check;

/// Everything about a search that found something.
pub(crate) fn answer(task: &Task<'_>, found: &Found, checks: &[Check], goal: Goal, seconds: f64) -> String {
    let mut text = headline(task, found, goal, seconds);
    text.push_str(&candidates(task, found, found.kept.best()));
    if let Some(best) = found.kept.best().first() {
        text.push_str(&spelled(task, found, best));
    }
    for (number, check) in checks.iter().enumerate() {
        let _ = writeln!(text, "{}", checked(number + 1, check));
    }
    text
}

fn headline(task: &Task<'_>, found: &Found, goal: Goal, seconds: f64) -> String {
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
            thousands(bound.cycles),
            thousands(bound.energy_fj / 1000)
        );
    }
    text
}

/// Stage by stage.
pub(crate) fn costs(task: &Task<'_>, found: &Found, candidate: &Candidate) -> Option<Columns> {
    let framed = framed(task, found, candidate.frame)?;
    let nest = framed.nest(&candidate.choice).ok()?;
    let commands = Commands::new(&task.setup, &nest, &candidate.choice)?;
    Some(columns(&task.setup, &commands, framed.frame.commands()))
}

fn candidates(task: &Task<'_>, found: &Found, candidates: &[Candidate]) -> String {
    let head = [
        "#", "held", "commands", "lanes", "tree", "cols", "repeats", "supply", "fetch", "load", "T_mac",
        "T_stream", "T_drain", "T_ve", "T_commit", "T_load", "fill", "cycles", "pJ", "mW",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for (number, candidate) in candidates.iter().enumerate() {
        rows.extend(row(task, found, number + 1, candidate));
    }
    let mut aligns = [Align::Right; 20];
    for at in [1, 7, 9] {
        aligns[at] = Align::Left;
    }
    table(&aligns, &rows)
}

fn row(task: &Task<'_>, found: &Found, number: usize, candidate: &Candidate) -> Option<Vec<String>> {
    let costs = costs(task, found, candidate)?;
    let framed = framed(task, found, candidate.frame)?;
    let choice = &candidate.choice;
    let words = [
        number.to_string(),
        framed.stationary().name().to_string(),
        framed.frame.commands().to_string(),
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
        candidate.energy_fj / 1000,
        milliwatts(task.setup.machine, candidate.cycles, candidate.energy_fj),
    ];
    Some(words.into_iter().chain(numbers.map(thousands)).collect())
}

/// A supply in one word.
pub(crate) fn supply(supply: Supply) -> &'static str {
    match supply {
        Supply::Own => "own",
        Supply::RingOuter => "ring",
        Supply::RingInner => "ring-in",
    }
}

fn spelled(task: &Task<'_>, found: &Found, candidate: &Candidate) -> String {
    let program =
        framed(task, found, candidate.frame).and_then(|framed| spell(task, &framed, &candidate.choice));
    let Some(program) = program else { return String::new() };
    let mut text = String::from("best\n");
    for operand in Operand::ALL {
        if let Some(shape) = program.shape(operand) {
            let _ = writeln!(text, "  {:<7}{shape}", operand.name());
        }
    }
    if let Some(tactic) = &program.tactic {
        let _ = writeln!(text, "  tactic {tactic}");
    }
    text
}

fn checked(number: usize, check: &Check) -> String {
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

/// Why nothing is legal: the rule that came closest, and by how much it misses.
pub(crate) fn nothing(task: &Task<'_>, found: &Found) -> String {
    let mut text = format!("no tactic of {} is legal\n", task.program.einsum);
    for reason in Reason::ALL {
        if let Some(closest) = found.refused.closest(reason) {
            let _ = writeln!(
                text,
                "  = {}: {} times; closest: {} needed, {} there ({})",
                reason.name(),
                thousands(found.refused.count(reason)),
                thousands(closest.need),
                thousands(closest.have),
                reason.unit()
            );
        }
    }
    text
}
