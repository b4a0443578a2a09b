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
        let (now, service) = (self.now, self.service(access));
        let after = |queue: Option<&mut T>, service: T| {
            queue.map_or(T::default(), |free| {
                *free = (*free).max(now).capped_add(service);
                *free
            })
        };
        let served = after(self.buses.get_mut(access.channel), service.bus)
            .max(after(self.groups.get_mut(access.group), service.columns))
            .max(after(self.banks.get_mut(access.bank), service.bank));
        self.served[self.next] = self.served[self.next].max(served);
        self.now = now.capped_add(self.times.interval);
    }

    /// A request to every channel, all alike, in this order: that of `first`, an access of its queues, with
    /// these bits of its channel's number changed. Queues of a bank or group are those of one channel after
    /// the other.
    pub(super) fn send_lap(&mut self, first: WindowAccess, order: &[usize]) {
        let (service, interval, count) = (self.service(first), self.times.interval, order.len());
        let of_lap = |at: usize| at.checked_sub(first.channel).map(|from| from..from + count);
        let groups = of_lap(first.group).and_then(|lap| self.groups.get_mut(lap));
        let banks = of_lap(first.bank).and_then(|lap| self.banks.get_mut(lap));
        let (Some(groups), Some(banks)) = (groups, banks) else { return };
        let (mut now, mut next) = (self.now, self.next);
        for flipped in order {
            let at = first.channel ^ flipped;
            let queues = (self.buses.get_mut(at), groups.get_mut(at), banks.get_mut(at));
            let (Some(bus), Some(group), Some(bank)) = queues else { continue };
            next = if next + 1 < self.served.len() { next + 1 } else { 0 };
            let slot = &mut self.served[next];
            now = now.max(*slot);
            *bus = (*bus).max(now).capped_add(service.bus);
            *group = (*group).max(now).capped_add(service.columns);
            *bank = (*bank).max(now).capped_add(service.bank);
            *slot = (*bus).max(*group).max(*bank);
            now = now.capped_add(interval);
        }
        (self.now, self.next) = (now, next);
    }

    /// How long each queue takes for an access.
    #[inline]
    fn service(&self, access: WindowAccess) -> QueueService<T> {
        let times = &self.times;
        let unit = if access.partial { times.partial } else { times.unit };
        let opened = times.row.max(unit);
        QueueService {
            bus: if access.back_to_back { opened } else { unit },
            columns: if access.partial { T::default() } else { times.columns },
            bank: if access.row_switch { opened } else { unit },
        }
    }
}

/// How long the queues of one access take for it.
#[derive(Clone, Copy, Debug)]
struct QueueService<T> {
    bus: T,
    columns: T,
    bank: T,
}
