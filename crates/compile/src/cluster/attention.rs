//! Three projections, the attention that they lead to, and its combination: what encoders and decoders share.

use tilewright_graph::rich::RichOp;
use tilewright_graph::{Binary, Node, Op, ValueId as Value};

use super::clusterer::{Clusterer, Projection, Residual, int, operand, result};
use crate::CompileError;
use crate::kernel::{AxisOrder, Kernel, ValueId, ValueLayout, WeightMatrix};

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    /// Those up to its own position.
    Causal,
    /// All that have a token.
    Tokens,
}

/// Operators between a projection and its attention, at most.
const FAR: usize = 16;

/// How a projection reaches an attention.
struct AttentionPath {
    attention: usize,
    operand: usize,
    rope: Option<(Value, Value, bool)>,
}

impl Clusterer<'_> {
    /// Projections, heads, rotations, cache, softmax and the combination.
    pub(super) fn attention(
        &mut self,
        input: ValueId,
        found: &[Projection],
        x: Residual,
        mask: Mask,
    ) -> Result<Residual, CompileError> {
        let mut parts: [Option<(WeightMatrix, AttentionPath)>; 3] = [None, None, None];
        for (weight, value) in found {
            let reaches = self.follow(*value)?;
            let operand = reaches.operand;
            if operand < 3 {
                parts[operand] = Some((weight.clone(), reaches));
            }
        }
        let [Some((mut q, q_way)), Some((mut k, k_way)), Some((mut v, v_way))] = parts else {
            return self.refuse(found[0].1, "the projections are not query, key and value of one attention");
        };
        if q_way.attention != k_way.attention || k_way.attention != v_way.attention {
            return self.refuse(found[0].1, "the projections lead to several attentions");
        }
        let node = self.graph.nodes[q_way.attention].clone();
        let heads = self.heads(&node)?;
        let scale = self.scale(&node, heads.depth)?;
        self.check_mask(&node, mask)?;
        let interleaved = q_way.rope.is_some_and(|(_, _, interleaved)| interleaved);
        let order = |group, slots, interleaved| AxisOrder::Heads {
            groups: heads.kv,
            group,
            slots,
            depth: heads.depth,
            interleaved,
        };
        q.rows.order = order(heads.group, heads.slots, interleaved);
        k.rows.order = order(1, 1, interleaved);
        v.rows.order = order(1, 1, false);
        let tables = match q_way.rope {
            Some((cos, sin, _)) => Some((self.table(cos)?, self.table(sin)?)),
            None => None,
        };
        let (cache, causal) = (self.layer, mask == Mask::Causal);
        self.layer += 1;
        self.out.caches = self.layer;
        let width = heads.query_width() + 2 * heads.kv_width();
        let rows = self.out.add(format!("layer{cache}.qkv"), width, ValueLayout::Rows);
        self.out.kernels.push(Kernel::Project { input, parts: vec![q, k, v], out: rows });
        let queries = self.out.add(format!("layer{cache}.q"), heads.query_width(), ValueLayout::Rows);
        self.out.kernels.push(Kernel::Rotate { input: rows, heads, tables, cache, out: queries });
        let attended = node.outputs.first().copied().unwrap_or(Value(0));
        let out = self.out.add(self.name(attended), heads.query_width(), ValueLayout::Rows);
        self.out.kernels.push(Kernel::Attend { input: queries, heads, cache, scale, causal, out });
        let joined = self.joined(attended)?;
        self.combine(joined, out, order(heads.group, heads.slots, false), x)
    }

    /// Through heads, rotation and cache to an attention.
    fn follow(&self, from: Value) -> Result<AttentionPath, CompileError> {
        let (mut value, mut rope) = (from, None);
        for _ in 0..FAR {
            let mut next = None;
            // A cache leaves the graph too; attention comes first.
            let mut users: Vec<(usize, &Node)> = self.uses(value).collect();
            users.sort_by_key(|(_, node)| !matches!(node.op, Op::Rich(RichOp::Attention, _)));
            for (index, node) in users {
                let Some(operand) = node.inputs.iter().position(|input| *input == Some(value)) else {
                    continue;
                };
                match &node.op {
                    Op::Rich(RichOp::Attention, _) => {
                        return Ok(AttentionPath { attention: index, operand, rope });
                    }
                    Op::Rich(RichOp::Rope, attrs) if operand == 0 && int(attrs, "dims").unwrap_or(0) == 0 => {
                        if let (Some(cos), Some(sin)) =
                            (super::clusterer::operand(node, 1), super::clusterer::operand(node, 2))
                        {
                            rope = Some((cos, sin, int(attrs, "interleaved").unwrap_or(0) != 0));
                            next = node.outputs.first().copied();
                        }
                    }
                    Op::Reshape(_) | Op::Transpose(_) | Op::Concat { axis: 2 } => {
                        next = node.outputs.first().copied();
                    }
                    _ => {}
                }
                if next.is_some() {
                    break;
                }
            }
            match next {
                Some(next) => value = next,
                None => break,
            }
        }
        self.refuse(from, "it leads to no attention")
    }

    /// The mask must be the one that templates have.
    fn check_mask(&self, node: &Node, wanted: Mask) -> Result<(), CompileError> {
        let value = result(node).unwrap_or(Value(0));
        let mask = operand(node, 3).and_then(|mask| self.bare(mask));
        let made = mask.and_then(|mask| self.maker(mask));
        match wanted {
            Mask::Causal => {
                let places = made.and_then(|node| operand(node, 0)).and_then(|value| self.bare(value));
                let counts = places.and_then(|value| self.maker(value));
                let counts = counts.is_some_and(|node| matches!(node.op, Op::Iota { .. }));
                if counts && made.is_some_and(|node| node.op == Op::Binary(Binary::Le)) {
                    return Ok(());
                }
                self.refuse(value, "its mask is not `positions of keys <= positions of queries`")
            }
            Mask::Tokens => {
                let input = made.and_then(|node| operand(node, 0));
                let differs = made.is_some_and(|node| node.op == Op::Binary(Binary::Ne));
                if differs && self.is_input(input, &["mask", "attention_mask"]) {
                    return Ok(());
                }
                self.refuse(value, "its mask is not where the input `mask` has a token")
            }
        }
    }

    /// What a value was before its axes were arranged.
    fn bare(&self, mut value: Value) -> Option<Value> {
        for _ in 0..8 {
            match self.maker(value) {
                Some(Node { op: Op::Reshape(_) | Op::Broadcast(_), inputs, .. }) => {
                    value = inputs.first().copied().flatten()?;
                }
                _ => return Some(value),
            }
        }
        None
    }

    /// The table that angles were gathered from.
    fn table(&mut self, mut value: Value) -> Result<String, CompileError> {
        for _ in 0..4 {
            let Some(node) = self.maker(value) else { break };
            let Some(source) = node.inputs.first().copied().flatten() else { break };
            match node.op {
                Op::Reshape(_) => value = source,
                Op::Gather { axis: 0 } => {
                    let positions = self.dims(source).first().copied().flatten().unwrap_or(0);
                    self.out.positions = positions;
                    return Ok(self.name(source));
                }
                _ => break,
            }
        }
        self.refuse(value, "angles are not rows of a table by position")
    }
}
