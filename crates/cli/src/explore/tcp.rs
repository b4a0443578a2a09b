//! Candidates of the TCP as people see them: lowered shapes, tactics, columns of the cost.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tilewright_explore::refusal::{CandidateRefusal, RefusalReason};
use tilewright_explore::tcp::explain::explain;
use tilewright_explore::tcp::point::{LoadContext, StreamSupply};
use tilewright_explore::tcp::remedy::{Remedy, remedies};
use tilewright_explore::tcp::{TcpCandidate, TcpChoice, TcpReport, TcpSearchResult, TcpTask};
use tilewright_notation::syntax::ast::Operand;
use tilewright_report::columns::thousands;
use tilewright_tcp_cost::energy::Component;
use tilewright_tcp_isa::program::exec::Drain;
use tilewright_verify::CandidateCheck;
use tilewright_verify::tcp::verify;

use super::args::ExploreArgs;
use super::display::{CandidateDisplay, CandidateView, Roofline};
use super::plot::real;

/// Where the time of transfers from off-chip memory stands in a row.
const HBM_COLUMN: usize = 12;

impl CandidateDisplay for TcpTask<'_> {
    type Target = Self;

    fn target(&self) -> &Self {
        self
    }

    fn einsum(&self) -> String {
        self.program.einsum.to_string()
    }

    fn place(&self) -> String {
        format!("{} slices, {}", self.setup.slices(), self.setup.dtype.name())
    }

    fn sizes(&self) -> Vec<(String, u64)> {
        self.axes.iter().map(|axis| (axis.name.to_string(), axis.extent)).collect()
    }

    fn macs(&self) -> u128 {
        TcpTask::macs(self)
    }

    fn time(&self, ticks: u64) -> String {
        format!("{} cycles", thousands(ticks))
    }

    fn time_value(&self, ticks: u64) -> (&'static str, Value) {
        ("cycles", json!(ticks))
    }

    fn head(&self) -> (Vec<&'static str>, Vec<usize>) {
        let mut head = vec![
            "#", "held", "commands", "lanes", "tree", "cols", "repeats", "supply", "fetch", "load", "drain",
            "commit", "T_mac", "T_stream", "T_drain", "T_ve", "T_commit", "T_load", "fill", "cycles", "pJ",
            "mW", "used",
        ];
        if self.from_hbm != [false; 2] {
            head.insert(HBM_COLUMN, "T_hbm");
        }
        (head, vec![1, 7, 9, 10])
    }

    fn parts(&self) -> Vec<&'static str> {
        Component::ALL.iter().map(|component| component.name()).collect()
    }

    fn power_of(&self) -> &'static str {
        if self.from_hbm == [false; 2] { "the slices" } else { "the slices and HBM" }
    }

    fn called(&self) -> &'static str {
        "tactic"
    }

    fn look(
        &self,
        found: &TcpSearchResult,
        candidate: &TcpCandidate,
        number: usize,
    ) -> Option<CandidateView> {
        let report = TcpReport::new(self, found, candidate)?;
        let tactic = report.program.tactic.as_ref().map(ToString::to_string).unwrap_or_default();
        Some(CandidateView {
            row: row(self, number, &report),
            value: one(&report),
            spelled: spelled(&report),
            brief: tactic,
            ticks: candidate.ticks,
            energy_fj: candidate.energy_fj,
            milliwatts: report.milliwatts,
            parts_fj: report.energy_fj.iter().map(|fj| real(*fj)).collect(),
            roof: under_roof(self, &report),
        })
    }

    fn explain(&self, found: &TcpSearchResult, candidate: &TcpCandidate) -> String {
        TcpReport::new(self, found, candidate).map(|report| explain(self, &report)).unwrap_or_default()
    }

    fn notes(&self) -> String {
        String::new()
    }

    fn advice(&self, refusal: CandidateRefusal) -> String {
        advice(self, refusal)
    }

    fn roof(&self) -> Roofline {
        let slice_peak = self.setup.machine.ce.lanes * self.setup.packet_elements();
        if self.from_hbm != [false; 2] {
            return Roofline {
                title: "Roofline of HBM",
                x: "products for each byte from HBM",
                y: "products a cycle on all slices",
                peak: real(slice_peak * self.setup.slices()),
                slope: real(self.setup.machine.tdma.bandwidth_bytes_per_cycle),
                peak_name: "all lanes",
                legend: "roof: one DMA engine, then all lanes",
            };
        }
        Roofline {
            title: "Roofline of the stream",
            x: "products for each byte of the stream",
            y: "products a cycle on each slice",
            peak: real(slice_peak),
            slope: real(self.setup.machine.network.flit_bytes),
            peak_name: "all lanes",
            legend: "roof: one flit a cycle, then all lanes",
        }
    }

    fn verify(
        &self,
        found: &TcpSearchResult,
        args: &ExploreArgs,
        stop: &mut dyn FnMut() -> bool,
    ) -> Vec<CandidateCheck> {
        verify(self, found, &args.target.chip, args.limits(), stop)
    }

    fn ran(&self, ticks: u64) -> String {
        format!("program of one command {} cycles", thousands(ticks))
    }
}

/// Products for each byte of the stream, and products a cycle on each slice; or for each byte from HBM, and
/// on all slices.
fn under_roof(task: &TcpTask<'_>, report: &TcpReport) -> (f64, f64) {
    if task.from_hbm != [false; 2] {
        #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
        let macs = task.macs() as f64;
        let bytes = real(report.transferred.hbm_read_bytes);
        return (macs / bytes.max(1.0), macs / real(report.candidate.ticks).max(1.0));
    }
    let nest = &report.nest;
    let bytes = real((nest.columns * nest.tree * task.setup.element_bits()).div_ceil(8));
    let intensity = real(nest.lanes * nest.repeats * nest.columns * nest.tree) / bytes.max(1.0);
    let commands = real(report.framed.frame.commands());
    let products = real(nest.steps() * nest.lanes * nest.columns * nest.tree) * commands;
    (intensity, products / real(report.candidate.ticks).max(1.0))
}

fn row(task: &TcpTask<'_>, number: usize, report: &TcpReport) -> Vec<String> {
    let (costs, choice) = (&report.columns, &report.candidate.choice);
    let words = [
        number.to_string(),
        report.framed.stationary().name().to_string(),
        report.framed.frame.commands().to_string(),
        choice.lanes.to_string(),
        choice.tree.to_string(),
        choice.columns.to_string(),
        choice.repeats.to_string(),
        supply(choice.supply).to_string(),
        choice.fetch_bytes.to_string(),
        if choice.loading == LoadContext::Main { "main" } else { "sub" }.to_string(),
        if choice.drain == Drain::Interleaved { "lanes" } else { "rows" }.to_string(),
        choice.commit_bytes.to_string(),
    ];
    let numbers = [
        costs.mac,
        costs.stream,
        costs.drain,
        costs.vector,
        costs.commit,
        costs.load,
        costs.fill,
        costs.cycles,
        report.candidate.energy_fj / 1000,
        report.milliwatts,
    ];
    let used = format!("{:.1} %", 100.0 * report.utilisation);
    let mut row: Vec<String> = words.into_iter().chain(numbers.map(thousands)).chain([used]).collect();
    if task.from_hbm != [false; 2] {
        row.insert(HBM_COLUMN, thousands(costs.bring_cycles.iter().sum()));
    }
    row
}

/// A supply in one word.
fn supply(supply: StreamSupply) -> &'static str {
    match supply {
        StreamSupply::Own => "own",
        StreamSupply::RingOuter => "ring",
        StreamSupply::RingInner => "ring-in",
    }
}

fn spelled(report: &TcpReport) -> String {
    let mut text = String::new();
    for operand in Operand::ALL {
        if let Some(shape) = report.program.shape(operand) {
            let _ = writeln!(text, "  {:<7}{shape}", operand.name());
        }
    }
    if let Some(tactic) = &report.program.tactic {
        let _ = writeln!(text, "  tactic {tactic}");
    }
    text
}

fn one(report: &TcpReport) -> Value {
    let columns = &report.columns;
    let shape = |operand| report.program.shape(operand).map(ToString::to_string);
    let energy: Map<String, Value> = Component::ALL
        .iter()
        .zip(report.energy_fj)
        .filter(|(_, fj)| *fj > 0)
        .map(|(component, fj)| (component.name().to_string(), json!(fj / 1000)))
        .collect();
    let traffic: Map<String, Value> = report
        .counts
        .named()
        .into_iter()
        .filter(|(name, count)| *count > 0 && *name != "macs_useful")
        .map(|(name, count)| (name.to_string(), json!(count)))
        .collect();
    json!({
        "tactic": report.program.tactic.as_ref().map(ToString::to_string),
        "stationary": report.framed.stationary().name(),
        "shapes": { "in0": shape(Operand::In0), "in1": shape(Operand::In1), "out": shape(Operand::Out) },
        "commands": report.framed.frame.commands(),
        "choices": choices(&report.candidate.choice),
        "cycles": report.candidate.ticks,
        "energy_pj": report.candidate.energy_fj / 1000,
        "milliwatts": report.milliwatts,
        "utilisation": report.utilisation,
        "columns": {
            "mac": columns.mac, "stream": columns.stream, "drain": columns.drain, "vector": columns.vector,
            "commit": columns.commit, "load": columns.load, "fill": columns.fill,
            "hbm": columns.bring_cycles,
        },
        "hbm_bytes": { "read": report.transferred.hbm_read_bytes, "moved": report.transferred.hbm_bits / 8 },
        "energy_pj_by_component": energy,
        "events_of_one_command": traffic,
        "reuse": { "streamed": report.stream_reuse, "held": report.held_reuse },
        "data_memory_bytes": report.data_memory_bytes,
    })
}

/// What a tactic's text does not say, and what it says less plainly.
fn choices(choice: &TcpChoice) -> Value {
    json!({
        "lanes": choice.lanes, "tree": choice.tree, "columns": choice.columns, "repeats": choice.repeats,
        "supply": supply(choice.supply), "fetch_bytes": choice.fetch_bytes,
        "load_context": if choice.loading == LoadContext::Main { "main" } else { "sub" },
        "drain": if choice.drain == Drain::Interleaved { "lanes" } else { "rows" },
        "commit_bytes": choice.commit_bytes,
    })
}

/// The least change that makes something legal, each of them tried.
fn advice(task: &TcpTask<'_>, binding: CandidateRefusal) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    if binding.reason == RefusalReason::Power {
        return format!("--goal time@{:.3}", binding.need as f64 / 1000.0);
    }
    let words: Vec<String> = remedies(task)
        .into_iter()
        .map(|remedy| match remedy {
            Remedy::Figures(figures) => {
                let sets: Vec<String> =
                    figures.iter().map(|(key, value)| format!("--set {key}={value}")).collect();
                sets.join(" ")
            }
            Remedy::Pes(pes) => format!("--pes {pes}"),
            Remedy::Size(name, size) => format!("{name}={size} in --dims"),
        })
        .collect();
    if words.is_empty() { "other sizes of several axes".to_string() } else { words.join(", or ") }
}
