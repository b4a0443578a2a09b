//! Contractions whose results are only read turned, columns before rows: operands change places, so that the
//! result lies as its readers take it and nothing has to be turned in between.

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;

use super::contraction_facts::apart_cycles;
use super::emit::dm_bytes;
use super::group::Group;
use super::group_plan::plan_group;
use super::kernel::{Kernel, Kernels, Sizes, Work};
use super::legal::moved;
use super::link::shared_cycles;
use super::options::Options;
use super::parts::is_window;
use super::plan::readers;
use super::tiled::TileSearches;
use super::view::{View, signed};

/// The same kernels with results of contractions as their readers take them, where that takes less.
#[must_use]
pub(super) fn turned_results(searches: &TileSearches<'_>, options: &Options, mut all: Kernels) -> Kernels {
    let mut known = BTreeMap::new();
    // Who reads what stays as it is: kernels only read it otherwise.
    let mut readers = readers(&all);
    for of_value in &mut readers {
        of_value.retain(|reader| *reader < all.kernels.len());
        of_value.dedup();
    }
    for number in 0..all.kernels.len() {
        if let Some(change) = turned(&all, &readers, number)
            && let Work::Contract { sizes, .. } = all.kernels[number].work
        {
            let read = change.copies.iter().flat_map(|copy| axes(&all.kernels[*copy]));
            let key = (sizes, read.collect::<Vec<(u64, i64)>>());
            let pays = || pays(searches, options, sizes, &all, &change);
            if *known.entry(key).or_insert_with(pays) {
                change.make(&mut all);
            }
        }
    }
    all
}

/// Size and stride of each axis that a chain reads by.
fn axes(kernel: &Kernel) -> Vec<(u64, i64)> {
    let Work::Chain { inputs, .. } = &kernel.work else { return Vec::new() };
    inputs.iter().flat_map(|view| view.axes.iter().copied()).collect()
}

/// Whether operands in each other's place, with copies that then read rows, take less than copies that read
/// columns.
fn pays(
    searches: &TileSearches<'_>,
    options: &Options,
    sizes: Sizes,
    all: &Kernels,
    change: &Turned,
) -> bool {
    let room = options.room([false; 2], None);
    let cycles = |sizes: Sizes| {
        let found = searches.candidate(sizes, &[room], (None, None), false);
        found.ok().map(|found| found.cycles)
    };
    let mut changed = all.clone();
    change.make(&mut changed);
    let least = apart_cycles(searches.machine, 0, options.pes);
    let copies = |all: &Kernels| -> u64 {
        let each = change.copies.iter().map(|copy| copy_cycles(searches.machine, options.pes, all, *copy));
        each.map(|cycles| cycles.unwrap_or(least)).sum()
    };
    let Some(turned) = cycles(swapped(sizes)) else { return false };
    cycles(sizes).is_none_or(|cycles| turned + copies(&changed) < cycles + copies(all))
}

/// What a chain that only reads by strides takes, as shares of slices or as a move; `None` if neither can.
pub(super) fn copy_cycles(machine: &Tcp, pes: u64, all: &Kernels, chain: usize) -> Option<u64> {
    let group = Group { kernels: chain..chain + 1, rows: 1, columns: 1 };
    let plan = plan_group(machine, all, &group, (pes, dm_bytes(machine) / 2), None);
    let kernel = all.kernels.get(chain)?;
    let element_bytes = all.values.get(*kernel.results.first()?)?.element_bytes();
    let part = moved(all, kernel);
    let moved = part.map(|part| shared_cycles(machine, &[part], element_bytes, pes));
    plan.map(|plan| plan.cycles).into_iter().chain(moved).min()
}

/// The same contraction with rows and columns in each other's place.
fn swapped(Sizes { batch, rows, columns, summed, counted, operands, .. }: Sizes) -> Sizes {
    Sizes { counted, ..Sizes::new(batch, columns, rows, summed, operands) }
}

/// What changes.
struct Turned {
    /// Kernels by number.
    works: Vec<(usize, Work)>,
    /// Values that lie turned.
    values: Vec<usize>,
    /// Their sizes.
    dims: [u64; 2],
    /// Chains that read them otherwise then.
    copies: Vec<usize>,
}

impl Turned {
    /// Changes kernels and values.
    fn make(&self, all: &mut Kernels) {
        for (at, work) in &self.works {
            all.kernels[*at].work = work.clone();
        }
        for value in &self.values {
            all.values[*value].dims = self.dims.to_vec();
        }
    }
}

/// A contraction, the chain behind it and their readers, with rows and columns in each other's place; `None`
/// if some reader takes the result as it is.
fn turned(all: &Kernels, readers: &[Vec<usize>], number: usize) -> Option<Turned> {
    let Work::Contract { a, b, sizes } = all.kernels[number].work else { return None };
    let Sizes { batch, rows, columns, .. } = sizes;
    // Only rows are taken through windows, and only columns are widened.
    if sizes.held != sizes.operands
        || batch != 1
        || !sizes.is_dense()
        || sizes.runs.is_some()
        || rows == 1
        || columns == 1
        || is_window(all, number)
    {
        return None;
    }
    let sizes = swapped(sizes);
    let mut found = Turned {
        works: vec![(number, Work::Contract { a: b, b: a, sizes })],
        values: all.kernels[number].results.clone(),
        dims: [columns, rows],
        copies: Vec::new(),
    };
    let mut last = all.kernels[number].results[0];
    if let [chain] = readers[last][..]
        && let Some(work) = turned_chain(&all.kernels[chain], last, [rows, columns])
    {
        found.works.push((chain, work));
        last = all.kernels[chain].results[0];
        found.values.push(last);
    }
    let copies = &readers[last];
    if copies.is_empty() || all.results.iter().any(|result| found.values.contains(&result.value)) {
        return None;
    }
    for copy in copies {
        let work = turned_copy(&all.kernels[*copy], last, [rows, columns])?;
        found.works.push((*copy, work));
        found.copies.push(*copy);
    }
    Some(found)
}

/// A chain of as many elements, of which it reads one value whole and of others a row or a column.
fn turned_chain(kernel: &Kernel, value: usize, [rows, columns]: [u64; 2]) -> Option<Work> {
    let Work::Chain { inputs, lines, streams } = &kernel.work else { return None };
    if kernel.results.len() != 1 {
        return None;
    }
    let turned = |view: &View| {
        let own = view.reshaped(&[rows, columns])?;
        let [row, column] = own.axes[..] else { return None };
        if view.value == value {
            let whole = own.is_plain();
            return whole.then(|| View::whole(value, &[columns, rows]));
        }
        // What has an element for each would have to be turned itself.
        (row.1 == 0 || column.1 == 0).then(|| View { axes: vec![column, row], ..own.clone() })
    };
    let inputs = inputs.iter().map(turned).collect::<Option<Vec<View>>>()?;
    Some(Work::Chain { inputs, lines: lines.clone(), streams: streams.clone() })
}

/// A chain that reads a value column by column.
fn turned_copy(kernel: &Kernel, value: usize, sizes: [u64; 2]) -> Option<Work> {
    let Work::Chain { inputs, lines, streams } = &kernel.work else { return None };
    let inputs = inputs.iter().map(|view| {
        if view.value != value {
            return Some(view.clone());
        }
        let inner = view.axes.iter().rev().find(|(size, _)| *size > 1)?;
        if inner.1 != signed(sizes[1]) {
            return None;
        }
        turned_view(view, sizes)
    });
    let inputs = inputs.collect::<Option<Vec<View>>>()?;
    Some(Work::Chain { inputs, lines: lines.clone(), streams: streams.clone() })
}

/// The same elements of a value whose rows and columns have changed places; `None` if an axis goes over both.
fn turned_view(view: &View, [rows, columns]: [u64; 2]) -> Option<View> {
    let (rows, columns) = (signed(rows), signed(columns));
    let (mut row, mut column) = (view.first.div_euclid(columns), view.first.rem_euclid(columns));
    let first = column * rows + row;
    let mut axes = Vec::with_capacity(view.axes.len());
    for (size, stride) in view.axes.iter().copied() {
        let steps = signed(size) - 1;
        if steps == 0 || stride == 0 {
            axes.push((size, 0));
        } else if stride > 0 && stride % columns == 0 {
            row += steps * (stride / columns);
            axes.push((size, stride / columns));
        } else if stride > 0 && stride < columns {
            column += steps * stride;
            axes.push((size, stride * rows));
        } else {
            return None;
        }
    }
    (view.first >= 0 && row < rows && column < columns).then(|| View { first, axes, ..view.clone() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A view of a value that was turned gives the elements that it gave before.
        #[test]
        fn views_find_their_elements(
            sizes in (2..7_u64, 2..7_u64), first in 0..30_i64,
            axes in proptest::collection::vec((1..4_u64, 0..14_i64), 0..4),
        ) {
            let (rows, columns) = sizes;
            let view = View { value: 0, first, axes };
            let all = signed(rows * columns);
            if let Some(turned) = turned_view(&view, [rows, columns]) {
                let places = view.places();
                prop_assert!(places.iter().all(|place| *place < all));
                let moved = |place: &i64| {
                    (place % signed(columns)) * signed(rows) + place / signed(columns)
                };
                prop_assert_eq!(places.iter().map(moved).collect::<Vec<i64>>(), turned.places());
            }
        }
    }
}
