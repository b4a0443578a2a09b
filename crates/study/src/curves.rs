//! Figs 11 and 12: first and next token over length and batch, and how much of the peaks they use.

use serde::Serialize;
use tilewright_report::columns::{Align, table};
use tilewright_report::svg::Svg;

use crate::llama::StudyRun;
use crate::measure::{MeasureError, Pass};
use crate::pictures::{COLOURS, ChartLine, chart};
use crate::sizes::size;

/// Contexts and batches of Fig. 12.
const CONTEXTS: [u64; 5] = [128, 512, 1024, 2048, 4096];
const BATCHES: [u64; 4] = [1, 4, 16, 32];

/// A point of Fig. 11 or 12.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Sequences.
    pub batch: u64,
    /// Tokens of the prompt, or of the context with the new token.
    pub tokens: u64,
    /// Milliseconds with the latency of a pass, as in Table II; uses of products and memory are over this
    /// time.
    pub ms: f64,
    /// Milliseconds as simulated.
    pub ms_without_latency: f64,
    /// Cycles as simulated.
    pub cycles: u64,
    /// Runs of the program.
    pub runs: u64,
    /// Tokens of a run, at most.
    pub run_tokens: u64,
    /// Bytes of a prompt's scores that a slice holds at once.
    pub score_bytes: u64,
    /// Products of the model over products that the chip could do, without those of pairs that a causal mask
    /// drops.
    pub mac_use: f64,
    /// Products over products that the chip could do, with every pair of a query and a key, masked or not.
    pub mac_use_all_pairs: f64,
    /// Bytes of weights and caches, each counted once, over bytes that HBM could move: the paper's measure.
    pub hbm_use: f64,
    /// All bytes that were moved over bytes that HBM could move: a prompt of several runs reads weights in
    /// each.
    pub hbm_traffic_use: f64,
    /// Part of the simulated cycles in which main contexts run.
    pub tensor_unit_use: f64,
    /// Part of the simulated cycles in which DMA engines run.
    pub dma_use: f64,
    /// Cycles of cores, queues and messages, over all PEs.
    pub latency_cycles: f64,
    /// Bytes of HBM that were read or written.
    pub hbm_bytes: f64,
    /// What the pass cannot do without reading: weights once, and the caches of what came before.
    pub compulsory_bytes: f64,
    /// What weights, tables and caches of the program take of HBM.
    pub held_bytes: u64,
    /// Bytes of HBM that were read.
    pub hbm_read_bytes: u64,
    /// Bytes of HBM that were written.
    pub hbm_written_bytes: u64,
    /// Products of the model.
    pub macs: f64,
    /// All products that lanes did: padding, and rows of a step that no sequence fills, are among them.
    pub macs_issued: u64,
    /// Products of the model over those.
    pub macs_useful_part: f64,
    /// Energy of the program as simulated.
    pub joules: f64,
    /// Average power of the program as simulated.
    pub watts: f64,
    /// What should hold of its runs and does not, where runs are checked.
    pub violations: usize,
}

impl Point {
    /// The same with a latency that the programs do not show: nothing is used meanwhile.
    pub(crate) fn with_latency(self, latency_ms: f64) -> Point {
        let ms = self.ms_without_latency + latency_ms;
        let part = self.ms / ms;
        Point {
            ms,
            mac_use: self.mac_use * part,
            mac_use_all_pairs: self.mac_use_all_pairs * part,
            hbm_use: self.hbm_use * part,
            hbm_traffic_use: self.hbm_traffic_use * part,
            ..self
        }
    }
}

impl StudyRun<'_> {
    /// A prompt.
    pub(crate) fn prompt_point(&self, tokens: u64, pass: &Pass) -> Point {
        let macs = self.sizes.causal_macs(size(tokens));
        let cached = size(tokens) * self.sizes.kv_bytes;
        let point = self.point((1, tokens), pass, macs, [self.sizes.weight_bytes, cached]);
        let all = self.sizes.prefill_macs(size(tokens)) / macs;
        Point { mac_use_all_pairs: point.mac_use * all, ..point }
    }

    /// Single tokens of sequences that have `context` tokens with it.
    pub(crate) fn step_point(&self, batch: u64, context: u64, pass: &Pass) -> Point {
        let macs = self.sizes.decode_macs(size(batch), size(context));
        let before = size(batch) * size(context.saturating_sub(1));
        let read = self.sizes.weight_bytes + before * self.sizes.kv_bytes;
        self.point((batch, context), pass, macs, [read, size(batch) * self.sizes.kv_bytes])
    }

    /// What a pass came to, with the products of the model and the bytes that it cannot do without reading
    /// and writing.
    fn point(&self, (batch, tokens): (u64, u64), pass: &Pass, macs: f64, [read, written]: [f64; 2]) -> Point {
        let seconds = size(pass.cycles) / self.hz;
        let mac_use = macs / (seconds * self.macs_per_s);
        Point {
            batch,
            tokens,
            ms: seconds * 1e3,
            ms_without_latency: seconds * 1e3,
            cycles: pass.cycles,
            runs: pass.runs,
            run_tokens: pass.run_tokens,
            score_bytes: pass.score_bytes,
            mac_use,
            mac_use_all_pairs: mac_use,
            hbm_use: (read + written) / (seconds * self.bytes_per_s),
            hbm_traffic_use: pass.hbm_bytes() / (seconds * self.bytes_per_s),
            tensor_unit_use: size(pass.main_cycles) / size(pass.cycles),
            dma_use: size(pass.dma_cycles) / size(pass.cycles),
            latency_cycles: crate::measure::real(pass.latency_cycles),
            hbm_bytes: pass.hbm_bytes(),
            compulsory_bytes: read,
            held_bytes: pass.held_bytes,
            hbm_read_bytes: pass.counts.hbm_read_bytes,
            hbm_written_bytes: pass.counts.hbm_written_bytes,
            macs,
            macs_issued: pass.counts.macs(),
            macs_useful_part: macs / size(pass.counts.macs().max(1)),
            joules: pass.joules(),
            watts: pass.joules() / seconds,
            violations: pass.violations,
        }
    }

    /// All points of Fig. 12.
    pub(crate) fn figure12(
        &self,
        say: &mut dyn FnMut(&str),
        missing: &mut Vec<String>,
    ) -> Result<Vec<Point>, MeasureError> {
        let mut points = Vec::new();
        let contexts = CONTEXTS.map(|context| context - 1);
        let all = std::thread::scope(|scope| {
            let measured =
                BATCHES.map(|batch| (batch, scope.spawn(move || self.model.steps(batch, &contexts))));
            measured.map(|(batch, steps)| {
                say(&format!("next tokens of {batch} sequences"));
                (batch, steps.join())
            })
        });
        for (batch, steps) in all {
            match steps {
                Ok(Ok(steps)) => points
                    .extend(steps.iter().map(|(context, pass)| self.step_point(batch, context + 1, pass))),
                Ok(Err(MeasureError::Compile(why))) => missing.push(format!("batch of {batch}: {why}")),
                Ok(Err(error)) => return Err(error),
                Err(panicked) => std::panic::resume_unwind(panicked),
            }
        }
        Ok(points)
    }
}

/// As text.
pub(crate) fn text(points: &[Point]) -> String {
    let head = ["B", "L", "runs", "ms", "MAC", "HBM", "HBM moved", "TU", "DMA", "W", "GB held"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for point in points {
        let percent = |value: f64| format!("{:.0} %", value * 100.0);
        rows.push(vec![
            point.batch.to_string(),
            point.tokens.to_string(),
            point.runs.to_string(),
            format!("{:.2}", point.ms),
            percent(point.mac_use),
            percent(point.hbm_use),
            percent(point.hbm_traffic_use),
            percent(point.tensor_unit_use),
            percent(point.dma_use),
            format!("{:.0}", point.watts),
            format!("{:.1}", size(point.held_bytes) / 1e9),
        ]);
    }
    table(&[Align::Right; 11], &rows)
}

fn uses(points: &[&Point], prefix: &str, colours: [&'static str; 2]) -> Vec<ChartLine<'static>> {
    let line = |name: String, colour, of: fn(&Point) -> f64| ChartLine {
        name,
        points: points.iter().map(|point| (size(point.tokens), of(point) * 100.0)).collect(),
        colour,
    };
    vec![
        line(format!("{prefix}MAC"), colours[0], |point| point.mac_use),
        line(format!("{prefix}HBM"), colours[1], |point| point.hbm_use),
    ]
}

/// As a picture.
pub(crate) fn figures(figure11: &[Point], figure12: &[Point]) -> String {
    let mut svg = Svg::default();
    let first: Vec<&Point> = figure11.iter().collect();
    let line = ChartLine {
        name: "B=1".to_string(),
        points: first.iter().map(|point| (size(point.tokens), point.ms)).collect(),
        colour: COLOURS[0],
    };
    chart(&mut svg, (80.0, 50.0), "Fig. 11a: first token", "latency, ms", &[line]);
    let lines = uses(&first, "", [COLOURS[0], COLOURS[1]]);
    chart(&mut svg, (620.0, 50.0), "Fig. 11b: utilisation, first token", "of the peak, %", &lines);
    if !figure12.is_empty() {
        let mut batches: Vec<u64> = figure12.iter().map(|point| point.batch).collect();
        batches.dedup();
        let of = |batch: u64| figure12.iter().filter(move |point| point.batch == batch);
        let lines: Vec<ChartLine<'_>> = batches
            .iter()
            .zip(COLOURS)
            .map(|(batch, colour)| ChartLine {
                name: format!("B={batch}"),
                points: of(*batch).map(|point| (size(point.tokens), point.ms)).collect(),
                colour,
            })
            .collect();
        chart(&mut svg, (80.0, 490.0), "Fig. 12a: next token", "latency, ms", &lines);
        let ends = [batches.first(), batches.last()];
        let lines: Vec<ChartLine<'_>> = ends
            .into_iter()
            .flatten()
            .zip([[COLOURS[0], COLOURS[1]], [COLOURS[2], COLOURS[3]]])
            .flat_map(|(batch, colours)| {
                let points: Vec<&Point> = of(*batch).collect();
                uses(&points, &format!("B={batch} "), colours)
            })
            .collect();
        chart(&mut svg, (620.0, 490.0), "Fig. 12b: utilisation, next token", "of the peak, %", &lines);
    }
    svg.finish()
}
