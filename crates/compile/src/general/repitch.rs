//! Permutations whose rows are no whole granules: transfers between HBM and data memory take granules alone
//! (vISA book, DMA engine), those within HBM any bytes. Rows are moved apart to whole granules first, turned
//! there by the vector engine, and moved together behind it.

use tilewright_machine::tcp::Tcp;

use super::kernel::{Kernel, Kernels, Origin, Part, Value, Work};
use super::legal::{Cutting, cutting};
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
    let made = rows.kernels(all, (view.value, first), *to);
    let turned = made.iter().find(|kernel| matches!(kernel.work, Work::Chain { .. }));
    let turned = turned.filter(|turned| match cutting(machine, pes, all, turned) {
        Cutting::Whole => true,
        Cutting::Torn => was == Cutting::None,
        Cutting::None => false,
    });
    if turned.is_none() {
        all.values.truncate(known);
        return None;
    }
    Some(made)
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
    fn kernels(&self, all: &mut Kernels, (from, first): (usize, i64), to: usize) -> Vec<Kernel> {
        let apart_dims: Vec<u64> = self.order.iter().map(|axis| self.padded(*axis)).collect();
        let pitches = strides(&apart_dims);
        let pitch = |axis: usize| {
            let at = self.order.iter().position(|place| *place == axis);
            at.and_then(|at| pitches.get(at)).copied().unwrap_or_default()
        };
        let lies = self.axes.iter().enumerate().all(|(axis, (_, stride))| *stride == pitch(axis));
        let end = first + signed(count(&apart_dims));
        let is_apart = lies && first % signed(SHORT_ROW) == 0 && end <= signed(all.values[from].count());
        let (apart, begins) = match is_apart {
            true => (from, first),
            false => (added(all, from, "apart", &apart_dims, Origin::Filled(0)), 0),
        };
        let sizes = self.spread_sizes(first, signed(all.values[from].count()));
        let spread =
            self.order.iter().zip(sizes).map(|(axis, size)| (size, self.axes[*axis].1, pitch(*axis)));
        let spread = Part { from, from_first: first, to_first: 0, loops: spread.collect() };

        let turned_dims: Vec<u64> = (0..self.axes.len()).map(|axis| self.padded(axis)).collect();
        let is_whole = count(&turned_dims) == all.values[to].count();
        let turned = if is_whole { to } else { added(all, from, "turned", &turned_dims, Origin::Kernel) };
        let walk = turned_dims.iter().enumerate().map(|(axis, size)| (*size, pitch(axis))).collect();
        let view = View { value: apart, first: begins, axes: walk };
        let turn = Work::Chain { inputs: vec![view], lines: Vec::new(), streams: vec![0] };

        let mut kernels = vec![Kernel { work: turn, results: vec![turned] }];
        if !is_apart {
            kernels.insert(0, Kernel { work: Work::Move(vec![spread]), results: vec![apart] });
        }
        if !is_whole {
            let dims: Vec<u64> = self.axes.iter().map(|axis| axis.0).collect();
            let loops = dims.iter().zip(strides(&turned_dims)).zip(strides(&dims));
            let loops = loops.map(|((size, from), to)| (*size, from, to)).collect();
            let together = Part { from: turned, from_first: 0, to_first: 0, loops };
            kernels.push(Kernel { work: Work::Move(vec![together]), results: vec![to] });
        }
        kernels
    }
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
