//! Permutations whose rows are no whole granules: transfers between HBM and data memory take granules alone
//! (vISA book, DMA engine), those within HBM any bytes. Rows are moved apart to whole granules first, turned
//! there by the vector engine, and moved together behind it: within HBM, or through data memory if that takes
//! less.

use tilewright_machine::tcp::Tcp;

use super::kernel::{Kernel, Kernels, Origin, Part, Value, Work};
use super::legal::{Cutting, cutting, cycles, is_turned};
use super::view::{View, count, signed, strides};

/// Elements below which a move element by element takes no longer.
const LEAST_ELEMENTS: u64 = 512;
/// Rows are padded to a multiple of the first, short ones to one of the second.
const WIDE_ROW: u64 = 64;
const SHORT_ROW: u64 = 8;

/// The kernels that do what a chain without steps does which no cut takes, or one in short runs alone; `None`
/// if it is no permutation of rows, or these can be cut no better.
pub(super) fn repitched(
    machine: &Tcp,
    pes: u64,
    all: &mut Kernels,
    (kernel, was): (&Kernel, Cutting),
) -> Option<Vec<Kernel>> {
    let (Work::Chain { inputs, lines, streams }, [to]) = (&kernel.work, &kernel.results[..]) else {
        return None;
    };
    let ([view], [], [0]) = (&inputs[..], &lines[..], &streams[..]) else { return None };
    let (from, result) = (all.values.get(view.value)?, all.values.get(*to)?);
    if from.packing != result.packing || from.packing.element_bytes() != 4 || result.count() < LEAST_ELEMENTS
    {
        return None;
    }
    let (axes, first) = (joined(&view.axes), view.first);
    let rows = Rows::of(&axes)?;
    let known = all.values.len();
    let mut best: Option<(u64, Way)> = None;
    for way in [Way::Moves, Way::Chains, Way::Rows] {
        let made = rows.kernels(all, way, (view.value, first), *to);
        let cycles = weighed(machine, pes, all, (&made, was));
        all.values.truncate(known);
        best = match (best, cycles) {
            (Some((least, _)), Some(cycles)) if least <= cycles => best,
            (_, Some(cycles)) => Some((cycles, way)),
            _ => best,
        };
    }
    best.map(|(_, way)| rows.kernels(all, way, (view.value, first), *to))
}

/// What kernels take together; `None` if a chain cannot be cut, or turned rows no better than before.
fn weighed(machine: &Tcp, pes: u64, all: &mut Kernels, (made, was): (&[Kernel], Cutting)) -> Option<u64> {
    let turned = made.iter().find(|kernel| is_turn(kernel))?;
    match cutting(machine, pes, all, turned) {
        Cutting::Whole => {}
        Cutting::Torn if was == Cutting::None => {}
        _ => return None,
    }
    made.iter().map(|kernel| cycles(machine, pes, all, kernel)).sum()
}

/// Whether a chain reads in another order than values lie in.
fn is_turn(kernel: &Kernel) -> bool {
    matches!(&kernel.work, Work::Chain { inputs, .. } if inputs.iter().any(is_turned))
}

/// Axes without those of one position, neighbours that are walked as one joined.
fn joined(axes: &[(u64, i64)]) -> Vec<(u64, i64)> {
    let mut all: Vec<(u64, i64)> = Vec::new();
    for (size, stride) in axes.iter().copied().filter(|axis| axis.0 > 1) {
        match all.last_mut() {
            Some((outer, by)) if *by == stride * signed(size) => (*outer, *by) = (*outer * size, stride),
            _ => all.push((size, stride)),
        }
    }
    all
}

/// How rows are moved apart, and together again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Within HBM.
    Moves,
    /// Through data memory: rows come as they lie and are cut in slices. What fills a row up is what lies
    /// behind it, which nobody looks at.
    Chains,
    /// The same with no more of them turned than there are, so that they follow each other.
    Rows,
}

/// A permutation of axes: rows of the source along one of them become rows of the result along another.
struct Rows {
    /// Size and stride of each axis, in the order of the result.
    axes: Vec<(u64, i64)>,
    /// Places of the axes in the order of the source, outermost first.
    order: Vec<usize>,
    /// Padded sizes of the axes that are rows of the source and of the result.
    source_row: u64,
    result_row: u64,
}

impl Rows {
    /// The rows of a view; `None` if it repeats elements, goes back, or changes nothing.
    fn of(axes: &[(u64, i64)]) -> Option<Rows> {
        if axes.len() < 2 || axes.iter().any(|(_, stride)| *stride <= 0) {
            return None;
        }
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(axes[*at].1));
        let (inner, last) = (*order.last()?, axes.len() - 1);
        if inner == last {
            return None;
        }
        let padded = |size: u64| size.next_multiple_of(if size < WIDE_ROW { SHORT_ROW } else { WIDE_ROW });
        let (source_row, result_row) = (padded(axes[inner].0), padded(axes[last].0));
        Some(Rows { axes: axes.to_vec(), order, source_row, result_row })
    }

    /// The size of an axis where rows lie apart.
    fn padded(&self, axis: usize) -> u64 {
        match axis {
            axis if Some(&axis) == self.order.last() => self.source_row,
            axis if axis + 1 == self.axes.len() => self.result_row,
            axis => self.axes[axis].0,
        }
    }

    /// The size of an axis where rows are turned.
    fn turned(&self, way: Way, axis: usize) -> u64 {
        if way == Way::Rows && axis + 1 < self.axes.len() { self.axes[axis].0 } else { self.padded(axis) }
    }

    /// Sizes in the order of the source where rows lie apart: what turned rows read beyond an axis is there
    /// or lies behind it.
    fn apart(&self, way: Way) -> Vec<u64> {
        let inner = |axis: usize| Some(&axis) == self.order.last();
        let size = |axis: usize| match way {
            Way::Chains | Way::Rows if !inner(axis) => self.axes[axis].0,
            _ => self.padded(axis),
        };
        self.order.iter().map(|axis| size(*axis)).collect()
    }

    /// Positions along the axes in the order of the source that are moved apart: of rows that lie apart
    /// already, though less, all that is there, so that they are moved as one.
    fn spread_sizes(&self, first: i64, count: i64) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.order.iter().map(|axis| self.axes[*axis].0).collect();
        let [.., outer, inner] = self.order[..] else { return sizes };
        let wide = self.source_row;
        let last = self.axes.iter().map(|(size, stride)| (signed(*size) - 1) * stride).sum::<i64>();
        let end = first + last + signed(wide - self.axes[inner].0);
        if self.axes[inner].1 == 1 && self.axes[outer].1 >= signed(wide) && end < count {
            sizes.last_mut().into_iter().for_each(|size| *size = wide);
        }
        sizes
    }

    /// Rows moved apart, unless they lie so, turned, and moved together.
    fn kernels(&self, all: &mut Kernels, way: Way, (from, first): (usize, i64), to: usize) -> Vec<Kernel> {
        let apart_dims = self.apart(way);
        let pitches = strides(&apart_dims);
        let pitch = |axis: usize| {
            let at = self.order.iter().position(|place| *place == axis);
            at.and_then(|at| pitches.get(at)).copied().unwrap_or_default()
        };
        let lies = self.axes.iter().enumerate().all(|(axis, (_, stride))| *stride == pitch(axis));
        let end = first + signed(count(&apart_dims));
        let is_apart = lies && first % signed(SHORT_ROW) == 0 && end <= signed(all.values[from].count());
        let mut kernels = Vec::new();
        let (mut apart, mut begins) = (from, first);
        if !is_apart {
            let origin = if way == Way::Moves { Origin::Filled(0) } else { Origin::Kernel };
            (apart, begins) = (added(all, from, "apart", &apart_dims, origin), 0);
            kernels.push(Kernel { work: self.spread(all, way, (from, first)), results: vec![apart] });
        }

        let turned_dims: Vec<u64> = (0..self.axes.len()).map(|axis| self.turned(way, axis)).collect();
        let is_whole = count(&turned_dims) == all.values[to].count();
        let turned = if is_whole { to } else { added(all, from, "turned", &turned_dims, Origin::Kernel) };
        let walk = turned_dims.iter().enumerate().map(|(axis, size)| (*size, pitch(axis))).collect();
        let work = copy(View { value: apart, first: begins, axes: walk });
        kernels.push(Kernel { work, results: vec![turned] });
        if !is_whole {
            let dims: Vec<u64> = self.axes.iter().map(|axis| axis.0).collect();
            let from = dims.iter().copied().zip(strides(&turned_dims));
            let view = View { value: turned, first: 0, axes: from.collect() };
            let work = match way {
                Way::Moves => moved(&view, &strides(&dims)),
                Way::Chains | Way::Rows => copy(view),
            };
            kernels.push(Kernel { work, results: vec![to] });
        }
        kernels
    }

    /// What moves rows of a value apart.
    fn spread(&self, all: &Kernels, way: Way, (from, first): (usize, i64)) -> Work {
        let apart_dims = self.apart(way);
        let sizes = match way {
            Way::Moves => self.spread_sizes(first, signed(all.values[from].count())),
            Way::Chains | Way::Rows => apart_dims.clone(),
        };
        let axes = sizes.into_iter().zip(&self.order).map(|(size, axis)| (size, self.axes[*axis].1));
        let view = View { value: from, first, axes: axes.collect() };
        match way {
            Way::Moves => moved(&view, &strides(&apart_dims)),
            Way::Chains | Way::Rows => copy(view),
        }
    }
}

/// A view as a value of its own.
fn copy(view: View) -> Work {
    Work::Chain { inputs: vec![view], lines: Vec::new(), streams: vec![0] }
}

/// A view to places by strides, within HBM.
fn moved(view: &View, to: &[i64]) -> Work {
    let loops = view.axes.iter().zip(to).map(|((size, from), to)| (*size, *from, *to)).collect();
    Work::Move(vec![Part { from: view.value, from_first: view.first, to_first: 0, loops }])
}

/// A value like another one, of other sizes.
fn added(all: &mut Kernels, like: usize, what: &str, dims: &[u64], origin: Origin) -> usize {
    let Value { name, dtype, packing, .. } = all.values[like].clone();
    let (name, dims) = (format!("{name}.{what}"), dims.to_vec());
    all.values.push(Value { name, dims, dtype, packing, origin, host: None });
    all.values.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_stay_rows_are_no_permutation() {
        assert!(Rows::of(&joined(&[(4, 30), (5, 6), (3, 1)])).is_none());
        assert!(Rows::of(&joined(&[(4, 0), (5, 1)])).is_none());
        assert!(Rows::of(&joined(&[(4, -5), (5, 1)])).is_none());
    }

    #[test]
    fn axes_that_are_walked_as_one_are_one_row() {
        let rows = Rows::of(&joined(&[(8, 57 * 57 * 64), (64, 1), (57, 57 * 64), (57, 64)])).unwrap();
        assert_eq!(rows.axes, [(8, 57 * 57 * 64), (64, 1), (3249, 64)]);
        assert_eq!((rows.source_row, rows.result_row), (64, 3264));
        assert_eq!(rows.order, [0, 2, 1]);
    }
}
