//! How far the closed forms are from the simulation by the cycle: a table over seeded random commands.

#![expect(clippy::print_stdout, reason = "an example prints")]

use tilewright_base::{Sources, render};
use tilewright_machine::tcp::Tcp;
use tilewright_machine::{builtin, load};
use tilewright_tcp_micro::gap::{CycleGap, SLACK_CYCLES};
use tilewright_tcp_micro::sample::{self, SampleChoices};
use tilewright_tcp_micro::{Accumulators, MicroCommand};

const CASES: u64 = 1000;

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("machines/tcp.toml", builtin("tcp").expect("a known machine"));
    let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
        .unwrap_or_else(|diagnostics| panic!("{}", render::plain(&sources, &diagnostics)));
    loaded.machine.tcp().expect("a tensor contraction processor").clone()
}

/// Gaps of the commands of a row, those of tight ones and those of commands where queues matter.
fn row(name: &str, machine: &Tcp, draw: impl Fn(&mut SampleChoices<'_>) -> MicroCommand) {
    let mut gaps = [Vec::new(), Vec::new()];
    for seed in 0..CASES {
        let list = sample::choices_of_seed(seed);
        let work = draw(&mut SampleChoices::new(&list));
        let gap = CycleGap::of(machine, &work).unwrap_or_else(|error| panic!("{error}: {work:#?}"));
        gaps[usize::from(!gap.is_tight())].push(gap);
    }
    let [tight, loose] = gaps;
    line(name, tight);
    line("  if queues matter", loose);
}

fn line(name: &str, mut gaps: Vec<CycleGap>) {
    gaps.sort_by_key(CycleGap::cycles);
    let (Some(least), Some(worst), Some(median)) = (gaps.first(), gaps.last(), gaps.get(gaps.len() / 2))
    else {
        return;
    };
    let near = gaps.iter().filter(|gap| gap.cycles() <= i128::from(SLACK_CYCLES)).count();
    let held = gaps.iter().filter(|gap| gap.holds()).count();
    println!(
        "{name:32} {:6} {:6} {:6} {:6} of {:6} {:7.1} % {:7.1} %",
        gaps.len(),
        least.cycles(),
        median.cycles(),
        worst.cycles(),
        worst.closed_cycles,
        percent(near, gaps.len()),
        percent(held, gaps.len()),
    );
}

#[expect(clippy::cast_precision_loss, reason = "a share to print")]
fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

fn main() {
    let machine = tcp();
    let heads = ["cases", "least", "median"];
    print!("{:32}", "simulated minus closed");
    heads.iter().for_each(|head| print!(" {head:>6}"));
    println!(" {:>16} {:>9} {:>9}", "worst", "within 64", "holds");
    row("one slice", &machine, |choices| sample::one_slice(&machine, choices));
    for slices in [4, 16] {
        row(&format!("ring of {slices}"), &machine, |choices| sample::ring(&machine, choices, slices));
    }
    row("one slice, units meet in banks", &machine, |choices| MicroCommand {
        banks_apart: false,
        ..sample::one_slice(&machine, choices)
    });
    row("contractions, shared cells", &machine, |choices| MicroCommand {
        accumulators: Accumulators::Shared,
        ..sample::contracted(&machine, choices)
    });
}
