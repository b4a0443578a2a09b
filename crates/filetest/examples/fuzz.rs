//! `./test fuzz N`: so many inputs over all readers, in this process, on the stable toolchain.
//!
//! Inputs that show something new lie in `target/fuzz/TARGET`, those that fail in `target/fuzz/faults`; the
//! exit code says whether there are any. `./test fuzz N SEED TARGET..` draws others, and checks some readers
//! only.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::process::ExitCode;

use tilewright_filetest::fuzz_driver::{Campaign, run, table};
use tilewright_filetest::repository;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        let text = arguments.get(at).map_or("", |text| text.as_str()).replace('_', "");
        text.parse().unwrap_or(default)
    };
    let campaign = Campaign {
        inputs: number(0, 100_000),
        seed: number(1, 1),
        only: arguments.iter().skip(2).cloned().collect(),
        folder: repository().join("target/fuzz"),
        line_seconds: 60,
    };
    let counts = run(&campaign, &mut |line| eprintln!("{line}"));
    print!("{}", table(&counts));
    let faults: Vec<_> = counts.iter().flat_map(|count| &count.faults).collect();
    faults.iter().for_each(|fault| eprintln!("fault: {}", fault.display()));
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
