//! Tensor DMA: start-up, then reading and writing, side by side between kinds of memory and one after the
//! other within data memory (vISA book, DMA engine). Between two places of off-chip memory both overlap but
//! for a beginning: [`DmaRoute::WithinOffChip`].
//!
//! Packets are cut into requests; an engine takes one a cycle at best, a data memory network one every other
//! cycle. Which of its engines a machine uses, and how many, is the program's choice; shares are taken to be
//! even.

use tilewright_machine::tcp::Tcp;

use super::hbm::HbmChannels;
use tilewright_tcp_isa::capped::Capped;

/// Where the two sides of a transfer lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaRoute {
    /// From one kind of memory to another, or between clusters: reads and writes overlap.
    AcrossTiers,
    /// Data memory of one cluster, whose banks both sides need: one after the other.
    WithinTier,
    /// Off-chip memory of one chip on both sides: an engine first fills what it holds in flight, for at most
    /// so many cycles; then reads and writes overlap.
    WithinOffChip {
        /// See [`ahead_cycles`].
        ahead_cycles: u64,
    },
}

/// Cycles for which an engine reads before it writes, between two places of one off-chip memory. An
/// assumption, the least that explains both examples of the vISA book: 64 requests of one engine take 128
/// cycles, but four engines reach 0.75 of 1.5 TB/s.
pub fn ahead_cycles(machine: &Tcp) -> u64 {
    engine_cycles(machine, machine.tdma.in_flight_requests, 1)
}

/// One side of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaSide {
    /// Cycles in which each engine sends its requests.
    pub engine_cycles: u64,
    /// Cycles of the busiest part of the memory.
    pub memory_cycles: u64,
}

/// What sets the time of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaBound {
    /// Engines that read.
    ReadEngine,
    /// Memory that is read.
    ReadMemory,
    /// Engines that write.
    WriteEngine,
    /// Memory that is written.
    WriteMemory,
    /// The link between two chips.
    Link,
}

/// How long a transfer takes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaCycles {
    /// All of it.
    pub total_cycles: u64,
    /// Start-up.
    pub startup_cycles: u64,
    /// Cycles of reading.
    pub read_cycles: u64,
    /// Cycles of writing.
    pub write_cycles: u64,
    /// The slowest part.
    pub binding: DmaBound,
}

impl DmaSide {
    /// Cycles of the slower of engine and memory.
    pub fn cycles(&self) -> u64 {
        self.engine_cycles.max(self.memory_cycles)
    }

    /// Data memory behind `dmns` networks, served by `engines` engines. Misaligned writes take a multiple of
    /// the time.
    pub fn data_memory(machine: &Tcp, requests: u64, engines: u64, dmns: u64, misaligned: bool) -> DmaSide {
        let request_cycles = machine.tdma.request_bytes.div_ceil(machine.dmn.bandwidth_bytes_per_cycle);
        let factor = if misaligned { machine.dm.misaligned_write_factor } else { 1 };
        let memory_cycles = requests.div_ceil(dmns.max(1)).capped_mul(request_cycles * factor);
        DmaSide { engine_cycles: engine_cycles(machine, requests, engines), memory_cycles }
    }

    /// Off-chip memory, whose channels have counted this side's accesses.
    pub fn off_chip(machine: &Tcp, requests: u64, engines: u64, channels: &HbmChannels) -> DmaSide {
        let sent_cycles = channels.sent_cycles().div_ceil(engines.max(1));
        DmaSide {
            engine_cycles: engine_cycles(machine, requests, engines).max(sent_cycles),
            memory_cycles: channels.busiest_cycles(machine),
        }
    }
}

/// Start-up and the two sides. `startup_cycles` is normally the machine's `tdma.startup_cycles`.
pub fn transfer_cycles(startup_cycles: u64, route: DmaRoute, read: DmaSide, write: DmaSide) -> DmaCycles {
    let (read_cycles, write_cycles) = (read.cycles(), write.cycles());
    let moved_cycles = match route {
        DmaRoute::AcrossTiers => read_cycles.max(write_cycles),
        DmaRoute::WithinTier => read_cycles.capped_add(write_cycles),
        DmaRoute::WithinOffChip { ahead_cycles } => {
            let ahead_cycles = read_cycles.min(write_cycles).min(ahead_cycles);
            read_cycles.max(write_cycles).capped_add(ahead_cycles)
        }
    };
    let binding = match (read_cycles >= write_cycles, read, write) {
        (true, read, _) if read.memory_cycles >= read.engine_cycles => DmaBound::ReadMemory,
        (true, ..) => DmaBound::ReadEngine,
        (false, _, write) if write.memory_cycles >= write.engine_cycles => DmaBound::WriteMemory,
        (false, ..) => DmaBound::WriteEngine,
    };
    let total_cycles = startup_cycles.capped_add(moved_cycles);
    DmaCycles { total_cycles, startup_cycles, read_cycles, write_cycles, binding }
}

/// Requests of a transfer.
pub fn requests(machine: &Tcp, packets: u64, packet_bytes: u64) -> u64 {
    packets.capped_mul(packet_requests(machine, packet_bytes))
}

/// Requests of a packet.
pub fn packet_requests(machine: &Tcp, packet_bytes: u64) -> u64 {
    packet_bytes.div_ceil(machine.tdma.request_bytes)
}

/// Cycles in which each of `engines` sends its share.
fn engine_cycles(machine: &Tcp, requests: u64, engines: u64) -> u64 {
    let request_cycles = machine.tdma.request_bytes.div_ceil(machine.tdma.bandwidth_bytes_per_cycle);
    requests.div_ceil(engines.max(1)).capped_mul(request_cycles)
}
