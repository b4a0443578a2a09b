//! The section `plan` of a compiled model's file: what its programs follow from, a line each, behind a line
//! with the version.
//!
//! ```text
//! model 1
//! chip tcp
//! set hbm.efficiency=0.9
//! peak 12=3.5
//! range 0=4.0,4.0,4.0
//! cache int8
//! chips 2
//! batch 4
//! ends 2,5
//! dtype bf16
//! pes 2
//! context 128
//! choices rows=2 slots=4 parts=4 fills=8,4,8
//! ```
//!
//! `set`, `peak` and `range` are there as often as there are some; `cache`, `chips` and `batch` if they are
//! other than `bf16`, 1 and 1; `ends`, the tokens that end a text, if the model's configuration says them. A
//! release that does not know a line refuses the file.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use tilewright_compile::kernel::ValueId;
use tilewright_compile::{Choices, Compiled};
use tilewright_num::Dtype;

use crate::{graph_plan, language_plan};

/// The first line: the form of the lines behind it.
const VERSION: &str = "model 1";

/// What the programs of a compiled model follow from, beside its graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name or file of the machine.
    pub chip: String,
    /// Figures of the machine that were changed, as `key=value`.
    pub set: Vec<String>,
    /// Name of the types that weights and activations are multiplied in.
    pub dtype: String,
    /// Type of cached keys and values.
    pub cache: Dtype,
    /// Processing elements of a chip.
    pub pes: u64,
    /// Chips that share the weights.
    pub chips: u64,
    /// Sequences that the programs are for.
    pub batch: u64,
    /// Longest context in tokens.
    pub context: Option<u64>,
    /// Tokens that end a text, unless the tokenizer says them.
    pub ends: Option<Vec<u32>>,
    /// What the templates of the compiler leave open.
    pub choices: Choices,
    /// Calibrated absolute maxima of values (`Kernels::amax`).
    pub amax: BTreeMap<ValueId, f32>,
    /// Calibrated ranges of caches (`Kernels::ranges`).
    pub ranges: BTreeMap<usize, [f32; 3]>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            chip: "tcp".to_string(),
            set: Vec::new(),
            dtype: "bf16".to_string(),
            cache: Dtype::Bf16,
            pes: 1,
            chips: 1,
            batch: 1,
            context: None,
            ends: None,
            choices: Choices::default(),
            amax: BTreeMap::new(),
            ranges: BTreeMap::new(),
        }
    }
}

/// Why a text is no plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// The first line names another form.
    #[error(
        "its plan begins with `{found}`, and this release reads `{VERSION}`, `{}`, `{}`, `{}`, `{}` and `{}`",
        graph_plan::VERSION,
        graph_plan::OPEN_VERSION,
        graph_plan::DIVIDED_VERSION,
        graph_plan::LIMITED_VERSION,
        language_plan::VERSION
    )]
    Version {
        /// The first line, or its beginning.
        found: String,
    },
    /// A line with an unknown key, or with a value that the key does not have.
    #[error("line {number} of its plan is not known: `{line}`")]
    Line {
        /// Its number, from 1 on.
        number: usize,
        /// The line, or its beginning.
        line: String,
    },
}

/// Characters of a line that a message quotes.
const QUOTED: usize = 60;

fn quoted(line: &str) -> String {
    line.chars().take(QUOTED).collect()
}

impl PlanError {
    /// A first line of another form.
    pub(crate) fn version(first: &str) -> PlanError {
        PlanError::Version { found: quoted(first) }
    }

    /// A line that is not known.
    pub(crate) fn line(number: usize, line: &str) -> PlanError {
        PlanError::Line { number, line: quoted(line) }
    }
}

impl Plan {
    /// The plan of a compiled model on a machine of a name, with some figures changed.
    pub fn of(compiled: &Compiled, chip: &str, set: &[String], ends: Option<Vec<u32>>) -> Plan {
        let options = &compiled.plan.options;
        Plan {
            chip: chip.to_string(),
            set: set.to_vec(),
            dtype: options.dtype_name().to_string(),
            cache: options.cache,
            pes: options.pes,
            chips: options.chips,
            batch: options.batch,
            context: Some(options.context),
            ends,
            choices: compiled.plan.choices.clone(),
            amax: compiled.kernels.amax.clone(),
            ranges: compiled.kernels.ranges.clone(),
        }
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// Another version; a line that this one does not know.
    pub fn read(text: &str) -> Result<Plan, PlanError> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        if first != VERSION {
            return Err(PlanError::version(first));
        }
        let mut plan = Plan::default();
        for (at, line) in lines {
            let taken = line.split_once(' ').and_then(|(key, value)| plan.take(key, value));
            taken.ok_or_else(|| PlanError::line(at + 1, line))?;
        }
        Ok(plan)
    }

    /// Takes what a line says; `None` if that is nothing.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        let positive = |text: &str| text.parse::<f32>().ok().filter(|peak| peak.is_normal() && *peak > 0.0);
        match key {
            "chip" => self.chip = value.to_string(),
            "set" => self.set.push(value.to_string()),
            "dtype" => self.dtype = value.to_string(),
            "cache" => self.cache = cache_type(value)?,
            "pes" => self.pes = value.parse().ok()?,
            "chips" => self.chips = value.parse().ok()?,
            "batch" => self.batch = value.parse().ok()?,
            "ends" => {
                let ends: Option<Vec<u32>> = value.split(',').map(|end| end.parse().ok()).collect();
                self.ends = Some(ends?);
            }
            "context" => self.context = Some(value.parse().ok()?),
            "peak" => {
                let (value, peak) = value.split_once('=')?;
                self.amax.insert(ValueId(value.parse().ok()?), positive(peak)?);
            }
            "range" => {
                let (cache, range) = value.split_once('=')?;
                let range: Option<Vec<f32>> = range.split(',').map(positive).collect();
                self.ranges.insert(cache.parse().ok()?, range?.try_into().ok()?);
            }
            "choices" => self.choices = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

/// Types that keys and values are cached in, by their names in plans.
fn cache_type(name: &str) -> Option<Dtype> {
    match name {
        "bf16" => Some(Dtype::Bf16),
        "int8" => Some(Dtype::I8),
        _ => None,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{VERSION}\nchip {}", self.chip)?;
        for setting in &self.set {
            writeln!(f, "set {setting}")?;
        }
        for (value, peak) in &self.amax {
            writeln!(f, "peak {}={peak:?}", value.0)?;
        }
        for (cache, [query, key, value]) in &self.ranges {
            writeln!(f, "range {cache}={query:?},{key:?},{value:?}")?;
        }
        if self.cache == Dtype::I8 {
            writeln!(f, "cache int8")?;
        }
        for (key, count) in [("chips", self.chips), ("batch", self.batch)] {
            if count != 1 {
                writeln!(f, "{key} {count}")?;
            }
        }
        if let Some(ends) = &self.ends {
            let ends: Vec<String> = ends.iter().map(u32::to_string).collect();
            writeln!(f, "ends {}", ends.join(","))?;
        }
        writeln!(f, "dtype {}\npes {}", self.dtype, self.pes)?;
        if let Some(context) = self.context {
            writeln!(f, "context {context}")?;
        }
        writeln!(f, "choices {}", self.choices)
    }
}
