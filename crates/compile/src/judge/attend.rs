//! Attention: softmax of scores, times values.

use tilewright_num::{Dtype, Function};

use super::arith::{add, bf16, div, function, in_fours, in_order, mul, sub};
use super::contract::dot;
use super::{Cache, Judge, Rows, State};
use crate::kernel::Heads;
use crate::tcp::sizes::Packets;

impl Judge<'_> {
    pub(super) fn attend(&self, state: &mut State, heads: &Heads, cache: usize, scale: f32, causal: bool) {
        let Some(caches) = self.caches.get(cache) else { return };
        let keys = self.seen + state.x.len();
        let ready = state.queries.iter().zip(caches).map(|(queries, cache)| -> Rows {
            let one = |(at, row): (usize, &Vec<f32>)| {
                let seen = if causal { self.seen + at + 1 } else { keys };
                self.all_heads(row, cache, seen, heads, scale, state.one)
            };
            queries.iter().enumerate().map(one).collect()
        });
        state.ready = ready.collect();
    }

    /// One query with the first keys, head after head.
    fn all_heads(
        &self,
        row: &[f32],
        cache: &Cache,
        seen: usize,
        heads: &Heads,
        scale: f32,
        one: bool,
    ) -> Vec<f32> {
        let (depth, slots) = (index(heads.depth), index(heads.slots));
        let packets = Packets::new(self.machine, Dtype::Bf16, heads.depth);
        let head = |(at, query): (usize, &[f32])| -> Vec<f32> {
            let from = at / slots * depth;
            let part = |row: &Vec<f32>| row.get(from..from + depth).unwrap_or(&[]).to_vec();
            let keys: Rows = cache.keys.iter().take(seen).map(part).collect();
            let values: Rows = cache.values.iter().take(seen).map(part).collect();
            let score = |key: &Vec<f32>| mul(dot(query, |at| key[at], packets), scale);
            let scores: Vec<f32> = keys.iter().map(score).collect();
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let chances: Vec<f32> =
                scores.iter().map(|score| function(Function::Exp, sub(*score, most))).collect();
            let sum = if one { self.dealt_sum(&chances) } else { in_order(chances.iter().copied()) };
            let column = |column: usize| {
                let products: Vec<f32> = chances
                    .iter()
                    .zip(&values)
                    .map(|(chance, value)| mul(bf16(*chance), value[column]))
                    .collect();
                let total =
                    if one { self.dealt_total(&products) } else { products.into_iter().fold(0.0, add) };
                let quotient = div(total, sum);
                if self.integers() { quotient } else { bf16(quotient) }
            };
            (0..depth).map(column).collect()
        };
        row.chunks(depth).enumerate().flat_map(head).collect()
    }

    /// Keys of each slice: every so many.
    fn dealt<'v>(&self, values: &'v [f32]) -> impl Iterator<Item = Vec<f32>> + use<'v> {
        let slices = index(self.machine.pe.slices).max(1);
        (0..slices).map(move |slice| values.iter().copied().skip(slice).step_by(slices).collect())
    }

    /// Each slice's own in fours, then all slices.
    fn dealt_sum(&self, values: &[f32]) -> f32 {
        in_order(self.dealt(values).map(|own| {
            let own: Vec<Option<f32>> = own.into_iter().map(Some).collect();
            in_fours(&own).unwrap_or(0.0)
        }))
    }

    /// Each slice's own one after the other from zero, then all slices.
    fn dealt_total(&self, values: &[f32]) -> f32 {
        in_order(self.dealt(values).map(|own| own.into_iter().fold(0.0, add)))
    }
}

fn index(size: u64) -> usize {
    usize::try_from(size).unwrap_or(1).max(1)
}
