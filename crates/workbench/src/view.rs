//! A simulated run as the page shows it: its record, and what only its program and its machine say.

use std::collections::BTreeMap;

use tilewright_base::invariant::Exact;
use tilewright_base::{Diagnostic, Severity, Sources};
use tilewright_machine::{Neuron, Tcp};
use tilewright_neuron_sim::analysis::summary::summary;
use tilewright_record::{Interval, Record, TrackKind};
use tilewright_tcp_isa::contraction::full_packet_elements;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::exec::ExecBody;
use tilewright_tcp_sim::RunEnd;
use tilewright_view::run_view::{FindingView, RooflinePoint, RooflineView};
use tilewright_view::{RunView, view_with_kernels};

use crate::component_power;
use crate::memory_map::memory_map;
use crate::neuron_memory_map::neuron_memory_map;
use crate::simulate::{NeuronRun, SimulatedRun, TcpRun};

/// Kernels that a roofline shows.
const MOST_KERNELS: usize = 24;

/// What the page shows of a run; `text` is the program that it ran.
pub fn view(name: &str, text: Option<&str>, run: &SimulatedRun) -> RunView {
    view_by_kernel(name, text, run, &|_| None).0
}

/// The same, and the kernel of each command as
/// [`ModelGraphView`](tilewright_view::graph_view::ModelGraphView) has it.
pub(crate) fn view_by_kernel(
    name: &str,
    text: Option<&str>,
    run: &SimulatedRun,
    kernel: &dyn Fn(&Interval) -> Option<u32>,
) -> (RunView, String) {
    let (mut view, kernels) = view_with_kernels(name, run.record(), kernel);
    view.machine = run.machine().to_string();
    view.program = text.map(str::to_string);
    let (sources, found) = run.findings();
    view.findings = found.iter().map(|one| finding(&sources, one)).collect();
    match run {
        SimulatedRun::Tcp(run) => of_tcp(run, &mut view),
        SimulatedRun::Neuron(run) => of_neuron(run, &mut view),
    }
    (view, kernels)
}

fn finding(sources: &Sources, found: &Diagnostic) -> FindingView {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let place = found.primary.as_ref().map(|label| {
        let (line, column) = sources.line_column(label.span);
        let name = sources.get(label.span.source).map_or("", |source| source.name.as_str());
        (format!("{name}:{line}:{column}"), line as u64)
    });
    let noted = |start: &str| found.notes.iter().find_map(|note| note.strip_prefix(start));
    FindingView {
        code: found.code.to_string(),
        severity: severity.to_string(),
        message: found.message.clone(),
        line: place.as_ref().map(|(_, line)| *line),
        place: place.map_or_else(|| noted("at ").unwrap_or_default().to_string(), |(place, _)| place),
        allowed: found.allowed.clone().unwrap_or_default(),
        instead: found.instead.clone().unwrap_or_default(),
        tick: noted("at cycle ").and_then(|cycle| cycle.parse().ok()),
        notes: found.notes.clone(),
    }
}

fn of_tcp(run: &TcpRun, view: &mut RunView) {
    let outcome = &run.reading.outcome;
    view.ticks = outcome.cycles;
    let ended = match outcome.ended {
        RunEnd::Finished => "finished",
        RunEnd::Deadlock(_) => "deadlock",
        RunEnd::Stopped => "stopped",
    };
    view.facts.push(("ended".into(), ended.into()));
    for used in &outcome.utilisation {
        #[expect(clippy::cast_precision_loss, reason = "a part for people")]
        let part = used.ppm() as f64 / 1e4;
        view.facts.push((format!("{} busy", used.engine.name()), format!("{part:.1} %")));
    }
    view.power = component_power::of_tcp(outcome);
    view.memories = memory_map(&run.machine, &run.program);
    let lines = image_lines(&run.sources, &run.program);
    view.name_lines = view.names.iter().map(|name| lines.get(name.as_str()).copied()).collect();
    view.roofline = tcp_roofline(&run.machine, &run.program, &outcome.record, {
        let counts = &outcome.counts;
        (counts.macs(), counts.hbm_read_bytes.exact_add(counts.hbm_written_bytes), outcome.cycles)
    });
}

/// The line that says what each image does.
fn image_lines<'p>(sources: &Sources, program: &'p Program) -> BTreeMap<&'p str, u64> {
    let execs = program.execs.iter().map(|exec| (exec.name.as_str(), exec.span));
    let transfers = program.transfers.iter().map(|transfer| (transfer.name.as_str(), transfer.span));
    execs.chain(transfers).map(|(name, span)| (name, sources.line_column(span).0 as u64)).collect()
}

/// The run below the roof of HBM, and images that multiply below that of the data memories.
fn tcp_roofline(
    machine: &Tcp,
    program: &Program,
    record: &Record,
    (macs, hbm_bytes, cycles): (u64, u64, u64),
) -> Option<RooflineView> {
    let elements = |body: &ExecBody| match body {
        ExecBody::Stream(stream) => {
            stream.contract.as_ref().map(|contract| full_packet_elements(machine, contract.dtype))
        }
        _ => None,
    };
    let elements = program.execs.iter().filter_map(|exec| elements(&exec.body)).max()?;
    let cores = record.layout.tracks.iter().filter(|track| track.kind == TrackKind::Core).count() as u64;
    let slices = real(cores.exact_mul(machine.pe.slices));
    let clock = real(machine.chip.clock_hz);
    let roofs = vec![
        ("HBM".to_string(), machine.hbm_bytes_per_s()),
        ("data memory".to_string(), slices * real(machine.dm_bytes_per_cycle()) * clock),
    ];
    let whole = ("the run".to_string(), 0, macs, hbm_bytes, cycles);
    let kernels = multiplying_images(record)
        .into_iter()
        .map(|(name, [macs, bytes, cycles])| (name, 1, macs, bytes, cycles));
    let points = std::iter::once(whole).chain(kernels);
    let points = points.filter(|(_, _, macs, bytes, cycles)| *macs > 0 && *bytes > 0 && *cycles > 0);
    let points = points.map(|(name, roof, macs, bytes, cycles)| RooflinePoint {
        name,
        roof,
        macs: real(macs),
        bytes: real(bytes),
        seconds: real(cycles) / clock,
    });
    Some(RooflineView {
        peak_macs_per_s: slices * real(machine.ce.lanes * elements) * clock,
        roofs,
        points: points.collect(),
    })
}

/// Products, fetched bytes and cycles of images that multiply, longest first.
fn multiplying_images(record: &Record) -> Vec<(String, [u64; 3])> {
    let mut sums: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for interval in record.intervals() {
        let count = |name: &str| interval.counts.iter().find(|(one, _)| *one == name).map_or(0, |one| one.1);
        if count("macs") == 0 {
            continue;
        }
        let sum = sums.entry(&interval.name).or_default();
        let more = [count("macs"), count("fetched bytes"), interval.length_cycles()];
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.exact_add(more));
    }
    let mut all: Vec<(String, [u64; 3])> =
        sums.into_iter().map(|(name, sum)| (name.to_string(), sum)).collect();
    all.sort_by_key(|(name, [_, _, cycles])| (std::cmp::Reverse(*cycles), name.clone()));
    all.truncate(MOST_KERNELS);
    all
}

fn of_neuron(run: &NeuronRun, view: &mut RunView) {
    let program = run.run.program(&run.recorded);
    let figures = summary(&run.chip, program, &run.run.timeline);
    view.facts.push(("bound by".into(), figures.bound_by.name().into()));
    view.facts.push(("MFU".into(), format!("{:.1} %", 100.0 * figures.utilisation.mfu)));
    view.facts.push(("MBU".into(), format!("{:.1} %", 100.0 * figures.utilisation.mbu)));
    view.facts.push(("SBUF peak".into(), format!("{} B of a partition", figures.sbuf_peak_bytes)));
    view.facts.push(("PSUM peak".into(), format!("{} B of a partition", figures.psum_peak_bytes)));
    view.power = component_power::of_neuron(run);
    view.memories = neuron_memory_map(&run.chip, program, &run.run.timeline);
    if program.allocations.iter().any(|of| of.memory.on_chip() && of.places.is_empty()) {
        view.facts.push(("addresses".into(), "of tiles without a place are first fit".into()));
    }
    let bytes = figures.hbm_read_bytes.exact_add(figures.hbm_written_bytes);
    if figures.macs == 0 || bytes == 0 || figures.time_ps == 0 {
        return;
    }
    let neuron: &Neuron = &run.chip.neuron;
    let cores = real(u64::from(figures.cores));
    let array = real(neuron.tensor.rows * neuron.tensor.columns) * real(neuron.tensor.clock_hz);
    let dma = neuron.dma.engines_per_core.exact_mul(neuron.dma.achieved_bytes_per_s);
    view.roofline = Some(RooflineView {
        peak_macs_per_s: cores * array,
        roofs: vec![("HBM".to_string(), cores * real(dma))],
        points: vec![RooflinePoint {
            name: "the run".to_string(),
            roof: 0,
            macs: real(figures.macs),
            bytes: real(bytes),
            seconds: real(figures.time_ps) * 1e-12,
        }],
    });
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn real(value: u64) -> f64 {
    value as f64
}
