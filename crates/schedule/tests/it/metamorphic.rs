//! What must hold between two runs of the compiler and the simulator, whatever the numbers are: more of a
//! resource makes no plan slower, less of it makes what it bounds longer in proportion, and no plan beats its
//! bound. Models, types and machines are drawn; `./test deep` takes all pairs.

use std::fmt::Write as _;

use tilewright_compile::kernel::Kernels;
use tilewright_compile::{Compiled, Mixed, Options, compile_kernels, kernel_text};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_schedule::timing::schedule;

use super::choices::tcp;

/// What a plan with more of something may take longer, in thousandths.
const SLOWER_THOUSANDTHS: u64 = 5;

/// A decoder in kernels.
#[derive(Clone, Copy, Debug)]
struct Shape {
    features: u64,
    heads: u64,
    groups: u64,
    hidden: u64,
    layers: u64,
    vocabulary: u64,
}

const SHAPES: [Shape; 4] = [
    Shape { features: 64, heads: 4, groups: 2, hidden: 128, layers: 1, vocabulary: 256 },
    Shape { features: 128, heads: 8, groups: 8, hidden: 384, layers: 2, vocabulary: 512 },
    Shape { features: 256, heads: 8, groups: 8, hidden: 512, layers: 1, vocabulary: 1024 },
    Shape { features: 512, heads: 8, groups: 8, hidden: 1536, layers: 1, vocabulary: 2048 },
];

impl Shape {
    fn kernels(&self) -> Kernels {
        let Shape { features: e, heads, groups, hidden: f, layers, vocabulary: v } = *self;
        let (size, each) = (e / heads, heads / groups);
        let (q, k) = (format!("{groups}x{each}({each})x{size}"), format!("{groups}x1(1)x{size}"));
        let mut text = format!(
            "kernels 2\nname drawn\npositions 128\nvocabulary {v}\nembed x0: features[{e}] = table\n"
        );
        for at in 0..layers {
            let (x, y, z) = (2 * at, 2 * at + 1, 2 * at + 2);
            let rows = e + 2 * groups * size;
            let kv = groups * size;
            let written = writeln!(
                text,
                "norm n{x}: features[{e}] = rms x{x} * g{x} eps=1e-5\n\
                 project qkv{at}: rows[{rows}] = n{x} * [wq{at}[{e}{{{q}~}}x{e}], wk{at}[{kv}{{{k}~}}x{e}], wv{at}[{kv}{{{k}}}x{e}]]\n\
                 rotate q{at}: rows[{e}], cache{at} = qkv{at} heads={q} tables=(cos, sin)\n\
                 attend a{at}: rows[{e}] = q{at}, cache{at} heads={q} scale=0.25\n\
                 combine x{y}: features[{e}] = x{x} + a{at} * wo{at}[{e}x{e}{{{q}}}]\n\
                 norm n{y}: features[{e}] = rms x{y} * g{y} eps=1e-5\n\
                 project gu{at}: rows[{}] = n{y} * [wg{at}[{f}x{e}], wu{at}[{f}x{e}]]\n\
                 activate h{at}: rows[{f}] = gated_silu gu{at}\n\
                 combine x{z}: features[{e}] = x{y} + h{at} * wd{at}[{e}x{f}]",
                2 * f
            );
            written.unwrap();
        }
        let last = 2 * layers;
        writeln!(
            text,
            "norm n{last}: features[{e}] = rms x{last} * g{last} eps=1e-5\nhead n{last} * table[{v}x{e}]"
        )
        .unwrap();
        kernel_text::read(&text, tilewright_base::SourceId(0)).unwrap_or_else(|why| panic!("{why:?}\n{text}"))
    }
}

fn all_options() -> Vec<Options> {
    let mut all = Vec::new();
    for dtype in [Dtype::Bf16, Dtype::I8] {
        for pes in [1, 2, 4, 8] {
            for batch in [1, 4] {
                let (cache, mixed) = (dtype, Mixed::default());
                all.push(Options { dtype, mixed, cache, context: 128, pes, chips: 1, batch });
            }
        }
    }
    all
}

/// Picoseconds of each program, by its name.
fn times(machine: &Tcp, compiled: &Compiled) -> Vec<(String, u128)> {
    let time = |outline| {
        let schedule = schedule(machine, compiled, outline).unwrap();
        assert!(schedule.cycles >= schedule.bound_cycles(), "faster than its busiest unit");
        u128::from(schedule.cycles) * 1_000_000_000_000 / u128::from(machine.chip.clock_hz)
    };
    compiled.outlines.iter().map(|outline| (outline.name.to_owned(), time(outline))).collect()
}

/// A machine with more of something.
type Change = (&'static str, fn(&mut Tcp));

const MORE: [Change; 9] = [
    ("twice the rate of HBM", |m| m.hbm.channel_bytes_per_cycle *= 2),
    ("rows that open in half the time", |m| m.hbm.row_switch_ns /= 2),
    ("twice the rate of DMA", |m| {
        m.tdma.bandwidth_bytes_per_cycle *= 2;
        m.noc.pe_bytes_per_cycle *= 2;
    }),
    ("twice the rate of data memory networks", |m| m.dmn.bandwidth_bytes_per_cycle *= 2),
    ("twice the requests in flight", |m| m.tdma.in_flight_requests *= 2),
    ("half of the start of a transfer", |m| m.tdma.startup_cycles /= 2),
    ("half of the overhead of a command", |m| m.command.overhead_cycles /= 2),
    ("twice the clock", |m| m.chip.clock_hz *= 2),
    ("twice the data memory", |m| m.dm.capacity_bytes *= 2),
];

#[test]
fn more_of_something_makes_no_plan_slower() {
    let pairs: Vec<(Shape, Options, Change)> = SHAPES
        .iter()
        .flat_map(|shape| all_options().into_iter().map(move |options| (*shape, options)))
        .flat_map(|(shape, options)| MORE.iter().map(move |change| (shape, options, *change)))
        .collect();
    let mut slower = Vec::new();
    let mut compared = 0;
    for (at, (shape, options, (name, change))) in pairs.iter().enumerate() {
        if !tilewright_testkit::is_deep() && at % 37 != 0 {
            continue;
        }
        let (before, kernels) = (tcp(), shape.kernels());
        let mut after = before.clone();
        change(&mut after);
        let Ok(compiled) = compile_kernels(&before, &kernels, *options) else { continue };
        let more = compile_kernels(&after, &kernels, *options)
            .unwrap_or_else(|why| panic!("{name}: {shape:?} {options:?} is refused: {why:?}"));
        for ((program, time), (_, then)) in times(&before, &compiled).iter().zip(times(&after, &more)) {
            compared += 1;
            if then * 1000 > time * u128::from(1000 + SLOWER_THOUSANDTHS) {
                let dtype = options.dtype.name();
                let (pes, batch) = (options.pes, options.batch);
                slower.push(format!("{name}: {program} {then} instead of {time} ps, {dtype}, {pes} PEs, batch {batch}, {shape:?}"));
            }
        }
    }
    assert!(compared >= if tilewright_testkit::is_deep() { 500 } else { 20 }, "{compared} pairs");
    assert!(slower.is_empty(), "{} of {compared} are slower:\n{}", slower.len(), slower.join("\n"));
}
