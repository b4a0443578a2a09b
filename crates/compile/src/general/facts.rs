//! What a graph says of values before they are computed: which are whole numbers, and between which bounds
//! they lie. Conversions of such values take fewer steps.

use tilewright_graph::{Binary, Dtype, Node, Op, Unary, ValueId};
use tilewright_reference::Elements;

use super::elementwise::Known;
use super::form::{Former, Held};
use super::kernel::Packing;
use super::refusal::Lowered;

/// Nodes behind one another that are looked at, at most.
const MOST_NODES: u32 = 16;

impl Former<'_> {
    /// The node that makes a value.
    fn maker(&self, id: ValueId) -> Option<&Node> {
        self.graph.nodes.get(self.makers.get(id.index()).copied().flatten()?)
    }

    /// The operand of a conversion to another type, with what is known of it: rounding before it is part of
    /// it, as the vector engine rounds where it converts.
    pub(super) fn converted(&self, id: ValueId, to: Dtype) -> (ValueId, Known) {
        let rounded = self.maker(id).filter(|node| node.op == Op::Unary(Unary::RoundAway));
        let before = rounded.and_then(|node| node.inputs.first().copied().flatten());
        let rounds = before.is_some() || self.is_whole_number(id, MOST_NODES);
        let fits = self.fits(id, to);
        (before.unwrap_or(id), Known { rounds, fits })
    }

    /// What a contraction of two operands multiplies: bf16 for floats, f8e4m3 where all are such numbers,
    /// bytes for sums in i32 of integers that all fit them.
    pub(super) fn multiplied(&self, dtype: Dtype, operands: &[ValueId]) -> Lowered<Packing> {
        match dtype {
            Dtype::F32 if operands.iter().all(|id| self.is_float8(*id)) => Ok(Packing::Float8),
            Dtype::F32 => Ok(Packing::Half),
            Dtype::I32 if operands.iter().all(|id| self.fits_bytes(*id)) => Ok(Packing::Byte),
            Dtype::I32 => Err("sums of products of i32: the contraction engine takes integers of i8, \
                               converted to i32, and f32 as bf16"
                .to_string()),
            _ => Err(format!(
                "sums of products of {dtype}: the contraction engine takes f32 as bf16, and i8 converted to \
                 i32"
            )),
        }
    }

    /// Whether all elements of an operand are integers of i8.
    pub(super) fn fits_bytes(&self, id: ValueId) -> bool {
        let byte = |value: &i64| i8::try_from(*value).is_ok();
        match self.held(Some(id)) {
            Ok(Held::Known(tensor)) => match &tensor.elements {
                Elements::Ints(values) => values.iter().all(byte),
                Elements::Floats(_) => false,
            },
            _ => self.is_whole_number(id, MOST_NODES) && self.fits(id, Dtype::I8),
        }
    }

    /// Whether a value is one of i4, or such a value converted and placed.
    pub(super) fn is_four_bits(&self, id: ValueId) -> bool {
        let mut at = id;
        for _ in 0..MOST_NODES {
            if self.graph.value(at).is_some_and(|value| value.ty.dtype == Dtype::I4) {
                return true;
            }
            let Some(node) = self.maker(at) else { return false };
            let places = matches!(
                node.op,
                Op::Convert(_) | Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) | Op::Slice { .. }
            );
            match node.inputs.first().copied().flatten().filter(|_| places) {
                Some(before) => at = before,
                None => return false,
            }
        }
        false
    }

    /// Whether all elements are in the range of an integer type.
    #[expect(
        clippy::cast_precision_loss,
        reason = "types of at most 32 bits are exact, others are not asked"
    )]
    fn fits(&self, id: ValueId, to: Dtype) -> bool {
        let Some((least, most)) = to.integer_range().filter(|_| to.bits() <= 32) else { return false };
        let (low, high) = self.bounds(id, MOST_NODES);
        low >= least as f64 && high <= most as f64
    }

    /// The number that all elements of a constant are.
    fn number(&self, id: ValueId) -> Option<f64> {
        let Held::Known(tensor) = self.held(Some(id)).ok()? else { return None };
        match &tensor.elements {
            Elements::Floats(values) => {
                let first = *values.first()?;
                values.iter().all(|value| value.to_bits() == first.to_bits()).then(|| f64::from(first))
            }
            Elements::Ints(values) => {
                let first = *values.first()?;
                let same = values.iter().all(|value| *value == first);
                i32::try_from(first).ok().filter(|_| same).map(f64::from)
            }
        }
    }

    fn is_whole_number(&self, id: ValueId, left: u32) -> bool {
        if self.graph.value(id).is_some_and(|value| !value.ty.dtype.is_float()) {
            return true;
        }
        if let Some(number) = self.number(id) {
            return number.fract() == 0.0;
        }
        let (Some(node), Some(left)) = (self.maker(id), left.checked_sub(1)) else { return false };
        let operands = || node.inputs.iter().flatten();
        match &node.op {
            Op::Unary(Unary::Round | Unary::RoundAway | Unary::Floor | Unary::Ceil) => true,
            Op::Unary(Unary::Neg | Unary::Abs)
            | Op::Binary(Binary::Max | Binary::Min | Binary::Add | Binary::Sub)
            | Op::Convert(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_) => operands().all(|id| self.is_whole_number(*id, left)),
            _ => false,
        }
    }

    /// The least and the greatest that an element can be, as far as is known.
    fn bounds(&self, id: ValueId, left: u32) -> (f64, f64) {
        let (low, high) = self.typed(id);
        if let Some(number) = self.number(id) {
            return (number, number);
        }
        let (Some(node), Some(left)) = (self.maker(id), left.checked_sub(1)) else { return (low, high) };
        let of = |at: usize| match node.inputs.get(at).copied().flatten() {
            Some(id) => self.bounds(id, left),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        };
        let (own_low, own_high) = match &node.op {
            Op::Binary(op @ (Binary::Max | Binary::Min)) => {
                let (a, b) = (of(0), of(1));
                if *op == Binary::Max { (a.0.max(b.0), a.1.max(b.1)) } else { (a.0.min(b.0), a.1.min(b.1)) }
            }
            Op::Unary(Unary::Round | Unary::RoundAway) => {
                let (low, high) = of(0);
                (low.round(), high.round())
            }
            // An integer that does not fit wraps: then nothing is known but the type.
            Op::Convert(_) => match of(0) {
                own if own.0 < low || own.1 > high => return (low, high),
                own => own,
            },
            Op::Binary(op @ (Binary::Add | Binary::Sub)) if low.is_finite() => {
                let (a, b) = (of(0), of(1));
                let own = if *op == Binary::Add { (a.0 + b.0, a.1 + b.1) } else { (a.0 - b.1, a.1 - b.0) };
                if own.0 < low || own.1 > high {
                    return (low, high);
                }
                own
            }
            Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice { .. }
            | Op::Window { .. }
            | Op::Gather { .. } => of(0),
            Op::Pad { .. } | Op::Concat { .. } => {
                let all = (0..node.inputs.len()).map(of);
                all.fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)))
            }
            _ => return (low, high),
        };
        (own_low.max(low), own_high.min(high))
    }

    /// Bounds of a type.
    #[expect(clippy::cast_precision_loss, reason = "types of at most 32 bits are exact")]
    fn typed(&self, id: ValueId) -> (f64, f64) {
        let dtype = self.graph.value(id).map_or(Dtype::F32, |value| value.ty.dtype);
        match dtype.integer_range().filter(|_| dtype.bits() <= 32) {
            Some((least, most)) => (least as f64, most as f64),
            None => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}
