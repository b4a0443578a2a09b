//! Attention: softmax of scores, times values.

use tilewright_base::invariant::to_index;
use tilewright_num::{Dtype, Function};

use super::arith::{UNIT, add, as_whole, bf16, div, function, in_fours, in_order, mul, sub, to_i8, whole};
use super::contract::dot;
use super::{KernelState, KvRows, ReferenceModel, TokenRows};
use crate::kernel::Heads;
use crate::tcp::sizes::Packets;

/// How heads attend.
#[derive(Clone, Copy)]
struct HeadAttention {
    heads: Heads,
    /// What a sum of products is multiplied by.
    scale: f32,
    /// What a unit of values is worth, if they are integers.
    value: f32,
    /// What a unit of the result is worth, if it is given as integers at once.
    given: Option<f32>,
    /// One query alone: keys are sharded over the slices.
    one: bool,
}

impl ReferenceModel<'_> {
    /// What heads attend to. A factor of scores comes with what a unit of the result is worth, if that was
    /// found beforehand.
    pub(super) fn attend(
        &self,
        state: &mut KernelState,
        heads: &Heads,
        cache: usize,
        (scale, given): (f32, Option<f32>),
        causal: bool,
    ) {
        let Some(caches) = self.caches.get(cache) else { return };
        let [query, key, value] = self.plan.units(cache);
        let short = self.short_integers();
        let scale = if short { scale * (query * key) } else { scale };
        let attention = HeadAttention { heads: *heads, scale, value, given, one: state.one };
        let keys = self.seen + state.x.len();
        let ready = state.queries.iter().zip(caches).map(|(queries, cache)| -> TokenRows {
            let one = |(at, row): (usize, &Vec<f32>)| {
                let seen = if causal { self.seen + at + 1 } else { keys };
                self.all_heads(row, cache, seen, attention)
            };
            queries.iter().enumerate().map(one).collect()
        });
        state.ready = ready.collect();
    }

    /// One query with the first keys, head after head.
    fn all_heads(&self, row: &[f32], cache: &KvRows, seen: usize, attention: HeadAttention) -> Vec<f32> {
        let (depth, slots) = (index(attention.heads.depth), index(attention.heads.slots));
        let head = |(at, query): (usize, &[f32])| {
            let from = at / slots * depth;
            let part = |row: &Vec<f32>| row.get(from..from + depth).unwrap_or(&[]).to_vec();
            let keys: TokenRows = cache.keys.iter().take(seen).map(part).collect();
            let values: TokenRows = cache.values.iter().take(seen).map(part).collect();
            self.one_head(query, &keys, &values, attention)
        };
        row.chunks(depth).enumerate().flat_map(head).collect()
    }

    fn one_head(
        &self,
        query: &[f32],
        keys: &TokenRows,
        values: &TokenRows,
        attention: HeadAttention,
    ) -> Vec<f32> {
        let HeadAttention { heads, scale, value: unit, given, one } = attention;
        let scores: Vec<f32> = keys.iter().map(|key| mul(self.score(query, key), scale)).collect();
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let probs: Vec<f32> = scores.iter().map(|score| function(Function::Exp, sub(*score, most))).collect();
        let sum = if one { self.sharded_sum(&probs) } else { self.sum_as_held(&probs) };
        let column = |column: usize| {
            let pairs =
                probs.iter().zip(values).map(|(prob, row)| (*prob, row.get(column).copied().unwrap_or(0.0)));
            if self.short_integers() {
                let products = pairs.map(|(prob, value)| to_i8(mul(prob, UNIT)) * as_whole(value));
                return div(
                    mul(whole(products.fold(0, i32::wrapping_add)), unit / UNIT / given.unwrap_or(1.0)),
                    sum,
                );
            }
            let products: Vec<f32> = pairs.map(|(prob, value)| mul(bf16(prob), value)).collect();
            let total = if one { self.sharded_total(&products) } else { products.into_iter().fold(0.0, add) };
            div(given.map_or(total, |unit| mul(total, 1.0 / unit)), sum)
        };
        let wide = self.integers() && !self.eight();
        let short = |quotient: f32| match given {
            Some(_) => whole(to_i8(quotient)),
            None if wide => quotient,
            None => bf16(quotient),
        };
        (0..index(heads.depth)).map(column).map(short).collect()
    }

    /// Weights of many queries, as they are contracted: exact integers, or packets of keys.
    fn sum_as_held(&self, probs: &[f32]) -> f32 {
        if self.short_integers() {
            let units = probs.iter().map(|prob| to_i8(mul(*prob, UNIT)));
            return mul(whole(units.fold(0, i32::wrapping_add)), 1.0 / UNIT);
        }
        let probs: Vec<f32> = probs.iter().map(|prob| bf16(*prob)).collect();
        dot(&probs, |_| 1.0, Packets::new(self.machine, Dtype::Bf16, self.machine.pe.slices))
    }

    /// A query with a key.
    fn score(&self, query: &[f32], key: &[f32]) -> f32 {
        if self.short_integers() {
            let products = query.iter().zip(key).map(|(a, b)| as_whole(*a) * as_whole(*b));
            return whole(products.fold(0, i32::wrapping_add));
        }
        let packets = Packets::new(self.machine, Dtype::Bf16, query.len() as u64);
        dot(query, |at| key.get(at).copied().unwrap_or(0.0), packets)
    }

    /// Keys of each slice: every so many.
    fn sharded<'v>(&self, values: &'v [f32]) -> impl Iterator<Item = Vec<f32>> + use<'v> {
        let slices = index(self.machine.pe.slices).max(1);
        (0..slices).map(move |slice| values.iter().copied().skip(slice).step_by(slices).collect())
    }

    /// Each slice's own in fours, then all slices.
    fn sharded_sum(&self, values: &[f32]) -> f32 {
        in_order(self.sharded(values).map(|own| {
            let own: Vec<Option<f32>> = own.into_iter().map(Some).collect();
            in_fours(&own).unwrap_or(0.0)
        }))
    }

    /// Each slice's own one after the other from zero, then all slices.
    fn sharded_total(&self, values: &[f32]) -> f32 {
        in_order(self.sharded(values).map(|own| own.into_iter().fold(0.0, add)))
    }
}

fn index(size: u64) -> usize {
    to_index(size).max(1)
}
