//! When the requests of one engine leave, if it may have so many in flight (vISA book, DMA engine: requests;
//! memory performance: queues, rows).
//!
//! An engine asks for a unit of memory a cycle, and waits while the request that many before this one has not
//! been served. What serves a request are three queues that each take it in order, and it is served when the
//! slowest has: the bus of its channel, its bank group, and its bank, which opens rows. The order of loops
//! matters here: requests that come to one channel in a burst make the engine wait, although all channels
//! have as much to do in the end. Requests that find their queues idle never wait, so a transfer that spreads
//! its requests takes what it took without a window.

use tilewright_base::invariant::{Exact, to_index};
use tilewright_machine::tcp::Tcp;

use super::time::ChannelTimes;
use tilewright_tcp_isa::capped::{Capped, capped};

/// One access as the queues take it, times in parts of a denominator.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowAccess {
    pub(super) channel: usize,
    /// Of all channels.
    pub(super) group: usize,
    /// Of all channels.
    pub(super) bank: usize,
    pub(super) partial: bool,
    pub(super) row_switch: bool,
    /// The access before on the same channel was of the same bank and another row.
    pub(super) back_to_back: bool,
    /// It is the first of its request.
    pub(super) begins: bool,
}

/// The engine's clock and when each queue is free.
#[derive(Clone, Debug)]
pub(super) struct RequestWindow {
    times: ChannelTimes,
    /// Between two requests of an engine that waits for nothing.
    interval: u128,
    /// When each of the last requests was served, a ring.
    served: Vec<u128>,
    next: usize,
    /// When the next request may leave.
    now: u128,
    /// What repeats of walked parts add.
    repeated: u128,
    buses: Vec<u128>,
    groups: Vec<u128>,
    banks: Vec<u128>,
}

impl RequestWindow {
    pub(super) fn new(machine: &Tcp, channels: usize, groups: usize, banks: usize) -> RequestWindow {
        let times = ChannelTimes::new(machine);
        let interval_cycles = machine.tdma.request_bytes.div_ceil(machine.tdma.bandwidth_bytes_per_cycle);
        RequestWindow {
            times,
            interval: times.cycle().capped_mul(u128::from(interval_cycles)),
            served: vec![0; to_index(machine.tdma.in_flight_requests).max(1)],
            next: 0,
            now: 0,
            repeated: 0,
            buses: vec![0; channels],
            groups: vec![0; groups],
            banks: vec![0; banks],
        }
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        for times in [&mut self.served, &mut self.buses, &mut self.groups, &mut self.banks] {
            times.fill(0);
        }
        (self.next, self.now, self.repeated) = (0, 0, 0);
    }

    /// Requests that may be in flight.
    pub(super) fn requests(&self) -> u64 {
        self.served.len() as u64
    }

    /// One access leaves, as soon as it may.
    pub(super) fn send(&mut self, access: WindowAccess) {
        if access.begins {
            self.next = (self.next + 1) % self.served.len();
            self.now = self.now.max(std::mem::take(&mut self.served[self.next]));
        }
        let (times, now) = (&self.times, self.now);
        let after = |queue: Option<&mut u128>, service: u128| {
            queue.map_or(0, |free| {
                *free = (*free).max(now).capped_add(service);
                *free
            })
        };
        let unit = if access.partial { times.partial } else { times.unit };
        let bus = if access.back_to_back { times.row.max(unit) } else { unit };
        let columns = if access.partial { 0 } else { times.group_unit() };
        let bank = if access.row_switch { times.row.max(unit) } else { unit };
        let served = after(self.buses.get_mut(access.channel), bus)
            .max(after(self.groups.get_mut(access.group), columns))
            .max(after(self.banks.get_mut(access.bank), bank));
        self.served[self.next] = self.served[self.next].max(served);
        self.now = now.capped_add(self.interval);
    }

    /// Now, with what repeats added.
    pub(super) fn elapsed(&self) -> u128 {
        self.now.capped_add(self.repeated)
    }

    /// So many repeats since a time stand for others.
    pub(super) fn repeat(&mut self, since: u128, walked: u64, others: u64) {
        let elapsed = self.elapsed().exact_sub(since);
        let added = elapsed.capped_mul(u128::from(others)) / u128::from(walked.max(1));
        self.repeated = self.repeated.capped_add(added);
    }

    /// Lets what was walked stand for all bytes of a nest.
    pub(super) fn scale(&mut self, all_bytes: u128, covered_bytes: u128) {
        let scaled = self.elapsed().capped_mul(all_bytes).div_ceil(covered_bytes.max(1));
        self.repeated = scaled.saturating_sub(self.now);
    }

    /// Cycles until the last request has left, rounded up.
    pub(super) fn cycles(&self) -> u64 {
        capped(self.elapsed().div_ceil(self.times.cycle().max(1)))
    }
}
