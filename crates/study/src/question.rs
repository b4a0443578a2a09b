//! One question about a model: so many sequences of so many tokens, so many tokens more of each. The answer
//! is timed as Table II is: prompts one after the other, single tokens of the batch at three contexts.

use serde::Serialize;
use tilewright_base::invariant::broken;
use tilewright_report::columns::{Align, counted, table};

use crate::bands::{BandScope, FigureEffect, is_timeless, summed_range, with};
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
    /// Ranges over every figure that has a band, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bands: Option<AnswerBands>,
}

/// An answer with its range.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerRange {
    /// Which, with its unit.
    pub result: &'static str,
    /// With the figures of the machine file.
    pub stated: f64,
    /// With every figure at its end that lowers it, effects added up.
    pub low: f64,
    /// With every figure at its end that raises it, effects added up.
    pub high: f64,
}

/// Ranges of an answer, and what makes them.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerBands {
    /// Results with their ranges.
    pub results: Vec<AnswerRange>,
    /// What each figure does, those that move tokens a second for each watt most first.
    pub figures: Vec<FigureEffect>,
}

/// Results that have a range.
const RESULTS: [&str; 7] = [
    "first token of one prompt, ms",
    "next token of all sequences, ms",
    "tokens/s, single tokens alone",
    "tokens/s, prompts included",
    "W of a prompt, by the energy model",
    "W of single tokens, by the energy model",
    "tokens/s/W, by the energy model",
];

impl Answer {
    fn results(&self) -> [f64; RESULTS.len()] {
        [
            self.first_token_ms,
            self.next_token_ms,
            self.tokens_per_s,
            self.tokens_per_s_with_prompts,
            self.first_token_watts,
            self.next_token_watts,
            self.tokens_per_s_per_w,
        ]
    }
}

/// A prompt, and single tokens by context.
type Passes = (Pass, Vec<(u64, Pass)>);

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
    let Question { batch, input, .. } = question;
    say(&format!(
        "prefill of {input} tokens, next tokens of {batch} sequences of {input} to {}",
        question.contexts()[2]
    ));
    let passes = measured(setting, question)?;
    let mut found = run.answer(question, &passes);
    if setting.bands == BandScope::Everything {
        found.bands = Some(bands(setting, question, &passes, &found, say)?);
    }
    Ok(found)
}

impl Question {
    /// Where single tokens are timed.
    fn contexts(&self) -> [u64; 3] {
        let last = self.input + self.output.saturating_sub(2);
        [self.input, (self.input + self.output / 2).min(last), last]
    }
}

fn measured(setting: &StudySetup<'_>, question: Question) -> Result<Passes, MeasureError> {
    let model = StudyRun::new(setting)?.model;
    let (prompt, steps) = std::thread::scope(|scope| {
        let steps = scope.spawn(|| model.steps(question.batch, &question.contexts()));
        (model.prefill(question.input, None), steps.join())
    });
    let steps = steps.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
    Ok((prompt?, steps?))
}

/// The answer again at both ends of every figure that has a band.
fn bands(
    setting: &StudySetup<'_>,
    question: Question,
    stated: &Passes,
    answer: &Answer,
    say: &mut dyn FnMut(&str),
) -> Result<AnswerBands, MeasureError> {
    let mut figures = Vec::new();
    for ends in &setting.ends {
        say(&format!("{} from {} to {}", ends.figure, ends.ends[0], ends.ends[1]));
        let mut at: [Vec<f64>; 2] = Default::default();
        for (found, machine) in at.iter_mut().zip(&ends.machines) {
            let setting = with(setting, machine, setting.scales);
            let again =
                if is_timeless(&setting, &ends.figure) { None } else { Some(measured(&setting, question)?) };
            let run = StudyRun::new(&setting)?;
            *found = run.answer(question, again.as_ref().unwrap_or(stated)).results().to_vec();
        }
        let (figure, reason) = (ends.figure.clone(), ends.reason.clone());
        figures.push(FigureEffect { figure, ends: ends.ends.clone(), reason, at });
    }
    let range = |(index, (result, stated)): (usize, (&'static str, f64))| {
        let [low, high] = summed_range(stated, index, &figures);
        AnswerRange { result, stated, low, high }
    };
    let results = RESULTS.into_iter().zip(answer.results()).enumerate().map(range).collect();
    let swing = |effect: &FigureEffect| {
        let [low, high] = effect.at.each_ref().map(|at| at.last().copied().unwrap_or(0.0));
        (low - high).abs()
    };
    figures.sort_by(|one, other| swing(other).total_cmp(&swing(one)));
    Ok(AnswerBands { results, figures })
}

impl StudyRun<'_> {
    fn answer(&self, question: Question, (prompt, steps): &Passes) -> Answer {
        let (setting, Question { batch, input, output }) = (self.setting, question);
        let [(_, first), (_, middle), (_, last)] = &steps[..] else {
            broken(format_args!("{} passes of three contexts", steps.len()))
        };
        let [first_ms, middle_ms, last_ms] = [first, middle, last].map(|pass| self.ms(pass.cycles));
        // Simpson's rule over both ends and the middle, as for Table II.
        let next_token_ms = (first_ms + 4.0 * middle_ms + last_ms) / 6.0 + self.latency_ms();
        let first_token_ms = self.ms(prompt.cycles) + self.latency_ms();
        let watts = |pass: &Pass| self.joules(pass).iter().sum::<f64>() * self.hz / size(pass.cycles.max(1));
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
            bands: None,
        }
    }
}

/// The answer as text.
pub fn text(answer: &Answer) -> String {
    let gb = |bytes: u64| format!("{:.1}", size(bytes) / 1e9);
    let mut rows: Vec<Vec<String>> =
        RESULTS.iter().zip(answer.results()).map(|(name, value)| row(name, number(value))).collect();
    rows.extend([
        row("tokens/s/W of TDP", number(answer.tokens_per_s_per_tdp_w)),
        row("GB of HBM, weights and caches, of a chip", gb(answer.held_bytes)),
        row("GB of HBM that a chip has", gb(answer.hbm_bytes)),
    ]);
    let bands = answer.bands.as_ref().map_or(String::new(), bands_text);
    format!(
        "{} on {} {} with {} PEs each, {}: {} of {} tokens, {} more of each; every time is that of \
         a simulated program and {:.3} ms ({}) for a pass.\n\n{}{bands}",
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

fn row(name: &str, value: String) -> Vec<String> {
    vec![name.to_string(), value]
}

/// Results that the table of figures has: both times, and the rate for each watt.
const SHOWN: [usize; 3] = [0, 1, RESULTS.len() - 1];
/// Effects below this are printed as none.
const LEAST_PERCENT: f64 = 0.05;

fn bands_text(bands: &AnswerBands) -> String {
    let mut rows = vec![["", "low", "as stated", "high"].map(str::to_string).to_vec()];
    for range in &bands.results {
        let cells = [range.low, range.stated, range.high].map(number);
        rows.push([range.result.to_string()].into_iter().chain(cells).collect());
    }
    let ranges = table(&[Align::Left, Align::Right, Align::Right, Align::Right], &rows);
    let head = ["figure", "from", "to"].into_iter().chain(SHOWN.map(|at| RESULTS[at]));
    let head = head.chain(["why these ends"]).map(str::to_string);
    let (mut rows, mut idle) = (vec![head.collect::<Vec<_>>()], Vec::new());
    for effect in &bands.figures {
        let percents = SHOWN.map(|at| {
            let stated = bands.results[at].stated;
            effect.at.each_ref().map(|ends| (ends[at] / stated - 1.0) * 100.0)
        });
        let moves = |[low, high]: [f64; 2]| low.abs().max(high.abs()) >= LEAST_PERCENT;
        if !percents.iter().any(|ends| moves(*ends)) {
            idle.push(effect.figure.as_str());
            continue;
        }
        let cell = |[low, high]: [f64; 2]| {
            if moves([low, high]) { format!("{low:+.1}, {high:+.1}") } else { "-".to_string() }
        };
        let [low, high] = effect.ends.clone();
        let cells = [effect.figure.clone(), low, high].into_iter().chain(percents.map(cell));
        rows.push(cells.chain([effect.reason.clone()]).collect());
    }
    let mut aligns = [Align::Right; 7];
    (aligns[0], aligns[6]) = (Align::Left, Align::Left);
    let none =
        if idle.is_empty() { String::new() } else { format!("\nnone of these: {}\n", idle.join(", ")) };
    format!(
        "\nRanges: every figure at its ends, effects added up\n\n{ranges}\nWhat makes the ranges: each \
         figure at both ends, as percent of the result\n\n{}{none}",
        table(&aligns, &rows)
    )
}
