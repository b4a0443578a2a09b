//! Switch engine: which packets of which slices a slice receives, in which order (paper section IV-B;
//! topologies from the vISA book, switch engine).

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::exec::Switch;
use tilewright_tcp_isa::switch;
use tilewright_tcp_isa::switch::{Ring, Topology};

use super::fault::ExecProblem;
use super::packets::Packets;
use crate::limits::index;

/// An exchange between the slices of a group.
pub(super) struct SwitchExchange<'a> {
    image: &'a Switch,
    packets: u64,
}

impl<'a> SwitchExchange<'a> {
    /// Checks that so many slices can exchange so many packets each.
    pub(super) fn new(
        machine: &Tcp,
        image: &'a Switch,
        slices: u64,
        packets: u64,
    ) -> Result<Self, ExecProblem> {
        switch::check(machine, image.topology, slices, packets).map_err(ExecProblem::Switch)?;
        if let Topology::Custom(ring) = image.topology {
            let named = |sources: &Vec<u16>| sources.iter().all(|source| u64::from(*source) < ring);
            if image.sources.len() as u64 != ring || !image.sources.iter().all(named) {
                return Err(ExecProblem::Setting(
                    "a custom topology needs sources for each slice of a ring, each within the ring",
                ));
            }
        }
        Ok(SwitchExchange { image, packets })
    }

    /// Packets that a slice receives.
    pub(super) fn received(&self, slice: u64) -> u64 {
        match self.image.topology {
            Topology::Custom(ring) => {
                let kept = self.image.sources.get(index(slice % ring.max(1)));
                let kept =
                    kept.or_broken("a custom topology names the sources of each slice of a ring").len();
                self.packets.exact_mul(kept as u64)
            }
            topology => switch::delivered_packets(topology, self.packets),
        }
    }

    /// Numbers what slices receive: those with the same number receive the same.
    pub(super) fn stream_of(&self, slice: u64) -> u64 {
        match self.image.topology {
            Topology::Broadcast01(ring, _) => RingPosition::of(slice, ring.slice1, ring.slice0).ring,
            Topology::Broadcast1(ring) => {
                let at = RingPosition::of(slice, ring.slice1, ring.slice0);
                at.ring * ring.slice0 + at.inner
            }
            Topology::TransposedBroadcast1(ring) => {
                let at = RingPosition::of(slice, ring.slice0, ring.slice1);
                at.ring * ring.slice1 + at.inner
            }
            _ => slice,
        }
    }

    /// What a slice receives of what all send.
    pub(super) fn deliver(&self, sent: &[Packets], slice: u64) -> Packets {
        let packet_bytes = sent.first().map_or(0, |packets| packets.packet_bytes);
        let room = index(self.received(slice)).exact_mul(packet_bytes);
        let wide = sent.iter().any(|packets| packets.extra.is_some());
        let mut bytes = Vec::with_capacity(room);
        let mut extra = wide.then(|| Vec::with_capacity(room));
        self.each_source(slice, |source, time, count| {
            let Some(from) = sent.get(index(source)) else { return };
            let range = index(time) * packet_bytes..index(time + count) * packet_bytes;
            bytes.extend_from_slice(
                from.bytes.get(range.clone()).or_broken("all slices send the same packets"),
            );
            if let Some(extra) = &mut extra {
                match &from.extra {
                    Some(plane) => {
                        extra.extend_from_slice(plane.get(range).or_broken("extra bits of all bytes"));
                    }
                    None => extra.resize(bytes.len(), 0),
                }
            }
        });
        Packets { bytes, extra, packet_bytes }
    }

    /// Calls `visit` with source slice and first source time of packets, and how many they are, in the order
    /// in which they arrive.
    fn each_source(&self, slice: u64, mut visit_all: impl FnMut(u64, u64, u64)) {
        let all = self.packets;
        let mut visit = |source: u64, time: u64| visit_all(source, time, 1);
        match self.image.topology {
            Topology::Forwarding => visit_all(slice, 0, all),
            Topology::Broadcast01(ring, time0) if ring.slice0 == 1 => {
                let at = RingPosition::of(slice, ring.slice1, ring.slice0);
                for t1 in 0..all / time0.max(1) {
                    (0..ring.slice1).for_each(|s1| visit_all(at.slice(ring, s1, 0), t1 * time0, time0));
                }
            }
            Topology::Broadcast01(ring, time0) => {
                let at = RingPosition::of(slice, ring.slice1, ring.slice0);
                for t1 in 0..all / time0.max(1) {
                    for s1 in 0..ring.slice1 {
                        for t0 in 0..time0 {
                            (0..ring.slice0).for_each(|s0| visit(at.slice(ring, s1, s0), t1 * time0 + t0));
                        }
                    }
                }
            }
            Topology::Broadcast1(ring) => {
                let at = RingPosition::of(slice, ring.slice1, ring.slice0);
                for time in 0..all {
                    (0..ring.slice1).for_each(|s1| visit(at.slice(ring, s1, at.inner), time));
                }
            }
            Topology::Transpose(ring) => {
                let at = RingPosition::of(slice, ring.slice0, ring.slice1);
                let source = at.slice(ring, at.inner, at.outer);
                (0..all).for_each(|time| visit(source, time));
            }
            Topology::InterTranspose(ring, time0) => {
                let at = RingPosition::of(slice, ring.slice1, ring.slice0);
                for t2 in 0..all / (ring.slice1 * time0).max(1) {
                    for t0 in 0..time0 {
                        let time = (t2 * ring.slice1 + at.outer) * time0 + t0;
                        (0..ring.slice1).for_each(|s1| visit(at.slice(ring, s1, at.inner), time));
                    }
                }
            }
            Topology::TransposedBroadcast1(ring) => {
                let at = RingPosition::of(slice, ring.slice0, ring.slice1);
                for time in 0..all {
                    (0..ring.slice0).for_each(|s0| visit(at.slice(ring, at.inner, s0), time));
                }
            }
            Topology::Custom(ring) => self.each_kept(slice, ring, visit),
        }
    }

    fn each_kept(&self, slice: u64, ring: u64, mut visit: impl FnMut(u64, u64)) {
        let first = slice - slice % ring.max(1);
        let kept = self.image.sources.get(index(slice - first)).cloned();
        let mut kept = kept.or_broken("a custom topology names the sources of each slice of a ring");
        kept.sort_unstable();
        for time in 0..self.packets {
            kept.iter().for_each(|source| visit(first + u64::from(*source), time));
        }
    }
}

/// A slice number taken apart: the ring it is in, and an outer and an inner digit within it.
struct RingPosition {
    ring: u64,
    outer: u64,
    inner: u64,
}

impl RingPosition {
    fn of(slice: u64, outer: u64, inner: u64) -> RingPosition {
        let ring = slice / (outer * inner).max(1);
        RingPosition { ring, outer: slice / inner.max(1) % outer.max(1), inner: slice % inner.max(1) }
    }

    /// The slice of the same ring with other digits.
    fn slice(&self, ring: Ring, s1: u64, s0: u64) -> u64 {
        (self.ring * ring.slice1 + s1) * ring.slice0 + s0
    }
}
