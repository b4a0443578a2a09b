//! `tilewright study llama2-7b`: the paper's section VI from simulated programs, put together.
//!
//! The ordinary compiler makes the programs of the configuration, the ordinary simulator times them; the
//! tactics of Figs 14 and 15 are the explorer's, and those that are named are lowered and simulated.
//! Published figures are those of `bench/published.toml`; bounds follow from the machine's peaks and the
//! model's sizes.

use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use serde::Serialize;
use tilewright_compile::Options;
use tilewright_compile::cluster::cluster;
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_num::Dtype;
use tilewright_tcp_cost::energy::Component;

use crate::bands::{BandScope, Bands, FigureEnds, MeasuredPasses, STEP_CONTEXTS, bands};
use crate::curves::Point;
use crate::figure10::{Figure10, figure10};
use crate::figure13::{Activity, PromptActivity};
use crate::figure14::{Figure14, figure14, task};
use crate::layout::BlockLayout;
use crate::measure::{MeasureError, MeasuredModel, Pass, real};
use crate::operators::Breakdown;
use crate::parts::{CommandKind, parts};
use crate::power::{MachineFigure, Power, power};
use crate::sizes::{BlockSizes, size};
use crate::table2::Table2Row;
use crate::whatif::TwiceHbm;

/// Lengths of prompts of Fig. 11.
const PROMPTS: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Those of them that a brief study has.
const FEW_PROMPTS: [u64; 4] = [128, 512, 1024, 2048];
/// The short and the long prompt of Table II.
pub(crate) const SHORT: u64 = 128;
pub(crate) const LONG: u64 = 2048;

/// PEs of all chips whose runs are recorded at most: the record of a prompt on more of them takes more memory
/// than hosts have.
const MOST_RECORDED_PES: u64 = 32;

/// What a scale of integer activations is shared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// A whole tensor, found beforehand.
    Tensor,
    /// The activations of one token.
    Token,
}

impl Scales {
    /// What is said of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scales::Tensor => "one for a tensor, found beforehand",
            Scales::Token => "one for each token",
        }
    }
}

/// What a case study found: the tables and figures of the paper's section VI, ours beside published values.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Name or file of the model.
    pub model: String,
    /// Name or file of the machine.
    pub chip: String,
    /// Type of weights and activations.
    pub dtype: String,
    /// What integer activations are scaled by, where there are any.
    pub scales: Option<&'static str>,
    /// Processing elements of a chip.
    pub pes: u64,
    /// Chips that share the weights.
    pub chips: u64,
    /// What every pass has besides its programs: `host.pass_ns` of the machine, for every model alike.
    pub latency_ms: f64,
    /// Where that figure is from, and the published rows that it was fitted to.
    pub latency: AppliedLatency,
    /// Table II: first tokens, and tokens a second.
    pub table2: Vec<Table2Row>,
    /// Fig. 10, if its tactic is legal on the machine.
    pub figure10: Option<Figure10>,
    /// Fig. 11: the first token by length of prompt.
    pub figure11: Vec<Point>,
    /// Fig. 12: the next token by context and batch.
    pub figure12: Vec<Point>,
    /// Fig. 13: a decoder block, run by run.
    pub figure13: Vec<Activity>,
    /// Figs. 14 and 15: tactics of Fig. 10 by time and power, and the parts of six of them.
    pub figure14: Option<Figure14>,
    /// Steps that tokens a second are the mean of.
    pub steps: Vec<Point>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
    /// Kinds of commands of a prompt of 128 tokens, those that take longest first.
    pub prefill_128: Vec<CommandKind>,
    /// Kinds of commands of a prompt of 2048 tokens, those that take longest first.
    pub prefill_2048: Vec<CommandKind>,
    /// Operators of a decoder block of a prompt of 128 tokens.
    pub operators_128: Breakdown,
    /// Operators of a decoder block of a prompt of 2048 tokens.
    pub operators_2048: Breakdown,
    /// How a decoder block is laid out in memory.
    pub layout: Option<BlockLayout>,
    /// What twice the off-chip memory would do.
    pub twice_hbm: Vec<TwiceHbm>,
    /// Power and energy of the passes.
    pub power: Power,
    /// Bytes that transfers moved between HBM and slices, one by one, beside those that were counted as
    /// events.
    pub transfers: Vec<TransferredBytes>,
    /// Everything that was counted in the prompt of 2048 tokens.
    pub counts_2048: BTreeMap<&'static str, u64>,
    /// Joules of the prompt of 2048 tokens, by component.
    pub joules_2048: BTreeMap<&'static str, f64>,
    /// Joules of a token by component, prompts of 2048 and batches of 32.
    pub energy: Vec<(String, f64, f64)>,
    /// Table II over the band of HBM's efficiency, and ranges of results where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bands: Option<Bands>,
    /// Whether this is what the paper measured: only then are there published values.
    #[serde(skip)]
    pub papers: bool,
    #[serde(skip)]
    pub(crate) seen: Vec<(u64, PromptActivity)>,
    #[serde(skip)]
    pub(crate) hz: f64,
}

/// The latency that a study adds to every pass.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AppliedLatency {
    /// The figure of the machine.
    pub figure: &'static str,
    /// Its value.
    pub ns: u64,
    /// Where it comes from.
    pub source: String,
    /// Published rows that it was fitted to: their errors say nothing.
    pub fitted_to: Vec<String>,
}

/// The latency of a machine's passes.
pub fn applied_latency(loaded: &LoadedMachine) -> AppliedLatency {
    const FIGURE: &str = "host.pass_ns";
    let found =
        loaded.key_values().into_iter().find(|figure| FIGURE == format!("{}.{}", figure.section, figure.key));
    let ns = loaded.machine.tcp().map_or(0, |machine| machine.host.pass_ns);
    found.map_or_else(AppliedLatency::default, |figure| AppliedLatency {
        figure: FIGURE,
        ns,
        source: figure.source.to_string(),
        fitted_to: figure.fitted_to,
    })
}

/// Bytes of a prompt that transfers moved between HBM and slices.
#[derive(Clone, Debug, Serialize)]
pub struct TransferredBytes {
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Bytes, added transfer by transfer.
    pub by_transfer: u64,
    /// Bytes that were counted as events.
    pub counted: u64,
}

/// A model, PEs and chips that values are published for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedSetting {
    /// Name of the configuration.
    pub model: &'static str,
    /// PEs.
    pub pes: u64,
    /// Chips.
    pub chips: u64,
}

/// What the rows of Table II and Figs 10 to 15 were measured with (paper section VII), in int8.
pub const PUBLISHED_SETTING: PublishedSetting = PublishedSetting { model: "llama2-7b", pes: 8, chips: 1 };

impl PublishedSetting {
    /// Whether published values stand beside those of a model on so many PEs and chips.
    pub fn covers(&self, model: &str, pes: u64, chips: u64) -> bool {
        (self.model, self.pes, self.chips) == (model, pes, chips)
    }
}

/// What a case study is of.
pub struct StudySetup<'s> {
    /// The machine.
    pub machine: &'s Tcp,
    /// Name or file of the machine.
    pub chip: String,
    /// The model.
    pub graph: &'s tilewright_graph::Graph,
    /// Name or file of the model.
    pub name: String,
    /// A built-in configuration, without weights.
    pub is_configuration: bool,
    /// What the model is compiled for.
    pub options: Options,
    /// What integer activations are scaled by.
    pub scales: Scales,
    /// The model, type, chip and PEs of the paper: only then are there published values.
    pub papers: bool,
    /// What passes have besides their programs.
    pub latency: AppliedLatency,
    /// Figures that energies rest on.
    pub figures: Vec<MachineFigure>,
    /// Figures that have a band, with the machines at its ends.
    pub ends: Vec<FigureEnds>,
    /// What is measured again at these ends.
    pub bands: BandScope,
    /// Only Table II and what its passes show.
    pub brief: bool,
    /// Set by whoever wants no more of it: what is measured ends before its next program.
    pub stop: Option<&'s std::sync::atomic::AtomicBool>,
}

impl StudySetup<'_> {
    fn scales_name(&self) -> Option<&'static str> {
        (self.options.dtype == Dtype::I8).then_some(self.scales.name())
    }
}

/// A study under way.
pub(crate) struct StudyRun<'s> {
    pub(crate) setting: &'s StudySetup<'s>,
    pub(crate) model: MeasuredModel<'s>,
    pub(crate) sizes: BlockSizes,
    pub(crate) hz: f64,
    /// Peaks, products and bytes a second.
    pub(crate) macs_per_s: f64,
    pub(crate) bytes_per_s: f64,
}

/// Measures everything; `say` is told what is being done.
///
/// # Errors
/// A model that does not compile, programs that cannot be simulated.
pub fn study(setting: &StudySetup<'_>, say: &mut dyn FnMut(&str)) -> Result<Study, MeasureError> {
    let (mut found, passes) = StudyRun::new(setting)?.all(say)?;
    match bands(setting, passes, say) {
        Ok(bands) => found.bands = bands,
        Err(MeasureError::Compile(why)) => found.missing.push(format!("bands: {why}")),
        Err(error) => return Err(error),
    }
    Ok(found)
}

impl<'s> StudyRun<'s> {
    /// A study that has measured nothing yet.
    pub(crate) fn new(setting: &'s StudySetup<'s>) -> Result<StudyRun<'s>, MeasureError> {
        let (machine, options) = (setting.machine, setting.options);
        let kernels = cluster(setting.graph)?;
        let elements = 8 * machine.ce.packet_bytes / u64::from(options.dtype.storage_bits());
        let hz = size(machine.chip.clock_hz);
        Ok(StudyRun {
            setting,
            model: MeasuredModel {
                machine,
                graph: setting.graph,
                stretches: setting.is_configuration,
                scales: setting.scales,
                options,
                stop: setting.stop,
            },
            sizes: BlockSizes::new(&kernels, options.dtype, options.cache),
            hz,
            macs_per_s: size(machine.slices() * options.chips * machine.ce.lanes * elements) * hz,
            bytes_per_s: machine.hbm_bytes_per_s() * size(options.chips),
        })
    }
}

/// Prompts that were measured.
#[derive(Default)]
struct PromptMeasurements {
    points: Vec<Point>,
    passes: Vec<(u64, Pass)>,
    seen: Vec<(u64, PromptActivity)>,
}

impl PromptMeasurements {
    fn pass(&self, tokens: u64) -> Option<&Pass> {
        self.passes.iter().find(|(length, _)| *length == tokens).map(|(_, pass)| pass)
    }

    /// Bytes of prompts that were looked at.
    fn transferred(&self) -> Vec<TransferredBytes> {
        let counted = |pass: &Pass| pass.counts.hbm_read_bytes + pass.counts.hbm_written_bytes;
        let one = |(tokens, seen): &(u64, PromptActivity)| {
            let counted = self.pass(*tokens).map_or(0, counted);
            TransferredBytes { tokens: *tokens, by_transfer: seen.dma_hbm_bytes, counted }
        };
        self.seen.iter().map(one).collect()
    }

    fn breakdown(&self, tokens: u64) -> Breakdown {
        let seen = self.seen.iter().find(|(length, _)| *length == tokens);
        // A prompt that was too long for the memories was not seen: it has no parts.
        seen.map(|(_, seen)| seen.breakdown.clone()).unwrap_or_default()
    }
}

impl StudyRun<'_> {
    /// The study without bands, and the passes of Table II if all of them could be measured.
    fn all(&self, say: &mut dyn FnMut(&str)) -> Result<(Study, Option<MeasuredPasses>), MeasureError> {
        let mut missing = Vec::from_iter(self.unrecorded());
        let mut prompts = self.prompts(say, &mut missing)?;
        let mut figure12 = if self.setting.brief { Vec::new() } else { self.figure12(say, &mut missing)? };
        let short = prompts.pass(SHORT).cloned().or_broken("a study without its short prompt ended before");
        let long = prompts.pass(LONG).cloned();
        let (short_ms, long_ms) = (self.ms(short.cycles), long.as_ref().map(|pass| self.ms(pass.cycles)));
        let latency_ms = self.latency_ms();
        let mut table2 = vec![self.first_token("B=1,L=128", short_ms, latency_ms, size(SHORT))];
        table2.extend(long_ms.map(|ms| self.first_token("B=1,L=2048", ms, latency_ms, size(LONG))));
        let (mut steps, mut batch_energy, mut batches) = (Vec::new(), Vec::new(), Vec::new());
        for batch in [16, 32] {
            say(&format!("next tokens of {batch} sequences of 2048 to 4095 tokens"));
            match self.model.steps(batch, &STEP_CONTEXTS) {
                Ok(found) => {
                    table2.extend(self.throughput(batch, &found, long_ms, latency_ms));
                    batch_energy = found.get(1).map_or(Vec::new(), |(_, pass)| self.components(pass, batch));
                    steps.extend(found.iter().map(|(past, pass)| self.step_point(batch, past + 1, pass)));
                    batches.push(found);
                }
                Err(MeasureError::Compile(why)) => missing.push(format!("batch of {batch}: {why}")),
                Err(error) => return Err(error),
            }
        }
        for points in [&mut prompts.points, &mut figure12, &mut steps] {
            *points = points.drain(..).map(|point| point.with_latency(latency_ms)).collect();
        }
        let passes = long.clone().zip(<[_; 2]>::try_from(batches).ok());
        let passes = passes.map(|(long, steps)| MeasuredPasses { prompts: [short.clone(), long], steps });
        let long = long.unwrap_or_default();
        let long_energy = self.components(&long, LONG);
        let energy = long_energy.iter().enumerate().map(|(at, (name, joules))| {
            (name.clone(), *joules, batch_energy.get(at).map_or(0.0, |(_, joules)| *joules))
        });
        say("prompts with twice the off-chip memory");
        let measured = [(SHORT, Some(short_ms)), (LONG, long_ms)];
        let measured: Vec<(u64, f64)> =
            measured.into_iter().filter_map(|(tokens, ms)| Some((tokens, ms?))).collect();
        let twice_hbm = self.twice_hbm(&measured)?;
        let (options, machine) = (self.setting.options, self.setting.machine);
        let tactics = task(machine, crate::figure10::TACTIC).and_then(|task| figure14(&task));
        let figures = self.setting.figures.clone();
        let study = Study {
            figure10: figure10(machine),
            twice_hbm,
            bands: None,
            papers: self.setting.papers,
            figure14: tactics,
            layout: prompts.seen.last().and_then(|(_, seen)| seen.layout.clone()),
            power: power(machine.chip.tdp_w * size(options.chips), &prompts.points, &steps, figures),
            transfers: prompts.transferred(),
            counts_2048: long.counts.named().into_iter().collect(),
            joules_2048: Component::ALL
                .iter()
                .zip(&long.energy_fj)
                .map(|(component, fj)| (component.name(), real(*fj) * 1e-15))
                .collect(),
            model: self.setting.name.clone(),
            chip: self.setting.chip.clone(),
            dtype: self.setting.options.dtype.to_string(),
            scales: self.setting.scales_name(),
            pes: options.pes,
            chips: options.chips,
            latency_ms,
            latency: self.setting.latency.clone(),
            table2,
            figure12,
            figure13: prompts.seen.iter().flat_map(|(_, seen)| seen.activities.clone()).collect(),
            steps,
            missing,
            prefill_128: parts(&short, options.all_pes()),
            prefill_2048: parts(&long, options.all_pes()),
            operators_128: prompts.breakdown(SHORT),
            operators_2048: prompts.breakdown(LONG),
            energy: energy.collect(),
            figure11: prompts.points,
            seen: prompts.seen,
            hz: self.hz,
        };
        Ok((study, passes))
    }

    /// What is missing because runs on so many PEs are not recorded.
    fn unrecorded(&self) -> Option<String> {
        let all_pes = self.setting.options.all_pes();
        (all_pes > MOST_RECORDED_PES).then(|| {
            format!(
                "Fig. 13, operators and layout: they need the record of a run, which {all_pes} PEs make too \
                 large; up to {MOST_RECORDED_PES} have one"
            )
        })
    }

    /// All prompts of Fig. 11, those of Table II with their records.
    fn prompts(
        &self,
        say: &mut dyn FnMut(&str),
        missing: &mut Vec<String>,
    ) -> Result<PromptMeasurements, MeasureError> {
        if self.setting.brief {
            return self.each_prompt(&FEW_PROMPTS, None, say, missing);
        }
        // The longest takes as long as all others together.
        let (longest, others) = PROMPTS.split_last().map_or((LONG, &[][..]), |(last, rest)| (*last, rest));
        let (prompts, pass) = std::thread::scope(|scope| {
            let ahead = scope.spawn(|| self.model.prefill(longest, None));
            let prompts = self.each_prompt(others, None, say, missing);
            say(&format!("prefill of {longest} tokens"));
            (prompts, ahead.join())
        });
        let mut prompts = prompts?;
        let pass = pass.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
        let last = self.each_prompt(&[longest], Some(pass), say, missing)?;
        prompts.points.extend(last.points);
        prompts.passes.extend(last.passes);
        Ok(prompts)
    }

    /// Prompts of some lengths, one after the other; of the first perhaps what it took.
    fn each_prompt(
        &self,
        lengths: &[u64],
        mut measured: Option<Result<Pass, MeasureError>>,
        say: &mut dyn FnMut(&str),
        missing: &mut Vec<String>,
    ) -> Result<PromptMeasurements, MeasureError> {
        let mut prompts = PromptMeasurements::default();
        for tokens in lengths {
            say(&format!("prefill of {tokens} tokens"));
            let mut seen = PromptActivity::default();
            let mut look = |chunk: &crate::measure::PromptChunk<'_>| {
                seen.look(self.setting.machine, *tokens, self.setting.options.all_pes(), chunk);
            };
            let looked =
                [SHORT, LONG].contains(tokens) && self.setting.options.all_pes() <= MOST_RECORDED_PES;
            let pass = match measured.take() {
                Some(pass) => pass,
                None => self.model.prefill(*tokens, if looked { Some(&mut look) } else { None }),
            };
            match pass {
                Ok(pass) => {
                    prompts.points.push(self.prompt_point(*tokens, &pass));
                    prompts.passes.push((*tokens, pass));
                    if looked {
                        prompts.seen.push((*tokens, seen));
                    }
                }
                // Without this one there is no study.
                Err(MeasureError::Compile(why)) if *tokens != SHORT => {
                    missing.push(format!("prefill of {tokens} tokens: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(prompts)
    }

    /// Milliseconds that every pass has besides its programs.
    pub(crate) fn latency_ms(&self) -> f64 {
        size(self.setting.machine.host.pass_ns) * 1e-6
    }

    /// Milliseconds of cycles.
    pub(crate) fn ms(&self, cycles: u64) -> f64 {
        size(cycles) / self.hz * 1e3
    }

    /// Joules by component, of one token.
    fn components(&self, pass: &Pass, tokens: u64) -> Vec<(String, f64)> {
        let each = |(component, fj): (&Component, &u128)| {
            (component.name().to_string(), real(*fj) * 1e-15 / size(tokens))
        };
        Component::ALL.iter().zip(&pass.energy_fj).map(each).collect()
    }
}

impl Study {
    /// Our value of a row of Table II.
    pub fn table2_value(&self, row: &str) -> Option<f64> {
        self.table2.iter().find(|found| found.row == row).map(|row| row.ours)
    }

    /// What integer activations are scaled by.
    pub(crate) fn scaled(&self) -> String {
        self.scales.map_or_else(String::new, |scales| format!(" (scales of activations: {scales})"))
    }

    /// PEs and chips.
    pub(crate) fn where_on(&self) -> String {
        match self.chips {
            1 => format!("{} PEs", self.pes),
            chips => format!("{} PEs on each of {chips} chips", self.pes),
        }
    }

    /// Prompts whose runs were looked at.
    pub(crate) fn prompts_seen(&self) -> Vec<(u64, &PromptActivity)> {
        self.seen.iter().map(|(tokens, seen)| (*tokens, seen)).collect()
    }
}
