//! The queues that serve the requests of one engine, over integers of any width.

use tilewright_tcp_isa::capped::Capped;

use super::window::WindowAccess;

/// How long each queue takes for an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceTimes<T> {
    /// Between two requests of an engine that waits for nothing.
    pub(super) interval: T,
    /// A unit on the data bus or in its bank.
    pub(super) unit: T,
    /// A unit that is written in part.
    pub(super) partial: T,
    /// A unit that opens another row.
    pub(super) row: T,
    /// The columns of a unit in their bank group.
    pub(super) columns: T,
}

impl<T: Copy + Ord> ServiceTimes<T> {
    fn all(&self) -> [T; 5] {
        [self.interval, self.unit, self.partial, self.row, self.columns]
    }

    /// The longest.
    pub(super) fn most(&self) -> T {
        self.all().into_iter().fold(self.interval, T::max)
    }
}

impl ServiceTimes<u128> {
    /// The largest number that all are multiples of.
    pub(super) fn common_divisor(&self) -> u128 {
        let divisor = self.all().into_iter().fold(0, |mut a, mut b| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        });
        divisor.max(1)
    }

    /// Times in multiples of a divisor, if they fit 64 bits.
    pub(super) fn divided(&self, divisor: u128) -> Option<ServiceTimes<u64>> {
        let part = |time: u128| u64::try_from(time / divisor).ok();
        Some(ServiceTimes {
            interval: part(self.interval)?,
            unit: part(self.unit)?,
            partial: part(self.partial)?,
            row: part(self.row)?,
            columns: part(self.columns)?,
        })
    }
}

/// The engine's clock and when each queue is free.
#[derive(Clone, Debug)]
pub(super) struct RequestQueues<T> {
    times: ServiceTimes<T>,
    /// When each of the last requests was served, a ring.
    served: Vec<T>,
    next: usize,
    /// When the next request may leave.
    now: T,
    buses: Vec<T>,
    groups: Vec<T>,
    banks: Vec<T>,
}

impl<T: Copy + Ord + Default + Capped> RequestQueues<T> {
    /// Idle queues of an engine that may have so many requests in flight.
    pub(super) fn new(
        times: ServiceTimes<T>,
        requests: usize,
        channels: usize,
        groups: usize,
        banks: usize,
    ) -> RequestQueues<T> {
        let idle = |count: usize| vec![T::default(); count];
        RequestQueues {
            times,
            served: idle(requests),
            next: 0,
            now: T::default(),
            buses: idle(channels),
            groups: idle(groups),
            banks: idle(banks),
        }
    }

    /// Forgets all requests.
    pub(super) fn clear(&mut self) {
        for times in [&mut self.served, &mut self.buses, &mut self.groups, &mut self.banks] {
            times.fill(T::default());
        }
        (self.next, self.now) = (0, T::default());
    }

    /// Requests that may be in flight.
    pub(super) fn requests(&self) -> u64 {
        self.served.len() as u64
    }

    /// When the next request may leave.
    pub(super) fn now(&self) -> T {
        self.now
    }

    /// One access leaves, as soon as it may.
    #[inline]
    pub(super) fn send(&mut self, access: WindowAccess) {
        if access.begins {
            self.next = if self.next + 1 < self.served.len() { self.next + 1 } else { 0 };
            self.now = self.now.max(std::mem::take(&mut self.served[self.next]));
        }
        let (times, now) = (&self.times, self.now);
        let after = |queue: Option<&mut T>, service: T| {
            queue.map_or(T::default(), |free| {
                *free = (*free).max(now).capped_add(service);
                *free
            })
        };
        let unit = if access.partial { times.partial } else { times.unit };
        let bus = if access.back_to_back { times.row.max(unit) } else { unit };
        let columns = if access.partial { T::default() } else { times.columns };
        let bank = if access.row_switch { times.row.max(unit) } else { unit };
        let served = after(self.buses.get_mut(access.channel), bus)
            .max(after(self.groups.get_mut(access.group), columns))
            .max(after(self.banks.get_mut(access.bank), bank));
        self.served[self.next] = self.served[self.next].max(served);
        self.now = now.capped_add(times.interval);
    }
}
