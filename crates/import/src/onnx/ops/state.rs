//! Layers that pass a state on: convolutions over what came before, and attention whose keys and values are
//! summed up in a matrix, step by step.

use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Binary, BuildResult, Builder, Dim, Dtype, Unary, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;
use crate::onnx::ops::unrolled::steps_fit;

/// Each channel with its own window over the elements before; the last elements are the next state.
pub(super) fn causal_conv(call: &mut Call<'_, '_>) -> Outputs {
    let (x, weight, bias, past) = (call.input(0)?, call.input(1)?, call.maybe(2), call.maybe(3));
    let is_silu = match call.word("activation", "none").as_str() {
        "none" => false,
        "silu" | "swish" => true,
        other => {
            return Err(call.refuse(format!("`activation` is `{other}`")).allowed("none, silu, swish"));
        }
    };
    let width = call.reader.b.dims(weight).get(2).and_then(Dim::as_fixed).filter(|width| *width > 0);
    let channels = call.reader.b.dims(x).get(1).and_then(Dim::as_fixed);
    let (Some(width), Some(channels), 3) = (width, channels, call.reader.b.rank(x)) else {
        return Err(call
            .refuse("a signal or weights of other axes")
            .allowed("[batch, channels, length] and [channels, 1, width], channels and width fixed"));
    };
    let before = width - 1;
    let (padded, present) = call.build(|b| {
        let padded = match past {
            Some(past) => b.concat(2, &[past, x])?,
            None => {
                let zero = b.scalar(b.dtype(x), 0.0)?;
                b.pad(x, 2, before.into(), 0.into(), zero)?
            }
        };
        let start = b.dim(x, 2)?;
        Ok((padded, b.slice(padded, 2, start, before.into(), 1)?))
    })?;
    let attrs = Attrs::default().ints("strides", &[1]).int("groups", channels);
    let y = call.rich_on(RichOp::Conv, &[Some(padded), Some(weight), bias], attrs)?;
    let y = y.first().copied().unwrap_or(x);
    let y = call.build(|b| {
        if !is_silu {
            return Ok(y);
        }
        let wide = b.convert(y, Dtype::F32)?;
        let gate = b.unary(Unary::Sigmoid, wide)?;
        let product = b.mul(wide, gate)?;
        b.convert(product, b.dtype(y))
    })?;
    Ok(vec![y, present])
}

/// How the state changes with each step.
#[derive(Clone, Copy)]
struct Rule {
    decays: bool,
    /// Whether what the state already gives for a key is taken off the value.
    is_delta: bool,
}

/// The operands of all steps in f32: `[batch, steps, heads, width]`.
struct Steps {
    q: ValueId,
    k: ValueId,
    v: ValueId,
    decay: Option<ValueId>,
    beta: Option<ValueId>,
    group: i64,
    scale: f64,
}

fn rule(call: &Call<'_, '_>) -> ImportResult<Rule> {
    let (decays, is_delta) = match call.word("update_rule", "gated_delta").as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let what = format!("`update_rule` is `{other}`");
            return Err(call.refuse(what).allowed("linear, gated, delta, gated_delta"));
        }
    };
    for (at, is_needed) in [(4, decays), (5, is_delta)] {
        if is_needed {
            call.input(at)?;
        }
    }
    Ok(Rule { decays, is_delta })
}

/// `[batch, steps, heads * width]` as `[batch, steps, heads, width]`, in f32.
fn headed(call: &mut Call<'_, '_>, x: ValueId, heads: i64) -> ImportResult<ValueId> {
    let dims = call.reader.b.dims(x).to_vec();
    let width = match &dims[..] {
        [_, _, width] if heads > 0 => width.divided(&Dim::fixed(heads)),
        _ => None,
    };
    let width = width.ok_or_else(|| {
        call.refuse(format!("{heads} heads that do not divide the last of {} axes", dims.len()))
            .allowed("[batch, steps, heads times width]")
    })?;
    call.build(|b| {
        let split = b.reshape(x, &[dims[0].clone(), dims[1].clone(), Dim::fixed(heads), width])?;
        b.convert(split, Dtype::F32)
    })
}

pub(super) fn linear_attention(call: &mut Call<'_, '_>) -> Outputs {
    let (rule, dtype) = (rule(call)?, call.reader.b.dtype(call.input(0)?));
    let (heads, kv_heads) = (call.int("q_num_heads", 0), call.int("kv_num_heads", 0));
    let group = if kv_heads > 0 && heads % kv_heads == 0 { heads / kv_heads } else { 0 };
    if group < 1 {
        let what = format!("{heads} heads with {kv_heads} of keys");
        return Err(call.refuse(what).allowed("a multiple of the heads of keys, which are from 1"));
    }
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (q, k, v) = (headed(call, q, heads)?, headed(call, k, kv_heads)?, headed(call, v, kv_heads)?);
    let turns = call.reader.b.dims(q)[1].as_fixed();
    let width = call.reader.b.dims(q)[3].as_fixed().filter(|width| *width > 0);
    let (Some(turns), Some(width)) = (turns, width) else {
        return Err(call
            .refuse("steps or a width that are open")
            .allowed("fixed sizes: steps are written out")
            .instead("a fixed size for the axis, with --dims"));
    };
    steps_fit(call, turns, 1)?;
    let decay = match (call.maybe(4), rule.decays) {
        (Some(decay), true) => Some(headed(call, decay, kv_heads)?),
        _ => None,
    };
    let beta = match (call.maybe(5), rule.is_delta) {
        (Some(beta), true) => {
            let is_one = call.reader.b.dims(beta).last().is_some_and(|last| last.is(1));
            Some(headed(call, beta, if is_one { 1 } else { kv_heads })?)
        }
        _ => None,
    };
    #[expect(clippy::cast_precision_loss, reason = "widths of heads are small")]
    let scale = match f64::from(call.float("scale", 0.0)) {
        0.0 => 1.0 / (width as f64).sqrt(),
        scale => scale,
    };
    let past = call.maybe(3);
    let steps = Steps { q, k, v, decay, beta, group, scale };
    call.build(|b| {
        let (k_dims, v_dims) = (b.dims(k).to_vec(), b.dims(v).to_vec());
        let sizes = [k_dims[0].clone(), k_dims[2].clone(), k_dims[3].clone(), v_dims[3].clone()];
        let mut state = match past {
            Some(past) => b.convert(past, Dtype::F32)?,
            None => {
                let zero = b.scalar(Dtype::F32, 0.0)?;
                b.broadcast(zero, &sizes)?
            }
        };
        let mut results = Vec::new();
        for turn in 0..turns {
            let (result, next) = steps.step(b, rule, turn, state)?;
            results.push(result);
            state = next;
        }
        let all = b.concat(1, &results)?;
        Ok(vec![b.convert(all, dtype)?, b.convert(state, dtype)?])
    })
}

impl Steps {
    /// One step's `[batch, heads, width]`.
    fn at(b: &mut Builder, x: ValueId, turn: i64) -> BuildResult<ValueId> {
        let mut dims = b.dims(x).to_vec();
        dims.remove(1);
        let one = b.slice(x, 1, turn.into(), 1.into(), 1)?;
        b.reshape(one, &dims)
    }

    /// The result of a step, `[batch, 1, heads * width]`, and the next state, `[batch, heads, keys, values]`.
    fn step(
        &self,
        b: &mut Builder,
        rule: Rule,
        turn: i64,
        state: ValueId,
    ) -> BuildResult<(ValueId, ValueId)> {
        let mut state = state;
        if let Some(decay) = self.decay {
            let decay = Self::at(b, decay, turn)?;
            let kept = b.unary(Unary::Exp, decay)?;
            let kept = b.unsqueeze(kept, 3)?;
            state = b.mul(state, kept)?;
        }
        let (key, mut value) = (Self::at(b, self.k, turn)?, Self::at(b, self.v, turn)?);
        if rule.is_delta {
            let known = b.einsum("bhkv,bhk->bhv", &[state, key])?;
            value = b.sub(value, known)?;
            if let Some(beta) = self.beta {
                let beta = Self::at(b, beta, turn)?;
                value = b.mul(value, beta)?;
            }
        }
        let (column, row) = (b.unsqueeze(key, 3)?, b.unsqueeze(value, 2)?);
        let outer = b.mul(column, row)?;
        state = b.add(state, outer)?;
        let query = Self::at(b, self.q, turn)?;
        let (query_dims, sizes) = (b.dims(query).to_vec(), b.dims(state).to_vec());
        let grouped =
            [query_dims[0].clone(), sizes[1].clone(), Dim::fixed(self.group), query_dims[2].clone()];
        let query = b.reshape(query, &grouped)?;
        let read = b.einsum("bhgk,bhkv->bhgv", &[query, state])?;
        let read = b.with(Binary::Mul, read, self.scale)?;
        let many = || tilewright_graph::infer::shape_error("too many elements", "sizes of few terms");
        let flat = Dim::product([&query_dims[1], &sizes[3]]).ok_or_else(many)?;
        Ok((b.reshape(read, &[query_dims[0].clone(), Dim::fixed(1), flat])?, state))
    }
}
