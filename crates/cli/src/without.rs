//! `--without`: parts of the compiler that are left out of a graph that takes arrays, and what each is worth.

use tilewright_base::nearest::near;
use tilewright_compile::general::{Choice, Without};
use tilewright_report::columns::thousands;
use tilewright_schedule::tune::{GraphWorth, PartWorth};

use crate::outcome::Outcome;
use crate::target::ModelTarget;

/// What stands for the programs of language models: without it such a model is a graph like any other.
const TEMPLATES: &str = "templates";

impl ModelTarget {
    /// Parts that are left out of a graph that takes arrays.
    pub(crate) fn without(&self) -> Result<Without, Outcome> {
        let mut all = Without::default();
        for name in self.without.iter().filter(|name| *name != TEMPLATES) {
            all = all.and(Choice::named(name).ok_or_else(|| unknown(name))?);
        }
        Ok(all)
    }

    /// Whether a language model is taken as a graph like any other.
    pub(crate) fn leaves_out_templates(&self) -> bool {
        self.without.iter().any(|name| name == TEMPLATES)
    }

    /// Refuses to leave the templates out of a graph that takes arrays: none of them takes part in it.
    pub(crate) fn check_arrays(&self) -> Result<(), Outcome> {
        if !self.leaves_out_templates() {
            return Ok(());
        }
        Err(Outcome::usage(&format!(
            "--without {TEMPLATES} with a graph that takes arrays, which no template writes
  \
             = allowed: language models with weights; for this graph {}\n  = instead: leave it out",
            Choice::ALL.map(Choice::name).join(", ")
        )))
    }

    /// Refuses parts that are left out of a language model: its templates use none of them.
    pub(crate) fn check_templates(&self) -> Result<(), Outcome> {
        self.without()?;
        let Some(name) = self.without.first() else { return Ok(()) };
        let why = if name == TEMPLATES {
            "its programs are made of weights, which a configuration does not have"
        } else {
            "templates write its programs, and use none of the parts that can be left out"
        };
        Err(Outcome::usage(&format!(
            "--without {name} with a language model: {why}\n  \
             = allowed: graphs that take arrays; --without {TEMPLATES} for language models with weights\n  \
             = instead: leave --without out, or --without {TEMPLATES} as well"
        )))
    }
}

fn unknown(name: &str) -> Outcome {
    let mut names: Vec<&str> = Choice::ALL.map(Choice::name).to_vec();
    names.push(TEMPLATES);
    let meant = near(name, names.iter().copied());
    let instead = meant.map_or_else(
        || "one of these, or leave --without out".to_string(),
        |name| format!("did you mean --without {name}?"),
    );
    Outcome::usage(&format!("--without {name}\n  = allowed: {}\n  = instead: {instead}", names.join(", ")))
}

/// A line for each part: cycles of a run without it, and how much longer that is.
pub(crate) fn worth_text(worth: &GraphWorth) -> String {
    let row = |PartWorth { part, cycles }: &PartWorth| {
        let (cycles, more) = match cycles {
            None => ("-".to_string(), "nothing else does it".to_string()),
            Some(cycles) => (thousands(*cycles), percent(*cycles, worth.cycles)),
        };
        format!("{:<10}{cycles:>14}  {more:<9} {}\n", part.name(), part.words())
    };
    let head = format!("{:<10}{:>14}  {:<9} what the part does\n", "without", "cycles", "more");
    let whole = format!("{:<10}{:>14}  {:<9} nothing is left out\n", "-", thousands(worth.cycles), "");
    head + &whole + &worth.parts.iter().map(row).collect::<String>()
}

/// How much more cycles are than others, in tenths of a percent.
fn percent(cycles: u64, whole: u64) -> String {
    let tenths = (i128::from(cycles) - i128::from(whole)) * 1000 / i128::from(whole.max(1));
    let sign = if tenths < 0 { "-" } else { "+" };
    format!("{sign}{}.{} %", tenths.abs() / 10, tenths.abs() % 10)
}
