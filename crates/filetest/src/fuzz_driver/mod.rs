//! A fuzz campaign on the stable toolchain: every check of [`crate::fuzz`] in this process, on inputs that
//! are mutated from a corpus, counted, and kept where they show something new.
//!
//! - [`mutate`]: an input from others;
//! - [`corpus`]: inputs by what they show, the shortest of each, and where they lie;
//! - [`watch`]: who ends a check that does not end, and keeps the input of one that takes the process with
//!   it;
//! - this file: targets in turn, panics caught, counts.
//!
//! The same seed, corpus and count give the same inputs.

pub mod corpus;
pub mod mutate;
pub mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use corpus::Corpus;
use mutate::Mutator;
use watchdog::Watchdog;

use crate::fuzz::{CHECKS, Check, take_seen};

/// Inputs of a target before the next one has its turn: fewer of those that take long, so that all readers
/// have about the same time.
fn inputs_of_turn(name: &str) -> u64 {
    match name {
        "lowered_text" => 60,
        "schedule_text" => 120,
        "machine_file" | "graph_text" | "kernel_text" => 400,
        "program_binary" | "artifact_file" | "hugging_face_file" | "config_file" | "array_file"
        | "rows_file" => 4000,
        _ => 800,
    }
}

/// A check that takes longer is a fault: input of a few kilobytes is read in less.
const SLOW: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Inputs over all targets.
    pub inputs: u64,
    /// First number of the generator.
    pub seed: u64,
    /// Names of targets; none means all.
    pub only: Vec<String>,
    /// Where inputs that show something new, and those that fail, are written.
    pub folder: PathBuf,
    /// Seconds between two lines on how far it is.
    pub line_seconds: u64,
}

/// What became of a target.
#[derive(Clone, Debug, Default)]
pub struct TargetCount {
    /// Its name.
    pub name: String,
    /// Inputs that were checked.
    pub inputs: u64,
    /// Inputs that show something that no shorter one does.
    pub kept: usize,
    /// Files of inputs that panicked or took too long.
    pub faults: Vec<PathBuf>,
    /// Time that its checks took.
    pub spent: Duration,
}

/// One target with its inputs.
struct Target {
    check: Check,
    corpus: Corpus,
    count: TargetCount,
}

/// Runs a campaign; `say` is last_line how far it is.
///
/// # Panics
/// Where the corpus cannot be read, or the folder not be written to: nobody would learn of a fault.
pub fn run(campaign: &Campaign, say: &mut dyn FnMut(&str)) -> Vec<TargetCount> {
    let wanted = |name: &str| campaign.only.is_empty() || campaign.only.iter().any(|only| only == name);
    let mut targets: Vec<Target> = CHECKS
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, check)| Target {
            check: *check,
            corpus: Corpus::load(name, &campaign.folder),
            count: TargetCount { name: (*name).to_string(), ..TargetCount::default() },
        })
        .collect();
    let watchdog = Watchdog::start(&campaign.folder);
    silence_panics();
    for target in &mut targets {
        target.replay(campaign, &watchdog);
    }
    let mut mutator = Mutator::new(campaign.seed);
    let (mut done, mut last_line) = (0_u64, now());
    while done < campaign.inputs && !targets.is_empty() {
        for target in &mut targets {
            let turn = inputs_of_turn(&target.count.name).min(campaign.inputs - done);
            target.turn(turn, &mut mutator, campaign, &watchdog);
            done += turn;
        }
        if last_line.elapsed().as_secs() >= campaign.line_seconds {
            last_line = now();
            say(&line(done, &targets));
        }
    }
    watchdog.stop();
    let _ = std::panic::take_hook();
    targets.into_iter().map(|target| target.count).collect()
}

impl Target {
    /// Every input of the corpus once, so that what it shows is known.
    fn replay(&mut self, campaign: &Campaign, watchdog: &Watchdog) {
        for input in self.corpus.seeds() {
            self.check(&input, campaign, watchdog);
        }
    }

    fn turn(&mut self, inputs: u64, mutator: &mut Mutator, campaign: &Campaign, watchdog: &Watchdog) {
        for _ in 0..inputs {
            let input = mutator.input(self.corpus.inputs());
            self.check(&input, campaign, watchdog);
        }
    }

    fn check(&mut self, input: &[u8], campaign: &Campaign, watchdog: &Watchdog) {
        take_seen();
        watchdog.begin(&self.count.name, input);
        let (check, started) = (self.check, now());
        let ended = catch_unwind(AssertUnwindSafe(|| check(input)));
        let spent = started.elapsed();
        watchdog.end();
        self.count.inputs += 1;
        self.count.spent += spent;
        if ended.is_err() || spent > SLOW {
            let kind = if ended.is_err() { "panic" } else { "slow" };
            self.count.faults.push(corpus::write_fault(&campaign.folder, &self.count.name, kind, input));
            return;
        }
        self.corpus.offer(take_seen(), input);
        self.count.kept = self.corpus.kept();
    }
}

fn now() -> Instant {
    Instant::now()
}

/// Thousands of panics would hide everything else; each is in the file of its input.
fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// How far it is, in a line.
fn line(done: u64, targets: &[Target]) -> String {
    let kept: usize = targets.iter().map(|target| target.count.kept).sum();
    let faults: usize = targets.iter().map(|target| target.count.faults.len()).sum();
    format!("{done} inputs, {kept} kept, {faults} faults")
}

/// The counts as a table.
pub fn table(counts: &[TargetCount]) -> String {
    let mut text =
        format!("{:<20}{:>12}{:>8}{:>8}{:>14}\n", "target", "inputs", "kept", "faults", "us an input");
    for count in counts {
        let micros = count.spent.as_micros() / u128::from(count.inputs.max(1));
        let (name, faults) = (&count.name, count.faults.len());
        text += &format!("{name:<20}{:>12}{:>8}{faults:>8}{micros:>14}\n", count.inputs, count.kept);
    }
    text += &format!("{:<20}{:>12}\n", "all", counts.iter().map(|count| count.inputs).sum::<u64>());
    text
}
