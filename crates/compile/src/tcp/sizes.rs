//! How widths are dealt out: columns of a slice, rows of register files, and how much of a weight they take
//! at once.

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::choices::MOST_BANDS;
use super::image::bytes;

/// Elements that a flit of words has.
const WORDS: u64 = tilewright_tcp_isa::vector::FLIT_WORDS;

/// Elements, rounded up so that their bytes are at most a flit, or whole packets.
pub fn whole_packets(machine: &Tcp, dtype: Dtype, elements: u64) -> u64 {
    let elements = elements.next_multiple_of(WORDS);
    if bytes(dtype, elements) <= machine.network.flit_bytes {
        return elements;
    }
    let mut elements = elements;
    while !bytes(dtype, elements).is_multiple_of(machine.ce.packet_bytes) {
        elements += WORDS;
    }
    elements
}

/// A width dealt out over the slices, or, where prompts deal their tokens out over bands of slices, over
/// those of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Columns.
    pub width: u64,
    /// Columns of each slice, padding included.
    pub share: u64,
    /// Slices of a band that have any.
    pub slices: u64,
    /// Bands.
    pub bands: u64,
    /// All slices of a band.
    pub band_slices: u64,
}

impl Features {
    /// Deals a width out over bands of slices; contractions read it as elements of a type.
    pub fn new(machine: &Tcp, dtype: Dtype, width: u64, bands: u64) -> Features {
        let band_slices = (machine.pe.slices / bands.max(1)).max(1);
        let share = whole_packets(machine, dtype, width.div_ceil(band_slices));
        Features { width, share, slices: width.div_ceil(share.max(1)), bands, band_slices }
    }

    /// The most bands of use, a power of two: with more of them slices would have more columns than a packet,
    /// and none would be idle for less.
    pub fn most_bands(machine: &Tcp, dtype: Dtype, width: u64) -> u64 {
        let of_packet = |bands: &u64| {
            let features = Features::new(machine, dtype, width, *bands);
            bytes(dtype, features.share) <= machine.ce.packet_bytes
        };
        let bands = std::iter::successors(Some(2_u64), |bands| Some(bands * 2));
        let most =
            bands.take_while(|bands| *bands <= MOST_BANDS.min(machine.pe.slices)).take_while(of_packet);
        most.last().unwrap_or(1)
    }
}

/// How elements that lie side by side meet the contraction engine: flits of a packet, its elements, packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// Flits of a packet.
    pub flits: u64,
    /// Elements of a packet.
    pub elements: u64,
    /// Packets.
    pub count: u64,
}

impl Packets {
    /// Packets of elements as [`whole_packets`] pads them.
    pub fn new(machine: &Tcp, dtype: Dtype, elements: u64) -> Packets {
        let (flit, packet) = (machine.network.flit_bytes, machine.ce.packet_bytes);
        let all = bytes(dtype, elements);
        if all <= flit {
            return Packets { flits: 1, elements, count: 1 };
        }
        let count = all.div_ceil(packet).max(1);
        Packets { flits: packet / flit, elements: elements / count, count }
    }
}

/// Groups of eight columns of a weight that the register files take at once, one column a lane.
pub fn groups_of_fill(machine: &Tcp, dtype: Dtype, contracted: u64, packets: Packets) -> u64 {
    let rows = machine.trf_lane_payload_bytes() / bytes(dtype, contracted).max(1);
    // With several packets a sum, all groups are open at once.
    let open = if packets.count > 1 { machine.accumulators() / machine.ce.lanes } else { u64::MAX };
    rows.min(open).max(1)
}
