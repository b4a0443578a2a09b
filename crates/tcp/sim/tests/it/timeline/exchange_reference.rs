//! Exchanges between the data memories of eight PEs, request by request: the reference of how engines share
//! networks and ports.
//!
//! From the documents alone: an engine sends a request of at most 256 B a cycle and has at most 64 on their
//! way (vISA book, DMA engine); 32 slices share a network, which passes 128 B a cycle in all (data memory
//! network); a PE has a port to the rest of the chip with 256 B a cycle in each direction (paper, section
//! III). A request reads from the network of its source, leaves by that PE's port, enters by the other's and
//! is written over the network of its target; each of them takes requests in the order in which they come.
//! Within a cluster, whose banks both sides need, an engine reads first and writes then (DMA engine). Nothing
//! of the simulator is used: it knows no requests and divides the time of what is scarce.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use tilewright_base::random::below;
use tilewright_tcp_isa::program::transfer::{SLICE_STRIDE, TransferLoop};
use tilewright_tcp_isa::program::{Count, Transfer};

use crate::timeline::build::{START, dm, dma, program, queue, run, spans, weights};
use crate::timeline::tcp;

const PES: u64 = 8;
const CLUSTER_PES: u64 = 4;
const SLICES: u64 = 64;
const NETWORK_SLICES: u64 = 32;
const REQUEST_BYTES: u64 = 256;
const IN_FLIGHT: u64 = 64;
const NETWORK_CYCLES: u64 = 2;
const PORT_CYCLES: u64 = 1;
/// Bytes between what the engines touch in a slice.
const ENGINE_BYTES: u64 = 0x8000;

/// What one engine moves: so many requests from the first slices of a PE to those of another, one after the
/// other.
#[derive(Clone, Copy, Debug)]
struct Flow {
    source_pe: u64,
    target_pe: u64,
    /// Slices on both sides: those of one network, or all of a PE.
    slices: u64,
    requests: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Station {
    Network { pe: u64, number: u64 },
    PortOut { pe: u64 },
    PortIn { pe: u64 },
}

impl Station {
    fn cycles(self) -> u64 {
        match self {
            Station::Network { .. } => NETWORK_CYCLES,
            Station::PortOut { .. } | Station::PortIn { .. } => PORT_CYCLES,
        }
    }
}

impl Flow {
    /// Both sides lie in one cluster.
    fn in_cluster(&self) -> bool {
        self.source_pe / CLUSTER_PES == self.target_pe / CLUSTER_PES
    }

    /// What the engine sends: within a cluster it reads all, then writes all.
    fn sent(&self) -> u64 {
        if self.in_cluster() { 2 * self.requests } else { self.requests }
    }

    /// The stations that a request passes.
    fn way(&self, request: u64) -> Vec<Station> {
        let number = request % self.slices / NETWORK_SLICES;
        let read = [Station::Network { pe: self.source_pe, number }, Station::PortOut { pe: self.source_pe }];
        let written =
            [Station::PortIn { pe: self.target_pe }, Station::Network { pe: self.target_pe, number }];
        match self.in_cluster() {
            true if request < self.requests => read.to_vec(),
            true => written.to_vec(),
            false => [read, written].concat(),
        }
    }

    fn transfer(&self, engine: u64) -> Transfer {
        let within = REQUEST_BYTES.cast_signed();
        let rows =
            |size: u64, step: i64| TransferLoop { size: Count::Fixed(size), source: step, target: step };
        Transfer {
            source: dm(0, self.source_pe * SLICES, engine * ENGINE_BYTES),
            target: dm(0, self.target_pe * SLICES, PES * ENGINE_BYTES + engine * ENGINE_BYTES),
            loops: vec![rows(self.requests / self.slices, within), rows(self.slices, SLICE_STRIDE)],
            ..weights(0, SLICES)
        }
    }
}

/// A request on its way: its flow, its number and the station that it is at.
type Request = (usize, u64, usize);

/// Cycles from the first request of all flows to the last of each.
fn request_by_request(flows: &[Flow]) -> Vec<u64> {
    let mut queues: BTreeMap<Station, (VecDeque<Request>, u64)> = BTreeMap::new();
    let mut leaving: BinaryHeap<Reverse<(u64, Request)>> = BinaryHeap::new();
    let (mut sent, mut done) = (vec![0; flows.len()], vec![0; flows.len()]);
    let mut ends = vec![0; flows.len()];
    let mut now = 0;
    while done.iter().zip(flows).any(|(done, flow)| *done < flow.sent()) {
        while let Some(Reverse((_, (flow, number, at)))) = leaving.pop_if_due(now) {
            match flows[flow].way(number).get(at + 1) {
                Some(next) => queues.entry(*next).or_default().0.push_back((flow, number, at + 1)),
                None => {
                    done[flow] += 1;
                    ends[flow] = now;
                }
            }
        }
        for (at, flow) in flows.iter().enumerate() {
            if sent[at] < flow.sent() && sent[at] - done[at] < IN_FLIGHT {
                queues.entry(flow.way(sent[at])[0]).or_default().0.push_back((at, sent[at], 0));
                sent[at] += 1;
            }
        }
        for (station, (waiting, free_at)) in &mut queues {
            if *free_at <= now
                && let Some(request) = waiting.pop_front()
            {
                *free_at = now + station.cycles();
                leaving.push(Reverse((*free_at, request)));
            }
        }
        now += 1;
    }
    ends
}

trait PopIfDue {
    fn pop_if_due(&mut self, now: u64) -> Option<Reverse<(u64, Request)>>;
}

impl PopIfDue for BinaryHeap<Reverse<(u64, Request)>> {
    fn pop_if_due(&mut self, now: u64) -> Option<Reverse<(u64, Request)>> {
        self.peek().is_some_and(|Reverse((time, _))| *time <= now).then(|| self.pop())?
    }
}

/// Cycles of each engine's transfer in the simulator, without their start.
fn simulated(flows: &[Flow]) -> Vec<u64> {
    let transfers = (0..).zip(flows).map(|(engine, flow)| flow.transfer(engine)).collect();
    let queues = (0..flows.len())
        .map(|engine| queue(0, engine as u64, vec![dma(u32::try_from(engine).expect("eight engines"), 0)]));
    let outcome = run(&tcp(), &program(vec![], transfers, queues.collect()));
    let cycles = |engine: usize| {
        let (start, end) = spans(&outcome, &format!("chip0/pe{engine}/dma"))[0];
        end - start - START
    };
    (0..flows.len()).map(cycles).collect()
}

/// An exchange: any, or one that leads out of clusters only.
fn drawn(state: &mut u64, across: bool) -> Vec<Flow> {
    let engines = 1 + below(state, PES);
    (0..engines)
        .map(|_| {
            let source_pe = below(state, PES);
            let target_pe = match across {
                true => (source_pe / CLUSTER_PES + 1) % 2 * CLUSTER_PES + below(state, CLUSTER_PES),
                false => (source_pe + 1 + below(state, PES - 1)) % PES,
            };
            let slices = [NETWORK_SLICES, SLICES][usize::from(below(state, 2) == 1)];
            Flow { source_pe, target_pe, slices, requests: SLICES * (8 + below(state, 24)) }
        })
        .collect()
}

/// How far the time of the slowest flow is off, in thousandths: at worst and on average.
fn worst_and_mean(across: bool) -> (u64, u64) {
    let (mut state, mut worst, mut sum) = (26, 0, 0);
    for _ in 0..DRAWS {
        let flows = drawn(&mut state, across);
        let [ours, reference] = [simulated(&flows), request_by_request(&flows)]
            .map(|cycles| cycles.into_iter().max().expect("an exchange has flows"));
        let off = thousandths(ours, reference);
        (worst, sum) = (worst.max(off), sum + off);
    }
    (worst, sum / DRAWS)
}

/// Exchanges that are drawn.
const DRAWS: u64 = 60;

fn thousandths(ours: u64, reference: u64) -> u64 {
    ours.abs_diff(reference) * 1000 / reference.max(1)
}

#[test]
fn one_flow_takes_the_time_of_its_slowest_station() {
    let flow = Flow { source_pe: 0, target_pe: 5, slices: SLICES, requests: 2048 };
    for slices in [NETWORK_SLICES, SLICES] {
        let flow = [Flow { slices, ..flow }];
        let (ours, reference) = (simulated(&flow)[0], request_by_request(&flow)[0]);
        assert!(thousandths(ours, reference) <= 20, "{slices} slices: {ours} and {reference}");
    }
}

/// Queues take who comes first, where the simulator gives each flow its fair part.
#[test]
fn exchanges_between_clusters_take_what_they_take_request_by_request() {
    let (worst, mean) = worst_and_mean(true);
    assert!(worst <= 50 && mean <= 5, "worst {worst}, mean {mean}");
}

/// Within a cluster reads and writes do not overlap, but no document says in which order an engine takes
/// them: here it reads all first, where the simulator spreads both over the whole time.
#[test]
fn any_exchange_takes_about_what_it_takes_request_by_request() {
    let (worst, mean) = worst_and_mean(false);
    assert!(worst <= 350 && mean <= 100, "worst {worst}, mean {mean}");
}
