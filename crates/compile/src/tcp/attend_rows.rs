//! Attention of many queries: each slice has its own queries in the register files, keys and values pass all slices by multicast.
//!
//! Scores of eight queries lie side by side, key after key, so that softmax is a reduction over time. Weights of the values are turned
//! by the transpose engine, and what a query must not see is masked where they enter the register files. Values are contracted without
//! a tree: their columns stay, keys are summed in the accumulators (paper Fig. 8, middle). The sum of the weights, as they are in the
//! register files, divides at the end.

use tilewright_num::Dtype;
use tilewright_tcp::cost::contraction::Drain;
use tilewright_tcp::kernels::chain::{float, op, to_i8};
use tilewright_tcp::program::Count;
use tilewright_tcp::program::exec::{
    Body, Contract, Exec, Fetch, Limit, Memory, Short, SliceDigit, Stream, Transpose,
};
use tilewright_tcp::program::vector::{Op, OpKind, ReduceLimit, ReduceOp, Source, Vector, Word};

use super::build::Build;
use super::combine::multicast;
use super::heads::{Columns, HeadPackets};
use super::image::{
    bytes, chain, commit, contraction, copy, fetch, fetch_words, main, n, nest, reduce, steps, sub, through,
    vrf, with,
};
use super::rows::UNIT;
use super::sizes::Packets;
use crate::CompileError;
use crate::kernel::Heads;

/// Bytes of a word for each lane.
const LANE_WORDS: u64 = 32;

/// All heads, one after the other.
pub(super) fn attend(
    build: &mut Build<'_>,
    heads: &Heads,
    cache: usize,
    scale: f32,
    causal: bool,
) -> Result<(), CompileError> {
    super::rotate::fetch_cache(build, cache, 0, build.at.cached);
    let packets = HeadPackets::new(build.machine, build.cache(), heads.depth);
    let columns = Columns::new(build.machine, build.cache(), heads.depth, build.machine.ce.lanes)?;
    for kv in 0..heads.kv {
        for slot in 0..heads.group {
            let head = Head { kv, query: kv * heads.slots + slot, heads: *heads, packets, columns, causal };
            head.scores(build, scale * score_unit(build, cache));
            head.softmax(build);
            head.chances(build);
            head.sums(build);
            head.values(build, cache);
        }
    }
    Ok(())
}

struct Head {
    kv: u64,
    query: u64,
    heads: Heads,
    packets: HeadPackets,
    columns: Columns,
    /// A query sees no key behind it: its place counts besides the key's position.
    causal: bool,
}

/// Keys in the order in which they pass: rows of all slices.
fn keys(build: &Build<'_>, stride: u64) -> [(Count, u64); 2] {
    let slices = build.machine.pe.slices;
    [(build.key_rows, stride * slices), (n(slices), stride)]
}

/// Loads words of data memory into the vector register file.
pub(super) fn load_words(build: &mut Build<'_>, name: &str, from: u64, size: u64, base: u64) {
    let short = Short { from, bytes: size, memory: Memory::Vrf, base };
    let image = sub(build.machine, name, copy(fetch(Dtype::F32, 0, &[], 2), commit(Memory::Vrf, 0, &[], 8)));
    build.emit.exec(Exec { body: Body::Short(short), ..image });
}

/// What a product of a query and a key is worth.
pub(super) fn score_unit(build: &Build<'_>, cache: usize) -> f32 {
    let [query, key, _] = build.plan.units(cache);
    if build.cache() == Dtype::I8 { query * key } else { 1.0 }
}

/// Sums of products, scaled.
pub(super) fn scaled(build: &Build<'_>, scale: f32) -> Vector {
    let scale = with(OpKind::FMul, float(scale));
    match build.cache() {
        Dtype::I8 => chain(Word::I32, vec![op(OpKind::ToFloat { int_width: 31 }), scale]),
        _ => chain(Word::F32, vec![scale]),
    }
}

/// Weights of values, of 0 to 1, as the cache's type has them.
pub(super) fn as_chances(build: &Build<'_>) -> Vec<Op> {
    let mut ops = Vec::new();
    if build.cache() == Dtype::I8 {
        ops.push(with(OpKind::Mul0, float(UNIT)));
        ops.extend(to_i8());
    }
    ops
}

/// Sums of weighted values over the sum of the weights.
pub(super) fn divided(build: &Build<'_>, cache: usize, sums: Source) -> Vector {
    let quotient = with(OpKind::Div, sums);
    match build.cache() {
        Dtype::I8 => {
            let [.., value] = build.plan.units(cache);
            let worth = with(OpKind::Mul0, float(value / UNIT));
            chain(Word::I32, vec![op(OpKind::ToFloat { int_width: 31 }), worth, quotient])
        }
        _ => chain(Word::F32, vec![quotient]),
    }
}

impl Head {
    /// Queries of the slice to the lanes; keys of all slices meet them.
    fn scores(&self, build: &mut Build<'_>, scale: f32) {
        let (machine, dtype, at) = (build.machine, build.cache(), build.at.clone());
        let (lanes, depth) = (machine.ce.lanes, self.heads.depth);
        let flit = machine.network.flit_bytes;
        let first = at.queries + bytes(dtype, self.query * depth);
        let loops = [(n(lanes), self.heads.query_width()), (n(depth), 1)];
        let from = fetch(dtype, first, &loops, self.packets.packets.elements);
        let lane = machine.trf_lane_payload_bytes();
        let to = commit(
            Memory::Trf { lanes },
            0,
            &[(n(lanes), lane), (n(self.packets.flits), flit)],
            self.packets.kept,
        );
        build.emit.exec(main("load_queries", copy(from, to)));

        let packets = self.packets.packets;
        let slices = n(machine.pe.slices);
        let walk = [
            (build.key_rows, 0),
            (slices, 0),
            (n(packets.count), self.packets.pitch),
            (n(packets.elements), 1),
        ];
        let order = [(build.key_rows, false), (slices, false), (n(packets.count), true)];
        let contract = Contract {
            flits: packets.flits,
            loops: nest(&walk),
            tree: packets.elements.next_power_of_two(),
            steps: steps(&order),
            ..contraction(dtype, lanes, Drain::Interleaved)
        };
        let row = build.plan.cache_row * 8 / u64::from(dtype.storage_bits());
        let first = at.cached + bytes(dtype, self.kv * depth);
        let from = fetch(dtype, first, &[(build.key_rows, row), (n(depth), 1)], packets.elements);
        let scaled = scaled(build, scale);
        let to = commit(Memory::Dm, at.scores, &keys(build, LANE_WORDS), LANE_WORDS);
        let switch = multicast(build, packets.count);
        let stream = Stream { switch, contract: Some(contract), ..through(from, scaled, None, to) };
        build.emit.exec(main("scores", stream));
    }

    fn all_scores(build: &Build<'_>) -> Fetch {
        let [outer, inner] = keys(build, 8);
        fetch_words(Dtype::F32, build.at.scores, &[outer, inner, (n(8), 1)])
    }

    /// A word for each query, from the register file.
    fn by_query(build: &Build<'_>, base: u64) -> Source {
        let [outer, inner] = keys(build, 0);
        vrf(base, &[outer, inner, (n(8), 1)])
    }

    fn shifted(build: &Build<'_>) -> Vec<Op> {
        vec![with(OpKind::FSub, Self::by_query(build, 0)), op(OpKind::Exp)]
    }

    /// Over the keys that each query sees.
    fn over_keys(&self, build: &Build<'_>, operation: ReduceOp) -> Op {
        let slices = build.machine.pe.slices;
        let loops = [(build.key_rows, true), (n(slices), true), (n(2), false)];
        let place = u64::from(self.causal);
        let limit = ReduceLimit {
            extent: build.context,
            slices: vec![SliceDigit { stride: 1, size: slices, weight: place }],
            weights: vec![slices, 1, 4 * slices * place],
            element: slices * place,
        };
        reduce(operation, false, &loops, vec![limit])
    }

    /// Maxima, then the weights of the values, a row of keys for each query.
    fn softmax(&self, build: &mut Build<'_>) {
        let (dtype, at) = (build.cache(), build.at.clone());
        let most = chain(Word::F32, vec![self.over_keys(build, ReduceOp::Max)]);
        let to = commit(Memory::Dm, at.maxima, &[], LANE_WORDS);
        build.emit.exec(main("maxima", through(Self::all_scores(build), most, None, to)));
        load_words(build, "load_maxima", at.maxima, LANE_WORDS, 0);

        let keys_most = build.most_key_rows() * build.machine.pe.slices;
        let tile = 8 / (u64::from(dtype.storage_bits()) / 8);
        let to = [
            (build.key_rows, bytes(dtype, build.machine.pe.slices)),
            (n(build.machine.pe.slices / tile), bytes(dtype, tile)),
            (n(8), bytes(dtype, keys_most)),
        ];
        let to = commit(Memory::Dm, at.chances, &to, 8);
        let mut ops = Self::shifted(build);
        ops.extend(as_chances(build));
        let ops = chain(Word::F32, ops);
        let mut stream = through(Self::all_scores(build), ops, Some(dtype), to);
        stream.transpose = Some(Transpose { rows: tile, columns: 8, kept: 8 });
        build.emit.exec(main("chances", stream));
    }

    /// Weights to the lanes, masked.
    fn chances(&self, build: &mut Build<'_>) {
        let (machine, dtype, at) = (build.machine, build.cache(), build.at.clone());
        let (lanes, slices) = (machine.ce.lanes, machine.pe.slices);
        let flit = machine.network.flit_bytes;
        let keys_most = build.most_key_rows() * slices;
        let loops = [(n(lanes), keys_most), (build.key_rows, slices), (n(slices), 1)];
        let in_flit = flit * 8 / u64::from(dtype.storage_bits());
        let mut from = fetch(dtype, at.chances, &loops, in_flit);
        from.limits = vec![Limit {
            extent: build.context,
            slices: vec![SliceDigit { stride: 1, size: slices, weight: u64::from(self.causal) }],
            weights: vec![slices * u64::from(self.causal), slices, 1],
        }];
        let lane = machine.trf_lane_payload_bytes();
        let to = [(n(lanes), lane), (build.key_rows, bytes(dtype, slices)), (n(slices / in_flit), flit)];
        let to = commit(Memory::Trf { lanes }, 0, &to, flit);
        build.emit.exec(main("load_chances", copy(from, to)));
    }

    /// Sums of the weights as they are in the lanes: ones meet them, a packet of keys at a time.
    fn sums(&self, build: &mut Build<'_>) {
        let (machine, dtype, at) = (build.machine, build.cache(), build.at.clone());
        let (lanes, slices) = (machine.ce.lanes, machine.pe.slices);
        let packets = Packets::new(machine, dtype, slices);
        let order = [(build.key_rows, true), (n(packets.count), true)];
        let walk = [(build.key_rows, slices), (n(packets.count), packets.elements), (n(packets.elements), 1)];
        let contract = Contract {
            flits: packets.flits,
            loops: nest(&walk),
            tree: packets.elements.next_power_of_two(),
            steps: steps(&order),
            ..contraction(dtype, lanes, Drain::Interleaved)
        };
        let ones = [(build.key_rows, 0), (n(packets.count), 0), (n(packets.elements), 1)];
        let from = fetch(dtype, at.ones, &ones, packets.elements);
        let ends = match dtype {
            Dtype::I8 => {
                let unit = with(OpKind::Mul0, float(1.0 / UNIT));
                chain(Word::I32, vec![op(OpKind::ToFloat { int_width: 31 }), unit])
            }
            _ => chain(Word::F32, Vec::new()),
        };
        let to = commit(Memory::Dm, at.sums, &[], LANE_WORDS);
        let stream = Stream { contract: Some(contract), ..through(from, ends, None, to) };
        build.emit.exec(main("sums", stream));
        load_words(build, "load_sums", at.sums, LANE_WORDS, LANE_WORDS);
    }

    /// Values of all slices meet the weights, and the sum divides.
    fn values(&self, build: &mut Build<'_>, cache: usize) {
        let (machine, dtype, at) = (build.machine, build.cache(), build.at.clone());
        let (lanes, depth, slices) = (machine.ce.lanes, self.heads.depth, machine.pe.slices);
        let columns = self.columns;
        let walk = [(build.key_rows, slices), (n(slices), 1), (n(columns.packets), 0), (n(columns.each), 0)];
        let order = [(build.key_rows, true), (n(slices), true), (n(columns.packets), false)];
        let contract = Contract {
            flits: columns.flits,
            loops: nest(&walk),
            steps: steps(&order),
            ..contraction(dtype, lanes, Drain::Sequential)
        };
        let row = build.plan.cache_row * 8 / u64::from(dtype.storage_bits());
        let first = at.cached + bytes(dtype, self.heads.kv_width() + self.kv * depth);
        let from = fetch(dtype, first, &[(build.key_rows, row), (n(depth), 1)], columns.each);
        let sums = vrf(LANE_WORDS, &[(n(columns.packets), 0), (n(8), 1), (n(columns.each), 0)]);
        let ends = divided(build, cache, sums);
        let (place, out, cast) = build.attended();
        let to = [
            (n(columns.packets), bytes(out, columns.each)),
            (n(lanes), bytes(out, build.attended_row(&self.heads))),
            (n(columns.each / 8), bytes(out, 8)),
        ];
        let to = commit(Memory::Dm, place + bytes(out, self.query * depth), &to, bytes(out, 8));
        let switch = multicast(build, columns.packets);
        let stream = Stream { switch, contract: Some(contract), ..through(from, ends, cast, to) };
        build.emit.exec(main("values", stream));
    }
}
