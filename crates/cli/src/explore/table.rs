//! What was found, in words and columns.

use std::fmt::Write as _;

use tilewright_explore::Goal;
use tilewright_explore::refusal::RefusalReason;
use tilewright_explore::search::SearchResultOf;
use tilewright_report::columns::{Align, table, thousands};
use tilewright_verify::CandidateCheck;
use tilewright_workbench::explore::display::{CandidateDisplay, CandidateView, Remedy};

use super::args::ExploreArgs;

/// Everything about a search that found something.
pub(crate) fn answer<S: CandidateDisplay>(
    shown: &S,
    found: &SearchResultOf<S::Target>,
    args: &ExploreArgs,
    checks: &[CandidateCheck],
    goal: Goal,
    seconds: f64,
) -> String {
    let mut text = headline(shown, found, goal, seconds);
    let look = |(at, candidate)| shown.look(found, candidate, at + 1);
    let best: Vec<CandidateView> =
        found.kept.best().iter().take(args.keep).enumerate().filter_map(look).collect();
    text.push_str(&candidates(shown, &best));
    if let Some(best) = best.first() {
        let _ = write!(text, "best\n{}", best.spelled);
    }
    let _ = writeln!(text, "front     {}", front_words(shown, found));
    for (number, check) in checks.iter().enumerate() {
        let _ = writeln!(text, "{}", checked(shown, number + 1, check));
    }
    text
}

/// Time and energy of the points that no other beats in both, fastest first.
fn front_words<S: CandidateDisplay>(shown: &S, found: &SearchResultOf<S::Target>) -> String {
    const MOST: usize = 8;
    let front = found.kept.front();
    let mut words: Vec<String> = front
        .iter()
        .take(MOST)
        .map(|one| format!("{} {} pJ", shown.time(one.ticks), thousands(one.energy_fj / 1000)))
        .collect();
    if front.len() > MOST {
        words.push(format!("{} more", front.len() - MOST));
    }
    words.join("; ")
}

/// What was searched, how far, and what bounds it.
pub(crate) fn headline<S: CandidateDisplay>(
    shown: &S,
    found: &SearchResultOf<S::Target>,
    goal: Goal,
    seconds: f64,
) -> String {
    let time = if shown.time_value(0).0 == "cycles" { "cycles" } else { "time" };
    let what = match goal {
        Goal::Time => format!("least {time}"),
        Goal::Energy => "least energy".to_string(),
        Goal::EnergyDelay => format!("least energy times {time}"),
        Goal::TimeBelow(milliwatts) => format!("least {time} below {milliwatts} mW"),
    };
    let mut text = format!("{} on {}: {what}\n", shown.einsum(), shown.place());
    let rate = if seconds > 0.0 {
        format!(" in {seconds:.2} s, {} a second", per_second(found.evaluated, seconds))
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "evaluated {} candidates{rate}, {} legal",
        thousands(found.evaluated),
        thousands(found.legal)
    );
    let refused: Vec<String> = RefusalReason::ALL
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
        if found.complete { "; nothing better exists in this space" } else { "" }
    );
    if let Some(bound) = &found.bound {
        let _ =
            writeln!(text, "bound     {}, {} pJ", shown.time(bound.ticks), thousands(bound.energy_fj / 1000));
    }
    if let (Some(open), Some(gap)) = (&found.open, found.gap(goal)) {
        let _ = writeln!(
            text,
            "gap       stopped early: what was not looked at takes at least {} and {} pJ, so the best is at \
             most {:.1} % above the optimum",
            shown.time(open.ticks),
            thousands(open.energy_fj / 1000),
            100.0 * gap
        );
    }
    text.push_str(&shown.notes());
    text
}

/// Candidates a second, for people.
pub(crate) fn per_second(candidates: u64, seconds: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = candidates as f64 / seconds.max(1e-3);
    if rate < 1e5 { format!("{:.1} k", rate / 1e3) } else { format!("{:.1} M", rate / 1e6) }
}

fn candidates<S: CandidateDisplay>(shown: &S, best: &[CandidateView]) -> String {
    let (head, left) = shown.head();
    let mut aligns = vec![Align::Right; head.len()];
    left.iter().filter_map(|at| aligns.get_mut(*at).map(|align| *align = Align::Left)).for_each(drop);
    let mut rows = vec![head.iter().map(ToString::to_string).collect::<Vec<String>>()];
    rows.extend(best.iter().map(|look| look.row.clone()));
    table(&aligns, &rows)
}

/// A verification in a line.
pub(crate) fn checked<S: CandidateDisplay>(shown: &S, number: usize, check: &CandidateCheck) -> String {
    let values = match check.values {
        None => "values not compared, there are too many products".to_string(),
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
        Ok(ticks) => shown.ran(*ticks),
    };
    let findings = if check.findings == 0 { String::new() } else { format!("; {} findings", check.findings) };
    format!(
        "verified  #{number}: {simulated} simulated, {} estimated ({:+.2} %); {values}{findings}",
        shown.time(check.estimated).trim_end_matches(" cycles"),
        100.0 * check.error().unwrap_or(0.0),
    )
}

/// Why nothing is legal: the rule that binds, by how much the closest candidate misses, and the least change
/// that helps.
pub(crate) fn nothing<S: CandidateDisplay>(shown: &S, found: &SearchResultOf<S::Target>) -> String {
    let mut text = format!("no {} of {} is legal", shown.called(), shown.einsum());
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
    let others: Vec<String> = RefusalReason::ALL
        .iter()
        .filter(|reason| **reason != binding.reason && found.refused.count(**reason) > 0)
        .map(|reason| format!("{} {}", reason.name(), thousands(found.refused.count(*reason))))
        .collect();
    if !others.is_empty() {
        let _ = write!(text, "\n  = before it: {}", others.join(", "));
    }
    let _ = write!(text, "\n  = instead: {}", instead(&shown.advice(binding)));
    text
}

/// Changes of which each would help, as options.
fn instead(remedies: &[Remedy]) -> String {
    let one = |remedy: &Remedy| match remedy {
        Remedy::Figures(figures) => {
            let sets: Vec<String> =
                figures.iter().map(|(key, value)| format!("--set {key}={value}")).collect();
            sets.join(" ")
        }
        Remedy::Pes(pes) => format!("--pes {pes}"),
        Remedy::Size(name, size) => format!("{name}={size} in --dims"),
        Remedy::Watts(watts) => format!("--goal time@{watts:.3}"),
        Remedy::Words(words) => (*words).to_string(),
    };
    remedies.iter().map(one).collect::<Vec<_>>().join(", or ")
}
