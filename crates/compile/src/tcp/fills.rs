//! Weights on their way: from HBM to slots of data memory, piece by piece and ahead of their use, and from
//! there to the register files (paper section VI: feed forward in thirds, with prefetch).

use tilewright_tcp_isa::program::exec::{Memory, Stream};
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp_isa::program::vector::{OpKind, Word};
use tilewright_tcp_isa::vector::FLIT_WORDS;
use tilewright_tcp_lower::kernels::chain::op;
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::Build;
use super::image::{
    bytes, chain, commit, copy, fetch, fetch_words, main, n, packet_of, to_slices, transfer, turn,
};
use super::plan::{Fill, Packed};

/// Transfers of a fill at most: between them others find their turn on the DMA engine.
pub(super) const PIECES: usize = 4;

impl Build<'_> {
    /// Makes sure that the next fill is on its way; gives its place.
    pub fn next_fill(&mut self) -> u64 {
        while self.queue.asked_pieces < (self.queue.used_fills + 1) * PIECES {
            self.ask();
        }
        let place = self.at.slots[self.queue.used_fills % self.at.slots.len()];
        self.queue.used_fills += 1;
        place
    }

    /// Asks for so many pieces of the fills behind the one in use, as far as there are slots: its own is
    /// free, since it is in the register files.
    pub fn prefetch(&mut self, pieces: usize) {
        let most = (self.queue.used_fills + self.at.slots.len()) * PIECES;
        let most = most.min(self.queue.asked_pieces.saturating_add(pieces)).min(self.fills.len() * PIECES);
        while self.queue.asked_pieces < most {
            self.ask();
        }
    }

    /// Asks for the next piece of a fill.
    fn ask(&mut self) {
        let (index, piece) = (self.queue.asked_pieces / PIECES, (self.queue.asked_pieces % PIECES) as u64);
        self.queue.asked_pieces += 1;
        let Some((fill, slices)) = self.fills.get(index).copied() else { return };
        let place = self.at.slots[index % self.at.slots.len()];
        // Nobody else wants the engine of one processing element alone; small pieces cost more than they give
        // way.
        let pieces = if self.pes() > 1 { PIECES as u64 } else { 1 };
        let granule = self.machine.tdma.packet_max_bytes;
        let whole = fill.slice_bytes.div_ceil(pieces).next_multiple_of(granule);
        let first = (piece * whole).min(fill.slice_bytes);
        let bytes = whole.min(fill.slice_bytes - first);
        if bytes > 0 {
            let from = fill.at + self.home.pe * fill.pe_bytes + first;
            let packet = packet_of(self.machine, bytes);
            let target = self.dm(0, place + first);
            // Every band has all of them.
            let band = SLICE_STRIDE * signed(self.band_slices());
            let by_band = TransferLoop { size: n(self.bands()), source: 0, target: band };
            let by_packet = turn(n(bytes / packet), packet, packet);
            let networks = fill.networks.max(1);
            let of_network = slices / networks;
            let by_slice = to_slices(of_network, networks * fill.slice_bytes);
            let by_network = TransferLoop {
                size: n(networks),
                source: signed(fill.slice_bytes),
                target: SLICE_STRIDE * signed(of_network),
            };
            let loops = vec![by_band, by_slice, by_network, by_packet];
            let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
            self.emit.dma(transfer("weights", self.hbm(from), target, loops, packet));
        }
    }
}

/// Weights of a fill from data memory to the register files: a column to each lane in turn.
pub(super) fn load(build: &mut Build<'_>, packed: &Packed, fill: &Fill) {
    let place = build.next_fill();
    let machine = build.machine;
    if packed.held != packed.dtype {
        return widen(build, packed, fill, place);
    }
    let dtype = packed.dtype;
    let (row, flit) = (bytes(dtype, packed.row), machine.network.flit_bytes);
    let per_row = row.div_ceil(flit);
    let kept = row.min(flit);
    let lane = machine.trf_lane_payload_bytes();
    let to = [(n(fill.groups), row), (n(machine.ce.lanes), lane), (n(per_row), flit)];
    // Two loops: one would be longer than a sequencer counts.
    let piece = packed.row / per_row;
    let pieces = per_row * machine.ce.lanes * fill.groups;
    let from = fetch(dtype, place, &[(n(pieces), piece), (n(piece), 1)], piece);
    let to = commit(Memory::Trf { lanes: machine.ce.lanes }, 0, &to, kept);
    build.emit.exec(main("load_weights", copy(from, to)));
}

/// The same for weights that are narrower than what they meet: by way of words, a flit of them at a time.
fn widen(build: &mut Build<'_>, packed: &Packed, fill: &Fill, place: u64) {
    let (machine, dtype) = (build.machine, packed.dtype);
    let (row, piece) = (bytes(dtype, packed.row), bytes(dtype, FLIT_WORDS));
    let lane = machine.trf_lane_payload_bytes();
    let to = [(n(fill.groups), row), (n(machine.ce.lanes), lane), (n(packed.row / FLIT_WORDS), piece)];
    let from = [(n(machine.ce.lanes * fill.groups), packed.row), (n(packed.row), 1)];
    let to = commit(Memory::Trf { lanes: machine.ce.lanes }, 0, &to, piece);
    let floats = dtype.is_float().then(|| chain(Word::I32, vec![op(OpKind::ToFloat { int_width: 31 })]));
    let stream = copy(fetch_words(packed.held, place, &from), to);
    build.emit.exec(main("widen_weights", Stream { vector: floats, cast: Some(dtype), ..stream }));
}

/// The same, with all that can be asked for ahead.
pub(super) fn load_ahead(build: &mut Build<'_>, packed: &Packed, fill: &Fill) {
    load(build, packed, fill);
    build.prefetch(usize::MAX);
}
