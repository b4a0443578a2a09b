//! When the requests of one engine leave, if it may have so many in flight (vISA book, DMA engine: requests;
//! memory performance: queues, rows).
//!
//! An engine asks for a unit of memory a cycle, and waits while the request that many before this one has not
//! been served. What serves a request are three queues that each take it in order, and it is served when the
//! slowest has: the bus of its channel, its bank group, and its bank, which opens rows. The order of loops
//! matters here: requests that come to one channel in a burst make the engine wait, although all channels
//! have as much to do in the end. Requests that find their queues idle never wait, so a transfer that spreads
//! its requests takes what it took without a window.
//!
//! Times are multiples of a common divisor, which is taken out once: those of a machine with clocks of round
//! numbers fit 64 bits then, and others are counted in 128.

use tilewright_base::invariant::{Exact, to_index};
use tilewright_machine::tcp::Tcp;

use super::queues::{RequestQueues, ServiceTimes};
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

/// Most accesses that one nest sends: each step is of two at most.
const MOST_SENT: u128 = 2 * super::WALKED_UNITS as u128;

/// The queues, in the narrowest integers that hold the times of a whole nest.
#[derive(Clone, Debug)]
enum QueueWidth {
    Narrow(RequestQueues<u64>),
    Wide(RequestQueues<u128>),
}

/// The engine's clock and when each queue is free.
#[derive(Clone, Debug)]
pub(super) struct RequestWindow {
    /// One cycle of the chip, in parts of the denominator.
    cycle: u128,
    /// What the times of the queues are multiples of, in parts of the denominator.
    divisor: u128,
    queues: QueueWidth,
    /// What repeats of walked parts add, in parts of the denominator.
    repeated: u128,
}

impl RequestWindow {
    pub(super) fn new(machine: &Tcp, channels: usize, groups: usize, banks: usize) -> RequestWindow {
        let (wide, cycle) = service_times(machine);
        let divisor = wide.common_divisor();
        let served = to_index(machine.tdma.in_flight_requests).max(1);
        let narrow = wide.divided(divisor).filter(|_| wide.most().capped_mul(MOST_SENT) < u128::MAX);
        match narrow.filter(|times| u128::from(times.most()) * MOST_SENT <= u128::from(u64::MAX)) {
            Some(times) => {
                let queues = QueueWidth::Narrow(RequestQueues::new(times, served, channels, groups, banks));
                RequestWindow { cycle, divisor, queues, repeated: 0 }
            }
            None => RequestWindow::wide(machine, channels, groups, banks),
        }
    }

    /// A window whose times are 128 bits wide, whatever they are.
    pub(super) fn wide(machine: &Tcp, channels: usize, groups: usize, banks: usize) -> RequestWindow {
        let (times, cycle) = service_times(machine);
        let served = to_index(machine.tdma.in_flight_requests).max(1);
        let queues = QueueWidth::Wide(RequestQueues::new(times, served, channels, groups, banks));
        RequestWindow { cycle, divisor: 1, queues, repeated: 0 }
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        match &mut self.queues {
            QueueWidth::Narrow(queues) => queues.clear(),
            QueueWidth::Wide(queues) => queues.clear(),
        }
        self.repeated = 0;
    }

    /// Requests that may be in flight.
    pub(super) fn requests(&self) -> u64 {
        match &self.queues {
            QueueWidth::Narrow(queues) => queues.requests(),
            QueueWidth::Wide(queues) => queues.requests(),
        }
    }

    /// One access leaves, as soon as it may.
    #[inline]
    pub(super) fn send(&mut self, access: WindowAccess) {
        match &mut self.queues {
            QueueWidth::Narrow(queues) => queues.send(access),
            QueueWidth::Wide(queues) => queues.send(access),
        }
    }

    /// A request to every channel, all alike: see [`RequestQueues::send_lap`].
    pub(super) fn send_lap(&mut self, first: WindowAccess, order: &[usize]) {
        match &mut self.queues {
            QueueWidth::Narrow(queues) => queues.send_lap(first, order),
            QueueWidth::Wide(queues) => queues.send_lap(first, order),
        }
    }

    /// Times of the queues fit 64 bits.
    #[cfg(test)]
    pub(super) fn is_narrow(&self) -> bool {
        matches!(self.queues, QueueWidth::Narrow(_))
    }

    /// When the next request may leave, in parts of the denominator.
    fn now(&self) -> u128 {
        match &self.queues {
            QueueWidth::Narrow(queues) => self.divisor.capped_mul(u128::from(queues.now())),
            QueueWidth::Wide(queues) => queues.now(),
        }
    }

    /// Now, with what repeats added.
    pub(super) fn elapsed(&self) -> u128 {
        self.now().capped_add(self.repeated)
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
        self.repeated = scaled.saturating_sub(self.now());
    }

    /// Cycles until the last request has left, rounded up.
    pub(super) fn cycles(&self) -> u64 {
        capped(self.elapsed().div_ceil(self.cycle.max(1)))
    }
}

/// How long each queue takes for an access, and one cycle of the chip, in parts of the denominator.
fn service_times(machine: &Tcp) -> (ServiceTimes<u128>, u128) {
    let times = ChannelTimes::new(machine);
    let interval_cycles = machine.tdma.request_bytes.div_ceil(machine.tdma.bandwidth_bytes_per_cycle);
    let service = ServiceTimes {
        interval: times.cycle().capped_mul(u128::from(interval_cycles)),
        unit: times.unit,
        partial: times.partial,
        row: times.row,
        columns: times.group_unit(),
    };
    (service, times.cycle())
}
