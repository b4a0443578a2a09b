//! Times one pass of a built-in configuration.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]
use tilewright_compile::{Options, compile};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::prepared::Prepared;

fn main() {
    let mut sources = tilewright_base::Sources::default();
    let id = sources.add("tcp", tilewright_machine::builtin("tcp").unwrap());
    let machine =
        tilewright_machine::load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone();
    let model = tilewright_import::configs::read("llama2-7b").unwrap();
    let context: u64 = std::env::args().nth(1).map_or(2048, |text| text.parse().unwrap());
    let tokens: u64 = std::env::args().nth(2).map_or(128, |text| text.parse().unwrap());
    let past: u64 = std::env::args().nth(3).map_or(0, |text| text.parse().unwrap());
    let begun = std::time::Instant::now();
    let options = Options {
        dtype: Dtype::I8,
        cache: Dtype::I8,
        context,
        pes: 8,
        batch: std::env::args().nth(5).map_or(1, |text| text.parse().unwrap()),
    };
    let compiled = compile(&machine, &model.graph, options).unwrap_or_else(|error| panic!("{error}"));
    println!("compiled in {:?}", begun.elapsed());
    let program = if let Some(batch) = &compiled.batch {
        batch
    } else if tokens == 1 {
        &compiled.decode
    } else {
        &compiled.prefill
    };
    let prepared = Prepared::new(&machine, program.clone()).unwrap();
    println!(
        "verified in {:?}; {} images, {} transfers",
        begun.elapsed(),
        program.execs.len(),
        program.transfers.len()
    );
    let inputs = compiled.inputs(past, &vec![1; usize::try_from(tokens).unwrap()]).unwrap();
    let registers: Vec<_> = inputs
        .registers
        .iter()
        .filter_map(|(name, value)| Some((prepared.register(name)?, *value)))
        .collect();
    let reading = prepared
        .time(
            &registers,
            &Default::default(),
            KeepLast::new(std::env::var("KEEP").map_or(0, |k| k.parse().unwrap())),
        )
        .unwrap();
    let outcome = reading.outcome;
    if let Ok(name) = std::env::var("COST") {
        let transfer = program.transfers.iter().find(|t| t.name == name).unwrap();
        let values: Vec<i64> = program
            .registers
            .iter()
            .map(|r| inputs.registers.iter().find(|(n, _)| *n == r.name).map_or(r.initial, |(_, v)| *v))
            .collect();
        let resolved = transfer.resolved(&values);
        let cost = tilewright_tcp::cost::image::transfer::transfer_cost(&machine, &resolved).unwrap();
        println!("{resolved:?}");
        println!(
            "{:?} moved {} bytes {} requests {}",
            cost.cycles, cost.moved_cycles, cost.bytes, cost.requests
        );
        for path in &cost.paths {
            println!("   {:?} {}", path.path, path.cycles_q32 >> 32);
        }
    }
    if std::env::var("KEEP").is_ok() {
        let record = &outcome.record;
        let mut all: Vec<_> = record
            .intervals()
            .filter(|i| {
                let path = record.layout.path(i.track);
                path.contains("pe0/")
                    && (path.ends_with("main") || path.ends_with("dma") || path.ends_with("sub"))
            })
            .collect();
        all.sort_by_key(|i| i.start_cycles);
        for i in all {
            println!(
                "T {:>10} {:>8} {} {}",
                i.start_cycles,
                i.length_cycles(),
                record.layout.path(i.track),
                i.name
            );
        }
    }
    println!(
        "simulated in {:?}: {} cycles, {} commands, {:?}",
        begun.elapsed(),
        outcome.cycles,
        outcome.commands,
        outcome.ended
    );
    for used in &outcome.utilisation {
        println!("  {} {:.1} %", used.engine.name(), used.ppm() as f64 / 1e4);
    }
    let mut kinds: std::collections::BTreeMap<String, (u64, u128)> = Default::default();
    for image in &outcome.images {
        let name = format!(
            "{:?} {}",
            image.unit,
            image.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_')
        );
        let entry = kinds.entry(name).or_default();
        entry.0 += image.runs;
        entry.1 += image.busy_cycles;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.1.1));
    for (name, (runs, cycles)) in kinds.iter().take(24) {
        println!(
            "  {name}: {runs} runs, {} cycles each, {:.2} % of a PE",
            cycles / u128::from(*runs),
            *cycles as f64 / 8.0 / outcome.cycles as f64 * 100.0
        );
    }
    let mut images = outcome.images.clone();
    images.sort_by_key(|image| std::cmp::Reverse(image.busy_cycles));
    for image in images
        .iter()
        .filter(|image| std::env::args().nth(4).is_none_or(|name| image.name.contains(&name)))
        .take(30)
    {
        println!("  {} {} runs {} cycles", image.name, image.runs, image.busy_cycles);
    }
}
