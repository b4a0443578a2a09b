//! Chains over rows whose pitch is no whole granule: no transfer between HBM and data memory takes such rows
//! apart (vISA book, DMA engine), so that planes of 33 x 33 words could be cut in whole ones alone, many at a
//! time, or not at all. What a chain reads is moved apart first, rows at whole flits from each other, and one
//! axis of what it gives is filled up, which a copy behind it leaves out. All of it goes through data memory
//! in long runs; what fills rows up is what lies there, and nobody looks at it.

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::vector::FLIT_WORDS;

use super::kernel::{Kernel, Kernels, Origin, Packing, Value, Work};
use super::legal::{Cutting, cutting, cycles};
use super::operands::coalesced;
use super::view::{View, count, signed, strides};

/// Bytes that transfers move whole.
const GRANULE_BYTES: u64 = 8;
/// Elements of which a row that lies apart has a multiple: a flit, or an access unit of HBM.
const ROW_UNITS: [u64; 2] = [FLIT_WORDS, 64];
/// Axes from the innermost on of which one may be filled up.
const MOST_FILLED: usize = 4;
/// Elements of a chain below which moves element by element take no longer.
const LEAST_ELEMENTS: u64 = 1 << 10;
/// What fills rows of constants up.
const FILL: u32 = 0;
/// Elements of a value that is moved apart, or is filled up, at most.
const MOST_ELEMENTS: u64 = 1 << 26;

/// Rows of a value, and elements from one to the next, as they lie and apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rows {
    value: usize,
    pitches: [u64; 2],
}

/// Values that were moved apart already, with the number of their rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Apart(BTreeMap<Rows, (u64, usize)>);

/// A view at even pitches.
enum EvenView {
    /// As it is.
    Same(View),
    /// Of rows that lie apart, so many of them.
    Apart(Rows, u64, View),
}

/// A way to do a chain at even pitches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EvenPitch {
    /// Rows that lie apart have a multiple of so many elements.
    unit: u64,
    /// The axis of the result that is filled up, counted from the innermost, if one is.
    filled: Option<usize>,
}

/// Whether a chain reads rows whose pitch is no whole granule.
pub(super) fn has_odd_pitches(all: &Kernels, kernel: &Kernel) -> bool {
    let Work::Chain { inputs, .. } = &kernel.work else { return false };
    let (_, views) = joined(all, inputs);
    views.iter().any(|view| !odd_steps(all, view).is_empty())
}

/// Steps of a view from row to row that are no whole granules, the shortest first.
fn odd_steps(all: &Kernels, view: &View) -> Vec<u64> {
    let whole = GRANULE_BYTES / all.values[view.value].element_bytes();
    let steps = view.axes.iter().filter(|axis| axis.0 > 1).map(|axis| axis.1.unsigned_abs());
    let mut odd: Vec<u64> = steps.filter(|step| *step > 1 && !step.is_multiple_of(whole)).collect();
    odd.sort_unstable();
    odd
}

/// The way that takes least, and its cycles; `None` if none can be cut better than the chain itself.
pub(super) fn even_pitch(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    (kernel, was): (&Kernel, Cutting),
    apart: &Apart,
) -> Option<(u64, EvenPitch)> {
    let elements = all.values[*kernel.results.first()?].count();
    if !matches!(kernel.work, Work::Chain { .. }) || elements < LEAST_ELEMENTS {
        return None;
    }
    let filled = std::iter::once(None).chain((0..MOST_FILLED).map(Some));
    let ways = filled.flat_map(|filled| ROW_UNITS.map(|unit| EvenPitch { unit, filled }));
    let known = all.values.len();
    let mut best: Option<(u64, EvenPitch)> = None;
    for way in ways {
        let made = way.kernels(all, kernel, &mut apart.clone());
        let found = made.and_then(|made| weighed(machine, pes, all, (&made, kernel, was)));
        all.values.truncate(known);
        if let Some(found) = found.filter(|found| best.is_none_or(|(least, _)| *found < least)) {
            best = Some((found, way));
        }
    }
    best
}

/// What kernels take together; `None` if one of them cannot be cut, or the chain no better than before.
fn weighed(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    (made, kernel, was): (&[Kernel], &Kernel, Cutting),
) -> Option<u64> {
    let lines = |one: &Kernel| match &one.work {
        Work::Chain { inputs, lines, .. } => (inputs.len(), lines.len()),
        _ => (0, 0),
    };
    for one in made {
        match cutting(machine, pes, all, one) {
            Cutting::Whole => {}
            Cutting::Torn if was == Cutting::None || lines(one) != lines(kernel) => {}
            _ => return None,
        }
    }
    made.iter().map(|one| cycles(machine, pes, all, one)).sum()
}

impl EvenPitch {
    /// The kernels that do what a chain does: copies of what it reads, unless they are there, the chain, and
    /// copies of what it gives. `None` if that changes nothing, or views cross rows.
    pub(super) fn kernels(
        self,
        all: &mut Kernels,
        kernel: &Kernel,
        apart: &mut Apart,
    ) -> Option<Vec<Kernel>> {
        let Work::Chain { inputs, lines, streams } = &kernel.work else { return None };
        let (dims, views) = joined(all, inputs);
        let mut wide = dims.clone();
        if let Some(filled) = self.filled {
            let axis = dims.len().checked_sub(filled + 1)?;
            let inner: u64 = dims[axis + 1..].iter().product();
            wide[axis] = (dims[axis]..).find(|size| (size * inner).is_multiple_of(FLIT_WORDS))?;
        }
        if self.filled.is_some() == (wide == dims) || count(&wide) > MOST_ELEMENTS {
            return None;
        }
        let mut even = Vec::with_capacity(views.len());
        let mut wanted: BTreeMap<Rows, u64> = BTreeMap::new();
        for view in views {
            let view = self.view(all, &view, &wide)?;
            if let EvenView::Apart(of, rows, _) = &view {
                let most = wanted.entry(*of).or_default();
                *most = (*most).max(*rows);
            }
            even.push(view);
        }
        if wanted.is_empty() && self.filled.is_none() {
            return None;
        }
        let mut before = Vec::new();
        for (of, rows) in wanted {
            if apart.0.get(&of).is_none_or(|(there, _)| *there < rows) {
                let (made, copy) = of.moved(all, rows);
                before.extend(copy);
                apart.0.insert(of, (rows, made));
            }
        }
        let taken = even.into_iter().map(|view| match view {
            EvenView::Same(view) => view,
            EvenView::Apart(of, _, view) => View { value: apart.0[&of].1, ..view },
        });
        let taken = taken.collect();
        let work = Work::Chain { inputs: taken, lines: lines.clone(), streams: streams.clone() };
        if self.filled.is_none() {
            before.push(Kernel { work, results: kernel.results.clone() });
            return Some(before);
        }
        let mut behind = Vec::new();
        let mut results = Vec::new();
        for result in &kernel.results {
            let made = added(all, *result, "filled", &wide);
            let axes = dims.iter().copied().zip(strides(&wide)).collect();
            behind.push(copy(View { value: made, first: 0, axes }, *result));
            results.push(made);
        }
        before.push(Kernel { work, results });
        before.extend(behind);
        Some(before)
    }

    /// A view at even pitches, over as many positions as are filled up; `None` if it crosses rows, or goes on
    /// behind what is there.
    fn view(self, all: &Kernels, view: &View, wide_dims: &[u64]) -> Option<EvenView> {
        let of = &all.values[view.value];
        let whole = GRANULE_BYTES / of.element_bytes();
        let over =
            |strides: Vec<i64>| -> Vec<(u64, i64)> { wide_dims.iter().copied().zip(strides).collect() };
        let odd = odd_steps(all, view);
        if odd.is_empty() {
            let axes = over(view.axes.iter().map(|axis| axis.1).collect());
            let view = View { axes, ..view.clone() };
            let ends = self.filled.is_none() || last(&view) < signed(of.count());
            return ends.then_some(EvenView::Same(view));
        }
        if view.first < 0 || of.packing == Packing::Pairs {
            return None;
        }
        let pitch = odd.into_iter().find(|pitch| stays_inside(view, *pitch))?;
        let wide = pitch.next_multiple_of(self.unit.max(whole));
        let step = |stride: i64| match stride {
            inside if inside.unsigned_abs() < pitch => inside,
            around => around / signed(pitch) * signed(wide),
        };
        let inside = view.first % signed(pitch);
        let axes = over(view.axes.iter().map(|axis| step(axis.1)).collect());
        let even = View { first: step(view.first - inside) + inside, axes, ..view.clone() };
        let rows = (u64::try_from(last(&even)).ok()? / wide + 1).max(of.count().div_ceil(pitch));
        let fits = rows * wide <= MOST_ELEMENTS;
        fits.then_some(EvenView::Apart(Rows { value: view.value, pitches: [pitch, wide] }, rows, even))
    }
}

impl Rows {
    /// A value whose rows lie apart, and the copy that makes it of one that is no constant.
    fn moved(&self, all: &mut Kernels, rows: u64) -> (usize, Option<Kernel>) {
        let [pitch, wide] = self.pitches;
        let made = added(all, self.value, "apart", &[rows, wide]);
        if let Origin::Constant(words) = &all.values[self.value].origin {
            let row = |row: u64| (row * pitch..row * pitch + wide).map(|at| usize::try_from(at).ok());
            let word = |at: Option<usize>| at.and_then(|at| words.get(at)).copied().unwrap_or(FILL);
            let words = (0..rows).flat_map(row).map(word).collect();
            all.values[made].origin = Origin::Constant(words);
            return (made, None);
        }
        let axes = vec![(rows, signed(pitch)), (wide, 1)];
        (made, Some(copy(View { value: self.value, first: 0, axes }, made)))
    }
}

/// The last element that a view looks at.
fn last(view: &View) -> i64 {
    view.first + view.axes.iter().map(|(size, stride)| (signed(*size) - 1) * (*stride).max(0)).sum::<i64>()
}

/// Whether every axis of a view goes from row to row, or stays in one, all of them together.
fn stays_inside(view: &View, pitch: u64) -> bool {
    let row = signed(pitch);
    let (inside, around): (Vec<_>, Vec<_>) =
        view.axes.iter().filter(|axis| axis.0 > 1).partition(|axis| axis.1.unsigned_abs() < pitch);
    let first = view.first % row;
    let ahead: i64 = inside.iter().map(|(size, stride)| (signed(*size) - 1) * (*stride).max(0)).sum();
    let back: i64 = inside.iter().map(|(size, stride)| (signed(*size) - 1) * (*stride).min(0)).sum();
    around.iter().all(|(_, stride)| stride % row == 0) && first + back >= 0 && first + ahead < row
}

/// Axes that all views walk alike as one: sizes, and the views over them.
fn joined(all: &Kernels, inputs: &[View]) -> (Vec<u64>, Vec<View>) {
    let bytes: Vec<u64> = inputs.iter().map(|view| all.values[view.value].element_bytes()).collect();
    let (dims, operands) = coalesced(inputs, &bytes);
    let view = |(input, operand): (&View, &super::operands::Operand)| {
        let axes = dims.iter().copied().zip(operand.strides.iter().copied()).collect();
        View { value: input.value, first: operand.first, axes }
    };
    let views = inputs.iter().zip(&operands).map(view).collect();
    (dims, views)
}

/// A view as a value of its own.
fn copy(view: View, to: usize) -> Kernel {
    let work = Work::Chain { inputs: vec![view], lines: Vec::new(), streams: vec![0] };
    Kernel { work, results: vec![to] }
}

/// A value like another one, of other sizes.
fn added(all: &mut Kernels, like: usize, what: &str, dims: &[u64]) -> usize {
    let Value { name, dtype, packing, .. } = all.values[like].clone();
    let (name, dims) = (format!("{name}.{what}"), dims.to_vec());
    all.values.push(Value { name, dims, dtype, packing, origin: Origin::Kernel, host: None });
    all.values.len() - 1
}
