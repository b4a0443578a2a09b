//! Chains on the vector engine: tiles of every slice's share come from HBM, go through the passes, and go
//! back.

use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::vector::{Vector, Word};
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::chain;
use tilewright_tcp_lower::kernels::pass::{ElementRun, ElementTarget, fetch_pairs, fetch_words, pass};

use super::emit::Block;
use super::passes::Pass;
use super::plan::{Planner, Spread, WORD_BYTES};
use super::refusal::Lowered;

/// Words of a stream that each slice works on at once, at most.
const MOST_TILE_WORDS: u64 = 4096;

impl Planner<'_> {
    pub(super) fn chain(
        &mut self,
        inputs: &[usize],
        streams: &[usize],
        results: &[usize],
        passes: &[Pass],
    ) -> Lowered<()> {
        let count = self.value(results[0]).count();
        let spread = Spread::new(self.machine(), self.emitter.pes(), count);
        let words = spread.share;
        let rooms = Rooms::new(inputs.len(), streams, passes);
        let half =
            streams.iter().zip(results).filter(|(_, value)| self.value(**value).packing.is_narrow()).count()
                as u64;
        let room = self.emitter.dm_bytes() / WORD_BYTES / (rooms.most + half).max(1);
        let most = (room / FLIT_WORDS * FLIT_WORDS).min(MOST_TILE_WORDS);
        if most == 0 {
            return Err(format!("{} streams at once do not fit data memory", rooms.most));
        }
        for pe in 0..spread.pes {
            self.emitter.turn_to(pe);
            let own = pe * self.machine().pe.slices * words;
            let mut first = 0;
            while first < words {
                let tile = most.min(words - first);
                self.tile(&Tile { inputs, streams, results, passes, rooms: &rooms, words, own, first, tile });
                first += tile;
            }
        }
        Ok(())
    }

    /// A tile of every slice's share: in, through the passes, out.
    fn tile(&mut self, tile: &Tile<'_>) {
        let slices = self.machine().pe.slices;
        let narrow = |(_, value): &(&usize, &usize)| self.value(**value).packing.is_narrow();
        let half = tile.streams.iter().zip(tile.results).filter(narrow);
        let taken = (tile.rooms.most + half.count() as u64) * tile.tile * WORD_BYTES;
        let base = self.emitter.next_region(taken);
        let room = |at: u64| base + at * tile.tile * WORD_BYTES;
        let block = |place: u64, dm: u64, element_bytes: u64| Block {
            hbm: place + (tile.own + tile.first) * element_bytes,
            dm,
            first_slice: 0,
            slices,
            pitch_bytes: tile.words * element_bytes,
            rows: 1,
            row_bytes: tile.tile * element_bytes,
            hbm_row_bytes: 0,
            dm_row_bytes: 0,
        };
        for (stream, value) in tile.inputs.iter().enumerate() {
            if let Some(at) = tile.rooms.of[stream] {
                self.emitter.slices("bring", true, &block(self.places[*value], room(at), WORD_BYTES));
            }
        }
        let at = |stream: usize| room(tile.rooms.of[stream].or_broken("streams of passes have rooms"));
        for pass in tile.passes {
            self.pass(pass, at(pass.stream), pass.pair.map(at), tile.tile, (at(pass.result), None));
        }
        let mut spare = tile.rooms.most;
        for (stream, value) in tile.streams.iter().zip(tile.results) {
            let mut from = at(*stream);
            let packing = self.value(*value).packing;
            if packing.is_narrow() {
                let to = room(spare);
                spare += 1;
                let plain =
                    Pass { stream: 0, pair: None, vector: chain(packing.word(), Vec::new()), result: 0 };
                self.pass(&plain, from, None, tile.tile, (to, packing.cast()));
                from = to;
            }
            let bytes = self.value(*value).element_bytes();
            self.emitter.keep("keep", &block(self.places[*value], from, bytes));
        }
    }

    pub(super) fn pass(
        &mut self,
        pass: &Pass,
        from: u64,
        pair: Option<u64>,
        words: u64,
        (to, cast): (u64, Option<Dtype>),
    ) {
        self.emitter.exec(command(&pass.vector, from, pair, words, (to, cast)));
    }
}

/// A tile of a chain.
struct Tile<'t> {
    inputs: &'t [usize],
    streams: &'t [usize],
    results: &'t [usize],
    passes: &'t [Pass],
    rooms: &'t Rooms,
    /// Words of each slice's share.
    words: u64,
    /// First word of the PE's.
    own: u64,
    /// First of the tile.
    first: u64,
    /// Words of the tile.
    tile: u64,
}

/// Which room of data memory each stream has; those whose last reader ran give theirs to later ones.
pub(super) struct Rooms {
    pub(super) of: Vec<Option<u64>>,
    pub(super) most: u64,
}

impl Rooms {
    pub(super) fn new(inputs: usize, kept: &[usize], passes: &[Pass]) -> Rooms {
        Rooms::with_late(inputs, kept, passes, &|_| false)
    }

    /// The same, with inputs that come as late as the first pass that reads them.
    pub(super) fn with_late(
        inputs: usize,
        kept: &[usize],
        passes: &[Pass],
        is_late: &dyn Fn(usize) -> bool,
    ) -> Rooms {
        let streams = passes.iter().map(|pass| pass.result + 1).max().unwrap_or(0).max(inputs);
        let mut last = vec![None; streams];
        for (at, pass) in passes.iter().enumerate() {
            last[pass.stream] = Some(at);
            if let Some(pair) = pass.pair {
                last[pair] = Some(at);
            }
        }
        kept.iter().for_each(|stream| last[*stream] = Some(passes.len()));
        let mut rooms = Rooms { of: vec![None; streams], most: 0 };
        let mut free: Vec<u64> = Vec::new();
        let is_late = |stream: usize| is_late(stream) && !kept.contains(&stream);
        for stream in (0..inputs).filter(|stream| last[*stream].is_some() && !is_late(*stream)) {
            rooms.take(stream, &mut free);
        }
        for (at, pass) in passes.iter().enumerate() {
            for stream in [Some(pass.stream), pass.pair].into_iter().flatten() {
                if stream < inputs && rooms.of[stream].is_none() {
                    rooms.take(stream, &mut free);
                }
            }
            rooms.take(pass.result, &mut free);
            let ended = (0..streams).filter(|stream| last[*stream] == Some(at));
            free.extend(ended.filter_map(|stream| rooms.of[stream]));
        }
        rooms
    }

    fn take(&mut self, stream: usize, free: &mut Vec<u64>) {
        let room = free.pop().unwrap_or_else(|| {
            self.most += 1;
            self.most - 1
        });
        self.of[stream] = Some(room);
    }
}

/// A command of the vector engine on words that lie side by side.
pub(super) fn command(
    vector: &Vector,
    from: u64,
    pair: Option<u64>,
    words: u64,
    (to, cast): (u64, Option<Dtype>),
) -> tilewright_tcp_isa::program::Exec {
    let dtype = match vector.input {
        Word::F32 => Dtype::F32,
        Word::I32 => Dtype::I32,
    };
    let run = ElementRun { dtype, base: from, elements: words };
    let fetch = match pair {
        Some(second) => fetch_pairs(run, second),
        None => fetch_words(dtype, from, &[(words, 1)]),
    };
    let leaves = match tilewright_tcp_isa::vector::output(vector) {
        Word::F32 => Dtype::F32,
        Word::I32 => Dtype::I32,
    };
    let target = ElementTarget { dtype: cast.unwrap_or(leaves), base: to };
    pass("chain", fetch, vector.clone(), words / FLIT_WORDS, target)
}
