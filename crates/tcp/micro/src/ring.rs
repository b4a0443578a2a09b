//! Routers of a ring: packets gather in one direction and are multicast in the other (paper section IV-B;
//! vISA book, switch engine).
//!
//! The ring is bidirectional and circuit switched. Each router appends its packet to those of the slices
//! before it, so the last router sees all packets in the strict order that the topology asks for; it turns
//! the stream around, and on the way back every router sees every packet and keeps its own. A link moves one
//! flit a cycle. This order of events is our reading: it is the simplest that gives both what the book counts
//! (ring size times flits) and what it measures (a fill of two cycles a slice).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::switch::SwitchStage;
use tilewright_tcp_isa::switch::Topology;

use crate::fifo::Fifo;
use crate::pipeline::ContextPipeline;
use crate::topology::{self, RingPacket};

/// How far a router is in the order of packets.
#[derive(Clone, Copy, Debug, Default)]
struct PacketPosition {
    packet: u64,
    flit: u64,
}

impl PacketPosition {
    fn advance(&mut self, packet_flits: u64) {
        self.flit += 1;
        if self.flit == packet_flits {
            *self = PacketPosition { packet: self.packet + 1, flit: 0 };
        }
    }
}

/// All routers of a ring.
#[derive(Clone, Debug)]
pub(crate) struct Routers {
    topology: Topology,
    custom_sources: u64,
    packets: u64,
    packet_flits: u64,
    /// Links from the slice before.
    gather: Vec<Fifo>,
    gathered: Vec<PacketPosition>,
    /// Links from the slice after; that of the last router is its own turn.
    multicast: Vec<Fifo>,
    passed: Vec<PacketPosition>,
}

impl Routers {
    /// Routers for what each slice sends; `custom_sources` are those that a custom bitmap keeps.
    pub(crate) fn new(machine: &Tcp, switch: &SwitchStage, custom_sources: u64) -> Routers {
        let slices = topology::slices(switch.topology);
        let hop = machine.network.hop_cycles;
        let links = || (0..slices).map(|_| Fifo::new(hop + 1, hop)).collect::<Vec<_>>();
        let places = || (0..slices).map(|_| PacketPosition::default()).collect::<Vec<_>>();
        Routers {
            topology: switch.topology,
            custom_sources,
            packets: switch.packets * slices,
            packet_flits: switch.packet_flits.max(1),
            gather: links(),
            gathered: places(),
            multicast: links(),
            passed: places(),
        }
    }

    /// One cycle: `fetched` are the queues before the router of each slice.
    pub(crate) fn step(&mut self, now: u64, slices: &mut [ContextPipeline], fetched: &mut [Fifo]) {
        for (slice, pipeline) in slices.iter_mut().enumerate() {
            self.pass(now, slice, pipeline.input());
        }
        for (slice, fetched) in fetched.iter_mut().enumerate().rev() {
            self.append(now, slice, fetched);
        }
    }

    /// A flit on the way back passes a router, which may keep it.
    fn pass(&mut self, now: u64, slice: usize, kept: &mut Fifo) {
        if !self.multicast[slice].is_ready(now) {
            return;
        }
        let sent = topology::sent(self.topology, self.passed[slice].packet);
        let keep = topology::keeps(self.topology, self.custom_sources, slice as u64, sent);
        let onward = slice.checked_sub(1);
        let blocked = keep && !kept.has_room() || onward.is_some_and(|next| !self.multicast[next].has_room());
        if blocked {
            return;
        }
        self.multicast[slice].pop();
        self.passed[slice].advance(self.packet_flits);
        if keep {
            kept.push(now);
        }
        if let Some(next) = onward {
            self.multicast[next].push(now);
        }
    }

    /// A router sends on what comes from before, or its own packet when that is next.
    fn append(&mut self, now: u64, slice: usize, fetched: &mut Fifo) {
        let Some(sent) = self.next_up_to(slice) else { return };
        let own = sent.source == slice as u64;
        let ready = if own { fetched.is_ready(now) } else { self.gather[slice].is_ready(now) };
        let last = slice + 1 == self.gather.len();
        let room = if last { self.multicast[slice].has_room() } else { self.gather[slice + 1].has_room() };
        if !ready || !room {
            return;
        }
        if own {
            fetched.pop();
        } else {
            self.gather[slice].pop();
        }
        self.gathered[slice].advance(self.packet_flits);
        if last {
            self.multicast[slice].push(now);
        } else {
            self.gather[slice + 1].push(now);
        }
    }

    /// The next packet in order whose source is this slice or one before it.
    fn next_up_to(&mut self, slice: usize) -> Option<RingPacket> {
        while self.gathered[slice].packet < self.packets {
            let sent = topology::sent(self.topology, self.gathered[slice].packet);
            if sent.source <= slice as u64 {
                return Some(sent);
            }
            self.gathered[slice].packet += 1;
        }
        None
    }
}
