//! Simulated cycles of compiled graphs against their bound: `cargo bench --bench suite [PART OF A NAME]`.
//! With `--search` or `--producers`: how much longer they take without each part of the compiler that
//! searches, or that produces and rewrites. With `--orders`: how much the search for an order of commands
//! changes, by the model that orders are compared on and simulated. A word that ends in `.graph` is a file.
//!
//! `BxMxNxK=1x512x768x768` is a contraction, `BxCxSxNxWxT=8x64x56x64x3x1` a convolution,
//! `BxTxDxHxL=8x197x768x12x1` blocks of a transformer of such sizes.
//!
//! The bound is the larger of multiply-accumulates at the peak of the PEs and bytes that must cross HBM at
//! its peak.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::time::Instant;

use tilewright_base::{SourceId, Sources};
use tilewright_bench::suite::{Case, Transformer, blocks, contraction, convolution, models, transformer};
use tilewright_compile::general::bound::{macs, roofline_cycles};
use tilewright_compile::general::kernel::Packing;
use tilewright_compile::general::{Choice, Options, OrderSearch, plan};
use tilewright_graph::{TensorStore, primitives};
use tilewright_machine::Tcp;
use tilewright_record::{Event, KeepLast, TrackId};
use tilewright_runtime::graph::GraphDevice;
use tilewright_runtime::usage::Usage;
use tilewright_runtime::{Reading, ReadingOptions};
use tilewright_schedule::tune::{PartWorth, order_gains, order_searches, worth};

const PES: u64 = 8;

fn tcp() -> Option<Tcp> {
    let mut sources = Sources::default();
    let id = sources.add("tcp", tilewright_machine::builtin("tcp")?);
    let loaded = tilewright_machine::load(&mut sources, id, &|_| None).ok()?;
    loaded.machine.tcp().cloned()
}

/// Compiles and times a graph.
fn measured(machine: &Tcp, case: &Case) -> Result<(), String> {
    let begun = Instant::now();
    let options = Options { pes: PES, ..Options::default() };
    let planned = plan(machine, &case.graph, &TensorStore::default(), &options)
        .map_err(|refusal| refusal.to_string())?;
    let compile_s = begun.elapsed().as_secs_f64();
    if std::env::args().any(|arg| arg == "--lowered") {
        println!("{}", tilewright_compile::general::text::lowered(machine, &planned));
    }
    let bound = roofline_cycles(machine, &planned.least, PES);
    let mut device = GraphDevice::new(machine, planned)
        .map_err(|error| format!("{error:?}").chars().take(600).collect::<String>())?;
    let kernels = std::env::args().any(|arg| arg == "--kernels" || arg == "--commands");
    let wanted =
        ReadingOptions { values: false, findings: false, trace: kernels, ..ReadingOptions::default() };
    let kept = if kernels { 1_000_000 } else { 0 };
    let reading = device.run(&[], &wanted, KeepLast::new(kept)).map_err(|error| error.to_string())?;
    let mut usage = Usage::default();
    usage.add(&reading.outcome, 1);
    let cycles = reading.outcome.cycles;
    let narrow = [Packing::Byte, Packing::Float8];
    let bytes = narrow.into_iter().any(|packing| macs(&device.planned().kernels, packing) > 0);
    let peak = if bytes { tilewright_num::Dtype::I8 } else { tilewright_num::Dtype::Bf16 };
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = cycles as f64 / bound as f64;
    println!(
        "{:<38} {cycles:>10} {bound:>9} {ratio:>8.2} {:>5.1} % {:>5.1} % {compile_s:>7.2} s",
        case.name,
        100.0 * usage.mac_use(machine, PES, peak),
        100.0 * usage.hbm_use(machine, 1),
    );
    if std::env::args().any(|arg| arg == "--longest") {
        for (name, unit, used) in usage.longest().iter().take(12) {
            println!("    {name} ({unit}) {} x {}", used.busy_cycles, used.runs);
        }
    }
    if kernels {
        spans(&device, &reading);
    }
    if std::env::args().any(|arg| arg == "--commands") {
        commands(&reading);
    }
    Ok(())
}

/// Commands of all PEs: first and last cycle, how long, where.
fn commands(reading: &Reading) {
    let record = &reading.outcome.record;
    let tracks = &record.layout.tracks;
    let named = |track: TrackId| tracks.get(usize::try_from(track.0).unwrap_or(usize::MAX));
    for event in &record.events {
        let Event::Interval(one) = event else { continue };
        let Some(track) = named(one.track) else { continue };
        let Some(parent) = track.parent.and_then(named) else { continue };
        let length = one.end_cycles - one.start_cycles;
        println!(
            "    {:>9} {:>9} {length:>8} {} {:<6} {}",
            one.start_cycles, one.end_cycles, parent.name, track.name, one.name
        );
    }
}

/// When each kernel began and ended.
fn spans(device: &GraphDevice, reading: &Reading) {
    let mut spans: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for event in &reading.outcome.record.events {
        let Event::Interval(interval) = event else { continue };
        let Some(number) = interval.name.rsplit("_k").next().and_then(|rest| rest.split('_').next()) else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let span = spans.entry(number).or_insert((u64::MAX, 0));
        *span = (span.0.min(interval.start_cycles), span.1.max(interval.end_cycles));
    }
    let mut last = 0;
    for (number, (start, end)) in spans {
        let kernel = &device.planned().kernels.kernels[number];
        println!(
            "    {number:>3} {:<10} {start:>9} {end:>9} {:>8}",
            kernel.name(),
            end.saturating_sub(last.max(start))
        );
        last = last.max(end);
    }
}

/// A contraction of sizes that are written out.
fn of_sizes(text: &str) -> Option<Case> {
    contraction(sizes_of(text)?).ok()
}

/// Blocks of a transformer of sizes that are written out.
fn transformer_blocks([batch, tokens, width, heads, layers]: [i64; 5]) -> Option<Case> {
    let layers = u32::try_from(layers).ok()?;
    let shape = Transformer { layers, width, heads, batch, tokens, norm_first: true, int8: false };
    transformer(&format!("{layers} blocks, {batch}x{tokens} tokens, {width}"), shape).ok()
}

fn sizes_of<const N: usize>(text: &str) -> Option<[i64; N]> {
    let sizes: Option<Vec<i64>> = text.split('x').map(|size| size.parse().ok()).collect();
    sizes?.try_into().ok()
}

fn print_one(machine: &Tcp, case: &Case) {
    if let Err(why) = measured(machine, case) {
        println!("{:<38} refused: {why}", case.name);
    }
}

/// Parts that search among candidates, plans and orders.
const SEARCH: [Choice; 5] = [Choice::Refine, Choice::Bridges, Choice::Warm, Choice::Order, Choice::Rules];

/// The parts that a table was asked for.
fn asked_parts() -> Option<Vec<Choice>> {
    let asked = |option: &str| std::env::args().any(|arg| arg == option);
    let producers = || Choice::ALL.into_iter().filter(|part| !SEARCH.contains(part)).collect();
    if asked("--search") { Some(SEARCH.to_vec()) } else { asked("--producers").then(producers) }
}

/// A line on what each part is worth for a graph: how much longer it takes without it.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn print_worth(machine: &Tcp, case: &Case, parts: &[Choice]) {
    let options = Options { pes: PES, ..Options::default() };
    let store = TensorStore::default();
    let made = |options: &Options| plan(machine, &case.graph, &store, options);
    let found = match worth(machine, options, parts, &made, &mut |_, _| {}) {
        Ok(found) => found,
        Err(why) => return println!("{:<38} {why}", case.name),
    };
    let more = |one: &PartWorth| match one.cycles {
        Some(cycles) => format!("{:>+8.1} %", 100.0 * (cycles as f64 / found.cycles as f64 - 1.0)),
        None => format!("{:>10}", "-"),
    };
    let more: String = found.parts.iter().map(more).collect();
    println!("{:<38} {:>10}{more}", case.name, found.cycles);
}

fn print_worths(machine: &Tcp, cases: &[&Case], parts: &[Choice]) {
    let names: String = parts.iter().map(|part| format!("{:>10}", part.name())).collect();
    println!("{:<38} {:>10}{names}", "without", "-");
    cases.iter().for_each(|case| print_worth(machine, case, parts));
}

/// Searches for an order of commands that `--orders` compares: none, and those of effort 3.
fn orders() -> Vec<OrderSearch> {
    std::iter::once(OrderSearch::default()).chain(order_searches(3)).collect()
}

/// A line on what searches for an order gain: cycles without, then by the model and simulated.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn print_orders(machine: &Tcp, case: &Case) {
    let options = Options { pes: PES, ..Options::default() };
    let store = TensorStore::default();
    let made = |options: &Options| plan(machine, &case.graph, &store, options);
    let found = match order_gains(machine, options, &orders(), &made) {
        Ok(found) => found,
        Err(why) => return println!("{:<38} {why}", case.name),
    };
    let Some((rule, others)) = found.split_first() else { return };
    let change = |new: u64, old: u64| 100.0 * (new as f64 / old as f64 - 1.0);
    let each = others.iter().map(|one| {
        let (model, run) = (change(one.model_cycles, rule.model_cycles), change(one.cycles, rule.cycles));
        format!("{model:>+11.2} {run:>+8.2} %")
    });
    println!("{:<38} {:>10}{}", case.name, rule.cycles, each.collect::<String>());
}

/// A graph text of a file, if the word is the name of one.
fn of_file(word: &str) -> Option<Case> {
    let is_graph = std::path::Path::new(word).extension().is_some_and(|ending| ending == "graph");
    let text = is_graph.then(|| std::fs::read_to_string(word).ok()).flatten()?;
    let graph = tilewright_graph::text::read(&text, SourceId(0)).ok()?;
    Some(Case { name: word.to_string(), graph: primitives(&graph).ok()? })
}

fn main() {
    let Some(machine) = tcp() else { return println!("no built-in machine") };
    let cases = match blocks()
        .and_then(|blocks| Ok([blocks, models()?].into_iter().flatten().collect::<Vec<Case>>()))
    {
        Ok(cases) => cases,
        Err(complaint) => return println!("{}", complaint.message),
    };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let Some(sizes) = wanted.first().and_then(|text| text.strip_prefix("BxCxSxNxWxT=")) {
        match sizes_of::<6>(sizes).and_then(|sizes| convolution(sizes).ok()) {
            Some(case) => return print_one(&machine, &case),
            None => return println!("six sizes, such as BxCxSxNxWxT=8x64x56x64x3x1"),
        }
    }
    if let Some(sizes) = wanted.first().and_then(|text| text.strip_prefix("BxTxDxHxL=")) {
        match sizes_of(sizes).and_then(transformer_blocks) {
            Some(case) => return print_one(&machine, &case),
            None => return println!("five sizes, such as BxTxDxHxL=8x197x768x12x1"),
        }
    }
    let asked = wanted.first().and_then(|text| text.strip_prefix("BxMxNxK="));
    let cases = match asked.map(of_sizes) {
        Some(Some(case)) => return print_one(&machine, &case),
        Some(None) => return println!("four sizes, such as BxMxNxK=1x512x768x768"),
        None => cases,
    };
    let files: Vec<Case> = wanted.iter().filter_map(|word| of_file(word)).collect();
    let named = files.is_empty();
    let cases = if named { cases } else { files };
    let is_wanted = |case: &&Case| !named || wanted.iter().all(|part| case.name.contains(part.as_str()));
    if std::env::args().any(|arg| arg == "--orders") {
        let names = orders().into_iter().skip(1).map(|search| format!("{:>22}", search.to_string()));
        println!("{:<38} {:>10}{}", "model and simulated", "cycles", names.collect::<String>());
        return cases.iter().filter(is_wanted).for_each(|case| print_orders(&machine, case));
    }
    if let Some(parts) = asked_parts() {
        return print_worths(&machine, &cases.iter().filter(is_wanted).collect::<Vec<_>>(), &parts);
    }
    println!(
        "{:<38} {:>10} {:>9} {:>8} {:>7} {:>7} {:>9}",
        "", "cycles", "bound", "ratio", "MACs", "HBM", "compile"
    );
    for case in cases.iter().filter(is_wanted) {
        print_one(&machine, case);
    }
}
