//! Kernels that run on the tiles of a contraction before they leave data memory: the chain that reads the
//! sums, and where tiles have whole rows the reductions and chains behind it (paper section V-C: read,
//! contraction, vector chain with reductions, write).

use std::collections::BTreeMap;

use tilewright_graph::Fold;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::super::group::{Extent, Group};
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
    /// One for each row and column, the same for all of the batch.
    Plane,
}

/// What a kernel behind the first chain reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Source {
    /// A value of the epilogue: results of the first chain, then of each kernel behind it.
    Value(usize),
    /// An input, by number behind those of the first chain.
    Input(usize),
}

/// A kernel behind the first chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Member {
    /// One word of each row of a value.
    Reduce {
        /// The value.
        from: usize,
        /// How.
        fold: Fold,
        /// Words are floats.
        float: bool,
    },
    /// Steps on elements, or on what there is one of for each row.
    Chain {
        inputs: Vec<Source>,
        lines: Vec<Line>,
        /// Streams that are its results.
        streams: Vec<usize>,
        /// It has an element for each place of a row.
        wide: bool,
    },
}

/// What runs on the tiles of a contraction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Epilogue {
    /// Inputs of the first chain.
    pub(in super::super) inputs: Vec<Input>,
    pub(in super::super) lines: Vec<Line>,
    /// Streams that are its results.
    pub(in super::super) streams: Vec<usize>,
    /// What follows row by row.
    pub(in super::super) members: Vec<Member>,
    /// Inputs that it reads besides.
    pub(in super::super) more: Vec<Input>,
    /// How each value is written.
    pub(in super::super) packings: Vec<Packing>,
    /// Whether each value is written.
    pub(in super::super) given: Vec<bool>,
}

/// An epilogue, its kernels, and the values that it reads and gives.
#[derive(Clone, Debug)]
pub(in super::super) struct Joined {
    pub(in super::super) kernels: Vec<usize>,
    /// Inputs in the order of the epilogue.
    pub(in super::super) reads: Vec<usize>,
    /// Its values.
    pub(in super::super) values: Vec<usize>,
    pub(in super::super) epilogue: Epilogue,
}

impl Joined {
    /// Values that are written.
    pub(in super::super) fn given(&self) -> Vec<usize> {
        let all = self.values.iter().zip(&self.epilogue.given);
        all.filter(|(_, given)| **given).map(|(value, _)| *value).collect()
    }
}

impl Epilogue {
    /// Bytes of an element of the narrowest value that is written.
    pub(super) fn least_bytes(&self) -> u64 {
        let given = self.packings.iter().zip(&self.given).filter(|(_, given)| **given);
        given.map(|(packing, _)| packing.element_bytes()).min().unwrap_or(super::tile::WORD_BYTES)
    }

    /// Whether slices must have whole rows.
    pub(in super::super) fn has_rows(&self) -> bool {
        !self.members.is_empty()
    }
}

/// Who makes and who reads each value.
pub(in super::super) struct Uses<'k> {
    all: &'k Kernels,
    makers: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    /// All values are written.
    keep: bool,
}

impl<'k> Uses<'k> {
    pub(in super::super) fn new(all: &'k Kernels, mut readers: Vec<Vec<usize>>, keep: bool) -> Uses<'k> {
        readers.iter_mut().for_each(Vec::dedup);
        let mut makers = vec![None; all.values.len()];
        for (number, kernel) in all.kernels.iter().enumerate() {
            kernel.results.iter().for_each(|value| makers[*value] = Some(number));
        }
        Uses { all, makers, readers, keep }
    }

    /// What can run on the tiles of a contraction: with reductions first, then the chain alone.
    pub(in super::super) fn epilogues(&self, number: usize) -> Vec<Joined> {
        let chain = self.chain(number);
        let first = chain.clone().or_else(|| self.sums(number));
        let rows = first.and_then(|first| self.with_rows(number, first));
        rows.into_iter().chain(chain).collect()
    }

    /// Whether a value is there before a contraction.
    fn is_early(&self, number: usize, value: usize) -> bool {
        self.makers[value].is_none_or(|maker| maker < number)
    }

    /// The chain that alone reads a contraction's result, if all else that it reads is there before and fits
    /// the tiles.
    fn chain(&self, number: usize) -> Option<Joined> {
        let all = self.all;
        let (sizes, sums) = self.result(number)?;
        let [reader] = self.readers[sums][..] else { return None };
        let kernel = all.kernels.get(reader)?;
        let Work::Chain { inputs, lines, streams } = &kernel.work else { return None };
        let early = |view: &View| view.value == sums || self.is_early(number, view.value);
        if !inputs.iter().all(early) {
            return None;
        }
        let kinds: Option<Vec<Input>> = inputs.iter().map(|view| input(all, sums, sizes, view)).collect();
        let kinds = kinds?;
        (kinds.iter().filter(|input| **input == Input::Sum).count() == 1).then_some(())?;
        let packings: Vec<Packing> = kernel.results.iter().map(|value| all.values[*value].packing).collect();
        let given = vec![true; packings.len()];
        let epilogue = Epilogue {
            inputs: kinds,
            lines: lines.clone(),
            streams: streams.clone(),
            members: Vec::new(),
            more: Vec::new(),
            packings,
            given,
        };
        let reads = kernel.reads();
        Some(Joined { kernels: vec![reader], reads, values: kernel.results.clone(), epilogue })
    }

    /// The sums as they are.
    fn sums(&self, number: usize) -> Option<Joined> {
        let (_, sums) = self.result(number)?;
        let epilogue = Epilogue {
            inputs: vec![Input::Sum],
            lines: Vec::new(),
            streams: vec![0],
            members: Vec::new(),
            more: Vec::new(),
            packings: vec![Packing::Words],
            given: vec![true],
        };
        Some(Joined { kernels: Vec::new(), reads: vec![sums], values: vec![sums], epilogue })
    }

    fn result(&self, number: usize) -> Option<(Sizes, usize)> {
        let kernel = &self.all.kernels[number];
        let Work::Contract { sizes, .. } = kernel.work else { return None };
        Some((sizes, *kernel.results.first()?))
    }

    /// The same with the kernels behind it that run row by row.
    fn with_rows(&self, number: usize, first: Joined) -> Option<Joined> {
        let all = self.all;
        let (sizes, sums) = self.result(number)?;
        let group = Group { kernels: 0..0, rows: sizes.batch * sizes.rows, columns: sizes.columns };
        if !sizes.columns.is_multiple_of(FLIT_WORDS)
            || first.epilogue.packings.iter().any(|packing| packing.is_narrow())
        {
            return None;
        }
        let mut made: BTreeMap<usize, Extent> =
            first.values.iter().map(|value| (*value, Extent::Wide)).collect();
        let mut joined = first;
        let mut next = joined.kernels.last().map_or(number + 1, |last| last + 1);
        let mut has_reduction = false;
        while next < all.kernels.len() {
            let Some(extent) = group.takes(all, next, &made) else { break };
            let Some((member, reads)) = self.member(number, (sizes, sums), next, &made, &joined) else {
                break;
            };
            has_reduction |= matches!(member, Member::Reduce { .. });
            let kernel = &all.kernels[next];
            joined.epilogue.members.push(member);
            for (value, kind) in reads {
                joined.reads.push(value);
                joined.epilogue.more.push(kind);
            }
            made.extend(kernel.results.iter().map(|value| (*value, extent)));
            joined.values.extend(&kernel.results);
            joined.kernels.push(next);
            next += 1;
        }
        let outside = |value: &usize| {
            let inside = |reader: &usize| joined.kernels.contains(reader);
            self.keep || !self.readers[*value].iter().all(inside)
        };
        joined.epilogue.given = joined.values.iter().map(outside).collect();
        joined.epilogue.packings = joined.values.iter().map(|value| all.values[*value].packing).collect();
        has_reduction.then_some(joined)
    }

    /// A kernel as it runs behind others, and what it reads besides.
    fn member(
        &self,
        number: usize,
        (sizes, sums): (Sizes, usize),
        at: usize,
        made: &BTreeMap<usize, Extent>,
        joined: &Joined,
    ) -> Option<(Member, Vec<(usize, Input)>)> {
        let all = self.all;
        let kernel = &all.kernels[at];
        let known = |value: usize| joined.values.iter().position(|other| *other == value);
        match &kernel.work {
            Work::Reduce { from, fold, .. } => {
                let float = all.values[*from].dtype.is_float();
                Some((Member::Reduce { from: known(*from)?, fold: *fold, float }, Vec::new()))
            }
            Work::Chain { inputs, lines, streams } => {
                let (mut sources, mut reads) = (Vec::new(), Vec::new());
                for view in inputs {
                    if let Some(value) = known(view.value) {
                        sources.push(Source::Value(value));
                        continue;
                    }
                    let kind = input(all, sums, sizes, view).filter(|kind| *kind != Input::Sum)?;
                    self.is_early(number, view.value).then_some(())?;
                    sources.push(Source::Input(joined.epilogue.more.len() + reads.len()));
                    reads.push((view.value, kind));
                }
                let first = kernel.results.first()?;
                let wide = all.values[*first].count() == sizes.batch * sizes.rows * sizes.columns;
                let read_rows = inputs.iter().any(|view| made.get(&view.value).is_some());
                (wide || reads.is_empty()).then_some(())?;
                read_rows.then_some(())?;
                let member =
                    Member::Chain { inputs: sources, lines: lines.clone(), streams: streams.clone(), wide };
                Some((member, reads))
            }
            _ => None,
        }
    }
}

fn input(all: &Kernels, sums: usize, sizes: Sizes, view: &View) -> Option<Input> {
    if all.values[view.value].packing.is_narrow() {
        return None;
    }
    if all.is_whole(view) {
        return Some(if view.value == sums { Input::Sum } else { Input::Wide });
    }
    if view.value == sums {
        return None;
    }
    let planes = view.reshaped(&[sizes.batch, sizes.rows, sizes.columns])?;
    let [(_, plane), (_, row), (_, column)] = planes.axes[..] else { return None };
    let width = super::super::view::signed(sizes.columns);
    if (planes.first, plane, row, column) == (0, 0, width, 1) && sizes.batch > 1 {
        return Some(Input::Plane);
    }
    let view = view.reshaped(&[sizes.batch * sizes.rows, sizes.columns])?;
    let [(_, row), (_, column)] = view.axes[..] else { return None };
    match (view.first, row, column) {
        (0, 0, 1) => Some(Input::Columns),
        (0, 1, 0) => Some(Input::Rows),
        _ => None,
    }
}
