//! Off-chip memory: which channels the accesses of a loop nest go to, and how long the busiest takes (vISA
//! book, memory performance).
//!
//! Requests are cut from the start of each packet. A request touches one access unit, or two if it crosses
//! their border; a write that covers a unit in part is a read, a change and a write. How long a channel takes
//! is in `time`.

use tilewright_base::invariant::{Exact, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessLoop;

use laps::RunCounts;
use map::AddressMap;
use tilewright_tcp_isa::capped::{Capped, capped};
use window::RequestWindow;

mod laps;
mod map;
mod queues;
mod time;
#[cfg(test)]
mod twin;
mod walk;
mod window;

/// Access units that are walked one by one for a nest: some milliseconds.
pub const WALKED_UNITS: u64 = 1 << 18;

/// The part of a channel's time that transfers can use, times 2^32: the efficiency of long streams. Refresh
/// is within it, since how refresh is done is what its band is about, and takes nothing more.
pub fn reached_q32(machine: &Tcp) -> u64 {
    let reached = machine.hbm.efficiency;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1, so at most 2^32"
    )]
    let reached_q32 = (reached.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
    reached_q32
}

/// Which way data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Out of the memory.
    Read,
    /// Into the memory.
    Write,
}

/// One side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HbmAccess<'a> {
    /// Read or write.
    pub direction: Direction,
    /// Address of the first packet.
    pub base_bytes: u64,
    /// Loops over packets, outermost first, strides in bytes; a negative stride is its two's complement.
    pub loops_bytes: &'a [AccessLoop],
    /// Bytes of a packet.
    pub packet_bytes: u64,
}

/// What a channel has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelLoad {
    /// Access units touched, those below included.
    pub accesses: u64,
    /// Units written in part.
    pub partial_writes: u64,
    /// Units that open another row of their bank, partial writes not counted.
    pub row_switches: u64,
    /// Of these, units that follow one of the same bank and another row.
    pub back_to_back: u64,
    /// Times that a unit lies in another rank than the one before.
    pub rank_changes: u64,
    rank: Option<usize>,
    bank: Option<usize>,
}

/// What a bank of a channel has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BankLoad {
    accesses: u64,
    partial_writes: u64,
    row_switches: u64,
    /// The open row.
    row: Option<u64>,
}

/// The channels of a machine's off-chip memory. Made once and cleared between uses, so that counting
/// allocates nothing.
#[derive(Clone, Debug)]
pub struct HbmChannels {
    map: AddressMap,
    channels: Vec<ChannelLoad>,
    /// By bank, then by channel.
    banks: Vec<BankLoad>,
    /// Units read or written whole, by bank group, then by channel.
    group_units: Vec<u64>,
    window: RequestWindow,
    /// Of the contiguous run that is walked.
    run: RunCounts,
    /// Cycles in which the requests of the slowest nest leave their engine.
    sent_cycles: u64,
    exact: bool,
    /// Of the nest that is walked.
    steps_left: u64,
    covered_bytes: u128,
}

/// More loops than a tensor DMA has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLoops {
    /// Requested loops.
    pub loops: usize,
    /// Loops of the engine.
    pub most: u64,
}

impl HbmChannels {
    /// Idle channels.
    pub fn new(machine: &Tcp) -> HbmChannels {
        let (map, count) = (AddressMap::new(machine), to_index(machine.hbm_channels()));
        HbmChannels {
            map,
            channels: vec![ChannelLoad::default(); count],
            banks: vec![BankLoad::default(); count.capped_mul(map.banks())],
            group_units: vec![0; count.capped_mul(map.groups())],
            window: RequestWindow::new(
                machine,
                count,
                count.capped_mul(map.groups()),
                count.capped_mul(map.banks()),
            ),
            run: RunCounts::new(&map),
            sent_cycles: 0,
            exact: true,
            steps_left: 0,
            covered_bytes: 0,
        }
    }

    /// Forgets all accesses.
    pub fn clear(&mut self) {
        self.channels.fill(ChannelLoad::default());
        self.banks.fill(BankLoad::default());
        self.group_units.fill(0);
        self.window.clear();
        self.sent_cycles = 0;
        self.exact = true;
    }

    /// Adds the accesses of a loop nest to what the channels have to do.
    pub fn add(&mut self, machine: &Tcp, access: &HbmAccess) -> Result<(), TooManyLoops> {
        let most = machine.tdma.loops;
        if access.loops_bytes.len() as u64 > most {
            return Err(TooManyLoops { loops: access.loops_bytes.len(), most });
        }
        let (mut loops, mut packet_bytes) = (access.loops_bytes, access.packet_bytes);
        // A packet of whole requests is cut where a run of such packets is cut.
        while let Some((inner, outer)) = loops.split_last() {
            let run = packet_bytes.checked_mul(inner.size);
            let whole = packet_bytes.is_multiple_of(machine.tdma.request_bytes);
            let Some(run) = run.filter(|_| whole && inner.stride == packet_bytes) else { break };
            (loops, packet_bytes) = (outer, run);
        }
        let access = HbmAccess { loops_bytes: loops, packet_bytes, ..*access };
        let packets = loops.iter().fold(1_u128, |all, row| all.capped_mul(u128::from(row.size)));
        let all_bytes = packets.capped_mul(u128::from(packet_bytes));
        if all_bytes == 0 {
            return Ok(());
        }
        let units = packets.capped_mul(u128::from(packet_bytes / machine.hbm.access_bytes.max(1) + 2));
        // What was there before is not scaled.
        let before = (units > u128::from(WALKED_UNITS)).then(|| self.clone());
        (self.steps_left, self.covered_bytes) = (WALKED_UNITS, 0);
        self.window.clear();
        let walked = self.nest(machine, &access, 1);
        if let Some(before) = before.filter(|_| !walked) {
            self.exact = false;
            self.scale(&before, all_bytes);
            self.window.scale(all_bytes, self.covered_bytes);
        }
        self.sent_cycles = self.sent_cycles.max(self.window.cycles());
        Ok(())
    }

    /// Lets what was counted since `before` stand for all bytes of a nest.
    fn scale(&mut self, before: &HbmChannels, all_bytes: u128) {
        let covered = self.covered_bytes.max(1);
        let whole = |now: &mut u64, before: u64| {
            let counted = u128::from(now.exact_sub(before));
            let scaled = counted.capped_mul(all_bytes).div_ceil(covered);
            *now = before.capped_add(capped(scaled));
        };
        for (now, before) in self.channels.iter_mut().zip(&before.channels) {
            whole(&mut now.accesses, before.accesses);
            whole(&mut now.partial_writes, before.partial_writes);
            whole(&mut now.row_switches, before.row_switches);
            whole(&mut now.back_to_back, before.back_to_back);
            whole(&mut now.rank_changes, before.rank_changes);
        }
        for (now, before) in self.banks.iter_mut().zip(&before.banks) {
            whole(&mut now.accesses, before.accesses);
            whole(&mut now.partial_writes, before.partial_writes);
            whole(&mut now.row_switches, before.row_switches);
        }
        for (now, before) in self.group_units.iter_mut().zip(&before.group_units) {
            whole(now, *before);
        }
    }

    /// What each channel has to do.
    pub fn channels(&self) -> &[ChannelLoad] {
        &self.channels
    }

    /// Cycles in which an engine sends the requests of the slowest nest: one for each unit, and those in
    /// which its window is full.
    pub fn sent_cycles(&self) -> u64 {
        self.sent_cycles
    }

    /// Every access was counted; if not, some stand for others.
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// Access units touched on all channels.
    pub fn accesses(&self) -> u64 {
        self.channels.iter().fold(0, |all, channel| all.capped_add(channel.accesses))
    }

    /// Spreads so many accesses evenly over channels and banks, for rows whose places are data.
    pub fn add_evenly(&mut self, accesses: u64, partial_writes: u64) {
        let count = self.channels.len().max(1) as u64;
        for channel in &mut self.channels {
            channel.accesses = channel.accesses.capped_add(accesses.div_ceil(count));
            channel.partial_writes = channel.partial_writes.capped_add(partial_writes.div_ceil(count));
            (channel.rank, channel.bank) = (None, None);
        }
        for bank in &mut self.banks {
            bank.row = None;
        }
        self.exact = false;
    }
}

impl BankLoad {
    fn add(&mut self, accesses: u64, partial_writes: u64, row_switches: u64) {
        self.accesses = self.accesses.capped_add(accesses);
        self.partial_writes = self.partial_writes.capped_add(partial_writes);
        self.row_switches = self.row_switches.capped_add(row_switches);
    }
}

/// Bytes of a column: what a channel moves in one cycle of its clock.
fn column_bytes(machine: &Tcp) -> u64 {
    machine.hbm.channel_bytes_per_cycle.max(1)
}

#[cfg(test)]
mod tests {
    use tilewright_base::Sources;
    use tilewright_machine::{LoadedMachine, builtin, load};

    use super::*;

    fn tcp() -> LoadedMachine {
        let mut sources = Sources::default();
        let id = sources.add("tcp", builtin("tcp").unwrap());
        load(&mut sources, id, &|_| None).unwrap()
    }

    /// Cycles of 16 MiB that are read in one run, over all channels.
    fn stream_cycles(machine: &Tcp) -> u128 {
        let mut channels = HbmChannels::new(machine);
        let access =
            HbmAccess { direction: Direction::Read, base_bytes: 0, loops_bytes: &[], packet_bytes: 1 << 24 };
        channels.add(machine, &access).unwrap();
        let busiest_q32 = channels.cycles_q32(machine).into_iter().max().unwrap();
        busiest_q32.div_ceil(u128::from(reached_q32(machine)))
    }

    /// Both ends of the band are other times than the figure itself, and nothing above it is cut off.
    #[test]
    fn a_stream_is_faster_the_more_efficient_the_memory_is() {
        let loaded = tcp();
        let figures = loaded.key_values();
        let figure = figures.iter().find(|figure| (figure.section, figure.key) == ("hbm", "efficiency"));
        let figure = figure.unwrap();
        let band = figure.band.as_ref().unwrap();
        let [low, stated, high] =
            [&band.low, &figure.value, &band.high].map(|value| value.to_string().parse::<f64>().unwrap());
        let at = |efficiency: f64| {
            let mut machine = loaded.machine.tcp().unwrap().clone();
            machine.hbm.efficiency = efficiency;
            stream_cycles(&machine)
        };
        let rising = [low, stated, 0.96, high, 0.99, 1.0];
        assert!(rising.is_sorted_by(|less, more| less < more), "{rising:?}");
        let cycles = rising.map(at);
        assert!(cycles.is_sorted_by(|slower, faster| slower > faster), "{cycles:?}");
    }
}
