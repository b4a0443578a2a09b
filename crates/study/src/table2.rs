//! Table II: first tokens and tokens a second, published and ours, with the latency of a pass that the
//! machine states and without it.

use serde::Serialize;
use tilewright_report::columns::{Align, table};

use crate::kinds::RowKind;
use crate::llama::StudyRun;
use crate::measure::Pass;
use crate::rows::{kind, published};
use crate::sizes::size;

/// A row of Table II.
#[derive(Clone, Debug, Serialize)]
pub struct Table2Row {
    /// Its name.
    pub row: String,
    /// Its unit.
    pub unit: &'static str,
    /// What the paper has for the TCP.
    pub published: Option<f64>,
    /// What the paper has for an L40S.
    pub l40s: Option<f64>,
    /// What the paper has for an H100.
    pub h100: Option<f64>,
    /// What the published row was used for.
    pub kind: Option<RowKind>,
    /// Ours, with the latency of a pass.
    pub ours: f64,
    /// Ours with that latency at zero.
    pub without_latency: f64,
    /// By how much ours is above the published value.
    pub error_percent: Option<f64>,
    /// What no implementation is better than.
    pub bound: f64,
}

/// A prompt and what follows it in the rows of tokens a second.
const PROMPT: f64 = 2048.0;
/// The mean context of single tokens behind it.
const MEAN_CONTEXT: f64 = 3071.5;

impl StudyRun<'_> {
    /// A latency of a first token.
    pub(crate) fn first_token(&self, row: &str, ms: f64, latency_ms: f64, tokens: f64) -> Table2Row {
        let macs = self.sizes.causal_macs(tokens);
        let bound = (self.sizes.weight_bytes / self.bytes_per_s).max(macs / self.macs_per_s) * 1e3;
        self.row(row, "ms", [ms + latency_ms, ms, bound])
    }

    /// Tokens a second, and a second and watt: single tokens alone, and with their prompts.
    pub(crate) fn throughput(
        &self,
        batch: u64,
        steps: &[(u64, Pass)],
        prefill_ms: Option<f64>,
        latency_ms: f64,
    ) -> Vec<Table2Row> {
        let ms = |at: usize| steps.get(at).map_or(0.0, |(_, pass)| self.ms(pass.cycles));
        // Steps are nearly straight over the context: Simpson's rule over both ends and the middle.
        let mean = (ms(0) + 4.0 * ms(1) + ms(2)) / 6.0;
        let sequences = size(batch);
        let rate = |step_ms: f64| sequences / step_ms * 1e3;
        let with_prompts = |step_ms: f64, first_ms: f64| {
            sequences * PROMPT / (sequences * first_ms + (PROMPT - 1.0) * step_ms) * 1e3
        };
        let bytes = self.sizes.weight_bytes + sequences * MEAN_CONTEXT * self.sizes.kv_bytes;
        let bound_ms = bytes / self.bytes_per_s * 1e3;
        let bound_all = with_prompts(bound_ms, self.sizes.causal_macs(PROMPT) / self.macs_per_s * 1e3);
        let name = format!("B={batch},2K+2K");
        let mut rates = vec![(name.clone(), rate(mean + latency_ms), rate(mean), rate(bound_ms))];
        rates.extend(prefill_ms.map(|first_ms| {
            let ours = with_prompts(mean + latency_ms, first_ms + latency_ms);
            (format!("{name},prompts included"), ours, with_prompts(mean, first_ms), bound_all)
        }));
        let watts = self.setting.machine.chip.tdp_w * size(self.setting.options.chips);
        let mut rows = Vec::new();
        for (name, ours, plain, bound) in &rates {
            rows.push(self.row(name, "tokens/s", [*ours, *plain, *bound]));
        }
        for (name, ours, plain, bound) in &rates {
            let name = format!("{name},per W of TDP");
            rows.push(self.row(&name, "tokens/s/W", [ours, plain, bound].map(|rate| rate / watts)));
        }
        rows
    }

    /// A row beside what is published of it, if this is what the paper measured.
    fn row(&self, row: &str, unit: &'static str, [ours, without_latency, bound]: [f64; 3]) -> Table2Row {
        let of = |name: &str| published(name).filter(|_| self.setting.papers);
        let value = of(row);
        Table2Row {
            row: row.to_string(),
            unit,
            published: value,
            kind: kind(row).filter(|_| value.is_some()),
            l40s: of(&format!("L40S {row}")),
            h100: of(&format!("H100 {row}")),
            ours,
            without_latency,
            error_percent: value.map(|value| (ours / value - 1.0) * 100.0),
            bound,
        }
    }
}

/// Three digits or more, none that nobody reads.
pub(crate) fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// As text.
pub(crate) fn text(table2: &[Table2Row]) -> String {
    let maybe = |value: Option<f64>| value.map_or("-".to_string(), number);
    let head = ["row", "unit", "L40S", "H100", "TCP", "ours", "error", "", "latency = 0", "bound"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for row in table2 {
        rows.push(vec![
            row.row.clone(),
            row.unit.to_string(),
            maybe(row.l40s),
            maybe(row.h100),
            maybe(row.published),
            number(row.ours),
            row.error_percent.map_or("-".to_string(), |error| format!("{error:+.1} %")),
            row.kind.map_or("", RowKind::name).to_string(),
            number(row.without_latency),
            number(row.bound),
        ]);
    }
    let mut aligns = [Align::Right; 10];
    aligns[..2].fill(Align::Left);
    aligns[7] = Align::Left;
    table(&aligns, &rows)
}

/// As rows of an HTML table.
pub(crate) fn html(table2: &[Table2Row]) -> String {
    let cell = |value: Option<f64>| value.map_or("–".to_string(), number);
    let mut rows = String::from(
        "<tr><th>row</th><th>unit</th><th>L40S</th><th>H100</th><th>TCP, \
         published</th><th>ours</th><th>error</th><th>row is</th><th>ours, latency = \
         0</th><th>bound</th></tr>\n",
    );
    for row in table2 {
        rows += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            row.row,
            row.unit,
            cell(row.l40s),
            cell(row.h100),
            cell(row.published),
            number(row.ours),
            row.error_percent.map_or("–".to_string(), |error| format!("{error:+.1} %")),
            row.kind.map_or("", RowKind::name),
            number(row.without_latency),
            number(row.bound)
        );
    }
    rows
}
