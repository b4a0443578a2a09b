//! Values of f8e4m3 on the chip. Only the cast engine rounds to them, on the way to memory (vISA book, cast
//! engine). So a conversion to f8e4m3 leaves its operand as it is where nothing but contractions of f8e4m3
//! reads it, which take it through the cast engine anyway; elsewhere it is written narrow and read as words
//! again.

use tilewright_graph::{Dtype, Node, Op, Subscripts, ValueId};
use tilewright_reference::{Elements, float8};

use super::form::{Former, Held};
use super::kernel::{Origin, Packing, Work};
use super::refusal::Lowered;
use super::view::View;

/// Nodes behind one another that are looked at, at most.
const MOST_NODES: u32 = 16;

impl Former<'_> {
    fn dtype(&self, id: ValueId) -> Option<Dtype> {
        self.graph.value(id).map(|value| value.ty.dtype)
    }

    /// Whether a conversion is from f8e4m3 or to it.
    pub(super) fn is_float8_convert(&self, from: ValueId, to: Dtype) -> bool {
        to == Dtype::F8E4M3 || self.dtype(from) == Some(Dtype::F8E4M3)
    }

    /// A conversion from f8e4m3 or to it.
    pub(super) fn converted_float8(&mut self, node: &Node, name: &str, from: ValueId) -> Lowered<View> {
        let (Op::Convert(to), [out]) = (&node.op, &node.outputs[..]) else {
            return Err("no conversion".to_string());
        };
        let own = self.dtype(from).ok_or("no operand")?;
        match (own, *to) {
            (Dtype::F8E4M3, Dtype::F32 | Dtype::F8E4M3) => {
                let view = self.view(from)?;
                if self.only_contracted(*out, MOST_NODES) { Ok(view) } else { self.rounded(&view, name) }
            }
            (Dtype::F8E4M3, to) => Err(format!("a conversion of f8e4m3 to {to}; to f32 there is one")),
            (own, _) if own.is_float() => self.view(from),
            (own, _) => Err(format!("a conversion of {own} to f8e4m3; of f32 there is one")),
        }
    }

    /// Refuses arithmetic of f8e4m3: its words may not be rounded yet.
    pub(super) fn refuse_float8(&self, node: &Node) -> Lowered<()> {
        let computes = matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Reduce { .. } | Op::Einsum(_));
        let own = |id: &ValueId| self.dtype(*id) == Some(Dtype::F8E4M3);
        if computes && node.inputs.iter().flatten().any(own) {
            return Err("arithmetic of f8e4m3: the vector engine computes in f32".to_string());
        }
        Ok(())
    }

    /// Whether every element of a value is a number of f8e4m3.
    pub(super) fn is_float8(&self, id: ValueId) -> bool {
        self.is_float8_within(id, MOST_NODES)
    }

    fn is_float8_within(&self, id: ValueId, left: u32) -> bool {
        if let Ok(Held::Known(tensor)) = self.held(Some(id)) {
            let same = |value: &f32| float8::rounded(*value).to_bits() == value.to_bits();
            return matches!(&tensor.elements, Elements::Floats(values) if values.iter().all(same));
        }
        if self.dtype(id) == Some(Dtype::F8E4M3) {
            return true;
        }
        let maker = self.makers.get(id.index()).copied().flatten();
        let (Some(node), Some(left)) = (maker.and_then(|at| self.graph.nodes.get(at)), left.checked_sub(1))
        else {
            return false;
        };
        let mut operands = node.inputs.iter().flatten();
        match &node.op {
            Op::Convert(Dtype::F32)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice { .. }
            | Op::Window { .. } => operands.next().is_some_and(|from| self.is_float8_within(*from, left)),
            Op::Pad { .. } | Op::Concat { .. } => operands.all(|from| self.is_float8_within(*from, left)),
            _ => false,
        }
    }

    /// Whether nothing but contractions of f8e4m3 reads a value.
    fn only_contracted(&self, id: ValueId, left: u32) -> bool {
        let given = self.graph.outputs.iter().any(|output| output.value == id);
        let Some(left) = left.checked_sub(1).filter(|_| !given) else { return false };
        let mut readers = self.graph.nodes.iter().filter(|node| node.inputs.contains(&Some(id)));
        readers.all(|node| match (&node.op, node.outputs.first()) {
            (
                Op::Reshape(_)
                | Op::Transpose(_)
                | Op::Broadcast(_)
                | Op::Slice { .. }
                | Op::Window { .. }
                | Op::Pad { .. }
                | Op::Convert(Dtype::F32 | Dtype::F8E4M3),
                Some(out),
            ) => self.only_contracted(*out, left),
            (Op::Einsum(_), Some(out)) => {
                let operands: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
                let packing = self.dtype(*out).map(|dtype| self.multiplied(dtype, &operands));
                operands.len() == 2 && packing == Some(Ok(Packing::Float8))
            }
            _ => false,
        })
    }

    /// Elements of a view as words that are rounded to f8e4m3.
    pub(super) fn rounded(&mut self, view: &View, name: &str) -> Lowered<View> {
        let of = &self.all.values[view.value];
        let exact = of.dtype == Dtype::F8E4M3 && of.origin == Origin::Input;
        if exact || matches!(of.origin, Origin::Constant(_)) {
            return Ok(view.clone());
        }
        let plain = self.plain(view, &format!("{name}.words"))?;
        let narrow = self.narrow(plain, Packing::Float8);
        let inputs = vec![View::whole(narrow, &view.dims())];
        let work = Work::Chain { inputs, lines: Vec::new(), streams: vec![0] };
        Ok(View::whole(self.made(name, &view.dims(), Dtype::F32, work), &view.dims()))
    }
}

/// Whether an operand alone sums over a letter: then it is summed before it is multiplied, and what comes of
/// it is no f8e4m3.
pub(super) fn sums_alone(parsed: &Subscripts) -> bool {
    let [a, b] = &parsed.inputs[..] else { return false };
    let alone = |own: &[u8], other: &[u8]| {
        own.iter().any(|letter| !other.contains(letter) && !parsed.output.contains(letter))
    };
    alone(a, b) || alone(b, a)
}
