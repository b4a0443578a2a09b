//! Where the time of a pass goes, by kind of command.

use serde::Serialize;
use tilewright_report::columns::{Align, table};

use crate::measure::{Pass, real};
use crate::sizes::size;

/// A kind of command in a pass.
#[derive(Clone, Debug, Serialize)]
pub struct CommandKind {
    /// Its unit and name.
    pub kind: String,
    /// Commands of it.
    pub runs: u64,
    /// Cycles of one processing element.
    pub cycles: f64,
    /// Cycles as a part of those of the pass.
    pub percent: f64,
    /// Energy of all its commands.
    pub microjoules: f64,
}

/// Kinds that are kept, and shown.
const KEPT: usize = 24;
const SHOWN: usize = 14;

/// Kinds of commands of a pass, those that take longest first.
pub(crate) fn parts(pass: &Pass, pes: u64) -> Vec<CommandKind> {
    let pes = size(pes);
    let mut parts: Vec<CommandKind> = pass
        .kinds
        .iter()
        .map(|(kind, (runs, cycles, fj))| CommandKind {
            kind: kind.clone(),
            runs: *runs,
            cycles: real(*cycles) / pes,
            percent: real(*cycles) / pes / size(pass.cycles.max(1)) * 100.0,
            microjoules: real(*fj) * 1e-9,
        })
        .collect();
    parts.sort_by(|a, b| b.cycles.total_cmp(&a.cycles));
    parts.truncate(KEPT);
    parts
}

/// As text.
pub(crate) fn text(parts: &[CommandKind]) -> String {
    let mut rows = vec![["command", "runs", "cycles", "of the pass"].map(str::to_string).to_vec()];
    for part in parts.iter().take(SHOWN) {
        rows.push(vec![
            part.kind.clone(),
            part.runs.to_string(),
            format!("{:.0}", part.cycles),
            format!("{:.1} %", part.percent),
        ]);
    }
    table(&[Align::Left, Align::Right, Align::Right, Align::Right], &rows)
}
