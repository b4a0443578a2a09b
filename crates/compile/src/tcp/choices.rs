//! What the templates leave open: rows of a pass, bands of slices that take tokens of their own, slots for
//! weights on their way, parts of an exchange, how many commands are put in order together, and how much of
//! the register files a fill of each weight takes. The default is the rule: as much as there is room for, up
//! to four slots, four parts, and one band.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::plan::weights_of;
pub use super::window::Solver;
use crate::kernel::{Kernel, Kernels};

/// Parts of the register files that fills are counted in.
pub const WHOLE: u64 = 8;
/// Commands of a window at most.
pub const MOST_WINDOW: u64 = super::window::MOST as u64;
/// Slots that are tried at most.
pub const MOST_SLOTS: u64 = 16;
/// Bands of slices at most.
pub const MOST_BANDS: u64 = 16;

/// Choices of one model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choices {
    /// Rows of a prefill pass at most; without, as many as there are lanes or data memory holds.
    pub rows: Option<u64>,
    /// Bands of slices that a prompt's tokens are dealt out over, a power of two ([`super::bands`]): each has
    /// all columns of its tokens, and all weights.
    pub bands: u64,
    /// Slots for weights at most: one in use, the others on their way, as many as data memory holds.
    pub slots: u64,
    /// Parts of the rows that are exchanged between processing elements one after the other.
    pub parts: u64,
    /// Commands whose order is looked for together; 0 leaves it as the templates give it.
    pub window: u64,
    /// Who finds that order.
    pub solver: Solver,
    /// Eighths of the register files that a fill takes, by class of weight ([`classes`]); missing ones are
    /// whole.
    pub fills: Vec<u64>,
}

impl Default for Choices {
    fn default() -> Choices {
        let solver = Solver::default();
        Choices { rows: None, bands: 1, slots: 4, parts: 4, window: 0, solver, fills: Vec::new() }
    }
}

impl Choices {
    /// Groups of a fill at most, where the register files take so many.
    pub fn groups(&self, class: Option<usize>, most: u64) -> u64 {
        let eighths = class.and_then(|class| self.fills.get(class)).copied().unwrap_or(WHOLE);
        (most * eighths.clamp(1, WHOLE) / WHOLE).max(1)
    }
}

/// Weights that are alike, kernel by kernel: those of the same kind and sizes, as in all blocks of a model.
pub fn classes(kernels: &Kernels) -> Vec<Option<usize>> {
    let mut known: Vec<(&'static str, Vec<(u64, u64)>)> = Vec::new();
    let class = |kernel: &Kernel| {
        let sizes: Vec<(u64, u64)> =
            weights_of(kernel)?.iter().map(|weight| (weight.rows.size, weight.columns.size)).collect();
        let like = (kernel.kind(), sizes);
        Some(known.iter().position(|class| *class == like).unwrap_or_else(|| {
            known.push(like);
            known.len() - 1
        }))
    };
    kernels.kernels.iter().map(class).collect()
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.map_or("auto".to_string(), |rows| rows.to_string());
        write!(f, "rows={rows} ")?;
        if self.bands > 1 {
            write!(f, "bands={} ", self.bands)?;
        }
        write!(f, "slots={} parts={} ", self.slots, self.parts)?;
        if self.window > 0 {
            write!(f, "window={} ", self.window)?;
        }
        if self.window > 0 && self.solver != Solver::Microlp {
            write!(f, "solver={} ", self.solver.name())?;
        }
        write!(f, "fills=")?;
        let fills: Vec<String> = self.fills.iter().map(ToString::to_string).collect();
        write!(f, "{}", if fills.is_empty() { "whole".to_string() } else { fills.join(",") })
    }
}

/// Choices as they are written, with every name that there is.
pub const EXAMPLE: &str = "rows=auto bands=2 slots=4 parts=4 window=6 solver=microlp fills=8,4,8";

/// Why a text is no choices.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{text}`: {what}\n  = allowed: {EXAMPLE}")]
pub struct ChoicesError {
    /// The text.
    pub text: String,
    /// What of it is wrong.
    pub what: String,
}

impl FromStr for Choices {
    type Err = ChoicesError;

    fn from_str(text: &str) -> Result<Choices, ChoicesError> {
        let refused = |what: &str| ChoicesError { text: text.to_string(), what: what.to_string() };
        let mut choices = Choices::default();
        for part in text.split_whitespace() {
            let (name, value) = part.split_once('=').ok_or_else(|| refused("NAME=VALUE"))?;
            let number = |text: &str, most: u64| {
                let found = text.parse().ok().filter(|number| (1..=most).contains(number));
                found.ok_or_else(|| refused(&format!("{name} is a number from 1 to {most}")))
            };
            match name {
                "rows" if value == "auto" => choices.rows = None,
                "rows" => choices.rows = Some(number(value, WHOLE)?),
                "bands" => {
                    let asked = number(value, MOST_BANDS)?;
                    let power = Some(asked).filter(|bands| bands.is_power_of_two());
                    choices.bands = power.ok_or_else(|| refused("bands is a power of two"))?;
                }
                "slots" => choices.slots = number(value, MOST_SLOTS)?,
                "parts" => choices.parts = number(value, WHOLE)?,
                "window" => choices.window = number(value, MOST_WINDOW)?,
                "solver" => {
                    choices.solver =
                        Solver::find(value).ok_or_else(|| refused("solver is microlp, highs or cbc"))?;
                }
                "fills" if value == "whole" => choices.fills = Vec::new(),
                "fills" => {
                    choices.fills =
                        value.split(',').map(|eighths| number(eighths, WHOLE)).collect::<Result<_, _>>()?;
                }
                _ => return Err(refused("an unknown name")),
            }
        }
        Ok(choices)
    }
}
