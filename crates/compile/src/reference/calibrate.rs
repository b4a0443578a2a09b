//! Absolute maxima of what integers are made of, over given texts: scales that do not depend on the token.
//!
//! The reference goes through the texts with a scale for each token, so what it sees is what the chip would
//! see, whatever the number of processing elements.

use std::collections::BTreeMap;
use tilewright_base::invariant::to_index;

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::contract::ContractionInput;
use super::{KernelState, ReferenceModel};
use crate::kernel::{Kernels, ValueId, WeightMatrix};
use crate::tcp::pack::Constants;
use crate::tcp::plan::Options;
use crate::{CompileError, compile_kernels};

/// What was seen so far.
#[derive(Default)]
pub(super) struct ObservedRanges {
    amax: BTreeMap<ValueId, f32>,
    ranges: BTreeMap<usize, [f32; 3]>,
}

/// Kernels with [`Kernels::amax`] and, for a cache of integers, [`Kernels::ranges`] from texts as tokens,
/// each for itself. Texts longer than the context are cut there.
///
/// # Errors
/// Kernels that do not fit the machine, constants that cannot be had, no integers in contractions, no token.
pub fn calibrated(
    machine: &Tcp,
    kernels: &Kernels,
    options: Options,
    constants: &Constants<'_>,
    texts: &[Vec<u64>],
) -> Result<Kernels, CompileError> {
    let size = |what, found, allowed: &str| CompileError::Size { what, found, allowed: allowed.to_string() };
    let short = options.cache == Dtype::I8;
    if options.dtype != Dtype::I8 && !short {
        let allowed = "types with some: int8, w8a8, w4a8, or a cache of int8";
        return Err(size("the number of integer activations", 0, allowed));
    }
    if texts.iter().all(Vec::is_empty) {
        return Err(size("the number of tokens of the text", 0, "1 or more"));
    }
    let mut kernels = Kernels { amax: BTreeMap::new(), ranges: BTreeMap::new(), ..kernels.clone() };
    // What a cache of integers is to hold is seen in one that cuts nothing off.
    let options = Options { pes: 1, chips: 1, batch: 1, cache: Dtype::Bf16, ..options };
    let compiled = compile_kernels(machine, &kernels, options)?;
    let mut reference = ReferenceModel::new(machine, &compiled.kernels, &compiled.plan, constants)?;
    reference.watched = Some(ObservedRanges::default());
    let most = compiled.plan.options.context.min(kernels.positions);
    for text in texts.iter().filter(|text| !text.is_empty()) {
        if let Some(token) = text.iter().find(|token| **token >= kernels.vocabulary) {
            return Err(size("a token", *token, &format!("below {}", kernels.vocabulary)));
        }
        let most = to_index(most).min(text.len());
        reference.restart();
        reference.feed(text.get(..most).unwrap_or_default());
    }
    let ObservedRanges { mut amax, mut ranges } = reference.watched.take().unwrap_or_default();
    // What was never anything but zero keeps a scale for each token, and the range of all.
    amax.retain(|_, amax| amax.is_normal());
    ranges.retain(|_, range| short && range.iter().all(|one| one.is_normal()));
    (kernels.amax, kernels.ranges) = (amax, ranges);
    Ok(kernels)
}

impl ReferenceModel<'_> {
    fn saw(&mut self, value: ValueId, peak: f32) {
        if let Some(watched) = &mut self.watched {
            let most = watched.amax.entry(value).or_insert(0.0);
            *most = most.max(peak);
        }
    }

    /// Notes queries, and the rows that a cache got with them.
    pub(super) fn watch_cache(&mut self, cache: usize, state: &KernelState) {
        let Some(watched) = &mut self.watched else { return };
        let range = watched.ranges.entry(cache).or_insert([0.0; 3]);
        let amax =
            |rows: &[Vec<f32>]| rows.iter().flatten().fold(0.0_f32, |most, value| most.max(value.abs()));
        for (queries, held) in state.queries.iter().zip(self.caches.get(cache).into_iter().flatten()) {
            let fresh = held.keys.len().saturating_sub(queries.len());
            let part = |rows: &'_ [Vec<f32>]| amax(rows.get(fresh..).unwrap_or_default());
            let seen = [amax(queries), part(&held.keys), part(&held.values)];
            range.iter_mut().zip(seen).for_each(|(most, seen)| *most = most.max(seen));
        }
    }

    /// Notes what a norm gave.
    pub(super) fn watch(&mut self, value: ValueId, state: &KernelState) {
        for taken in &state.normal {
            if let ContractionInput::Integers(_, peak) = taken {
                self.saw(value, *peak);
            }
        }
    }

    /// Notes rows that a weight is about to take.
    pub(super) fn watch_rows(
        &mut self,
        value: ValueId,
        kernel: usize,
        weight: &WeightMatrix,
        state: &KernelState,
    ) {
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
