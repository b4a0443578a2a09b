//! `tilewright study llama2-7b`: the paper's section VI from simulated programs, put together.
//!
//! Everything that is printed is simulated: the ordinary compiler makes the programs of the configuration, the ordinary simulator times
//! them. Published figures are those of `bench/published.toml`; bounds follow from the machine's peaks and the model's sizes.

use std::collections::BTreeMap;

use serde::Serialize;
use tilewright_compile::Options;
use tilewright_compile::cluster::cluster;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_cost::energy::Component;

use super::curves::Point;
use super::figure10::{Figure10, figure10};
use super::figure13::{Activity, Seen};
use super::figure14::{Figure14, figure14};
use super::layout::Layout;
use super::measure::{MeasureError, Model, Pass, real};
use super::operators::Breakdown;
use super::parts::{Part, parts};
use super::power::{Figure, Power, power};
use super::rows::published;
use super::sizes::{Sizes, size};
use super::table2::Row;
use super::whatif::Twice;
use crate::args::Scales;

/// Lengths of prompts of Fig. 11.
const PROMPTS: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Those of them that a brief study has.
const FEW_PROMPTS: [u64; 4] = [128, 512, 1024, 2048];
/// The prompt that latencies are calibrated on, and the long one of Table II.
const SHORT: u64 = 128;
const LONG: u64 = 2048;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Study {
    pub(super) model: String,
    pub(super) chip: String,
    pub(super) dtype: String,
    /// What integer activations are scaled by, where there are any.
    pub(super) scales: Option<&'static str>,
    pub(super) pes: u64,
    pub(super) chips: u64,
    /// `128 t_sync + t_host`, calibrated on B=1, L=128 alone; never below zero.
    pub(super) latency_ms: f64,
    pub(super) table2: Vec<Row>,
    pub(super) figure10: Option<Figure10>,
    pub(super) figure11: Vec<Point>,
    pub(super) figure12: Vec<Point>,
    pub(super) figure13: Vec<Activity>,
    /// Fig. 15 are the parts of its six tactics.
    pub(super) figure14: Option<Figure14>,
    /// Steps that tokens a second are the mean of.
    pub(super) steps: Vec<Point>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
    pub(super) prefill_128: Vec<Part>,
    pub(super) prefill_2048: Vec<Part>,
    pub(super) operators_128: Breakdown,
    pub(super) operators_2048: Breakdown,
    pub(super) layout: Option<Layout>,
    /// What twice the off-chip memory would do.
    pub(super) twice_hbm: Vec<Twice>,
    pub(super) power: Power,
    /// Bytes that transfers moved between HBM and slices, one by one, beside those that were counted as events.
    pub(super) transfers: Vec<Transferred>,
    /// Everything that was counted in the long prompt, and its joules.
    pub(super) counts_2048: BTreeMap<&'static str, u64>,
    pub(super) joules_2048: BTreeMap<&'static str, f64>,
    /// Joules of a token by component, prompts of 2048 and batches of 32.
    pub(super) energy: Vec<(String, f64, f64)>,
    #[serde(skip)]
    pub(super) papers: bool,
    #[serde(skip)]
    pub(super) seen: Vec<(u64, Seen)>,
    #[serde(skip)]
    pub(super) hz: f64,
}

/// Bytes of a prompt.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Transferred {
    pub(super) tokens: u64,
    pub(super) by_transfer: u64,
    pub(super) counted: u64,
}

/// What the study needs.
pub(super) struct Setting<'s> {
    pub(super) machine: &'s Tcp,
    pub(super) chip: String,
    pub(super) graph: &'s tilewright_graph::Graph,
    pub(super) name: String,
    /// A built-in configuration, without weights.
    pub(super) is_configuration: bool,
    pub(super) options: Options,
    pub(super) scales: Scales,
    /// The model, type, chip and PEs of the paper: only then are there published values, and only on them is anything calibrated.
    pub(super) papers: bool,
    /// Figures that energies rest on.
    pub(super) figures: Vec<Figure>,
    /// Only Table II and what its passes show.
    pub(super) brief: bool,
}

impl Setting<'_> {
    fn scales_name(&self) -> Option<&'static str> {
        (self.options.dtype == Dtype::I8).then_some(match self.scales {
            Scales::Tensor => "one for a tensor, found beforehand",
            Scales::Token => "one for each token",
        })
    }
}

/// A study under way.
pub(super) struct Run<'s> {
    pub(super) setting: &'s Setting<'s>,
    pub(super) model: Model<'s>,
    pub(super) sizes: Sizes,
    pub(super) hz: f64,
    /// Peaks, products and bytes a second.
    pub(super) macs_per_s: f64,
    pub(super) bytes_per_s: f64,
}

/// Measures everything; `say` is told what is being done.
pub(super) fn study(setting: &Setting<'_>, say: &mut dyn FnMut(&str)) -> Result<Study, MeasureError> {
    let (machine, options) = (setting.machine, setting.options);
    let kernels = cluster(setting.graph)?;
    let elements = 8 * machine.ce.packet_bytes / u64::from(options.dtype.storage_bits());
    let hz = size(machine.chip.clock_hz);
    let run = Run {
        setting,
        model: Model {
            machine,
            graph: setting.graph,
            stretches: setting.is_configuration,
            scales: setting.scales,
            options,
        },
        sizes: Sizes::new(&kernels, options.dtype, options.cache),
        hz,
        macs_per_s: size(machine.slices() * options.chips * machine.ce.lanes * elements) * hz,
        bytes_per_s: machine.hbm_bytes_per_s() * size(options.chips),
    };
    run.all(say)
}

/// Prompts that were measured.
#[derive(Default)]
struct Prompts {
    points: Vec<Point>,
    passes: Vec<(u64, Pass)>,
    seen: Vec<(u64, Seen)>,
}

impl Prompts {
    fn pass(&self, tokens: u64) -> Option<&Pass> {
        self.passes.iter().find(|(length, _)| *length == tokens).map(|(_, pass)| pass)
    }

    /// Bytes of prompts that were looked at.
    fn transferred(&self) -> Vec<Transferred> {
        let counted = |pass: &Pass| pass.counts.hbm_read_bytes + pass.counts.hbm_written_bytes;
        let one = |(tokens, seen): &(u64, Seen)| {
            let counted = self.pass(*tokens).map_or(0, counted);
            Transferred { tokens: *tokens, by_transfer: seen.dma_hbm_bytes, counted }
        };
        self.seen.iter().map(one).collect()
    }

    fn breakdown(&self, tokens: u64) -> Breakdown {
        let seen = self.seen.iter().find(|(length, _)| *length == tokens);
        seen.map(|(_, seen)| seen.breakdown.clone()).unwrap_or_default()
    }
}

impl Run<'_> {
    fn all(&self, say: &mut dyn FnMut(&str)) -> Result<Study, MeasureError> {
        let mut missing = Vec::new();
        let mut prompts = self.prompts(say, &mut missing)?;
        let mut figure12 = if self.setting.brief { Vec::new() } else { self.figure12(say, &mut missing)? };
        let short = prompts.pass(SHORT).cloned().unwrap_or_default();
        let long = prompts.pass(LONG).cloned();
        let (short_ms, long_ms) = (self.ms(short.cycles), long.as_ref().map(|pass| self.ms(pass.cycles)));
        let short_published = published("B=1,L=128").filter(|_| self.setting.papers);
        let latency_ms = short_published.map_or(0.0, |value| value - short_ms).max(0.0);
        let mut table2 = vec![self.first_token("B=1,L=128", short_ms, latency_ms, size(SHORT))];
        table2.extend(long_ms.map(|ms| self.first_token("B=1,L=2048", ms, latency_ms, size(LONG))));
        let (mut steps, mut batch_energy) = (Vec::new(), Vec::new());
        for batch in [16, 32] {
            say(&format!("next tokens of {batch} sequences of 2048 to 4095 tokens"));
            match self.model.steps(batch, &[2048, 3072, 4094]) {
                Ok(found) => {
                    table2.extend(self.throughput(batch, &found, long_ms, latency_ms));
                    batch_energy = found.get(1).map_or(Vec::new(), |(_, pass)| self.components(pass, batch));
                    steps.extend(found.iter().map(|(past, pass)| self.step_point(batch, past + 1, pass)));
                }
                Err(MeasureError::Compile(why)) => missing.push(format!("batch of {batch}: {why}")),
                Err(error) => return Err(error),
            }
        }
        for points in [&mut prompts.points, &mut figure12, &mut steps] {
            *points = points.drain(..).map(|point| point.with_latency(latency_ms)).collect();
        }
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
        let tactics = super::figure10::sizes(machine).and_then(|sizes| figure14(machine, sizes));
        let figures = self.setting.figures.clone();
        Ok(Study {
            figure10: figure10(machine),
            twice_hbm,
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
        })
    }

    /// All prompts of Fig. 11, those of Table II with their records.
    fn prompts(&self, say: &mut dyn FnMut(&str), missing: &mut Vec<String>) -> Result<Prompts, MeasureError> {
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
    ) -> Result<Prompts, MeasureError> {
        let mut prompts = Prompts::default();
        for tokens in lengths {
            say(&format!("prefill of {tokens} tokens"));
            let mut seen = Seen::default();
            let mut look = |chunk: &super::measure::Chunk<'_>| {
                seen.look(self.setting.machine, *tokens, self.setting.options.all_pes(), chunk);
            };
            let looked = [SHORT, LONG].contains(tokens);
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
                // Without this one there is nothing to calibrate, and no study.
                Err(MeasureError::Compile(why)) if *tokens != SHORT => {
                    missing.push(format!("prefill of {tokens} tokens: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(prompts)
    }

    /// Milliseconds of cycles.
    pub(super) fn ms(&self, cycles: u64) -> f64 {
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
    /// What integer activations are scaled by.
    pub(super) fn scaled(&self) -> String {
        self.scales.map_or_else(String::new, |scales| format!(" (scales of activations: {scales})"))
    }

    /// PEs and chips.
    pub(super) fn where_on(&self) -> String {
        match self.chips {
            1 => format!("{} PEs", self.pes),
            chips => format!("{} PEs on each of {chips} chips", self.pes),
        }
    }

    /// Prompts whose runs were looked at.
    pub(super) fn prompts_seen(&self) -> Vec<(u64, &Seen)> {
        self.seen.iter().map(|(tokens, seen)| (*tokens, seen)).collect()
    }
}
