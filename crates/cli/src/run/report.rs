//! What a generation took, in words and as JSON: time, energy, how busy the chip was, and where the time
//! went.

use std::fmt::Write as _;

use tilewright_report::columns::{Align, counted, table, thousands};
use tilewright_runtime::generate::Generation;
use tilewright_runtime::usage::Usage;
use tilewright_workbench::model::report::{
    GenerationRun, ModelFacts, SequenceJson, Utilisation, kinds, length,
};

use super::device::ModelJob;
use crate::machine::to_json;

/// A generation with all that is said about it.
pub(super) struct Report<'r> {
    pub(super) job: &'r ModelJob<'r>,
    pub(super) facts: &'r ModelFacts,
    pub(super) generation: &'r Generation,
    /// Prompt and what came behind it.
    pub(super) text: &'r str,
    /// What an encoder gives instead of tokens.
    pub(super) vector: Option<&'r [f32]>,
    /// Where the trace went.
    pub(super) traced: Option<&'r str>,
    /// Texts that went on at the same time.
    pub(super) other_sequences: Vec<SequenceJson>,
}

impl Report<'_> {
    /// As data.
    pub(super) fn json(&self) -> String {
        let run = GenerationRun {
            machine: self.job.machine,
            chip: self.job.chip,
            facts: self.facts,
            prompt: &self.job.prompt,
            generation: self.generation,
            text: self.text,
            vector: self.vector,
            trace: self.traced,
            other_sequences: &self.other_sequences,
        };
        to_json(&run.report())
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        let mut text = String::from("\n");
        let (decode, prefill) = (&self.generation.decode, &self.generation.prefill);
        let machine = self.job.machine;
        let ModelFacts { model: name, dtype, context, .. } = self.facts;
        let mut line = |what: &str, words: &str| {
            let _ = writeln!(text, "{what:<12}{words}");
        };
        let pes = counted(self.job.pes, "PE");
        let chips = if self.job.chips > 1 { format!("each of {} ", self.job.chips) } else { String::new() };
        let context = thousands(*context);
        line("model", &format!("{name} in {dtype} on {pes} of {chips}{}, context {context}", self.job.chip));
        let others = self.job.others.iter().map(Vec::len).sum::<usize>();
        let prompt = counted((self.job.prompt.len() + others) as u64, "token");
        if !self.other_sequences.is_empty() {
            line("sequences", &format!("{} in one batch", self.other_sequences.len() + 1));
        }
        line("prompt", &format!("{prompt} in {:.4} ms", prefill.seconds(machine) * 1e3));
        if let Some(vector) = self.vector {
            line("embedding", &spelled(vector));
        } else {
            let others = self.other_sequences.iter().map(|text| text.tokens.len()).sum::<usize>();
            let generated = counted((self.generation.tokens.len() + others) as u64, "token");
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let host_ms = machine.host.pass_ns as f64 * 1e-6 / (self.other_sequences.len() + 1) as f64;
            let each = decode.ms_per_token(machine).map_or(String::new(), |ms| {
                let rates = [ms, ms + host_ms].map(|ms| 1e3 / ms);
                let [chip, all] = rates.map(|rate| format!("{rate:.0} tokens/s"));
                format!(", {ms:.4} ms each, {chip} of the simulated chip, {all} with host.pass_ns")
            });
            line("generated", &format!("{generated}{each}"));
        }
        let shown = self.shown();
        if let Some(mj) = shown.mj_per_token() {
            let watts = mj / shown.ms_per_token(machine).unwrap_or(1.0);
            line("energy", &format!("{mj:.4} mJ a token, {watts:.1} W on average"));
        }
        let used = self.utilisation(shown);
        let (main, sub, dma) = (percent(used.main), percent(used.sub), percent(used.dma));
        line("busy", &format!("main {main}, sub {sub}, dma {dma}"));
        let (mac, hbm) = (percent(used.mac), percent(used.hbm));
        line("used", &format!("MAC {mac} of {pes}, HBM {hbm} of the chip"));
        let cycles = thousands(shown.cycles / shown.tokens.max(1));
        line("time", &format!("{cycles} cycles a token; units work side by side"));
        text.push_str(&self.kinds_table(shown));
        if let Some(path) = self.traced {
            let _ = writeln!(text, "{:<12}{path}: the last run (open at https://ui.perfetto.dev)", "trace");
        }
        text
    }

    /// Runs for single tokens; if there are none, those of the prompt.
    fn shown(&self) -> &Usage {
        let (decode, prefill) = (&self.generation.decode, &self.generation.prefill);
        if decode.runs > 0 { decode } else { prefill }
    }

    fn kinds_table(&self, usage: &Usage) -> String {
        use Align::{Left, Right};
        let tokens = usage.tokens.max(1);
        let head = ["  where it went", "unit", "commands", "cycles", "of the time", "energy pJ"];
        let mut rows = vec![head.map(String::from).to_vec()];
        let all = kinds(usage);
        let shown = if all.len() > MOST_KINDS { FIRST_KINDS } else { all.len() };
        for kind in all.iter().take(shown) {
            rows.push(vec![
                format!("  {}", kind.kind),
                kind.unit.to_string(),
                each(kind.commands, tokens),
                thousands(kind.cycles / tokens),
                percent(kind.share),
                thousands(whole(kind.energy_pj) / tokens),
            ]);
        }
        let mut text = table(&[Left, Left, Right, Right, Right, Right], &rows);
        if all.len() > shown {
            let _ = writeln!(text, "  and {} more, which --json has", all.len() - shown);
        }
        text
    }

    fn utilisation(&self, usage: &Usage) -> Utilisation {
        Utilisation::of(self.job.machine, self.facts, usage)
    }
}

/// Kinds of commands that are all shown, at most; of more the first.
const MOST_KINDS: usize = 48;
const FIRST_KINDS: usize = 12;

/// Numbers of a vector that are shown.
const SHOWN: usize = 8;

/// The first numbers of a vector, how many there are, and its length.
pub(super) fn spelled(vector: &[f32]) -> String {
    let first: Vec<String> = vector.iter().take(SHOWN).map(|number| format!("{number:.4}")).collect();
    format!("{} ... ({} numbers, length {:.4})", first.join(" "), vector.len(), length(vector))
}

/// Commands for each token: of several texts one serves many.
fn each(commands: u64, tokens: u64) -> String {
    match commands.is_multiple_of(tokens) {
        true => thousands(commands / tokens),
        false => format!("{:.1}", real(commands) / real(tokens)),
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn real(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people, not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}
