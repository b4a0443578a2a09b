//! The rule of each primitive at the bounds: elementwise operators and views. Those that fold are in
//! [`super::folds`], those that move elements by number in [`super::moves`].

use super::layout::{Digit, Padding, aligned, merged, plain, reshaped};
use super::{Bounded, BoundingPass};
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Node, ValueId};
use crate::infer::{BuildResult, shape_error};
use crate::op::{Binary, Op, Unary};

impl BoundingPass<'_> {
    /// A node of primitives.
    pub(super) fn node(&mut self, node: &Node) -> BuildResult<Bounded> {
        let mut operands = Vec::new();
        for id in node.inputs.iter().flatten() {
            operands.push(self.bounded_value(*id)?);
        }
        match (&node.op, operands.as_slice()) {
            (Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Convert(_), _) => {
                self.elementwise(&node.op, &operands)
            }
            (Op::Reduce { fold, axes, keep }, [x]) => self.reduce(*fold, axes, *keep, x.clone()),
            (Op::Einsum(spec), _) => self.einsum(spec, &operands),
            (Op::Reshape(dims), [x]) => self.reshape(dims, x),
            (Op::Broadcast(dims), [x]) => self.broadcast(dims, x),
            (Op::Transpose(order), [(x, axes)]) => {
                let y = self.b.transpose(*x, order)?;
                Ok((y, order.iter().filter_map(|axis| axes.get(*axis).cloned()).collect()))
            }
            (Op::Slice { axis, start, size, step }, [x]) => self.slice(*axis, (start, size, *step), x),
            (Op::Window { axis, size, stride, dilation }, [x]) => {
                self.window(*axis, (*size, *stride, *dilation), x)
            }
            (Op::Concat { axis }, [_, ..]) => self.concat(*axis, &operands),
            (Op::Pad { axis, low, high }, [x, value]) => self.pad(*axis, [low, high], x, value.0),
            (Op::Gather { axis }, [x, indices]) => self.gather(*axis, x, indices),
            (Op::Scatter { .. }, [x, indices, updates]) => self.scatter(&node.op, x, indices, updates),
            (Op::Iota { dtype, dims, axis }, []) => self.iota(*dtype, dims, *axis),
            (Op::Size(dim), []) => {
                let size = self.size(dim)?;
                Ok((self.b.convert(size, Dtype::I64)?, Vec::new()))
            }
            (op, _) => Err(shape_error(format!("`{}` with these operands", op.name()), "a primitive")),
        }
    }

    /// An operator that computes each element from those at its own place.
    fn elementwise(&mut self, op: &Op, operands: &[Bounded]) -> BuildResult<Bounded> {
        let rank = operands.iter().map(|(_, axes)| axes.len()).max().unwrap_or(0);
        let floats = operands.first().is_some_and(|(x, _)| self.b.dtype(*x).is_float());
        let mut axes = Vec::with_capacity(rank);
        for place in 0..rank {
            let mut sides: Vec<&[Digit]> = Vec::new();
            for (_, own) in operands {
                let at = (place + own.len()).checked_sub(rank);
                sides.push(at.and_then(|at| own.get(at)).map_or(&[], Vec::as_slice));
            }
            axes.push(self.met(op, floats, &sides)?);
        }
        let ids: Vec<ValueId> = operands.iter().map(|(id, _)| *id).collect();
        Ok((self.b.emit(op.clone(), &ids)?, axes))
    }

    /// Where the elements of a result lie along an axis, from where those of the operands do; a side without
    /// digits stretches.
    pub(super) fn met(&self, op: &Op, floats: bool, sides: &[&[Digit]]) -> BuildResult<Vec<Digit>> {
        let mut cut: Option<Vec<(Dim, Vec<Padding>)>> = None;
        for (number, side) in sides.iter().enumerate() {
            if side.is_empty() {
                cut.iter_mut().flatten().for_each(|(_, paddings)| paddings.push(Padding::Same));
                continue;
            }
            let Some(known) = &cut else {
                let first = |digit: &Digit| {
                    let mut paddings = vec![Padding::Same; number];
                    paddings.push(digit.padding);
                    (digit.dim.clone(), paddings)
                };
                cut = Some(side.iter().map(first).collect());
                continue;
            };
            cut = Some(self.joined(known, side)?);
        }
        let digits = cut.into_iter().flatten().map(|(dim, paddings)| {
            let padding = padding_of(op, floats, &paddings);
            Digit::new(dim, padding)
        });
        merged(digits).ok_or_else(|| shape_error("an axis that is too long", "64 bits"))
    }

    /// Digits of the operands so far, cut so that those of one more are among them.
    fn joined(&self, known: &[(Dim, Vec<Padding>)], side: &[Digit]) -> BuildResult<Vec<(Dim, Vec<Padding>)>> {
        // A digit is free to be cut if all operands so far are the same along it.
        let free = |paddings: &[Padding]| paddings.iter().all(|padding| *padding == Padding::Same);
        let own: Vec<Digit> = known
            .iter()
            .map(|(dim, paddings)| {
                let padding = if free(paddings) { Padding::Same } else { Padding::Unknown };
                Digit::new(dim.clone(), padding)
            })
            .collect();
        let pairs = aligned(&own, side).ok_or_else(|| self.misaligned(&own, side))?;
        let mut all = Vec::with_capacity(pairs.len());
        let mut sources = known.iter();
        let mut source = sources.next();
        let mut left = source.map(|(dim, _)| dim.clone());
        for (mine, theirs) in pairs {
            let mut paddings = source.map(|(_, paddings)| paddings.clone()).unwrap_or_default();
            paddings.push(theirs.padding);
            left = left.and_then(|left| left.divided(&mine.dim));
            if left.as_ref().is_none_or(|left| left.is(1)) {
                source = sources.next();
                left = source.map(|(dim, _)| dim.clone());
            }
            all.push((mine.dim, paddings));
        }
        Ok(all)
    }

    /// The same elements in row-major order under other sizes.
    fn reshape(&mut self, dims: &[Dim], (x, axes): &Bounded) -> BuildResult<Bounded> {
        let new = reshaped(axes, dims).ok_or_else(|| {
            let from: Vec<Dim> = axes.iter().map(|digits| size(digits)).collect();
            let texts = |dims: &[Dim]| {
                let all: Vec<String> = dims.iter().map(|dim| dim.text(self.axes())).collect();
                format!("[{}]", all.join(", "))
            };
            let what = format!(
                "from {} to {}: an axis would begin inside of an open one",
                texts(&from),
                texts(dims)
            );
            self.refusal(what, &open_part(axes.iter().flatten()))
        })?;
        let lengths = self.lengths(&new)?;
        Ok((self.b.reshape(*x, &lengths)?, new))
    }

    /// Sizes of 1 stretched, and new axes in front.
    fn broadcast(&mut self, dims: &[Dim], (x, axes): &Bounded) -> BuildResult<Bounded> {
        let front = dims.len().saturating_sub(axes.len());
        let mut new = Vec::with_capacity(dims.len());
        for (place, dim) in dims.iter().enumerate() {
            let own = place.checked_sub(front).and_then(|at| axes.get(at)).filter(|own| !own.is_empty());
            new.push(own.cloned().unwrap_or_else(|| plain(dim, Padding::Same)));
        }
        let lengths = self.lengths(&new)?;
        Ok((self.b.broadcast(*x, &lengths)?, new))
    }

    /// The coordinate along an axis.
    fn iota(&mut self, dtype: Dtype, dims: &[Dim], axis: usize) -> BuildResult<Bounded> {
        let digits =
            |(at, dim): (usize, &Dim)| plain(dim, if at == axis { Padding::Unknown } else { Padding::Same });
        let axes = dims.iter().enumerate().map(digits).collect();
        let lengths = self.bounds(dims)?;
        Ok((self.b.iota(dtype, &lengths, axis)?, axes))
    }

    /// A refusal of operands whose elements lie differently along an axis.
    pub(super) fn misaligned(&self, x: &[Digit], y: &[Digit]) -> Box<tilewright_base::Diagnostic> {
        let text = |digits: &[Digit]| {
            let parts: Vec<String> = digits.iter().map(|digit| digit.dim.text(self.axes())).collect();
            parts.join(" x ")
        };
        let what = format!("axes of {} and of {} meet, whose padding lies differently", text(x), text(y));
        self.refusal(what, &open_part(x.iter().chain(y)))
    }
}

/// The size of an axis.
fn size(digits: &[Digit]) -> Dim {
    Dim::product(digits.iter().map(|digit| &digit.dim)).unwrap_or_default()
}

/// The sizes of digits that are open, multiplied.
pub(super) fn open_part<'d>(digits: impl Iterator<Item = &'d Digit>) -> Dim {
    Dim::product(digits.filter(|digit| digit.is_open()).map(|digit| &digit.dim)).unwrap_or_default()
}

/// What is known of the padding of a result, from that of its operands; a stretched operand is the same
/// everywhere.
fn padding_of(op: &Op, floats: bool, operands: &[Padding]) -> Padding {
    if operands.iter().all(|padding| *padding == Padding::Same) {
        return Padding::Same;
    }
    let zero = |at: usize| operands.get(at) == Some(&Padding::Zero);
    let is_zero = match op {
        Op::Unary(unary) => keeps_zero(*unary) && zero(0),
        Op::Convert(_) => zero(0),
        Op::Binary(Binary::Add | Binary::Sub | Binary::Max | Binary::Min | Binary::Or | Binary::Xor) => {
            zero(0) && zero(1)
        }
        Op::Binary(Binary::Mul) => zero(0) && zero(1) || !floats && (zero(0) || zero(1)),
        Op::Binary(Binary::And) => zero(0) || zero(1),
        Op::Select => zero(1) && zero(2),
        _ => false,
    };
    if is_zero { Padding::Zero } else { Padding::Unknown }
}

/// Whether zero, of either sign, gives zero.
fn keeps_zero(unary: Unary) -> bool {
    matches!(
        unary,
        Unary::Neg
            | Unary::Abs
            | Unary::Sqrt
            | Unary::Sin
            | Unary::Tanh
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::RoundAway
            | Unary::Sign
    )
}
