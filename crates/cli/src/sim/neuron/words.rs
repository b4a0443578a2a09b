//! A run of a NeuronCore program in words.

use std::fmt::Write as _;

use tilewright_neuron_isa::EngineKind;
use tilewright_neuron_sim::analysis::critical_path::critical_path;
use tilewright_neuron_sim::analysis::energy::energy;
use tilewright_neuron_sim::analysis::summary::{RunSummary, summary};
use tilewright_report::columns::{Align, counted, table, thousands};
use tilewright_workbench::readings::ReadingSelection;
use tilewright_workbench::readings::neuron::{MOST_LINES, NeuronReport};

pub(super) fn reading(asked: ReadingSelection, report: &NeuronReport<'_>) -> String {
    let mut text = String::new();
    if asked.timeline {
        timeline(&mut text, report);
    }
    if asked.energy {
        joules(&mut text, report);
    }
    if asked.findings {
        let count = report.findings.len() as u64;
        line(&mut text, "findings", &if count == 0 { "none".to_owned() } else { thousands(count) });
    }
    text
}

fn line(text: &mut String, what: &str, words: &str) {
    let _ = writeln!(text, "{what:<12}{words}");
}

fn timeline(text: &mut String, report: &NeuronReport<'_>) {
    let program = report.run.program(report.recorded);
    let figures = summary(report.chip, program, &report.run.timeline);
    line(text, "time", &format!("{} us on {}", micros(figures.time_ps), report.chip.name));
    let ran: u64 = figures.engines.iter().map(|engine| engine.instructions).sum();
    let cores = counted(u64::from(figures.cores), "core");
    line(text, "ran", &format!("{} on {cores}", counted(ran, "instruction")));
    line(
        text,
        "HBM",
        &format!(
            "{} B read, {} B written",
            thousands(figures.hbm_read_bytes),
            thousands(figures.hbm_written_bytes)
        ),
    );
    if figures.spill_save_bytes > 0 || figures.spill_reload_bytes > 0 {
        let (saved, reloaded) = (thousands(figures.spill_save_bytes), thousands(figures.spill_reload_bytes));
        line(text, "spills", &format!("{saved} B saved, {reloaded} B reloaded"));
    }
    let (sbuf, psum) = (thousands(figures.sbuf_peak_bytes), thousands(figures.psum_peak_bytes));
    line(text, "peak", &format!("SBUF {sbuf} B, PSUM {psum} B of a partition"));
    let used = figures.utilisation;
    line(
        text,
        "utilisation",
        &format!("MFU {}, HFU {}, MBU {}", percent(used.mfu), percent(used.hfu), percent(used.mbu)),
    );
    text.push_str(&engines(&figures));
    text.push_str(&path(report));
}

fn engines(figures: &RunSummary) -> String {
    use Align::{Left, Right};
    let mut rows = vec![["engine", "instructions", "busy us", "of the time"].map(String::from).to_vec()];
    let whole_ps = figures.time_ps.saturating_mul(u64::from(figures.cores)).max(1);
    for (engine, used) in EngineKind::ALL.into_iter().zip(figures.engines) {
        if used.instructions > 0 {
            rows.push(vec![
                engine.name().to_owned(),
                thousands(used.instructions),
                micros(used.busy_ps),
                percent(used.busy_ps as f64 / whole_ps as f64),
            ]);
        }
    }
    table(&[Left, Right, Right, Right], &rows)
}

/// Lines of the kernel that the time went to.
fn path(report: &NeuronReport<'_>) -> String {
    use Align::{Left, Right};
    let (program, timeline) = (report.run.program(report.recorded), &report.run.timeline);
    let mut rows = vec![["critical path", "engine", "us"].map(String::from).to_vec()];
    for share in critical_path(program, timeline).iter().take(MOST_LINES) {
        rows.push(vec![
            program.source(share.source).to_owned(),
            share.engine.name().to_owned(),
            micros(share.time_ps),
        ]);
    }
    table(&[Left, Left, Right], &rows)
}

fn joules(text: &mut String, report: &NeuronReport<'_>) {
    let parts = energy(report.chip, report.run.program(report.recorded), &report.run.timeline);
    let total: f64 = parts.iter().map(|part| part.joules).sum();
    let seconds = report.run.timeline.total_ps.max(1) as f64 * 1e-12;
    line(text, "energy", &format!("{:.3} uJ, {:.3} W on average", total * 1e6, total / seconds));
    for part in parts.iter().filter(|part| part.joules > 0.0) {
        let share = percent(part.joules / total);
        line(text, "", &format!("{:<26}{:>16.3} uJ {share:>8}", part.name, part.joules * 1e6));
    }
}

fn micros(ps: u64) -> String {
    format!("{:.3}", ps as f64 * 1e-6)
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}
