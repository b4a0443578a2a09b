//! Attention of one query: keys and values are dealt out over the slices, the query is in all of them.
//!
//! Each slice has its keys in the register files, eight lanes of them; softmax takes maxima and sums between
//! slices (worked example E8); each slice sums its values, the reducer between slices adds them up, and the
//! sum of the weights divides.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Contract, Drain, Fetch, Limit, Memory, SliceDigit, Stream};
use tilewright_tcp_isa::program::vector::{Op, OpKind, ReduceLimit, ReduceOp, ReduceOutput, Word};
use tilewright_tcp_lower::kernels::chain::op;

use super::attend_rows::{as_chances, divided, load_words, scaled, score_unit};
use super::build::Build;
use super::heads::{Columns, HeadPackets};
use super::image::{
    bytes, chain, commit, contraction, copy, fetch, fetch_words, main, n, nest, reduce, steps, through, vrf,
    with,
};
use super::registers::Keys;
use crate::CompileError;
use crate::kernel::Heads;

/// One token's attention.
pub(super) fn attend(
    build: &mut Build<'_>,
    heads: &Heads,
    cache: usize,
    scale: f32,
) -> Result<(), CompileError> {
    let (queries, cached) = (build.at.queries, build.at.cached);
    let keys = build.registers.keys(0);
    super::cache::fetch(build, cache, (0, keys), cached);
    Query::new(build, heads, keys, (queries, cached), None)?.all(build, cache, scale)
}

/// The attention of one token of each sequence: queries go to all slices, caches come one after the other.
pub(super) fn attend_all(
    build: &mut Build<'_>,
    heads: &Heads,
    cache: usize,
    scale: f32,
) -> Result<(), CompileError> {
    let (dtype, flit) = (build.cache(), build.machine.network.flit_bytes);
    let row = bytes(dtype, heads.query_width());
    let packet = if row.is_multiple_of(flit) { flit } else { 8 };
    let from = [(build.registers.rows, heads.query_width()), (n(heads.query_width()), 1)];
    let from = fetch(dtype, build.at.queries, &from, heads.query_width() * packet / row);
    let (slices, tokens) = (build.machine.pe.slices, build.most_rows() * build.machine.pe.slices);
    let to = commit(Memory::Dm, build.at.all_queries, &[(n(tokens * row / packet), packet)], packet);
    let switch = super::combine::multicast(build, slices, row / packet);
    build.emit.exec(main("spread_queries", Stream { switch, ..copy(from, to) }));
    let places = [build.at.cached, build.at.cached_next];
    super::cache::fetch(build, cache, (0, build.registers.keys(0)), places[0]);
    let batch = build.plan.options.batch;
    for (sequence, turn) in (0..batch).zip([0, 1].into_iter().cycle()) {
        if sequence + 1 < batch {
            let next = (sequence + 1, build.registers.keys(sequence + 1));
            super::cache::fetch(build, cache, next, places[1 - turn]);
        }
        let keys = build.registers.keys(sequence);
        let queries = build.at.all_queries + sequence * row;
        let kept = KeptResult { slice: sequence % slices, row: sequence / slices };
        Query::new(build, heads, keys, (queries, places[turn]), Some(kept))?.all(build, cache, scale)?;
    }
    Ok(())
}

struct Query {
    heads: Heads,
    /// Keys of its sequence.
    keys: Keys,
    packets: HeadPackets,
    columns: Columns,
    /// Where the query is.
    queries: u64,
    /// Where keys and values are.
    cached: u64,
    /// Where the result is kept; without it, in all slices.
    kept: Option<KeptResult>,
}

/// The slice that keeps a result, and in which of its rows.
#[derive(Clone, Copy)]
struct KeptResult {
    slice: u64,
    row: u64,
}

impl Query {
    fn new(
        build: &Build<'_>,
        heads: &Heads,
        keys: Keys,
        (queries, cached): (u64, u64),
        kept: Option<KeptResult>,
    ) -> Result<Query, CompileError> {
        let packets = HeadPackets::new(build.machine, build.cache(), heads.depth);
        let columns = Columns::new(build.machine, build.cache(), heads.depth, heads.slots)?;
        Ok(Query { heads: *heads, keys, packets, columns, queries, cached, kept })
    }

    fn all(&self, build: &mut Build<'_>, cache: usize, scale: f32) -> Result<(), CompileError> {
        let rounds = build.most_key_rows() / build.machine.ce.lanes;
        let fit = build.machine.trf_lane_payload_bytes() / (rounds * self.packets.row_bytes).max(1);
        if fit == 0 {
            let allowed = "keys of one head in the register files".to_string();
            return Err(CompileError::Size {
                what: "the context",
                found: build.plan.options.context,
                allowed,
            });
        }
        let mut first = 0;
        while first < self.heads.kv {
            let count = fit.min(self.heads.kv - first);
            self.scores(build, scale * score_unit(build, cache), first, count);
            first += count;
        }
        self.softmax(build);
        self.values(build, cache);
        Ok(())
    }

    /// Scores of some heads with all keys of the slice.
    fn scores(&self, build: &mut Build<'_>, scale: f32, first: u64, count: u64) {
        let (machine, dtype, at) = (build.machine, build.cache(), build.at.clone());
        let (lanes, depth, slots) = (machine.ce.lanes, self.heads.depth, self.heads.slots);
        let packets = self.packets.packets;
        let row = build.plan.cache_row * 8 / u64::from(dtype.storage_bits());
        let rounds = self.keys.rounds;
        let loops = [(rounds, lanes * row), (n(lanes), row), (n(count * depth), 1)];
        let from = fetch(dtype, self.cached + bytes(dtype, first * depth), &loops, packets.elements);
        let lane = machine.trf_lane_payload_bytes();
        let flit = if self.packets.flits == 1 { self.packets.kept } else { machine.network.flit_bytes };
        let to = [
            (rounds, count * self.packets.row_bytes),
            (n(lanes), lane),
            (n(count * self.packets.flits), flit),
        ];
        let to = commit(Memory::Trf { lanes }, 0, &to, self.packets.kept);
        build.emit.exec(main("load_keys", copy(from, to)));

        let held = self.packets.row(dtype);
        let walk = [
            (n(count), held),
            (n(slots), 0),
            (n(packets.count), self.packets.pitch),
            (rounds, count * held),
            (n(packets.elements), 1),
        ];
        let order = [(n(count), false), (n(slots), false), (n(packets.count), true), (rounds, false)];
        let contract = Contract {
            flits: packets.flits,
            repeats: rounds,
            loops: nest(&walk),
            tree: packets.elements.next_power_of_two(),
            steps: steps(&order),
            ..contraction(dtype, lanes, Drain::Interleaved)
        };
        let from = self.queries + bytes(dtype, first * slots * depth);
        let from = fetch(dtype, from, &[(n(count * slots * depth), 1)], packets.elements);
        let scaled = scaled(build, scale, Vec::new());
        let keys = bytes(Dtype::F32, build.most_key_rows());
        let to = commit(
            Memory::Dm,
            at.scores + first * slots * keys,
            &[(n(count * slots), keys), (rounds, bytes(Dtype::F32, 8))],
            bytes(Dtype::F32, 8),
        );
        let stream = Stream { contract: Some(contract), ..through(from, scaled, None, to) };
        build.emit.exec(main("scores", stream));
    }

    fn queries(&self) -> u64 {
        self.heads.kv * self.heads.slots
    }

    fn all_scores(&self, build: &Build<'_>) -> Fetch {
        let loops = [(n(self.queries()), build.most_key_rows()), (self.keys.rounds, 8), (n(8), 1)];
        fetch_words(Dtype::F32, build.at.scores, &loops)
    }

    fn shifted(&self) -> Vec<Op> {
        let maxima = vrf(0, &[(n(self.queries()), 2), (self.keys.rounds, 0), (n(8), 0)]);
        vec![with(OpKind::FSub, maxima), op(OpKind::Exp)]
    }

    /// Over the keys that there are.
    fn over_keys(&self, build: &Build<'_>, operation: ReduceOp) -> Op {
        let slices = build.machine.pe.slices;
        let loops = [(n(self.queries()), false), (self.keys.rounds, true), (n(2), true)];
        let limit = ReduceLimit {
            extent: self.keys.context,
            slices: vec![SliceDigit { stride: 1, size: slices, weight: 1 }],
            weights: [0, 8 * slices, 4 * slices].into_iter().skip(usize::from(self.queries() == 1)).collect(),
            element: slices,
        };
        reduce(operation, true, &loops, vec![limit])
    }

    fn softmax(&self, build: &mut Build<'_>) {
        let (dtype, at, slices) = (build.cache(), build.at.clone(), build.machine.pe.slices);
        let pair = bytes(Dtype::F32, 2);
        let all = self.queries() * pair;
        let most = chain(Word::F32, vec![self.over_keys(build, ReduceOp::Max)]);
        let most = most.then_between(ReduceOp::Max, slices, ReduceOutput::Broadcast);
        let to = commit(Memory::Dm, at.maxima, &[(n(self.queries()), pair)], pair);
        build.emit.exec(main("maxima", through(self.all_scores(build), most, None, to)));
        load_words(build, "load_maxima", at.maxima, all, 0);

        let mut ops = self.shifted();
        ops.push(self.over_keys(build, ReduceOp::Add));
        let sums = chain(Word::F32, ops).then_between(ReduceOp::Add, slices, ReduceOutput::Broadcast);
        let to = commit(Memory::Dm, at.sums, &[(n(self.queries()), pair)], pair);
        build.emit.exec(main("sums", through(self.all_scores(build), sums, None, to)));
        load_words(build, "load_sums", at.sums, all, all);

        let piece = bytes(dtype, 8);
        let row = bytes(dtype, build.most_key_rows());
        let to =
            commit(Memory::Dm, at.chances, &[(n(self.queries()), row), (self.keys.rounds, piece)], piece);
        let mut ops = self.shifted();
        ops.extend(as_chances(build));
        let ops = chain(Word::F32, ops);
        build.emit.exec(main("chances", through(self.all_scores(build), ops, Some(dtype), to)));
    }

    fn values(&self, build: &mut Build<'_>, cache: usize) {
        let (machine, dtype, at) = (build.machine, build.cache(), build.at.clone());
        let Heads { kv, slots, depth, .. } = self.heads;
        let (slices, rounds, keys) = (machine.pe.slices, self.keys.rounds, build.most_key_rows());
        let loops = [(n(kv), slots * keys), (n(slots), keys), (rounds, 8), (n(8), 1)];
        let mut from = fetch(dtype, at.chances, &loops, 8);
        let weights = [(n(kv), 0), (n(slots), 0), (rounds, 8 * slices), (n(8), slices)];
        let weights = weights.iter().filter(|(size, _)| *size != n(1)).map(|(_, weight)| *weight).collect();
        from.limits = vec![Limit {
            extent: self.keys.context,
            slices: vec![SliceDigit { stride: 1, size: slices, weight: 1 }],
            weights,
        }];
        let piece = bytes(dtype, 8);
        let lane = machine.trf_lane_payload_bytes() * machine.ce.lanes / slots;
        let to = [(n(kv), bytes(dtype, keys)), (n(slots), lane), (rounds, piece)];
        let to = commit(Memory::Trf { lanes: slots }, 0, &to, piece);
        build.emit.exec(main("load_chances", copy(from, to)));

        let columns = self.columns;
        let walk = [(n(kv), keys), (rounds, 8), (n(8), 1), (n(columns.packets), 0), (n(columns.each), 0)];
        let order = [(n(kv), false), (rounds, true), (n(8), true), (n(columns.packets), false)];
        let contract = Contract {
            flits: columns.flits,
            loops: nest(&walk),
            steps: steps(&order),
            ..contraction(dtype, slots, Drain::Sequential)
        };
        let row = build.plan.cache_row * 8 / u64::from(dtype.storage_bits());
        let first = self.cached + bytes(dtype, self.heads.kv_width());
        let loops = [(n(kv), depth), (rounds, 8 * row), (n(8), row), (n(depth), 1)];
        let from = fetch(dtype, first, &loops, columns.each);
        let sums = [(n(kv), 2 * slots), (n(columns.packets), 0), (n(slots), 2), (n(columns.each), 0)];
        let base = self.queries() * bytes(Dtype::F32, 2);
        let ends = divided(build, cache, vrf(base, &sums));
        let add = if ends.input == Word::I32 { ReduceOp::AddWrap } else { ReduceOp::Add };
        let ends = ends.after_between(add, slices, ReduceOutput::Broadcast);
        let (place, out, cast) = build.attended();
        let piece = bytes(out, 8);
        let to = [
            (n(kv), bytes(out, slots * depth)),
            (n(columns.packets), bytes(out, columns.each)),
            (n(slots), bytes(out, depth)),
            (n(columns.each / 8), piece),
        ];
        let before = self.kept.map_or(0, |kept| kept.row * bytes(out, build.attended_row(&self.heads)));
        let mut to = commit(Memory::Dm, place + before, &to, piece);
        to.slices = self.kept.iter().map(|kept| (kept.slice, kept.slice + 1)).collect();
        let stream = Stream { contract: Some(contract), ..through(from, ends, cast, to) };
        build.emit.exec(main("values", stream));
    }
}
