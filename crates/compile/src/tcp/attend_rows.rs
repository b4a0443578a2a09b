//! Attention of many queries: each slice has its own queries in the register files, keys and values pass all
//! slices of a team by multicast.
//!
//! Scores of eight queries leave the contraction engine side by side, key after key, so that softmax is a
//! reduction over time. Keys pass twice: for the greatest score of each query, and then for the weights of
//! the values, so that scores are never stored. Products hide behind the vector engine both times, and two
//! passes over stored scores would take it as long. Weights are turned by the transpose engine, and what a
//! query must not see is masked where they enter the register files. Values are contracted without a tree, or
//! with one that adds two keys: their columns stay, keys are summed in the accumulators (paper Fig. 8,
//! middle). The sum of the weights, as they are in the register files, divides at the end.

use tilewright_base::invariant::to_index;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{
    Commit, Contract, Drain, Exec, ExecBody, Fetch, FlitTranspose, Limit, Memory, ShortLoad, SliceDigit,
    Stream, Transpose,
};
use tilewright_tcp_isa::program::vector::{Op, OpKind, OperandSource, ReduceLimit, ReduceOp, Vector, Word};
use tilewright_tcp_lower::kernels::chain::{float, op, to_i8};

use super::build::Build;
use super::combine::multicast;
use super::heads::{Columns, HeadPackets};
use super::image::{
    bytes, chain, commit, contraction, copy, fetch, main, n, nest, reduce, steps, sub, through, vrf, with,
};
use super::registers::{Halves, Keys};
use super::rows::UNIT;
use super::sizes::Packets;
use super::teams::{self, PAIRED, Teams};
use crate::CompileError;
use crate::kernel::Heads;

/// Bytes of a word for each lane.
const LANE_WORDS: u64 = 32;

/// All heads: those of the teams side by side, one after the other.
pub(super) fn attend(
    build: &mut Build<'_>,
    heads: &Heads,
    cache: usize,
    scale: f32,
    causal: bool,
) -> Result<(), CompileError> {
    let teams = teams::of(build, heads);
    let packets = HeadPackets::new(build.machine, build.cache(), heads.depth);
    let columns = Columns::new(build.machine, build.cache(), heads.depth, build.machine.ce.lanes)?;
    let turns = teams::turns(build, columns, teams)?;
    check_held(build, teams)?;
    let side = if teams.count > 1 { 1 } else { teams.deep };
    for kv in 0..teams.kv(heads) {
        for slot in (0..heads.group).step_by(index(side)) {
            let query = kv * heads.slots + slot;
            let keys = build.registers.keys(0);
            let all_rows = keys.rows;
            let head =
                Head { kv, query, heads: *heads, teams, packets, columns, turns, causal, all_rows, keys };
            let scale = scale * score_unit(build, cache);
            head.load_queries(build);
            if query == 0 {
                super::cache::store_values(build, cache);
            }
            head.maxima(build, scale);
            if query == 0 {
                super::cache::fetch_values(build, cache, teams);
            }
            head.load_maxima(build);
            match build.registers.halves {
                None => head.weighted(build, (cache, scale), Sums::All),
                Some(halves) => head.halves(build, (cache, scale), halves),
            }
            teams::collect(build, heads, teams, query);
        }
    }
    Ok(())
}

/// Refuses a context with more keys than a lane of the register files holds weights of.
fn check_held(build: &Build<'_>, teams: Teams) -> Result<(), CompileError> {
    let (slices, lane) = (build.machine.pe.slices, build.machine.trf_lane_payload_bytes());
    let rows = build.most_key_rows().min(teams.held_rows);
    if bytes(build.cache(), rows * slices * teams.deep) <= lane {
        return Ok(());
    }
    let eights = bytes(build.cache(), slices * build.machine.ce.lanes).max(1);
    let most = lane / eights * slices * build.machine.ce.lanes;
    let narrower = if build.cache() == Dtype::I8 { "" } else { "; more with --cache int8" };
    let allowed = format!("1 to {most}, whose weights the register files hold for a prompt{narrower}");
    Err(CompileError::Size { what: "the context", found: build.plan.options.context, allowed })
}

/// Which keys sums are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sums {
    All,
    /// The first half: sums stay integers, and wait for the others.
    First,
    /// The second half, with the sums of the first.
    Second,
}

/// Query heads that are attended to at once.
#[derive(Clone, Copy)]
struct Head {
    /// Of each team, the head of keys and values, and the first of queries.
    kv: u64,
    query: u64,
    heads: Heads,
    teams: Teams,
    packets: HeadPackets,
    columns: Columns,
    /// In which values are contracted.
    turns: u64,
    /// A query sees no key behind it: its place counts besides the key's position.
    causal: bool,
    /// Rows of all keys.
    all_rows: Count,
    /// Keys at hand: all, or a half of them.
    keys: Keys,
}

/// Loads words of data memory into the vector register file.
pub(super) fn load_words(build: &mut Build<'_>, name: &str, from: u64, size: u64, base: u64) {
    let short = ShortLoad { from, bytes: size, memory: Memory::Vrf, base };
    let image = sub(build.machine, name, copy(fetch(Dtype::F32, 0, &[], 2), commit(Memory::Vrf, 0, &[], 8)));
    build.emit.exec(Exec { body: ExecBody::Short(short), ..image });
}

/// What a product of a query and a key is worth.
pub(super) fn score_unit(build: &Build<'_>, cache: usize) -> f32 {
    let [query, key, _] = build.plan.units(cache);
    if build.cache() == Dtype::I8 { query * key } else { 1.0 }
}

/// Sums of products, scaled, and what comes behind.
pub(super) fn scaled(build: &Build<'_>, scale: f32, behind: Vec<Op>) -> Vector {
    let mut ops = vec![with(OpKind::Mul0, float(scale))];
    ops.extend(behind);
    match build.cache() {
        Dtype::I8 => {
            ops.insert(0, op(OpKind::ToFloat { int_width: 31 }));
            chain(Word::I32, ops)
        }
        _ => chain(Word::F32, ops),
    }
}

/// Weights of values, of 0 to 1, as the cache's type has them.
pub(super) fn as_chances(build: &Build<'_>) -> Vec<Op> {
    let mut ops = Vec::new();
    if build.cache() == Dtype::I8 {
        ops.push(with(OpKind::Mul1, float(UNIT)));
        ops.extend(to_i8());
    }
    ops
}

/// Sums of weighted values over the sum of the weights.
pub(super) fn divided(build: &Build<'_>, cache: usize, sums: OperandSource) -> Vector {
    let quotient = with(OpKind::Div, sums);
    let to_units = build.queue.attended_unit.into_iter().flat_map(|_| to_i8());
    match build.cache() {
        Dtype::I8 => {
            let [.., value] = build.plan.units(cache);
            let worth = with(OpKind::Mul0, float(value / UNIT / build.queue.attended_unit.unwrap_or(1.0)));
            let ops = [op(OpKind::ToFloat { int_width: 31 }), worth, quotient];
            chain(Word::I32, ops.into_iter().chain(to_units).collect())
        }
        _ => {
            let worth = build.queue.attended_unit.map(|unit| with(OpKind::Mul0, float(1.0 / unit)));
            chain(Word::F32, worth.into_iter().chain([quotient]).chain(to_units).collect())
        }
    }
}

impl Head {
    /// Values of the keys at hand, weighted.
    fn weighted(&self, build: &mut Build<'_>, (cache, scale): (usize, f32), sums: Sums) {
        self.chances(build, scale);
        if self.teams.pairs && self.query == self.kv * self.heads.slots && sums != Sums::Second {
            self.pair_values(build);
        }
        self.load_chances(build);
        self.sums(build, sums);
        (0..self.turns).for_each(|turn| self.values(build, cache, turn, sums));
    }

    /// The same where the register files hold weights of half of all keys: those of the first, and, if there
    /// are more, those of the second.
    fn halves(&self, build: &mut Build<'_>, of: (usize, f32), halves: Halves) {
        let [first, second] = halves.rows;
        let first = Head { keys: Keys { rows: first, ..self.keys }, ..*self };
        let keys =
            Keys { rows: second, context: halves.context, first_row: self.teams.held_rows, ..self.keys };
        let second = Head { keys, ..*self };
        build.emit.begin_if_above(halves.is_one, 0);
        first.weighted(build, of, Sums::All);
        build.emit.end_if();
        build.emit.begin_if_above(halves.is_two, 0);
        first.weighted(build, of, Sums::First);
        self.load_queries(build);
        second.weighted(build, of, Sums::Second);
        build.emit.end_if();
    }

    /// Queries that a slice has at once.
    fn queries(&self, build: &Build<'_>) -> u64 {
        self.teams.deep * build.machine.ce.lanes
    }

    /// Keys at most whose weights are held, in whole eights of rows.
    fn keys_most(&self, build: &Build<'_>) -> u64 {
        build.most_key_rows().min(self.teams.held_rows) * build.machine.pe.slices
    }

    /// What its place adds to the position that a query asks for.
    fn place(&self, places: u64) -> u64 {
        places * u64::from(self.causal)
    }

    /// Keys in the order in which they pass: for each loop its size, what it steps over of those that passed,
    /// and in positions.
    fn passing(&self, build: &Build<'_>) -> Vec<(Count, u64, u64)> {
        let (slices, teams) = (build.machine.pe.slices, self.teams);
        let mut loops = vec![(self.keys.rows, slices, slices)];
        if teams.pairs {
            loops.extend([(n(teams.slices), 2, 1), (n(2), 1, teams.slices)]);
        } else {
            loops.push((n(slices), 1, 1));
        }
        loops
    }

    /// Packets that a slice sends before the next has its turn: of one key, or of two.
    fn sent(&self, packets: u64) -> u64 {
        if self.teams.pairs { self.teams.count * packets } else { packets }
    }

    /// The slice's number within its team, in places.
    fn slice_place(&self) -> Vec<SliceDigit> {
        vec![SliceDigit { stride: 1, size: self.teams.slices, weight: self.place(1) }]
    }

    /// Queries of the slice to the lanes.
    fn load_queries(&self, build: &mut Build<'_>) {
        let (machine, dtype, teams) = (build.machine, build.cache(), self.teams);
        let (lanes, depth) = (machine.ce.lanes, self.heads.depth);
        let (place, width) = match teams.count {
            1 => (build.at.queries, self.heads.query_width()),
            _ => (build.at.dealt_queries, teams.width(&self.heads)),
        };
        // Another token of the head, or another head of the token.
        let next = if teams.count > 1 { lanes * width } else { depth };
        let first = place + bytes(dtype, self.query * depth);
        let loops = [(n(teams.deep), next), (n(lanes), width), (n(depth), 1)];
        let from = fetch(dtype, first, &loops, self.packets.packets.elements);
        let (lane, flit) = (machine.trf_lane_payload_bytes(), machine.network.flit_bytes);
        let to = [(n(teams.deep), self.packets.row_bytes), (n(lanes), lane), (n(self.packets.flits), flit)];
        let to = commit(Memory::Trf { lanes }, 0, &to, self.packets.kept);
        build.emit.exec(main("load_queries", copy(from, to)));
    }

    /// Rows of the cache as they lie in a slice, from an element of each on.
    fn cached(&self, build: &Build<'_>, first: u64, elements: u64, packet: u64) -> Fetch {
        let dtype = build.cache();
        let row = build.plan.cache_row / self.teams.count * 8 / u64::from(dtype.storage_bits());
        let rows = [(self.keys.rows, self.teams.count * row), (n(self.teams.count), row)];
        let loops = [rows[0], rows[1], (n(elements), 1)];
        let place = build.at.cached + self.keys.first_row * build.plan.cache_row;
        fetch(dtype, place + bytes(dtype, first), &loops, packet)
    }

    /// Keys of all slices of a team meet its queries.
    fn scores(&self, build: &Build<'_>, vector: Vector, cast: Option<Dtype>, to: Commit) -> Stream {
        let (machine, dtype, packets) = (build.machine, build.cache(), self.packets.packets);
        let (slices, deep) = (n(machine.pe.slices), n(self.teams.deep));
        let walk = [
            (self.keys.rows, 0),
            (slices, 0),
            (n(packets.count), self.packets.pitch),
            (deep, self.packets.row(dtype)),
            (n(packets.elements), 1),
        ];
        let order = [(self.keys.rows, false), (slices, false), (n(packets.count), true), (deep, false)];
        let contract = Contract {
            flits: packets.flits,
            repeats: deep,
            loops: nest(&walk),
            tree: packets.elements.next_power_of_two(),
            steps: steps(&order),
            ..contraction(dtype, machine.ce.lanes, Drain::Interleaved)
        };
        let depth = self.heads.depth;
        let from = self.cached(build, self.kv * depth, depth, packets.elements);
        let switch = multicast(build, self.teams.slices, self.sent(packets.count));
        Stream { switch, contract: Some(contract), ..through(from, vector, cast, to) }
    }

    /// The greatest score of each query, over the keys that it sees.
    fn maxima(&self, build: &mut Build<'_>, scale: f32) {
        let slices = build.machine.pe.slices;
        let passing = self.passing(build).into_iter().map(|(size, _, position)| (size, true, position));
        let queries = [
            (n(self.teams.deep), false, self.place(self.teams.next_place())),
            (n(2), false, self.place(4 * slices)),
        ];
        let turning: Vec<_> = passing.chain(queries).filter(|(size, ..)| *size != n(1)).collect();
        let loops: Vec<(Count, bool)> = turning.iter().map(|(size, summed, _)| (*size, *summed)).collect();
        let limit = ReduceLimit {
            extent: self.keys.context,
            slices: self.slice_place(),
            weights: turning.iter().map(|(.., weight)| *weight).collect(),
            element: self.place(slices),
        };
        let most = reduce(ReduceOp::Max, false, &loops, vec![limit]);
        let vector = scaled(build, scale, vec![most]);
        let to = commit(Memory::Dm, build.at.maxima, &[(n(self.teams.deep), LANE_WORDS)], LANE_WORDS);
        build.emit.exec(main("maxima", self.scores(build, vector, None, to)));
    }

    fn load_maxima(&self, build: &mut Build<'_>) {
        load_words(build, "load_maxima", build.at.maxima, LANE_WORDS * self.teams.deep, 0);
    }

    /// Weights of the values, a row of keys for each query.
    fn chances(&self, build: &mut Build<'_>, scale: f32) {
        let (dtype, slices) = (build.cache(), build.machine.pe.slices);
        let by_query = [(self.keys.rows, 0), (n(slices), 0), (n(self.teams.deep), 8), (n(8), 1)];
        let mut ops = vec![with(OpKind::FSub, vrf(0, &by_query)), op(OpKind::Exp)];
        ops.extend(as_chances(build));
        let vector = scaled(build, scale, ops);
        let tile = 8 / (u64::from(dtype.storage_bits()) / 8);
        let queries = self.queries(build);
        let to = [
            (self.keys.rows, bytes(dtype, slices)),
            (n(slices / tile), bytes(dtype, tile)),
            (n(queries), bytes(dtype, self.keys_most(build))),
        ];
        let to = commit(Memory::Dm, build.at.chances, &to, 8);
        let mut stream = self.scores(build, vector, Some(dtype), to);
        stream.transpose = Some(Transpose { rows: tile, columns: queries, kept: queries });
        build.emit.exec(main("chances", stream));
    }

    /// Weights to the lanes, masked.
    fn load_chances(&self, build: &mut Build<'_>) {
        let (machine, dtype, deep) = (build.machine, build.cache(), self.teams.deep);
        let (lanes, slices) = (machine.ce.lanes, machine.pe.slices);
        let (flit, keys) = (machine.network.flit_bytes, self.keys_most(build));
        let queries = [
            (n(deep), lanes * keys, self.place(self.teams.next_place())),
            (n(lanes), keys, self.place(slices)),
        ];
        let turning = queries.into_iter().chain(self.passing(build)).filter(|(size, ..)| *size != n(1));
        let turning: Vec<_> = turning.collect();
        let loops: Vec<(Count, u64)> = turning.iter().map(|(size, stride, _)| (*size, *stride)).collect();
        let in_flit = flit * 8 / u64::from(dtype.storage_bits());
        let mut from = fetch(dtype, build.at.chances, &loops, in_flit);
        from.limits = vec![Limit {
            extent: self.keys.context,
            slices: self.slice_place(),
            weights: turning.iter().map(|(.., weight)| *weight).collect(),
        }];
        let lane = machine.trf_lane_payload_bytes();
        let to = [
            (n(deep), bytes(dtype, keys)),
            (n(lanes), lane),
            (self.keys.rows, bytes(dtype, slices)),
            (n(slices / in_flit), flit),
        ];
        let to = commit(Memory::Trf { lanes }, 0, &to, flit);
        build.emit.exec(main("load_chances", copy(from, to)));
    }

    /// Sums of the weights as they are in the lanes: ones meet them, a packet of keys at a time.
    fn sums(&self, build: &mut Build<'_>, over: Sums) {
        let (machine, dtype, deep) = (build.machine, build.cache(), n(self.teams.deep));
        let slices = machine.pe.slices;
        let packets = Packets::new(machine, dtype, slices);
        let order = [(deep, false), (self.keys.rows, true), (n(packets.count), true)];
        let walk = [
            (deep, self.keys_most(build)),
            (self.keys.rows, slices),
            (n(packets.count), packets.elements),
            (n(packets.elements), 1),
        ];
        let contract = Contract {
            flits: packets.flits,
            loops: nest(&walk),
            tree: packets.elements.next_power_of_two(),
            steps: steps(&order),
            ..contraction(dtype, machine.ce.lanes, Drain::Interleaved)
        };
        let ones = [(deep, 0), (self.keys.rows, 0), (n(packets.count), 0), (n(packets.elements), 1)];
        let from = fetch(dtype, build.at.ones, &ones, packets.elements);
        let size = LANE_WORDS * self.teams.deep;
        let ends = match (dtype, over) {
            (Dtype::I8, Sums::First) => chain(Word::I32, Vec::new()),
            (Dtype::I8, _) => {
                let unit = with(OpKind::Mul0, float(1.0 / UNIT));
                let first = with(OpKind::Add, vrf(size, &[(deep, 8), (n(8), 1)]));
                let first = Some(first).filter(|_| over == Sums::Second).into_iter();
                chain(Word::I32, first.chain([op(OpKind::ToFloat { int_width: 31 }), unit]).collect())
            }
            _ => chain(Word::F32, Vec::new()),
        };
        let to = commit(Memory::Dm, build.at.sums, &[(deep, LANE_WORDS)], LANE_WORDS);
        let stream = Stream { contract: Some(contract), ..through(from, ends, None, to) };
        build.emit.exec(main("sums", stream));
        load_words(build, "load_sums", build.at.sums, size, size);
    }

    /// Where what attention gives goes: the place, elements from row to row, and from a lane's query to its
    /// next.
    fn given(&self, build: &Build<'_>) -> (u64, u64, u64) {
        let (place, ..) = build.attended();
        match self.teams.count {
            1 => (place, build.attended_row(&self.heads), self.heads.depth),
            _ => {
                let width = self.teams.width(&self.heads);
                (build.at.dealt_attended, width, build.machine.ce.lanes * width)
            }
        }
    }

    /// Columns of one key at a time, all kept.
    fn one_key(&self, build: &Build<'_>, first: u64, columns: u64) -> (Contract, Fetch) {
        let (slices, deep) = (build.machine.pe.slices, n(self.teams.deep));
        let (each, packets) = (self.columns.each, n(columns / self.columns.each));
        let walk = [
            (self.keys.rows, slices),
            (n(slices), 1),
            (packets, 0),
            (deep, self.keys_most(build)),
            (n(each), 0),
        ];
        let order = [(self.keys.rows, true), (n(slices), true), (packets, false), (deep, false)];
        let contract = Contract {
            flits: self.columns.flits,
            repeats: deep,
            loops: nest(&walk),
            steps: steps(&order),
            ..contraction(build.cache(), build.machine.ce.lanes, Drain::Sequential)
        };
        let depth = self.heads.depth;
        let values = self.teams.kv(&self.heads) * depth;
        (contract, self.cached(build, values + self.kv * depth + first, columns, each))
    }

    /// Columns of two keys at a time, neighbours after the in-flit transpose, which the tree adds.
    fn two_keys(&self, build: &Build<'_>, first: u64, columns: u64) -> (Contract, Fetch) {
        let (slices, deep, dtype) = (build.machine.pe.slices, n(self.teams.deep), build.cache());
        let (each, packets) = (self.columns.each, n(columns / self.columns.each));
        let (pairs, both) = (n(self.teams.slices), 2 * each);
        let walk = [
            (self.keys.rows, slices),
            (pairs, 2),
            (packets, 0),
            (deep, self.keys_most(build)),
            (n(each), 0),
            (n(2), 1),
        ];
        let order = [(self.keys.rows, true), (pairs, true), (packets, false), (deep, false)];
        let contract = Contract {
            flits: 2 * self.columns.flits,
            transpose: Some(FlitTranspose { rows: 2, columns: PAIRED }),
            repeats: deep,
            loops: nest(&walk),
            tree: 2,
            steps: steps(&order),
            ..contraction(dtype, build.machine.ce.lanes, Drain::Sequential)
        };
        let depth = self.heads.depth;
        let place = build.at.paired + bytes(dtype, 2 * (self.keys.first_row * depth + first));
        (contract, fetch(dtype, place, &[(self.keys.rows, 2 * depth), (n(2 * columns), 1)], both))
    }

    /// Values of all keys of the head, the two of a slice in a row side by side, some columns of one and then
    /// of the other.
    fn pair_values(&self, build: &mut Build<'_>) {
        let (dtype, depth) = (build.cache(), self.heads.depth);
        let width = self.teams.kv(&self.heads) * depth;
        let row = build.plan.cache_row / self.teams.count * 8 / u64::from(dtype.storage_bits());
        let loops = [(self.all_rows, 2 * row), (n(depth / PAIRED), PAIRED), (n(2), row), (n(PAIRED), 1)];
        let from = fetch(dtype, build.at.cached + bytes(dtype, width + self.kv * depth), &loops, PAIRED);
        let piece = bytes(dtype, PAIRED);
        let to = [(self.all_rows, bytes(dtype, 2 * depth)), (n(2 * depth / PAIRED), piece)];
        let to = commit(Memory::Dm, build.at.paired, &to, piece);
        build.emit.exec(main("pair_values", copy(from, to)));
    }

    /// Values of all slices of a team meet the weights, some columns at a turn, and the sum divides.
    fn values(&self, build: &mut Build<'_>, cache: usize, turn: u64, over: Sums) {
        let (columns, deep) = (self.heads.depth / self.turns, n(self.teams.deep));
        let (each, packets) = (self.columns.each, n(self.columns.packets / self.turns));
        let first = columns * turn;
        let (contract, from) = if self.teams.pairs {
            self.two_keys(build, first, columns)
        } else {
            self.one_key(build, first, columns)
        };
        let switch = multicast(build, self.teams.slices, self.columns.packets / self.turns);
        let stream = if over == Sums::First {
            through(from, chain(Word::I32, Vec::new()), None, self.first_half(build, turn))
        } else {
            let sums = [(packets, 0), (deep, 8), (n(8), 1), (n(each), 0)];
            let mut ends = divided(build, cache, vrf(LANE_WORDS * self.teams.deep, &sums));
            if over == Sums::Second {
                ends.ops.insert(0, self.load_first_half(build, turn));
            }
            let (_, _, cast) = build.attended();
            through(from, ends, cast, self.given_to(build, first))
        };
        build.emit.exec(main("values", Stream { switch, contract: Some(contract), ..stream }));
    }

    /// Where values of a turn's columns, from the first on, go.
    fn given_to(&self, build: &Build<'_>, first: u64) -> Commit {
        let (_, out, _) = build.attended();
        let (place, row, next) = self.given(build);
        let each = self.columns.each;
        let to = [
            (n(self.columns.packets / self.turns), bytes(out, each)),
            (n(self.teams.deep), bytes(out, next)),
            (n(build.machine.ce.lanes), bytes(out, row)),
            (n(each / 8), bytes(out, 8)),
        ];
        let place = place + bytes(out, self.query * self.heads.depth + first);
        commit(Memory::Dm, place, &to, bytes(out, 8))
    }

    /// Sums of a turn, of the first half of the keys: how many words, and where they lie.
    fn first_half_words(&self, build: &Build<'_>, turn: u64) -> (u64, u64) {
        let words = self.queries(build) * self.heads.depth / self.turns;
        (words, build.at.first_half + bytes(Dtype::I32, words * turn))
    }

    /// They go there as they are made.
    fn first_half(&self, build: &Build<'_>, turn: u64) -> Commit {
        let (words, place) = self.first_half_words(build, turn);
        commit(Memory::Dm, place, &[(n(words / 8), LANE_WORDS)], LANE_WORDS)
    }

    /// And come to the vector register file, behind maxima and sums of weights, to be added.
    fn load_first_half(&self, build: &mut Build<'_>, turn: u64) -> Op {
        let (words, place) = self.first_half_words(build, turn);
        let base = 2 * LANE_WORDS * self.teams.deep;
        let to = commit(Memory::Vrf, base, &[(n(words / 2), 8)], 8);
        let from = fetch(Dtype::F32, place, &[(n(words), 1)], 2);
        build.emit.exec(sub(build.machine, "load_first_half", copy(from, to)));
        with(OpKind::Add, vrf(base, &[(n(words), 1)]))
    }
}

fn index(count: u64) -> usize {
    to_index(count)
}
