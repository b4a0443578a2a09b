//! How far the closed forms are from the simulation by the cycle: a table over seeded random commands.

#![expect(clippy::print_stdout, reason = "an example prints")]

use tilewright_base::{Sources, render};
use tilewright_machine::tcp::Tcp;
use tilewright_machine::{builtin, load};
use tilewright_micro::Work;
use tilewright_micro::gap::{Gap, SLACK_CYCLES};
use tilewright_micro::sample::{self, Choices};

const CASES: u64 = 6000;

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("machines/tcp.toml", builtin("tcp").expect("a known machine"));
    let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
        .unwrap_or_else(|diagnostics| panic!("{}", render::plain(&sources, &diagnostics)));
    loaded.machine.tcp().expect("a tensor contraction processor").clone()
}

fn row(name: &str, machine: &Tcp, draw: impl Fn(&mut Choices<'_>) -> Work) {
    let mut gaps = Vec::new();
    for seed in 0..CASES {
        let list = sample::choices_of_seed(seed);
        let work = draw(&mut Choices::new(&list));
        let gap = Gap::of(machine, &work).unwrap_or_else(|error| panic!("{error}: {work:#?}"));
        if !gap.holds() {
            println!("seed {seed} does not hold: {gap:?}");
            if std::env::args().count() > 1 {
                println!("{work:?}");
            }
        }
        gaps.push(gap);
    }
    gaps.sort_by_key(|gap| gap.cycles());
    let median = gaps[gaps.len() / 2].cycles();
    let (least, worst) = (gaps[0], gaps[gaps.len() - 1]);
    let near = gaps.iter().filter(|gap| gap.cycles() <= i128::from(SLACK_CYCLES)).count();
    let tight = gaps.iter().filter(|gap| gap.is_tight()).count();
    let held = gaps.iter().filter(|gap| gap.holds()).count();
    println!(
        "{name:12} {:6} {:6} {median:6} {:6} of {:6} {:7.1} % {:7.1} % {:7.1} %",
        gaps.len(),
        least.cycles(),
        worst.cycles(),
        worst.closed_cycles,
        percent(near, gaps.len()),
        percent(tight, gaps.len()),
        percent(held, gaps.len()),
    );
}

#[expect(clippy::cast_precision_loss, reason = "a share to print")]
fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

fn main() {
    let machine = tcp();
    println!(
        "{:12} {:>6} {:>6} {:>6} {:>16} {:>9} {:>9} {:>9}",
        "", "cases", "least", "median", "worst gap", "within 64", "tight", "holds"
    );
    row("one slice", &machine, |choices| sample::one_slice(&machine, choices));
    for slices in [2, 4, 16] {
        row(&format!("ring of {slices}"), &machine, |choices| sample::ring(&machine, choices, slices));
    }
}
