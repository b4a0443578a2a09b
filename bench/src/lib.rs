//! Timing of host code: each benchmark prints a rate, the goal it is held to, and the best of several rounds.
//!
//! Machines are noisy, so the best round counts; for a comparison that noise cannot touch, count
//! instructions (`valgrind --tool=callgrind` on the benchmark's binary).

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

pub mod suite;

use std::time::{Duration, Instant};

use tilewright_report::columns::thousands;

/// One benchmark: a name, a goal in items a second, and a body that does so many items a call.
pub struct Bench<'a> {
    /// What is timed.
    pub name: &'a str,
    /// Items a second that it should reach; 0 for none.
    pub goal_per_s: f64,
    /// Items of one call.
    pub items: u64,
}

/// Runs a body for about two seconds and prints its best rate.
pub fn measure(bench: &Bench<'_>, mut body: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let start = Instant::now();
        body();
        best = best.min(start.elapsed());
    }
    #[expect(clippy::cast_precision_loss, reason = "item counts are small")]
    let rate = bench.items as f64 / best.as_secs_f64();
    let verdict = match bench.goal_per_s {
        0.0 => "no goal".to_string(),
        goal if rate >= goal => format!("goal {:>12} /s   reached", grouped(goal)),
        goal => format!("goal {:>12} /s   MISSED", grouped(goal)),
    };
    println!("{:<52} {:>12} /s   {verdict}", bench.name, grouped(rate));
    rate
}

/// Runs a command several times and prints its best time against a limit.
pub fn measure_start(name: &str, limit: Duration, command: &mut std::process::Command) {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        match command.output() {
            Ok(output) if output.status.success() => best = best.min(start.elapsed()),
            _ => {
                println!("{name:<52} not run: build it first with cargo build --release");
                return;
            }
        }
    }
    let verdict = if best <= limit { "reached" } else { "MISSED" };
    println!("{name:<52} {:>12.1} ms   limit {:>10.1} ms   {verdict}", millis(best), millis(limit));
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and far below 2^64"
)]
fn grouped(rate: f64) -> String {
    thousands(rate.round() as u64)
}

/// The most bytes of memory that the process had so far, if the system says it.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    most.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Processor seconds of all threads so far, if the system says it: ticks are hundredths of a second.
pub fn processor_seconds() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = status.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
