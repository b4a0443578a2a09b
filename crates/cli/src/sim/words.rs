//! A run in words.

use std::fmt::Write as _;
use tilewright_base::invariant::{Exact, OrBroken};

use serde_json::{Value, json};
use tilewright_machine::Tcp;
use tilewright_num::{Dtype, RuleSet, convert, int_value};
use tilewright_report::columns::{Align, counted, table, thousands};
use tilewright_runtime::{Array, Reading};
use tilewright_tcp_cost::energy::{Component, EnergyCounts};
use tilewright_tcp_isa::program::exec::{Context, ExecBody, Stream};
use tilewright_tcp_isa::program::{Exec, Program};
use tilewright_tcp_sim::{RunEnd, SimOutcome};
use tilewright_workbench::readings::ReadingSelection;

use crate::args::ReadingArgs;

pub(super) fn reading(asked: ReadingSelection, tcp: &Tcp, program: &Program, reading: &Reading) -> String {
    let mut text = String::new();
    if asked.timeline {
        timeline(&mut text, tcp, program, &reading.outcome);
    }
    if asked.energy {
        energy(&mut text, tcp, &reading.outcome);
    }
    if asked.values {
        for (name, array) in &reading.outputs {
            line(&mut text, "output", &format!("{name} {}", array_words(array)));
            elements(&mut text, tcp, array);
        }
    }
    if asked.findings {
        let count = reading.findings.len() as u64;
        line(&mut text, "findings", &if count == 0 { "none".to_string() } else { thousands(count) });
    }
    text
}

/// Where files went.
pub(super) fn files(args: &ReadingArgs) -> String {
    let mut text = String::new();
    if let Some(path) = &args.trace {
        line(&mut text, "trace", &format!("{path} (open at https://ui.perfetto.dev)"));
    }
    if let Some(folder) = &args.output {
        line(&mut text, "arrays", &format!("{folder}/NAME.npy"));
    }
    text
}

/// The engines that a command passes, in order.
pub(super) fn engines(exec: &Exec) -> String {
    let context = if exec.context == Context::Main { "main" } else { "sub" };
    let stages = match &exec.body {
        ExecBody::Stream(stream) => passed(stream),
        ExecBody::Fill(_) => vec!["fill", "commit"],
        ExecBody::Short(_) => vec!["short load"],
    };
    format!("{context}: {}", stages.join(" > "))
}

fn passed(stream: &Stream) -> Vec<&'static str> {
    [
        Some("fetch"),
        (stream.switch != tilewright_tcp_isa::program::exec::Switch::default()).then_some("switch"),
        stream.contract.as_ref().map(|_| "contract"),
        stream.vector.as_ref().map(|_| "vector"),
        stream.cast.map(|_| "cast"),
        stream.transpose.map(|_| "transpose"),
        Some("commit"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn line(text: &mut String, what: &str, words: &str) {
    let written = writeln!(text, "{what:<12}{words}");
    debug_assert!(written.is_ok(), "strings take all text");
}

/// Whole nanoseconds of so many cycles.
fn nanoseconds(cycles: u64, clock_hz: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000_000 / u128::from(clock_hz.max(1));
    u64::try_from(ns).or_broken("a run is shorter than 584 years")
}

fn timeline(text: &mut String, tcp: &Tcp, program: &Program, outcome: &SimOutcome) {
    let ns = nanoseconds(outcome.cycles, tcp.chip.clock_hz);
    line(text, "cycles", &format!("{} ({} ns)", thousands(outcome.cycles), thousands(ns)));
    let ended = match &outcome.ended {
        RunEnd::Finished => String::new(),
        RunEnd::Deadlock(_) => ", then nothing could go on".to_string(),
        RunEnd::Stopped => ", then it was stopped".to_string(),
    };
    line(
        text,
        "ran",
        &format!(
            "{}, {} on {}{ended}",
            counted(outcome.execs, "execution"),
            counted(outcome.transfers, "transfer"),
            counted(program.queues.len() as u64, "PE")
        ),
    );
    let busy: Vec<String> = outcome
        .utilisation
        .iter()
        .filter(|used| used.busy_cycles > 0)
        .map(|used| format!("{} {}", used.engine.name(), percent(used.ppm())))
        .collect();
    line(text, "busy", &busy.join(", "));
    for (name, count) in counts(&outcome.counts) {
        if let Some(count) = count.as_u64().filter(|count| *count > 0) {
            line(text, "", &format!("{:<26}{:>16}", name.replace('_', " "), thousands(count)));
        }
    }
    commands(text, outcome);
}

/// Most commands that are listed; JSON has them all.
const MOST_COMMANDS: usize = 32;

/// What each command took, a line for all runs of an image.
fn commands(text: &mut String, outcome: &SimOutcome) {
    use Align::{Left, Right};
    let aligns = [Left, Left, Right, Right, Right, Right, Left, Right];
    let head = ["command", "unit", "runs", "first start", "last end", "cycles", "slowest stage", "energy pJ"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for image in outcome.images.iter().take(MOST_COMMANDS) {
        let slowest = image
            .slowest
            .map_or(String::new(), |(stage, cycles)| format!("{} {}", stage.name(), thousands(cycles)));
        rows.push(vec![
            image.name.to_string(),
            image.unit.name().to_string(),
            thousands(image.runs),
            thousands(image.first_cycles),
            thousands(image.last_cycles),
            parts(image.busy_cycles),
            slowest,
            parts(image.energy_fj / 1000),
        ]);
    }
    text.push_str(&table(&aligns, &rows));
    for image in &outcome.images {
        if let Some(delay) = image.delay.filter(|_| image.worst_cycles > image.busy_cycles) {
            let (worst, priced) = (parts(image.worst_cycles), parts(image.busy_cycles));
            let why = delay.words();
            line(text, "at worst", &format!("`{}` {worst} cycles, not {priced}: {why}", image.name));
        }
    }
    if let Some(more) = outcome.images.len().checked_sub(MOST_COMMANDS).filter(|more| *more > 0) {
        let _ = writeln!(text, "... and {} more; --json lists all", counted(more as u64, "command"));
    }
}

fn energy(text: &mut String, tcp: &Tcp, outcome: &SimOutcome) {
    let total: u128 = outcome.energy_fj.iter().sum();
    let seconds = outcome.cycles.max(1);
    // Femtojoules a cycle times cycles a second, in milliwatts.
    let milliwatts = total.exact_mul(u128::from(tcp.chip.clock_hz)) / u128::from(seconds) / 1_000_000_000_000;
    let milliwatts = u64::try_from(milliwatts).or_broken("power fits 64 bits");
    line(
        text,
        "energy",
        &format!("{} pJ, {}.{:03} W on average", parts(total / 1000), milliwatts / 1000, milliwatts % 1000),
    );
    for (component, fj) in Component::ALL.iter().zip(&outcome.energy_fj) {
        if *fj > 0 {
            let share =
                u64::try_from(fj.exact_mul(1_000_000) / total.max(1)).or_broken("a share fits 64 bits");
            line(
                text,
                "",
                &format!("{:<26}{:>16} pJ {:>8}", component.name(), parts(fj / 1000), percent(share)),
            );
        }
    }
}

fn parts(value: u128) -> String {
    thousands(u64::try_from(value).or_broken("counts of a run fit 64 bits"))
}

fn percent(ppm: u64) -> String {
    format!("{}.{} %", ppm / 10_000, ppm / 1_000 % 10)
}

fn array_words(array: &Array) -> String {
    let extents: Vec<String> = array.extents.iter().map(u64::to_string).collect();
    format!("{}[{}] checksum {:016x}", array.dtype.name(), extents.join(", "), array.checksum())
}

/// Most elements that are printed.
const MOST_PRINTED: usize = 64;

/// The elements of a small array, a line for each row.
fn elements(text: &mut String, tcp: &Tcp, array: &Array) {
    if array.patterns.len() > MOST_PRINTED {
        return;
    }
    let rules = tilewright_tcp_exec::rules(tcp);
    let spelled: Vec<String> =
        array.patterns.iter().map(|pattern| number(rules, array.dtype, *pattern)).collect();
    let width = spelled.iter().map(String::len).max().unwrap_or(0);
    let row = array.extents.last().and_then(|extent| usize::try_from(*extent).ok()).unwrap_or(1);
    for row in spelled.chunks(row.max(1)) {
        let row: Vec<String> = row.iter().map(|number| format!("{number:>width$}")).collect();
        line(text, "", &row.join(" "));
    }
}

/// A pattern as a number; floats in as few digits as tell them apart.
fn number(rules: &RuleSet, dtype: Dtype, pattern: u32) -> String {
    if !dtype.is_float() {
        return int_value(dtype, pattern).to_string();
    }
    match convert(rules, dtype, Dtype::F32, pattern) {
        Ok(word) => f32::from_bits(word).to_string(),
        Err(_) => format!("{pattern:#x}"),
    }
}

/// What was counted, by name.
fn counts(counts: &EnergyCounts) -> Vec<(String, Value)> {
    counts.named().into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn long_runs_keep_their_time() {
        assert_eq!(nanoseconds(13_628, 1_000_000_000), 13_628);
        // Six minutes: cycles times 10^9 are beyond 64 bits.
        assert_eq!(nanoseconds(360_000_000_000, 1_000_000_000), 360_000_000_000);
        assert_eq!(nanoseconds(3, 2_000_000_000), 1);
    }
}
