//! One question about a model: so many sequences of so many tokens, so many tokens more of each. The answer
//! is timed as Table II is: prompts one after the other, single tokens of the batch at three contexts.

use serde::Serialize;
use tilewright_base::invariant::broken;
use tilewright_report::columns::{Align, counted, table};

use crate::llama::{AppliedLatency, StudyRun, StudySetup};
use crate::measure::{MeasureError, Pass};
use crate::sizes::size;
use crate::table2::number;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Sequences.
    pub batch: u64,
    /// Tokens of a prompt.
    pub input: u64,
    /// Tokens that are made of each.
    pub output: u64,
}

/// What comes out.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Name or file of the model.
    pub model: String,
    /// Name or file of the machine.
    pub chip: String,
    /// Type of weights and activations.
    pub dtype: String,
    /// Processing elements of a chip.
    pub pes: u64,
    /// Chips that share the weights.
    pub chips: u64,
    /// Sequences.
    pub batch: u64,
    /// Tokens of a prompt.
    pub input: u64,
    /// Tokens that are made of each.
    pub output: u64,
    /// What every pass has besides its programs.
    pub latency: AppliedLatency,
    /// The first token of one prompt.
    pub first_token_ms: f64,
    /// The next token of every sequence, mean over the contexts.
    pub next_token_ms: f64,
    /// Tokens a second of single tokens alone.
    pub tokens_per_s: f64,
    /// Tokens a second with the prompts of all sequences.
    pub tokens_per_s_with_prompts: f64,
    /// Average power of a prompt, by the energy model.
    pub first_token_watts: f64,
    /// Average power of single tokens, by the energy model.
    pub next_token_watts: f64,
    /// Tokens a second for each watt of the energy model.
    pub tokens_per_s_per_w: f64,
    /// Tokens a second for each watt of the TDP of all chips.
    pub tokens_per_s_per_tdp_w: f64,
    /// What weights, tables and caches take of the HBM of a chip.
    pub held_bytes: u64,
    /// What a chip has.
    pub hbm_bytes: u64,
}

/// Measures the answer.
///
/// # Errors
/// A model that does not compile for these sizes, programs that cannot be simulated.
pub fn answer(
    setting: &StudySetup<'_>,
    question: Question,
    say: &mut dyn FnMut(&str),
) -> Result<Answer, MeasureError> {
    let run = StudyRun::new(setting)?;
    let Question { batch, input, output } = question;
    let last = input + output.saturating_sub(2);
    let contexts = [input, (input + output / 2).min(last), last];
    say(&format!("prefill of {input} tokens, next tokens of {batch} sequences of {input} to {last}"));
    let (prompt, steps) = std::thread::scope(|scope| {
        let steps = scope.spawn(|| run.model.steps(batch, &contexts));
        (run.model.prefill(input, None), steps.join())
    });
    let steps = steps.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
    Ok(run.answer(question, &prompt?, &steps?))
}

impl StudyRun<'_> {
    fn answer(&self, question: Question, prompt: &Pass, steps: &[(u64, Pass)]) -> Answer {
        let (setting, Question { batch, input, output }) = (self.setting, question);
        let [(_, first), (_, middle), (_, last)] = steps else {
            broken(format_args!("{} passes of three contexts", steps.len()))
        };
        let [first_ms, middle_ms, last_ms] = [first, middle, last].map(|pass| self.ms(pass.cycles));
        // Simpson's rule over both ends and the middle, as for Table II.
        let next_token_ms = (first_ms + 4.0 * middle_ms + last_ms) / 6.0 + self.latency_ms();
        let first_token_ms = self.ms(prompt.cycles) + self.latency_ms();
        let watts = |pass: &Pass| pass.joules() * self.hz / size(pass.cycles.max(1));
        let all_ms = size(batch) * first_token_ms + size(output.saturating_sub(1)) * next_token_ms;
        let tokens_per_s = size(batch) / next_token_ms * 1e3;
        let (options, machine) = (setting.options, setting.machine);
        Answer {
            model: setting.name.clone(),
            chip: setting.chip.clone(),
            dtype: options.dtype.to_string(),
            pes: options.pes,
            chips: options.chips,
            batch,
            input,
            output,
            latency: setting.latency.clone(),
            first_token_ms,
            next_token_ms,
            tokens_per_s,
            tokens_per_s_with_prompts: size(batch) * size(output) / all_ms * 1e3,
            first_token_watts: watts(prompt),
            next_token_watts: watts(middle),
            tokens_per_s_per_w: tokens_per_s / watts(middle),
            tokens_per_s_per_tdp_w: tokens_per_s / (machine.chip.tdp_w * size(options.chips)),
            held_bytes: prompt.held_bytes.max(middle.held_bytes),
            hbm_bytes: machine.hbm_capacity_bytes(),
        }
    }
}

/// The answer as text.
pub fn text(answer: &Answer) -> String {
    let gb = |bytes: u64| format!("{:.1}", size(bytes) / 1e9);
    let rows = [
        ("first token of one prompt, ms", number(answer.first_token_ms)),
        ("next token of all sequences, ms", number(answer.next_token_ms)),
        ("tokens/s, single tokens alone", number(answer.tokens_per_s)),
        ("tokens/s, prompts included", number(answer.tokens_per_s_with_prompts)),
        ("W of a prompt, by the energy model", number(answer.first_token_watts)),
        ("W of single tokens, by the energy model", number(answer.next_token_watts)),
        ("tokens/s/W, by the energy model", number(answer.tokens_per_s_per_w)),
        ("tokens/s/W of TDP", number(answer.tokens_per_s_per_tdp_w)),
        ("GB of HBM, weights and caches, of a chip", gb(answer.held_bytes)),
        ("GB of HBM that a chip has", gb(answer.hbm_bytes)),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
    format!(
        "{} on {} {} with {} PEs each, {}: {} of {} tokens, {} more of each; every time is that of \
         a simulated program and {:.3} ms ({}) for a pass.\n\n{}",
        answer.model,
        answer.chips,
        answer.chip,
        answer.pes,
        answer.dtype,
        counted(answer.batch, "sequence"),
        answer.input,
        answer.output,
        size(answer.latency.ns) * 1e-6,
        answer.latency.figure,
        table(&[Align::Left, Align::Right], &rows)
    )
}
