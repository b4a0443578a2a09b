//! Between which bounds the integers of a graph lie, if those of its inputs lie within a limit.

use std::collections::BTreeSet;

use tilewright_graph::{Binary, Dim, Dtype, Fold, Graph, Node, Op, Subscripts, Unary, ValueId};
use tilewright_reference::{Elements, Tensor};

/// The least and the greatest that an element can be; ends beyond [`FAR`] are there.
pub(super) type Range = (i128, i128);

/// Farther than any integer of 64 bits, and its square is still a number.
const FAR: i128 = 1 << 62;

/// Words of the chip.
pub(super) const WORDS: Range = (i32::MIN as i128, i32::MAX as i128);

/// Bounds of every value of a graph of primitives with fixed sizes.
pub(super) struct IntegerRanges<'g> {
    graph: &'g Graph,
    all: Vec<Range>,
    /// Values that constants alone decide.
    decided: BTreeSet<usize>,
}

impl<'g> IntegerRanges<'g> {
    /// Bounds if elements of inputs are at most `most` away from zero, and some values are known.
    pub(super) fn new(graph: &'g Graph, known: &[Option<Tensor>], most: i128) -> IntegerRanges<'g> {
        let all = graph.values.iter().map(|value| of_type(value.ty.dtype)).collect();
        let mut ranges = IntegerRanges { graph, all, decided: BTreeSet::new() };
        for id in &graph.inputs {
            let (low, high) = ranges.of(*id);
            ranges.set(*id, (low.max(-most), high.min(most)));
        }
        for (at, tensor) in known.iter().enumerate() {
            if let Some(Elements::Ints(values)) = tensor.as_ref().map(|tensor| &tensor.elements)
                && let (Some(low), Some(high)) = (values.iter().min(), values.iter().max())
            {
                ranges.all[at] = (i128::from(*low), i128::from(*high));
                ranges.decided.insert(at);
            }
        }
        for node in &graph.nodes {
            let Some(out) = node.outputs.first().copied() else { continue };
            if ranges.decided.contains(&out.index()) || ranges.dtype(out).is_float() {
                continue;
            }
            let limits = of_type(ranges.dtype(out));
            let (low, high) = ranges.made(node).unwrap_or(limits);
            // What leaves the range of a type comes back at its other end; i64 is what words have to hold.
            let wraps = ranges.dtype(out) != Dtype::I64 && (low < limits.0 || high > limits.1);
            ranges.set(out, if wraps { limits } else { (low.max(-FAR), high.min(FAR)) });
        }
        ranges
    }

    /// Bounds of a value.
    pub(super) fn of(&self, id: ValueId) -> Range {
        self.all.get(id.index()).copied().unwrap_or((-FAR, FAR))
    }

    fn set(&mut self, id: ValueId, range: Range) {
        if let Some(slot) = self.all.get_mut(id.index()) {
            *slot = range;
        }
    }

    fn dtype(&self, id: ValueId) -> Dtype {
        self.graph.value(id).map_or(Dtype::F32, |value| value.ty.dtype)
    }

    /// Positions along an axis of a value.
    fn size(&self, id: ValueId, axis: usize) -> Option<i128> {
        self.graph.value(id)?.ty.dims.get(axis).and_then(Dim::as_fixed).map(i128::from)
    }

    /// Bounds of what a node makes of its operands, not brought into the range of its type; `None` if nothing
    /// is known.
    fn made(&self, node: &Node) -> Option<Range> {
        let id = |at: usize| node.inputs.get(at).copied().flatten();
        let of = |at: usize| id(at).map(|id| self.of(id));
        match &node.op {
            Op::Unary(op) => unary(*op, of(0)?),
            Op::Binary(op) if op.compares() || op.is_logic() => Some((0, 1)),
            Op::Binary(op) => binary(*op, of(0)?, of(1)?),
            Op::Select => Some(joined(of(1)?, of(2)?)),
            Op::Convert(_) if self.dtype(id(0)?).is_float() => None,
            Op::Convert(_)
            | Op::Reshape(_)
            | Op::Broadcast(_)
            | Op::Transpose(_)
            | Op::Slice { .. }
            | Op::Window { .. }
            | Op::Gather { .. } => of(0),
            Op::Concat { .. } => (0..node.inputs.len()).map(of).reduce(|a, b| Some(joined(a?, b?)))?,
            Op::Pad { .. } => Some(joined(of(0)?, of(1)?)),
            Op::Scatter { fold: None } => Some(joined(of(0)?, of(2)?)),
            Op::Iota { dims, axis, .. } => Some((0, i128::from(dims.get(*axis)?.as_fixed()?) - 1)),
            Op::Size(size) => size.as_fixed().map(|size| (i128::from(size), i128::from(size))),
            Op::Reduce { fold, axes, .. } => {
                let mut sizes = axes.iter().map(|axis| self.size(id(0)?, *axis));
                let count = sizes.try_fold(1, |all, size| Some((all * size?).min(FAR)))?;
                match fold {
                    Fold::Max | Fold::Min => of(0),
                    Fold::Sum => Some(times(of(0)?, (count, count))),
                    Fold::Prod => None,
                }
            }
            Op::Einsum(spec) => self.summed(node, spec),
            Op::Scatter { fold: Some(_) } | Op::Rich(..) => None,
        }
    }

    /// Bounds of sums of products.
    fn summed(&self, node: &Node, spec: &str) -> Option<Range> {
        let parsed = Subscripts::parse(spec)?;
        let mut all = (1, 1);
        let mut known: BTreeSet<_> = parsed.output.iter().copied().collect();
        for (letters, id) in parsed.inputs.iter().zip(&node.inputs) {
            let id = (*id)?;
            all = times(all, self.of(id));
            for (axis, letter) in letters.iter().enumerate() {
                if known.insert(*letter) {
                    let size = self.size(id, axis)?;
                    all = times(all, (size, size));
                }
            }
        }
        Some(all)
    }
}

/// Bounds of a type; of 64 bits, what words hold: the host refuses more, and conversions give no more.
fn of_type(dtype: Dtype) -> Range {
    let own = dtype.integer_range().filter(|_| dtype != Dtype::I64);
    own.map_or(WORDS, |(low, high)| (i128::from(low), i128::from(high)))
}

fn joined(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

fn near((low, high): Range) -> Range {
    (low.clamp(-FAR, FAR), high.clamp(-FAR, FAR))
}

fn times(a: Range, b: Range) -> Range {
    let (a, b) = (near(a), near(b));
    let all = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
    let ends = all.iter().fold((i128::MAX, i128::MIN), |(low, high), one| (low.min(*one), high.max(*one)));
    near(ends)
}

/// How far from zero an element can be.
fn far((low, high): Range) -> i128 {
    low.abs().max(high.abs())
}

fn unary(op: Unary, (low, high): Range) -> Option<Range> {
    match op {
        Unary::Neg => Some((-high, -low)),
        Unary::Abs => {
            let least = if low > 0 { low } else { (-high).max(0) };
            Some((least, far((low, high))))
        }
        Unary::Sign => Some((low.signum(), high.signum())),
        _ => None,
    }
}

fn binary(op: Binary, a: Range, b: Range) -> Option<Range> {
    // The rest is smaller than the divisor.
    let rest = far(b).max(1) - 1;
    match op {
        Binary::Add => Some((a.0 + b.0, a.1 + b.1)),
        Binary::Sub => Some((a.0 - b.1, a.1 - b.0)),
        Binary::Mul => Some(times(a, b)),
        Binary::Max => Some((a.0.max(b.0), a.1.max(b.1))),
        Binary::Min => Some((a.0.min(b.0), a.1.min(b.1))),
        Binary::Div => Some(match (a.0 >= 0, b.0 >= 0) {
            (true, true) => (0, a.1),
            _ => (-far(a), far(a)),
        }),
        Binary::Mod => Some((if b.0 < 0 { -rest } else { 0 }, if b.1 > 0 { rest } else { 0 })),
        Binary::Rem => {
            let most = rest.min(far(a));
            Some((if a.0 < 0 { -most } else { 0 }, if a.1 > 0 { most } else { 0 }))
        }
        _ => None,
    }
}
