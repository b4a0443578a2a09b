//! From a transfer to its two sides: which memories, how many requests, which channels, and how long that
//! takes alone on the engine of one PE (vISA book, DMA engine; paper section III-D for other chips).
//!
//! Between chips, data also passes a PCIe link, at the rate that peer transfers reach and after its latency.
//! Rows by index count as spread evenly over the channels, since their places are data. Reading the index
//! table is not counted.

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessLoop;
use tilewright_tcp_isa::program::transfer::{MemoryInstance, MemoryLocation, Transfer};

use super::networks::{self, OnChipSide, PathUse};
use crate::cycles::dma;
use crate::cycles::dma::{DmaBound, DmaCycles, DmaRoute, DmaSide, transfer_cycles};
use crate::cycles::hbm::{Direction, HbmAccess, HbmChannels};
use tilewright_tcp_isa::capped::{Capped, capped};

/// A transfer alone: time, and what it takes of what is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferCost {
    /// Start-up and the two sides, at full rate of all memories and links.
    pub cycles: DmaCycles,
    /// Cycles in which data moves; the rest of the total is start-up.
    pub moved_cycles: u64,
    /// Bytes that arrive.
    pub bytes: u64,
    /// Requests of each side.
    pub requests: u64,
    /// Memory that is read.
    pub source: MemoryLocation,
    /// Memory that is written.
    pub target: MemoryLocation,
    /// Off-chip memory that is read, if it is.
    pub read: Option<HbmUse>,
    /// Off-chip memory that is written, if it is.
    pub written: Option<HbmUse>,
    /// Cycles of the PCIe link between the chips; 0 within one.
    pub link_cycles: u64,
    /// Data memory networks and ports of PEs.
    pub paths: Vec<PathUse>,
    /// Rows are found by index, and taken to be spread evenly over the channels of off-chip memory: an
    /// assumption.
    pub spread: bool,
}

/// One side's use of off-chip memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbmUse {
    /// Chip that the memory belongs to.
    pub chip: u64,
    /// Bytes of all access units touched: what the interface moves.
    pub unit_bytes: u64,
    /// Cycles of the busiest channel times 2^32.
    pub busiest_q32: u128,
    /// Cycles of each channel times 2^32; empty if all are as busy as the busiest, within one access.
    pub channels_q32: Vec<u128>,
}

/// How long a transfer takes alone; `None` if it starts where no memory is.
pub fn transfer_cost(machine: &Tcp, transfer: &Transfer) -> Option<TransferCost> {
    let (source, target) = (transfer.source.locate()?, transfer.target.locate()?);
    let packets = transfer.loops.iter().fold(1_u64, |all, row| all.capped_mul(row.size.fixed()));
    let requests = dma::requests(machine, packets, transfer.packet);
    let bytes = packets.capped_mul(transfer.packet);
    let ends = [(Direction::Read, source), (Direction::Write, target)]
        .map(|(direction, located)| TransferEnd { direction, located });
    let [mut reads, mut writes] = ends.map(|end| side(machine, transfer, &end, requests));
    let inside = source.chip == target.chip && reads.pes.len() == 1 && reads.pes == writes.pes;
    let mut paths = Vec::new();
    for (part, end) in [(&mut reads, &ends[0]), (&mut writes, &ends[1])] {
        paths.append(&mut part.paths);
        if !inside {
            let inward = end.direction == Direction::Write;
            let ports = networks::ports(machine, end.located.chip, &part.pes, bytes, inward);
            let port = ports.iter().map(|port| port.cycles_q32).fold(0, u128::max);
            let port_cycles = capped(port.div_ceil(1 << 32));
            part.side.memory_cycles = part.side.memory_cycles.max(port_cycles);
            paths.extend(ports);
        }
    }
    let link_cycles = if source.chip == target.chip { 0 } else { link_cycles(machine, bytes) };
    let startup_cycles = machine.tdma.startup_cycles.capped_add(peer_cycles(machine, link_cycles));
    let route = route(machine, source, target);
    let mut cycles = transfer_cycles(startup_cycles, route, reads.side, writes.side);
    let moved_cycles = cycles.total_cycles.exact_sub(startup_cycles).max(link_cycles);
    if link_cycles > 0 && moved_cycles == link_cycles {
        cycles.binding = DmaBound::Link;
    }
    cycles.total_cycles = startup_cycles.capped_add(moved_cycles);
    let off_chip = |end: &TransferEnd| end.located.medium == MemoryInstance::Hbm && end.by_index(transfer);
    Some(TransferCost {
        cycles,
        moved_cycles,
        bytes,
        requests,
        source,
        target,
        read: reads.off_chip,
        written: writes.off_chip,
        link_cycles,
        paths,
        spread: ends.iter().any(off_chip),
    })
}

/// One end of a transfer.
#[derive(Clone, Copy)]
struct TransferEnd {
    direction: Direction,
    located: MemoryLocation,
}

impl TransferEnd {
    fn strides(&self, transfer: &Transfer) -> impl Iterator<Item = (u64, i64)> {
        let reads = self.direction == Direction::Read;
        transfer.loops.iter().map(move |row| (row.size.fixed(), if reads { row.source } else { row.target }))
    }

    /// Which rows this end goes to is data.
    fn by_index(&self, transfer: &Transfer) -> bool {
        transfer.index.is_some_and(|index| index.scatter == (self.direction == Direction::Write))
    }
}

/// What one end takes.
struct EndCost {
    side: DmaSide,
    off_chip: Option<HbmUse>,
    paths: Vec<PathUse>,
    /// PEs that it lies in.
    pes: Vec<u64>,
}

fn side(machine: &Tcp, transfer: &Transfer, end: &TransferEnd, requests: u64) -> EndCost {
    match end.located.medium {
        MemoryInstance::Hbm => {
            let channels = channels(machine, transfer, end, requests);
            let side = DmaSide::off_chip(machine, requests, 1, &channels);
            let off_chip = Some(off_chip(machine, end.located.chip, &channels));
            EndCost { side, off_chip, paths: Vec::new(), pes: Vec::new() }
        }
        MemoryInstance::Dm { slice } => {
            let misaligned = end.direction == Direction::Write && misaligned(machine, transfer, end);
            let visits = networks::networks(machine, slice, end.strides(transfer));
            let one = DmaSide::data_memory(machine, 1, 1, 1, misaligned).memory_cycles;
            let OnChipSide { paths, pes, network_cycles } =
                networks::reached(machine, end.located, &visits, requests, one);
            let engine_cycles = DmaSide::data_memory(machine, requests, 1, 1, misaligned).engine_cycles;
            EndCost {
                side: DmaSide { engine_cycles, memory_cycles: network_cycles },
                off_chip: None,
                paths,
                pes,
            }
        }
        MemoryInstance::Spm { .. } => {
            let request_cycles = machine.tdma.request_bytes.div_ceil(machine.cpu.spm_bytes_per_cycle);
            let memory_cycles = requests.capped_mul(request_cycles);
            let side = DmaSide {
                memory_cycles,
                ..DmaSide::data_memory(machine, requests, 1, machine.pe.dmns, false)
            };
            EndCost { side, off_chip: None, paths: Vec::new(), pes: networks::scratchpad(end.located) }
        }
    }
}

fn channels(machine: &Tcp, transfer: &Transfer, end: &TransferEnd, requests: u64) -> HbmChannels {
    let mut channels = HbmChannels::new(machine);
    let loops: Vec<AccessLoop> =
        end.strides(transfer).map(|(size, stride)| AccessLoop::new(size, stride.cast_unsigned())).collect();
    let access = HbmAccess {
        direction: end.direction,
        base_bytes: end.located.offset,
        loops_bytes: &loops,
        packet_bytes: transfer.packet,
    };
    if end.by_index(transfer) || channels.add(machine, &access).is_err() {
        let unit = machine.hbm.access_bytes;
        let partial = end.direction == Direction::Write && !transfer.packet.is_multiple_of(unit);
        channels.clear();
        channels.add_evenly(requests, if partial { requests } else { 0 });
    }
    channels
}

fn off_chip(machine: &Tcp, chip: u64, channels: &HbmChannels) -> HbmUse {
    let times = channels.cycles_q32(machine);
    let (least, most) =
        times.iter().fold((u128::MAX, 0), |(least, most), time| (least.min(*time), most.max(*time)));
    let even = most - least.min(most) <= most >> 6;
    HbmUse {
        chip,
        unit_bytes: channels.accesses().capped_mul(machine.hbm.access_bytes),
        busiest_q32: most,
        channels_q32: if even { Vec::new() } else { times },
    }
}

/// Writes that are no whole granules: read, changed and written.
fn misaligned(machine: &Tcp, transfer: &Transfer, end: &TransferEnd) -> bool {
    let granule = machine.dm.write_granule_bytes;
    let odd = |bytes: u64| !bytes.is_multiple_of(granule);
    odd(transfer.packet)
        || odd(end.located.offset)
        || end.strides(transfer).any(|(_, stride)| odd(stride.unsigned_abs()))
}

/// Both sides share banks within the data memory of a cluster, and channels within a chip's off-chip memory.
fn route(machine: &Tcp, source: MemoryLocation, target: MemoryLocation) -> DmaRoute {
    let cluster = |slice: u64| slice / machine.fused_slices(machine.chip.pes_per_cluster).max(1);
    match (source.medium, target.medium) {
        _ if source.chip != target.chip => DmaRoute::AcrossTiers,
        (MemoryInstance::Hbm, MemoryInstance::Hbm) => {
            DmaRoute::WithinOffChip { ahead_cycles: dma::ahead_cycles(machine) }
        }
        (MemoryInstance::Dm { slice: from }, MemoryInstance::Dm { slice: to })
            if cluster(from) == cluster(to) =>
        {
            DmaRoute::WithinTier
        }
        _ => DmaRoute::AcrossTiers,
    }
}

fn link_cycles(machine: &Tcp, bytes: u64) -> u64 {
    let cycles = u128::from(bytes) * u128::from(machine.chip.clock_hz);
    let rate = machine.pcie.peer_effective_bytes_per_s.min(machine.pcie.peer_bytes_per_s).max(1);
    capped(cycles.div_ceil(u128::from(rate)))
}

fn peer_cycles(machine: &Tcp, link_cycles: u64) -> u64 {
    if link_cycles == 0 { 0 } else { cycles_of_ns(machine, machine.pcie.peer_ns) }
}

/// Whole cycles of a time.
pub fn cycles_of_ns(machine: &Tcp, ns: u64) -> u64 {
    let cycles = u128::from(ns) * u128::from(machine.chip.clock_hz);
    capped(cycles.div_ceil(1_000_000_000))
}
