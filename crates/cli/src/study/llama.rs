//! `tilewright study llama2-7b`: the paper's Table II and Figures 11 and 12 from simulated programs.
//!
//! Everything that is printed is simulated: the ordinary compiler makes the programs of the configuration, the ordinary simulator times
//! them. Published figures are those of the paper (Table II); bounds follow from the machine's peaks and the model's sizes.

use serde::Serialize;
use tilewright_compile::Options;
use tilewright_compile::cluster::cluster;
use tilewright_compile::kernel::{Kernel, Kernels};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_report::columns::{Align, table};
use tilewright_tcp::energy::Component;

use super::measure::{MeasureError, Model, Pass, real};

/// Lengths of prompts of Fig. 11.
const PROMPTS: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// The prompt that latencies are calibrated on.
const CALIBRATED: u64 = 128;
/// Contexts and batches of Fig. 12.
const CONTEXTS: [u64; 5] = [128, 512, 1024, 2048, 4096];
const BATCHES: [u64; 4] = [1, 4, 16, 32];

/// A row of Table II.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) row: String,
    pub(super) unit: &'static str,
    pub(super) published: Option<f64>,
    pub(super) l40s: Option<f64>,
    pub(super) h100: Option<f64>,
    /// With the calibrated sum of latencies.
    pub(super) ours: f64,
    /// With that sum at zero.
    pub(super) without_latency: f64,
    pub(super) error_percent: Option<f64>,
    /// No implementation is better.
    pub(super) bound: f64,
}

/// A point of Fig. 11 or 12.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub(super) batch: u64,
    pub(super) tokens: u64,
    pub(super) ms: f64,
    pub(super) cycles: u64,
    /// Products of the model over products that the chip could do.
    pub(super) mac_use: f64,
    /// Bytes of weights and caches over bytes that HBM could move.
    pub(super) hbm_use: f64,
    pub(super) tensor_unit_use: f64,
    pub(super) dma_use: f64,
    pub(super) hbm_bytes: f64,
    pub(super) joules: f64,
    pub(super) watts: f64,
}

/// A kind of command in a pass.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    pub(super) kind: String,
    pub(super) runs: u64,
    /// Of one processing element.
    pub(super) cycles: f64,
    pub(super) percent: f64,
    pub(super) microjoules: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Study {
    pub(super) model: String,
    pub(super) chip: String,
    pub(super) dtype: String,
    pub(super) pes: u64,
    /// `128 t_sync + t_host`, calibrated on B=1, L=128 alone; never below zero.
    pub(super) latency_ms: f64,
    pub(super) table2: Vec<Row>,
    pub(super) figure11: Vec<Point>,
    pub(super) figure12: Vec<Point>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
    pub(super) prefill_128: Vec<Part>,
    pub(super) prefill_2048: Vec<Part>,
    /// Joules of a token by component, prompts of 2048 and batches of 32.
    pub(super) energy: Vec<(String, f64, f64)>,
}

/// Sizes that bounds and uses follow from.
struct Sizes {
    weight_bytes: f64,
    linear_macs: f64,
    head_macs: f64,
    /// Of one token in all caches.
    kv_bytes: f64,
    /// Of one query and one key.
    pair_macs: f64,
}

impl Sizes {
    fn new(kernels: &Kernels, dtype: Dtype, cache: Dtype) -> Sizes {
        let bytes = |dtype: Dtype| f64::from(dtype.storage_bits()) / 8.0;
        let (mut macs, mut head, mut kv, mut pairs) = (0.0, 0.0, 0.0, 0.0);
        for kernel in &kernels.kernels {
            match kernel {
                Kernel::Head { weight, .. } => head += size(weight.rows.size) * size(weight.columns.size),
                Kernel::Attend { heads, .. } => {
                    kv += 2.0 * size(heads.kv_width());
                    pairs += 2.0 * size(heads.kv * heads.group * heads.depth);
                }
                _ => {}
            }
        }
        for weight in kernels.weights() {
            macs += size(weight.rows.size) * size(weight.columns.size);
        }
        Sizes {
            weight_bytes: macs * bytes(dtype),
            linear_macs: macs - head,
            head_macs: head,
            kv_bytes: kv * bytes(cache),
            pair_macs: pairs,
        }
    }

    fn prefill_macs(&self, tokens: f64) -> f64 {
        tokens * self.linear_macs + self.head_macs + self.pair_macs * tokens * tokens
    }

    fn decode_macs(&self, batch: f64, context: f64) -> f64 {
        batch * (self.linear_macs + self.head_macs + self.pair_macs * context)
    }
}

fn size(count: u64) -> f64 {
    real(u128::from(count))
}

/// What the study needs.
pub(super) struct Setting<'s> {
    pub(super) machine: &'s Tcp,
    pub(super) chip: String,
    pub(super) graph: &'s tilewright_graph::Graph,
    pub(super) name: String,
    pub(super) options: Options,
    /// Only Table II.
    pub(super) brief: bool,
}

struct Run<'s> {
    setting: &'s Setting<'s>,
    model: Model<'s>,
    sizes: Sizes,
    hz: f64,
    /// Peaks, products and bytes a second.
    macs_per_s: f64,
    bytes_per_s: f64,
}

/// Measures everything; `say` is told what is being done.
pub(super) fn study(setting: &Setting<'_>, say: &mut dyn FnMut(&str)) -> Result<Study, MeasureError> {
    let (machine, options) = (setting.machine, setting.options);
    let kernels = cluster(setting.graph)?;
    let elements = 8 * machine.ce.packet_bytes / u64::from(options.dtype.storage_bits());
    let hz = size(machine.chip.clock_hz);
    let run = Run {
        setting,
        model: Model { machine, graph: setting.graph, options },
        sizes: Sizes::new(&kernels, options.dtype, options.cache),
        hz,
        macs_per_s: size(machine.slices() * machine.ce.lanes * elements) * hz,
        bytes_per_s: machine.hbm_bytes_per_s(),
    };
    run.all(say)
}

impl Run<'_> {
    fn all(&self, say: &mut dyn FnMut(&str)) -> Result<Study, MeasureError> {
        let mut missing = Vec::new();
        let mut figure11 = Vec::new();
        let mut passes = Vec::new();
        let prompts: &[u64] = if self.setting.brief { &[128, 2048] } else { &PROMPTS };
        for tokens in prompts {
            say(&format!("prefill of {tokens} tokens"));
            match self.model.prefill(*tokens) {
                Ok(pass) => {
                    figure11.push(self.point(1, *tokens, &pass, self.sizes.prefill_macs(size(*tokens))));
                    passes.push((*tokens, pass));
                }
                // Without this one there is nothing to calibrate, and no study.
                Err(MeasureError::Compile(why)) if *tokens != CALIBRATED => {
                    missing.push(format!("prefill of {tokens} tokens: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        let figure12 = if self.setting.brief { Vec::new() } else { self.figure12(say, &mut missing)? };
        let of = |tokens: u64| passes.iter().find(|(length, _)| *length == tokens).map(|(_, pass)| pass);
        let short = of(CALIBRATED).cloned().unwrap_or_default();
        let long = of(2048).cloned();
        let (short_ms, long_ms) = (self.ms(short.cycles), long.as_ref().map(|pass| self.ms(pass.cycles)));
        let latency_ms = published("B=1,L=128").map_or(0.0, |(value, ..)| value - short_ms).max(0.0);
        let mut table2 = vec![self.first_token("B=1,L=128", short_ms, latency_ms, 128.0)];
        table2.extend(long_ms.map(|ms| self.first_token("B=1,L=2048", ms, latency_ms, 2048.0)));
        let mut batch_energy = Vec::new();
        for batch in [16, 32] {
            say(&format!("next tokens of {batch} sequences of 2048 to 4095 tokens"));
            match self.model.steps(batch, &[2048, 3072, 4094]) {
                Ok(steps) => {
                    table2.extend(self.throughput(batch, &steps, long_ms, latency_ms));
                    batch_energy = steps.get(1).map_or(Vec::new(), |(_, pass)| self.components(pass, batch));
                }
                Err(MeasureError::Compile(why)) => missing.push(format!("batch of {batch}: {why}")),
                Err(error) => return Err(error),
            }
        }
        let long = long.unwrap_or_default();
        let long_energy = self.components(&long, 2048);
        let energy = long_energy.iter().enumerate().map(|(at, (name, joules))| {
            (name.clone(), *joules, batch_energy.get(at).map_or(0.0, |(_, joules)| *joules))
        });
        Ok(Study {
            model: self.setting.name.clone(),
            chip: self.setting.chip.clone(),
            dtype: self.setting.options.dtype.to_string(),
            pes: self.setting.options.pes,
            latency_ms,
            table2,
            figure11,
            figure12,
            missing,
            prefill_128: self.parts(&short),
            prefill_2048: self.parts(&long),
            energy: energy.collect(),
        })
    }

    fn figure12(
        &self,
        say: &mut dyn FnMut(&str),
        missing: &mut Vec<String>,
    ) -> Result<Vec<Point>, MeasureError> {
        let mut points = Vec::new();
        for batch in BATCHES {
            say(&format!("next tokens of {batch} sequences"));
            let contexts = CONTEXTS.map(|context| context - 1);
            match self.model.steps(batch, &contexts) {
                Ok(steps) => points.extend(steps.iter().map(|(context, pass)| {
                    let macs = self.sizes.decode_macs(size(batch), size(*context + 1));
                    self.point(batch, context + 1, pass, macs)
                })),
                Err(MeasureError::Compile(why)) => missing.push(format!("batch of {batch}: {why}")),
                Err(error) => return Err(error),
            }
        }
        Ok(points)
    }

    fn ms(&self, cycles: u64) -> f64 {
        size(cycles) / self.hz * 1e3
    }

    fn point(&self, batch: u64, tokens: u64, pass: &Pass, macs: f64) -> Point {
        let seconds = size(pass.cycles) / self.hz;
        Point {
            batch,
            tokens,
            ms: seconds * 1e3,
            cycles: pass.cycles,
            mac_use: macs / (seconds * self.macs_per_s),
            hbm_use: pass.hbm_bytes() / (seconds * self.bytes_per_s),
            tensor_unit_use: size(pass.main_cycles) / size(pass.cycles),
            dma_use: size(pass.dma_cycles) / size(pass.cycles),
            hbm_bytes: pass.hbm_bytes(),
            joules: pass.joules(),
            watts: pass.joules() / seconds,
        }
    }

    fn first_token(&self, row: &str, ms: f64, latency_ms: f64, tokens: f64) -> Row {
        // Half of the pairs are masked.
        let pairs = self.sizes.pair_macs * tokens * (tokens + 1.0) / 2.0;
        let macs = tokens * self.sizes.linear_macs + self.sizes.head_macs + pairs;
        let bound = (self.sizes.weight_bytes / self.bytes_per_s).max(macs / self.macs_per_s) * 1e3;
        new_row(row, "ms", ms + latency_ms, ms, bound)
    }

    /// Tokens a second and a second and watt, single tokens alone, and with their prompts.
    fn throughput(
        &self,
        batch: u64,
        steps: &[(u64, Pass)],
        prefill_ms: Option<f64>,
        latency_ms: f64,
    ) -> Vec<Row> {
        let ms = |at: usize| steps.get(at).map_or(0.0, |(_, pass)| self.ms(pass.cycles));
        // Steps are nearly straight over the context: Simpson's rule over both ends and the middle.
        let mean = (ms(0) + 4.0 * ms(1) + ms(2)) / 6.0;
        let sequences = size(batch);
        let rate = |step_ms: f64| sequences / step_ms * 1e3;
        let with_prompts = |step_ms: f64, first_ms: f64| {
            sequences * 2048.0 / (sequences * first_ms + 2047.0 * step_ms) * 1e3
        };
        let bytes = self.sizes.weight_bytes + sequences * 3071.5 * self.sizes.kv_bytes;
        let bound_ms = bytes / self.bytes_per_s * 1e3;
        let watts = self.setting.machine.chip.tdp_w;
        let name = format!("B={batch},2K+2K");
        let (ours, plain) = (rate(mean + latency_ms), rate(mean));
        let bound_all = with_prompts(bound_ms, self.sizes.prefill_macs(2048.0) / self.macs_per_s * 1e3);
        let whole = prefill_ms.map(|first_ms| {
            let ours = with_prompts(mean + latency_ms, first_ms + latency_ms);
            let row = format!("{name},prompts included");
            new_row(&row, "tokens/s", ours, with_prompts(mean, first_ms), bound_all)
        });
        let per_watt = format!("{name},per W of TDP");
        let mut rows = vec![new_row(&name, "tokens/s", ours, plain, rate(bound_ms))];
        rows.extend(whole);
        rows.push(new_row(&per_watt, "tokens/s/W", ours / watts, plain / watts, rate(bound_ms) / watts));
        rows
    }

    /// Joules by component, of one token.
    fn components(&self, pass: &Pass, tokens: u64) -> Vec<(String, f64)> {
        let each = |(component, fj): (&Component, &u128)| {
            (component.name().to_string(), real(*fj) * 1e-15 / size(tokens))
        };
        Component::ALL.iter().zip(&pass.energy_fj).map(each).collect()
    }

    fn parts(&self, pass: &Pass) -> Vec<Part> {
        let pes = size(self.setting.options.pes);
        let mut parts: Vec<Part> = pass
            .kinds
            .iter()
            .map(|(kind, (runs, cycles, fj))| Part {
                kind: kind.clone(),
                runs: *runs,
                cycles: real(*cycles) / pes,
                percent: real(*cycles) / pes / size(pass.cycles.max(1)) * 100.0,
                microjoules: real(*fj) * 1e-9,
            })
            .collect();
        parts.sort_by(|a, b| b.cycles.total_cmp(&a.cycles));
        parts.truncate(24);
        parts
    }
}

/// Published values of Table II: the TCP, the L40S and the H100 (paper section VI, INT8).
fn published(row: &str) -> Option<(f64, Option<f64>, Option<f64>)> {
    Some(match row {
        "B=1,L=128" => (8.0, Some(14.0), Some(7.0)),
        "B=1,L=2048" => (65.0, Some(73.0), Some(36.0)),
        "B=16,2K+2K" => (935.0, Some(531.0), None),
        "B=32,2K+2K" => (1293.0, None, Some(2230.0)),
        "B=16,2K+2K,per W of TDP" => (6.24, Some(1.52), None),
        "B=32,2K+2K,per W of TDP" => (8.62, None, Some(3.19)),
        _ => return None,
    })
}

fn new_row(row: &str, unit: &'static str, ours: f64, without_latency: f64, bound: f64) -> Row {
    let found = published(row);
    let value = found.map(|(value, ..)| value);
    Row {
        row: row.to_string(),
        unit,
        published: value,
        l40s: found.and_then(|(_, l40s, _)| l40s),
        h100: found.and_then(|(.., h100)| h100),
        ours,
        without_latency,
        error_percent: value.map(|value| (ours / value - 1.0) * 100.0),
        bound,
    }
}

/// As text.
pub(super) fn print(study: &Study) -> String {
    let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    let maybe = |value: Option<f64>| value.map_or("-".to_string(), number);
    let mut rows = vec![
        ["row", "unit", "L40S", "H100", "TCP", "ours", "error", "sum = 0", "bound"]
            .map(str::to_string)
            .to_vec(),
    ];
    for row in &study.table2 {
        rows.push(vec![
            row.row.clone(),
            row.unit.to_string(),
            maybe(row.l40s),
            maybe(row.h100),
            maybe(row.published),
            number(row.ours),
            row.error_percent.map_or("-".to_string(), |error| format!("{error:+.1} %")),
            number(row.without_latency),
            number(row.bound),
        ]);
    }
    let aligns = [
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ];
    let mut text = format!(
        "{} on {}, {} weights and activations, {} PEs; every time is that of a simulated program.\n\nTable II (published values of L40S, H100 and TCP; ours beside them)\n\n{}",
        study.model,
        study.chip,
        study.dtype,
        study.pes,
        table(&aligns, &rows)
    );
    text += &format!(
        "\nThe sum of latencies that may be calibrated on B=1,L=128 is {:.2} ms{}.\n",
        study.latency_ms,
        if study.latency_ms > 0.0 {
            ""
        } else {
            ": what is simulated (commands, queues, messages between PEs, launch) takes as long as published"
        }
    );
    for (title, points) in
        [("Fig. 11: first token", &study.figure11), ("Fig. 12: next token", &study.figure12)]
    {
        if !points.is_empty() {
            text += &format!("\n{title}\n\n{}", points_table(points));
        }
    }
    for (title, parts) in [("128", &study.prefill_128), ("2048", &study.prefill_2048)] {
        text += &format!(
            "\nWhere the time of a prompt of {title} goes (mean over PEs)\n\n{}",
            parts_table(parts)
        );
    }
    for why in &study.missing {
        text += &format!("\nnot measured: {why}\n");
    }
    text
}

fn points_table(points: &[Point]) -> String {
    let mut rows = vec![["B", "L", "ms", "MAC", "HBM", "TU", "DMA", "W"].map(str::to_string).to_vec()];
    for point in points {
        let percent = |value: f64| format!("{:.0} %", value * 100.0);
        rows.push(vec![
            point.batch.to_string(),
            point.tokens.to_string(),
            format!("{:.2}", point.ms),
            percent(point.mac_use),
            percent(point.hbm_use),
            percent(point.tensor_unit_use),
            percent(point.dma_use),
            format!("{:.0}", point.watts),
        ]);
    }
    table(&[Align::Right; 8], &rows)
}

fn parts_table(parts: &[Part]) -> String {
    let mut rows = vec![["command", "runs", "cycles", "of the pass"].map(str::to_string).to_vec()];
    for part in parts.iter().take(14) {
        rows.push(vec![
            part.kind.clone(),
            part.runs.to_string(),
            format!("{:.0}", part.cycles),
            format!("{:.1} %", part.percent),
        ]);
    }
    table(&[Align::Left, Align::Right, Align::Right, Align::Right], &rows)
}
