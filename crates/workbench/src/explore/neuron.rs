//! Candidates of a NeuronCore as people see them: tilings, engines, blocks.

use serde_json::{Map, Value, json};
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_explore::neuron::explain::explain;
use tilewright_explore::neuron::instruction_cost::part_names;
use tilewright_explore::neuron::point::{BlockCopies, DrainEngine, PartialSums};
use tilewright_explore::neuron::report::side_name;
use tilewright_explore::neuron::{NeuronCandidate, NeuronReport, NeuronSearchResult, NeuronTask};
use tilewright_explore::refusal::{CandidateRefusal, RefusalReason};
use tilewright_notation::syntax::ast::Operand;
use tilewright_report::columns::thousands;
use tilewright_verify::neuron::verify;
use tilewright_verify::{CandidateCheck, VerifyLimits};

use super::display::{CandidateDisplay, CandidateView, Remedy, Roofline};
use super::plot::real;

/// A task with the name of its machine and what its energies rest on.
pub struct CoreTask<'m> {
    /// What is searched.
    pub task: NeuronTask<'m>,
    /// Figures of energy that are assumptions.
    pub assumed: Vec<String>,
}

impl<'m> CandidateDisplay for CoreTask<'m> {
    type Target = NeuronTask<'m>;

    fn target(&self) -> &NeuronTask<'m> {
        &self.task
    }

    fn einsum(&self) -> String {
        self.task.program.einsum.to_string()
    }

    fn place(&self) -> String {
        format!("one core of {}, {}", self.task.chip.name, self.task.dtype.name())
    }

    fn sizes(&self) -> Vec<(String, u64)> {
        self.task.axes.iter().map(|axis| (axis.name.to_string(), axis.extent)).collect()
    }

    fn macs(&self) -> u128 {
        self.task.macs()
    }

    fn time(&self, ticks: u64) -> String {
        format!("{:.2} us", real(ticks) * 1e-6)
    }

    fn time_value(&self, ticks: u64) -> (&'static str, Value) {
        ("picoseconds", json!(ticks))
    }

    fn head(&self) -> (Vec<&'static str>, Vec<usize>) {
        let head = [
            "#",
            "stationary",
            "tiles",
            "blocks",
            "loops",
            "sums",
            "copies",
            "buffers",
            "drain",
            "SBUF",
            "T_tensor",
            "T_drain",
            "T_load",
            "T_store",
            "us",
            "uJ",
            "mW",
            "used",
        ];
        (head.to_vec(), vec![1, 2, 3, 4, 5, 6, 8])
    }

    fn parts(&self) -> Vec<&'static str> {
        part_names(self.task.chip)
    }

    fn power_of(&self) -> &'static str {
        "the core and its HBM"
    }

    fn called(&self) -> &'static str {
        "tiling"
    }

    fn look(
        &self,
        found: &NeuronSearchResult,
        candidate: &NeuronCandidate,
        number: usize,
    ) -> Option<CandidateView> {
        let report = NeuronReport::new(&self.task, found, candidate)?;
        Some(CandidateView {
            row: row(number, &report),
            value: value(self, &report),
            spelled: spelled(&self.task, &report),
            brief: report.tiling(),
            ticks: candidate.ticks,
            energy_fj: candidate.energy_fj,
            milliwatts: report.milliwatts,
            parts_fj: report.energy_fj.to_vec(),
            roof: under_roof(&self.task, &report),
        })
    }

    fn explain(&self, found: &NeuronSearchResult, candidate: &NeuronCandidate) -> String {
        NeuronReport::new(&self.task, found, candidate)
            .map(|report| explain(&self.task, &report))
            .unwrap_or_default()
    }

    fn notes(&self) -> String {
        if self.assumed.is_empty() {
            return String::new();
        }
        format!("assumed   {}\n", self.assumed.join(", "))
    }

    fn advice(&self, refusal: CandidateRefusal) -> Vec<Remedy> {
        let figure = |key: &str, value: u64| Remedy::Figures(vec![(key.to_string(), value)]);
        vec![match refusal.reason {
            RefusalReason::Sbuf => {
                let all = refusal.need.exact_add(self.task.chip.neuron.sbuf.reserved_bytes);
                figure("sbuf.partition_bytes", all.checked_next_power_of_two().unwrap_or(all))
            }
            RefusalReason::Psum => figure("psum.banks", refusal.need.next_power_of_two()),
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            RefusalReason::Power => Remedy::Watts(refusal.need as f64 / 1000.0),
            _ => Remedy::Words("smaller axes"),
        }]
    }

    fn roof(&self) -> Roofline {
        let neuron = &self.task.chip.neuron;
        let array = real(neuron.tensor.rows * neuron.tensor.columns);
        let dma = neuron.dma.engines_per_core.exact_mul(neuron.dma.achieved_bytes_per_s);
        Roofline {
            title: "Roofline of HBM",
            x: "products for each byte of HBM",
            y: "tera products a second",
            peak: array * real(neuron.tensor.clock_hz) * 1e-12,
            slope: real(dma) * 1e-12,
            peak_name: "the whole array",
            legend: "roof: all DMA engines, then the whole array",
        }
    }

    fn verify(
        &self,
        found: &NeuronSearchResult,
        _chip: &str,
        limits: VerifyLimits,
        stop: &mut dyn FnMut() -> bool,
    ) -> Vec<CandidateCheck> {
        verify(&self.task, found, limits, stop)
    }

    fn ran(&self, ticks: u64) -> String {
        self.time(ticks)
    }
}

/// Products for each byte of HBM, and tera products a second.
fn under_roof(task: &NeuronTask<'_>, report: &NeuronReport) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    let macs = task.macs() as f64;
    (macs / real(report.totals.hbm_bytes()).max(1.0), macs / real(report.candidate.ticks).max(1.0))
}

/// Sizes along the stationary, the moving and the summed side.
fn sides(sizes: [u64; 3]) -> String {
    sizes.map(|size| size.to_string()).join("x")
}

fn loops(report: &NeuronReport) -> String {
    let long = report.plan.order().into_iter().filter(|side| report.plan.cut(*side).blocks() > 1);
    let words: Vec<&str> = long.map(side_name).collect();
    if words.is_empty() { "-".to_string() } else { words.join(",") }
}

fn sums(sums: PartialSums) -> &'static str {
    match sums {
        PartialSums::Psum => "psum",
        PartialSums::Sbuf => "sbuf",
    }
}

fn copies(copies: BlockCopies) -> &'static str {
    match copies {
        BlockCopies::Block => "block",
        BlockCopies::Tile => "tile",
    }
}

fn drain(drain: DrainEngine) -> &'static str {
    match drain {
        DrainEngine::Vector => "vector",
        DrainEngine::Scalar => "scalar",
        DrainEngine::Both => "both",
    }
}

fn row(number: usize, report: &NeuronReport) -> Vec<String> {
    let (choice, totals) = (&report.plan.choice, &report.totals);
    let us = |ps: u64| format!("{:.1}", real(ps) * 1e-6);
    let drained = if choice.drain == DrainEngine::Both {
        totals.drain_ps[0].max(totals.drain_ps[1])
    } else {
        totals.drain_ps.iter().sum()
    };
    vec![
        number.to_string(),
        report.plan.frame.stationary.name().to_string(),
        sides(report.plan.frame.tile),
        sides(choice.block),
        loops(report),
        sums(choice.sums).to_string(),
        copies(choice.copies).to_string(),
        choice.buffers.to_string(),
        drain(choice.drain).to_string(),
        thousands(report.room.sbuf_bytes()),
        us(totals.tensor_ps),
        us(drained),
        us(totals.load_queue_ps[0].max(totals.load_queue_ps[1])),
        us(totals.store_queue_ps),
        format!("{:.2}", real(report.candidate.ticks) * 1e-6),
        format!("{:.1}", real(report.candidate.energy_fj) * 1e-9),
        thousands(report.milliwatts),
        format!("{:.1} %", 100.0 * report.utilisation),
    ]
}

fn spelled(task: &NeuronTask<'_>, report: &NeuronReport) -> String {
    let [in0, in1, out] = report.layouts(task);
    let stationary = report.plan.frame.stationary;
    let role = |operand: Operand| if operand == stationary { "stationary" } else { "moving" };
    format!(
        "  in0    @hbm {in0}, {}\n  in1    @hbm {in1}, {}\n  out    @hbm {out}\n  tiling {}\n",
        role(Operand::In0),
        role(Operand::In1),
        report.tiling()
    )
}

fn value(shown: &CoreTask<'_>, report: &NeuronReport) -> Value {
    let (plan, totals, room) = (&report.plan, &report.totals, &report.room);
    let energy: Map<String, Value> = shown
        .parts()
        .into_iter()
        .zip(report.energy_fj)
        .filter(|(_, fj)| *fj > 0.0)
        .map(|(name, fj)| (name.to_string(), json!((fj / 1000.0).round())))
        .collect();
    let [in0, in1, out] = report.layouts(&shown.task);
    let clock = shown.task.chip.neuron.tensor.clock_hz;
    let cycles = u128::from(report.candidate.ticks) * u128::from(clock) / 1_000_000_000_000;
    json!({
        "tactic": report.tiling(),
        "stationary": plan.frame.stationary.name(),
        "shapes": { "in0": in0, "in1": in1, "out": out },
        "tiles": plan.frame.tile,
        "blocks": plan.choice.block,
        "loops": plan.order().map(side_name),
        "sums": sums(plan.choice.sums),
        "copies": copies(plan.choice.copies),
        "buffers": plan.choice.buffers,
        "drain": drain(plan.choice.drain),
        "picoseconds": report.candidate.ticks,
        "cycles": u64::try_from(cycles).or_broken("cycles of a candidate fit 64 bits"),
        "energy_pj": report.candidate.energy_fj / 1000,
        "milliwatts": report.milliwatts,
        "utilisation": report.utilisation,
        "busy_picoseconds": {
            "tensor": totals.tensor_ps, "vector": totals.drain_ps[0], "scalar": totals.drain_ps[1],
            "loads": totals.load_queue_ps, "stores": totals.store_queue_ps,
        },
        "energy_pj_by_component": energy,
        "instructions": {
            "matmul": totals.matmuls, "drain": totals.leaves, "load": totals.load_copies,
                "store": totals.store_copies,
        },
        "hbm_bytes": { "read": totals.hbm_read_bytes, "written": totals.hbm_written_bytes },
        "descriptors": totals.descriptors,
        "reuse": { "in0": report.reuse[0], "in1": report.reuse[1] },
        "sbuf_partition_bytes": {
            "stationary": room.held_bytes, "moving": room.moving_bytes, "out": room.out_bytes,
                "sums": room.sums_bytes,
        },
        "psum_banks_of_a_tile": room.tile_banks,
    })
}
