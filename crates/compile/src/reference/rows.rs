//! Elementwise kernels on rows: rotation and rounding, activations.

use tilewright_base::invariant::to_index;
use tilewright_num::{Dtype, Function};

use super::arith::{UNIT, add, bf16, div, fma, function, mul, to_i8, whole};
use super::{KernelState, ReferenceModel};
use crate::kernel::{Activation, Heads};

impl ReferenceModel<'_> {
    /// Queries, and new rows of a cache.
    pub(super) fn rotate(
        &mut self,
        state: &mut KernelState,
        heads: &Heads,
        tables: Option<&(String, String)>,
        cache: usize,
    ) {
        state.queries.clear();
        let first = self.seen as u64;
        let depth = to_index(heads.depth).max(1);
        for (pe, rows) in state.rows.iter().enumerate() {
            let mut queries = Vec::new();
            for (position, parts) in (first..).zip(rows) {
                let [q, k, v] = &parts[..] else { continue };
                let turn = |row: &Vec<f32>, unit: f32| -> Vec<f32> {
                    let rotated = row.chunks(depth).flat_map(|head| self.rotated(head, tables, position));
                    rotated.map(|value| self.short(value, unit)).collect()
                };
                let [query, key, value] = self.plan.units(cache);
                queries.push(turn(q, query));
                let values = v.iter().map(|v| self.short(*v, value)).collect();
                let keys = turn(k, key);
                if let Some(cache) = self.caches.get_mut(cache).and_then(|cache| cache.get_mut(pe)) {
                    cache.keys.push(keys);
                    cache.values.push(values);
                }
            }
            state.queries.push(queries);
        }
    }

    /// As the cache has it: bf16, or whole units.
    fn short(&self, value: f32, unit: f32) -> f32 {
        if self.short_integers() { whole(to_i8(mul(value, 1.0 / unit))) } else { bf16(value) }
    }

    /// Halves of a head rotated by the angles of a position.
    fn rotated(&self, head: &[f32], tables: Option<&(String, String)>, position: u64) -> Vec<f32> {
        let Some((cos, sin)) = tables else { return head.to_vec() };
        let (cos, sin) = (self.constant(cos), self.constant(sin));
        let (first, second) = head.split_at(head.len() / 2);
        let pairs = || (0..).zip(first.iter().zip(second));
        let real =
            pairs().map(|(at, (a, b))| add(mul(*a, cos.at(position, at)), mul(*b, -sin.at(position, at))));
        let imaginary =
            pairs().map(|(at, (a, b))| add(mul(*a, sin.at(position, at)), mul(*b, cos.at(position, at))));
        real.chain(imaginary).collect()
    }

    /// Rows of an activation; with a unit, as many of it as integers are made of them at once.
    pub(super) fn activate(&self, state: &mut KernelState, activation: Activation, peak: Option<f32>) {
        let wide = self.plan.options.activated() == Dtype::I8 && !self.eight();
        let unit = peak.filter(|_| self.plan.options.activated() == Dtype::I8).map(|peak| peak / UNIT);
        let short = |value: f32| match unit {
            Some(_) => whole(to_i8(value)),
            None if wide => value,
            None => bf16(value),
        };
        let unit = unit.unwrap_or(1.0);
        let one = |parts: &Vec<Vec<f32>>| -> Vec<f32> {
            match (activation, &parts[..]) {
                (Activation::GatedSilu, [gate, up]) => {
                    gate.iter().zip(up).map(|(gate, up)| gated(*gate, *up, unit)).map(short).collect()
                }
                (Activation::Gelu, [row]) => row.iter().map(|value| gelu(*value, unit)).map(short).collect(),
                _ => Vec::new(),
            }
        };
        state.ready = state.rows.iter().map(|rows| rows.iter().map(one).collect()).collect();
    }
}

/// `gate * sigmoid(gate)` times half of `up`, over half a unit.
fn gated(gate: f32, up: f32, unit: f32) -> f32 {
    let gate = mul(function(Function::Sigmoid, gate), gate);
    let up = mul(function(Function::Sigmoid, 0.0), up);
    div(mul(gate, up), 0.5 * unit)
}

/// `x * (erf(x / sqrt 2) / 2 + 1 / 2)` in units.
fn gelu(x: f32, unit: f32) -> f32 {
    let erf = function(Function::Erf, mul(x, std::f32::consts::FRAC_1_SQRT_2));
    let half = 0.5 / unit;
    mul(fma(erf, half, half), x)
}
