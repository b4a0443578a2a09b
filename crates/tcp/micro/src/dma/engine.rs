//! A DMA engine and the networks of data memory.
//!
//! An engine asks for one unit of HBM in a cycle, gives one to write in a cycle, and keeps a window of
//! requests that are asked for and not handed on, and another of those that are handed to HBM and not
//! written. A request that crosses a boundary of units takes two transfers. Between two places of HBM it
//! fills its window before it writes, which is what both examples of the book need: 64 requests take 128
//! cycles, but four engines reach half of the memory's rate for reads. Data memory networks move what engines
//! give them in order (vISA book, memory performance, DMN and slice interleaving).

use std::collections::VecDeque;

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;

use super::RequestId;
use super::address::HbmPlace;
use super::channel::{Access, Channel};
use super::requests::{Request, RequestSide};

/// An engine at work on one transfer.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    index: usize,
    requests: Vec<Request>,
    window: u64,
    /// Accesses of each request's current side that are not done.
    waiting: Vec<u64>,
    /// Whether a request has its data.
    loaded: Vec<bool>,
    /// Units of the next read, and of the next write, that were asked for.
    read: PortPosition,
    written: PortPosition,
    /// Requests with data that wait for the port.
    to_write: VecDeque<usize>,
    /// Asked for and not handed on.
    reading: u64,
    /// Handed to HBM and not written.
    writing: u64,
    /// A whole window, or all, was asked for.
    writes: bool,
    done: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct PortPosition {
    request: usize,
    unit: u64,
}

impl Engine {
    pub(crate) fn new(machine: &Tcp, index: usize, requests: Vec<Request>) -> Engine {
        Engine {
            index,
            waiting: requests.iter().map(|r| r.source.accesses()).collect(),
            loaded: vec![false; requests.len()],
            requests,
            window: machine.tdma.in_flight_requests,
            read: PortPosition::default(),
            written: PortPosition::default(),
            to_write: VecDeque::new(),
            reading: 0,
            writing: 0,
            writes: false,
            done: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.requests.len()
    }

    /// One cycle of the port.
    pub(crate) fn step(&mut self, machine: &Tcp, channels: &mut [Channel], networks: &mut DataNetworks) {
        self.step_write(machine, channels);
        self.step_read(machine, channels, networks);
    }

    /// Asks for the next unit.
    fn step_read(&mut self, machine: &Tcp, channels: &mut [Channel], networks: &mut DataNetworks) {
        let PortPosition { request, unit } = self.read;
        let Some(next) = self.requests.get(request) else { return };
        if unit == 0 && self.reading >= self.window {
            return;
        }
        match next.source {
            RequestSide::Hbm { unit_bytes, units, .. } => {
                let at = unit_bytes + unit * machine.hbm.access_bytes;
                let id = RequestId { engine: self.index, request };
                if !ask(machine, channels, at, false, id) {
                    return;
                }
                self.reading += u64::from(unit == 0);
                self.read = if unit + 1 == units {
                    PortPosition { request: request + 1, unit: 0 }
                } else {
                    PortPosition { request, unit: unit + 1 }
                };
            }
            RequestSide::Dm { network, beats } => {
                networks.push(network, beats, RequestId { engine: self.index, request });
                self.reading += 1;
                self.read = PortPosition { request: request + 1, unit: 0 };
            }
        }
    }

    fn step_write(&mut self, machine: &Tcp, channels: &mut [Channel]) {
        let Some(&request) = self.to_write.front() else { return };
        let asked = self.read.request;
        self.writes |= asked as u64 >= self.window || asked == self.requests.len();
        if !self.writes && matches!(self.requests[request].source, RequestSide::Hbm { .. }) {
            return;
        }
        let RequestSide::Hbm { unit_bytes, units, partial } = self.requests[request].target else { return };
        let unit = self.written.unit;
        if unit == 0 && self.writing >= self.window {
            return;
        }
        let at = unit_bytes + unit * machine.hbm.access_bytes;
        let partial = (unit == 0 && partial[0]) || (unit + 1 == units && partial[1]);
        if !ask(machine, channels, at, partial, RequestId { engine: self.index, request }) {
            return;
        }
        if unit == 0 {
            self.reading -= 1;
            self.writing += 1;
        }
        self.written.unit += 1;
        if self.written.unit == units {
            self.written.unit = 0;
            self.to_write.pop_front();
        }
    }

    /// A unit was read or written.
    pub(crate) fn access_done(&mut self, request: usize, networks: &mut DataNetworks) {
        self.waiting[request] -= 1;
        if self.waiting[request] > 0 {
            return;
        }
        if self.loaded[request] {
            self.finish(request);
        } else {
            self.load(request, Some(networks));
        }
    }

    /// A network of data memory has moved a request.
    fn moved(&mut self, request: usize) {
        if self.loaded[request] {
            self.finish(request);
        } else {
            self.load(request, None);
        }
    }

    fn load(&mut self, request: usize, networks: Option<&mut DataNetworks>) {
        self.loaded[request] = true;
        match (self.requests[request].target, networks) {
            (RequestSide::Dm { network, beats }, Some(networks)) => {
                networks.push(network, beats, RequestId { engine: self.index, request });
            }
            (target, _) => {
                self.waiting[request] = target.accesses();
                self.to_write.push_back(request);
            }
        }
    }

    fn finish(&mut self, request: usize) {
        match self.requests[request].target {
            RequestSide::Hbm { .. } => self.writing -= 1,
            RequestSide::Dm { .. } => self.reading -= 1,
        }
        self.done += 1;
    }
}

/// Puts an access into the queue of its channel; false while that is full.
fn ask(machine: &Tcp, channels: &mut [Channel], at: u64, partial_write: bool, of: RequestId) -> bool {
    let place = HbmPlace::of(machine, at);
    let channel = &mut channels[place.channel];
    let room = channel.room() > 0;
    if room {
        channel.push(Access { place, partial_write, of });
    }
    room
}

/// The networks between engines and data memory.
#[derive(Clone, Debug)]
pub(crate) struct DataNetworks {
    queues: Vec<VecDeque<(u64, RequestId)>>,
    /// The cycle from which each is free, and what it moves until then.
    moving: Vec<Option<(u64, RequestId)>>,
    busy_until: u64,
}

impl DataNetworks {
    pub(crate) fn new(machine: &Tcp) -> DataNetworks {
        let networks =
            to_index(machine.chip.clusters * machine.chip.pes_per_cluster * machine.pe.dmns).max(1);
        DataNetworks { queues: vec![VecDeque::new(); networks], moving: vec![None; networks], busy_until: 0 }
    }

    fn push(&mut self, network: usize, beats: u64, of: RequestId) {
        let index = network % self.queues.len();
        self.queues[index].push_back((beats, of));
    }

    /// Start of a cycle: what was moved until now is handed on, and the next begins.
    pub(crate) fn step(&mut self, cycle: u64, engines: &mut [Engine]) {
        for (queue, moving) in self.queues.iter_mut().zip(&mut self.moving) {
            if let Some((until, of)) = *moving
                && until <= cycle
            {
                *moving = None;
                engines[of.engine].moved(of.request);
            }
            if moving.is_none()
                && let Some((beats, of)) = queue.pop_front()
            {
                *moving = Some((cycle + beats, of));
                self.busy_until = self.busy_until.max(cycle + beats);
            }
        }
    }

    pub(crate) fn busy_until(&self) -> u64 {
        self.busy_until
    }
}
