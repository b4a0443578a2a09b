//! Kernels that run row by row without a way through HBM: reductions, the chains that they read and those
//! that read them.
//!
//! Every slice has whole rows, so that a reduction, what is computed of it, and its spread over the row stay
//! in the slice (softmax, layer norm, argmax and their like). Groups are runs of neighbouring kernels; what
//! others read is written once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::kernel::{Kernels, Work};
use super::view::{View, count};

/// Rows that a slice has a multiple of: two results of a reduction are a granule.
pub(super) const LEAST_ROWS: u64 = 2;

/// Elements of a row at most that is filled up to whole flits, word by word.
const MOST_FILLED_UP: u64 = 2048;

/// Words of a granule of transfers between HBM and data memory.
pub(super) const GRANULE_WORDS: u64 = 2;

/// Kernels that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Their numbers.
    pub(super) kernels: Range<usize>,
    /// Rows.
    pub(super) rows: u64,
    /// Elements of a row.
    pub(super) columns: u64,
}

/// What a value is to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// An element for each place of each row.
    Wide,
    /// An element for each row.
    Narrow,
}

impl Group {
    /// Whether a view reads one element for each row, in order.
    pub(super) fn spreads(&self, view: &View) -> bool {
        let flat = view.reshaped(&[self.rows, self.columns]);
        flat.is_some_and(|flat| {
            flat.first == 0 && flat.axes[1].1 == 0 && (flat.axes[0].1 == 1 || self.rows == 1)
        })
    }

    fn extent(&self, all: &Kernels, value: usize) -> Option<Extent> {
        match all.values[value].count() {
            n if n == self.rows * self.columns => Some(Extent::Wide),
            n if n == self.rows => Some(Extent::Narrow),
            _ => None,
        }
    }

    /// Whether a kernel can run with those before it, and what it makes.
    pub(super) fn takes(
        &self,
        all: &Kernels,
        number: usize,
        made: &BTreeMap<usize, Extent>,
    ) -> Option<Extent> {
        let kernel = &all.kernels[number];
        let halves = |value: &usize| all.values[*value].packing.is_narrow();
        match &kernel.work {
            Work::Reduce { from, columns, .. } => {
                let wide = self.extent(all, *from) == Some(Extent::Wide) && !halves(from);
                (wide && *columns == self.columns).then_some(Extent::Narrow)
            }
            Work::Chain { inputs, .. } => {
                let extent = self.extent(all, *kernel.results.first()?)?;
                // Two rows of a slice in bf16 are half a granule.
                if extent == Extent::Narrow && kernel.results.iter().any(halves) {
                    return None;
                }
                let fits = |view: &View| match (extent, made.get(&view.value)) {
                    (_, None) => extent == Extent::Wide && !halves(&view.value),
                    (Extent::Wide, Some(Extent::Wide)) | (Extent::Narrow, Some(Extent::Narrow)) => {
                        all.is_whole(view) && !halves(&view.value)
                    }
                    (Extent::Wide, Some(Extent::Narrow)) => self.spreads(view) && !halves(&view.value),
                    (Extent::Narrow, Some(Extent::Wide)) => false,
                };
                inputs.iter().all(fits).then_some(extent)
            }
            _ => None,
        }
    }
}

/// Runs of kernels around reductions, in order; those named stay alone.
pub(super) fn groups(all: &Kernels, alone: &BTreeSet<usize>) -> Vec<Group> {
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(reduce) =
        (next..all.kernels.len()).find(|at| matches!(all.kernels[*at].work, Work::Reduce { .. }))
    {
        let group = around(all, alone, next, reduce);
        next = group.as_ref().map_or(reduce + 1, |group| group.kernels.end);
        found.extend(group);
    }
    found
}

/// The longest run of kernels with a reduction, at or behind a kernel.
fn around(all: &Kernels, alone: &BTreeSet<usize>, from: usize, reduce: usize) -> Option<Group> {
    let Work::Reduce { columns, .. } = all.kernels[reduce].work else { return None };
    let rows = all.values[*all.kernels[reduce].results.first()?].count();
    if !columns.is_multiple_of(FLIT_WORDS) && columns > MOST_FILLED_UP {
        return None;
    }
    // Rows that do not begin at granules would be moved apart in HBM first.
    let is_torn = !columns.is_multiple_of(GRANULE_WORDS);
    let whole = |first: usize| {
        let group = Group { kernels: first..first, rows, columns };
        let mut made = BTreeMap::new();
        let mut end = first;
        while end < all.kernels.len() && !alone.contains(&end) {
            let Some(extent) = group.takes(all, end, &made) else { break };
            made.extend(all.kernels[end].results.iter().map(|value| (*value, extent)));
            end += 1;
        }
        Group { kernels: first..end, ..group }
    };
    let firsts = (from..=reduce)
        .map(whole)
        .filter(|group| group.kernels.end > reduce && (is_torn || group.kernels.len() > 1));
    firsts.max_by_key(|group| group.kernels.len())
}

/// Sizes that all inputs of wide chains and the rows of a group have as groups of neighbouring axes.
pub(super) fn axes(all: &Kernels, group: &Group) -> Option<Vec<u64>> {
    let mut dims = vec![group.rows, group.columns];
    for kernel in &all.kernels[group.kernels.clone()] {
        let Work::Chain { inputs, .. } = &kernel.work else { continue };
        let own = inputs.first()?.dims();
        if count(&own) == group.rows * group.columns {
            dims = super::merge::refined(&dims, &own)?;
        }
    }
    Some(dims)
}
