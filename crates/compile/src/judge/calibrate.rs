//! Greatest magnitudes of what integers are made of, over given texts: scales that do not depend on the token.
//!
//! The judge goes through the texts with a scale for each token, so what it sees is what the chip would see, whatever the number of
//! processing elements.

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::contract::Taken;
use super::{Judge, State};
use crate::kernel::{Kernels, ValueId, Weight};
use crate::tcp::pack::Constants;
use crate::tcp::plan::Options;
use crate::{CompileError, compile_kernels};

/// Peaks for [`Kernels::peaks`], from texts as tokens, each for itself. Texts longer than the context are cut there.
///
/// # Errors
/// Kernels that do not fit the machine, constants that cannot be had, no integers in contractions, no token.
pub fn peaks(
    machine: &Tcp,
    kernels: &Kernels,
    options: Options,
    constants: &Constants<'_>,
    texts: &[Vec<u64>],
) -> Result<BTreeMap<ValueId, f32>, CompileError> {
    let size = |what, found, allowed: &str| CompileError::Size { what, found, allowed: allowed.to_string() };
    if options.dtype != Dtype::I8 {
        return Err(size("the number of integer activations", 0, "types with some: int8, w8a8, w4a8"));
    }
    if texts.iter().all(Vec::is_empty) {
        return Err(size("the number of tokens of the text", 0, "1 or more"));
    }
    let kernels = Kernels { peaks: BTreeMap::new(), ..kernels.clone() };
    let compiled = compile_kernels(machine, &kernels, Options { pes: 1, chips: 1, batch: 1, ..options })?;
    let mut judge = Judge::new(machine, &compiled.kernels, &compiled.plan, constants)?;
    judge.watched = Some(BTreeMap::new());
    let most = compiled.plan.options.context.min(kernels.positions);
    for text in texts.iter().filter(|text| !text.is_empty()) {
        if let Some(token) = text.iter().find(|token| **token >= kernels.vocabulary) {
            return Err(size("a token", *token, &format!("below {}", kernels.vocabulary)));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(text.len());
        judge.restart();
        judge.feed(text.get(..most).unwrap_or_default());
    }
    let mut found = judge.watched.take().unwrap_or_default();
    // What was never anything but zero keeps a scale for each token.
    found.retain(|_, peak| peak.is_normal());
    Ok(found)
}

impl Judge<'_> {
    fn saw(&mut self, value: ValueId, peak: f32) {
        if let Some(watched) = &mut self.watched {
            let most = watched.entry(value).or_insert(0.0);
            *most = most.max(peak);
        }
    }

    /// Notes what a norm gave.
    pub(super) fn watch(&mut self, value: ValueId, state: &State) {
        for taken in &state.normal {
            if let Taken::Integers(_, peak) = taken {
                self.saw(value, *peak);
            }
        }
    }

    /// Notes rows that a weight is about to take.
    pub(super) fn watch_rows(&mut self, value: ValueId, kernel: usize, weight: &Weight, state: &State) {
        let integers = self.plan.packed(kernel).is_some_and(|packed| packed.dtype == Dtype::I8);
        if self.watched.is_none() || !integers {
            return;
        }
        for (pe, row) in (0..).zip(&state.ready).flat_map(|(pe, rows)| rows.iter().map(move |row| (pe, row)))
        {
            let taken = (0..).zip(row).filter(|(at, _)| weight.columns.source(pe, *at).is_some());
            let peak = taken.fold(0.0_f32, |peak, (_, value)| peak.max(value.abs()));
            self.saw(value, peak);
        }
    }
}
