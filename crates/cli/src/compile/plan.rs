//! The section `plan` of a compiled model's file: what its programs follow from, a line each, behind a line with the version.
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
//! `set`, `peak` and `range` are there as often as there are some; `cache`, `chips` and `batch` if they are other than `bf16`, 1 and 1; `ends`, the
//! tokens that end a text, if the model's configuration says them. A release that does not know a line refuses the file.

use std::collections::BTreeMap;

use tilewright_compile::kernel::ValueId;
use tilewright_compile::{Choices, Compiled};
use tilewright_num::Dtype;

use crate::target::ModelTarget;

/// What a plan says.
pub(super) struct Planned {
    pub(super) target: ModelTarget,
    /// Sequences that the programs are for.
    pub(super) batch: u64,
    /// Tokens that end a text, unless the tokenizer says them.
    pub(super) ends: Option<Vec<u32>>,
    pub(super) choices: Choices,
    /// `Kernels::peaks`.
    pub(super) peaks: BTreeMap<ValueId, f32>,
    /// `Kernels::ranges`.
    pub(super) ranges: BTreeMap<usize, [f32; 3]>,
}

/// The plan of a model.
pub(super) fn print(target: &ModelTarget, compiled: &Compiled, ends: Option<&[u32]>) -> String {
    let options = &compiled.plan.options;
    let mut text = format!("{VERSION}\nchip {}\n", target.chip);
    for setting in &target.set {
        text.push_str(&format!("set {setting}\n"));
    }
    let (dtype, context) = (options.dtype_name(), options.context);
    let choices = &compiled.plan.choices;
    for (value, peak) in &compiled.kernels.peaks {
        text.push_str(&format!("peak {}={peak:?}\n", value.0));
    }
    for (cache, [query, key, value]) in &compiled.kernels.ranges {
        text.push_str(&format!("range {cache}={query:?},{key:?},{value:?}\n"));
    }
    if options.cache == Dtype::I8 {
        text.push_str("cache int8\n");
    }
    for (key, count) in [("chips", target.chips), ("batch", options.batch)] {
        if count > 1 {
            text.push_str(&format!("{key} {count}\n"));
        }
    }
    if let Some(ends) = ends {
        let ends: Vec<String> = ends.iter().map(u32::to_string).collect();
        text.push_str(&format!("ends {}\n", ends.join(",")));
    }
    text + &format!("dtype {dtype}\npes {}\ncontext {context}\nchoices {choices}\n", target.pes)
}

const VERSION: &str = "model 1";

/// What a text says, if it is a plan.
pub(super) fn read(text: &str) -> Option<Planned> {
    let mut lines = text.lines();
    if lines.next()? != VERSION {
        return None;
    }
    let mut plan = Planned {
        target: ModelTarget::default(),
        batch: 1,
        ends: None,
        choices: Choices::default(),
        peaks: BTreeMap::new(),
        ranges: BTreeMap::new(),
    };
    for line in lines {
        let (key, value) = line.split_once(' ')?;
        plan.take(key, value)?;
    }
    Some(plan)
}

impl Planned {
    /// Takes what a line says.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        let positive = |text: &str| text.parse::<f32>().ok().filter(|peak| peak.is_normal() && *peak > 0.0);
        let target = &mut self.target;
        match key {
            "chip" => target.chip = value.to_string(),
            "set" => target.set.push(value.to_string()),
            "dtype" => target.dtype = value.to_string(),
            "pes" => target.pes = value.parse().ok()?,
            "chips" => target.chips = value.parse().ok()?,
            "batch" => self.batch = value.parse().ok()?,
            "ends" => {
                let ends: Option<Vec<u32>> = value.split(',').map(|end| end.parse().ok()).collect();
                self.ends = Some(ends?);
            }
            "context" => target.context = Some(value.parse().ok()?),
            "cache" => target.cache = value.to_string(),
            "peak" => {
                let (value, peak) = value.split_once('=')?;
                self.peaks.insert(ValueId(value.parse().ok()?), positive(peak)?);
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
