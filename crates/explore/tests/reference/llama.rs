//! The winners of all contractions of LLaMA-2 7B on one PE, simulated: cycles are those of the estimate.

use tilewright_explore::tcp::TcpReport;
use tilewright_explore::tcp::program::{lowered, program_cycles};
use tilewright_explore::{Goal, SearchOptions, search};
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_runtime::{ArrayError, ReadingOptions, read};

use crate::setting::{machine, task};

/// Projections share a shape where they have the same weights: query, key, value and output; gate and up;
/// down.
const OPERATORS: [&str; 5] = [
    "mk, n_8k -> mn_8; dims m=ROWS, n=4096, k=4096",
    "mk, n_8k -> mn_8; dims m=ROWS, n=11008, k=4096",
    "mk, n_8k -> mn_8; dims m=ROWS, n=4096, k=11008",
    "h_8qd, h_8kd -> h_8qk; dims h=32, q=ROWS, k=2048, d=128",
    "h_8qk, h_8kd -> h_8qd; dims h=32, q=ROWS, k=2048, d=128",
];

/// The winner of every operator for a goal, lowered and simulated.
fn winners(goal: Goal) {
    let tcp = machine("tcp");
    for rows in [1, 16, 32, 128, 2048] {
        for text in OPERATORS {
            let text = text.replace("ROWS", &rows.to_string());
            let task = task(&tcp, Dtype::I8, &text);
            let found = search(&task, &SearchOptions::exact(goal, 1), &mut |_, _| false);
            assert!(found.complete, "{text}: not proved");
            let best = found.kept.best().first().expect("something is legal");
            let told = TcpReport::new(&task, &found, best).expect("it can be told");
            let program =
                lowered(&task, &told.framed, &best.choice, &tilewright_tcp_lower::LowerOptions::default());
            let program = program.unwrap_or_else(|complaints| panic!("{text}: {complaints:?}")).program;
            let mut files = |_: &_| Err(ArrayError::Format("none".to_string()));
            let wanted = ReadingOptions::default();
            let reading = read(&tcp, &program, &mut files, &wanted, KeepLast::new(0)).expect("it runs");
            let estimated = program_cycles(&task, told.columns.part_cycles);
            let simulated = reading.outcome.cycles;
            assert!(simulated.abs_diff(estimated) * 100 <= estimated * 3, "{text}: {simulated}, {estimated}");
        }
    }
}

#[test]
fn simulated_cycles_of_the_fastest() {
    winners(Goal::Time);
}

#[test]
fn simulated_cycles_of_the_thriftiest() {
    winners(Goal::Energy);
}

#[test]
fn simulated_cycles_of_the_least_energy_times_delay() {
    winners(Goal::EnergyDelay);
}

#[test]
fn simulated_cycles_of_the_fastest_below_a_power() {
    winners(Goal::TimeBelow(6000));
}
