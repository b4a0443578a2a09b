//! Chains that run on the tiles of a contraction before they leave data memory: which chain, and what each of
//! its inputs is to a tile (paper section V-C: read, contraction, vector chain, write).

use super::super::kernel::{Kernels, Packing, Sizes, Work};
use super::super::view::View;
use super::super::words::Line;

/// What an input is to the rows and columns of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Input {
    /// The sums.
    Sum,
    /// One element for each column.
    Columns,
    /// One element for each row.
    Rows,
    /// One for each sum, in the same order.
    Wide,
}

/// A chain that reads the sums of a contraction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Epilogue {
    pub(in super::super) inputs: Vec<Input>,
    pub(in super::super) lines: Vec<Line>,
    /// Streams that are written.
    pub(in super::super) streams: Vec<usize>,
    /// How each of them is written.
    pub(in super::super) packings: Vec<Packing>,
}

impl Epilogue {
    /// Bytes of an element of the narrowest result.
    pub(super) fn least_bytes(&self) -> u64 {
        self.packings.iter().map(|packing| packing.element_bytes()).min().unwrap_or(super::tile::WORD_BYTES)
    }
}

/// The chain that alone reads a contraction's result, if all else that it reads is there before and fits the
/// tiles: its number and what it does.
pub(in super::super) fn epilogue(all: &Kernels, number: usize) -> Option<(usize, Epilogue)> {
    let kernel = &all.kernels[number];
    let Work::Contract { sizes, .. } = kernel.work else { return None };
    let sums = *kernel.results.first()?;
    if all.results.iter().any(|result| result.value == sums) {
        return None;
    }
    let mut readers = (number + 1..all.kernels.len()).filter(|at| all.kernels[*at].reads().contains(&sums));
    let (reader, None) = (readers.next()?, readers.next()) else { return None };
    let Work::Chain { inputs, lines, streams } = &all.kernels[reader].work else { return None };
    let made = |value: usize| all.kernels.iter().position(|kernel| kernel.results.contains(&value));
    let early = |view: &View| view.value == sums || made(view.value).is_none_or(|maker| maker < number);
    if !inputs.iter().all(early) {
        return None;
    }
    let inputs: Option<Vec<Input>> = inputs.iter().map(|view| input(all, sums, sizes, view)).collect();
    let inputs = inputs?;
    (inputs.iter().filter(|input| **input == Input::Sum).count() == 1).then_some(())?;
    let results = &all.kernels[reader].results;
    let packings = results.iter().map(|value| all.values[*value].packing).collect();
    Some((reader, Epilogue { inputs, lines: lines.clone(), streams: streams.clone(), packings }))
}

fn input(all: &Kernels, sums: usize, sizes: Sizes, view: &View) -> Option<Input> {
    if all.values[view.value].packing.is_narrow() {
        return None;
    }
    if all.is_whole(view) {
        return Some(if view.value == sums { Input::Sum } else { Input::Wide });
    }
    let view = view.reshaped(&[sizes.batch * sizes.rows, sizes.columns])?;
    let [(_, row), (_, column)] = view.axes[..] else { return None };
    match (view.first, row, column) {
        (0, 0, 1) if view.value != sums => Some(Input::Columns),
        (0, 1, 0) if view.value != sums => Some(Input::Rows),
        _ => None,
    }
}
