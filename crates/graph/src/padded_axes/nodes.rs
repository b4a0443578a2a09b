//! Each primitive with operands that may have padding.

use super::content::{Content, PaddedValue, Side, neutral, number, of_elementwise, of_products};
use super::{MOST_MORE, PaddingPass, undefined};
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::ValueId;
use crate::infer::{BuildResult, Subscripts, shape_error};
use crate::op::{Fold, Op};

impl PaddingPass<'_> {
    /// A node of the padded graph, with what its axes have behind their elements.
    pub(super) fn padded_node(
        &mut self,
        op: &Op,
        inputs: &[ValueId],
        output: ValueId,
    ) -> BuildResult<PaddedValue> {
        match op {
            Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Convert(_) => {
                self.elementwise(op, inputs, output)
            }
            Op::Einsum(spec) => self.einsum(spec, inputs, output),
            Op::Reduce { fold, axes, keep } => self.reduce((*fold, axes, *keep), inputs, output),
            Op::Transpose(order) => {
                let [x] = self.one(inputs)?;
                let axes = order.iter().map(|axis| x.axes.get(*axis).copied().flatten()).collect();
                Ok(PaddedValue { id: self.b.transpose(x.id, order)?, axes })
            }
            Op::Reshape(dims) => self.reshape(dims, inputs),
            Op::Broadcast(dims) => self.broadcast(dims, inputs),
            Op::Slice { axis, .. } => self.beside(op, *axis, inputs, output),
            _ => self.as_it_was(op, inputs, output),
        }
    }

    fn one(&self, inputs: &[ValueId]) -> BuildResult<[PaddedValue; 1]> {
        Ok([self.value(*inputs.first().ok_or_else(undefined)?)?])
    }

    /// The node on operands as the graph has them.
    fn as_it_was(&mut self, op: &Op, inputs: &[ValueId], output: ValueId) -> BuildResult<PaddedValue> {
        let ids: Vec<ValueId> = inputs.iter().map(|id| self.exact(*id)).collect::<BuildResult<_>>()?;
        let rank = self.dims(output)?.len();
        Ok(PaddedValue::exact(self.b.emit(op.clone(), &ids)?, rank))
    }

    /// A node that changes one axis, which must be as it was, and leaves others alone.
    fn beside(
        &mut self,
        op: &Op,
        axis: usize,
        inputs: &[ValueId],
        output: ValueId,
    ) -> BuildResult<PaddedValue> {
        let [x] = self.one(inputs)?;
        if x.axes.get(axis).copied().flatten().is_some() {
            return self.as_it_was(op, inputs, output);
        }
        Ok(PaddedValue { id: self.b.emit(op.clone(), &[x.id])?, axes: x.axes })
    }

    /// Element by element: an axis that one operand has padded, all have padded or stretch along.
    fn elementwise(&mut self, op: &Op, inputs: &[ValueId], output: ValueId) -> BuildResult<PaddedValue> {
        let rank = self.dims(output)?.len();
        let mut operands: Vec<PaddedValue> =
            inputs.iter().map(|id| self.value(*id)).collect::<BuildResult<_>>()?;
        let mut axes = Vec::with_capacity(rank);
        for place in 0..rank {
            let at = |value: &PaddedValue| (place + value.axes.len()).checked_sub(rank);
            let padded = |value: &PaddedValue| at(value).and_then(|axis| value.axes[axis]).is_some();
            if !operands.iter().any(padded) {
                axes.push(None);
                continue;
            }
            let mut sides = Vec::with_capacity(operands.len());
            for (old, operand) in inputs.iter().zip(&mut operands) {
                let is_long = |axis: &usize| self.dims(*old).is_ok_and(|dims| !dims[*axis].is(1));
                sides.push(match at(operand).filter(is_long) {
                    Some(axis) => {
                        *operand = self.widened(*old, operand.clone(), axis)?;
                        Side::Padded(operand.axes[axis].unwrap_or(Content::Unknown))
                    }
                    None => Side::Stretched(self.number(operand.id)),
                });
            }
            axes.push(Some(of_elementwise(op, &sides)));
        }
        let ids: Vec<ValueId> = operands.iter().map(|operand| operand.id).collect();
        Ok(PaddedValue { id: self.b.emit(op.clone(), &ids)?, axes })
    }

    /// The number that a value is everywhere.
    fn number(&self, id: ValueId) -> Option<f32> {
        let is_one = self.b.dims(id).iter().all(|dim| dim.is(1));
        number(self.b.constant_data(id), is_one, self.b.dtype(id).is_float())
    }

    fn reduce(
        &mut self,
        (fold, reduced, keep): (Fold, &[usize], bool),
        inputs: &[ValueId],
        output: ValueId,
    ) -> BuildResult<PaddedValue> {
        let [x] = self.one(inputs)?;
        let op = Op::Reduce { fold, axes: reduced.to_vec(), keep };
        let padded: Vec<usize> =
            reduced.iter().copied().filter(|axis| x.axes.get(*axis).copied().flatten().is_some()).collect();
        let known = neutral(fold).filter(|_| self.b.dtype(x.id).is_float());
        let Some(wanted) = known.or_else(|| padded.is_empty().then_some(Content::Zero)) else {
            return self.as_it_was(&op, inputs, output);
        };
        for axis in padded {
            self.filled(inputs[0], axis, wanted)?;
        }
        let x = self.value(inputs[0])?;
        let left = x.axes.iter().enumerate().filter_map(|(axis, content)| match reduced.contains(&axis) {
            true => keep.then_some(None),
            false => Some(content.map(|_| Content::Unknown)),
        });
        Ok(PaddedValue { id: self.b.emit(op, &[x.id])?, axes: left.collect() })
    }

    /// Sizes of one product of axes under others: an axis with padding stays one, or is as it was.
    fn reshape(&mut self, dims: &[Dim], inputs: &[ValueId]) -> BuildResult<PaddedValue> {
        let [x] = self.one(inputs)?;
        let old = self.dims(inputs[0])?.to_vec();
        let (mut axes, mut new) = (vec![None; dims.len()], dims.to_vec());
        for (axis, content) in x.axes.iter().enumerate().filter(|(_, content)| content.is_some()) {
            let before = Dim::product(&old[..axis]);
            let same = |at: &usize| dims[*at] == old[axis] && Dim::product(&dims[..*at]) == before;
            let Some(at) = (0..dims.len()).find(same) else {
                let op = Op::Reshape(dims.to_vec());
                let exact = self.exact(inputs[0])?;
                return Ok(PaddedValue::exact(self.b.emit(op, &[exact])?, dims.len()));
            };
            axes[at] = *content;
            new[at] = Dim::fixed(self.padded_size(old[axis].as_fixed().ok_or_else(undefined)?));
        }
        Ok(PaddedValue { id: self.b.reshape(x.id, &new)?, axes })
    }

    fn broadcast(&mut self, dims: &[Dim], inputs: &[ValueId]) -> BuildResult<PaddedValue> {
        let [x] = self.one(inputs)?;
        let front = dims.len() - x.axes.len();
        let mut new = dims.to_vec();
        for (axis, _) in x.axes.iter().enumerate().filter(|(_, content)| content.is_some()) {
            new[front + axis] =
                Dim::fixed(self.padded_size(dims[front + axis].as_fixed().ok_or_else(undefined)?));
        }
        let axes = std::iter::repeat_n(None, front).chain(x.axes.iter().copied()).collect();
        Ok(PaddedValue { id: self.b.broadcast(x.id, &new)?, axes })
    }

    /// A contraction. A letter that one operand has padded, all have padded; what is summed over meets zeros.
    fn einsum(&mut self, spec: &str, inputs: &[ValueId], output: ValueId) -> BuildResult<PaddedValue> {
        let parts = Subscripts::parse(spec).ok_or_else(|| shape_error(spec, "subscripts"))?;
        let mut letters = Vec::new();
        for (old, own) in inputs.iter().zip(&parts.inputs) {
            let value = self.value(*old)?;
            let padded = own.iter().zip(&value.axes).filter(|(_, content)| content.is_some());
            letters.extend(padded.map(|(letter, _)| *letter));
        }
        let columns = self.seed(&parts, inputs, output)?;
        let rows = columns.and_then(|columns| self.rows(&parts, inputs, columns));
        for letter in columns.into_iter().chain(rows).chain(self.sum(&parts, inputs)) {
            self.seeds += usize::from(!letters.contains(&letter));
            letters.push(letter);
        }
        let mut operands = Vec::with_capacity(inputs.len());
        for (old, own) in inputs.iter().zip(&parts.inputs) {
            for (axis, letter) in own.iter().enumerate() {
                if letters.contains(letter) && !parts.output.contains(letter) {
                    self.filled(*old, axis, Content::Zero)?;
                }
            }
            let mut value = self.value(*old)?;
            for (axis, _) in own.iter().enumerate().filter(|(_, letter)| letters.contains(letter)) {
                value = self.widened(*old, value, axis)?;
            }
            operands.push(value);
        }
        let content = |letter: &u8| {
            let of = |(value, own): (&PaddedValue, &Vec<u8>)| {
                own.iter().position(|known| known == letter).and_then(|axis| value.axes[axis])
            };
            let all: Vec<Content> = operands.iter().zip(&parts.inputs).filter_map(of).collect();
            letters.contains(letter).then(|| of_products(&all))
        };
        let axes = parts.output.iter().map(content).collect();
        let ids: Vec<ValueId> = operands.iter().map(|operand| operand.id).collect();
        Ok(PaddedValue { id: self.b.einsum(spec, &ids)?, axes })
    }

    /// The letter of a contraction's rows at each position of a batch, if they are to be padded beside its
    /// columns: positions whose rows are whole blocks run together.
    fn rows(&self, parts: &Subscripts, inputs: &[ValueId], columns: u8) -> Option<u8> {
        let owner = parts.inputs.iter().position(|own| !own.contains(&columns))?;
        let (own, other) = (parts.inputs.get(owner)?, parts.inputs.get(1 - owner)?);
        let (batch, alone): (Vec<u8>, Vec<u8>) = own
            .iter()
            .filter(|letter| parts.output.contains(letter))
            .partition(|letter| other.contains(letter));
        let [letter] = alone[..] else { return None };
        let id = *inputs.get(owner)?;
        let dims = self.dims(id).ok()?;
        let size = |letter: &u8| dims.get(own.iter().position(|known| known == letter)?)?.as_fixed();
        let positions = batch.iter().try_fold(1_i64, |all, letter| all.checked_mul(size(letter)?))?;
        let rows = size(&letter)?;
        let plain = self.looked_through.get(id.index()).copied() != Some(true);
        let padded = self.padded_size(rows);
        (positions > 1 && plain && padded != rows && padded <= 2 * rows).then_some(letter)
    }

    /// The letter that a contraction sums over alone, if it is to be padded: nothing is done for that on the
    /// way.
    fn sum(&self, parts: &Subscripts, inputs: &[ValueId]) -> Option<u8> {
        let ([left, right], [x, y]) = (&parts.inputs[..], inputs) else { return None };
        let is_free = |id: &ValueId| self.free.get(id.index()).copied() == Some(true);
        let summed = |letter: &&u8| right.contains(letter) && !parts.output.contains(letter);
        let letters: Vec<u8> = left.iter().filter(summed).copied().collect();
        let [letter] = letters[..] else { return None };
        let sizes: Option<Vec<i64>> = self.dims(*x).ok()?.iter().map(Dim::as_fixed).collect();
        let sizes = sizes?;
        let size = *sizes.get(left.iter().position(|known| *known == letter)?)?;
        let is_long =
            sizes.iter().try_fold(1_i64, |all, size| all.checked_mul(*size))? >= self.units.least_elements;
        let more = self.padded_size(size) - size;
        let last = left.last() == Some(&letter) && right.last() == Some(&letter);
        (is_long && last && more > 0 && more <= size / MOST_MORE && is_free(x) && is_free(y))
            .then_some(letter)
    }

    /// The letter of a contraction's columns, if they are to be padded.
    fn seed(&self, parts: &Subscripts, inputs: &[ValueId], output: ValueId) -> BuildResult<Option<u8>> {
        let dims = self.dims(output)?;
        let sizes: Option<Vec<i64>> = dims.iter().map(Dim::as_fixed).collect();
        let (Some(sizes), Some(letter), 2) = (sizes, parts.output.last(), inputs.len()) else {
            return Ok(None);
        };
        let columns = sizes.last().copied().ok_or_else(undefined)?;
        let elements = sizes.iter().try_fold(1_i64, |all, size| all.checked_mul(*size));
        let is_long = elements.is_some_and(|elements| elements >= self.units.least_elements);
        let odd = self.padded_size(columns) != columns && self.padded_size(columns) <= 2 * columns;
        // Columns are those of one operand alone, which is no window of something.
        let owners: Vec<usize> = (0..2).filter(|at| parts.inputs[*at].contains(letter)).collect();
        let summed = |own: &Vec<u8>| own.iter().any(|letter| !parts.output.contains(letter));
        let [owner] = owners[..] else { return Ok(None) };
        let rows = parts.inputs[1 - owner].iter().any(|letter| parts.output.contains(letter));
        let plain = self.looked_through.get(inputs[owner].index()).copied() != Some(true);
        let takes = |id: &ValueId| {
            self.graph
                .value(*id)
                .is_some_and(|value| matches!(value.ty.dtype, Dtype::F32 | Dtype::Bf16 | Dtype::I8))
        };
        let is_seed =
            is_long && odd && rows && plain && parts.inputs.iter().all(summed) && inputs.iter().all(takes);
        Ok(is_seed.then_some(*letter))
    }
}
