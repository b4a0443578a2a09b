//! Sweeps of the explorer that are stopped and go on, by the command line: nothing is lost, and nothing is
//! searched twice.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use tilewright_cli::{Host, Outcome};
use tilewright_filetest::host::TestHost;
use tilewright_filetest::repository;

/// A host whose user presses Ctrl-C once it was asked so often, or whose process is killed at its n-th write.
struct Stopped {
    inner: TestHost,
    /// How often it may still be asked whether the user wants to stop.
    patience: Cell<u64>,
    /// Files that may still be written.
    writes: u64,
    /// Seconds that pass between two looks at the clock, and those that have passed.
    tick: f64,
    clock: Cell<f64>,
}

impl Host for Stopped {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.inner.read(path)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.writes = self.writes.checked_sub(1).ok_or(io::ErrorKind::Interrupted)?;
        self.inner.write(path, bytes)
    }

    fn read_standard_input(&mut self, most_bytes: u64) -> io::Result<Vec<u8>> {
        self.inner.read_standard_input(most_bytes)
    }

    fn colour(&self) -> bool {
        false
    }

    fn seconds(&self) -> f64 {
        self.clock.set(self.clock.get() + self.tick);
        self.clock.get()
    }

    fn interrupted(&self) -> bool {
        let left = self.patience.get();
        self.patience.set(left.saturating_sub(1));
        left == 0
    }
}

const RESULTS: &str = "results/explore.jsonl";

fn host() -> Stopped {
    let inner = TestHost { root: repository(), ..TestHost::default() };
    Stopped { inner, patience: Cell::new(u64::MAX), writes: u64::MAX, tick: 0.0, clock: Cell::new(0.0) }
}

fn explore(host: &mut Stopped, more: &[&str]) -> Outcome {
    let words = ["tilewright", "explore", "mk,nk->mn", "--dims", "m=16..64:x2,n=32,k=64", "--out", "results"];
    tilewright_cli::run(words.iter().chain(more).map(OsString::from), host)
}

fn lines(host: &Stopped) -> Vec<String> {
    let bytes = host.inner.written.get(RESULTS).cloned().unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect()
}

#[test]
fn a_sweep_goes_on_where_it_was_killed() {
    let mut whole = host();
    let expected = explore(&mut whole, &[]);
    assert_eq!((expected.code, lines(&whole).len()), (0, 3), "{}", expected.stderr);

    let mut killed = host();
    killed.writes = 1;
    assert_ne!(explore(&mut killed, &[]).code, 0);
    assert_eq!(lines(&killed).len(), 1);
    // What the kill cut short is no line.
    let mut cut = killed.inner.written[RESULTS].clone();
    cut.extend(b"{\"asked\": {\"ein");
    killed.inner.written.insert(RESULTS.to_string(), cut);
    killed.writes = u64::MAX;
    let resumed = explore(&mut killed, &[]);
    assert!(resumed.stdout.contains("1 of them from before"), "{}", resumed.stdout);
    assert_eq!(lines(&killed), lines(&whole));

    let again = explore(&mut killed, &[]);
    assert!(again.stdout.contains("3 of them from before"), "{}", again.stdout);
    let rows = |outcome: &Outcome| outcome.stdout.lines().take(4).map(str::to_string).collect::<Vec<_>>();
    assert_eq!((rows(&again), rows(&resumed)), (rows(&expected), rows(&expected)));
}

/// A line that says something else than was found is searched again, and told of.
#[test]
fn a_result_that_somebody_changed_is_not_believed() {
    let mut host = host();
    let expected = explore(&mut host, &[]);
    let text = String::from_utf8(host.inner.written[RESULTS].clone()).expect("text");
    let cycles = text.split("\"cycles\":").nth(1).and_then(|rest| rest.split(',').next()).expect("cycles");
    let changed = text.replacen(&format!("\"cycles\":{cycles}"), "\"cycles\":1", 1);
    assert_ne!(changed, text);
    host.inner.written.insert(RESULTS.to_string(), changed.into_bytes());
    let again = explore(&mut host, &[]);
    assert!(again.stdout.contains("2 of them from before"), "{}", again.stdout);
    assert!(again.stderr.contains("1 of the lines of `results/explore.jsonl`"), "{}", again.stderr);
    let rows = |outcome: &Outcome| outcome.stdout.lines().take(4).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(rows(&again), rows(&expected));
}

/// Every point of a sweep has a picture of its own.
#[test]
fn a_sweep_draws_every_point() {
    let mut host = host();
    let outcome = explore(&mut host, &["--plot", "front.svg"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let drawn: Vec<&String> = host.inner.written.keys().filter(|name| name.ends_with(".svg")).collect();
    assert_eq!(drawn, ["front-m=16.svg", "front-m=32.svg", "front-m=64.svg"]);
}

#[test]
fn another_question_or_another_machine_is_searched_again() {
    let mut host = host();
    explore(&mut host, &[]);
    assert!(explore(&mut host, &["--goal", "energy"]).stdout.contains(", 0 of them from before"));
    let machine = |slices: u64| {
        format!(
            "name = \"what-if\"\ndescription = \"other slices\"\nbase = \"tcp\"\n[pe]\nslices = \
             {slices}\n[sources]\n\"pe.slices\" = \
             \"assumption: a what-if\"\n"
        )
    };
    for slices in [32, 128] {
        host.inner.given.insert("what-if.toml".to_string(), machine(slices).into_bytes());
        let outcome = explore(&mut host, &["--chip", "what-if.toml"]);
        assert!(outcome.stdout.contains(", 0 of them from before"), "{}{}", outcome.stdout, outcome.stderr);
    }
    assert!(explore(&mut host, &["--chip", "what-if.toml"]).stdout.contains(", 3 of them from before"));
}

#[test]
fn who_stops_gets_the_best_so_far() {
    let mut stopped = host();
    // Asked once at the start, then before each batch of frames.
    stopped.patience.set(3);
    let words =
        ["tilewright", "explore", "HQD,HKD->HQK", "--dims", "H=4,Q=64,K=64,D=64", "--json", "--verify", "0"];
    let outcome = tilewright_cli::run(words.iter().map(OsString::from), &mut stopped);
    let answer: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("an answer");
    assert_eq!(answer["complete"], serde_json::json!(false));
    assert!(answer["best"]["cycles"].as_u64().is_some_and(|cycles| cycles > 0));
    assert!(answer["best"]["gap"].as_f64().is_some_and(|gap| gap >= 0.0));

    // Nothing half searched is kept for later.
    let mut sweep = host();
    sweep.patience.set(2);
    let outcome = explore(&mut sweep, &[]);
    assert!(lines(&sweep).len() < 3, "{}", outcome.stdout);
    let finished = explore(&mut Stopped { patience: Cell::new(u64::MAX), ..sweep }, &[]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

/// Candidates that an exploration ran on the simulator, where so many seconds pass between looks at the
/// clock; none if the search itself found no time.
fn verified(tick: f64) -> Option<usize> {
    let mut host = Stopped { tick, ..host() };
    let words = "tilewright explore mk,nk->mn --dims m=16,n=32,k=64 --json --verify 4 --budget 1000";
    let outcome = tilewright_cli::run(words.split(' ').map(OsString::from), &mut host);
    let answer: serde_json::Value = serde_json::from_str(&outcome.stdout).ok()?;
    answer["best"]["cycles"].as_u64()?;
    let checks = answer["verified"].as_array()?;
    Some(checks.iter().filter(|check| check["simulated_cycles"].is_u64()).count())
}

#[test]
fn a_budget_counts_verification() {
    assert_eq!(verified(0.0), Some(4));
    let counts: Vec<Option<usize>> = (1..=40).map(|step| verified(f64::from(step) * 10.0)).collect();
    // The search ends in time, and verification does not.
    assert!(counts.iter().flatten().any(|count| (1..4).contains(count)), "{counts:?}");
}
