//! What must hold between two plans of a real model, whatever the numbers are: more of a resource makes no
//! plan slower, energy adds up, no plan beats its bound, and a graph whose nodes are listed in another order
//! has the same plan, or one that takes as long.
//!
//! `./test` takes a draw of the pairs, `./test deep` all of them.

#![expect(clippy::print_stdout, reason = "plans that are slower are listed as they are found")]

use std::collections::BTreeMap;

use tilewright_base::random;
use tilewright_bench::suite::{Case, blocks, models};
use tilewright_compile::cluster::cluster;
use tilewright_compile::compiled::ProgramOutline;
use tilewright_compile::general::bound::roofline_cycles;
use tilewright_compile::general::{Options as GraphOptions, plan};
use tilewright_compile::kernel::Kernels;
use tilewright_compile::{Compiled, Mixed, Options, compile_kernels};
use tilewright_graph::{Graph, TensorStore};
use tilewright_import::configs;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_schedule::timing::{longest, simulated};
use tilewright_tcp_cost::energy::{Component, energy_of_run_fj, standing_fj};
use tilewright_tcp_isa::program::text::print;
use tilewright_tcp_sim::SimOutcome;
use tilewright_testkit::{is_deep, tcp};

/// What a plan with more of something may take longer, in thousandths.
const SLOWER_THOUSANDTHS: u128 = 5;
/// What a graph in another order may take more or less, in thousandths: the order of nodes breaks ties.
const OTHER_ORDER_THOUSANDTHS: u128 = 5;

/// A machine with more of something.
type Change = (&'static str, fn(&mut Tcp));

const MORE: [Change; 8] = [
    ("twice the rate of HBM", |m| m.hbm.channel_bytes_per_cycle *= 2),
    ("rows that open in half the time", |m| m.hbm.row_switch_ns /= 2),
    ("twice the rate of DMA", |m| {
        m.tdma.bandwidth_bytes_per_cycle *= 2;
        m.noc.pe_bytes_per_cycle *= 2;
    }),
    ("twice the rate of data memory networks", |m| m.dmn.bandwidth_bytes_per_cycle *= 2),
    ("half of the start of a transfer", |m| m.tdma.startup_cycles /= 2),
    ("half of the overhead of a command", |m| m.command.overhead_cycles /= 2),
    ("twice the clock", |m| m.chip.clock_hz *= 2),
    ("twice the data memory", |m| m.dm.capacity_bytes *= 2),
];

/// A language model of a configuration, and what it is compiled for.
struct Language {
    name: String,
    kernels: Kernels,
    options: Options,
}

fn languages() -> Vec<Language> {
    let mut all = Vec::new();
    let names = configs::names();
    // Models on several chips take minutes.
    let names = if is_deep() { &names[..] } else { &["llama2-7b"] };
    for name in names {
        let model = configs::read(name).expect("a built-in configuration");
        for (dtype, batch) in [(Dtype::I8, 1), (Dtype::I8, 16), (Dtype::Bf16, 4)] {
            let chips = if name.ends_with("70b") { 4 } else { 1 };
            let (cache, mixed, context) = (dtype, Mixed::default(), 1024);
            let options = Options { dtype, mixed, cache, context, pes: 8, chips, batch };
            let mut kernels = cluster(&model.graph).expect("a decoder");
            kernels.assume_peaks();
            all.push(Language { name: format!("{name} {} x{batch}", dtype.name()), kernels, options });
        }
    }
    all
}

/// A run: its time, and whether it is as long as it must be and its joules add up.
fn picoseconds(machine: &Tcp, name: &str, chips: u64, outcome: &SimOutcome, least_cycles: u64) -> u128 {
    let cycles = outcome.cycles;
    assert!(cycles >= least_cycles, "{name}: {cycles} cycles beat a bound of {least_cycles}");
    let mut parts = energy_of_run_fj(machine, &outcome.counts);
    for (component, fj) in Component::STANDING.iter().zip(standing_fj(machine, chips, cycles)) {
        parts[*component as usize] += fj;
    }
    assert_eq!(parts, outcome.energy_fj, "{name}: joules are not those of what was counted");
    u128::from(cycles) * 1_000_000_000_000 / u128::from(machine.chip.clock_hz)
}

/// Picoseconds by program.
fn language_times(machine: &Tcp, language: &Language, compiled: &Compiled) -> BTreeMap<&'static str, u128> {
    let Options { chips, dtype, .. } = language.options;
    let time = |outline: &ProgramOutline| {
        let program = compiled.program(outline.name).expect("its program");
        let outcome = simulated(machine, program, &longest(compiled, outline)).expect("a run");
        // Every weight is read at least once, at the peak of HBM.
        let elements: u64 = language.kernels.weights().map(|w| w.rows.size * w.columns.size).sum();
        let bytes = real(elements) * f64::from(dtype.storage_bits()) / 8.0;
        let seconds = bytes / (machine.hbm_bytes_per_s() * real(chips));
        let least = whole(seconds * real(machine.chip.clock_hz));
        let name = format!("{} {}", language.name, outline.name);
        (outline.name, picoseconds(machine, &name, chips, &outcome, least))
    };
    compiled.outlines.iter().map(time).collect()
}

fn real(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a bound")]
    let real = count as f64;
    real
}

fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive bound")]
    let whole = value as u64;
    whole
}

/// The time of a graph on eight PEs.
fn graph_time(machine: &Tcp, name: &str, graph: &Graph, pes: u64) -> (u128, String) {
    let options = GraphOptions { pes, ..GraphOptions::default() };
    let planned = plan(machine, graph, &TensorStore::default(), &options)
        .unwrap_or_else(|why| panic!("{name}: no plan: {why}"));
    let bound = roofline_cycles(machine, &planned.least, pes);
    let text = print(&planned.program);
    let outcome = simulated(machine, &planned.program, &[]).expect("a run");
    (picoseconds(machine, name, 1, &outcome, bound), text)
}

/// Pairs that were compared, and those whose second plan is slower than the first by more than it may be.
#[derive(Debug, Default)]
struct Compared {
    pairs: u64,
    slower: Vec<String>,
}

impl Compared {
    fn add(&mut self, name: &str, before: u128, after: u128) {
        self.pairs += 1;
        if after * 1000 > before * (1000 + SLOWER_THOUSANDTHS) {
            #[expect(clippy::cast_precision_loss, reason = "a percentage")]
            let percent = (after as f64 / before as f64 - 1.0) * 100.0;
            println!("{percent:+6.1} % {name}");
            self.slower.push(format!("{percent:+6.1} % {name}"));
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = blocks().expect("graphs");
    if is_deep() {
        cases.extend(models().expect("graphs"));
    }
    cases
}

/// Whether a pair is one of the few that every run takes.
fn is_drawn(at: usize, of: usize) -> bool {
    is_deep() || at.is_multiple_of(of)
}

/// The changes that a model is compiled for.
fn changes(at: usize) -> Vec<&'static Change> {
    let drawn = MORE.iter().enumerate().filter(|(change, _)| is_drawn(at + change, 23));
    drawn.map(|(_, change)| change).collect()
}

#[test]
fn more_of_something_makes_no_language_model_slower() {
    let machine = tcp();
    let mut compared = Compared::default();
    for (at, language) in languages().iter().enumerate() {
        let changes = changes(at * 3);
        if changes.is_empty() {
            continue;
        }
        let Ok(compiled) = compile_kernels(&machine, &language.kernels, language.options) else {
            println!("{}: does not compile", language.name);
            continue;
        };
        let before = language_times(&machine, language, &compiled);
        for (change, more) in changes {
            let mut after = machine.clone();
            more(&mut after);
            let compiled = compile_kernels(&after, &language.kernels, language.options)
                .unwrap_or_else(|why| panic!("{}: {change}: {why:?}", language.name));
            for (program, time) in language_times(&after, language, &compiled) {
                compared.add(&format!("{} {program}: {change}", language.name), before[program], time);
            }
        }
    }
    println!("{} pairs", compared.pairs);
    assert!(compared.slower.is_empty(), "of {} pairs:\n{}", compared.pairs, compared.slower.join("\n"));
}

#[test]
fn more_of_something_makes_no_graph_slower() {
    let machine = tcp();
    let mut compared = Compared::default();
    for (at, case) in cases().iter().enumerate() {
        let changes = changes(at * 7);
        if changes.is_empty() {
            continue;
        }
        let (before, _) = graph_time(&machine, &case.name, &case.graph, 8);
        for (change, more) in changes {
            let mut after = machine.clone();
            more(&mut after);
            let name = format!("{}: {change}", case.name);
            compared.add(&name, before, graph_time(&after, &name, &case.graph, 8).0);
        }
    }
    println!("{} pairs", compared.pairs);
    assert!(compared.slower.is_empty(), "of {} pairs:\n{}", compared.pairs, compared.slower.join("\n"));
}

/// The nodes in another order, drawn from a seed.
fn permuted(graph: &Graph, seed: u64) -> Graph {
    let mut state = seed;
    let (mut waiting, mut nodes) = (graph.nodes.clone(), Vec::new());
    let mut made: Vec<_> = graph.inputs.clone();
    made.extend(graph.constants.iter().map(|constant| constant.value));
    while !waiting.is_empty() {
        let ready = |at: &usize| waiting[*at].inputs.iter().flatten().all(|input| made.contains(input));
        let ready: Vec<usize> = (0..waiting.len()).filter(ready).collect();
        let drawn = usize::try_from(random::below(&mut state, ready.len() as u64)).expect("a few");
        let node = waiting.remove(ready[drawn]);
        made.extend(&node.outputs);
        nodes.push(node);
    }
    Graph { nodes, ..graph.clone() }
}

#[test]
fn a_graph_in_another_order_takes_as_long() {
    let machine = tcp();
    let mut differ = Vec::new();
    for (at, case) in cases().iter().enumerate().filter(|(at, _)| is_drawn(*at, 24)) {
        let (time, text) = graph_time(&machine, &case.name, &case.graph, 8);
        let other = permuted(&case.graph, at as u64);
        let (then, other_text) = graph_time(&machine, &case.name, &other, 8);
        if text != other_text {
            println!("{}: another plan, {then} instead of {time} ps", case.name);
        }
        if then.abs_diff(time) * 1000 > time * OTHER_ORDER_THOUSANDTHS {
            differ.push(format!("{}: {then} instead of {time} ps", case.name));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
