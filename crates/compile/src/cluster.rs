//! Stage 2: a graph of operators to kernels (paper section V-C).
//!
//! Follows the residual of a model: a norm, projections of it, what becomes of them, and the combination that is added back. Projections of
//! one norm are one kernel, their heads, rotations, cache, softmax and gates are fused behind them.

use tilewright_graph::rich::{Attr, Attrs, Rich};
use tilewright_graph::{Binary, Graph, Node, Op, ValueId as Value};

use crate::CompileError;
use crate::kernel::{Activation, Axis, Heads, Kernel, Kernels, Layout, Norm, Order, ValueId, Weight};

/// What the graph must look like.
const ALLOWED: &str = "blocks of the Llama family: a norm, projections, attention or a gate, a residual sum";

/// Clusters a graph.
///
/// # Errors
/// A node that no kernel takes.
pub fn cluster(graph: &Graph) -> Result<Kernels, CompileError> {
    let mut walk = Walk { graph, out: Kernels { name: graph.name.clone(), ..Kernels::default() }, layer: 0 };
    let mut residual = walk.embed()?;
    while let Some(next) = walk.block(residual)? {
        residual = next;
    }
    Ok(walk.out)
}

/// A residual: its value in the graph, and as a kernel's result.
type Residual = (Value, ValueId);

struct Walk<'g> {
    graph: &'g Graph,
    out: Kernels,
    layer: usize,
}

/// How a projection reaches an attention.
struct Reaches {
    attention: usize,
    operand: usize,
    rope: Option<(Value, Value, bool)>,
}

impl Walk<'_> {
    fn refuse<T>(&self, value: Value, why: &str) -> Result<T, CompileError> {
        let node = self.graph.value(value).map_or(String::new(), |value| value.name.clone());
        Err(CompileError::Node { node, why: why.to_string(), allowed: ALLOWED })
    }

    fn name(&self, value: Value) -> String {
        self.graph.value(value).map_or(String::new(), |value| value.name.clone())
    }

    fn dims(&self, value: Value) -> Vec<Option<u64>> {
        let dims = self.graph.value(value).map(|value| value.ty.dims.clone()).unwrap_or_default();
        dims.iter().map(|dim| dim.as_fixed().and_then(|size| u64::try_from(size).ok())).collect()
    }

    fn last_dim(&self, value: Value) -> Result<u64, CompileError> {
        match self.dims(value).last() {
            Some(Some(size)) if *size > 0 => Ok(*size),
            _ => self.refuse(value, "its width is not a number"),
        }
    }

    fn users(&self, value: Value) -> impl Iterator<Item = &Node> {
        self.graph.nodes.iter().filter(move |node| node.inputs.contains(&Some(value)))
    }

    fn maker(&self, value: Value) -> Option<&Node> {
        self.graph.nodes.iter().find(|node| node.outputs.contains(&value))
    }

    fn is_tokens(&self, value: Option<Value>) -> bool {
        value.is_some_and(|value| ["tokens", "input_ids"].contains(&self.name(value).as_str()))
    }

    /// The embedding: rows of a table by token.
    fn embed(&mut self) -> Result<Residual, CompileError> {
        let found = self.graph.nodes.iter().find(|node| {
            matches!(node.op, Op::Gather { axis: 0 }) && self.is_tokens(node.inputs.get(1).copied().flatten())
        });
        let Some((table, value)) =
            found.and_then(|node| Some((node.inputs.first()?.as_ref()?, node.outputs.first()?)))
        else {
            return Err(CompileError::Node {
                node: self.graph.name.clone(),
                why: "no table is gathered by the input `tokens`".to_string(),
                allowed: ALLOWED,
            });
        };
        let dims = self.dims(*table);
        let (Some(Some(vocabulary)), Some(Some(width))) = (dims.first(), dims.get(1)) else {
            return self.refuse(*table, "its sizes are not numbers");
        };
        self.out.vocabulary = *vocabulary;
        let out = self.out.add(self.name(*value), *width, Layout::Features);
        self.out.kernels.push(Kernel::Embed { table: self.name(*table), out });
        Ok((*value, out))
    }

    /// What follows a residual; `None` behind the logits.
    fn block(&mut self, (x, id): Residual) -> Result<Option<Residual>, CompileError> {
        let norm = self.users(x).find(|node| matches!(node.op, Op::Rich(Rich::RmsNorm, _))).cloned();
        let Some(norm) = norm else { return self.refuse(x, "no norm follows this residual") };
        let Op::Rich(_, attrs) = &norm.op else { return Ok(None) };
        let (Some(gain), Some(&normal)) = (norm.inputs.get(1).copied().flatten(), norm.outputs.first())
        else {
            return self.refuse(x, "its norm has no gain");
        };
        let width = self.last_dim(x)?;
        let out = self.out.add(self.name(normal), width, Layout::Features);
        let epsilon = float(attrs, "eps").unwrap_or(1e-5);
        let gain = self.name(gain);
        self.out.kernels.push(Kernel::Norm { norm: Norm::Rms, input: id, gain, bias: None, epsilon, out });
        let mut projections = Vec::new();
        for node in self.users(normal) {
            projections.push(self.linear(node)?);
        }
        match projections.len() {
            1 => self.head(out, &projections),
            2 => self.gate(out, &projections, (x, id)).map(Some),
            3 => self.attention(out, &projections, (x, id)).map(Some),
            _ => self.refuse(normal, "it has neither one projection, two nor three"),
        }
    }

    /// A projection: its weight and its result.
    fn linear(&self, node: &Node) -> Result<(Weight, Value), CompileError> {
        let out = node.outputs.first().copied().unwrap_or(Value(0));
        let weight = node.inputs.get(1).copied().flatten();
        let (Op::Einsum(spec), Some(weight)) = (&node.op, weight) else {
            return self.refuse(out, "it is no projection");
        };
        let dims = self.dims(weight);
        let (true, [Some(rows), Some(columns)]) = (spec == "bse,fe->bsf", dims.as_slice()) else {
            return self.refuse(out, "it is no projection by a matrix");
        };
        let weight = Weight {
            name: self.name(weight),
            rows: Axis { size: *rows, order: Order::Plain, parts: 1 },
            columns: Axis { size: *columns, order: Order::Plain, parts: 1 },
            bias: None,
        };
        Ok((weight, out))
    }

    fn head(&mut self, input: ValueId, found: &[(Weight, Value)]) -> Result<Option<Residual>, CompileError> {
        let Some((weight, logits)) = found.first() else { return Ok(None) };
        if !self.graph.outputs.iter().any(|output| output.value == *logits) {
            return self.refuse(*logits, "one projection alone must be the logits");
        }
        self.out.kernels.push(Kernel::Head { input, weight: weight.clone() });
        Ok(None)
    }

    /// `silu(gate) * up`, combined.
    fn gate(
        &mut self,
        input: ValueId,
        found: &[(Weight, Value)],
        x: Residual,
    ) -> Result<Residual, CompileError> {
        let silu = |value: Value| {
            let node = self.users(value).find(|node| matches!(node.op, Op::Rich(Rich::Silu, _)))?;
            node.outputs.first().copied()
        };
        let gate = found.iter().position(|(_, value)| silu(*value).is_some());
        let Some(gate) = gate else { return self.refuse(found[0].1, "no `silu` follows either projection") };
        let (gate, up) = (&found[gate], &found[1 - gate]);
        let active = silu(gate.1).unwrap_or(gate.1);
        let product = self
            .users(active)
            .find(|node| node.op == Op::Binary(Binary::Mul) && node.inputs.contains(&Some(up.1)));
        let Some(product) = product.and_then(|node| node.outputs.first().copied()) else {
            return self.refuse(active, "it is not multiplied by the other projection");
        };
        let width = gate.0.rows.size;
        let rows = self.out.add(format!("{}.rows", self.name(gate.1)), 2 * width, Layout::Rows);
        self.out.kernels.push(Kernel::Project {
            input,
            parts: vec![gate.0.clone(), up.0.clone()],
            out: rows,
        });
        let out = self.out.add(self.name(product), width, Layout::Rows);
        self.out.kernels.push(Kernel::Activate { input: rows, activation: Activation::GatedSilu, out });
        self.combine(product, out, Order::Plain, x)
    }

    /// The projection of rows that is added to the residual.
    fn combine(
        &mut self,
        rows: Value,
        input: ValueId,
        order: Order,
        (x, id): Residual,
    ) -> Result<Residual, CompileError> {
        let Some(node) = self.users(rows).next() else { return self.refuse(rows, "nothing uses it") };
        let (mut weight, value) = self.linear(node)?;
        weight.columns.order = order;
        let sum = self
            .users(value)
            .find(|node| node.op == Op::Binary(Binary::Add) && node.inputs.contains(&Some(x)));
        let Some(sum) = sum.and_then(|node| node.outputs.first().copied()) else {
            return self.refuse(value, "it is not added to the residual");
        };
        let out = self.out.add(self.name(sum), weight.rows.size, Layout::Features);
        self.out.kernels.push(Kernel::Combine { input, weight, residual: id, out });
        Ok((sum, out))
    }

    fn attention(
        &mut self,
        input: ValueId,
        found: &[(Weight, Value)],
        x: Residual,
    ) -> Result<Residual, CompileError> {
        let mut parts: [Option<(Weight, Reaches)>; 3] = [None, None, None];
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
        let scale = self.check_attention(&node, heads.depth)?;
        let interleaved = q_way.rope.is_some_and(|(_, _, interleaved)| interleaved);
        let order = |group, slots, interleaved| Order::Heads {
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
        let cache = self.layer;
        self.layer += 1;
        self.out.caches = self.layer;
        let width = heads.query_width() + 2 * heads.kv_width();
        let rows = self.out.add(format!("layer{cache}.qkv"), width, Layout::Rows);
        self.out.kernels.push(Kernel::Project { input, parts: vec![q, k, v], out: rows });
        let queries = self.out.add(format!("layer{cache}.q"), heads.query_width(), Layout::Rows);
        self.out.kernels.push(Kernel::Rotate { input: rows, heads, tables, cache, out: queries });
        let attended = node.outputs.first().copied().unwrap_or(Value(0));
        let out = self.out.add(self.name(attended), heads.query_width(), Layout::Rows);
        self.out.kernels.push(Kernel::Attend { input: queries, heads, cache, scale, out });
        let joined = self.joined(attended)?;
        self.combine(joined, out, order(heads.group, heads.slots, false), x)
    }

    /// Through heads, rotation and cache to an attention.
    fn follow(&self, from: Value) -> Result<Reaches, CompileError> {
        let (mut value, mut rope) = (from, None);
        for _ in 0..8 {
            let mut next = None;
            for (index, node) in self.graph.nodes.iter().enumerate() {
                let Some(operand) = node.inputs.iter().position(|input| *input == Some(value)) else {
                    continue;
                };
                match &node.op {
                    Op::Rich(Rich::Attention, _) => return Ok(Reaches { attention: index, operand, rope }),
                    Op::Rich(Rich::Rope, attrs) if operand == 0 && !attrs.0.contains_key("dims") => {
                        let tables =
                            (node.inputs.get(1).copied().flatten(), node.inputs.get(2).copied().flatten());
                        if let (Some(cos), Some(sin)) = tables {
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

    fn heads(&self, node: &Node) -> Result<Heads, CompileError> {
        let operand = |at: usize| node.inputs.get(at).copied().flatten().unwrap_or(Value(0));
        let (q, k) = (self.dims(operand(0)), self.dims(operand(1)));
        let (Some(Some(heads)), Some(Some(kv)), Some(Some(depth))) = (q.get(1), k.get(1), q.get(3)) else {
            return self.refuse(operand(0), "heads and their width are not numbers");
        };
        if *kv == 0 || !heads.is_multiple_of(*kv) || !depth.is_multiple_of(8) {
            return self
                .refuse(operand(0), "heads do not share keys evenly, or their width is no multiple of 8");
        }
        let group = heads / kv;
        Ok(Heads { kv: *kv, group, slots: group.next_power_of_two(), depth: *depth })
    }

    /// The scale; the mask must be causal.
    fn check_attention(&self, node: &Node, depth: u64) -> Result<f32, CompileError> {
        let value = node.outputs.first().copied().unwrap_or(Value(0));
        let Op::Rich(_, attrs) = &node.op else { return self.refuse(value, "it is no attention") };
        let mask = node.inputs.get(3).copied().flatten();
        let causal = mask.and_then(|mask| self.maker(mask)).is_some_and(|node| {
            let first = node.inputs.first().copied().flatten().and_then(|value| self.maker(value));
            node.op == Op::Binary(Binary::Le) && first.is_some_and(|node| matches!(node.op, Op::Iota { .. }))
        });
        if !causal || attrs.0.contains_key("softcap") {
            return self.refuse(value, "its mask is not `positions of keys <= positions of queries`");
        }
        #[expect(clippy::cast_precision_loss, reason = "a small whole number")]
        let usual = 1.0 / (depth as f32).sqrt();
        Ok(float(attrs, "scale").unwrap_or(usual))
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

    /// Heads side by side again.
    fn joined(&self, attended: Value) -> Result<Value, CompileError> {
        let mut value = attended;
        for _ in 0..2 {
            let next = self.users(value).find(|node| matches!(node.op, Op::Transpose(_) | Op::Reshape(_)));
            match next.and_then(|node| node.outputs.first().copied()) {
                Some(next) => value = next,
                None => return self.refuse(value, "heads are not joined"),
            }
        }
        Ok(value)
    }
}

fn float(attrs: &Attrs, name: &str) -> Option<f32> {
    match attrs.0.get(name) {
        Some(Attr::Float(pattern)) => Some(f32::from_bits(*pattern)),
        _ => None,
    }
}

fn int(attrs: &Attrs, name: &str) -> Option<i64> {
    match attrs.0.get(name) {
        Some(Attr::Int(value)) => Some(*value),
        _ => None,
    }
}
