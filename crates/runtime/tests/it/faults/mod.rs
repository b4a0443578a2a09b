//! Faults that are put into what the compiler made: an entry dropped, an index or an address shifted. Each
//! must end in a refusal, a finding or a broken invariant (exit code 3 of the command line), or change
//! nothing; none may give other values without a word.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checked;
mod graphs;
mod models;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tilewright_testkit::tcp;

/// A fault: what it is, and what puts it in.
type Fault<T> = (String, Box<dyn Fn(&mut T)>);

fn fault<T>(name: &str, put: impl Fn(&mut T) + 'static) -> Fault<T> {
    (name.to_string(), Box::new(put))
}

/// How a run with a fault in it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending<T> {
    /// Refused, or ended by a finding, with these words.
    Refused(String),
    /// Ended by a broken invariant.
    Broken(String),
    /// Gave values.
    Gave(T),
}

/// Runs work that may end by a broken invariant.
fn ending<T>(work: impl FnOnce() -> Result<T, String>) -> Ending<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(given)) => Ending::Gave(given),
        Ok(Err(refused)) => Ending::Refused(refused),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().cloned();
            Ending::Broken(message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap())
        }
    }
}

/// What became of some faults, by how they ended.
#[derive(Debug, Default)]
struct Tally {
    refused: usize,
    broken: usize,
    harmless: Vec<String>,
    wrong: Vec<String>,
}

impl Tally {
    fn add<T: PartialEq>(&mut self, fault: String, ended: Ending<T>, right: &T) {
        match ended {
            Ending::Refused(_) => self.refused += 1,
            Ending::Broken(_) => self.broken += 1,
            Ending::Gave(given) if given == *right => self.harmless.push(fault),
            Ending::Gave(_) => self.wrong.push(fault),
        }
    }

    /// No fault may pass for a result.
    fn check(&self) {
        assert!(self.wrong.is_empty(), "other values without a word: {:#?}", self.wrong);
    }
}
