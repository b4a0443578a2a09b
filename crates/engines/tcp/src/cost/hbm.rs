//! Off-chip memory: which channels the accesses of a loop nest go to, and how long the busiest takes (vISA book, memory performance).
//!
//! Requests are cut from the start of each packet. A request touches one access unit, or two if it crosses their border; a write
//! that covers a unit in part is a read, a change and a write. A channel works off its units one after the other, at a fraction
//! of a cycle more than 5 each, so times are summed exactly and rounded up once
//! (the wait for a row is first rounded to whole cycles). A unit in the bank of the channel's last access,
//! but in another row, waits for the row instead; a change of row in another bank hides behind the accesses between.

use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessLoop;

use map::Map;

mod map;
mod walk;

/// Requests that are walked one by one: a fraction of a second.
pub const WALKED_REQUESTS: u64 = 1 << 22;

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
pub struct Access<'a> {
    /// Which way.
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
pub struct Channel {
    /// Access units touched, those below included.
    pub accesses: u64,
    /// Units written in part.
    pub partial_writes: u64,
    /// Units that wait for another row of the bank just used.
    pub row_switches: u64,
    /// Address of the last unit.
    last_bytes: Option<u64>,
}

/// The channels of a machine's off-chip memory. Made once and cleared between uses, so that counting allocates nothing.
#[derive(Clone, Debug)]
pub struct Channels {
    map: Map,
    channels: Vec<Channel>,
    exact: bool,
}

/// More loops than a tensor DMA has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLoops {
    /// Loops asked for.
    pub loops: usize,
    /// Loops of the engine.
    pub most: u64,
}

impl Channels {
    /// Idle channels.
    pub fn new(machine: &Tcp) -> Channels {
        let count = usize::try_from(machine.hbm_channels()).unwrap_or(0);
        Channels { map: Map::new(machine), channels: vec![Channel::default(); count], exact: true }
    }

    /// Forgets all accesses.
    pub fn clear(&mut self) {
        self.channels.fill(Channel::default());
        self.exact = true;
    }

    /// Adds the accesses of a loop nest to what the channels have to do.
    pub fn add(&mut self, machine: &Tcp, access: &Access) -> Result<(), TooManyLoops> {
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
        let access = Access { loops_bytes: loops, packet_bytes, ..*access };
        self.nest(machine, &access, WALKED_REQUESTS, 1);
        Ok(())
    }

    /// What each channel has to do.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Every access was counted; if not, some stand for others.
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// Access units touched on all channels.
    pub fn accesses(&self) -> u64 {
        self.channels.iter().fold(0, |all, channel| all.saturating_add(channel.accesses))
    }

    /// Cycles of the busiest channel, rounded up.
    pub fn busiest_cycles(&self, machine: &Tcp) -> u64 {
        let busiest = (0..self.channels.len()).map(|at| self.channel_time(machine, at)).max().unwrap_or(0);
        u64::try_from(busiest.div_ceil(unit_time(machine).denominator)).unwrap_or(u64::MAX)
    }

    /// Cycles of one channel times 2^32, rounded up, so that many small shares add up to what they are.
    pub fn channel_cycles_q32(&self, machine: &Tcp, channel: usize) -> u128 {
        let time = self.channel_time(machine, channel);
        time.checked_mul(1 << 32).map_or(u128::MAX, |time| time.div_ceil(unit_time(machine).denominator))
    }

    /// Cycles of one channel, times the denominator of an access.
    fn channel_time(&self, machine: &Tcp, channel: usize) -> u128 {
        let Some(channel) = self.channels.get(channel) else { return 0 };
        let unit = unit_time(machine);
        let switch_ns = u128::from(machine.hbm.row_switch_ns) * u128::from(machine.chip.clock_hz);
        let switch = switch_ns.div_ceil(1_000_000_000);
        let partial = u128::from(machine.hbm.partial_write_cycles);
        let slow = channel.partial_writes.saturating_add(channel.row_switches);
        let plain = u128::from(channel.accesses.saturating_sub(slow)) * unit.numerator;
        let waits = u128::from(channel.partial_writes) * partial + u128::from(channel.row_switches) * switch;
        plain.saturating_add(waits.saturating_mul(unit.denominator))
    }

    /// Spreads so many accesses evenly, for patterns that are not known or too long to walk.
    pub fn add_evenly(&mut self, accesses: u64, partial_writes: u64) {
        let count = self.channels.len().max(1) as u64;
        for channel in &mut self.channels {
            channel.accesses = channel.accesses.saturating_add(accesses.div_ceil(count));
            channel.partial_writes = channel.partial_writes.saturating_add(partial_writes.div_ceil(count));
            channel.last_bytes = None;
        }
        self.exact = false;
    }
}

/// Cycles of one access, as a fraction.
struct UnitTime {
    numerator: u128,
    denominator: u128,
}

fn unit_time(machine: &Tcp) -> UnitTime {
    UnitTime {
        numerator: u128::from(machine.hbm.access_bytes) * u128::from(machine.chip.clock_hz),
        denominator: u128::from(machine.hbm.channel_bytes_per_cycle)
            * u128::from(machine.hbm.channel_clock_hz),
    }
}
