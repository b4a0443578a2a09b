//! What must hold between two runs of the compiler and the simulator, whatever the numbers are: more of a
//! resource makes no plan slower, less of it makes what it bounds longer in proportion, and no plan beats its
//! bound. Models, types and machines are drawn; `./test deep` takes all pairs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write as _;

use tilewright_compile::kernel::Kernels;
use tilewright_compile::{Compiled, Mixed, Options, compile_kernels, kernel_text};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_schedule::timing::schedule;
use tilewright_tcp_cost::cycles::image::transfer_cost;

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
                 project qkv{at}: rows[{rows}] = n{x} * [wq{at}[{e}{{{q}~}}x{e}], wk{at}[{kv}{{{k}~}}x{e}], \
                 wv{at}[{kv}{{{k}}}x{e}]]\n\
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

/// Programs of a pair that became slower, and how many were compared.
#[derive(Debug)]
struct Compared {
    /// How much longer they may take.
    thousandths: u64,
    programs: u64,
    slower: Vec<String>,
}

impl Compared {
    fn within(thousandths: u64) -> Compared {
        Compared { thousandths, programs: 0, slower: Vec::new() }
    }

    /// Compiles for both machines, each with its own options, and compares program by program.
    fn pair(&mut self, name: &str, shape: &Shape, before: (&Tcp, Options), after: (&Tcp, Options)) {
        let kernels = shape.kernels();
        let Ok(compiled) = compile_kernels(before.0, &kernels, before.1) else { return };
        let more = compile_kernels(after.0, &kernels, after.1)
            .unwrap_or_else(|why| panic!("{name}: {shape:?} {:?} is refused: {why:?}", after.1));
        for ((program, time), (_, then)) in times(before.0, &compiled).iter().zip(times(after.0, &more)) {
            self.programs += 1;
            if then * 1000 > time * u128::from(1000 + self.thousandths) {
                let Options { dtype, pes, batch, .. } = before.1;
                self.slower.push(format!(
                    "{name}: {program} {then} instead of {time} ps, {}, {pes} PEs, batch {batch}, {shape:?}",
                    dtype.name()
                ));
            }
        }
    }

    fn holds(&self, least: u64) {
        let Compared { programs, slower, .. } = self;
        assert!(*programs >= least, "{programs} programs are too few");
        assert!(slower.is_empty(), "{} of {programs} are slower:\n{}", slower.len(), slower.join("\n"));
    }
}

/// Whether a case is one of the few that every run takes.
fn is_drawn(at: usize, of: usize) -> bool {
    tilewright_testkit::is_deep() || at.is_multiple_of(of)
}

fn cases() -> impl Iterator<Item = (Shape, Options)> {
    SHAPES.into_iter().flat_map(|shape| all_options().into_iter().map(move |options| (shape, options)))
}

#[test]
fn more_of_something_makes_no_plan_slower() {
    let mut compared = Compared::within(SLOWER_THOUSANDTHS);
    let pairs = cases().flat_map(|case| MORE.iter().map(move |change| (case, change)));
    for (_, ((shape, options), (name, change))) in pairs.enumerate().filter(|(at, _)| is_drawn(*at, 37)) {
        let before = tcp();
        let mut after = before.clone();
        change(&mut after);
        compared.pair(name, &shape, (&before, options), (&after, options));
    }
    compared.holds(tilewright_testkit::draws(20, 500));
}

/// What does not hold, and by how much: templates use every slice of a PE, so rings get longer with them, and
/// messages between PEs cost small models more than sharing their work saves.
#[test]
fn more_slices_and_pes_may_be_slower_by_so_much() {
    let machine = tcp();
    let mut wider = machine.clone();
    wider.pe.slices *= 2;
    let (mut slices, mut pes) = (Compared::within(850), Compared::within(250));
    for (_, (shape, options)) in cases().enumerate().filter(|(at, _)| is_drawn(*at, 11)) {
        slices.pair("twice the slices", &shape, (&machine, options), (&wider, options));
        if options.pes < 8 {
            let more = Options { pes: 2 * options.pes, ..options };
            pes.pair("twice the PEs", &shape, (&machine, options), (&machine, more));
        }
    }
    slices.holds(10);
    pes.holds(5);
}

/// Everything of a channel at half the rate: each transfer keeps it busy for twice as long.
#[test]
fn half_the_rate_of_hbm_doubles_the_time_of_its_channels() {
    let machine = tcp();
    let mut half = machine.clone();
    half.hbm.channel_clock_hz /= 2;
    half.hbm.timing_clock_hz /= 2;
    half.hbm.row_switch_ns *= 2;
    half.hbm.partial_write_cycles *= 2;
    let mut seen = 0;
    for (_, (shape, options)) in cases().enumerate().filter(|(at, _)| is_drawn(*at, 17)) {
        let Ok(compiled) = compile_kernels(&machine, &shape.kernels(), options) else { continue };
        for transfer in compiled.decode.transfers.iter().chain(&compiled.prefill.transfers) {
            let busiest = |machine: &Tcp| {
                let cost = transfer_cost(machine, transfer)?;
                Some(cost.read.or(cost.written)?.busiest_q32)
            };
            let (Some(whole), Some(halved)) = (busiest(&machine), busiest(&half)) else { continue };
            seen += 1;
            assert!(halved.abs_diff(2 * whole) <= 4, "{}: {halved} of {whole}", transfer.name);
        }
    }
    assert!(seen >= 50, "{seen} transfers");
}
